"""The rows that a search gives as JSON."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from bygones.model.hits import (
    Bound,
    Excerpt,
    Found,
    FoundSession,
    Hit,
    Repair,
    WordShare,
)
from bygones.model.ids import AgentId, Position, RecordId, SessionId
from bygones.model.parts import Role
from bygones.model.query import Note, Part
from bygones.rows.archive import Row

__all__ = ["ROWS", "AnswerRow", "FoundRow", "HitLine"]


class AnswerRow(Row, frozen=True, kw_only=True, tag="answer"):
    """How a query was answered."""

    query: str
    words: tuple[str, ...] = ()
    """The words that counted."""
    total: int
    """Sessions in all, as far as was looked."""
    bound: Bound = Bound.EXACT
    """How sure that is: exact, or what is to be said before it."""
    complete: int = 0
    """Sessions that have all of the words."""
    repairs: tuple[Repair, ...] = ()
    missing: tuple[str, ...] = ()
    """Words that nobody has written, nor any like them."""
    notes: tuple[Note, ...] = ()
    """How the query was read, where that may not be as it was meant."""
    is_loosened: bool = False
    """Whether quoted words were looked for one by one: nowhere do they stand so."""
    is_partial: bool = False
    """Whether there was too much to look at all of it."""
    is_unasked: bool = False
    """Whether there was nothing to look for: these are the newest sessions."""

    @classmethod
    def of(cls, query: str, found: Found) -> AnswerRow:
        """Return the row of an answer."""
        return cls(
            query=query,
            words=found.words,
            total=found.total,
            bound=found.bound,
            complete=found.complete,
            repairs=found.repairs,
            missing=found.missing,
            notes=found.notes,
            is_loosened=found.is_loosened,
            is_partial=found.is_partial,
            is_unasked=found.is_unasked,
        )


class HitLine(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A text that fits."""

    record: RecordId
    position: Position | None = None
    """Where its line stands: file, generation, offset and length."""
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

    @classmethod
    def of(cls, hit: Hit) -> HitLine:
        """Return the line of a hit."""
        return cls(
            record=hit.record,
            position=hit.position,
            part=hit.part,
            role=hit.role,
            time=hit.time,
            tools=hit.tools,
            agent=hit.agent,
            agent_type=hit.agent_type,
            is_rewound=hit.is_rewound,
            is_error=hit.is_error,
            excerpt=hit.excerpt,
        )


class FoundRow(Row, frozen=True, kw_only=True, tag="found"):
    """A session that was found."""

    number: int
    """By which ``show`` and ``open`` know it."""
    id: SessionId
    title: str
    project: str | None = None
    started: datetime | None = None
    ended: datetime | None = None
    score: float
    words: tuple[str, ...] = ()
    """The words of the query that it has."""
    total: int
    """How many texts fit."""
    bound: Bound = Bound.EXACT
    """How sure that is."""
    hits: tuple[HitLine, ...] = ()
    """The best of them."""
    also: tuple[SessionId, ...] = ()
    """Other sessions that hold copies of the same records."""
    shares: tuple[WordShare, ...] = ()
    """What each word gave to the score, and the records that have it, by part."""

    @classmethod
    def of(cls, number: int, one: FoundSession) -> FoundRow:
        """Return the row of a session."""
        return cls(
            number=number,
            id=one.listed.id,
            title=one.listed.title.text,
            project=one.listed.project,
            started=one.listed.started,
            ended=one.listed.ended,
            score=round(one.score, 4),
            words=one.words,
            total=one.total,
            bound=one.bound,
            hits=tuple(map(HitLine.of, one.hits)),
            also=one.also,
            shares=one.shares,
        )


ROWS = (AnswerRow, FoundRow)
