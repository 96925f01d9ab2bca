"""Watching homes on file systems that report changes, and on others."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from threading import Event

import pytest
from watchfiles import Change

from bygones.errors import ArchiveInUse, SessionsNotIndexed
from bygones.ingest import watch as watching
from bygones.model.base import IngestReport

Changes = set[tuple[Change, str]]


class Homes:
    """Homes that change, and a file system that may report it."""

    def __init__(
        self, events: list[Changes | Exception], reports: list[IngestReport]
    ) -> None:
        self.events = events
        self.reports = reports
        self.stop = Event()
        self.modes: list[bool] = []
        self.ingested = 0

    def iter_changes(self, *_: Path, **options: object) -> Iterator[Changes]:
        """Replaces `watchfiles.watch`."""
        self.modes.append(bool(options["force_polling"]))
        while self.events:
            event = self.events.pop(0)
            if isinstance(event, Exception):
                raise event
            yield event
        self.stop.set()

    def ingest(self, *_: object, **__: object) -> IngestReport:
        """Replaces `ingest`."""
        self.ingested += 1
        report = self.reports.pop(0) if self.reports else IngestReport()
        report.failure = SessionsNotIndexed(Path(), 1, "one", 0, ValueError())
        return report


def run_watch(
    monkeypatch: pytest.MonkeyPatch, homes: Homes, *, polling: bool = False
) -> list[IngestReport]:
    reports: list[IngestReport] = []
    monkeypatch.setattr(watching, "watch_files", homes.iter_changes)
    monkeypatch.setattr(watching, "ingest", homes.ingest)
    folder = Path("archive")
    watching.watch(folder, [Path()], reports.append, stop=homes.stop, polling=polling)
    return reports


def test_file_system_that_cannot_be_watched_is_polled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    homes = Homes([OSError("no watches left"), set()], [])

    run_watch(monkeypatch, homes)

    assert homes.modes == [False, True]


def test_error_while_polling_is_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    homes = Homes([OSError("gone")], [])

    with pytest.raises(OSError, match="gone"):
        run_watch(monkeypatch, homes, polling=True)


def test_unreported_change_switches_to_polling(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = count(0, 50)
    monkeypatch.setattr(
        "bygones.ingest.watch.time.monotonic", lambda: float(next(clock))
    )
    homes = Homes(
        [set(), set(), set(), set()],
        [IngestReport(), IngestReport(), IngestReport(grown=1)],
    )

    reports = run_watch(monkeypatch, homes)

    assert homes.modes == [False, True]
    assert [report.grown for report in reports] == [1]


def test_changes_before_the_watch_started_are_ingested(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    homes = Homes([set(), set()], [IngestReport(new=1), IngestReport(grown=1)])

    reports = run_watch(monkeypatch, homes)

    assert [(report.new, report.grown) for report in reports] == [(1, 0), (0, 1)]
    assert homes.ingested == 2


def test_only_changes_of_sources_start_an_ingestion(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = tmp_path / ".claude"
    (home / "projects" / "-x").mkdir(parents=True)
    noise = {(Change.modified, str(home / "debug" / "log.txt"))}
    source = {(Change.modified, str(home / "projects" / "-x" / "a.jsonl"))}
    folder = {(Change.added, str(home / "projects" / "-x"))}
    homes = Homes([set(), noise, source, folder, set()], [])

    run_watch(monkeypatch, homes)

    # At the start, once more after it, for the file, for the folder, and after that.
    assert homes.ingested == 5


def test_watch_continues_while_another_process_writes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    homes = Homes([set(), set()], [])

    def refuse(*_: object, **__: object) -> IngestReport:
        homes.ingested += 1
        if homes.ingested < 3:
            raise ArchiveInUse(Path("archive"))
        return IngestReport(new=1)

    monkeypatch.setattr(homes, "ingest", refuse)

    assert [report.new for report in run_watch(monkeypatch, homes)] == [1]
