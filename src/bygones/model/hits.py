"""What a search finds: sessions in order, and in each the texts that fit."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from bygones.model.ids import AgentId, Position, RecordId, SessionId
from bygones.model.listing import Listed
from bygones.model.parts import Role
from bygones.model.query import Note, Part

__all__ = ["Bound", "Excerpt", "Found", "FoundSession", "Hit", "Repair", "WordShare"]


class Bound(StrEnum):
    """How sure a number is, as it is said before it."""

    EXACT = ""
    ABOUT = "about"
    """An estimate: not every session was looked at."""
    AT_MOST = "at most"
    """Not every text was opened that may fit."""
    AT_LEAST = "at least"
    """There was too much to look at all of it."""

    def before(self, told: str) -> str:
        """Return a number as it is told, with this before it."""
        return f"{self} {told}".strip()


class Excerpt(Struct, frozen=True):
    """Some words of a text on one line, and which of them were looked for."""

    text: str
    marks: tuple[tuple[int, int], ...] = ()
    """Where marked words begin and end, in order."""
    is_begun: bool = False
    """Whether the text begins before it."""
    is_cut: bool = False
    """Whether the text goes on behind it."""


class Hit(Struct, frozen=True, kw_only=True):
    """A text that fits: where it stands, and why it is there."""

    record: RecordId
    position: Position | None
    """Where its line stands; a title has none."""
    part: Part
    role: Role | None = None
    time: datetime | None = None
    tools: tuple[str, ...] = ()
    """Names of the tools that it calls."""
    agent: AgentId | None = None
    agent_type: str | None = None
    is_rewound: bool = False
    is_error: bool = False
    excerpt: Excerpt


class WordShare(Struct, frozen=True):
    """What one word of the query gave to a session's score."""

    word: str
    share: float
    """Of all that its words gave it, from 0 to 1."""
    records: tuple[tuple[Part, int], ...] = ()
    """How many records of each part have it."""


class FoundSession(Struct, frozen=True, kw_only=True):
    """A session that has hits; agents are told of with it."""

    listed: Listed
    title: Excerpt
    """Its title, with the words marked that were looked for."""
    score: float
    words: tuple[str, ...] = ()
    """The words of the query that it has."""
    total: int = 0
    """How many texts fit; of these the best are told."""
    bound: Bound = Bound.EXACT
    """How sure that is."""
    hits: tuple[Hit, ...] = ()
    also: tuple[SessionId, ...] = ()
    """Other sessions that hold copies of the same records, and nothing more."""
    shares: tuple[WordShare, ...] = ()
    """How the score came about."""


class Repair(Struct, frozen=True):
    """A word that nobody has written, and the one that was looked for instead."""

    typed: str
    meant: str


class Found(Struct, frozen=True, kw_only=True):
    """The answer to a query."""

    sessions: tuple[FoundSession, ...] = ()
    total: int = 0
    """Sessions in all, as far as was looked."""
    bound: Bound = Bound.EXACT
    """How sure that is."""
    words: tuple[str, ...] = ()
    """The words that counted."""
    complete: int = 0
    """Sessions that have all of the words."""
    repairs: tuple[Repair, ...] = ()
    missing: tuple[str, ...] = ()
    """Words that nobody has written, nor any like them."""
    notes: tuple[Note, ...] = ()
    is_loosened: bool = False
    """Whether quoted words were looked for one by one: nowhere do they stand so."""
    is_partial: bool = False
    """Whether there was too much to look at all of it."""
    is_unasked: bool = False
    """Whether there was nothing to look for, so that this is the newest there is."""
