"""Titles: texts of sessions that no record holds, searched in memory."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from recollect.query.terms import Analyse, Run
from recollect.search.plan import Unit
from recollect.store.search import start_of, stem_of
from recollect.store.shelf import Placing
from recollect.store.words import without_accents

__all__ = ["Titles"]


class Titles:
    """The titles that sessions were given, by their words.

    Of all titles only those are cut into words in which letters of a query stand.
    """

    def __init__(self, places: Placing, analyse: Analyse) -> None:
        self._places = places
        self._analyse = analyse
        self._cut: dict[int, Run] = {}
        self._known: dict[str, frozenset[int]] = {}

    @cached_property
    def _titles(self) -> dict[int, str]:
        return dict(self._places.titles())

    @cached_property
    def _plain(self) -> list[tuple[int, str]]:
        return [
            (n, without_accents(title).lower()) for n, title in self._titles.items()
        ]

    def _terms(self, number: int) -> Run:
        found = self._cut.get(number)
        if found is None:
            found = self._cut[number] = tuple(self._analyse(self._titles[number]))
        return found

    def _near(self, letters: str) -> list[int]:
        """Return the titles in which letters stand one behind the other."""
        return [number for number, title in self._plain if letters in title]

    def _with_forms(self, term: str) -> frozenset[int]:
        """Return the titles that have some form of a term."""
        stem = stem_of(term)
        found = self._known.get(stem)
        if found is None:
            start = start_of(stem)
            near = self._near(start)
            found = frozenset(n for n in near if any(self._forms(n, start, stem)))
            self._known[stem] = found
        return found

    def _forms(self, number: int, start: str, stem: str) -> Iterator[str]:
        for term in self._terms(number):
            if term.startswith(start) and stem_of(term) == stem:
                yield term

    def runs(self, unit: Unit) -> Iterator[Run]:
        """Yield the forms that titles have of a unit's words."""
        for way in unit.ways if not unit.is_exact else ():
            if len(way) == 1:
                stem = stem_of(way[0])
                for number in self._with_forms(way[0]):
                    for form in self._forms(number, start_of(stem), stem):
                        yield (form,)

    def has(self, term: str) -> bool:
        """Whether a title has some form of a term."""
        return bool(self._with_forms(term))

    def having(self, unit: Unit) -> set[int]:
        """Return the sessions whose title has what a unit looks for."""
        if not unit.ways:
            return set(self._titles)
        return {session for way in unit.ways for session in self._with(way, unit)}

    def _with(self, way: Run, unit: Unit) -> Iterator[int]:
        if len(way) == 1 and not unit.is_exact:
            yield from self._with_forms(way[0])
            return
        stands = _is_begun if unit.is_begun else _stands
        for number in self._near(way[0]):
            if stands(way, self._terms(number)):
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
