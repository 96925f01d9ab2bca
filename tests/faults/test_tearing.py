"""Power cuts, with all files that commands write: also the text index, notes and copies.

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
from tests.faults.disk import FileOperation, write_files
from tests.faults.failing import PURGED, StoredContent, stored_content
from tests.faults.folders import Folders
from tests.faults.sizes import reached, seeded, sized
from tests.faults.tracing import trace_command
from tests.store.sandbox import Sandbox, differing_tables

pytestmark = pytest.mark.skipif(
    shutil.which("strace") is None or not sys.platform.startswith("linux"),
    reason="system calls are recorded with strace",
)

POINTS = sized(60, 4_000, 20_000)
"""Moments of power cuts, besides those at which something is renamed."""
CONTINUATIONS = sized(6, 300, 2_000)
SERIES = (
    *("ingest", "verify", "ingest", "backup", "ingest", "verify"),
    *("backup", "rebuild", "restore", "integrate", "purge"),
)
OLDER = b"what was there before"
UNFINISHED = re.compile(r"^\.bygones-|\.bygones$")
"""The names of temporary files that are renamed when they are complete."""
RENAMES = frozenset({"link", "move", "delete"})
"""Operations that change or remove a name."""
NUMBERS = re.compile(r"[0-9a-f]{6,}|\d+")


class DiskState(NamedTuple):
    """The files on a disk."""

    archive: StoredContent
    backup: StoredContent
    restored: StoredContent
    settings: StoredContent
    """Of Claude Code, including the user's own."""


class Step(NamedTuple):
    """A command that was run: its operations, and the disk after it."""

    operations: list[FileOperation]
    home: Path
    """The home as it was then."""
    disk_state: DiskState


class Moment(NamedTuple):
    """A moment of a power cut, and the disk at that time."""

    number: int
    """Of the command."""
    is_last: bool
    is_rename: bool
    """Whether this is the first rename of its kind in the command."""
    disk: Folders


class Series:
    """Commands on one archive, one after the other."""

    def __init__(self, folder: Path, names: Sequence[str], mutation: str = "") -> None:
        self.sandbox = Sandbox(folder)
        self.root = folder / "place"
        self.sandbox.archive = self.root / "archive"
        self.to = self.root / "to"
        restored = self.to / "projects/-work-demo"
        restored.mkdir(parents=True)
        (restored / f"{session_id(0)}.jsonl").write_bytes(OLDER)
        self.claude = self.root / "claude"
        self.claude.mkdir()
        for name in ("settings.json", ".claude.json"):
            (self.claude / name).write_bytes(b'{"theirs": 1}\n')
        self.first = self.disk_state()
        self.steps: list[Step] = []
        random = Random(9)  # noqa: S311 (the same every time)
        for number, name in enumerate(names):
            self._grow(random, number)
            home = folder / f"home-{number}"
            shutil.copytree(self.sandbox.home.path, home)
            env = {"CLAUDE_CONFIG_DIR": str(self.claude)}
            operations = trace_command(self.arguments(name), self.root, env, mutation)
            self.steps.append(Step(operations, home, self.disk_state()))

    def arguments(self, name: str) -> list[str]:
        more = {
            "ingest": ["--home", str(self.sandbox.home.path)],
            "backup": [str(self.root / "backup")],
            "restore": ["--all", "--overwrite", "--to", str(self.to)],
            "purge": ["--yes", PURGED],
        }
        if name == "integrate":
            return [name, "claude", "--add", "--statusline"]
        return [name, "--archive", str(self.sandbox.archive), *more.get(name, [])]

    def _grow(self, random: Random, number: int) -> None:
        for session in range(3):
            text = " ".join(str(random.random()) for _ in range(random.choice([3, 90])))
            records = thread(prompt(f"{number} {text}"), reply(text))
            path = (
                self.sandbox.home.path
                / f"projects/-work-demo/{session_id(session)}.jsonl"
            )
            path.parent.mkdir(parents=True, exist_ok=True)
            is_rewritten = session == number == 2
            before = path.read_bytes() if path.exists() and not is_rewritten else b""
            path.write_bytes(before + jsonl(records))

    def disk_state(self) -> DiskState:
        return DiskState(
            stored_content(self.sandbox.archive),
            stored_content(self.root / "backup"),
            files_of(self.to),
            files_of(self.claude),
        )

    def moments(self, every: int, since: int) -> Iterator[Moment]:
        """Yield moments: every n operations, at the end of commands, and after renames."""
        disk = Folders(self.root, self.first.restored | self.first.settings)
        done = 0
        for number, step in enumerate(self.steps):
            seen_kinds: set[tuple[str, str]] = set()
            for at, operation in enumerate(step.operations, 1):
                disk.record(operation)
                done += number >= since
                kind = operation.kind, NUMBERS.sub("", Path(operation.path).name)
                is_rename = operation.kind in RENAMES and kind not in seen_kinds
                seen_kinds.add(kind)
                is_last = at == len(step.operations)
                is_selected = not done % every or is_last or is_rename
                if is_selected and number >= since:
                    yield Moment(number, is_last, is_rename, disk)

    def write_disk(self, files: dict[str, bytes]) -> None:
        """Write the files of a disk."""
        shutil.rmtree(self.root)
        write_files(files, self.root, self.root)

    def restore_home(self, number: int) -> None:
        """Restore the home as it was when a command started."""
        shutil.rmtree(self.sandbox.home.path)
        shutil.copytree(self.steps[number].home, self.sandbox.home.path)


def files_of(folder: Path) -> StoredContent:
    """Return the files in a folder, without temporary files."""
    return {
        str(path): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not UNFINISHED.search(path.name)
    }


def assert_state(series: Series, number: int, *, is_last: bool) -> None:
    """Compare the remaining files with those before and after a command."""
    before = series.steps[number - 1].disk_state if number else series.first
    after = series.steps[number].disk_state
    for path in series.root.rglob("archive.db"):
        assert_intact(path)
    remaining = series.disk_state()
    if is_last:
        assert remaining == after
    assert remaining.archive in (before.archive, after.archive)
    assert remaining.backup in (before.backup, after.backup)
    for files, old, new in zip(remaining[2:], before[2:], after[2:], strict=True):
        assert all(raw in (old.get(path), new.get(path)) for path, raw in files.items())
    # Replaced files are there as copies, and settings are never missing.
    assert set(before.restored.values()) <= set(remaining.restored.values())
    assert set(before.settings) <= set(remaining.settings)


def assert_intact(path: Path) -> None:
    copy = path.parent.with_name("copy")
    shutil.copytree(path.parent, copy)
    with closing(sqlite3.connect(copy / path.name)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    shutil.rmtree(copy)


def assert_recovers(
    series: Series, number: int, capfd: pytest.CaptureFixture[str]
) -> None:
    """Read the remaining data with commands; the next ingestion must recover the rest."""
    series.restore_home(number)
    sandbox = series.sandbox
    archive = ["--archive", str(sandbox.archive), "--no-ingest"]
    for arguments in (
        ["list", *archive],
        ["search", "0", *archive],
        ["doctor", *archive[:2]],
    ):
        assert main(arguments) in {0, 1, 10}
    captured = capfd.readouterr()
    assert "error: unexpected " not in captured.out + captured.err
    sandbox.ingest()
    stored_bytes = sandbox.bytes()
    for path in sandbox.home.path.rglob("*.jsonl"):
        is_purged = PURGED in path.name and str(path) not in stored_bytes
        assert is_purged or stored_bytes[str(path)][-1] == path.read_bytes()
    assert differing_tables(sandbox) == []


def cut_power(
    series: Series,
    points: int,
    continuations: int,
    capfd: pytest.CaptureFixture[str],
    *,
    since: int = 0,
) -> tuple[int, int]:
    """Cut the power at that many moments; return how many, and how often it continued."""
    count = continued = 0
    length = sum(len(step.operations) for step in series.steps[since:])
    for moment in series.moments(max(length // points, 1), since):
        seeds = range(count, count + max(points // length, 1))
        for seed in [*([None] if moment.is_rename else []), *seeds]:
            random = None if seed is None else Random(seeded(seed))  # noqa: S311 (the same)
            series.write_disk(moment.disk.after_power_cut(random))
            assert_state(series, moment.number, is_last=moment.is_last)
            count += 1
            if count * continuations // points > continued:
                assert_recovers(series, moment.number, capfd)
                continued += 1
    return count, continued


@pytest.mark.full
def test_every_file_survives_a_power_cut_or_is_rebuilt(
    scratch: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    series = Series(scratch, SERIES)

    count, continued = cut_power(series, POINTS, CONTINUATIONS, capfd)

    reached("power cuts, all files of a series of commands", count)
    reached("power cuts, all files, then read and ingested again", continued)


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
