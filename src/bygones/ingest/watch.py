"""Keep an archive up to date while its sources change."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from threading import Event

from watchfiles import Change
from watchfiles import watch as watch_files
from watchfiles._rust_notify import WatchfilesRustInternalError

from bygones.errors import ArchiveInUse
from bygones.ingest.run import ingest
from bygones.model.base import IngestReport
from bygones.sources.walk import is_source

_DEBOUNCE_MS = 400
"""How long a series of appends may last before it is imported."""
_QUIET_MS = 60
"""How long nothing must change for a series of appends to be over."""
_TICK_MS = 1000
_POLL_MS = 400
_FULL_SCAN_SECONDS = 60.0
"""Seconds after which the homes are scanned even if no change was reported."""
_LOCK_TIMEOUT = 1.0

ReportCallback = Callable[[IngestReport], None]


def watch(
    folder: Path,
    paths: Sequence[Path],
    on_report: ReportCallback,
    *,
    stop: Event | None = None,
    polling: bool = False,
) -> None:
    """Keep the archive in a folder up to date until `stop` is set.

    `on_report` gets the report of every ingestion that changed something. Network
    shares and mounts of containers don't report changes. They are polled every few
    hundred milliseconds: if `polling` is set, if they can't be watched, or if a scan
    finds a change that was not reported.
    """
    watcher = _Watcher(folder, paths, on_report, stop or Event())
    watcher.ingest()
    while not watcher.stop.is_set():
        polling = watcher.follow(polling=polling) or polling


class _Watcher:
    def __init__(
        self,
        folder: Path,
        paths: Sequence[Path],
        on_report: ReportCallback,
        stop: Event,
    ) -> None:
        self.folder = folder
        self.paths = paths
        self.on_report = on_report
        self.stop = stop
        self._is_ingest_due = True
        self._last_ingest = 0.0
        self._is_source = lru_cache(maxsize=4096)(is_source)

    def ingest(self) -> bool:
        """Import what is new; return whether something was."""
        try:
            report = ingest(self.folder, self.paths, lock_timeout=_LOCK_TIMEOUT)
        except ArchiveInUse:
            self._is_ingest_due = True
            return False
        self._last_ingest = time.monotonic()
        if report.changed or report.gone:
            self.on_report(report)
        return bool(report.changed)

    def follow(self, *, polling: bool) -> bool:
        """Ingest whenever there are changes; return whether to poll from now on."""
        try:
            for changes in self._iter_changes(polling=polling):
                if self.stop.is_set():
                    return polling
                if self._has_source_changes(changes):
                    # A new folder may have been filled before it was watched.
                    self._is_ingest_due = any(
                        change is Change.added for change, _ in changes
                    )
                    self.ingest()
                elif self._is_ingest_due:
                    # Changes made before the watch started are not reported.
                    self._is_ingest_due = False
                    self.ingest()
                elif self._is_overdue() and self.ingest() and not polling:
                    return True
        except (OSError, WatchfilesRustInternalError):
            if polling:
                raise
            return True
        return polling

    def _iter_changes(self, *, polling: bool) -> Iterator[set[tuple[Change, str]]]:
        yield from watch_files(
            *self.paths,
            watch_filter=None,
            debounce=_DEBOUNCE_MS,
            step=_QUIET_MS,
            rust_timeout=_TICK_MS,
            yield_on_timeout=True,
            stop_event=self.stop,
            force_polling=polling or None,
            poll_delay_ms=_POLL_MS,
        )

    def _is_overdue(self) -> bool:
        return time.monotonic() - self._last_ingest > _FULL_SCAN_SECONDS

    def _has_source_changes(self, changes: set[tuple[Change, str]]) -> bool:
        return any(
            self._is_source(Path(path))
            or (change is Change.added and Path(path).is_dir())
            for change, path in changes
        )
