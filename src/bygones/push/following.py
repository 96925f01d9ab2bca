"""Pushing while sessions go on: soon after something came, and never too often."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread

from bygones.errors import BygonesError, HubUnreachable

__all__ = ["Following"]

_LATER = 60.0
"""Seconds after which a hub that could not be reached is tried again."""


class Following:
    """Calls ``push`` in a thread of its own, whenever it was woken.

    ``failed`` hears of a hub that could not be reached, which is tried again, and of
    anything else, which ends it.
    """

    pause = 60.0
    """Seconds between two pushes: each of them makes an object of every file that grew,
    and has the hub derive its session anew."""

    def __init__(
        self, push: Callable[[], object], failed: Callable[[BygonesError], None]
    ) -> None:
        self._push = push
        self._failed = failed
        self._due = Event()
        self.stop = Event()
        self._thread = Thread(target=self._run, name="push", daemon=True)

    def begin(self) -> None:
        """Begin; the first push is due."""
        self._due.set()
        self._thread.start()

    def wake(self) -> None:
        """Say that there is something to send."""
        self._due.set()

    def end(self) -> None:
        """Stop, and wait for the push that is under way."""
        self.stop.set()
        self._due.set()
        self._thread.join()

    def _run(self) -> None:
        while not self.stop.is_set():
            self._due.wait()
            if self.stop.is_set():
                return
            self._due.clear()
            try:
                self._push()
            except HubUnreachable as error:
                self._failed(error)
                self._due.set()
                self.stop.wait(_LATER)
            except BygonesError as error:
                self._failed(error)
                self.stop.set()
            self.stop.wait(self.pause)
