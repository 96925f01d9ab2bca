"""Without power, all files that commands leave: the text engine's, notes, copies.

A series of commands is recorded once, call by call. The power may fail at any moment: the
archive, its backup and restored files are in the state before a command or after it, and
the index is right or is rebuilt.
"""

from __future__ import annotations

import re
import shutil
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from bygones.cli.main import main
from tests.build import jsonl, prompt, reply, session_id, thread
from tests.faults.disk import Act, lay
from tests.faults.failing import PURGED, Kept, kept_in
from tests.faults.folders import Folders
from tests.faults.sizes import reached, seeded, sized
from tests.faults.tracing import traced
from tests.store.sandbox import Sandbox, differing_tables

pytestmark = pytest.mark.skipif(
    shutil.which("strace") is None or not sys.platform.startswith("linux"),
    reason="what programs ask of the system is told by strace",
)

POINTS = sized(60, 4_000, 20_000)
"""Moments at which the power goes, besides those at which something has a new name."""
GOING_ON = sized(6, 300, 2_000)
SERIES = (
    *("ingest", "verify", "ingest", "backup", "ingest", "verify"),
    *("backup", "rebuild", "restore", "integrate", "purge"),
)
OLDER = b"what was there before"
UNFINISHED = re.compile(r"^\.bygones-|\.bygones$")
"""The names of files that are being written beside their places."""
NAMING = frozenset({"link", "move", "delete"})
"""Acts by which something has another name, or none."""
NUMBERS = re.compile(r"[0-9a-f]{6,}|\d+")


class Found(NamedTuple):
    """What there is on a disk."""

    archive: Kept
    backup: Kept
    restored: Kept
    settings: Kept
    """Of Claude Code, in which a user's own are."""


class Step(NamedTuple):
    """A command that was carried out: its acts, and what there was after it."""

    acts: list[Act]
    home: Path
    """The home as it was then."""
    found: Found


class Moment(NamedTuple):
    """What was done when the power goes, and the disk at that time."""

    number: int
    """Of the command."""
    is_over: bool
    is_naming: bool
    """Whether something was named in a way in which the command had not named yet."""
    disk: Folders


class Series:
    """Commands on one archive, one after the other."""

    def __init__(self, folder: Path, names: Sequence[str], mutation: str = "") -> None:
        self.sandbox = Sandbox(folder)
        self.place = folder / "place"
        self.sandbox.archive = self.place / "archive"
        self.to = self.place / "to"
        restored = self.to / "projects/-work-demo"
        restored.mkdir(parents=True)
        (restored / f"{session_id(0)}.jsonl").write_bytes(OLDER)
        self.claude = self.place / "claude"
        self.claude.mkdir()
        for one in ("settings.json", ".claude.json"):
            (self.claude / one).write_bytes(b'{"theirs": 1}\n')
        self.first = self.found()
        self.steps: list[Step] = []
        random = Random(9)  # noqa: S311 (the same every time)
        for number, name in enumerate(names):
            self._grow(random, number)
            home = folder / f"home-{number}"
            shutil.copytree(self.sandbox.home.path, home)
            env = {"CLAUDE_CONFIG_DIR": str(self.claude)}
            acts = traced(self.words(name), self.place, env, mutation)
            self.steps.append(Step(acts, home, self.found()))

    def words(self, name: str) -> list[str]:
        more = {
            "ingest": ["--home", str(self.sandbox.home.path)],
            "backup": [str(self.place / "backup")],
            "restore": ["--all", "--overwrite", "--to", str(self.to)],
            "purge": ["--yes", PURGED],
        }
        if name == "integrate":
            return [name, "claude", "--add", "--statusline"]
        return [name, "--archive", str(self.sandbox.archive), *more.get(name, [])]

    def _grow(self, random: Random, number: int) -> None:
        for one in range(3):
            words = " ".join(
                str(random.random()) for _ in range(random.choice([3, 90]))
            )
            records = thread(prompt(f"{number} {words}"), reply(words))
            path = (
                self.sandbox.home.path / f"projects/-work-demo/{session_id(one)}.jsonl"
            )
            path.parent.mkdir(parents=True, exist_ok=True)
            is_anew = one == number == 2
            before = path.read_bytes() if path.exists() and not is_anew else b""
            path.write_bytes(before + jsonl(records))

    def found(self) -> Found:
        return Found(
            kept_in(self.sandbox.archive),
            kept_in(self.place / "backup"),
            files_of(self.to),
            files_of(self.claude),
        )

    def moments(self, every: int, since: int) -> Iterator[Moment]:
        """Yield moments: every so many acts, at ends, and where names are given."""
        disk = Folders(self.place, self.first.restored | self.first.settings)
        passed = 0
        for number, step in enumerate(self.steps):
            named: set[tuple[str, str]] = set()
            for at, act in enumerate(step.acts, 1):
                disk.hear(act)
                passed += number >= since
                kind = act.task, NUMBERS.sub("", Path(act.path).name)
                is_naming = act.task in NAMING and kind not in named
                named.add(kind)
                is_over = at == len(step.acts)
                is_looked_at = not passed % every or is_over or is_naming
                if is_looked_at and number >= since:
                    yield Moment(number, is_over, is_naming, disk)

    def lay(self, files: dict[str, bytes]) -> None:
        """Have a disk be as it was found."""
        shutil.rmtree(self.place)
        lay(files, self.place, self.place)

    def live_at(self, number: int) -> None:
        """Have the home be as it was when a command began."""
        shutil.rmtree(self.sandbox.home.path)
        shutil.copytree(self.steps[number].home, self.sandbox.home.path)


def files_of(folder: Path) -> Kept:
    """Return the files in a folder, but for those that were never finished."""
    return {
        str(path): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not UNFINISHED.search(path.name)
    }


def assert_left(series: Series, number: int, *, is_over: bool) -> None:
    """Hold what is left against what there was before a command, and after it."""
    before = series.steps[number - 1].found if number else series.first
    after = series.steps[number].found
    for path in series.place.rglob("archive.db"):
        assert_sound(path)
    left = series.found()
    if is_over:
        assert left == after
    assert left.archive in (before.archive, after.archive)
    assert left.backup in (before.backup, after.backup)
    for one, old, new in zip(left[2:], before[2:], after[2:], strict=True):
        assert all(raw in (old.get(path), new.get(path)) for path, raw in one.items())
    # What was replaced is there as a copy; and settings are never gone.
    assert set(before.restored.values()) <= set(left.restored.values())
    assert set(before.settings) <= set(left.settings)


def assert_sound(path: Path) -> None:
    copy = path.parent.with_name("copy")
    shutil.copytree(path.parent, copy)
    with closing(sqlite3.connect(copy / path.name)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    shutil.rmtree(copy)


def assert_goes_on(
    series: Series, number: int, capfd: pytest.CaptureFixture[str]
) -> None:
    """Have commands read what is left, and the next ingestion see to the rest."""
    series.live_at(number)
    sandbox = series.sandbox
    archive = ["--archive", str(sandbox.archive), "--no-ingest"]
    for words in (
        ["list", *archive],
        ["search", "0", *archive],
        ["doctor", *archive[:2]],
    ):
        assert main(words) in {0, 1, 10}
    said = capfd.readouterr()
    assert "error: unexpected " not in said.out + said.err
    sandbox.ingest()
    stored_bytes = sandbox.bytes()
    for path in sandbox.home.path.rglob("*.jsonl"):
        is_purged = PURGED in path.name and str(path) not in stored_bytes
        assert is_purged or stored_bytes[str(path)][-1] == path.read_bytes()
    assert differing_tables(sandbox) == []


def cut_power(
    series: Series,
    points: int,
    going_on: int,
    capfd: pytest.CaptureFixture[str],
    *,
    since: int = 0,
) -> tuple[int, int]:
    """Let the power go at that many moments; return how many, and where it went on."""
    looked = went_on = 0
    length = sum(len(step.acts) for step in series.steps[since:])
    for moment in series.moments(max(length // points, 1), since):
        seeds = range(looked, looked + max(points // length, 1))
        for seed in [*([None] if moment.is_naming else []), *seeds]:
            random = None if seed is None else Random(seeded(seed))  # noqa: S311 (the same)
            series.lay(moment.disk.without_power(random))
            assert_left(series, moment.number, is_over=moment.is_over)
            looked += 1
            if looked * going_on // points > went_on:
                assert_goes_on(series, moment.number, capfd)
                went_on += 1
    return looked, went_on


@pytest.mark.full
def test_every_file_survives_a_power_cut_or_is_rebuilt(
    scratch: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    series = Series(scratch, SERIES)

    looked, went_on = cut_power(series, POINTS, GOING_ON, capfd)

    reached("power cuts, all files of a series of commands", looked)
    reached("power cuts, all files, then read and ingested again", went_on)


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "mutation"),
    [("restore", "skip_file_fsyncs"), ("integrate", "skip_all_fsyncs")],
)
def test_a_file_that_has_its_name_before_its_bytes_is_caught(
    scratch: Path, name: str, mutation: str, capfd: pytest.CaptureFixture[str]
) -> None:
    series = Series(scratch, ("ingest", name), mutation)

    with pytest.raises(AssertionError):
        cut_power(series, POINTS, 0, capfd, since=1)


@pytest.mark.full
def test_words_that_are_noted_before_they_are_certain_are_caught(
    scratch: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    series = Series(scratch, ("ingest", "ingest"), "skip_folder_fsyncs")

    with pytest.raises(AssertionError, match="text"):
        cut_power(series, 60, 60, capfd, since=1)
