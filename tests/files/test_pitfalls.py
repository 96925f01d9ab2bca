"""What makes replaying files hard: one test per known pitfall, where no other has it.

The others are in `test_history` (branches, originals, patches, staged and changed edits,
line ends, denied calls, agents, worktrees, moves, formatters, rewinds, backups, paths, many
edits), `tests/cli/test_undo` (links, uncommitted work) and `test_library` (purge).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.cli.main import main
from bygones.errors import ExitCode, NotATextFile
from bygones.files.origins import Certainty, OriginKind
from tests.build import CWD, Home
from tests.files.story import FILE, Story, history, hunks

LONG = "".join(f"a line that is long enough {number}\n" for number in range(5))


@pytest.mark.req("FV4")
def test_lines_that_come_back_keep_their_origin(tmp_path: Path) -> None:
    changed = LONG.replace("enough 2", "enough TWO")
    story = Story()
    story.say("Read")
    story.read(LONG)
    story.say("Change")
    story.edit("enough 2", "enough TWO", LONG)
    story.say("I reverted it")
    story.read(LONG)

    found = history(tmp_path, story)

    assert found.text() == LONG
    origins = found.origins()[:5]
    assert {origin.kind for origin in origins} == {OriginKind.BEFORE}
    assert origins[2].certainty is Certainty.LIKELY
    story.say("Again")
    story.edit("enough 2", "enough TWO", LONG)
    assert history(tmp_path, story).text() == changed


def test_a_line_that_claude_writes_again_is_claudes(tmp_path: Path) -> None:
    shorter = LONG.replace("a line that is long enough 2\n", "")
    story = Story()
    story.say("Read")
    story.read(LONG)
    story.edit("a line that is long enough 2\n", "", LONG)
    story.say("Put it back")
    story.write(LONG, shorter)

    assert history(tmp_path, story).origins()[2].kind is OriginKind.CLAUDE


@pytest.mark.req("FV1")
def test_binary_content_has_no_text_and_is_not_compared(tmp_path: Path) -> None:
    story = Story()
    story.say("Write")
    story.write("text\n")
    patch = {"filePath": FILE, "hunks": hunks("text", "te\ufffdxt")}
    story.bash("make picture", [patch])

    found = history(tmp_path, story)

    assert found.text() is None
    assert found.text(0) == "text\n"


def test_blame_of_a_binary_file_says_so(tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    story = Story()
    story.say("Write")
    story.write("text\n", path=str(path))
    home = Home(tmp_path / "home")
    story.write_to(home)
    path.write_bytes(b"\x89PNG\0\0")
    Archive.ingest(tmp_path / "archive", [home.path])

    with (
        Archive.open(tmp_path / "archive") as archive,
        pytest.raises(NotATextFile),
    ):
        archive.file_library.blame(path)
    words = ["blame", str(path), "--archive", str(tmp_path / "archive"), "--no-ingest"]
    assert main(words) == ExitCode.USAGE_ERROR


def test_windows_paths_of_any_case_are_one_file(tmp_path: Path) -> None:
    story = Story()
    story.say("Write")
    story.write("one\n", path="C:\\Work\\Demo\\App.py")
    story.edit("one", "two", "one\n", path="c:\\work\\demo\\app.PY")

    found = history(tmp_path, story, path="C:/work/demo/app.py")

    assert found.text() == "two\n"


def test_names_that_differ_in_case_are_two_files_elsewhere(tmp_path: Path) -> None:
    story = Story()
    story.say("Write")
    story.write("one\n", path=f"{CWD}/Makefile")
    story.write("two\n", path=f"{CWD}/makefile")

    assert history(tmp_path, story, path=f"{CWD}/Makefile").text() == "one\n"
    assert history(tmp_path, story, path=f"{CWD}/makefile").text() == "two\n"


def test_formatter_after_every_edit_leaves_lines_that_are_claudes(
    tmp_path: Path,
) -> None:
    story = Story()
    story.say("Write")
    text = ""
    for number in range(4):
        written = f"{text}value_{number}=compute_something({number})\n"
        story.write(written, text or None)
        text = written.replace("=", " = ").replace("  =  ", " = ")
    story.read(text)

    found = history(tmp_path, story)

    kinds = [origin.kind for origin in found.origins()[:4]]
    assert set(kinds) <= {OriginKind.CLAUDE, OriginKind.MODIFIED}
