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

from bygones.errors import NotArchived
from bygones.model.ids import SessionId
from bygones.model.listing import Listed

if TYPE_CHECKING:
    from pathlib import Path

    from bygones.ingest import Report
    from bygones.web.readers import Readers

__all__ = ["Grown", "Herald", "Watching", "live"]

_MOST = 64
"""Pages that may listen at once."""
_QUIET = 15.0
"""Seconds after which a page is told that nothing happened."""
_WAITING = 256
"""News that may wait for a page; one that is slower is told to ask anew."""


class Grown(Struct, frozen=True, kw_only=True, tag="grown", tag_field="row"):
    """A session that has grown."""

    id: SessionId
    title: str
    messages: int
    prompts: int
    ended: datetime | None = None

    @classmethod
    def of(cls, listed: Listed) -> Grown:
        """Return what is told of a session."""
        return cls(
            id=listed.id,
            title=listed.title.text,
            messages=listed.messages,
            prompts=listed.prompts,
            ended=listed.ended,
        )


class Herald:
    """Passes news from the thread that watches on to those who listen."""

    def __init__(self) -> None:
        self._listening: set[asyncio.Queue[bytes]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def begin(self) -> None:
        """Remember the loop in which pages listen."""
        self._loop = asyncio.get_running_loop()

    def tell(self, news: Iterable[Grown]) -> None:
        """Tell everybody who listens, from any thread."""
        lines = [b"data: " + msgspec.json.encode(one) + b"\n\n" for one in news]
        if self._loop is not None and lines:
            self._loop.call_soon_threadsafe(self._pass_on, b"".join(lines))

    def end(self) -> None:
        """Let those who listen go."""
        for queue in self._listening:
            _put(queue, b"")

    def _pass_on(self, told: bytes) -> None:
        for queue in self._listening:
            _put(queue, told)

    @property
    def is_full(self) -> bool:
        """Whether no more pages can listen."""
        return len(self._listening) >= _MOST

    async def news(self) -> AsyncIterator[bytes]:
        """Yield what happens from now on, as server-sent events."""
        queue: asyncio.Queue[bytes] = asyncio.Queue(_WAITING)
        self._listening.add(queue)
        try:
            yield b"retry: 2000\n\n"
            while True:
                try:
                    told = await asyncio.wait_for(queue.get(), _QUIET)
                except TimeoutError:
                    told = b": nothing new\n\n"
                if not told:
                    return
                yield told
        finally:
            self._listening.discard(queue)


def _put(queue: asyncio.Queue[bytes], told: bytes) -> None:
    if queue.full():
        # It missed too much to catch up bit by bit.
        while not queue.empty():
            queue.get_nowait()
        told = b"event: missed\ndata: {}\n\n"
    queue.put_nowait(told)


async def live(request: Request) -> Response:
    """Answer with what happens from now on."""
    herald: Herald = request.app.state.house.herald
    if herald.is_full:
        return PlainTextResponse("Too many pages listen.\n", status_code=503)
    return StreamingResponse(herald.news(), media_type="text/event-stream")


class Watching:
    """A thread that takes in what is written, and tells of it."""

    def __init__(
        self,
        readers: Readers,
        herald: Herald,
        homes: tuple[Path, ...],
        *,
        polling: bool,
    ) -> None:
        self._readers = readers
        self._herald = herald
        self._homes = homes
        self._polling = polling
        self._stop = Event()
        self._thread = Thread(target=self._watch, name="watch", daemon=True)

    def begin(self) -> None:
        """Watch from now on."""
        self._thread.start()

    def end(self) -> None:
        """Stop watching, and wait for what is being taken in."""
        self._stop.set()
        self._thread.join(10)

    def _watch(self) -> None:
        from bygones.watch import watch  # noqa: PLC0415 (not where nothing is watched)

        if self._readers.folder is None:
            return
        watch(
            self._readers.folder,
            self._homes,
            self._tell,
            stop=self._stop,
            polling=self._polling,
        )

    def _tell(self, report: Report) -> None:
        self._readers.renew()
        grown = []
        with self._readers.archive() as archive:
            for id_ in report.touched:
                with suppress(NotArchived):  # it was purged since
                    grown.append(Grown.of(archive.listed(id_)))
        self._herald.tell(grown)
