"""What happens now: told by the watch, passed on to every page that listens."""

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

from bygones.errors import NotInArchive
from bygones.model.base import SessionId
from bygones.model.summary import SessionSummary

if TYPE_CHECKING:
    from pathlib import Path

    from bygones.model.progress import IngestReport
    from bygones.web.pool import ArchivePool

__all__ = ["ArchiveWatcher", "EventBroadcaster", "SessionUpdate", "live_events"]

_MAX_SUBSCRIBERS = 64
"""Pages that may listen at once."""
_KEEPALIVE_SECONDS = 15.0
"""Seconds after which a page is told that nothing happened."""
_QUEUE_SIZE = 256
"""News that may wait for a page; one that is slower is told to ask anew."""


class SessionUpdate(Struct, frozen=True, kw_only=True, tag="grown", tag_field="row"):
    """A session that has grown."""

    id: SessionId
    title: str
    messages: int
    prompts: int
    ended: datetime | None = None

    @classmethod
    def from_summary(cls, summary: SessionSummary) -> SessionUpdate:
        """Return what is told of a session."""
        return cls(
            id=summary.id,
            title=summary.title.text,
            messages=summary.message_count,
            prompts=summary.prompt_count,
            ended=summary.ended_at,
        )


class EventBroadcaster:
    """Passes news from the thread that watches on to those who listen."""

    def __init__(self) -> None:
        self._subscribers: set[asyncio.Queue[bytes]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Remember the loop in which pages listen."""
        self._loop = asyncio.get_running_loop()

    def publish(self, updates: Iterable[SessionUpdate]) -> None:
        """Tell everybody who listens, from any thread."""
        lines = [b"data: " + msgspec.json.encode(one) + b"\n\n" for one in updates]
        if self._loop is not None and lines:
            self._loop.call_soon_threadsafe(self._send_to_subscribers, b"".join(lines))

    def close(self) -> None:
        """Let those who listen go."""
        for queue in self._subscribers:
            _enqueue(queue, b"")

    def _send_to_subscribers(self, event: bytes) -> None:
        for queue in self._subscribers:
            _enqueue(queue, event)

    @property
    def is_full(self) -> bool:
        """Whether no more pages can listen."""
        return len(self._subscribers) >= _MAX_SUBSCRIBERS

    async def subscribe(self) -> AsyncIterator[bytes]:
        """Yield what happens from now on, as server-sent events."""
        queue: asyncio.Queue[bytes] = asyncio.Queue(_QUEUE_SIZE)
        self._subscribers.add(queue)
        try:
            yield b"retry: 2000\n\n"
            while True:
                try:
                    told = await asyncio.wait_for(queue.get(), _KEEPALIVE_SECONDS)
                except TimeoutError:
                    told = b": nothing new\n\n"
                if not told:
                    return
                yield told
        finally:
            self._subscribers.discard(queue)


def _enqueue(queue: asyncio.Queue[bytes], event: bytes) -> None:
    if queue.full():
        # It missed too much to catch up bit by bit.
        while not queue.empty():
            queue.get_nowait()
        event = b"event: missed\ndata: {}\n\n"
    queue.put_nowait(event)


async def live_events(request: Request) -> Response:
    """Answer with what happens from now on."""
    herald: EventBroadcaster = request.app.state.app_state.broadcaster
    if herald.is_full:
        return PlainTextResponse("Too many pages listen.\n", status_code=503)
    return StreamingResponse(herald.subscribe(), media_type="text/event-stream")


class ArchiveWatcher:
    """A thread that takes in what is written, and tells of it."""

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
        """Watch from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Stop watching, and wait for what is being taken in."""
        self._stop.set()
        self._thread.join(10)

    def _run(self) -> None:
        from bygones.watch import watch

        if self._pool.folder is None:
            return
        watch(
            self._pool.folder,
            self._homes,
            self._publish_changes,
            stop=self._stop,
            polling=self._polling,
        )

    def _publish_changes(self, report: IngestReport) -> None:
        self._pool.invalidate()
        grown = []
        with self._pool.archive() as archive:
            for id_ in report.updated_sessions:
                with suppress(NotInArchive):  # it was purged since
                    grown.append(
                        SessionUpdate.from_summary(archive.session_summary(id_))
                    )
        self._broadcaster.publish(grown)
