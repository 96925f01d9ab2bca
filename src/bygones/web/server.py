"""The web server: socket, application, login links and the archive watcher."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn
from msgspec import Struct

from bygones.sockets import BACKLOG, bind_socket
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

_SHUTDOWN_SECONDS = 2
"""How long requests may take to end when the server stops."""


class ServerConfig(Struct, frozen=True, kw_only=True):
    folder: Path
    homes: tuple[Path, ...] = ()
    """The homes to watch; empty to leave the archive unchanged."""
    host: str = "127.0.0.1"
    port: int = 0
    """0 chooses a free port."""
    prices: Prices | None = None
    polling: bool = False


class WebServer:
    """Serves one archive; `on_link` receives each login link, which works once."""

    def __init__(
        self, config: ServerConfig, on_link: Callable[[str], None], path: str = "/"
    ) -> None:
        self._config = config
        self._on_link = on_link
        self._socket = bind_socket(config.host, config.port)
        port = int(self._socket.getsockname()[1])
        host = f"[{config.host}]" if ":" in config.host else config.host
        self._login_url = f"http://{host}:{port}{LOGIN_PATH}?key="
        self._keys = LoginKeys(port, self._announce_key)
        pool, broadcaster = ArchivePool(config.folder), EventBroadcaster()
        app_state = AppState(
            pool=pool,
            broadcaster=broadcaster,
            homes=config.homes,
            prices=config.prices,
        )
        app = SecurityMiddleware(
            create_app(app_state), self._keys, host=config.host, port=port
        )
        self._watcher = ArchiveWatcher(
            pool, broadcaster, config.homes, polling=config.polling
        )
        self._server = create_server(app, broadcaster.close)
        on_link(
            self._login_url
            + self._keys.one_time_key
            + (f"&to={path}" if path != "/" else "")
        )

    def _announce_key(self, key: str) -> None:
        self._on_link(self._login_url + key)

    def run(self) -> None:
        """Serve until Ctrl-C or `stop`."""
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
        """Stop serving; may be called from any thread."""
        self._server.should_exit = True


class _UvicornServer(uvicorn.Server):
    """Ends event streams before it waits for all requests to end."""

    on_shutdown: Callable[[], None]

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.on_shutdown()
        await super().shutdown(sockets)


def create_server(
    app: SecurityMiddleware, on_shutdown: Callable[[], None]
) -> uvicorn.Server:
    """Return a server for an application; `on_shutdown` is called when it stops."""
    server = _UvicornServer(
        uvicorn.Config(
            app,
            # Error pages say what is wrong, and a cut connection is not an error.
            log_level="error" if os.environ.get("BYGONES_DEBUG") else "critical",
            access_log=False,
            server_header=False,
            ws="none",
            limit_concurrency=RequestLimits.max_concurrent_requests * 2,
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
            timeout_keep_alive=30,
            backlog=BACKLOG,
        )
    )
    server.on_shutdown = on_shutdown
    return server
