"""Versions of files: each way in which a transcript can be misread."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from bygones.files.disk import read_regular_file
from bygones.files.events import EventKind, FileEvent, Place, Replacement, decode_bytes
from bygones.files.history import BranchLog, FileHistory, files_at
from bygones.files.origins import OriginKind
from bygones.files.paths import path_key
from bygones.files.replay import (
    Cause,
    CheckResult,
    Replay,
    VersionKind,
    may_change,
)
from bygones.model.base import SessionId
from tests.build import CWD, SESSION, Home, delta, session_id, snapshot
from tests.files.story import FILE, Story, history, hunks, load

ONE = "one\ntwo\nthree\n"


def kinds(found: FileHistory) -> list[VersionKind]:
    return [version.kind for version in found.versions]


def origin_kinds(found: FileHistory) -> list[OriginKind]:
    return [origin.kind for origin in found.origins()][:-1]


def differences(found: FileHistory) -> int:
    return sum(check.result is CheckResult.DIFFERENT for check in found.checks)


@pytest.mark.req("FV1")
def test_writes_and_edits_make_versions(tmp_path: Path) -> None:
    story = Story()
    story.say("Create")
    story.write(ONE)
    story.say("Change")
    story.edit("two", "2", ONE)
    found = history(tmp_path, story)

    assert [found.text(0), found.text(1)] == [ONE, "one\n2\nthree\n"]
    assert kinds(found) == [VersionKind.CLAUDE, VersionKind.CLAUDE]
    assert [
        origin.place.turn_number for origin in found.origins()[:3] if origin.place
    ] == [
        0,
        1,
        0,
    ]


def test_lines_from_before_the_first_edit_are_not_claudes(tmp_path: Path) -> None:
    story = Story()
    story.say("Change")
    story.edit("two", "2", ONE)
    found = history(tmp_path, story)

    assert origin_kinds(found) == [
        OriginKind.BEFORE,
        OriginKind.CLAUDE,
        OriginKind.BEFORE,
    ]


@pytest.mark.req("FV2")
def test_edits_of_an_abandoned_branch_do_not_leak(tmp_path: Path) -> None:
    story = Story()
    story.say("Create")
    fork = story.write(ONE)
    story.say("Abandoned")
    story.edit("two", "ABANDONED", ONE)
    story.rewind(fork)
    story.say("Instead")
    story.edit("three", "3", ONE)
    found = history(tmp_path, story)

    assert found.text() == "one\ntwo\n3\n"
    assert differences(found) == 0
    abandoned = history(tmp_path, story, branch=1)
    assert abandoned.text() == "one\nABANDONED\nthree\n"


def test_rewind_of_the_conversation_alone_is_a_change_from_outside(
    tmp_path: Path,
) -> None:
    story = Story()
    story.say("Create")
    fork = story.write(ONE)
    story.say("Abandoned, but left on disk")
    story.edit("two", "ABANDONED", ONE)
    story.rewind(fork)
    story.say("Instead")
    story.edit("three", "3", "one\nABANDONED\nthree\n")
    found = history(tmp_path, story)

    outside = found.versions[1]
    assert (outside.kind, outside.cause) == (VersionKind.OUTSIDE, Cause.BRANCH)
    assert found.text() == "one\nABANDONED\n3\n"
    # The line is in the file, but no turn of the live branch wrote it.
    assert origin_kinds(found) == [
        OriginKind.CLAUDE,
        OriginKind.UNKNOWN,
        OriginKind.CLAUDE,
    ]


def test_edit_without_original_applies_to_the_known_content(tmp_path: Path) -> None:
    story = Story()
    story.say("Read and change")
    story.read(ONE)
    story.edit("two", "2", None)
    found = history(tmp_path, story)

    assert found.text() == "one\n2\nthree\n"


def test_edit_of_unknown_content_has_no_text_until_it_is_seen(tmp_path: Path) -> None:
    story = Story()
    story.say("Change")
    story.edit("two", "2", None)
    story.say("Read")
    story.read("one\n2\nthree\n")
    found = history(tmp_path, story)

    assert found.text(0) is None
    assert not found.versions[0].is_known
    assert found.text() == "one\n2\nthree\n"
    assert origin_kinds(found) == [
        OriginKind.BEFORE,
        OriginKind.CLAUDE,
        OriginKind.BEFORE,
    ]


def test_original_that_was_cut_is_not_a_difference(tmp_path: Path) -> None:
    text = "".join(f"line {number}\n" for number in range(500))
    story = Story()
    story.say("Create")
    story.write(text)
    story.say("Change")
    story.edit("line 400\n", "changed\n", text[:1200], structuredPatch=[])
    found = history(tmp_path, story)

    assert found.text() == text.replace("line 400\n", "changed\n")
    assert differences(found) == 0


def test_empty_patch_is_replaced_by_the_texts(tmp_path: Path) -> None:
    story = Story()
    story.say("Change")
    story.edit("two", "2", ONE, structuredPatch=[])
    found = history(tmp_path, story)

    assert found.text() == "one\n2\nthree\n"


def test_staged_edit_was_not_written(tmp_path: Path) -> None:
    story = Story()
    story.say("Change")
    story.read(ONE)
    story.edit("two", "2", ONE, staged=True)
    found = history(tmp_path, story)

    assert found.text() == ONE


def test_lines_that_the_user_changed_before_accepting_are_the_users(
    tmp_path: Path,
) -> None:
    story = Story()
    story.say("Change")
    outcome = {
        "filePath": FILE,
        "oldString": "two",
        "newString": "by claude\nby user",
        "originalFile": ONE,
        "structuredPatch": [],
        "userModified": True,
    }
    new = "by claude\nproposed"
    story.call("Edit", outcome, file_path=FILE, old_string="two", new_string=new)
    found = history(tmp_path, story)

    assert found.text() == "one\nby claude\nby user\nthree\n"
    assert origin_kinds(found)[1:3] == [OriginKind.CLAUDE, OriginKind.USER]


def test_replace_all_changes_every_occurrence(tmp_path: Path) -> None:
    story = Story()
    story.say("Change")
    story.edit("e", "E", ONE, replaceAll=True)
    found = history(tmp_path, story)

    assert found.text() == "onE\ntwo\nthrEE\n"


def test_deleted_line_goes_with_its_newline(tmp_path: Path) -> None:
    story = Story()
    story.say("Delete")
    story.edit("two", "", ONE, structuredPatch=hunks(ONE, "one\nthree\n"))
    story.read("one\nthree\n")
    found = history(tmp_path, story)

    assert found.text() == "one\nthree\n"
    assert differences(found) == 0


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"a\r\nb\r\n", "a\nb\n"),
        (b"\xef\xbb\xbfa\n", "a\n"),
        (b"\xff\xfea\0\n\0", "a\n"),
        (b"a\nb", "a\nb"),
        (b"\x89PNG\0\0", None),
    ],
)
def test_bytes_are_compared_as_claude_code_shows_them(
    raw: bytes, text: str | None
) -> None:
    assert decode_bytes(raw) == text


def test_backup_with_crlf_matches_the_edited_text(tmp_path: Path) -> None:
    story = Story()
    story.say("Create")
    story.write(ONE)
    at = story.say("Next")
    story.records.append(snapshot(at, {"a.py": "0f1e2d3c4b5a6978@v2"}))
    story.edit("two", "2", ONE)
    Home(tmp_path).backup(
        SESSION, "0f1e2d3c4b5a6978@v2", ONE.replace("\n", "\r\n").encode()
    )
    found = history(tmp_path, story)

    assert differences(found) == 0
    assert [check.subject for check in found.checks] == ["backup", "original"]


def test_not_utf8_content_is_not_exact(tmp_path: Path) -> None:
    story = Story()
    story.say("Next")
    story.read("caf\ufffd\n")
    story.edit("caf", "tea", "caf\ufffd\n")
    found = history(tmp_path, story)

    assert not found.last.is_certain


def test_text_without_final_newline_keeps_it_so(tmp_path: Path) -> None:
    story = Story()
    story.say("Change")
    story.edit("b", "c", "a\nb")
    found = history(tmp_path, story)

    assert found.text() == "a\nc"


@pytest.mark.parametrize("is_error", [True, False])
def test_call_that_was_denied_or_has_no_result_changes_nothing(
    tmp_path: Path, *, is_error: bool
) -> None:
    story = Story()
    story.say("Change")
    story.read(ONE)
    story.call("Write", "Error: denied", is_error=True, file_path=FILE, content="x")
    if not is_error:
        story.records.pop()
    found = history(tmp_path, story)

    assert found.text() == ONE


def test_agents_on_one_file_are_merged_by_time(tmp_path: Path) -> None:
    home = Home(tmp_path)
    story = Story()
    story.say("Two agents")
    story.write("a\nb\n")
    for agent in ("agent1", "agent2"):
        story.call("Task", {"agentId": agent, "status": "completed"}, prompt="do")
    own = Story(name="x")
    own.seconds = story.seconds - 3.5
    own.say("do")
    own.edit("a", "A", "a\nb\n")
    home.agent(SESSION, "agent1", own.records)
    other = Story(name="y")
    other.seconds = own.seconds
    other.say("do")
    other.edit("b", "B", "A\nb\n")
    home.agent(SESSION, "agent2", other.records)
    found = history(tmp_path, story)

    assert found.text() == "A\nB\n"
    assert differences(found) == 0
    assert [o.place.agent_id for o in found.origins()[:2] if o.place] == [
        "agent1",
        "agent2",
    ]


def test_a_file_of_a_worktree_is_another_file(tmp_path: Path) -> None:
    story = Story()
    story.say("Both")
    story.write("main\n")
    story.write("tree\n", path=f"{CWD}/.claude/worktrees/x/a.py")
    found = history(tmp_path, story)

    assert found.text() == "main\n"


@pytest.mark.parametrize("is_recorded", [True, False])
def test_moved_file_keeps_its_history(tmp_path: Path, *, is_recorded: bool) -> None:
    new = f"{CWD}/b.py"
    story = Story()
    story.say("Create")
    story.write(ONE)
    story.say("Move")
    files = [
        {"filePath": FILE, "hunks": hunks(ONE, ""), "deleted": True},
        {"filePath": new, "hunks": hunks("", ONE[:-1]), "created": True},
    ]
    files[1]["hunks"][0]["lines"] = [f"+{line}" for line in ONE.splitlines()]  # type: ignore[index]
    story.bash("git mv a.py b.py", files if is_recorded else ())
    story.edit("two", "2", ONE, path=new)
    found = history(tmp_path, story, path=new)

    assert found.text() == "one\n2\nthree\n"
    assert differences(found) == 0
    assert origin_kinds(found) == [OriginKind.CLAUDE] * 3


def test_formatter_after_every_edit_is_recognized(tmp_path: Path) -> None:
    story = Story()
    story.say("Create")
    story.write("x=1\ny=2\n")
    story.edit("y = 2", "y = 3", "x = 1\ny = 2\n")
    story.edit("y = 3", "y = 4", "x = 1\ny = 3\n")
    found = history(tmp_path, story)

    assert found.versions[1].cause is Cause.FORMATTER
    assert origin_kinds(found) == [OriginKind.MODIFIED, OriginKind.CLAUDE]


@pytest.mark.req("FV3")
def test_command_that_names_the_file_is_the_probable_cause(tmp_path: Path) -> None:
    story = Story()
    story.say("Create")
    story.write(ONE)
    story.bash("sed -i s/two/2/ a.py")
    story.read("one\n2\nthree\n")
    found = history(tmp_path, story)

    outside = found.versions[-1]
    assert (outside.cause, outside.command) == (Cause.COMMAND, "sed -i s/two/2/ a.py")
    assert outside.since is not None
    assert outside.time is not None
    assert outside.since < outside.time


def test_line_of_a_probable_command_is_attributed_to_its_turn(tmp_path: Path) -> None:
    story = Story()
    story.say("Create")
    story.write(ONE)
    story.say("Change")
    story.bash("sed -i s/two/2/ a.py")
    story.say("Look")
    story.read("one\n2\nthree\n")
    origin = history(tmp_path, story).origins()[1]

    assert origin.kind is OriginKind.COMMAND
    assert origin.place
    assert origin.place.turn_number == 1
    assert not origin.is_noticed


def test_command_with_recorded_changes_is_no_suspect_for_other_files(
    tmp_path: Path,
) -> None:
    story = Story()
    story.say("Create")
    story.write(ONE)
    story.bash("sed -i s/a/b/ b.py", others=[f"{CWD}/b.py"])

    assert history(tmp_path, story).last.is_certain


def test_change_between_turns_is_the_users(tmp_path: Path) -> None:
    story = Story()
    story.say("Create")
    story.write(ONE)
    story.say("I changed it")
    story.read("mine\n" + ONE)
    found = history(tmp_path, story)

    assert found.versions[-1].cause is Cause.USER
    assert origin_kinds(found)[0] is OriginKind.USER


def test_patch_of_a_command_is_applied(tmp_path: Path) -> None:
    story = Story()
    story.say("Create")
    story.write(ONE)
    patch = {"filePath": FILE, "hunks": hunks(ONE, "one\n2\nthree\n")}
    story.bash("sed -i s/two/2/ a.py", [patch])
    found = history(tmp_path, story)

    assert found.text() == "one\n2\nthree\n"
    assert kinds(found)[-1] is VersionKind.COMMAND


def test_change_of_a_command_without_a_patch_is_not_known(tmp_path: Path) -> None:
    story = Story()
    story.say("Create")
    story.write(ONE)
    story.bash("python gen.py", others=[FILE])
    found = history(tmp_path, story)
    assert found.text() is None
    assert found.last.exists

    story.read("one\ngenerated\nthree\n")
    found = history(tmp_path, story)
    assert found.text() == "one\ngenerated\nthree\n"
    assert origin_kinds(found)[1] is OriginKind.COMMAND


def test_command_after_an_unknown_change_is_not_blamed_for_it(tmp_path: Path) -> None:
    story = Story()
    story.say("Create")
    story.write(ONE)
    story.say("The user changed the file")
    story.edit("user", "claude", None)
    story.bash("make", others=[FILE])
    story.read("one\nclaude\nuser too\n")
    found = history(tmp_path, story)

    assert origin_kinds(found) == [
        OriginKind.CLAUDE,
        OriginKind.CLAUDE,
        OriginKind.USER,
    ]


def test_deleted_file_does_not_exist(tmp_path: Path) -> None:
    story = Story()
    story.say("Create")
    story.write(ONE)
    story.bash(
        "rm a.py", [{"filePath": FILE, "hunks": hunks(ONE, ""), "deleted": True}]
    )
    found = history(tmp_path, story)

    assert found.last.exists is False
    assert found.text() is None


def test_rewind_that_restored_code_matches_the_backup(tmp_path: Path) -> None:
    story = Story()
    story.say("Create")
    fork = story.write(ONE)
    story.say("Abandoned")
    story.edit("two", "ABANDONED", ONE)
    story.rewind(fork)
    at = story.say("Instead")
    story.records.append(snapshot(at, {"a.py": "0f1e2d3c4b5a6978@v2"}))
    Home(tmp_path).backup(SESSION, "0f1e2d3c4b5a6978@v2", ONE.encode())
    found = history(tmp_path, story)

    assert differences(found) == 0
    assert found.text() == ONE


def test_pruned_backup_is_ignored(tmp_path: Path) -> None:
    story = Story()
    story.say("Create")
    story.write(ONE)
    at = story.say("Next")
    story.records.append(snapshot(at, {"a.py": "0f1e2d3c4b5a6978@v2"}))
    found = history(tmp_path, story)

    assert found.text() == ONE
    assert found.checks == []


def test_backup_shows_what_an_edit_without_original_changed(tmp_path: Path) -> None:
    story = Story()
    at = story.say("Change")
    answer = story.edit("two", "2", None)
    story.records.append(delta(answer, at, "a.py", "0f1e2d3c4b5a6978@v1"))
    Home(tmp_path).backup(SESSION, "0f1e2d3c4b5a6978@v1", ONE.encode())
    found = history(tmp_path, story)

    assert found.text() == "one\n2\nthree\n"


@pytest.mark.parametrize(
    ("a", "b", "is_same"),
    [
        ("C:\\work\\A.py", "c:/work/a.py", True),
        ("/work/./x/../a.py", "/work/a.py", True),
        ("/work/A.py", "/work/a.py", False),
    ],
)
def test_paths_of_one_file(a: str, b: str, *, is_same: bool) -> None:
    assert (path_key(a) == path_key(b)) is is_same


def test_part_of_a_file_is_compared(tmp_path: Path) -> None:
    story = Story()
    story.say("Create")
    story.write(ONE)
    story.read("two\nthree", first=2, total=4)
    assert differences(history(tmp_path, story)) == 0

    story.say("Changed meanwhile")
    story.read("zwei\nthree", first=2, total=4)
    found = history(tmp_path, story)
    assert found.text() == "one\nzwei\nthree\n"
    assert not found.versions[-1].is_exact


def test_sessions_are_merged_by_time_and_copies_count_once(tmp_path: Path) -> None:
    first = Story()
    first.say("Create")
    first.write(ONE)
    second = Story(session_id(2), name="b")
    second.records = [record | {"sessionId": session_id(2)} for record in first.records]
    second._parent = first.records[-1]["uuid"]
    second.seconds = first.seconds
    second.say("Change in a copy")
    second.edit("two", "2", ONE)
    found = history(tmp_path, first, second)

    assert found.text() == "one\n2\nthree\n"
    assert len(found.versions) == 2


def test_files_before_a_turn_include_those_changed_later(tmp_path: Path) -> None:
    story = Story()
    story.say("Create")
    story.write(ONE)
    story.say("Change both")
    story.edit("two", "2", ONE)
    story.write("new\n", path=f"{CWD}/new.py")
    story.edit("x", "y", "x\n", path=f"{CWD}/old.py")
    session = load(tmp_path, story)
    log = BranchLog(session, session.live_branch, stop_turn=1)

    files = {file.path: file for file in files_at(log, looks_ahead=True)}

    assert files[FILE].text == ONE
    assert files[f"{CWD}/old.py"].text == "x\n"
    assert files[f"{CWD}/new.py"].exists is False
    assert [file.path for file in files_at(log)] == [FILE]


@pytest.mark.parametrize("is_read_before", [True, False])
def test_what_is_seen_after_a_command_is_not_what_was_there_before(
    tmp_path: Path, *, is_read_before: bool
) -> None:
    story = Story()
    story.say("Create")
    story.write(ONE)
    story.say("Append")
    if is_read_before:
        story.read("mine\n")
    story.bash("echo four >> A.py")
    story.read(f"{ONE}four\n")
    session = load(tmp_path, story)
    log = BranchLog(session, session.live_branch, stop_turn=1)

    (file,) = files_at(log, looks_ahead=True)

    assert file.text == ("mine\n" if is_read_before else ONE)


def test_commands_after_the_last_look_are_doubts(tmp_path: Path) -> None:
    story = Story()
    story.say("Create")
    story.write(ONE)
    story.bash("git status")
    story.bash("git checkout main")
    found = history(tmp_path, story)

    assert [doubt.command for doubt in found.last.doubts] == ["git checkout main"]
    assert not found.last.is_certain


@pytest.mark.parametrize(
    ("command", "changes"),
    [
        ("sed -i s/a/b/ a.py", True),
        ("echo x > a.py", True),
        ("cat <<E >> a.py\nx\nE", True),
        ("black .", True),
        ("python tools/gen.py a.py", True),
        ("git stash pop", True),
        ("cat a.py 2>&1 | head", False),
        ("pytest -q test_a.py", False),
        ("git add a.py && git commit -m x", False),
        ("rg x a.py > /dev/null", False),
        ("npm test", False),
        ("git mv a.py b.py", False),
    ],
)
def test_commands_that_may_change_a_file(command: str, *, changes: bool) -> None:
    assert may_change(command, "a.py") is changes


def test_files_that_are_moved_to_and_fro_are_followed_a_while(tmp_path: Path) -> None:
    story = Story()
    story.say("Create")
    story.write(ONE)
    for _ in range(40):
        story.bash("mv a.py b.py")
        story.bash("mv b.py a.py")
    last = history(tmp_path, story).last

    assert last.text == ONE
    assert not last.is_certain


def test_odd_results_do_not_raise(tmp_path: Path) -> None:
    odd_hunk = {"oldStart": -5, "oldLines": 9, "newStart": 0, "lines": ["", "x", "\\"]}
    story = Story()
    story.say("Odd")
    story.read("a\nb", first=-3, total=0)
    story.edit("", "", None, structuredPatch=[odd_hunk])
    story.edit("a", "b", "", structuredPatch=[{"lines": None}])
    story.bash("x", [{"filePath": FILE, "hunks": [odd_hunk]}])
    story.bash("y", [{"filePath": FILE, "hunks": [odd_hunk], "created": True}])
    story.call("Edit", {"filePath": FILE, "edits": 5}, file_path=FILE, edits="no")
    story.call("Write", {"type": "create", "content": 7}, file_path=FILE)
    story.call("Read", None, file_path=FILE)
    story.call("NotebookEdit", {"notebook_path": FILE, "updated_file": None})
    story.bash("mv", others=[None, 3])
    story.read("lone", first=10**12)
    found = history(tmp_path, story)

    for version in found.versions:
        found.text(version.number)
        found.origins(version.number)


def test_a_pipe_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(OSError, match="not a regular file"):
        read_regular_file(tmp_path / "pipe")


def test_a_name_with_a_nul_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="not valid"):
        read_regular_file(tmp_path / "a\0b")


def _edits_of_one_file(count: int) -> Replay:
    text = "".join(f"line {number}\n" for number in range(100))
    place = Place(session_id=SessionId(SESSION))
    replay = Replay()
    replay.add([FileEvent(path=FILE, kind=EventKind.WRITE, place=place, text=text)])

    def change(number: int) -> FileEvent:
        row = number % 100
        old = f"line {row}\n" if number < 100 else f"line {row} v{number - 100}\n"
        new = Replacement(old, f"line {row} v{number}\n")
        return FileEvent(
            path=FILE, kind=EventKind.EDIT, place=place, replacements=(new,)
        )

    replay.add(map(change, range(count)))
    return replay


def test_thousands_of_edits_of_one_file() -> None:
    replay = _edits_of_one_file(3_000)

    text = replay.text(3_000)
    assert text is not None
    assert text.split("\n")[99] == "line 99 v2999"
    assert replay.text(1) == (replay.text(0) or "").replace("line 0\n", "line 0 v0\n")


@pytest.mark.full
def test_a_hundred_thousand_edits_of_one_file() -> None:
    start = time.process_time()
    replay = _edits_of_one_file(100_000)

    assert (replay.text(100_000) or "").split("\n")[99] == "line 99 v99999"
    assert time.process_time() - start < 120


@pytest.mark.parametrize(
    "command",
    [
        "mv a.py b.py && grep -v x b.py > a.py",
        "mv a.py b.py; mv b.py a.py",
        "cd sub && mv a.py b.py",
    ],
)
def test_a_path_that_a_command_uses_again_is_not_called_free(
    tmp_path: Path, command: str
) -> None:
    story = Story()
    story.say("Create")
    story.write(ONE)
    story.bash(command)
    assert history(tmp_path, story).last.exists


def test_a_path_to_which_an_unknown_file_is_moved_has_unknown_content(
    tmp_path: Path,
) -> None:
    story = Story()
    story.say("Create")
    story.write(ONE)
    story.bash("mv a.py b.py")
    story.bash("mv c.py a.py")
    last = history(tmp_path, story).last
    assert last.version is not None
    assert not last.version.is_known
