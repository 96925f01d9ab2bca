"""Reels: the messages of sessions as they were assembled, to be read by number.

Each conversation, a session's own or an agent run's, has a row with its facts, and each
of its branches a row for every few dozen messages of its own. What a branch shares with
the one that it left stands there. So a window costs the window.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import Struct

from bygones.model.sessions import Branch, Loader, Message, Session, Turn
from bygones.model.usage import Usage
from bygones.model.windows import (
    BranchFacts,
    SessionFacts,
    Window,
    as_session,
    facts_of,
    in_brief,
    own_messages,
)
from bygones.store.connect import every, first
from bygones.store.press import squeeze, unpress

if TYPE_CHECKING:
    from bygones.store.index import Index

__all__ = [
    "Asked",
    "ReelRow",
    "Reels",
    "TalkRow",
    "TurnRow",
    "encoded",
    "rows_of",
    "turn_rows",
    "turns_of",
]

FRAME = 64
"""Messages of a row."""
_ALL = 1 << 62


Place = tuple[int, str]
"""A session by its number, and an agent run in it or none."""


class Asked(NamedTuple):
    """Messages of a branch: the first, and the one behind the last."""

    branch: int
    start: int
    stop: int


TalkRow = tuple[str, bytes]
"""An agent run or none, and the facts."""
ReelRow = tuple[str, int, int, bytes]
"""An agent run or none, a branch, the number of the first message, and messages."""


class TurnRow(Struct, frozen=True, array_like=True, gc=False):
    """A turn without its messages."""

    start: int
    """The number of its first message on the branch."""
    number: int
    has_prompt: bool
    usage: Usage
    duration: timedelta | None


class _Frame(Struct, frozen=True, array_like=True):
    """Messages, and the turns that they are of; the first may have begun before."""

    turns: list[TurnRow]
    messages: list[Message]


class _Talk(Struct, frozen=True, array_like=True):
    """The facts of a conversation, and the turns that forks cut short."""

    facts: SessionFacts
    opened: dict[int, TurnRow]
    """By the branch that left there: the turn as far as both share it, and on."""


class Reels:
    """The messages of sessions, read by number."""

    def __init__(self, index: Index) -> None:
        self._db = index.db
        self._loader = Loader()
        self._talk = msgspec.msgpack.Decoder(_Talk, dec_hook=self._opens)
        self._frame = msgspec.msgpack.Decoder(_Frame, dec_hook=self._opens)

    def has(self, number: int) -> bool:
        """Whether a session has rows."""
        sql = "SELECT 1 FROM talk WHERE session = ? AND agent = ''"
        return first(self._db, sql, (number,)) is not None

    def facts(self, number: int, agent: str = "") -> SessionFacts | None:
        """Return what is told of a conversation, if it has rows."""
        talk = self._told(number, agent)
        return talk.facts if talk else None

    def agents(self, number: int) -> list[str]:
        """Return the agent runs of a session that have rows."""
        sql = "SELECT agent FROM talk WHERE session = ? AND agent > ''"
        return [row[0] for row in every(self._db, sql, (number,))]

    def _told(self, number: int, agent: str) -> _Talk | None:
        sql = "SELECT facts FROM talk WHERE session = ? AND agent = ?"
        row = first(self._db, sql, (number, agent))
        if row is None:
            return None
        return self._talk.decode(row[0])

    def window(self, place: Place, asked: Asked, loader: Loader) -> Window | None:
        """Return messages of a conversation, if it has rows and such a branch."""
        self._loader = loader
        talk, rows, messages = self._read_at_once(place, asked)
        if talk is None:
            return None
        ordered = [rows[at] for at in sorted(rows)]
        turns = list(turns_of(ordered, messages, asked.start))
        return Window(
            facts=talk.facts,
            branch=asked.branch,
            start=asked.start,
            turns=tuple(turn for _, turn in turns),
            is_begun=bool(turns) and turns[0][0] < asked.start,
        )

    def holding(
        self, place: Place, branch: int, names: Sequence[str], loader: Loader
    ) -> Iterator[tuple[int, Message]]:
        """Yield the messages near which one of some names stands, by their numbers.

        Without names all messages of a branch come, from its root on.
        """
        self._loader = loader
        signs = [name.encode("utf-8", "surrogatepass") for name in names]
        talk = self._told(*place)
        if talk is None:
            return
        for one, until in _parts(talk.facts, branch, _ALL):
            asked = Asked(one.number, one.shared, until)
            for at, raw in self._raws(place, asked, one.shared):
                if not signs or any(sign in raw for sign in signs):
                    messages = self._frame.decode(raw).messages
                    yield from enumerate(messages[: until - at], at)

    def _read_at_once(
        self, place: Place, asked: Asked
    ) -> tuple[_Talk | None, dict[int, TurnRow], list[Message]]:
        """Return what is asked for as it was at one moment, whoever writes."""
        with self._db:
            talk = self._told(*place)
            if talk is not None and talk.facts.branch(asked.branch) is not None:
                return talk, *self._read(place, talk, asked)
        return None, {}, []

    def _read(
        self, place: Place, talk: _Talk, asked: Asked
    ) -> tuple[dict[int, TurnRow], list[Message]]:
        """Return the messages that are asked for, and the turns around them."""
        rows: dict[int, TurnRow] = {}
        messages: list[Message] = []
        for one, until in _parts(talk.facts, asked.branch, asked.stop):
            opened = talk.opened.get(one.number)
            limit = opened.start if opened else one.shared
            rows = {at: row for at, row in rows.items() if at < limit}
            if opened:
                rows[opened.start] = opened
            low = max(asked.start, one.shared)
            own = Asked(one.number, low, until)
            for at, raw in self._raws(place, own, one.shared):
                frame = self._frame.decode(raw)
                rows.update({row.start: row for row in frame.turns})
                messages += frame.messages[max(low - at, 0) : until - at]
        return rows, messages

    def _raws(
        self, place: Place, own: Asked, shared: int
    ) -> Iterator[tuple[int, bytes]]:
        """Yield the frames that hold some messages of a branch's own."""
        if own.start >= own.stop:
            return
        lowest = own.start - (own.start - shared) % FRAME
        sql = (
            "SELECT start, frame FROM reel WHERE session = ? AND agent = ?"
            " AND branch = ? AND start >= ? AND start < ? ORDER BY start"
        )
        for at, frame in every(self._db, sql, (*place, own.branch, lowest, own.stop)):
            yield at, unpress(frame)

    def _opens(self, kind: type, _: object) -> Loader:
        if kind is not Loader:
            raise NotImplementedError
        return self._loader


def rows_of(session: Session) -> tuple[list[TalkRow], list[ReelRow]]:
    """Return the rows of a session and of its agent runs; they name it by nothing."""
    talks: list[TalkRow] = []
    reels: list[ReelRow] = []
    _add(talks, reels, session, facts_of(session))
    for run in session.all_agents:
        inner = as_session(session, run)
        _add(talks, reels, inner, facts_of(inner, run.id))
    return talks, reels


def _add(
    talks: list[TalkRow], reels: list[ReelRow], session: Session, facts: SessionFacts
) -> None:
    """Add the rows of one conversation."""
    agent = facts.agent or ""
    paths = {branch.number: branch for branch in session.branches}
    opened = {}
    for branch, told in zip(session.branches, facts.branches, strict=True):
        rows = turn_rows(branch)
        above = paths.get(branch.parent) if branch.parent is not None else None
        if above is not None:
            known = {id(turn) for turn in above.turns}
            for row, turn in zip(rows, branch.turns, strict=True):
                if row.start < told.shared and id(turn) not in known:
                    opened[branch.number] = row
        for start, frame in _frames(rows, own_messages(branch), told.shared):
            reels.append((agent, branch.number, start, squeeze(encoded(frame))))
    talks.append((agent, encoded(_Talk(facts, opened))))


def _parts(
    facts: SessionFacts, number: int, stop: int
) -> list[tuple[BranchFacts, int]]:
    """Return the branches whose own messages a path is made of, and up to where.

    The one that all others left comes first.
    """
    found = []
    branch = facts.branch(number)
    while branch is not None:
        until = min(stop, branch.total)
        found.append((branch, until))
        stop = min(stop, branch.shared)
        branch = facts.branch(branch.parent) if branch.parent is not None else None
    return found[::-1]


def turn_rows(branch: Branch) -> list[TurnRow]:
    """Return the turns of a branch without their messages."""
    rows = []
    start = 0
    for turn in branch.turns:
        has_prompt = turn.prompt is not None
        rows.append(TurnRow(start, turn.number, has_prompt, turn.usage, turn.duration))
        start += len(turn.messages)
    return rows


def _frames(
    rows: Sequence[TurnRow], own: Sequence[Message], shared: int
) -> Iterator[tuple[int, _Frame]]:
    """Yield the messages of a branch's own in frames, and where each begins."""
    at = 0
    for low in range(0, len(own), FRAME):
        start = shared + low
        stop = start + FRAME
        while at + 1 < len(rows) and rows[at + 1].start <= start:
            at += 1
        last = at
        while last + 1 < len(rows) and rows[last + 1].start < stop:
            last += 1
        messages = [in_brief(message) for message in own[low : low + FRAME]]
        yield start, _Frame(list(rows[at : last + 1]), messages)


def turns_of(
    rows: Sequence[TurnRow], messages: Sequence[Message], start: int
) -> Iterator[tuple[int, Turn]]:
    """Yield messages in their turns, and where each turn began."""
    stop = start + len(messages)
    ends = [row.start for row in rows[1:]] + [stop]
    for row, end in zip(rows, ends, strict=bool(rows)):
        inside = messages[max(row.start - start, 0) : max(min(end, stop) - start, 0)]
        if inside:
            is_whole = row.has_prompt and row.start >= start
            yield (
                row.start,
                Turn(
                    number=row.number,
                    prompt=inside[0] if is_whole else None,
                    messages=tuple(inside),
                    usage=row.usage,
                    duration=row.duration,
                ),
            )


def encoded(value: Struct | list[Message]) -> bytes:
    """Return what was assembled as bytes, without what opens its text."""
    return _ENCODER.encode(value)


def _closed(value: Any) -> None:  # noqa: ANN401 (whatever is met)
    """Leave loaders out: whoever reads has one."""
    if not isinstance(value, Loader):
        raise NotImplementedError


_ENCODER = msgspec.msgpack.Encoder(enc_hook=_closed)
