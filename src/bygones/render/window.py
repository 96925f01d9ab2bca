"""A part of a session: the turns around one record."""

from __future__ import annotations

from collections.abc import Collection

from msgspec import structs

from bygones.model.sessions import Branch, Message, Session

__all__ = ["around", "place_of"]

_BESIDE = 1
"""Turns before and behind that are shown with the one that is meant."""


def around(session: Session, number: int, record: str) -> Session:
    """Return a session of which a branch has only the turns around a record.

    Where the branch does not hold the record, the session is returned as it is.
    """
    branch = next(one for one in session.branches if one.number == number)
    at = _turn_of(branch, record)
    if at is None:
        return session
    turns = branch.turns[max(at - _BESIDE, 0) : at + _BESIDE + 1]
    part = structs.replace(branch, turns=turns)
    branches = tuple(part if one is branch else one for one in session.branches)
    live = part if branch.is_live else session.live
    return structs.replace(session, branches=branches, live=live)


def place_of(session: Session, number: int, names: Collection[str]) -> int | None:
    """Return which message of a branch has a record or an agent run, counted from 0."""
    branch = next(one for one in session.branches if one.number == number)
    messages = (message for turn in branch.turns for message in turn.messages)
    for at, message in enumerate(messages):
        if _holds(message, names):
            return at
    return None


def _turn_of(branch: Branch, record: str) -> int | None:
    for at, turn in enumerate(branch.turns):
        if any(_holds(message, {record}) for message in turn.messages):
            return at
    return None


def _holds(message: Message, names: Collection[str]) -> bool:
    runs = (run.id for call in message.calls for run in call.agents)
    answers = (call.answer_record for call in message.calls)
    return any(name in names for name in (*message.records, *runs, *answers))
