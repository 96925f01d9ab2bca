"""Behind the door: a thread that derives sessions from what has come."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread
from time import monotonic

__all__ = ["Deriving"]

_PAUSE = 5.0
"""Seconds after which the thread looks though nobody woke it: others take in too."""
_AGAIN = 1.0
"""Seconds after which what failed is tried again."""
_PARTING = 30.0
_QUIET = 0.3
"""Seconds without anything new after which what has come is derived, at least: parcels
come as far apart as derivations are long, where the same processor makes both."""
_LONGEST = 60.0
"""Seconds that something waits at most while more comes."""


class Deriving:
    """Calls ``derive`` until nothing is left, whenever it is woken and now and then.

    ``derive`` returns whether it wrote something; ``told`` hears of that. What fails is
    tried again later: whatever was put stays touched until it is derived.

    While parcels keep coming it rests as long as the last derivation took: a session is
    derived whole, and one that comes in a hundred parcels must not be so as often.
    """

    def __init__(self, derive: Callable[[], bool], told: Callable[[], None]) -> None:
        self._derive = derive
        self._told = told
        self._woken = Event()
        self._stop = Event()
        self._thread = Thread(target=self._run, name="derive", daemon=True)
        self._rest = _QUIET
        self.failure = ""
        """Why the last attempt came to nothing."""

    def begin(self) -> None:
        """Begin, with whatever was left undone."""
        self._woken.set()
        self._thread.start()

    def wake(self) -> None:
        """Go on soon: something has come."""
        self._woken.set()

    def end(self) -> None:
        """Stop, and wait for what is being done."""
        self._stop.set()
        self._woken.set()
        self._thread.join(_PARTING)

    def _settle(self) -> None:
        """Wait until nothing comes for a moment, or for long enough."""
        until = monotonic() + self._rest
        quiet = max(_QUIET, self._rest / 2)
        while self._woken.is_set() and not self._stop.is_set():
            self._woken.clear()
            left = until - monotonic()
            if left <= 0 or not self._woken.wait(min(left, quiet)):
                return

    def _run(self) -> None:
        while not self._stop.is_set():
            self._woken.wait(_PAUSE)
            self._settle()
            begun = monotonic()
            try:
                while not self._stop.is_set() and self._derive():
                    self._told()
                self.failure = ""
                self._rest = min(max(monotonic() - begun, _QUIET), _LONGEST)
            except Exception as error:  # noqa: BLE001 (one bad source must not stop all)
                self.failure = f"{type(error).__name__}: {error}"
                self._stop.wait(_AGAIN)
                self._woken.set()
