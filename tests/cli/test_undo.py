"""`undo`: what a session did is taken back, and what you did is not lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.cli.main import main
from bygones.errors import ExitCode
from bygones.files.events import Place
from bygones.files.history import FileAt
from bygones.files.replay import Version, VersionKind
from bygones.files.undo import UndoAction, merge_texts, plan_undo
from bygones.files.undo_journal import UndoStore
from bygones.model.base import SessionId
from tests.build import Home, session_id
from tests.files.story import Story

ONE = "".join(f"line {number}\n" for number in range(1, 10))
TWO = ONE.replace("line 2\n", "two\n")


@pytest.fixture
def project(home_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a project in which the second turn changed one file and created another."""
    folder = home_dir / "project"
    folder.mkdir()
    path = str(folder / "app.py")
    outside = str(home_dir / "outside.py")
    story = Story(session_id(1))
    story.say("Look")
    story.read(ONE, path=path)
    story.say("Change")
    story.edit("line 2\n", "two\n", ONE, path=path)
    story.write("new\n", path=str(folder / "new.py"))
    story.edit("a", "b", "a\n", path=outside)
    for record in story.records:
        record["cwd"] = str(folder)
    home = Home(home_dir / ".claude")
    story.write_to(home)
    (folder / "app.py").write_text(TWO, "utf-8")
    (folder / "new.py").write_text("new\n", "utf-8")
    (home_dir / "outside.py").write_text("b\n", "utf-8")
    Archive.ingest(home_dir / "archive", [home.path])
    monkeypatch.chdir(folder)
    return folder


def undo(*words: str) -> int:
    return main(["undo", *words])


@pytest.mark.req("FV5")
def test_undo_restores_and_deletes_and_can_be_undone(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "app.py").chmod(0o640)
    assert undo("last:2", "--dry-run") == ExitCode.FAILURE  # one file is outside
    assert (project / "app.py").read_text("utf-8") == TWO

    assert undo("last:2", "--yes") == ExitCode.FAILURE
    assert (project / "app.py").read_text("utf-8") == ONE
    assert (project / "app.py").stat().st_mode & 0o777 == 0o640
    assert not (project / "new.py").exists()
    assert (project.parent / "outside.py").read_text("utf-8") == "b\n"
    stdout = capsys.readouterr().out
    assert "+line 2" in stdout
    assert "outside of the project" in stdout

    assert undo("--undo", "--yes") == ExitCode.SUCCESS
    assert (project / "app.py").read_text("utf-8") == TWO
    assert (project / "new.py").read_text("utf-8") == "new\n"


def test_a_deleted_program_can_be_run_after_the_undo_is_undone(project: Path) -> None:
    (project / "new.py").chmod(0o755)
    assert undo("last:2", "new.py", "--yes") == ExitCode.SUCCESS
    for _ in range(3):
        assert undo("--undo", "--yes") == ExitCode.SUCCESS
    assert (project / "new.py").stat().st_mode & 0o777 == 0o755


def test_a_file_in_a_read_only_folder_is_skipped_and_others_are_undone(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Root may write to any folder.
    outside = project.parent
    monkeypatch.setattr(os, "access", lambda path, _mode: Path(path) != outside)

    assert undo("last:2", "../outside.py", "app.py", "--yes") == ExitCode.FAILURE
    assert (project / "app.py").read_text("utf-8") == ONE
    assert (outside / "outside.py").read_text("utf-8") == "b\n"
    assert "its folder is read-only" in capsys.readouterr().out


def test_a_named_file_outside_of_the_project_is_undone(project: Path) -> None:
    assert undo("last:2", "../outside.py", "--yes") == ExitCode.SUCCESS
    assert (project.parent / "outside.py").read_text("utf-8") == "a\n"
    assert (project / "app.py").read_text("utf-8") == TWO


def test_changes_of_the_user_in_other_lines_are_kept(project: Path) -> None:
    (project / "app.py").write_text(TWO + "mine\n", "utf-8")

    assert undo("last:2", "app.py", "--yes") == ExitCode.SUCCESS
    assert (project / "app.py").read_text("utf-8") == ONE + "mine\n"


def test_second_undo_with_own_changes_does_nothing(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "app.py").write_text(TWO + "mine\n", "utf-8")
    assert undo("last:2", "app.py", "--yes") == ExitCode.SUCCESS
    capsys.readouterr()

    assert undo("last:2", "app.py", "--yes") == ExitCode.SUCCESS
    assert "nothing to undo" in capsys.readouterr().err
    assert undo("--undo", "--yes") == ExitCode.SUCCESS
    assert (project / "app.py").read_text("utf-8") == TWO + "mine\n"


def test_changes_that_are_not_explained_are_not_overwritten_without_force(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = TWO.replace("two\n", "two, and mine\n")
    (project / "app.py").write_text(mine, "utf-8")

    assert undo("last:2", "app.py", "--yes") == ExitCode.FAILURE
    assert (project / "app.py").read_text("utf-8") == mine
    assert "--force" in capsys.readouterr().err

    assert undo("last:2", "app.py", "--yes", "--force") == ExitCode.SUCCESS
    assert (project / "app.py").read_text("utf-8") == ONE
    assert undo("--undo", "--yes") == ExitCode.SUCCESS
    assert (project / "app.py").read_text("utf-8") == mine


def test_an_undo_is_not_taken_back_over_newer_changes(project: Path) -> None:
    assert undo("last:2", "app.py", "--yes") == ExitCode.SUCCESS
    (project / "app.py").write_text("newer\n", "utf-8")

    assert undo("--undo", "--yes") == ExitCode.FAILURE
    assert (project / "app.py").read_text("utf-8") == "newer\n"


def test_all_files_of_an_undo_are_restored_together(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert undo("last:2", "app.py", "new.py", "--yes") == ExitCode.SUCCESS
    (project / "app.py").write_text("newer\n", "utf-8")
    capsys.readouterr()

    assert undo("--undo", "--yes") == ExitCode.FAILURE
    assert not (project / "new.py").exists()
    output = capsys.readouterr()
    assert "it was changed since" in output.out
    assert "--force" in output.err

    assert undo("--undo", "--yes", "--force") == ExitCode.SUCCESS
    assert (project / "app.py").read_text("utf-8") == TWO
    assert (project / "new.py").read_text("utf-8") == "new\n"
    assert undo("--undo", "--yes") == ExitCode.SUCCESS
    assert (project / "app.py").read_text("utf-8") == "newer\n"


def test_an_undo_is_not_taken_back_through_a_link(
    project: Path, home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert undo("last:2", "new.py", "--yes") == ExitCode.SUCCESS
    (home_dir / "elsewhere").mkdir()
    project.rename(home_dir / "other")
    project.symlink_to(home_dir / "elsewhere")

    assert undo("--undo", "--yes", "--force") == ExitCode.FAILURE
    assert "is a link" in capsys.readouterr().out
    assert list((home_dir / "elsewhere").iterdir()) == []


def test_a_turn_is_undone_in_a_moved_project(
    project: Path, home_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = project.rename(home_dir / "renamed")
    monkeypatch.chdir(moved)
    assert main(["move", str(project), str(moved), "--yes"]) == ExitCode.SUCCESS

    assert undo("last:2", "app.py", "new.py", "--yes") == ExitCode.SUCCESS
    assert (moved / "app.py").read_text("utf-8") == ONE
    assert not (moved / "new.py").exists()
    assert not project.exists()


def test_line_ends_and_byte_order_mark_are_kept(project: Path) -> None:
    raw = b"\xef\xbb\xbf" + TWO.replace("\n", "\r\n").encode()
    (project / "app.py").write_bytes(raw)

    assert undo("last:2", "app.py", "--yes") == ExitCode.SUCCESS
    assert (project / "app.py").read_bytes() == raw.replace(b"two", b"line 2")


@pytest.mark.parametrize("kind", ["link", "hard link", "folder"])
def test_no_link_is_followed(
    kind: str, project: Path, home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = home_dir / "elsewhere.py"
    target.write_text(TWO, "utf-8")
    path = project / "app.py"
    path.unlink()
    if kind == "link":
        path.symlink_to(target)
    elif kind == "hard link":
        os.link(target, path)
    else:
        path.mkdir()

    assert undo("last:2", str(path), "--yes", "--force") == ExitCode.FAILURE
    assert target.read_text("utf-8") == TWO
    assert "skipped" in capsys.readouterr().out


def test_confirmed_undo_is_done_even_if_its_output_is_not_read(project: Path) -> None:
    words = [sys.executable, "-m", "bygones", "undo", "last:2", "app.py", "--yes"]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()

    assert (project / "app.py").read_text("utf-8") == ONE


@pytest.mark.usefixtures("project")
def test_undo_without_confirmation_changes_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert undo("last:2") == ExitCode.USAGE_ERROR
    assert "--yes" in capsys.readouterr().err
    assert undo("last") == ExitCode.USAGE_ERROR
    assert undo() == ExitCode.USAGE_ERROR
    assert undo("last:2", "other.py") == ExitCode.USAGE_ERROR
    assert undo("--undo") == ExitCode.USAGE_ERROR  # there is none yet


def test_json_says_what_was_done(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert undo("last:2", "app.py", "--yes", "--json") == ExitCode.SUCCESS
    file, result = map(json.loads, capsys.readouterr().out.splitlines())

    assert (file["action"], file["added_lines"]) == ("write", 1)
    assert (result["written_count"], result["is_dry_run"]) == (1, False)
    assert project.exists()


@pytest.mark.req("FV6")
def test_purging_a_session_erases_what_undo_kept(project: Path, home_dir: Path) -> None:
    assert undo("last:2", "app.py", "--yes") == ExitCode.SUCCESS
    (entry,) = (home_dir / "archive" / "undo").glob("*-*")
    assert b"two" in entry.read_bytes()
    assert entry.stat().st_mode & 0o077 == 0

    assert main(["purge", "5e551000", "--yes"]) == ExitCode.SUCCESS
    assert [p.name for p in (home_dir / "archive" / "undo").iterdir()] == ["lock"]
    assert project.exists()


def test_a_failure_in_the_middle_changes_nothing(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patches:
        patches.setattr(Path, "unlink", _refuse_unlink)
        assert undo("last:2", "app.py", "new.py", "--yes") == ExitCode.FAILURE

    assert (project / "app.py").read_text("utf-8") == TWO
    assert (project / "new.py").exists()


@pytest.mark.parametrize("words", [("--undo", "--yes"), ("last:2", "app.py", "--yes")])
def test_the_next_undo_restores_files_after_an_interrupted_one(
    words: tuple[str, ...],
    project: Path,
    home_dir: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert undo("last:2", "app.py", "new.py", "--yes") == ExitCode.SUCCESS
    (entry,) = (home_dir / "archive" / "undo").glob("*-*")
    entry.rename(
        entry.with_name(f"{entry.name}.unfinished")
    )  # as if it had been killed

    assert undo("last:2", "--dry-run") == ExitCode.FAILURE
    assert "the next undo restores 2 files first" in capsys.readouterr().err
    assert undo(*words) == ExitCode.SUCCESS

    assert "an undo was interrupted" in capsys.readouterr().err
    assert (project / "new.py").read_text("utf-8") == "new\n"
    expected = TWO if words[0] == "--undo" else ONE
    assert (project / "app.py").read_text("utf-8") == expected


def test_what_cannot_be_put_back_after_a_failure_stays_in_the_archive(
    project: Path, home_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_and_refuse(self: Path, **more: bool) -> None:
        (project / "app.py").write_text("mine\n", "utf-8")
        _refuse_unlink(self, **more)

    with monkeypatch.context() as patches:
        patches.setattr(Path, "unlink", write_and_refuse)
        assert undo("last:2", "app.py", "new.py", "--yes") == ExitCode.FAILURE

    assert (project / "app.py").read_text("utf-8") == "mine\n"
    (record,) = UndoStore(home_dir / "archive").records()
    assert TWO.encode() in [entry.before for entry in record.entries]


def _refuse_unlink(self: Path, **_: bool) -> None:
    if self.name == "new.py":
        raise OSError(28, "No space left on device")
    os.unlink(self)  # noqa: PTH108 (the method is replaced)


def test_a_file_below_a_linked_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a.py").write_text("b\n", "utf-8")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "src").symlink_to(tmp_path / "elsewhere")
    version = Version(
        number=0,
        path="",
        kind=VersionKind.CLAUDE,
        place=Place(session_id=SessionId("s")),
    )
    for name in ("project/src/a.py", "project/.git/hooks/x", "project/../a.py", "b.py"):
        path = str(tmp_path / name)
        target = FileAt(path=path, version=version, text="a\n")
        trusted = [tmp_path / "project"]

        (plan,) = plan_undo([target], {}, trusted=trusted, force=True)

        assert plan.action is UndoAction.SKIP


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "merged"),
    [
        ("a\nb\nc\n", "a\nB\nc\n", "a\nb\nc\nd\n", "a\nB\nc\nd\n"),
        ("a\nb\nc\n", "a\nB\nc\n", "a\nX\nc\n", None),
        ("a\nb\nc\n", "a\nB\nc\n", "a\nB\nc\n", "a\nB\nc\n"),
        ("a\n", "a\n", "b\n", "b\n"),
    ],
)
def test_merge_of_undo_with_later_changes(
    base: str, ours: str, theirs: str, merged: str | None
) -> None:
    assert merge_texts(base, ours, theirs) == merged


def _abandon(home_dir: Path, live: str) -> Path:
    """Return a file with an edit on an abandoned branch, and `live` on the live one."""
    folder = home_dir / "branches"
    folder.mkdir()
    path = folder / "app.py"
    story = Story(session_id(2), "b")
    story.say("Create")
    first = story.write(ONE, path=str(path))
    story.say("Try this")
    story.edit("line 2\n", "tried\n", ONE, path=str(path))
    story.write("tried\n", path=str(folder / "tried.py"))
    story.rewind(first)
    story.say("Do that instead")
    story.write(live, before=ONE, path=str(path))
    for record in story.records:
        record["cwd"] = str(folder)
    home = Home(home_dir / ".claude")
    story.write_to(home)
    path.write_text(live, "utf-8")
    (folder / "tried.py").write_text("tried\n", "utf-8")
    Archive.ingest(home_dir / "archive", [home.path])
    return path


@pytest.mark.parametrize("force", [(), ("--force",)])
@pytest.mark.parametrize("line", ["line 2\n", "line 8\n"])
def test_undo_of_an_abandoned_turn_keeps_live_changes(
    home_dir: Path, line: str, force: tuple[str, ...]
) -> None:
    live = ONE.replace(line, "live\n")
    path = _abandon(home_dir, live)

    assert undo(f"{session_id(2)}:2", "--branch", "2", "-y", *force) == 0

    assert path.read_text("utf-8") == live
    # What only the abandoned branch wrote is gone.
    assert not (path.parent / "tried.py").exists()


def test_undo_of_an_abandoned_turn_removes_what_is_still_there(home_dir: Path) -> None:
    both = ONE.replace("line 2\n", "tried\n").replace("line 8\n", "live\n")
    path = _abandon(home_dir, both)

    assert undo(f"{session_id(2)}:2~2", "-y") == ExitCode.SUCCESS

    assert path.read_text("utf-8") == ONE.replace("line 8\n", "live\n")


def test_live_changes_in_lines_of_an_abandoned_turn_are_never_overwritten(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    live = ONE.replace("line 2\n", "tried\nand live\n")
    path = _abandon(home_dir, live)

    assert undo(f"{session_id(2)}:2~2", "-y", "--force") == ExitCode.FAILURE

    assert path.read_text("utf-8") == live
    assert "changed since the abandoned branch" in capsys.readouterr().out


def test_a_file_that_was_deleted_since_is_skipped(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "app.py").unlink()

    assert undo("last:2", "app.py", "--yes") == ExitCode.FAILURE
    assert "app.py: it was deleted or renamed since" in capsys.readouterr().out


def rename_in_second_turn(
    home_dir: Path, command: str, *, is_edited_later: bool = True
) -> Path:
    """Return a project in which a command renamed `old.py` between two edits."""
    folder = home_dir / "renamed"
    folder.mkdir()
    old, new = str(folder / "old.py"), str(folder / "new.py")
    story = Story(session_id(1))
    story.say("Change")
    story.edit("line 2\n", "two\n", ONE, path=old)
    story.say("Rename")
    story.bash(command)
    if is_edited_later:
        story.say("Change again")
        story.edit("line 9\n", "nine\n", TWO, path=new)
    for record in story.records:
        record["cwd"] = str(folder)
    home = Home(home_dir / ".claude")
    story.write_to(home)
    text = TWO.replace("line 9\n", "nine\n") if is_edited_later else TWO
    Path(new).write_text(text, "utf-8")
    Archive.ingest(home_dir / "archive", [home.path])
    return folder


@pytest.mark.parametrize("command", ["git mv old.py new.py", "mv old.py new.py"])
def test_an_edit_after_a_rename_is_undone_at_the_new_path(
    home_dir: Path, command: str
) -> None:
    folder = rename_in_second_turn(home_dir, command)

    assert undo("last:3", "--yes") == ExitCode.SUCCESS
    assert (folder / "new.py").read_text("utf-8") == TWO
    assert not (folder / "old.py").exists()


@pytest.mark.parametrize(("turn", "text"), [(1, ONE), (2, TWO)])
def test_undo_before_a_rename_restores_the_former_path(
    home_dir: Path, turn: int, text: str
) -> None:
    folder = rename_in_second_turn(home_dir, "git mv old.py new.py")
    (folder / "new.py").chmod(0o755)

    assert undo(f"last:{turn}", "--yes") == ExitCode.SUCCESS
    assert (folder / "old.py").read_text("utf-8") == text
    assert (folder / "old.py").stat().st_mode & 0o777 == 0o755
    assert not (folder / "new.py").exists()
    assert undo("--undo", "--yes") == ExitCode.SUCCESS
    assert not (folder / "old.py").exists()
    assert "nine" in (folder / "new.py").read_text("utf-8")


def test_undo_before_a_rename_that_may_have_replaced_a_file_says_so(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = rename_in_second_turn(home_dir, "mv old.py new.py")

    assert undo("last:1", "--yes") == ExitCode.FAILURE
    assert (folder / "old.py").read_text("utf-8") == ONE
    assert (folder / "new.py").exists()
    reason = f"its content before is not known; it was renamed from {folder / 'old.py'}"
    assert reason in capsys.readouterr().out


@pytest.mark.parametrize("command", ["git mv old.py new.py", "mv old.py new.py"])
def test_cat_before_a_rename_names_the_former_path(
    home_dir: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    folder = rename_in_second_turn(home_dir, command)
    name = f"{folder / 'new.py'}@last:2"

    assert main(["cat", name, "--before"]) == ExitCode.FAILURE
    assert "its path was ~/renamed/old.py" in capsys.readouterr().err
    assert main(["cat", f"{folder / 'old.py'}@last:2"]) == ExitCode.FAILURE
    assert "did not exist" in capsys.readouterr().err


def test_undo_of_a_rename_alone_names_the_command(
    home_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = "git mv old.py new.py"
    folder = rename_in_second_turn(home_dir, command, is_edited_later=False)

    assert undo("last:2", "--yes") == ExitCode.SUCCESS
    assert (folder / "old.py").read_text("utf-8") == TWO
    assert (folder / "new.py").exists()
    assert f"(removed or renamed by: {command})" in capsys.readouterr().out
