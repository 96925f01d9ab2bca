"""Serving a hub: an address, the gate, and what derives beside it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from msgspec import Struct

from bygones.hub.app import hub_application
from bygones.hub.behind import Deriving
from bygones.hub.gate import HubGate
from bygones.hub.intake import Intake
from bygones.hub.people import Opening, People
from bygones.prices import Prices
from bygones.team.contract import TeamStore
from bygones.team.objects import RawObjects
from bygones.team.tokens import Notes, Tokens
from bygones.web.ready import make_ready
from bygones.web.server import listening, server_of

__all__ = ["HubPlace", "HubServing"]

_TURN = 0.0005
"""Seconds after which a thread lets another go on."""


class HubPlace(Struct, frozen=True, kw_only=True):
    """Where a hub listens, and under which names it is known."""

    host: str = "127.0.0.1"
    port: int = 0
    """Zero for one that is free."""
    names: tuple[str, ...] = ()
    """Values of ``Host`` besides the address: what people type."""
    prices: Prices | None = None


class HubServing:
    """A hub that listens; it keeps nothing that another hub would miss.

    ``store`` takes parcels in, ``notes`` knows the tokens: over connections of their
    own, neither waits for the other.
    """

    def __init__(  # noqa: PLR0913 (most by name)
        self,
        store: TeamStore,
        objects: RawObjects,
        place: HubPlace,
        *,
        opening: Opening,
        derive: Callable[[], bool],
        notes: Notes,
        withheld: Callable[[], str] = str,
        say: Callable[[str], None] = lambda _sentence: None,
    ) -> None:
        self._listening = listening(place.host, place.port)
        self.port = int(self._listening.getsockname()[1])
        shown = f"[{place.host}]" if ":" in place.host else place.host
        self.address = f"http://{shown}:{self.port}"
        tokens = Tokens(notes, time.monotonic)
        people = People(opening, place.prices)
        self.deriving = Deriving(derive, people.renew, withheld=withheld, say=say)
        app = hub_application(Intake(store, objects), tokens, people, self.deriving)
        names = {*place.names, *(f"{name}:{self.port}" for name in place.names)}
        gate = HubGate(app, tokens, host=place.host, port=self.port, names=names)
        self._server = server_of(gate, people.part)

    def run(self) -> None:
        """Serve until Ctrl-C, or until :meth:`stop`."""
        make_ready()
        # Whoever waits for the engine must not wait as long for its turn afterwards.
        before = sys.getswitchinterval()
        sys.setswitchinterval(_TURN)
        try:
            self._server.run(sockets=[self._listening])
        finally:
            sys.setswitchinterval(before)
            self._listening.close()

    def stop(self) -> None:
        """Stop serving, from any thread."""
        self._server.should_exit = True

    @property
    def is_up(self) -> bool:
        """Whether it answers."""
        return self._server.started
