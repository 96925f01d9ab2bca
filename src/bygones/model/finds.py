"""What looking something up in the archive finds."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from bygones.model.ids import AgentId, Position, RecordId, SessionId

__all__ = ["FoundEdit", "FoundPrompt", "FoundRecord"]


class FoundRecord(Struct, frozen=True, kw_only=True):
    """A record: where it stands, what it belongs to, and its line."""

    id: RecordId
    kind: str
    session: SessionId
    agent: AgentId | None = None
    """The agent run in which it was said."""
    branch: int | None = None
    """The number of the branch on which it was said first; none if it is hidden."""
    position: Position
    copies: tuple[Position, ...] = ()
    """Where else the same record stands: in resumed and forked sessions."""
    raw: bytes


class FoundEdit(Struct, frozen=True, kw_only=True):
    """A change of a file by a call, as the index knows it."""

    path: str
    session: SessionId
    branch: int
    agent: AgentId | None = None
    time: datetime | None = None
    added: int = 0
    removed: int = 0
    is_new: bool = False


class FoundPrompt(Struct, frozen=True, kw_only=True):
    """What a person typed, exactly, and where."""

    id: RecordId
    session: SessionId
    time: datetime | None = None
    branch: int
    text: str
