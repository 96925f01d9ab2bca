"""Which rows a query chooses: facts about sessions become sets of numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property

from bygones.errors import NotSummed
from bygones.model.listing import Listed
from bygones.model.query import (
    And,
    Fact,
    Flag,
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
from bygones.store.shelf import Knowing
from bygones.store.spending import Among, Purse

__all__ = ["Chosen"]

_WORD = re.compile(r"[^\W_]+")


class Chosen:
    """Resolves the fields of a query against the purses and sessions there are."""

    def __init__(
        self, query: Query | None, purses: Iterable[Purse], finding: Knowing
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
        if isinstance(term, Fact) and not _is_of_sessions(term):
            return self._flag(term) or self._purses_with(term)
        sessions = self.sessions(term)
        chosen = (p for p in self._purses if p.session in sessions)
        return Among("purse", frozenset(p.number for p in chosen))

    def _flag(self, term: Fact) -> Among | None:
        if term.field not in {"branch", "is"}:
            return None
        if _flag_of(term) == Flag.AGENT:
            own = frozenset(p.number for p in self._purses if p.agent is not None)
            return Among("purse", own)
        return Among("rewound", frozenset((int(_flag_of(term) != "live"),)))

    def _purses_with(self, term: Fact) -> Among:
        # Whoever limits nothing need not wait for the language.
        from bygones.query.fields import BY_NAME  # noqa: PLC0415
        from bygones.query.match import fits  # noqa: PLC0415

        field = BY_NAME[term.field]
        return Among(
            "purse",
            frozenset(
                purse.number
                for purse in self._purses
                if any(
                    fits(field, term.value, one) for one in _facts(field.name, purse)
                )
            ),
        )

    def sessions(self, term: Fact | Scoped) -> frozenset[int]:
        """Return the sessions that have a field's value."""
        from bygones.query.sessions import fits  # noqa: PLC0415 (see above)

        query = Query(term)
        return frozenset(
            number for number, one in self.listed.items() if fits(query, one, _words)
        )

    def among_sessions(self, term: Fact | Scoped) -> Among:
        """Return the rows of what is known by session only."""
        if not _is_of_sessions(term):
            raise NotSummed(_written(term), "tool")
        return Among("session", self.sessions(term))


def _facts(field: str, purse: Purse) -> tuple[str | None, ...]:
    if field == "entrypoint":
        return (purse.entrypoint,)
    return (purse.model,) if field == "model" else (purse.agent, purse.agent_type)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


_OF_SESSIONS = {"project", "git", "session", "tag"}
_OF_SPENDS = {"model", "agent", "branch", "entrypoint"}
_FLAGS = {Flag.AGENT, Flag.REWOUND}


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
        is_known = term.field in _OF_SPENDS or _is_of_sessions(term)
        if not is_known and not (term.field == "is" and _flag_of(term) in _FLAGS):
            raise NotSummed(_written(term))


def _is_of_sessions(term: Term) -> bool:
    if isinstance(term, And | Or):
        return all(map(_is_of_sessions, term.terms))
    if isinstance(term, Not):
        return _is_of_sessions(term.term)
    if isinstance(term, Fact):
        is_flag = term.field == "is" and _flag_of(term) not in {*_FLAGS, Flag.ERROR}
        return term.field in _OF_SESSIONS or is_flag
    return not isinstance(term, Period)


def _flag_of(term: Fact) -> str:
    return term.value.casefold()


def _written(term: Term) -> str:
    from bygones.query.write import write  # noqa: PLC0415 (only for an error)

    return write(term)
