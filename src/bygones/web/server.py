"""Serving: an address of this machine, the gate, and the watch beside it."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn
from msgspec import Struct

from bygones.errors import SystemRefused
from bygones.prices import Prices
from bygones.web.app import application
from bygones.web.gate import ENTRANCE, Gate, Keys, Limits
from bygones.web.live import Herald, Watching
from bygones.web.readers import Readers
from bygones.web.ready import make_ready
from bygones.web.visit import House

__all__ = ["Place", "Serving", "listening", "server_of"]

_WAITING = 512
"""Connections that may wait to be taken."""
_PARTING = 2
"""Seconds that pages get to end when the server does."""


class Place(Struct, frozen=True, kw_only=True):
    """What is served, and where."""

    folder: Path
    homes: tuple[Path, ...] = ()
    """The homes to watch; none to show the archive as it is."""
    host: str = "127.0.0.1"
    port: int = 0
    """Zero for one that is free."""
    prices: Prices | None = None
    polling: bool = False


class Serving:
    """A server that listens; ``told`` gets each link, which works once."""

    def __init__(
        self, place: Place, told: Callable[[str], None], to: str = "/"
    ) -> None:
        self._place = place
        self._told = told
        self._listening = listening(place.host, place.port)
        port = int(self._listening.getsockname()[1])
        shown = f"[{place.host}]" if ":" in place.host else place.host
        self._start = f"http://{shown}:{port}{ENTRANCE}?key="
        self._keys = Keys(port, self._tell)
        readers, herald = Readers(place.folder), Herald()
        house = House(
            readers=readers, herald=herald, homes=place.homes, prices=place.prices
        )
        gate = Gate(application(house), self._keys, host=place.host, port=port)
        self._watching = Watching(readers, herald, place.homes, polling=place.polling)
        self._server = server_of(gate, herald.end)
        told(self._start + self._keys.once + (f"&to={to}" if to != "/" else ""))

    def _tell(self, key: str) -> None:
        self._told(self._start + key)

    def run(self) -> None:
        """Serve until Ctrl-C, or until :meth:`stop`."""
        make_ready()
        if self._place.homes:
            self._watching.begin()
        try:
            self._server.run(sockets=[self._listening])
        finally:
            if self._place.homes:
                self._watching.end()
            self._listening.close()

    def stop(self) -> None:
        """Stop serving, from any thread."""
        self._server.should_exit = True


class _Server(uvicorn.Server):
    """A server that lets those go who listen, before it waits for all to be gone."""

    ending: Callable[[], None]

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.ending()
        await super().shutdown(sockets)


def server_of(gate: Gate, ending: Callable[[], None]) -> uvicorn.Server:
    """Return a server of what is behind a gate; ``ending`` is called when it stops."""
    server = _Server(
        uvicorn.Config(
            gate,
            # Pages tell what went wrong; who is cut off at the end is no error.
            log_level="error" if os.environ.get("BYGONES_DEBUG") else "critical",
            access_log=False,
            server_header=False,
            ws="none",
            limit_concurrency=Limits.at_once * 2,
            timeout_graceful_shutdown=_PARTING,
            timeout_keep_alive=30,
            backlog=_WAITING,
        )
    )
    server.ending = ending
    return server


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address.

    :raises SystemRefused: if the system has none for us.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    # Whoever accepts inherits it; else a short answer waits 40 ms for the reader's nod.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        # Whoever follows the link at once waits, and is not refused.
        listening.listen(_WAITING)
    except OSError as error:
        listening.close()
        reason = (error.strerror or str(error)).lower()
        raise SystemRefused(f"{host} port {port}: {reason}") from error
    return listening
