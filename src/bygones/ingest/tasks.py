"""What another process can do for an ingestion: pure functions of plain values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from bygones.assemble import listed
from bygones.ingest.gist import Gist, Stretch, gist_of
from bygones.ingest.loading import Family
from bygones.model.parts import Loader
from bygones.model.windows import weight_of
from bygones.store.sheets import Sheet, sheet_of

__all__ = ["DERIVING", "READING", "TASKS", "Task"]

Asked = TypeVar("Asked")
Told = TypeVar("Told")
LONG = 192
"""Messages of a family from which on they are written down as they were assembled."""
_encode = msgspec.msgpack.Encoder().encode


class Task(Generic[Asked, Told]):
    """A function, with its argument and its result as bytes."""

    def __init__(
        self, deed: Callable[[Asked], Told], asked: type[Asked], told: type[Told]
    ) -> None:
        self.deed = deed
        self._asked: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(asked)
        self._told: msgspec.msgpack.Decoder[Told] = msgspec.msgpack.Decoder(told)

    def question(self, asked: Asked) -> bytes:
        """Return what is asked for as bytes."""
        return _encode(asked)

    def answer(self, question: bytes) -> bytes:
        """Return the answer to a question."""
        return _encode(self.deed(self._asked.decode(question)))

    def told(self, answer: bytes) -> Told:
        """Return what an answer says."""
        return self._told.decode(answer)


def _sheets_of(family: Family) -> list[Sheet]:
    sessions = family.sessions(Loader())
    # What is small is assembled in a moment, if all that it is related to is small.
    is_long = sum(map(weight_of, sessions)) >= LONG
    return [sheet_of(one, listed(one), is_long=is_long) for one in sessions]


READING: Task[Stretch, Gist] = Task(gist_of, Stretch, Gist)
DERIVING: Task[Family, list[Sheet]] = Task(_sheets_of, Family, list[Sheet])
TASKS: tuple[Task[Any, Any], ...] = (READING, DERIVING)
