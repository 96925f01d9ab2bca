"""The sheet of a session: all rows that lists, usage and edits need of it.

Pure: a session in, rows out. So it can be made in this process or in another.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from bygones.model.fills import fills_of
from bygones.model.ids import SessionId
from bygones.model.listing import Listed
from bygones.store.numbers import id_number, milliseconds
from bygones.store.openings import opening_of
from bygones.store.reels import ReelRow, TalkRow, rows_of

if TYPE_CHECKING:  # whoever reads rows needs no whole sessions
    from bygones.model.sessions import Session

__all__ = ["Purses", "Sheet", "sheet_of"]

_encode = msgspec.msgpack.Encoder().encode

Number = int | None
Purses = list[tuple[str | None, str | None, str | None, str, str | None]]
"""Of each its agent, the agent's type, the model, its terms, and the entrypoint."""


class Sheet(Struct, frozen=True, array_like=True):
    """The rows of a session; they name it by nothing."""

    session: SessionId
    line: tuple[str | None, Number, Number, bool, str, bytes]
    """Its project, start and end, whether it is empty, its title, its line."""
    rewound: list[int]
    """Records that stand on branches which were left."""
    runs: list[tuple[str, str | None]]
    purses: Purses
    spends: list[tuple[int, int, Number, int, int, int, int, int, int, int, int]]
    """The first number of each says which of the purses."""
    fills: list[tuple[str, Number, int, int]]
    claim: tuple[Number, bytes] | None
    edits: list[tuple[str, int, int, str | None, Number, int, int, bool]]
    prompts: list[tuple[str, Number, int, str]]
    talks: list[TalkRow]
    reels: list[ReelRow]
    opening: list[bytes]
    """How it begins, if it is short and that is known: one, or none."""


def sheet_of(session: Session, line: Listed, *, is_long: bool) -> Sheet:
    """Return the sheet of a session, whose line in lists is known.

    What is long is written down as it was assembled, to be shown without that; of what
    is short, only how it begins.
    """
    talks, reels = rows_of(session) if is_long else ([], [])
    opening = None if is_long else opening_of(session, line)
    claim = session.claim
    purses, spends = _spends(session)
    return Sheet(
        session=session.id,
        line=(
            line.project,
            milliseconds(line.started),
            milliseconds(line.ended),
            line.is_empty,
            line.title.text if line.title.kind.is_given else "",
            _encode(line),
        ),
        rewound=sorted(_rewound(session)),
        runs=[(run.id, run.type) for run in session.all_agents],
        purses=purses,
        spends=spends,
        fills=[(*key, *counts) for key, counts in fills_of(session).items()],
        claim=(milliseconds(session.claimed), _encode(claim)) if claim else None,
        edits=[
            (
                edit.path,
                id_number(edit.call.record),
                edit.branch,
                edit.agent,
                milliseconds(edit.time),
                edit.added,
                edit.removed,
                edit.is_new,
            )
            for edit in session.edits
        ],
        prompts=list(_prompts(session)),
        talks=talks,
        reels=reels,
        opening=[opening] if opening is not None else [],
    )


def _rewound(session: Session) -> set[int]:
    """Return what cannot be told from a record alone: that its branch was left."""
    branches = [branch for branch in session.branches if not branch.is_live]
    if not branches:
        return set()
    live = {r for message in session.live.messages for r in message.records}
    left = {
        record
        for branch in branches
        for turn in branch.own
        for message in turn.messages
        for record in message.records
    }
    return {id_number(record) for record in left - live}


def _prompts(session: Session) -> Iterator[tuple[str, Number, int, str]]:
    for branch in session.branches:
        for said in branch.prompts:
            yield said.id, milliseconds(said.time), branch.number, said.head


def _spends(
    session: Session,
) -> tuple[
    Purses, list[tuple[int, int, Number, int, int, int, int, int, int, int, int]]
]:
    """Return who spends in a session, and what each answer cost whom."""
    types = {run.id: run.type for run in session.all_agents}
    known: dict[tuple[object, ...], int] = {}
    purses: Purses = []
    rows = []
    for spend in session.spends:
        agent = spend.agent
        who = (agent, spend.model, spend.terms, spend.entrypoint)
        purse = known.get(who)
        if purse is None:
            purse = known[who] = len(purses)
            kind = types.get(agent) if agent else None
            terms = " ".join(spend.terms or ())
            purses.append((agent, kind, spend.model, terms, spend.entrypoint))
        usage = spend.usage
        rows.append(
            (
                purse,
                id_number(spend.record),
                milliseconds(spend.time),
                spend.branch,
                usage.input,
                usage.output,
                usage.cache_write_5m,
                usage.cache_write_1h,
                usage.cache_read,
                usage.web_searches,
                spend.estimate,
            )
        )
    return purses, rows
