"""Openings: how short sessions begin, told in so few bytes that each has one.

A page shows a few messages first, and what is told of a session as a whole. An opening
says up to which byte of a session's file its first messages reach, and all that they
do not tell by themselves. So a page need not assemble the session. What is made of the
beginning of a file need not be what the whole session has there: a sign tells.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, structs

from bygones.model.ids import Position, ToolUseId
from bygones.model.rest import Rest, rest_of, summed
from bygones.model.sessions import AgentRun, Loader, Message, Session, Turn
from bygones.model.windows import (
    OPENING,
    BranchFacts,
    SessionFacts,
    facts_of,
    in_brief,
)
from bygones.store.connect import first
from bygones.store.reels import TurnRow, encoded, turn_rows, turns_of

if TYPE_CHECKING:
    from bygones.model.listing import Listed
    from bygones.store.index import Index

__all__ = ["Opening", "Openings", "opening_of", "sign_of"]


class Opening(Struct, frozen=True, kw_only=True, array_like=True):
    """How a session begins."""

    until: int
    """Where the lines of its file end that its first messages are made of."""
    count: int
    """How many messages these are."""
    sign: bytes
    """Of the messages, as they stand in the whole session."""
    turns: tuple[TurnRow, ...]
    rest: Rest = Rest()
    """What is behind them of the last turn that begins in them."""
    branches: tuple[BranchFacts, ...]
    """The live one does not tell how its first prompt begins, if that is in them."""
    files: int = 0
    models: tuple[str, ...] | None = None
    """Where its line has others: those of its agents too."""
    runs: dict[ToolUseId, tuple[AgentRun, ...]] = {}
    """What the calls in them started, in brief."""
    orphans: tuple[AgentRun, ...] = ()

    def facts(self, listed: Listed, messages: Sequence[Message]) -> SessionFacts:
        """Return what is told of the session."""
        return SessionFacts(
            id=listed.id,
            title=listed.title,
            project=listed.project,
            git_branches=listed.git_branches,
            versions=listed.versions,
            entrypoints=listed.entrypoints,
            models=listed.models if self.models is None else self.models,
            started=listed.started,
            ended=listed.ended,
            usage=listed.usage,
            lineage=listed.lineage,
            agents=listed.agents,
            problems=listed.problems,
            files=self.files,
            branches=tuple(_quoted(one, messages) for one in self.branches),
            orphans=self.orphans,
        )

    def within(self, messages: Sequence[Message]) -> list[Message]:
        """Return messages with the agents that their calls started."""
        return [self._called(message) for message in messages]

    def _called(self, message: Message) -> Message:
        if not any(call.id in self.runs or call.agents for call in message.calls):
            return message
        calls = (
            structs.replace(call, agents=self.runs.get(call.id, ()))
            for call in message.calls
        )
        return structs.replace(message, calls=tuple(calls))

    def turned(self, messages: Sequence[Message], start: int) -> list[tuple[int, Turn]]:
        """Return messages from a number on in their turns, and where each began."""
        return list(turns_of(self.turns, messages, start))


class Openings:
    """How sessions begin."""

    def __init__(self, index: Index) -> None:
        self._db = index.db

    def of(self, number: int) -> tuple[Opening, bytes] | None:
        """Return how a session begins, and its line; nothing if that is not known."""
        sql = (
            "SELECT opening, listed FROM opening JOIN session ON number = session"
            " WHERE session = ?"
        )
        row = first(self._db, sql, (number,))
        return (_decode(row[0]), row[1]) if row else None


def opening_of(session: Session, line: Listed) -> bytes | None:
    """Return how a session begins, if that can be read out of one file."""
    turns = session.live.turns
    messages = [message for turn in turns for message in turn.messages]
    begun = [in_brief(message) for message in messages[:OPENING]]
    until = _until(begun, messages[OPENING : OPENING + 1])
    facts = facts_of(session)
    if until is None or any(_is_silent(one, begun) for one in facts.branches):
        return None
    count = len(begun)
    rows = [row for row in turn_rows(session.live) if row.start < count]
    behind = rows[-1].start + len(turns[len(rows) - 1].messages)
    agents = {call.id: call.agents for m in begun for call in m.calls if call.agents}
    return encoded(
        Opening(
            until=until,
            count=count,
            sign=sign_of(begun),
            turns=tuple(rows),
            rest=summed(rest_of([in_brief(m) for m in messages[count:behind]])),
            branches=tuple(_unquoted(one, begun) for one in facts.branches),
            files=facts.files,
            models=None if line.models == facts.models else facts.models,
            runs=agents,
            orphans=facts.orphans,
        )
    )


def sign_of(messages: Sequence[Message]) -> bytes:
    """Return by what messages are known to be the same."""
    return blake2b(encoded(list(messages)), digest_size=8).digest()


def _until(begun: Sequence[Message], behind: Sequence[Message]) -> int | None:
    """Return where the lines of messages end; none where they are in several files.

    What stands before the next message may say something of them.
    """
    places = [place for message in begun for place in _places(message)]
    if len({(place.source, place.generation) for place in places}) != 1:
        return None
    end = max(place.offset + place.length for place in places)
    after = [place for message in behind for place in _places(message)]
    return max(end, min((place.offset for place in after), default=end))


def _places(message: Message) -> Iterator[Position]:
    for piece in (*message.pieces, *message.attached):
        yield piece.position
    for call in message.calls:
        yield call.place
        if call.answered_at is not None:
            yield call.answered_at
        yield from (piece.position for piece in call.attached)


def _quote(messages: Sequence[Message]) -> str:
    return next((message.head for message in messages if message.is_prompt), "")


def _quoted(branch: BranchFacts, messages: Sequence[Message]) -> BranchFacts:
    if branch.quote or not branch.is_live:
        return branch
    return structs.replace(branch, quote=_quote(messages))


def _unquoted(branch: BranchFacts, messages: Sequence[Message]) -> BranchFacts:
    if not branch.is_live or branch.quote != _quote(messages):
        return branch
    return structs.replace(branch, quote="")


def _is_silent(branch: BranchFacts, messages: Sequence[Message]) -> bool:
    """Whether a branch quotes nothing though what is said on it could be quoted."""
    return branch.is_live and not branch.quote and bool(_quote(messages))


def _no_loader(kind: type, _: object) -> Loader:
    if kind is not Loader:
        raise NotImplementedError
    return Loader()


_decode = msgspec.msgpack.Decoder(Opening, dec_hook=_no_loader).decode
