"""Compare recovered files with claude-file-recovery, on sessions with a known truth.

    python -m benchmarks.compare_recovery [PROGRAM]

PROGRAM is an installed `claude-file-recovery` (PyPI). Each fixture is one session that
changes a file, with the content that the file had at the end. augur and git-ai are not
compared: augur names sessions near a commit and no content, git-ai knows nothing about
sessions from before it was installed, and neither is on PyPI or npm.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bygones.archive import Archive
from bygones.errors import BygonesError
from tests.build import Home
from tests.files.story import FILE, Story, hunks

ONE, TWO, THREE = "one\ntwo\nthree\n", "one\n2\nthree\n", "one\n2\n3\n"
FIXTURES: dict[str, tuple[str | None, Callable[[Story], object]]] = {}
"""The last content of the file, and a function that adds the records."""


def fixture(text: str | None) -> Callable[[Callable[[Story], object]], None]:
    """Register a fixture with the last content of its file."""

    def register(build: Callable[[Story], object]) -> None:
        FIXTURES[build.__name__.replace("_", " ")] = (text, build)

    return register


@fixture(THREE)
def writes_and_edits(story: Story) -> None:
    story.write(ONE)
    story.edit("two", "2", ONE)
    story.edit("three", "3", TWO)


@fixture(TWO)
def edit_on_an_abandoned_branch(story: Story) -> None:
    fork = story.write(ONE)
    story.say("Other way")
    story.edit("three", "WRONG", ONE)
    story.rewind(fork)
    story.say("Again")
    story.edit("two", "2", ONE)


@fixture(TWO)
def edit_without_original_after_a_rewind(story: Story) -> None:
    fork = story.write(ONE)
    story.say("Other way")
    story.edit("three", "WRONG", ONE)
    story.rewind(fork)
    story.say("Again")
    story.edit("two", "2", None)


@fixture(TWO)
def staged_edit_that_was_not_written(story: Story) -> None:
    story.write(ONE)
    story.edit("two", "2", ONE)
    story.edit("three", "3", TWO, staged=True)


@fixture(ONE)
def denied_write(story: Story) -> None:
    story.write(ONE)
    story.call("Write", is_error=True, file_path=FILE, content="WRONG\n")


@fixture("one\nTWO by hand\nthree\n")
def edit_that_the_user_changed(story: Story) -> None:
    story.write(ONE)
    after = "one\nTWO by hand\nthree\n"
    outcome = {
        "filePath": FILE,
        "oldString": "two",
        "newString": "TWO by hand",
        "originalFile": ONE,
        "structuredPatch": hunks(ONE, after),
        "userModified": True,
    }
    story.call("Edit", outcome, file_path=FILE, old_string="two", new_string="2")


@fixture("mine\none\n2\nthree\n")
def change_from_outside_before_an_edit(story: Story) -> None:
    story.write(ONE)
    story.say("Go on")
    story.edit("two", "2", "mine\n" + ONE)


@fixture(TWO)
def change_by_a_command(story: Story) -> None:
    story.write(ONE)
    patch = {"filePath": FILE, "hunks": hunks(ONE[:-1], TWO[:-1])}
    story.bash("sed -i s/two/2/ a.py", [patch])


@fixture("a\na\n")
def replace_all(story: Story) -> None:
    story.write("b\nb\n")
    story.edit("b", "a", "b\nb\n", replaceAll=True)


@fixture(None)
def file_that_a_command_deleted(story: Story) -> None:
    story.write(ONE)
    gone = {"filePath": FILE, "hunks": [], "deleted": True}
    story.bash("rm a.py", [gone])


@fixture(TWO)
def edit_without_original_after_a_read(story: Story) -> None:
    story.read(ONE)
    story.edit("two", "2", None)


def recover_with_bygones(home: Path, folder: Path) -> str | None:
    """Return the last content of the file according to us."""
    Archive.ingest(folder / "archive", [home])
    with Archive.open(folder / "archive") as archive:
        try:
            return archive.file(FILE).text()
        except BygonesError as error:
            return repr(error)


def recover_with_peer(program: str, home: Path, folder: Path) -> str | None:
    """Return the last content of the file according to the other program."""
    out = folder / "out"
    command = [program, "extract-files", "-c", str(home), "-o", str(out)]
    subprocess.run(command, check=False, capture_output=True, timeout=60)
    found = [path for path in out.rglob("*") if path.name == Path(FILE).name]
    return found[0].read_text("utf-8") if found else None


def main() -> None:
    """Print for each fixture whether each program recovers the file."""
    program = sys.argv[1] if len(sys.argv) > 1 else None
    totals = [0, 0]
    print(f"{'fixture':40} bygones  claude-file-recovery")
    for name, (text, build) in FIXTURES.items():
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            story = Story()
            story.say("Start")
            build(story)
            home = Home(folder / ".claude")
            story.write_to(home)
            answers = [recover_with_bygones(home.path, folder)]
            if program:
                answers.append(recover_with_peer(program, home.path, folder))
        verdicts = [answer == text for answer in answers]
        for number, is_right in enumerate(verdicts):
            totals[number] += is_right
        words = ["right" if is_right else "WRONG" for is_right in verdicts]
        print(f"{name:40} {'    '.join(words)}")
    print(f"{'right':40} {totals[0]}        {totals[1] if program else '-'}")


if __name__ == "__main__":
    main()
