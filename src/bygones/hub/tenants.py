"""One web interface and one MCP server per person, over pooled archives."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from datetime import UTC
from functools import partial
from pathlib import Path
from threading import Lock, Semaphore
from typing import Any

from anyio import CapacityLimiter
from starlette.applications import Starlette
from starlette.types import Receive, Send
from starlette.types import Scope as Asked

from bygones.archive import Archive
from bygones.archive.remote import (
    RemoteTarget,
    answer_call,
    describe_call,
    remote_target,
)
from bygones.hub.middleware import utc_now
from bygones.hub.monitoring import AccessLog
from bygones.mcp.server import McpDispatcher
from bygones.mcp.tool_service import Caller, ToolService
from bygones.store.protocols import StoreReader
from bygones.team.access import AccessToken
from bygones.team.contract import AccessScope
from bygones.usage.prices import Prices
from bygones.web.app import create_app
from bygones.web.context import AppState
from bygones.web.live import EventBroadcaster
from bygones.web.pool import ArchivePool

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
        caller = Caller(directory=Path("/"), clock=utc_now, zone=UTC)
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
