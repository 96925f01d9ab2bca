"""Titles: texts of sessions that no record holds, searched in memory."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from recollect.query.terms import Analyse, Run
from recollect.search.plan import Unit
from recollect.store.search import stem_of
from recollect.store.shelf import Placing

__all__ = ["Titles"]


class Titles:
    """The titles that sessions were given, by their words."""

    def __init__(self, places: Placing, analyse: Analyse) -> None:
        self._places = places
        self._analyse = analyse

    @cached_property
    def _terms(self) -> dict[int, Run]:
        titles = self._places.titles()
        return {number: tuple(self._analyse(title)) for number, title in titles}

    @cached_property
    def _by_stem(self) -> dict[str, set[int]]:
        found: dict[str, set[int]] = {}
        for number, terms in self._terms.items():
            for term in terms:
                found.setdefault(stem_of(term), set()).add(number)
        return found

    def runs(self, unit: Unit) -> Iterator[Run]:
        """Yield the forms that titles have of a unit's words."""
        for way in unit.ways if not unit.is_exact else ():
            if len(way) == 1:
                stem = stem_of(way[0])
                for number in self._by_stem.get(stem, ()):
                    terms = self._terms[number]
                    yield from ((term,) for term in terms if stem_of(term) == stem)

    def has(self, term: str) -> bool:
        """Whether a title has some form of a term."""
        return stem_of(term) in self._by_stem

    def having(self, unit: Unit) -> set[int]:
        """Return the sessions whose title has what a unit looks for."""
        if not unit.ways:
            return set(self._terms)
        return {session for way in unit.ways for session in self._with(way, unit)}

    def _with(self, way: Run, unit: Unit) -> Iterator[int]:
        if unit.is_begun:
            for number, terms in self._terms.items():
                if _is_begun(way, terms):
                    yield number
        elif len(way) == 1 and not unit.is_exact:
            yield from self._by_stem.get(stem_of(way[0]), ())
        else:
            for number in self._by_stem.get(stem_of(way[0]), ()):
                if _stands(way, self._terms[number]):
                    yield number


def _stands(way: Run, terms: Run) -> bool:
    count = len(way)
    return any(terms[at : at + count] == way for at in range(len(terms)))


def _is_begun(way: Run, terms: Run) -> bool:
    *whole, start = way
    return any(
        terms[at : at + len(whole)] == tuple(whole)
        and terms[at + len(whole)].startswith(start)
        for at in range(len(terms) - len(whole))
    )
