"""The hub's HTTP server: access by token, one web interface per person, uploads.

A program sends its token in ``Authorization``. A browser posts it once, in a form, and
then has it in a cookie that no script can read and no other site can send. The
middleware puts the token's owner into the request; nothing behind it checks again.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Lock, Semaphore
from typing import Protocol, TypeVar
from urllib.parse import parse_qs

import anyio
import anyio.to_thread
from anyio import CapacityLimiter
from msgspec import Struct
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request, cookie_parser
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.types import Scope as Asked

from bygones.archive import Archive
from bygones.errors import BygonesError, UploadRejected
from bygones.hub.uploads import UploadHandler, parse_request
from bygones.mcp.http import PATH, create_shared_mcp_app
from bygones.mcp.server import McpDispatcher
from bygones.mcp.tool_service import Caller, ToolService
from bygones.sockets import bind_socket
from bygones.store.protocols import StoreReader
from bygones.team.access import AccessToken, NoteStore, TokenStore
from bygones.team.blobs import ExternalBlobStore
from bygones.team.contract import AccessScope
from bygones.team.protocol import (
    MAX_FRAME_BYTES,
    PROGRESS_PATH,
    PUSH_PATH,
    UploadResponse,
    encode_message,
)
from bygones.team.stores.base import TeamStore
from bygones.team.worker import IndexWorker
from bygones.usage.prices import Prices
from bygones.web.app import create_app
from bygones.web.context import AppState
from bygones.web.live import EventBroadcaster
from bygones.web.pool import ArchivePool
from bygones.web.security import (
    LOGIN_PATH,
    LoginKeys,
    RequestLimits,
    SecurityMiddleware,
    error_response,
    is_loopback,
    is_trusted_origin,
)
from bygones.web.server import create_server
from bygones.web.warmup import warm_up

HUB_COOKIE = "bygones-hub"
HEALTH_PATH = "/health"
"""Where whoever looks after the hub asks whether it lives; it says nothing else."""
_TOKEN_KEY = "bygones.token"  # noqa: S105 (its name)
LOGIN_CSS_PATH = "/enter.css"
"""How the form looks; pages load theirs once somebody is in."""
_PUBLIC_PATHS = frozenset({LOGIN_PATH, HEALTH_PATH, LOGIN_CSS_PATH})
"""What is answered without a token."""
_REQUEST_OVERHEAD = 1024 * 1024
"""Bytes of a request besides its longest frame."""


def request_token(scope: Scope) -> AccessToken:
    """Return who asks; only what has passed the gate has one."""
    token = scope[_TOKEN_KEY]
    if not isinstance(token, AccessToken):
        raise TypeError(_TOKEN_KEY)
    return token


class HubSecurityMiddleware(SecurityMiddleware):
    """Lets in whoever has a token that was not revoked."""

    def __init__(
        self,
        app: ASGIApp,
        tokens: TokenStore,
        *,
        host: str,
        port: int,
        hostnames: Iterable[str] = (),
    ) -> None:
        super().__init__(app, LoginKeys(port), host=host, port=port)
        self._tokens = tokens
        self._allowed_hosts |= frozenset(hostnames)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Find out who asks, then answer or pass on as any gate does."""
        if scope["type"] == "http":
            scope.pop(_TOKEN_KEY, None)
            try:
                token = await self._authenticate(Headers(scope=scope))
            except BygonesError:
                away = error_response(
                    503, "The store does not answer.", {"Retry-After": "2"}
                )
                await away(scope, receive, send)
                return
            if token is not None:
                scope[_TOKEN_KEY] = token
        await super().__call__(scope, receive, send)

    async def _authenticate(self, headers: Headers) -> AccessToken | None:
        kind, _, secret = headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer":
            secret = cookie_parser(headers.get("cookie", "")).get(HUB_COOKIE, "")
        if not secret:
            return None
        return await anyio.to_thread.run_sync(self._tokens.authenticate, secret.strip())

    def _check_access(self, scope: Scope, headers: Headers) -> Response | None:
        """Return why somebody has no right to ask; ``None`` if they have."""
        if _TOKEN_KEY in scope or scope["path"] in _PUBLIC_PATHS:
            return None
        if headers.get("accept", "").startswith("text/html"):
            return Response(status_code=303, headers={"Location": LOGIN_PATH})
        told = {"WWW-Authenticate": "Bearer"}
        return error_response(401, "This needs a token that was not revoked.", told)

    def _max_body_bytes(self, scope: Scope) -> int:
        return (
            MAX_FRAME_BYTES + _REQUEST_OVERHEAD
            if scope["path"] == PUSH_PATH
            else RequestLimits.max_body_bytes
        )

    def _is_trusted_origin(self, method: str, headers: Headers, host: str) -> bool:
        # No page can send this header elsewhere; so whoever does is a program.
        if "authorization" in headers and "origin" not in headers:
            return True
        # A form of ours says no origin, as we tell no referrer; its browser knows.
        site = headers.get("sec-fetch-site")
        if site == "same-origin" and headers.get("origin") == "null":
            return True
        return is_trusted_origin(method, headers, f"https://{host}", f"http://{host}")


def log_in(body: bytes, tokens: TokenStore, host: str) -> Response:
    """Answer a form with the cookie, if the token in it is one."""
    try:
        given = parse_qs(body.decode("ascii"), max_num_fields=4)
    except ValueError:
        given = {}
    secret = given.get("token", [""])[0].strip()
    if tokens.authenticate(secret) is None:
        return error_response(401, "That is no token, or it was revoked.")
    name = host.rpartition(":")[0] or host
    safe = "" if is_loopback(name) else "; Secure"
    return Response(
        '<!doctype html><title>Bygones</title><meta http-equiv="refresh" '
        'content="0;url=/">',
        media_type="text/html",
        headers={
            "Set-Cookie": f"{HUB_COOKIE}={secret}; HttpOnly; SameSite=Strict; "
            f"Path=/; Max-Age=2592000{safe}"
        },
    )


OpenReader = Callable[[AccessScope], StoreReader]
"""Opens what somebody may see."""
_MAX_TENANTS = 20
"""People whose applications are kept. Each keeps a few connections to the engine open,
which has a hundred, unless it is told otherwise."""
_TENANT_IDLE_ARCHIVES, _TENANT_OPEN_SESSIONS = 1, 2
_MAX_CONCURRENT_PAGES = 8
"""Pages that are made at once, for all people together."""
_MAX_IDLE_ARCHIVES = 24
"""Archives that are kept open though nobody reads them, of all people; of one as many
as answers are made at once, so that none is opened for a single one."""


class _PooledArchive(Archive):
    """An archive that is handed back rather than closed, if it is wanted."""

    return_to_pool: Callable[[_PooledArchive], bool]

    def close(self) -> None:
        """Hand it back, or let go of it."""
        if not self.return_to_pool(self):
            super().close()


class _OpenArchives:
    """Archives of one scope that stay open: to know all sessions again takes long."""

    def __init__(
        self, open_reader: Callable[[], StoreReader], idle_slots: Semaphore
    ) -> None:
        self._open_reader = open_reader
        self._idle_slots = idle_slots
        """How many more may be kept, by whomever."""
        self._idle: list[_PooledArchive] = []
        self._max_idle = _MAX_CONCURRENT_PAGES
        self._lock = Lock()

    def acquire(self) -> Archive:
        """Return one that is up to date."""
        with self._lock:
            archive = self._idle.pop() if self._idle else None
            if archive is not None:
                self._idle_slots.release()
        if archive is None:
            archive = _PooledArchive.from_store(self._open_reader())
            archive.return_to_pool = self._return
        else:
            archive.refresh()
        return archive

    def _return(self, archive: _PooledArchive) -> bool:
        with self._lock:
            has_room = len(self._idle) < self._max_idle
            if has_room and (has_room := self._idle_slots.acquire(blocking=False)):
                self._idle.append(archive)
        return has_room

    def close(self) -> None:
        """Let go of those that nobody has."""
        with self._lock:
            free, self._idle, self._max_idle = self._idle, [], 0
        for archive in free:
            self._idle_slots.release()
            archive.close()


class _Tenant:
    """What one scope has open."""

    def __init__(
        self,
        open_reader: Callable[[], StoreReader],
        prices: Prices | None,
        idle_slots: Semaphore,
    ) -> None:
        self._archives = _OpenArchives(open_reader, idle_slots)
        self.pool = ArchivePool(
            None,
            self._archives.acquire,
            max_idle=_TENANT_IDLE_ARCHIVES,
            max_open_sessions=_TENANT_OPEN_SESSIONS,
        )
        self.broadcaster = EventBroadcaster()
        house = AppState(pool=self.pool, broadcaster=self.broadcaster, prices=prices)
        self.app: Starlette = create_app(house)
        caller = Caller(directory=Path("/"), clock=_now, zone=UTC)
        self.speaker = McpDispatcher(
            ToolService(Path(), caller, self._archives.acquire)
        )
        self._exit_stack = AsyncExitStack()

    async def start(self, limiter: CapacityLimiter) -> None:
        await self._exit_stack.enter_async_context(
            self.app.router.lifespan_context(self.app)
        )
        self.app.state.limiter = limiter

    async def stop(self) -> None:
        await self._exit_stack.aclose()
        self._archives.close()


class Tenants:
    """The rooms of those who asked last."""

    def __init__(self, open_reader: OpenReader, prices: Prices | None = None) -> None:
        self._open_reader = open_reader
        self._prices = prices
        self._tenants: OrderedDict[AccessScope, _Tenant] = OrderedDict()
        self._idle_slots = Semaphore(_MAX_IDLE_ARCHIVES)
        self._limiter: CapacityLimiter | None = None

    async def serve(
        self, scope: AccessScope, request_scope: Asked, receive: Receive, send: Send
    ) -> None:
        """Answer with the page of whoever asks."""
        room = await self._get_started(scope)
        await room.app(request_scope, receive, send)

    def speaker(self, scope: AccessScope) -> McpDispatcher:
        """Return who answers the agents of a person."""
        return self._get_or_create(scope).speaker

    def refresh(self) -> None:
        """Let everybody see what has come."""
        for room in list(self._tenants.values()):
            room.pool.invalidate()

    def disconnect_listeners(self) -> None:
        """Let those go who listen to news: a server that stops waits for them."""
        for room in list(self._tenants.values()):
            room.broadcaster.close()

    async def close(self) -> None:
        """Let go of everything."""
        while self._tenants:
            _, room = self._tenants.popitem()
            await room.stop()

    def _get_or_create(self, scope: AccessScope) -> _Tenant:
        room = self._tenants.get(scope)
        if room is None:
            opening = self._open_reader
            room = _Tenant(lambda: opening(scope), self._prices, self._idle_slots)
            self._tenants[scope] = room
        self._tenants.move_to_end(scope)
        return room

    async def _get_started(self, scope: AccessScope) -> _Tenant:
        is_new = scope not in self._tenants
        room = self._get_or_create(scope)
        if is_new or not hasattr(room.app.state, "limiter"):
            self._limiter = self._limiter or CapacityLimiter(_MAX_CONCURRENT_PAGES)
            await room.start(self._limiter)
        while len(self._tenants) > _MAX_TENANTS:
            _, old = self._tenants.popitem(last=False)
            await old.stop()
        return room


def _now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 (a face knows the clock)


T = TypeVar("T")
_MAX_CONCURRENT_UPLOADS = 4
"""Requests that are taken in at once; each may be unpacked to many megabytes."""
_LOGIN_PAGE = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>Bygones</title>"
    "<meta name=viewport content='width=device-width'>"
    f"<link rel=stylesheet href={LOGIN_CSS_PATH}>"
    "<main><h1>Bygones</h1><form method=post action=/enter><label for=token>Your "
    "token, as whoever runs this hub gave it to you</label><input id=token name=token "
    "type=password autocomplete=off required autofocus><button>Enter</button></form>"
)
_LOGIN_CSS = """\
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
main { max-width: 24rem; margin: 18vh auto; padding: 0 1rem }
h1 { font: 700 1.6rem/1 Georgia, serif }
label { display: block; margin-bottom: .5rem }
input, button { font: inherit; padding: .5rem .7rem; border-radius: .5rem }
input { width: 100%; box-sizing: border-box; border: 1px solid #8888 }
button { margin-top: .7rem; border: 0; background: #b4633a; color: #fff }
"""


class BackgroundWorker(Protocol):
    """What is done about a request after it was acknowledged."""

    def start(self) -> None:
        """Begin, with whatever was left undone."""
        ...

    def notify(self, sender: str = "", *, has_more: bool = False) -> None:
        """Go on soon: something has come, and more is on its way, if it says so."""
        ...

    def stop(self) -> None:
        """Stop, and wait for what is being done."""
        ...

    @property
    def warning(self) -> str:
        """What cannot be done, without a word of what was sent; mostly nothing."""
        ...


def create_hub_app(
    uploads: UploadHandler,
    tokens: TokenStore,
    tenants: Tenants,
    worker: BackgroundWorker,
) -> ASGIApp:
    """Return the application, without its gate."""
    hub = _HubRoutes(uploads, tokens, worker)
    agents = create_shared_mcp_app(
        lambda scope: tenants.speaker(request_token(scope).scope)
    )

    @asynccontextmanager
    async def living(_app: Starlette) -> AsyncIterator[None]:
        hub.upload_slots = asyncio.Semaphore(_MAX_CONCURRENT_UPLOADS)
        worker.start()
        async with agents.router.lifespan_context(agents):
            yield
        await tenants.close()
        await anyio.to_thread.run_sync(worker.stop)

    own = Starlette(routes=hub.routes(), lifespan=living)
    own.router.redirect_slashes = False
    taken = {route.path for route in hub.routes()}

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in taken:
            await own(scope, receive, send)
        elif scope["path"] == PATH:
            await agents(scope, receive, send)
        else:
            await tenants.serve(request_token(scope).scope, scope, receive, send)

    return app


class _HubRoutes:
    """What the hub answers by itself."""

    def __init__(
        self, uploads: UploadHandler, tokens: TokenStore, worker: BackgroundWorker
    ) -> None:
        self._uploads = uploads
        self._tokens = tokens
        self._worker = worker
        self.upload_slots = asyncio.Semaphore(_MAX_CONCURRENT_UPLOADS)

    def routes(self) -> list[Route]:
        rows: tuple[tuple[str, str, Callable[[Request], Awaitable[Response]]], ...] = (
            (PUSH_PATH, "POST", self._push),
            (PROGRESS_PATH, "GET", self._progress),
            (HEALTH_PATH, "GET", self._health),
            (LOGIN_PATH, "GET", self._login_page),
            (LOGIN_PATH, "POST", self._log_in),
            (LOGIN_CSS_PATH, "GET", self._login_css),
        )
        return [Route(path, answer, methods=[how]) for path, how, answer in rows]

    async def _push(self, request: Request) -> Response:
        async with self.upload_slots:
            body = await request.body()
            token = request_token(request.scope)

            def take() -> UploadResponse:
                parcel = parse_request(body)
                answer = self._uploads.handle(token, parcel)
                if any(piece.length for piece in parcel.chunks):
                    sender = f"{token.person} {parcel.machine}"
                    self._worker.notify(sender, has_more=parcel.has_more)
                return answer

            return await _respond(take)

    async def _progress(self, request: Request) -> Response:
        machine = request.query_params.get("machine", "")
        known = partial(
            self._uploads.source_states, request_token(request.scope), machine
        )
        return await _respond(known)

    async def _health(self, _request: Request) -> Response:
        trouble = self._worker.warning
        return error_response(200, f"alive; {trouble}" if trouble else "alive")

    async def _login_page(self, _request: Request) -> Response:
        return Response(_LOGIN_PAGE, media_type="text/html")

    async def _login_css(self, _request: Request) -> Response:
        return Response(_LOGIN_CSS, media_type="text/css")

    async def _log_in(self, request: Request) -> Response:
        body = await request.body()
        host = request.headers["host"]
        enter = partial(log_in, body, self._tokens, host)
        return await anyio.to_thread.run_sync(enter)


async def _respond(handle: Callable[[], UploadResponse]) -> Response:
    try:
        answer = await anyio.to_thread.run_sync(handle)
    except UploadRejected as error:
        return error_response(400, str(error))
    except HTTPException:
        raise
    except BygonesError as error:
        return error_response(503, str(error), {"Retry-After": "2"})
    except OSError as error:
        return error_response(
            503, f"the raw store: {error.strerror}", {"Retry-After": "2"}
        )
    return Response(encode_message(answer), media_type="application/octet-stream")


_SWITCH_INTERVAL = 0.0005
"""Seconds after which a thread lets another go on."""


class HubConfig(Struct, frozen=True, kw_only=True):
    """Where a hub listens, and under which names it is known."""

    host: str = "127.0.0.1"
    port: int = 0
    """Zero for one that is free."""
    hostnames: tuple[str, ...] = ()
    """Values of ``Host`` besides the address: what people type."""
    prices: Prices | None = None


class HubServer:
    """A hub that listens; it keeps nothing that another hub would miss.

    ``store`` takes uploads, ``notes`` has the tokens: over connections of their own,
    neither waits for the other.
    """

    def __init__(  # noqa: PLR0913 (most by name)
        self,
        store: TeamStore,
        blobs: ExternalBlobStore,
        config: HubConfig,
        *,
        open_reader: OpenReader,
        derive: Callable[[], bool],
        notes: NoteStore,
        describe_failures: Callable[[], str] = str,
        on_warning: Callable[[str], None] = lambda _sentence: None,
    ) -> None:
        self._socket = bind_socket(config.host, config.port)
        self.port = int(self._socket.getsockname()[1])
        shown = f"[{config.host}]" if ":" in config.host else config.host
        self.address = f"http://{shown}:{self.port}"
        tokens = TokenStore(notes, time.monotonic)
        people = Tenants(open_reader, config.prices)
        self.worker = IndexWorker(
            derive,
            people.refresh,
            describe_failures=describe_failures,
            on_warning=on_warning,
        )
        app = create_hub_app(UploadHandler(store, blobs), tokens, people, self.worker)
        names = {
            *config.hostnames,
            *(f"{name}:{self.port}" for name in config.hostnames),
        }
        gate = HubSecurityMiddleware(
            app, tokens, host=config.host, port=self.port, hostnames=names
        )
        self._server = create_server(gate, people.disconnect_listeners)

    def run(self) -> None:
        """Serve until Ctrl-C, or until :meth:`stop`."""
        warm_up()
        # Whoever waits for the engine must not wait as long for its turn afterwards.
        before = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_INTERVAL)
        try:
            self._server.run(sockets=[self._socket])
        finally:
            sys.setswitchinterval(before)
            self._socket.close()

    def stop(self) -> None:
        """Stop serving, from any thread."""
        self._server.should_exit = True

    @property
    def is_started(self) -> bool:
        """Whether it answers."""
        return self._server.started
