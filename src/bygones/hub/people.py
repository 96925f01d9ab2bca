"""A page and an agents' server for each person, over what that person may see.

Nobody shares anything here: what is kept open, remembered or drawn for one person is in
an application of that person's own.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock, Semaphore

from anyio import CapacityLimiter
from starlette.applications import Starlette
from starlette.types import Receive, Send
from starlette.types import Scope as Asked

from bygones.archive import Archive
from bygones.mcp.protocol import Speaker
from bygones.mcp.recall import Caller, Recall
from bygones.prices import Prices
from bygones.store.shelf import Shelf
from bygones.team.contract import Scope
from bygones.web.app import application
from bygones.web.live import Herald
from bygones.web.readers import Readers
from bygones.web.visit import House

__all__ = ["Opening", "People"]

Opening = Callable[[Scope], Shelf]
"""Opens what somebody may see."""
_MOST = 20
"""People whose applications are kept. Each keeps a few connections to the engine open,
which has a hundred, unless it is told otherwise."""
_IDLE, _HELD = 1, 2
_ANSWERS = 8
"""Pages that are made at once, for all people together."""
_FREE = 24
"""Archives that are kept open though nobody reads them, of all people; of one as many
as answers are made at once, so that none is opened for a single one."""


class _Kept(Archive):
    """An archive that is handed back rather than closed, if it is wanted."""

    take_back: Callable[[_Kept], bool]

    def close(self) -> None:
        """Hand it back, or let go of it."""
        if not self.take_back(self):
            super().close()


class _Open:
    """Archives of one scope that stay open: to know all sessions again takes long."""

    def __init__(self, opening: Callable[[], Shelf], room: Semaphore) -> None:
        self._opening = opening
        self._room = room
        """How many more may be kept, by whomever."""
        self._free: list[_Kept] = []
        self._most = _ANSWERS
        self._lock = Lock()

    def archive(self) -> Archive:
        """Return one that is up to date."""
        with self._lock:
            archive = self._free.pop() if self._free else None
            if archive is not None:
                self._room.release()
        if archive is None:
            archive = _Kept.on(self._opening())
            archive.take_back = self._take_back
        else:
            archive.refresh()
        return archive

    def _take_back(self, archive: _Kept) -> bool:
        with self._lock:
            has_room = len(self._free) < self._most
            if has_room and (has_room := self._room.acquire(blocking=False)):
                self._free.append(archive)
        return has_room

    def close(self) -> None:
        """Let go of those that nobody has."""
        with self._lock:
            free, self._free, self._most = self._free, [], 0
        for archive in free:
            self._room.release()
            archive.close()


class _Room:
    """What one scope has open."""

    def __init__(
        self, opening: Callable[[], Shelf], prices: Prices | None, room: Semaphore
    ) -> None:
        self._open = _Open(opening, room)
        self.readers = Readers(None, self._open.archive, idle=_IDLE, held=_HELD)
        self.herald = Herald()
        house = House(readers=self.readers, herald=self.herald, prices=prices)
        self.app: Starlette = application(house)
        caller = Caller(directory=Path("/"), clock=_now, zone=UTC)
        self.speaker = Speaker(Recall(Path(), caller, self._open.archive))
        self._life = AsyncExitStack()

    async def begin(self, limiter: CapacityLimiter) -> None:
        await self._life.enter_async_context(self.app.router.lifespan_context(self.app))
        self.app.state.limiter = limiter

    async def end(self) -> None:
        await self._life.aclose()
        self._open.close()


class People:
    """The rooms of those who asked last."""

    def __init__(self, opening: Opening, prices: Prices | None = None) -> None:
        self._opening = opening
        self._prices = prices
        self._rooms: OrderedDict[Scope, _Room] = OrderedDict()
        self._free = Semaphore(_FREE)
        self._limiter: CapacityLimiter | None = None

    async def serve(
        self, scope: Scope, asked: Asked, receive: Receive, send: Send
    ) -> None:
        """Answer with the page of whoever asks."""
        room = await self._room(scope)
        await room.app(asked, receive, send)

    def speaker(self, scope: Scope) -> Speaker:
        """Return who answers the agents of a person."""
        return self._kept(scope).speaker

    def renew(self) -> None:
        """Let everybody see what has come."""
        for room in list(self._rooms.values()):
            room.readers.renew()

    def part(self) -> None:
        """Let those go who listen to news: a server that stops waits for them."""
        for room in list(self._rooms.values()):
            room.herald.end()

    async def close(self) -> None:
        """Let go of everything."""
        while self._rooms:
            _, room = self._rooms.popitem()
            await room.end()

    def _kept(self, scope: Scope) -> _Room:
        room = self._rooms.get(scope)
        if room is None:
            opening = self._opening
            room = _Room(lambda: opening(scope), self._prices, self._free)
            self._rooms[scope] = room
        self._rooms.move_to_end(scope)
        return room

    async def _room(self, scope: Scope) -> _Room:
        is_new = scope not in self._rooms
        room = self._kept(scope)
        if is_new or not hasattr(room.app.state, "limiter"):
            self._limiter = self._limiter or CapacityLimiter(_ANSWERS)
            await room.begin(self._limiter)
        while len(self._rooms) > _MOST:
            _, old = self._rooms.popitem(last=False)
            await old.end()
        return room


def _now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 (a face knows the clock)
