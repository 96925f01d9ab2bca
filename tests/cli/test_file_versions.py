"""`blame`, `cat` and `diff` on the command line."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.cli.main import main
from bygones.errors import ExitCode
from tests.build import Home, session_id
from tests.files.story import Story

ONE = "one\ntwo\nthree\n"


@pytest.fixture
def project(home_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a project in which a session changed a file, on two branches."""
    folder = home_dir / "project"
    (folder / "src").mkdir(parents=True)
    path = str(folder / "src" / "app.py")
    story = Story(session_id(1))
    story.say("Create the file")
    fork = story.write(ONE, path=path)
    story.say("Try this")
    story.edit("two", "ABANDONED", ONE, path=path)
    story.rewind(fork)
    story.say("Change the \x1b[31msecond line")
    story.edit("two", "2\tx", ONE, path=path)
    story.write("evil\n", path=str(folder / ".." / ".." / "etc" / "passwd"))
    home = Home(home_dir / ".claude")
    for record in story.records:
        record["cwd"] = str(folder)
    story.write_to(home)
    (folder / "src" / "app.py").write_text("one\n2\tx\nthree\nmine\n", "utf-8")
    Archive.ingest(home_dir / "archive", [home.path])
    monkeypatch.chdir(folder)
    return folder


def json_rows(
    capsys: pytest.CaptureFixture[str], *words: str
) -> list[dict[str, object]]:
    assert main([*words, "--json"]) == ExitCode.SUCCESS
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.usefixtures("project")
def test_blame_names_the_turn_of_each_line(capsys: pytest.CaptureFixture[str]) -> None:
    found = json_rows(capsys, "blame", "src/app.py")

    assert [row["origin"] for row in found] == ["claude", "claude", "claude", "user"]
    assert [row["turn_number"] for row in found] == [1, 2, 1, None]
    assert [row["certainty"] for row in found] == ["certain"] * 3 + ["likely"]
    assert found[0]["prompt"] == "Create the file"


def test_blame_of_a_deleted_file_shows_its_last_version(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(home_dir / "gone.py")
    story = Story(session_id(2))
    story.say("Create and delete")
    story.write("one\n", path=path)
    story.bash("rm gone.py", [{"filePath": path, "hunks": [], "deleted": True}])
    home = Home(home_dir / ".claude")
    story.write_to(home)
    Archive.ingest(home_dir / "archive", [home.path])

    assert main(["blame", path]) == ExitCode.SUCCESS

    captured = capsys.readouterr()
    assert "claude     1  one" in captured.out
    assert captured.err == (
        "note: ~/gone.py is not on disk; this is its last version\n"
    )


def test_file_that_only_an_abandoned_branch_wrote_is_reported(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(home_dir / "gone.py")
    story = Story(session_id(2))
    story.say("Create")
    first = story.write("x\n", path=str(home_dir / "other.py"))
    story.say("Try this")
    story.write("one\n", path=path)
    story.rewind(first)
    story.say("Something else")
    story.edit("x", "y", "x\n", path=str(home_dir / "other.py"))
    home = Home(home_dir / ".claude")
    story.write_to(home)
    Archive.ingest(home_dir / "archive", [home.path])

    assert main(["blame", path]) == ExitCode.SUCCESS

    assert "only abandoned branches changed it" in capsys.readouterr().err


def test_file_of_live_and_abandoned_branches_without_versions_is_not_called_abandoned(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(home_dir / "gone.py")
    story = Story(session_id(2))
    story.say("Start")
    first = story.write("x\n", path=str(home_dir / "other.py"))
    story.say("Try this")
    story.edit("one", "two", None, path=path)
    story.rewind(first)
    story.say("Or this")
    story.edit("one", "three", None, path=path)
    home = Home(home_dir / ".claude")
    story.write_to(home)
    Archive.ingest(home_dir / "archive", [home.path])

    assert main(["blame", path]) == ExitCode.SUCCESS

    assert "no version of it is recorded as a whole" in capsys.readouterr().err


def test_blame_by_the_end_of_a_path_reads_the_file_and_names_it(
    project: Path,
    home_dir: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(home_dir)

    assert main(["blame", "src/app.py"]) == ExitCode.SUCCESS

    captured = capsys.readouterr()
    assert captured.err == "note: this is ~/project/src/app.py\n"
    assert "mine" in captured.out
    assert (project / "src" / "app.py").exists()


def test_project_that_was_moved_without_a_word_is_compared_and_not_undone(
    project: Path,
    home_dir: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moved = project.rename(home_dir / "renamed")
    monkeypatch.chdir(moved)

    (row,) = json_rows(capsys, "diff", "src/app.py@last:2")
    assert (row["path"], row["added_lines"]) == (str(moved / "src" / "app.py"), 1)

    assert main(["undo", "last:2", "--dry-run"]) == ExitCode.USAGE_ERROR
    assert "run `bygones move ~/project NEW` first" in capsys.readouterr().err


def test_files_are_found_after_their_project_was_moved(
    project: Path,
    home_dir: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moved = project.rename(home_dir / "renamed")
    monkeypatch.chdir(moved)
    # Another project has a file of the same name.
    other = Story(session_id(3), "other")
    other.say("Create")
    other.write("other\n", path=str(home_dir / "other" / "src" / "app.py"))
    other.write_to(Home(home_dir / ".claude"))
    assert main(["move", str(project), str(moved), "--yes"]) == ExitCode.SUCCESS
    # The project is continued under its new name.
    later = Story(session_id(2), "later")
    later.say("Continue")
    before = "one\n2\tx\nthree\n"
    later.edit("three", "3", before, path=str(moved / "src" / "app.py"))
    for record in later.records:
        record["timestamp"] = str(record["timestamp"]).replace("2026-01", "2026-02")
    later.write_to(Home(home_dir / ".claude"))
    (moved / "src" / "app.py").write_text("one\n2\tx\n3\n", "utf-8")
    capsys.readouterr()

    rows = json_rows(capsys, "blame", "src/app.py")
    named = [row["session_id"] for row in rows]
    assert named == [session_id(1), session_id(1), session_id(2)]
    old = session_id(1)
    assert main(["cat", f"src/app.py@{old}:1"]) == ExitCode.SUCCESS
    assert capsys.readouterr().out == ONE
    (row,) = json_rows(capsys, "diff", f"src/app.py@{old}:2")
    assert (row["path"], row["state"]) == (str(moved / "src" / "app.py"), "changed")


def test_fork_of_an_abandoned_branch_does_not_bring_back_its_changes(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = home_dir / "app.py"
    story = Story(session_id(1))
    story.say("Create")
    first = story.write(ONE, path=str(path))
    story.say("Try this")
    story.edit("one", "ABANDONED", ONE, path=str(path))
    story.rewind(first)
    story.say("Change the second line")
    story.edit("two", "2", ONE, path=str(path))
    for record in story.records:
        record["cwd"] = str(home_dir)
    home = Home(home_dir / ".claude")
    story.write_to(home)
    path.write_text(ONE.replace("two", "2"), "utf-8")
    Archive.ingest(home_dir / "archive", [home.path])
    before = json_rows(capsys, "blame", str(path))
    assert [row["turn_number"] for row in before] == [1, 2, 1]

    assert main(["fork", "last", "--branch", "2", "--json"]) == ExitCode.SUCCESS
    fork = json.loads(capsys.readouterr().out)["session_id"]

    assert json_rows(capsys, "blame", str(path)) == before
    assert main(["cat", f"{path}@{session_id(1)}:2"]) == ExitCode.SUCCESS
    assert capsys.readouterr().out == ONE.replace("two", "2")
    assert main(["cat", f"{path}@{fork}"]) == ExitCode.SUCCESS
    assert capsys.readouterr().out == ONE.replace("one", "ABANDONED")


def _fork(story: Story, number: int, ids: list[str]) -> Story:
    """Return a session with copies of some records, which can be continued."""
    name = session_id(number)
    fork = Story(name, f"fork{number}-")
    for record in story.records:
        if record["uuid"] in ids:
            origin = {"sessionId": story.session, "messageUuid": record["uuid"]}
            fork.records.append(record | {"sessionId": name, "forkedFrom": origin})
    fork.seconds = story.seconds + 100 * number
    fork.rewind(ids[-1])
    return fork


@pytest.fixture
def forked(home_dir: Path) -> Path:
    """Return a file of a session of which both branches were forked and continued."""
    path = home_dir / "app.py"
    story = Story(session_id(1))
    story.say("Create")
    first = story.write(ONE, path=str(path))
    start = [str(record["uuid"]) for record in story.records]
    story.say("Try this")
    story.edit("one", "ABANDONED", ONE, path=str(path))
    abandoned = [str(record["uuid"]) for record in story.records]
    story.rewind(first)
    story.say("Change the second line")
    story.edit("two", "2", ONE, path=str(path))
    live = [str(record["uuid"]) for record in story.records]
    live = [*start, *(one for one in live if one not in abandoned)]
    continued = _fork(story, 2, live)
    continued.say("Change the third line")
    continued.edit("three", "3", "one\n2\nthree\n", path=str(path))
    revived = _fork(story, 3, abandoned)
    revived.say("Something else")
    revived.write("x\n", path=str(home_dir / "other.py"))
    home = Home(home_dir / ".claude")
    for each in (story, continued, revived):
        for record in each.records:
            record["cwd"] = str(home_dir)
        each.write_to(home)
    path.write_text("one\n2\n3\n", "utf-8")
    Archive.ingest(home_dir / "archive", [home.path])
    return path


def test_copied_edits_of_a_continued_fork_count_once(
    forked: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = json_rows(capsys, "files", str(forked))

    found = [
        (row["session_id"], row["is_abandoned"], row["change_count"]) for row in rows
    ]
    assert sorted(found, key=str) == [
        (session_id(1), False, 2),
        (session_id(1), True, 1),
        (session_id(2), False, 1),
    ]
    # The session itself contains all of them.
    (row,) = json_rows(capsys, "files", session_id(2))
    assert row["change_count"] == 3


def test_continued_fork_of_an_abandoned_branch_does_not_bring_back_its_changes(
    forked: Path, capsys: pytest.CaptureFixture[str], home_dir: Path
) -> None:
    rows = json_rows(capsys, "blame", str(forked))

    found = [(row["session_id"], row["turn_number"], row["certainty"]) for row in rows]
    assert found == [
        (session_id(1), 1, "certain"),
        (session_id(1), 2, "certain"),
        (session_id(2), 3, "certain"),
    ]
    with Archive(home_dir / "archive") as archive:
        versions = archive.file(str(forked)).versions
    sessions = [version.place.session_id for version in versions]
    assert sessions == [session_id(1), session_id(1), session_id(2)]
    assert main(["cat", f"{forked}@{session_id(3)}:2"]) == ExitCode.SUCCESS
    assert capsys.readouterr().out == ONE.replace("one", "ABANDONED")


def test_name_with_a_newline_stays_in_one_line_of_a_diff(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    story = Story(session_id(2))
    story.say("Create")
    story.write("one\n", path=str(home_dir / "a\n+++ b"))
    home = Home(home_dir / ".claude")
    story.write_to(home)
    Archive.ingest(home_dir / "archive", [home.path])

    assert main(["diff", "last:1"]) == ExitCode.SUCCESS

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f'--- "{home_dir}/a\\012+++ b"\t')
    assert len(lines) == 4


def test_linked_file_is_compared_with_a_commit(
    project: Path, home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        identity = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
        subprocess.run(["git", *identity, *words], check=True, cwd=project)
    path = project / "src" / "app.py"
    path.rename(home_dir / "elsewhere.py")
    path.symlink_to(home_dir / "elsewhere.py")

    (row,) = json_rows(capsys, "diff", "src/app.py@last:2", "git:HEAD")

    assert (row["added_lines"], row["removed_lines"]) == (1, 0)


@pytest.mark.usefixtures("project")
def test_blame_as_an_agent_trace(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["blame", "src/app.py", "--agent-trace"]) == ExitCode.SUCCESS

    record = json.loads(capsys.readouterr().out)
    ((file,), version) = record["files"], record["version"]
    claude, user = file["conversations"]
    assert (version, file["path"]) == ("0.1.0", "app.py")
    assert claude["url"] == f"urn:uuid:{session_id(1)}"
    assert claude["contributor"]["type"] == "ai"
    assert claude["contributor"]["model_id"].startswith("anthropic/claude-")
    assert [row["start_line"] for row in claude["ranges"]] == [1, 2, 3]
    assert user == {"contributor": {"type": "human"}, "ranges": user["ranges"]}


@pytest.mark.usefixtures("project")
def test_blame_of_a_line_shows_prompt_and_change(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["blame", "src/app.py:2"]) == ExitCode.SUCCESS

    stdout = capsys.readouterr().out
    assert "Change the second line" in stdout
    assert "\x1b" not in stdout
    assert "-two" in stdout
    assert "bygones show 5e551000 --around" in stdout


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["blame", "src/app.py:9"], "only 4 lines"),
        (["blame", "src/app.py:3-1"], "no valid lines"),
        (["blame", "nothing.py"], "no changed file"),
        (["blame", ""], "empty"),
        (["cat", "app.py@5e55:9"], "there is no turn 9"),
        (["cat", "app.py@5e55:x"], "not the number of a turn"),
        (["cat", "app.py@5e55", "--at", "2w"], "--at needs a file alone"),
        (["diff", "src/app.py", "disk"], "at least one turn"),
        (["diff", "app.py@5e55:1", "git:HEAD"], "not a commit"),
    ],
)
def test_bad_names_are_reported(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == ExitCode.USAGE_ERROR
    assert message in capsys.readouterr().err


@pytest.mark.usefixtures("project")
def test_cat_prints_the_file_of_a_turn_exactly(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for words, text in (
        (["src/app.py@5e55:1"], ONE),
        (["app.py@last:2"], "one\n2\tx\nthree\n"),
        (["app.py@last:2", "--before"], ONE),
        (["app.py@last:2", "--branch", "2"], "one\nABANDONED\nthree\n"),
        (["app.py"], "one\n2\tx\nthree\n"),
        (["app.py", "--at", "2026-01-05"], "one\n2\tx\nthree\n"),
    ):
        assert main(["cat", *words]) == ExitCode.SUCCESS
        assert capsys.readouterr().out == text


@pytest.mark.usefixtures("project")
def test_cat_says_that_a_file_did_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cat", "app.py@last:1", "--before"]) == ExitCode.FAILURE
    assert "did not exist" in capsys.readouterr().err


def test_copies_stay_below_the_folder_and_replace_nothing(
    project: Path, home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = home_dir / "out"
    written = json_rows(capsys, "cat", "last:2", "-o", str(target))

    paths = sorted(str(row["written_path"]) for row in written)
    assert len(paths) == 2
    assert all(path.startswith(f"{target}/") for path in paths)
    assert (target / "src" / "app.py").read_text("utf-8") == "one\n2\tx\nthree\n"
    assert sorted(p.name for p in target.rglob("*") if p.is_file()) == [
        "app.py",
        "passwd",
    ]

    (target / "src" / "app.py").write_text("other\n", "utf-8")
    assert main(["cat", "last:2", "-o", str(target)]) == ExitCode.FAILURE
    assert (target / "src" / "app.py").read_text("utf-8") == "other\n"
    assert project.exists()


@pytest.mark.usefixtures("project")
def test_copies_follow_no_link(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target, elsewhere = home_dir / "out", home_dir / "elsewhere"
    target.mkdir()
    elsewhere.mkdir()
    (target / "src").symlink_to(elsewhere)

    assert main(["cat", "app.py@last:2", "-o", str(target)]) == ExitCode.FAILURE
    assert list(elsewhere.iterdir()) == []
    assert "link" in capsys.readouterr().err


@pytest.mark.usefixtures("project")
def test_diff_compares_turns_and_the_disk(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "app.py@last:1", "app.py@last:2"]) == ExitCode.SUCCESS
    assert "-two\n+2\tx\n" in capsys.readouterr().out

    assert main(["diff", "app.py@last:2"]) == ExitCode.SUCCESS
    assert "+mine" in capsys.readouterr().out

    changed, created = json_rows(capsys, "diff", "last:1", "last:2")
    assert {changed["state"], created["state"]} == {"changed", "created"}
    assert sorted((changed["added_lines"], created["added_lines"])) == [1, 1]  # type: ignore[type-var]


def test_commits_of_a_session(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    story = Story(session_id(1))
    story.say("Commit")
    story.bash("git commit -m Fix", stdout="[main 1a2b3c4] Fix\n 1 file changed")
    story.bash(
        "git commit --amend",
        gitOperation={"commit": {"sha": "9f8e7d6c", "kind": "amended", "branch": "x"}},
    )
    story.bash("gh pr create", stdout="https://github.com/ann/shop/pull/7")
    story.bash("git log", stdout="[main 0000000] not a commit")
    home = Home(home_dir / ".claude")
    story.write_to(home)
    Archive.ingest(home_dir / "archive", [home.path])

    first, second, third = json_rows(capsys, "commits", "last")

    assert (first["sha"], first["summary"], first["git_branch"]) == (
        "1a2b3c4",
        "Fix",
        "main",
    )
    assert (second["sha"], second["kind"]) == ("9f8e7d6c", "amended")
    assert third["url"] == "https://github.com/ann/shop/pull/7"
    assert main(["commits", "last"]) == ExitCode.SUCCESS
    assert main(["commits", "nothing"]) == ExitCode.USAGE_ERROR


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    "words",
    [
        ("src/app.py@last:2", "--branch", "2"),
        ("src/app.py@last:2~2",),
        ("src/app.py@last~2",),
    ],
)
def test_blame_of_an_abandoned_branch(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    rows = json_rows(capsys, "blame", *words)

    assert [row["text"] for row in rows] == ["one", "ABANDONED", "three"]
    assert [row["turn_number"] for row in rows] == [1, 2, 1]
    assert rows[1]["branch_number"] == 2
    assert rows[1]["prompt"] == "Try this"


@pytest.mark.usefixtures("project")
def test_blame_of_a_line_at_a_turn(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["blame", "src/app.py:2@last:1"]) == ExitCode.SUCCESS
    assert "two" in capsys.readouterr().out
    assert main(["blame", "src/app.py:2@last:2~2"]) == ExitCode.SUCCESS
    assert "turn 2 of branch 2" in capsys.readouterr().out


@pytest.mark.usefixtures("project")
def test_blame_with_a_branch_alone_asks_for_a_session(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["blame", "src/app.py", "--branch", "2"]) == ExitCode.USAGE_ERROR
    assert "FILE@SESSION" in capsys.readouterr().err


@pytest.mark.usefixtures("project")
def test_sides_of_a_diff_have_branches_of_their_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (row,) = json_rows(capsys, "diff", "src/app.py@last:2~2", "src/app.py@last:2")
    assert "-ABANDONED" in str(row["diff"])
    assert "+2\tx" in str(row["diff"])
    name = session_id(1)[:8]
    assert f"{name}:2~2" in str(row["diff"])
    # The option is for sides that are named without a branch.
    rows = json_rows(capsys, "diff", "last:2~1", "last:2", "--branch", "2")
    changed = next(row for row in rows if str(row["path"]).endswith("app.py"))
    assert "+ABANDONED" in str(changed["diff"])


@pytest.mark.usefixtures("project")
def test_file_with_an_at_sign_is_not_a_session(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = home_dir / "logo@2x.svg"
    story = Story(session_id(2))
    story.say("Draw")
    story.write("<svg>\n", path=str(path))
    home = Home(home_dir / ".claude")
    story.write_to(home)
    Archive.ingest(home_dir / "archive", [home.path])

    assert main(["cat", "logo@2x.svg"]) == ExitCode.SUCCESS
    assert capsys.readouterr().out == "<svg>\n"
    (row,) = json_rows(capsys, "blame", "logo@2x.svg:1")
    assert row["text"] == "<svg>"


@pytest.mark.parametrize(
    ("time", "text"),
    [
        ("2026-01-01T10:04Z", "one\n"),
        ("2026-01-01T10:05Z", "two\n"),
        ("2026-01-01T10:05:00Z", "two\n"),
        ("2026-01-01T10:04:59Z", "one\n"),
        ("2026-01-01T10:04:30.500Z", "one\n"),
        ("2026-01-01", "two\n"),
    ],
)
def test_time_includes_the_minute_or_day_that_it_names(
    home_dir: Path, capsys: pytest.CaptureFixture[str], time: str, text: str
) -> None:
    path = str(home_dir / "app.py")
    story = Story(session_id(1))
    story.say("Write")
    story.write("one\n", path=path)
    story.edit("one", "two", "one\n", path=path)
    for record in story.records[:3]:
        record["timestamp"] = "2026-01-01T10:04:30.000Z"
    for record in story.records[3:]:
        record["timestamp"] = "2026-01-01T10:05:00.000Z"
    home = Home(home_dir / ".claude")
    story.write_to(home)
    Archive.ingest(home_dir / "archive", [home.path])

    assert main(["cat", path, "--at", time]) == ExitCode.SUCCESS
    assert capsys.readouterr().out == text
