"""Serving: an address of this machine, the gate, and the watch beside it."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn
from msgspec import Struct

from recollect.errors import SystemRefused
from recollect.prices import Prices
from recollect.web.app import application
from recollect.web.gate import ENTRANCE, Gate, Keys, Limits
from recollect.web.live import Hub, Watching
from recollect.web.readers import Readers
from recollect.web.visit import House

__all__ = ["Place", "serve"]

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


def serve(place: Place, told: Callable[[str], None], to: str = "/") -> None:
    """Serve until Ctrl-C; ``told`` gets each link, which works once."""
    listening = _listening(place.host, place.port)
    port = int(listening.getsockname()[1])
    shown = f"[{place.host}]" if ":" in place.host else place.host
    start = f"http://{shown}:{port}{ENTRANCE}?"

    def tell(key: str, path: str = "/") -> None:
        told(f"{start}key={key}" + (f"&to={path}" if path != "/" else ""))

    keys = Keys(port, tell)
    readers, hub = Readers(place.folder), Hub()
    house = House(readers=readers, hub=hub, homes=place.homes, prices=place.prices)
    gate = Gate(application(house), keys, host=place.host, port=port)
    watching = Watching(readers, hub, place.homes, polling=place.polling)
    if place.homes:
        watching.begin()
    server = uvicorn.Server(
        uvicorn.Config(
            gate,
            log_level="error",
            access_log=False,
            server_header=False,
            ws="none",
            limit_concurrency=Limits.at_once * 2,
            timeout_graceful_shutdown=_PARTING,
            timeout_keep_alive=30,
            backlog=_WAITING,
        )
    )
    tell(keys.once, to)
    try:
        server.run(sockets=[listening])
    finally:
        if place.homes:
            watching.end()
        listening.close()


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
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
