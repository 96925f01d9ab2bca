"""The hub's HTTP server: access by token, one web interface per person, uploads.

A program sends its token in ``Authorization``. A browser posts it once, in a form, and
then has it in a cookie that no script can read and no other site can send. The
middleware puts the token's owner into the request; nothing behind it checks again.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import OrderedDict, defaultdict
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime
from functools import partial
from math import ceil
from pathlib import Path
from tempfile import SpooledTemporaryFile
from threading import Lock, Semaphore
from typing import Any
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
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.types import Scope as Asked

from bygones.archive import Archive
from bygones.archive.remote import (
    READER_PATH,
    RemoteTarget,
    answer_call,
    describe_call,
    remote_target,
)
from bygones.errors import (
    BygonesError,
    QueryError,
    RemoteCallRejected,
    UploadRejected,
    UploadTooLarge,
)
from bygones.hub.monitoring import (
    METRICS_TYPE,
    AccessLog,
    Metrics,
    RateLimiter,
    Readiness,
)
from bygones.hub.oidc import START_PATH, OidcClient, OidcConfig
from bygones.hub.sign_in import SIGN_IN_PATHS, SignInRoutes
from bygones.hub.uploads import UploadHandler, UploadLimits, parse_request
from bygones.mcp.http import PATH, create_shared_mcp_app
from bygones.mcp.server import McpDispatcher
from bygones.mcp.tool_service import Caller, ToolService
from bygones.runtime import bind_socket
from bygones.store.protocols import StoreReader
from bygones.team.access import AccessToken, TokenStore
from bygones.team.blobs import ExternalBlobStore
from bygones.team.contract import (
    MAX_FRAME_BYTES,
    PROGRESS_PATH,
    PUSH_PATH,
    REBUILD_NOTE,
    AccessRole,
    AccessScope,
    UploadResponse,
    encode_message,
)
from bygones.team.stores.base import TeamStore
from bygones.team.worker import IndexWorker
from bygones.usage.prices import Prices
from bygones.web.app import ROUTES, create_app
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
from bygones.web.server import create_server, warm_up

HUB_COOKIE = "bygones-hub"
HEALTH_PATH = "/health"
"""A health check for monitoring; it reveals nothing else."""
_TOKEN_KEY = "bygones.token"  # noqa: S105 (its name)
READY_PATH = "/ready"
"""Whether the hub can answer: 503 with the reason if it cannot."""
METRICS_PATH = "/metrics"
LOGIN_CSS_PATH = "/enter.css"
"""The style of the login form: all other styles need a login."""
_PUBLIC_PATHS = frozenset(
    {LOGIN_PATH, HEALTH_PATH, READY_PATH, LOGIN_CSS_PATH, *SIGN_IN_PATHS}
)
"""Paths that need no token."""
_UNLIMITED_PATHS = frozenset({*_PUBLIC_PATHS, PUSH_PATH, PROGRESS_PATH})
"""Paths that the limit of requests does not apply to: uploads have limits of their own."""
_REQUEST_OVERHEAD = 1024 * 1024
"""Bytes of a request besides its longest frame."""


def request_token(scope: Scope) -> AccessToken:
    """Return the token of a request that has passed the middleware."""
    token = scope[_TOKEN_KEY]
    if not isinstance(token, AccessToken):
        raise TypeError(_TOKEN_KEY)
    return token


class RequestObserver:
    """Counts, limits and logs requests."""

    def __init__(
        self,
        log: AccessLog | None = None,
        metrics: Metrics | None = None,
        max_per_minute: int = 0,
    ) -> None:
        self.log = log or AccessLog()
        self.metrics = metrics or Metrics()
        self._limiter = RateLimiter(max_per_minute)

    def wait_seconds(self, scope: Scope) -> float:
        """Return how long a request has to wait: people may not send too many."""
        if scope["path"] in _UNLIMITED_PATHS or _TOKEN_KEY not in scope:
            return 0.0
        return self._limiter.wait_seconds(request_token(scope).person)

    @asynccontextmanager
    async def observe(self, scope: Scope, send: Send) -> AsyncIterator[Send]:
        """Count and log a request when it is answered; health checks are only counted."""
        started = time.monotonic()
        status = 500

        async def send_observed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            yield send_observed
        finally:
            seconds = time.monotonic() - started
            path = scope["path"]
            self.metrics.observe(
                _known_method(scope["method"]), _route_name(path), status, seconds
            )
            if path not in {HEALTH_PATH, READY_PATH, METRICS_PATH}:
                token = scope.get(_TOKEN_KEY)
                self.log.write(
                    event="request",
                    person=token.person if token else "",
                    token=token.id if token else "",
                    client=(scope.get("client") or ("",))[0],
                    method=_known_method(scope["method"]),
                    path=path,
                    query=_logged_query(path, scope["query_string"]),
                    status=status,
                    ms=round(seconds * 1000, 1),
                )


def _logged_query(path: str, query: bytes) -> str:
    """Return a query without the code with which the provider sends people back."""
    return "" if path in SIGN_IN_PATHS else query.decode("ascii", "replace")


def _known_method(method: str) -> str:
    return method if method in {"GET", "HEAD", "POST", "DELETE"} else "OTHER"


def _route_name(path: str) -> str:
    """Return the kind of a page: its name without what is specific to a session.

    Paths that a hub doesn't have share one name, because anyone may invent them.
    """
    name = _first_parts(path)
    return name if name in _ROUTE_NAMES else "other"


def _first_parts(path: str) -> str:
    parts = path.split("/")
    return ("/".join(parts[1:3]) if parts[1] == "api" else parts[1]) or "home"


_ROUTE_NAMES = {
    _first_parts(path)
    for path in (
        *(route.path for route in ROUTES),
        *(PUSH_PATH, PROGRESS_PATH, READER_PATH, PATH, LOGIN_PATH, "/oidc"),
        *(HEALTH_PATH, READY_PATH, METRICS_PATH),
    )
}
"""Values of the label ``route`` in metrics."""


class HubSecurityMiddleware(SecurityMiddleware):
    """Admits requests with a valid token, in a header or a cookie."""

    _unlimited_paths = frozenset({HEALTH_PATH, READY_PATH})

    def __init__(  # noqa: PLR0913 (most by name)
        self,
        app: ASGIApp,
        tokens: TokenStore,
        *,
        host: str,
        port: int,
        hostnames: Iterable[str] = (),
        observer: RequestObserver | None = None,
    ) -> None:
        super().__init__(app, LoginKeys(port), host=host, port=port)
        self._tokens = tokens
        self._allowed_hosts |= frozenset(hostnames)
        self._observer = observer or RequestObserver()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        async with self._observer.observe(scope, send) as send_observed:
            scope.pop(_TOKEN_KEY, None)
            try:
                token = await self._authenticate(Headers(scope=scope))
            except BygonesError:
                unavailable = error_response(
                    503, "The database is not available.", {"Retry-After": "2"}
                )
                await unavailable(scope, receive, send_observed)
                return
            if token is not None:
                scope[_TOKEN_KEY] = token
            await super().__call__(scope, receive, send_observed)

    async def _authenticate(self, headers: Headers) -> AccessToken | None:
        kind, _, secret = headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer":
            secret = cookie_parser(headers.get("cookie", "")).get(HUB_COOKIE, "")
        if not secret:
            return None
        return await anyio.to_thread.run_sync(
            self._tokens.authenticate, secret.strip(), _now()
        )

    def _person(self, scope: Scope, _headers: Headers) -> str:
        return request_token(scope).person if _TOKEN_KEY in scope else ""

    def _check_access(self, scope: Scope, headers: Headers) -> Response | None:
        """Return the response to a request without access; ``None`` if it has."""
        if wait := self._observer.wait_seconds(scope):
            after = {"Retry-After": str(ceil(wait))}
            return error_response(429, "Too many requests.", after)
        if _TOKEN_KEY in scope or scope["path"] in _PUBLIC_PATHS:
            return None
        if headers.get("accept", "").startswith("text/html"):
            return Response(status_code=303, headers={"Location": LOGIN_PATH})
        message = (
            "The token is unknown, expired or revoked."
            if "authorization" in headers
            else "A valid token is required."
        )
        return error_response(401, message, {"WWW-Authenticate": "Bearer"})

    def _max_body_bytes(self, scope: Scope) -> int:
        return (
            MAX_FRAME_BYTES + _REQUEST_OVERHEAD
            if scope["path"] == PUSH_PATH
            else RequestLimits.max_body_bytes
        )

    def _is_trusted_origin(self, method: str, headers: Headers, host: str) -> bool:
        # Web pages cannot send this header to other origins: the client is a program.
        if "authorization" in headers and "origin" not in headers:
            return True
        # Our own form has no origin, because of our referrer policy.
        site = headers.get("sec-fetch-site")
        if site == "same-origin" and headers.get("origin") == "null":
            return True
        return is_trusted_origin(method, headers, f"https://{host}", f"http://{host}")


def log_in(body: bytes, tokens: TokenStore, host: str) -> Response:
    """Respond to the login form; set the cookie if the token is valid."""
    try:
        form = parse_qs(body.decode("ascii"), max_num_fields=4)
    except ValueError:
        form = {}
    secret = form.get("token", [""])[0].strip()
    if tokens.authenticate(secret, _now()) is None:
        return error_response(401, "The token is invalid, expired or revoked.")
    return set_token_cookie(secret, host)


def set_token_cookie(secret: str, host: str) -> Response:
    """Respond with the cookie of a token, and go to the first page."""
    name = host.rpartition(":")[0] or host
    secure = "" if is_loopback(name) else "; Secure"
    return Response(
        '<!doctype html><title>Bygones</title><meta http-equiv="refresh" '
        'content="0;url=/">',
        media_type="text/html",
        headers={
            "Set-Cookie": f"{HUB_COOKIE}={secret}; HttpOnly; SameSite=Strict; "
            f"Path=/; Max-Age=2592000{secure}"
        },
    )


OpenReader = Callable[[AccessScope], StoreReader]
_MAX_TENANTS = 20
"""People whose applications stay open. Each has a few connections to the database, and
PostgreSQL allows a hundred by default."""
_TENANT_IDLE_ARCHIVES, _TENANT_OPEN_SESSIONS = 1, 2
_MAX_CONCURRENT_PAGES = 8
"""Pages that are rendered concurrently, for all people together."""
_MAX_IDLE_ARCHIVES = 24
"""Unused archives that stay open, for all people together."""


class _PooledArchive(Archive):
    """An archive that returns to its pool when it is closed, if there is room."""

    return_to_pool: Callable[[_PooledArchive], bool]

    def close(self) -> None:
        if not self.return_to_pool(self):
            super().close()


class _OpenArchives:
    """A pool of open archives of one scope: opening one loads all sessions."""

    def __init__(
        self, open_reader: Callable[[], StoreReader], idle_slots: Semaphore
    ) -> None:
        self._open_reader = open_reader
        self._idle_slots = idle_slots
        """Shared by all pools: how many more unused archives may stay open."""
        self._idle: list[_PooledArchive] = []
        self._max_idle = _MAX_CONCURRENT_PAGES
        self._lock = Lock()

    def acquire(self) -> Archive:
        """Return an archive that is up to date."""
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
        """Close all unused archives; others close when they are returned."""
        with self._lock:
            unused, self._idle, self._max_idle = self._idle, [], 0
        for archive in unused:
            self._idle_slots.release()
            archive.close()


class _Tenant:
    """The web application and the MCP server of one scope."""

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
        state = AppState(pool=self.pool, broadcaster=self.broadcaster, prices=prices)
        self.app: Starlette = create_app(state)
        caller = Caller(directory=Path("/"), clock=_now, zone=UTC)
        self.tool_service = ToolService(Path(), caller, self._archives.acquire)
        self._exit_stack = AsyncExitStack()

    @contextmanager
    def open_target(self) -> Iterator[RemoteTarget]:
        """Open what clients call methods on."""
        with self._archives.acquire() as archive, archive.read_transaction():
            yield remote_target(archive)

    async def start(self, limiter: CapacityLimiter) -> None:
        await self._exit_stack.enter_async_context(
            self.app.router.lifespan_context(self.app)
        )
        self.app.state.limiter = limiter

    async def stop(self) -> None:
        await self._exit_stack.aclose()
        self._archives.close()


class _LoggedDispatcher(McpDispatcher):
    """Logs which tools an agent calls, with which arguments."""

    def __init__(
        self, service: ToolService, log: AccessLog, token: AccessToken
    ) -> None:
        super().__init__(service)
        self._log = log
        self._token = token

    def dispatch(self, method: str, params: object) -> dict[str, Any]:
        if method in {"tools/call", "resources/read"} and isinstance(params, Mapping):
            self._log.write(
                event="tool",
                person=self._token.person,
                token=self._token.id,
                tool=str(params.get("name", method)),
                arguments=params.get("arguments", params.get("uri")),
            )
        return super().dispatch(method, params)


class Tenants:
    """The applications of the people who sent requests most recently."""

    def __init__(
        self,
        open_reader: OpenReader,
        prices: Prices | None = None,
        log: AccessLog | None = None,
    ) -> None:
        self._open_reader = open_reader
        self._prices = prices
        self._log = log or AccessLog()
        self._tenants: OrderedDict[AccessScope, _Tenant] = OrderedDict()
        self._idle_slots = Semaphore(_MAX_IDLE_ARCHIVES)
        self._limiter: CapacityLimiter | None = None

    async def serve(
        self, scope: AccessScope, request_scope: Asked, receive: Receive, send: Send
    ) -> None:
        """Pass a request to the application of its scope."""
        tenant = await self._get_started(scope)
        await tenant.app(request_scope, receive, send)

    def speaker(self, token: AccessToken) -> McpDispatcher:
        """Return the MCP server of a token; what agents read is logged."""
        service = self._get_or_create(token.scope).tool_service
        return _LoggedDispatcher(service, self._log, token)

    def read(self, token: AccessToken, body: bytes) -> bytes:
        """Answer a call of a client that reads as from an archive; it is logged."""
        method, arguments = describe_call(body)
        self._log.write(
            event="tool",
            person=token.person,
            token=token.id,
            tool=method,
            arguments=arguments,
        )
        tenant = self._get_or_create(token.scope)
        return answer_call(body, tenant.open_target)

    def refresh(self) -> None:
        """Let all applications see new sessions."""
        for tenant in list(self._tenants.values()):
            tenant.pool.invalidate()

    def disconnect_listeners(self) -> None:
        """End all event streams: the server waits for them when it stops."""
        for tenant in list(self._tenants.values()):
            tenant.broadcaster.close()

    async def close(self) -> None:
        while self._tenants:
            _, tenant = self._tenants.popitem()
            await tenant.stop()

    def _get_or_create(self, scope: AccessScope) -> _Tenant:
        tenant = self._tenants.get(scope)
        if tenant is None:
            open_reader = partial(self._open_reader, scope)
            tenant = _Tenant(open_reader, self._prices, self._idle_slots)
            self._tenants[scope] = tenant
        self._tenants.move_to_end(scope)
        return tenant

    async def _get_started(self, scope: AccessScope) -> _Tenant:
        is_new = scope not in self._tenants
        tenant = self._get_or_create(scope)
        if is_new or not hasattr(tenant.app.state, "limiter"):
            self._limiter = self._limiter or CapacityLimiter(_MAX_CONCURRENT_PAGES)
            await tenant.start(self._limiter)
        while len(self._tenants) > _MAX_TENANTS:
            _, old = self._tenants.popitem(last=False)
            await old.stop()
        return tenant


def _now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 (an interface reads the clock)


_MAX_CONCURRENT_UPLOADS = 4
"""Uploads that are handled concurrently; each may decompress to many megabytes."""
_MAX_SPOOLED_BYTES = 256 * 1024
"""Of an upload that is in memory while it arrives; longer ones are in a file."""
_LOGIN_PAGE = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>Bygones</title>"
    "<meta name=viewport content='width=device-width'>"
    f"<link rel=stylesheet href={LOGIN_CSS_PATH}>"
    "<main><h1>Bygones</h1><form method=post action=/enter><label for=token>"
    "Token from the administrator of this hub</label><input id=token name=token "
    "type=password autocomplete=off required autofocus><button>Sign in</button></form>"
)
_SIGN_IN_LINK = f"<p>or <a href={START_PATH}>sign in with your organization</a></p>"
_LOGIN_CSS = """\
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
main { max-width: 24rem; margin: 18vh auto; padding: 0 1rem }
h1 { font: 700 1.6rem/1 Georgia, serif }
label { display: block; margin-bottom: .5rem }
input, button { font: inherit; padding: .5rem .7rem; border-radius: .5rem }
input { width: 100%; box-sizing: border-box; border: 1px solid #8888 }
button { margin-top: .7rem; border: 0; background: #b4633a; color: #fff }
"""


_Endpoint = Callable[[Request], Awaitable[Response]]


def create_hub_app(  # noqa: PLR0913 (most by name)
    uploads: UploadHandler,
    tokens: TokenStore,
    tenants: Tenants,
    *,
    worker: IndexWorker,
    status: HubStatus,
    sign_in: SignInRoutes,
) -> ASGIApp:
    """Return the application, without the security middleware."""
    hub = _HubRoutes(uploads, tokens, worker, status)
    routes = [*hub.routes(), *sign_in.routes()]
    hub.has_sign_in = sign_in.is_enabled
    agents = create_shared_mcp_app(lambda scope: tenants.speaker(request_token(scope)))

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        hub.upload_slots = asyncio.Semaphore(_MAX_CONCURRENT_UPLOADS)
        worker.start()
        async with agents.router.lifespan_context(agents):
            yield
        await tenants.close()
        await anyio.to_thread.run_sync(worker.stop)

    own = Starlette(routes=routes, lifespan=lifespan)
    own.router.redirect_slashes = False
    own_paths = {route.path for route in routes}

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in own_paths:
            await own(scope, receive, send)
        elif status.is_rebuilding():
            rebuilding = error_response(503, _REBUILDING, {"Retry-After": "30"})
            await rebuilding(scope, receive, send)
        elif scope["path"] == PATH:
            await agents(scope, receive, send)
        elif scope["path"] == READER_PATH:
            response = await _read_for_client(tenants, Request(scope, receive))
            await response(scope, receive, send)
        else:
            await tenants.serve(request_token(scope).scope, scope, receive, send)

    return app


async def _read_for_client(tenants: Tenants, request: Request) -> Response:
    if request.method != "POST":
        return error_response(405, "Use POST.")
    body = await request.body()
    token = request_token(request.scope)
    try:
        result = await anyio.to_thread.run_sync(tenants.read, token, body)
    except (RemoteCallRejected, QueryError) as error:
        return error_response(400, str(error))
    except BygonesError as error:
        return error_response(503, str(error), {"Retry-After": "2"})
    return Response(result, media_type="application/octet-stream")


_REBUILDING = (
    "The index is being rebuilt after an upgrade or a repair. Until that is done, you"
    " would see only a part of the sessions. Uploads are accepted."
)


class HubStatus:
    """Whether a hub can answer, and current values for its metrics."""

    def __init__(
        self,
        notes: TeamStore,
        blobs: ExternalBlobStore,
        *,
        open_reader: OpenReader,
        worker: IndexWorker,
        metrics: Metrics,
    ) -> None:
        self._notes = notes
        self._worker = worker
        self._metrics = metrics
        self._rebuild = Readiness(self._check_rebuild)
        self._readiness = Readiness(
            self._check_rebuild,
            partial(_check_reader, open_reader),
            partial(_check_blobs, blobs),
        )

    def is_rebuilding(self) -> bool:
        return self._rebuild.reason() == _REBUILDING

    def not_ready_reason(self) -> str:
        """Return why the hub cannot answer; nothing if it can."""
        return self._readiness.reason()

    def _check_rebuild(self) -> str:
        return _REBUILDING if self._notes.get_note(*REBUILD_NOTE) is not None else ""

    def render_metrics(self) -> str:
        gauges = {
            "ready": float(not self.not_ready_reason()),
            "pending_files": float(self._notes.count_pending()),
            "index_failing": float(bool(self._worker.last_error)),
        }
        return self._metrics.render(gauges)


def _check_reader(open_reader: OpenReader) -> str:
    """Read as a person does, with the rights of readers only."""
    scope = AccessScope(person="", role=AccessRole.AUDITOR)
    with Archive.from_store(open_reader(scope)) as archive:
        next(iter(archive.sessions()), None)
    return ""


def _check_blobs(blobs: ExternalBlobStore) -> str:
    next(iter(blobs.addresses()), None)
    return ""


class _HubRoutes:
    """The routes that are the same for all people."""

    def __init__(
        self,
        uploads: UploadHandler,
        tokens: TokenStore,
        worker: IndexWorker,
        status: HubStatus,
    ) -> None:
        self._uploads = uploads
        self._tokens = tokens
        self._worker = worker
        self._status = status
        self.has_sign_in = False
        self.upload_slots = asyncio.Semaphore(_MAX_CONCURRENT_UPLOADS)
        self._person_slots: defaultdict[str, asyncio.Semaphore] = defaultdict(
            partial(asyncio.Semaphore, 1)
        )
        """One upload of a person at a time, or one person could use all slots."""

    def routes(self) -> list[Route]:
        routes: tuple[tuple[str, str, _Endpoint], ...] = (
            (PUSH_PATH, "POST", self._push),
            (PROGRESS_PATH, "GET", self._progress),
            (HEALTH_PATH, "GET", self._health),
            (READY_PATH, "GET", self._ready),
            (METRICS_PATH, "GET", self._metrics),
            (LOGIN_PATH, "GET", self._login_page),
            (LOGIN_PATH, "POST", self._log_in),
            (LOGIN_CSS_PATH, "GET", self._login_css),
        )
        return [Route(path, call, methods=[method]) for path, method, call in routes]

    async def _push(self, request: Request) -> Response:
        token = request_token(request.scope)

        def handle(body: SpooledTemporaryFile[bytes]) -> UploadResponse:
            body.seek(0)
            upload = parse_request(body.read())
            response = self._uploads.handle(token, upload)
            if any(chunk.length for chunk in upload.chunks):
                sender = f"{token.person} {upload.machine}"
                self._worker.notify(sender, has_more=upload.has_more)
            return response

        async with self._person_slots[token.person]:
            with SpooledTemporaryFile(_MAX_SPOOLED_BYTES) as body:
                # A slow sender needs neither much memory nor one of the slots here.
                try:
                    async for part in request.stream():
                        body.write(part)
                except OSError as error:
                    reason = f"the temporary folder: {error.strerror}"
                    return error_response(503, reason, {"Retry-After": "2"})
                async with self.upload_slots:
                    return await _respond(partial(handle, body))

    async def _progress(self, request: Request) -> Response:
        machine = request.query_params.get("machine", "")
        token = request_token(request.scope)
        return await _respond(partial(self._uploads.source_states, token, machine))

    async def _health(self, _request: Request) -> Response:
        warning = self._worker.warning
        return error_response(200, f"alive; {warning}" if warning else "alive")

    async def _ready(self, _request: Request) -> Response:
        reason = await anyio.to_thread.run_sync(self._status.not_ready_reason)
        if reason:
            return error_response(503, f"not ready: {reason}", {"Retry-After": "5"})
        return error_response(200, "ready")

    async def _metrics(self, request: Request) -> Response:
        if request_token(request.scope).role is not AccessRole.AUDITOR:
            return error_response(403, "Metrics need a token with the role auditor.")
        try:
            text = await anyio.to_thread.run_sync(self._status.render_metrics)
        except BygonesError as error:
            return error_response(503, str(error), {"Retry-After": "2"})
        return Response(text, media_type=METRICS_TYPE)

    async def _login_page(self, _request: Request) -> Response:
        page = _LOGIN_PAGE + (_SIGN_IN_LINK if self.has_sign_in else "")
        return Response(page, media_type="text/html")

    async def _login_css(self, _request: Request) -> Response:
        return Response(_LOGIN_CSS, media_type="text/css")

    async def _log_in(self, request: Request) -> Response:
        body = await request.body()
        host = request.headers["host"]
        return await anyio.to_thread.run_sync(log_in, body, self._tokens, host)


async def _respond(handle: Callable[[], UploadResponse]) -> Response:
    try:
        response = await anyio.to_thread.run_sync(handle)
    except UploadRejected as error:
        status = 413 if isinstance(error, UploadTooLarge) else 400
        return error_response(status, str(error))
    except HTTPException:
        raise
    except BygonesError as error:
        return error_response(503, str(error), {"Retry-After": "2"})
    except OSError as error:
        return error_response(
            503, f"the raw store: {error.strerror}", {"Retry-After": "2"}
        )
    return Response(encode_message(response), media_type="application/octet-stream")


_SWITCH_INTERVAL = 0.0005
"""Seconds after which a thread yields to another."""


class HubConfig(Struct, frozen=True, kw_only=True):
    """Where a hub listens, and the host names that it accepts."""

    host: str = "127.0.0.1"
    port: int = 0
    """Zero for any free port."""
    hostnames: tuple[str, ...] = ()
    """Accepted values of ``Host``, besides the address."""
    prices: Prices | None = None
    upload_limits: UploadLimits = UploadLimits()
    max_requests: int = 0
    """Requests of a person per minute, without uploads; zero for any number."""
    log_file: Path | None = None
    oidc: OidcConfig | None = None


class HubServer:
    """The HTTP server of a hub. It has no state: several hubs may share the stores.

    ``store`` receives uploads and ``notes`` contains the tokens. They have separate
    connections, so that neither waits for the other.
    """

    def __init__(  # noqa: PLR0913 (most by name)
        self,
        store: TeamStore,
        blobs: ExternalBlobStore,
        config: HubConfig,
        *,
        open_reader: OpenReader,
        derive: Callable[[], bool],
        notes: TeamStore,
        describe_failures: Callable[[], str] = str,
        on_warning: Callable[[str], None] = lambda _warning: None,
    ) -> None:
        self._socket = bind_socket(config.host, config.port)
        self.port = int(self._socket.getsockname()[1])
        shown = f"[{config.host}]" if ":" in config.host else config.host
        self.address = f"http://{shown}:{self.port}"
        tokens = TokenStore(notes, time.monotonic)
        metrics = Metrics()
        log = AccessLog(config.log_file, metrics=metrics, on_warning=on_warning)
        tenants = Tenants(open_reader, config.prices, log)
        self.worker = IndexWorker(
            derive,
            tenants.refresh,
            describe_failures=describe_failures,
            on_warning=on_warning,
        )
        uploads = UploadHandler(store, blobs, config.upload_limits)
        oidc = OidcClient(config.oidc, tokens, _now) if config.oidc else None
        observer = RequestObserver(log, metrics, config.max_requests)
        status = HubStatus(
            notes,
            blobs,
            open_reader=open_reader,
            worker=self.worker,
            metrics=metrics,
        )
        app = create_hub_app(
            uploads,
            tokens,
            tenants,
            worker=self.worker,
            status=status,
            sign_in=SignInRoutes(oidc, log, set_token_cookie),
        )
        names = {
            *config.hostnames,
            *(f"{name}:{self.port}" for name in config.hostnames),
        }
        secured = HubSecurityMiddleware(
            app,
            tokens,
            host=config.host,
            port=self.port,
            hostnames=names,
            observer=observer,
        )
        self._server = create_server(secured, tenants.disconnect_listeners)

    def run(self) -> None:
        """Serve until Ctrl-C, or until :meth:`stop`."""
        warm_up()
        # Threads that waited for the database should continue at once.
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
        return self._server.started
