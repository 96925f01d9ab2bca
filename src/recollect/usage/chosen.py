"""Which rows a query chooses: facts about sessions become sets of numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cached_property

from recollect.errors import NotSummed
from recollect.model.listing import Listed
from recollect.model.query import (
    And,
    Fact,
    Not,
    Or,
    Period,
    Phrase,
    Prefix,
    Query,
    Regex,
    Scoped,
    Term,
    Words,
)
from recollect.store.finding import Finding
from recollect.store.spending import Among, Purse

__all__ = ["Chosen"]

_WORD = re.compile(r"\w+")


class Chosen:
    """Resolves the fields of a query against the purses and sessions there are."""

    def __init__(
        self, query: Query | None, purses: Iterable[Purse], finding: Finding
    ) -> None:
        self.where = query.root if query else None
        self._purses = list(purses)
        self._finding = finding
        _check(self.where)

    @cached_property
    def listed(self) -> dict[int, Listed]:
        """The sessions by their numbers, looked up when they are first needed."""
        return dict(self._finding.numbered())

    @property
    def is_of_sessions(self) -> bool:
        """Whether whole sessions are chosen, not parts of them."""
        return self.where is None or _is_of_sessions(self.where)

    def among(self, term: Fact | Scoped) -> Among:
        """Return the rows of spends that have a field's value."""
        if isinstance(term, Fact) and term.field in {"branch", "is"}:
            return self._flag(term)
        if isinstance(term, Fact) and term.field in {"model", "agent"}:
            fits = _fitting(term)
            chosen = (p for p in self._purses if fits(_facts(term.field, p)))
            return Among("purse", frozenset(p.number for p in chosen))
        sessions = self.sessions(term)
        chosen = (p for p in self._purses if p.session in sessions)
        return Among("purse", frozenset(p.number for p in chosen))

    def _flag(self, term: Fact) -> Among:
        if term.value == "agent":
            own = frozenset(p.number for p in self._purses if p.agent is not None)
            return Among("purse", own)
        return Among("rewound", frozenset((int(term.value != "live"),)))

    def sessions(self, term: Fact | Scoped) -> frozenset[int]:
        """Return the sessions that have a field's value."""
        fits = _fitting(term)
        return frozenset(
            number for number, one in self.listed.items() if fits(_said(term, one))
        )

    def among_sessions(self, term: Fact | Scoped) -> Among:
        """Return the rows of what is known by session only."""
        if not _is_of_sessions(term):
            raise NotSummed(_written(term), "tool")
        return Among("session", self.sessions(term))


def _facts(field: str, purse: Purse) -> tuple[str | None, ...]:
    return (purse.model,) if field == "model" else (purse.agent, purse.agent_type)


def _said(term: Fact | Scoped, one: Listed) -> tuple[str | None, ...]:
    if isinstance(term, Scoped):
        return (one.title.text,)
    return {
        "project": (one.project,),
        "git": one.git_branches,
        "session": (one.id,),
        "tag": one.tags,
    }[term.field]


def _fitting(term: Fact | Scoped) -> Callable[[Iterable[str | None]], bool]:
    # Whoever limits nothing need not wait for the language.
    from recollect.query.fields import BY_NAME  # noqa: PLC0415
    from recollect.query.match import fits, says  # noqa: PLC0415

    if isinstance(term, Scoped):
        inner = term.term
        return lambda texts: any(
            says(inner, text or "", _words) is not False for text in texts
        )
    field, value = BY_NAME[term.field], term.value
    return lambda there: any(fits(field, value, one) for one in there)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


_OF_SESSIONS = {"project", "git", "session", "tag"}
_OF_SPENDS = {"model", "agent", "branch"}
_FLAGS = {"agent", "rewound"}


def _check(term: Term | None) -> None:
    """Refuse what is asked of texts: tokens are known by answer, not by word."""
    if isinstance(term, And | Or):
        for part in term.terms:
            _check(part)
    elif isinstance(term, Not):
        _check(term.term)
    elif isinstance(term, Words | Phrase | Prefix | Regex) or (
        isinstance(term, Scoped) and term.field != "title"
    ):
        raise NotSummed(_written(term))
    elif isinstance(term, Fact):
        is_known = term.field in _OF_SESSIONS | _OF_SPENDS
        if not is_known and not (term.field == "is" and term.value in _FLAGS):
            raise NotSummed(_written(term))


def _is_of_sessions(term: Term) -> bool:
    if isinstance(term, And | Or):
        return all(map(_is_of_sessions, term.terms))
    if isinstance(term, Not):
        return _is_of_sessions(term.term)
    if isinstance(term, Fact):
        return term.field in _OF_SESSIONS
    return not isinstance(term, Period)


def _written(term: Term) -> str:
    from recollect.query.write import write  # noqa: PLC0415 (only for an error)

    return write(term)
