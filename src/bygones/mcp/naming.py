"""Short names for sessions and records, which agents can give back.

An id in a transcript may be any text. A name holds letters, digits and dashes only,
so that it can stand outside of a quotation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from bygones.archive import Archive
from bygones.errors import Ambiguous, NotArchived
from bygones.model.listing import Listed
from bygones.model.sessions import AgentRun, Message, Session

__all__ = ["Names", "Way", "plain_id", "project_of", "short_session", "way_to"]

_SHORT = 8
_PLAIN = re.compile(r"[0-9a-zA-Z-]{1,64}")


class Names:
    """The names of the messages of one way, each by its first record."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        ids = [message.id for message in messages]
        short: dict[str, int] = {}
        for id_ in ids:
            short[id_[:_SHORT]] = short.get(id_[:_SHORT], 0) + 1
        self._names = [
            _name(id_, number, is_alone=short[id_[:_SHORT]] == 1)
            for number, id_ in enumerate(ids)
        ]

    def name(self, number: int) -> str:
        """Return the name of a message."""
        return self._names[number]

    def number(self, name: str) -> int | None:
        """Return the number of the message that has a name, or holds a record."""
        wanted = name.removeprefix("#")
        if not wanted:
            return None
        for number, known in enumerate(self._names):
            if known == wanted:
                return number
        fitting = [
            number
            for number, message in enumerate(self._messages)
            if any(record.startswith(wanted) for record in message.records)
        ]
        if len(fitting) > 1:
            raise Ambiguous("record", wanted, [self._names[n] for n in fitting[:5]])
        return fitting[0] if fitting else None


def _name(id_: str, number: int, *, is_alone: bool) -> str:
    name = id_[:_SHORT] if is_alone else id_
    return name if _PLAIN.fullmatch(name) else f"m{number}"


class Way:
    """The messages that are read one behind the other: a branch's, or an agent's."""

    def __init__(
        self,
        messages: Sequence[Message],
        *,
        branch: int = 0,
        is_live: bool = True,
        agent: AgentRun | None = None,
    ) -> None:
        self.messages = messages
        self.branch = branch
        self.is_live = is_live
        self.agent = agent
        self.names = Names(messages)


def way_to(session: Session, name: str, branch: int, agent: str) -> tuple[Way, int]:
    """Return the way on which something is read, and where on it to begin.

    A record that the way asked for does not hold is looked for on all others.
    """
    first = _way(session, branch, agent)
    if not name:
        return first, 0
    turn = _turn(session, branch, name) if not agent else None
    if turn is not None:
        return first, turn
    for way in (first, *(() if agent else _others(session, branch))):
        number = way.names.number(name)
        if number is not None:
            return way, number
    raise NotArchived("record", name)


def _way(session: Session, branch: int, agent: str) -> Way:
    if agent:
        fitting = [run for run in session.all_agents if run.id.startswith(agent)]
        exact = [run for run in fitting if run.id == agent]
        if not fitting:
            raise NotArchived("agent run", agent)
        if len(fitting) > 1 and not exact:
            raise Ambiguous("agent run", agent, [run.id for run in fitting[:5]])
        run = (exact or fitting)[0]
        return Way(run.live.messages, agent=run)
    for one in session.branches:
        if one.number == branch:
            return Way(one.messages, branch=branch, is_live=one.is_live)
    raise NotArchived("branch", str(branch))


def _others(session: Session, branch: int) -> list[Way]:
    ways = [
        Way(one.messages, branch=one.number, is_live=one.is_live)
        for one in session.branches
        if one.number != branch
    ]
    ways += [Way(run.live.messages, agent=run) for run in session.all_agents]
    return ways


def _turn(session: Session, branch: int, name: str) -> int | None:
    if not re.fullmatch(r"t[0-9]{1,6}", name):
        return None
    at = 0
    for one in session.branches:
        if one.number == branch:
            for turn in one.turns:
                if turn.number == int(name[1:]):
                    return at
                at += len(turn.messages)
    raise NotArchived("turn", name)


def plain_id(id_: str) -> str:
    """Return the beginning of a record's id, as rows cite it."""
    name = id_[:_SHORT]
    return name if _PLAIN.fullmatch(name) else "?"


def project_of(archive: Archive, directory: Path) -> str | None:
    """Return the project of a directory: it, or the next above it that is known."""
    known = {listed.project for listed in archive.sessions(empty=True)}
    return next(
        (str(p) for p in (directory, *directory.parents) if str(p) in known), None
    )


def short_session(archive: Archive, listed: Listed) -> str:
    """Return the beginning of a session's id, as much of it as tells it from others."""
    name = listed.id[:_SHORT]
    try:
        archive.listed(name)
    except Ambiguous:
        name = listed.id
    return name
