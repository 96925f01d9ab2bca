"""Start the web server, and load all types before threads start.

No page then waits for a lexer or a Markdown rule. It also avoids a crash: msgspec
inspects a type when it is first decoded, and a second thread that decodes the same type
at that moment uses half-initialized data.
"""

from __future__ import annotations

import asyncio
import gc
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import msgspec
import uvicorn
from msgspec import Struct
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from bygones.render.html.markdown_html import render_markdown
from bygones.render.html.markup import highlight_code
from bygones.runtime import (
    BACKLOG,
    allow_open_files,
    bind_loopback,
    bind_socket,
    limit_malloc_arenas,
)
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
    is_loopback,
)
from bygones.web.sign_in import load_login

_PACKAGES = (
    "assemble",
    "export",
    "ingest",
    "model",
    "parse",
    "query",
    "render",
    "search",
    "sources",
    "store",
    "maintenance",
    "redact",
    "usage",
)
"""Packages that are imported late elsewhere; all their modules are loaded."""
_HIGHLIGHT_LANGUAGES = (
    "python",
    "bash",
    "json",
    "javascript",
    "typescript",
    "html",
    "diff",
)
_MARKDOWN_SAMPLE = (
    "# a\n\n**b** `c` [d](https://e.f) *g*\n\n- h\n\n| i |\n|---|\n| j |\n"
)
"""Contains what replies usually contain; parts of the parser are created on use."""


def warm_up() -> None:
    """Import all modules, create all decoders, and freeze the heap."""
    limit_malloc_arenas()
    for name in _PACKAGES:
        package = import_module(f"bygones.{name}")
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            import_module(module.name)
    for struct_type in _iter_subclasses(Struct):
        with suppress(TypeError, NameError):  # types that are never decoded
            msgspec.msgpack.Decoder(struct_type)
    render_markdown(_MARKDOWN_SAMPLE)
    for language in _HIGHLIGHT_LANGUAGES:
        highlight_code("k", language)
    # All of this stays. Collecting it would take longer than rendering a page.
    gc.collect()
    gc.freeze()


def _iter_subclasses(base: type[Struct]) -> Iterator[type[Struct]]:
    for subclass in base.__subclasses__():
        yield subclass
        yield from _iter_subclasses(subclass)


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
    searches_file: Path | None = None
    login_file: Path | None = None
    """Keeps browsers signed in after a restart; for servers with a fixed port."""


class WebServer:
    """Serves one archive; `on_link` receives each login link, which works once."""

    def __init__(
        self, config: ServerConfig, on_link: Callable[[str], None], path: str = "/"
    ) -> None:
        self._config = config
        self._on_link = on_link
        is_local = is_loopback(config.host)
        self._sockets = (
            bind_loopback(config.host, config.port)
            if is_local
            else [bind_socket(config.host, config.port)]
        )
        port = int(self._sockets[0].getsockname()[1])
        host = f"[{config.host}]" if ":" in config.host else config.host
        self._login_url = f"http://{host}:{port}{LOGIN_PATH}?key="
        login = load_login(config.login_file)
        self._keys = LoginKeys(port, self._announce_key, login.cookie_key)
        pool, broadcaster = ArchivePool(config.folder), EventBroadcaster()
        app_state = AppState(
            pool=pool,
            broadcaster=broadcaster,
            homes=config.homes,
            prices=config.prices,
            searches_file=config.searches_file,
        )
        name = login.host_name if is_local else ""
        self.browser_origin = f"http://{name or host}:{port}"
        """Where browsers are sent; see `SecurityMiddleware`."""
        app = SecurityMiddleware(
            create_app(app_state),
            self._keys,
            host=config.host,
            port=port,
            browser_host=name,
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
            self._server.run(sockets=self._sockets)
        finally:
            if self._config.homes:
                self._watcher.stop()
            for listener in self._sockets:
                listener.close()

    def stop(self) -> None:
        """Stop serving; may be called from any thread."""
        self._server.should_exit = True


class _UvicornServer(uvicorn.Server):
    """Ends event streams before it waits for all requests to end."""

    on_shutdown: Callable[[], None]

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            # More connections may wait than are accepted at once.
            listener.listen(BACKLOG)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.on_shutdown()
        await super().shutdown(sockets)


_MIN_LINE_BYTES = 64
"""How long the lines of a request, or the parts of a chunked body, are on average."""
_MAX_SHORT_LINES_BYTES = 32 * 1024
"""Header lines may be shorter."""


_OPEN_FILES = 65_536
"""What the server asks for, more than it needs. At most a third are connections."""
_ACCEPTED_AT_ONCE = 16
"""Connections that are accepted before idle ones are closed."""


class _HttpProtocol(H11Protocol):
    """Closes connections without a request, or with countless parts.

    They would block others.
    """

    max_connections = RequestLimits.max_connections

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.loop.call_later(RequestLimits.max_idle_seconds, self._close_if_unused)
        if len(self.connections) > self.max_connections:
            for other in [*self.connections]:
                if other is not self and isinstance(other, _HttpProtocol):
                    other.close_if_idle()

    def data_received(self, data: bytes) -> None:
        # Each part of a chunked body takes a fixed time, in which others have to wait.
        if data.count(b"\r\n") * _MIN_LINE_BYTES > len(data) + _MAX_SHORT_LINES_BYTES:
            self.transport.close()
            return
        super().data_received(data)

    def _close_if_unused(self) -> None:
        if self._current_cycle() is None and not self.transport.is_closing():
            self.transport.close()

    def close_if_idle(self) -> None:
        cycle = self._current_cycle()
        if cycle is None or cycle.response_complete:
            self.transport.close()

    def _current_cycle(self) -> RequestResponseCycle | None:
        # `None` before the first request, whatever its annotation says.
        return self.cycle


def create_server(
    app: SecurityMiddleware, on_shutdown: Callable[[], None]
) -> uvicorn.Server:
    """Return a server for an application; `on_shutdown` is called when it stops."""
    open_files = allow_open_files(_OPEN_FILES)

    class LimitedHttpProtocol(_HttpProtocol):
        max_connections = min(RequestLimits.max_connections, open_files // 3)

    server = _UvicornServer(
        uvicorn.Config(
            app,
            # Error pages say what is wrong, and a cut connection is not an error.
            log_level="error" if os.environ.get("BYGONES_DEBUG") else "critical",
            access_log=False,
            server_header=False,
            ws="none",
            # The middleware limits requests; idle connections are closed.
            http=LimitedHttpProtocol,
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
            timeout_keep_alive=30,
            backlog=_ACCEPTED_AT_ONCE,
        )
    )
    server.on_shutdown = on_shutdown
    return server
