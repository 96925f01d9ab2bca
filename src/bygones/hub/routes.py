"""The routes of a hub, and what `/health`, `/ready` and `/metrics` report."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from tempfile import SpooledTemporaryFile

import anyio
import anyio.to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from bygones.archive import Archive
from bygones.archive.remote import READER_PATH
from bygones.errors import (
    BygonesError,
    QueryError,
    RemoteCallRejected,
    UploadRejected,
    UploadTooLarge,
)
from bygones.hub.login_form import LOGIN_CSS, LOGIN_PAGE, SIGN_IN_LINK, log_in
from bygones.hub.middleware import (
    HEALTH_PATH,
    LOGIN_CSS_PATH,
    METRICS_PATH,
    READY_PATH,
    request_token,
)
from bygones.hub.monitoring import METRICS_TYPE, Metrics, Readiness
from bygones.hub.sign_in import SignInRoutes
from bygones.hub.tenants import OpenReader, Tenants
from bygones.hub.uploads import UploadHandler, parse_request
from bygones.mcp.http import PATH, create_shared_mcp_app
from bygones.team.access import TokenStore
from bygones.team.blobs import ExternalBlobStore
from bygones.team.contract import (
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
from bygones.web.security import LOGIN_PATH, error_response

_MAX_CONCURRENT_UPLOADS = 4
"""Uploads that are handled concurrently; each may decompress to many megabytes."""
_MAX_SPOOLED_BYTES = 256 * 1024
"""Of an upload that is in memory while it arrives; longer ones are in a file."""


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
                self._worker.notify(
                    token.person, upload.machine, has_more=upload.has_more
                )
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
        page = LOGIN_PAGE + (SIGN_IN_LINK if self.has_sign_in else "")
        return Response(page, media_type="text/html")

    async def _login_css(self, _request: Request) -> Response:
        return Response(LOGIN_CSS, media_type="text/css")

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
