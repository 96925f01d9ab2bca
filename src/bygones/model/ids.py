"""Names of things: ids as distinct types, and the place of a line in a source."""

from __future__ import annotations

from typing import NewType

from msgspec import Struct

from bygones.errors import NameUnreadable

__all__ = [
    "AgentId",
    "Line",
    "MessageId",
    "Position",
    "ProjectKey",
    "RecordId",
    "SessionId",
    "SourceId",
    "ToolUseId",
    "as_text",
]

AgentId = NewType("AgentId", str)
"""Opaque; also part of the name of the agent's file."""

MessageId = NewType("MessageId", str)
"""The API's id of one answer; shared by all records that are pieces of it."""

ProjectKey = NewType("ProjectKey", str)
"""A folder name below ``projects``; cannot be decoded to a path."""

RecordId = NewType("RecordId", str)
"""A record's ``uuid``."""

SessionId = NewType("SessionId", str)

SourceId = NewType("SourceId", str)
"""The path of a source as it was found, with forward slashes."""

ToolUseId = NewType("ToolUseId", str)
"""Joins a tool use with its result."""


class Position(Struct, frozen=True, order=True, gc=False, array_like=True):
    """Where some bytes of a source are; opens the original line again.

    ``generation`` counts how often the source was begun anew (shrunk, rewritten);
    offsets are comparable within one generation only.
    """

    source: SourceId
    generation: int
    offset: int
    length: int


class Line(Struct, frozen=True, gc=False):
    """The bytes between two newlines of a source, without the newline."""

    position: Position
    raw: bytes
    ended: bool = True
    """Whether a newline followed; only a source's last line may lack one."""


def as_text(name: str) -> str:
    """Return a name that somebody gave, or raise if nothing can be called so.

    Bytes of a command line that are no text come as half pairs, which no engine takes.
    """
    try:
        name.encode()
    except UnicodeEncodeError:
        raise NameUnreadable(name) from None
    return name
