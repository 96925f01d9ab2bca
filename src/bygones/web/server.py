"""Serving: an address of this machine, the gate, and the watch beside it."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn
from msgspec import Struct

from bygones.errors import SystemFailure
from bygones.usage.prices import Prices
from bygones.web.app import create_app
from bygones.web.context import AppState
from bygones.web.live import ArchiveWatcher, EventBroadcaster
from bygones.web.pool import ArchivePool
from bygones.web.security import (
    LOGIN_PATH,
    LoginKeys,
    RequestLimits,
    SecurityMiddleware,
)
from bygones.web.warmup import warm_up

__all__ = ["ServerConfig", "WebServer", "bind_socket", "create_server"]

_BACKLOG = 512
"""Connections that may wait to be taken."""
_SHUTDOWN_TIMEOUT = 2
"""Seconds that pages get to end when the server does."""


class ServerConfig(Struct, frozen=True, kw_only=True):
    """What is served, and where."""

    folder: Path
    homes: tuple[Path, ...] = ()
    """The homes to watch; none to show the archive as it is."""
    host: str = "127.0.0.1"
    port: int = 0
    """Zero for one that is free."""
    prices: Prices | None = None
    polling: bool = False


class WebServer:
    """A server that listens; ``told`` gets each link, which works once."""

    def __init__(
        self, config: ServerConfig, on_link: Callable[[str], None], path: str = "/"
    ) -> None:
        self._config = config
        self._on_link = on_link
        self._socket = bind_socket(config.host, config.port)
        port = int(self._socket.getsockname()[1])
        shown = f"[{config.host}]" if ":" in config.host else config.host
        self._login_url = f"http://{shown}:{port}{LOGIN_PATH}?key="
        self._keys = LoginKeys(port, self._announce_key)
        readers, herald = ArchivePool(config.folder), EventBroadcaster()
        house = AppState(
            pool=readers, broadcaster=herald, homes=config.homes, prices=config.prices
        )
        gate = SecurityMiddleware(
            create_app(house), self._keys, host=config.host, port=port
        )
        self._watcher = ArchiveWatcher(
            readers, herald, config.homes, polling=config.polling
        )
        self._server = create_server(gate, herald.close)
        on_link(
            self._login_url
            + self._keys.one_time_key
            + (f"&to={path}" if path != "/" else "")
        )

    def _announce_key(self, key: str) -> None:
        self._on_link(self._login_url + key)

    def run(self) -> None:
        """Serve until Ctrl-C, or until :meth:`stop`."""
        warm_up()
        if self._config.homes:
            self._watcher.start()
        try:
            self._server.run(sockets=[self._socket])
        finally:
            if self._config.homes:
                self._watcher.stop()
            self._socket.close()

    def stop(self) -> None:
        """Stop serving, from any thread."""
        self._server.should_exit = True


class _UvicornServer(uvicorn.Server):
    """A server that lets those go who listen, before it waits for all to be gone."""

    on_shutdown: Callable[[], None]

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.on_shutdown()
        await super().shutdown(sockets)


def create_server(
    app: SecurityMiddleware, on_shutdown: Callable[[], None]
) -> uvicorn.Server:
    """Return a server of what is behind a gate; ``ending`` is called when it stops."""
    server = _UvicornServer(
        uvicorn.Config(
            app,
            # Pages tell what went wrong; who is cut off at the end is no error.
            log_level="error" if os.environ.get("BYGONES_DEBUG") else "critical",
            access_log=False,
            server_header=False,
            ws="none",
            limit_concurrency=RequestLimits.max_concurrent_requests * 2,
            timeout_graceful_shutdown=_SHUTDOWN_TIMEOUT,
            timeout_keep_alive=30,
            backlog=_BACKLOG,
        )
    )
    server.on_shutdown = on_shutdown
    return server


def bind_socket(host: str, port: int) -> socket.socket:
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
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        reason = (error.strerror or str(error)).lower()
        raise SystemFailure(f"{host} port {port}: {reason}") from error
    return listening
