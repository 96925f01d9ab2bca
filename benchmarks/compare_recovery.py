"""Compare recovered files and the authors of lines, on sessions with a known truth.

    python -m benchmarks.compare_recovery [RECOVERY [AI_BLAME]]

RECOVERY is an installed `claude-file-recovery`, AI_BLAME an installed `ai-blame` (both
PyPI). Each fixture is one session that changes a file, with the content that the file had
at the end, and the lines of it that Claude did not write. augur and git-ai are not
compared: augur names sessions near a commit and no content, git-ai knows nothing about
sessions from before it was installed. PyPI and npm have neither; `augur-cli` and `gitai`
on PyPI, and `augur` on npm, are other programs.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from bygones.archive import Archive
from bygones.errors import BygonesError
from bygones.files.origins import OriginKind
from bygones.sources.layout import project_key
from tests.build import CWD, Home
from tests.files.story import FILE, Story, hunks

ONE, TWO, THREE = "one\ntwo\nthree\n", "one\n2\nthree\n", "one\n2\n3\n"


class Fixture(NamedTuple):
    """A session that changes a file."""

    text: str | None
    """The last content of the file."""
    build: Callable[[Story], object]
    others: frozenset[str]
    """Lines that Claude did not write."""


FIXTURES: dict[str, Fixture] = {}


def fixture(
    text: str | None, *others: str
) -> Callable[[Callable[[Story], object]], None]:
    """Register a fixture with the last content of its file."""

    def register(build: Callable[[Story], object]) -> None:
        name = build.__name__.replace("_", " ")
        FIXTURES[name] = Fixture(text, build, frozenset(others))

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


@fixture("one\nTWO by hand\nthree\n", "TWO by hand")
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


@fixture("mine\none\n2\nthree\n", "mine")
def change_from_outside_before_an_edit(story: Story) -> None:
    story.write(ONE)
    story.say("Go on")
    story.edit("two", "2", "mine\n" + ONE)


@fixture(TWO, "2")
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


@fixture(TWO, "one", "three")
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


def blame_with_bygones(home: Path, file: Path) -> set[str]:
    """Return the lines that Claude wrote according to us."""
    archive_folder = file.parent.with_name("blamed")
    Archive.ingest(archive_folder, [home])
    with Archive.open(archive_folder) as archive:
        lines = archive.file_library.blame(file).lines
    return {line.text for line in lines if line.origin.kind is OriginKind.CLAUDE}


def blame_with_peer(program: str, home: Path, file: Path) -> set[str]:
    """Return the lines that Claude wrote according to the other program."""
    command = [program, "blame", file.name, "--dir", str(file.parent), "--no-cache"]
    traces = home / "projects" / project_key(str(file.parent))
    command += ["--trace-dir", str(traces), "--no-header", "--columns", "MLC"]
    done = subprocess.run(
        command, cwd=file.parent, capture_output=True, text=True, timeout=60, check=True
    )
    rows = re.findall(r"^(\S+) +\d+ \| (.*)$", done.stdout, re.MULTILINE)
    return {line for model, line in rows if model != "-"}


def write_home(folder: Path, one: Fixture, directory: str) -> Path:
    """Write the session of a fixture as if it had worked in a directory."""
    story = Story()
    story.say("Start")
    one.build(story)
    rows = json.loads(json.dumps(story.records).replace(CWD, directory))
    home = Home(folder / ".claude")
    home.session(story.session, rows, project=project_key(directory))
    return home.path


def blame_fixture(one: Fixture, folder: Path, ai_blame: str | None) -> list[bool]:
    """Return whether each program names the right lines."""
    file = folder / "project" / Path(FILE).name
    file.parent.mkdir()
    file.write_text(one.text or "", "utf-8")
    home = write_home(folder / "home", one, str(file.parent))
    expected = set((one.text or "").splitlines()) - one.others
    found = [blame_with_bygones(home, file)]
    if ai_blame:
        found.append(blame_with_peer(ai_blame, home, file))
    return [lines == expected for lines in found]


def main() -> None:
    """Print for each fixture whether each program is right."""
    recovery, ai_blame = [*sys.argv[1:], None, None][:2]
    totals = [0] * 4
    columns = "content: bygones, claude-file-recovery; lines: bygones, ai-blame"
    print(f"{'fixture':40} {columns}")
    for name, one in FIXTURES.items():
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            home = write_home(folder, one, CWD)
            texts = [recover_with_bygones(home, folder)]
            if recovery:
                texts.append(recover_with_peer(recovery, home, folder))
            right = [text == one.text for text in texts]
            right += [False] * (2 - len(right))
            if one.text is not None:
                right += blame_fixture(one, folder, ai_blame)
        for index, is_right in enumerate(right):
            totals[index] += is_right
        marks = ("right" if is_right else "wrong" for is_right in right)
        print(f"{name:40} {'  '.join(marks)}")
    print(f"{'right':40} {'  '.join(f'{total:5}' for total in totals)}")


if __name__ == "__main__":
    main()
