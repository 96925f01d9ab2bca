"""Import what is new while the picker is on the screen.

Claude Code writes all the time, so there is usually something to import. The list of what
is known does not wait for that.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from bygones.archive import Archive

if TYPE_CHECKING:
    from bygones.cli.open_archive import OpenedArchive

_IMPORTING = "importing new transcripts …"
_FAILED = "new transcripts could not be imported: bygones ingest"
_MAX_STOP_SECONDS = 5.0


class OnNewData(Protocol):
    """Is called in the thread of the check, when its status changes."""

    def __call__(self, *, is_changed: bool) -> None: ...


class NewDataCheck:
    """Checks homes for new transcripts once, and imports them in another process."""

    def __init__(self, opened: OpenedArchive) -> None:
        self._archive_folder = opened.archive.folder
        self._homes = opened.unchecked_homes
        self._on_change: OnNewData | None = None
        self._lock = threading.Lock()
        self._is_started = False
        self._is_stopped = False
        self._child: subprocess.Popen[bytes] | None = None
        self.status = opened.note
        """What the line of state says about it."""

    def start(self, on_change: OnNewData) -> None:
        """Start the check; the second call does nothing."""
        if self._homes and not self._is_started:
            self._is_started, self._on_change = True, on_change
            threading.Thread(target=self._run, daemon=True, name="new data").start()

    def stop(self) -> None:
        """End an import that is running: the next command continues it."""
        with self._lock:
            self._is_stopped = True
            child = self._child
        if child is not None and child.poll() is None:
            child.terminate()
            with suppress(subprocess.TimeoutExpired):
                child.wait(_MAX_STOP_SECONDS)

    def _run(self) -> None:
        try:
            self._check()
        except Exception:  # noqa: BLE001 (the list is still usable without it)
            self._report(_FAILED, is_changed=False)

    def _check(self) -> None:
        with Archive.open(self._archive_folder) as archive:
            if archive.is_current(self._homes):
                return
        with self._lock:
            if self._is_stopped:
                return
            self._child = self._start_import()
        self._report(_IMPORTING, is_changed=False)
        code = self._child.wait()
        if not self._is_stopped:
            self._report(_FAILED if code else "", is_changed=not code)

    def _start_import(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "bygones", "hook", "--now"]
        command += ["--archive", str(self._archive_folder)]
        for home in self._homes:
            command += ["--home", str(home)]
        return subprocess.Popen(  # noqa: S603 (our own command)
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # Ctrl-C in the picker does not interrupt it before it is stopped.
            start_new_session=True,
        )

    def _report(self, status: str, *, is_changed: bool) -> None:
        self.status = status
        if self._on_change is not None:
            self._on_change(is_changed=is_changed)
