"""Live updates: a thread imports changes, and open pages receive events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from datetime import datetime
from threading import Event, Thread
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from bygones.archive import Archive
from bygones.errors import NotInArchive
from bygones.model.base import SessionId
from bygones.model.summary import SessionSummary

if TYPE_CHECKING:
    from pathlib import Path

    from bygones.model.base import IngestReport
    from bygones.web.pool import ArchivePool

_MAX_SUBSCRIBERS = 64
"""Event streams that may be open at once."""
_KEEPALIVE_SECONDS = 15.0
"""How often an idle stream sends a comment."""
_QUEUE_SIZE = 256
"""Events that may wait for a page; a slower page has to reload."""


class SessionUpdate(Struct, frozen=True, kw_only=True, tag="grown", tag_field="row"):
    """The event that a session has new messages."""

    id: SessionId
    title: str
    messages: int
    prompts: int
    ended: datetime | None = None

    @classmethod
    def from_summary(cls, summary: SessionSummary) -> SessionUpdate:
        return cls(
            id=summary.id,
            title=summary.title.text,
            messages=summary.message_count,
            prompts=summary.prompt_count,
            ended=summary.ended_at,
        )


class EventBroadcaster:
    """Sends events from the watcher thread to all subscribers."""

    def __init__(self) -> None:
        self._subscribers: set[asyncio.Queue[bytes]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Remember the event loop of the subscribers."""
        self._loop = asyncio.get_running_loop()

    def publish(self, updates: Iterable[SessionUpdate]) -> None:
        """Send updates to all subscribers; may be called from any thread."""
        lines = [
            b"data: " + msgspec.json.encode(update) + b"\n\n" for update in updates
        ]
        if self._loop is not None and lines:
            self._loop.call_soon_threadsafe(self._send_to_subscribers, b"".join(lines))

    def close(self) -> None:
        """End all streams."""
        for queue in self._subscribers:
            _enqueue(queue, b"")

    def _send_to_subscribers(self, event: bytes) -> None:
        for queue in self._subscribers:
            _enqueue(queue, event)

    @property
    def is_full(self) -> bool:
        """Whether there can be no more subscribers."""
        return len(self._subscribers) >= _MAX_SUBSCRIBERS

    async def subscribe(self) -> AsyncIterator[bytes]:
        """Yield new events in the format of server-sent events."""
        queue: asyncio.Queue[bytes] = asyncio.Queue(_QUEUE_SIZE)
        self._subscribers.add(queue)
        try:
            yield b"retry: 2000\n\n"
            while True:
                try:
                    event = await asyncio.wait_for(queue.get(), _KEEPALIVE_SECONDS)
                except TimeoutError:
                    event = b": nothing new\n\n"
                if not event:
                    return
                yield event
        finally:
            self._subscribers.discard(queue)


def _enqueue(queue: asyncio.Queue[bytes], event: bytes) -> None:
    if queue.full():
        # The page has missed too much to catch up event by event.
        while not queue.empty():
            queue.get_nowait()
        event = b"event: missed\ndata: {}\n\n"
    queue.put_nowait(event)


async def live_events(request: Request) -> Response:
    """Stream events to a page."""
    broadcaster: EventBroadcaster = request.app.state.app_state.broadcaster
    if broadcaster.is_full:
        return PlainTextResponse("Too many pages are open.\n", status_code=503)
    return StreamingResponse(broadcaster.subscribe(), media_type="text/event-stream")


class ArchiveWatcher:
    """A thread that imports changes of the homes and publishes them."""

    def __init__(
        self,
        pool: ArchivePool,
        broadcaster: EventBroadcaster,
        homes: tuple[Path, ...],
        *,
        polling: bool,
    ) -> None:
        self._pool = pool
        self._broadcaster = broadcaster
        self._homes = homes
        self._polling = polling
        self._stop = Event()
        self._thread = Thread(target=self._run, name="watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop, and wait for an import that is running."""
        self._stop.set()
        self._thread.join(10)

    def _run(self) -> None:
        if self._pool.folder is None:
            return
        Archive.watch(
            self._pool.folder,
            self._homes,
            self._publish_changes,
            stop=self._stop,
            polling=self._polling,
        )

    def _publish_changes(self, report: IngestReport) -> None:
        self._pool.invalidate()
        updates = []
        with self._pool.archive() as archive:
            for id_ in report.updated_sessions:
                with suppress(NotInArchive):  # purged in the meantime
                    updates.append(
                        SessionUpdate.from_summary(archive.session_summary(id_))
                    )
        self._broadcaster.publish(updates)
