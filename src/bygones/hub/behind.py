"""Behind the door: a thread that derives sessions from what has come.

What waits to be derived is known to the engine, and stays so until it is written: a
hub that was killed goes on when it starts, and several hubs may stand on one engine.
Here it is only decided when: once a sender has sent all it has, or after a while.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Lock, Thread
from time import monotonic

__all__ = ["Deriving"]

_PAUSE = 5.0
"""Seconds after which the thread looks though nobody woke it: others take in too."""
_AGAIN = 1.0
"""Seconds after which what failed is tried again."""
_PARTING = 30.0
_QUIET = 0.3
"""Seconds without anything new after which what has come is derived, at least."""
_SILENT = 15.0
"""Seconds after which a sender that said more would come is not waited for."""
_LONGEST = 60.0
"""Seconds that something waits at most while more comes."""


class Deriving:
    """Calls ``derive`` until nothing is left, whenever it is woken and now and then.

    ``derive`` returns whether it wrote something; ``told`` hears of that. What fails is
    tried again later: whatever was put stays touched until it is derived. ``withheld``
    tells what was set aside meanwhile, ``say`` hears of trouble once.

    A session is derived whole, with all it shares records with. So nothing is derived
    while a sender says that more is on its way, for a minute at most; and while parcels
    of others keep coming it rests as long as the last derivation took.
    """

    def __init__(
        self,
        derive: Callable[[], bool],
        told: Callable[[], None],
        *,
        withheld: Callable[[], str] = str,
        say: Callable[[str], None] = lambda _sentence: None,
    ) -> None:
        self._derive = derive
        self._told = told
        self._withheld = withheld
        self._say = say
        self._woken = Event()
        self._stop = Event()
        self._lock = Lock()
        self._expected: dict[str, float] = {}
        """Senders that have more, and until when that is believed."""
        self._thread = Thread(target=self._run, name="derive", daemon=True)
        self._rest = _QUIET
        self.failure = ""
        """Why the last attempt came to nothing."""
        self.trouble = ""
        """What whoever runs the hub is to know, without a word of what was sent."""

    def begin(self) -> None:
        """Begin, with whatever was left undone."""
        self._woken.set()
        self._thread.start()

    def wake(self, sender: str = "", *, more: bool = False) -> None:
        """Go on soon: something has come, and more is on its way, if it says so."""
        with self._lock:
            self._expected.pop(sender, None)
            if more:
                self._expected[sender] = monotonic() + _SILENT
        self._woken.set()

    def end(self) -> None:
        """Stop, and wait for what is being done."""
        self._stop.set()
        self._woken.set()
        self._thread.join(_PARTING)

    def _is_expecting(self) -> bool:
        with self._lock:
            return max(self._expected.values(), default=0.0) > monotonic()

    def _settle(self) -> None:
        """Wait until all have sent what they have, or for long enough."""
        begun = monotonic()
        quiet = max(_QUIET, self._rest / 2)
        while self._woken.is_set() and not self._stop.is_set():
            self._woken.clear()
            while not self._woken.wait(quiet):
                if not self._is_expecting() or monotonic() - begun >= _LONGEST:
                    return
            left = _LONGEST if self._is_expecting() else self._rest
            if monotonic() - begun >= left:
                return

    def _tell(self, trouble: str) -> None:
        """Say what is wrong, once, until something else is."""
        if trouble and trouble != self.trouble:
            self._say(trouble)
        self.trouble = trouble

    def _run(self) -> None:
        while not self._stop.is_set():
            self._woken.wait(_PAUSE)
            self._settle()
            begun = monotonic()
            try:
                while not self._stop.is_set() and self._derive():
                    self._told()
                    if self._is_expecting():
                        break
                self.failure = ""
                self._rest = min(max(monotonic() - begun, _QUIET), _LONGEST)
                self._tell(self._withheld())
            except Exception as error:  # noqa: BLE001 (one bad source must not stop all)
                self.failure = f"{type(error).__name__}: {error}"
                self._tell(f"deriving failed ({type(error).__name__}), it is tried on")
                self._stop.wait(_AGAIN)
                self._woken.set()
