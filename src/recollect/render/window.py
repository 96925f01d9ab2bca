"""A part of a session: the turns around one record."""

from __future__ import annotations

from msgspec import structs

from recollect.model.sessions import Branch, Session

__all__ = ["around"]

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


def _turn_of(branch: Branch, record: str) -> int | None:
    for at, turn in enumerate(branch.turns):
        for message in turn.messages:
            agents = {run.id for call in message.calls for run in call.agents}
            if record in message.records or record in agents:
                return at
    return None
