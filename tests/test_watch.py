"""Watching where a file system is of little help."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from threading import Event

import pytest
from watchfiles import Change

from bygones import watch as watching
from bygones.errors import ArchiveInUse
from bygones.model.progress import IngestReport

Changes = set[tuple[Change, str]]


class Homes:
    """Homes that change, and a file system that tells of it or not."""

    def __init__(
        self, told: list[Changes | Exception], reports: list[IngestReport]
    ) -> None:
        self.told = told
        self.reports = reports
        self.stop = Event()
        self.modes: list[bool] = []
        self.ingested = 0

    def changes(self, *_: Path, **options: object) -> Iterator[Changes]:
        """Stand in for watchfiles."""
        self.modes.append(bool(options["force_polling"]))
        while self.told:
            told = self.told.pop(0)
            if isinstance(told, Exception):
                raise told
            yield told
        self.stop.set()

    def ingest(self, *_: object, **__: object) -> IngestReport:
        """Stand in for an ingestion."""
        self.ingested += 1
        return self.reports.pop(0) if self.reports else IngestReport()


def watched(
    monkeypatch: pytest.MonkeyPatch, homes: Homes, *, polling: bool = False
) -> list[IngestReport]:
    told: list[IngestReport] = []
    monkeypatch.setattr(watching, "changes_in", homes.changes)
    monkeypatch.setattr("bygones.watch.Archive.ingest", homes.ingest)
    place = Path("archive")
    watching.watch(place, [Path()], told.append, stop=homes.stop, polling=polling)
    return told


def test_a_file_system_that_refuses_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    homes = Homes([OSError("no watches left"), set()], [])

    watched(monkeypatch, homes)

    assert homes.modes == [False, True]


def test_one_that_refuses_to_be_looked_at_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    homes = Homes([OSError("gone")], [])

    with pytest.raises(OSError, match="gone"):
        watched(monkeypatch, homes, polling=True)


def test_a_change_of_which_nobody_told_ends_the_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = count(0, 50)
    monkeypatch.setattr("bygones.watch.time.monotonic", lambda: float(next(clock)))
    homes = Homes(
        [set(), set(), set(), set()],
        [IngestReport(), IngestReport(), IngestReport(grown=1)],
    )

    told = watched(monkeypatch, homes)

    assert homes.modes == [False, True]
    assert [report.grown for report in told] == [1]


def test_what_was_written_before_the_watch_began_is_met(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    homes = Homes([set(), set()], [IngestReport(new=1), IngestReport(grown=1)])

    told = watched(monkeypatch, homes)

    assert [(report.new, report.grown) for report in told] == [(1, 0), (0, 1)]
    assert homes.ingested == 2


def test_only_files_that_a_walk_would_take_matter(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = tmp_path / ".claude"
    (home / "projects" / "-x").mkdir(parents=True)
    noise = {(Change.modified, str(home / "debug" / "log.txt"))}
    source = {(Change.modified, str(home / "projects" / "-x" / "a.jsonl"))}
    folder = {(Change.added, str(home / "projects" / "-x"))}
    homes = Homes([set(), noise, source, folder, set()], [])

    watched(monkeypatch, homes)

    # At the beginning, once because of that, for the file, the folder, and after it.
    assert homes.ingested == 5


def test_another_writer_is_no_reason_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    homes = Homes([set(), set()], [])

    def refuse(*_: object, **__: object) -> IngestReport:
        homes.ingested += 1
        if homes.ingested < 3:
            raise ArchiveInUse(Path("archive"))
        return IngestReport(new=1)

    monkeypatch.setattr(homes, "ingest", refuse)

    assert [report.new for report in watched(monkeypatch, homes)] == [1]
