"""Says whether a session as a whole is what a query asks for."""

from __future__ import annotations

from bygones.model.listing import Listed
from bygones.model.query import (
    And,
    Fact,
    Flag,
    Not,
    Or,
    Part,
    Period,
    Query,
    Scoped,
    Term,
)
from bygones.query.match import Analyse, Subject, matches

__all__ = ["asks_for_sessions", "fits"]

_FIELDS = frozenset(
    {"project", "model", "git", "entrypoint", "session", "tag", "title"}
)
_OF_TEXTS = frozenset({Flag.ERROR, Flag.AGENT, Flag.REWOUND})


def asks_for_sessions(term: Term | None) -> bool:
    """Whether a query can be answered from what lists show, without any text."""
    match term:
        case None | Period():
            return True
        case Not(term=inner):
            return asks_for_sessions(inner)
        case And(terms=terms) | Or(terms=terms):
            return all(map(asks_for_sessions, terms))
        case Scoped() | Fact():
            return _is_of_sessions(term)
        case _:
            return False


def _is_of_sessions(term: Scoped | Fact) -> bool:
    if isinstance(term, Fact) and term.field == "is":
        return term.value.casefold() not in _OF_TEXTS
    return term.field in _FIELDS


def fits(query: Query, listed: Listed, analyse: Analyse) -> bool:
    """Whether a session has all that a query asks for.

    A time is that of anything in it: it fits if the session lasted into it.
    """
    return query.root is None or _holds(query.root, listed, analyse)


def _holds(term: Term, listed: Listed, analyse: Analyse) -> bool:
    match term:
        case Not(term=inner):
            return not _holds(inner, listed, analyse)
        case And(terms=terms):
            return all(_holds(part, listed, analyse) for part in terms)
        case Or(terms=terms):
            return any(_holds(part, listed, analyse) for part in terms)
        case Period():
            return _lasts_into(term, listed)
        case _:
            return matches(Query(term), _subject(listed), analyse)


def _lasts_into(period: Period, listed: Listed) -> bool:
    first = listed.started or listed.ended
    last = listed.ended or listed.started
    return (
        first is not None
        and last is not None
        and (period.start is None or period.start <= last)
        and (period.end is None or first < period.end)
    )


def _subject(listed: Listed) -> Subject:
    return Subject(
        session=listed.id,
        project=listed.project,
        title=listed.title.text,
        models=listed.models,
        git_branches=listed.git_branches,
        entrypoints=listed.entrypoints,
        tags=listed.tags,
        started=listed.started,
        flags=frozenset(listed.flags),
        part=Part.TITLE,
        text=listed.title.text,
    )
