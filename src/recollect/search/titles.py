"""Titles: texts of sessions that no record holds, searched in memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

from recollect.query.terms import Analyse, Run
from recollect.search.plan import Unit
from recollect.store.search import start_of, stem_of
from recollect.store.words import without_accents

if TYPE_CHECKING:  # protocols take long to make
    from recollect.store.shelf import Placing

__all__ = ["Titles"]

_Forms = dict[int, frozenset[str]]
"""The forms of a word that titles have, by the session's number."""


class Titles:
    """The titles that sessions were given, by their words.

    Of all titles only those are cut into words in which letters of a query stand.
    """

    def __init__(self, places: Placing, analyse: Analyse) -> None:
        self._places = places
        self._analyse = analyse
        self._cut: dict[int, Run] = {}
        self._known: dict[str, _Forms] = {}

    @cached_property
    def _titles(self) -> list[tuple[int, str]]:
        return list(self._places.titles())

    @cached_property
    def _lines(self) -> tuple[str, list[int]]:
        """All titles, small and without accents, a line each; where each one begins."""
        plain = [
            title if title.isascii() else without_accents(title)
            for _, title in self._titles
        ]
        if any("\n" in title for title in plain):
            plain = [title.replace("\n", " ") for title in plain]
        text = "\n".join((*plain, "")).lower()
        lengths = (len(line) + 1 for line in text.split("\n"))
        return text, list(accumulate(lengths, initial=0))

    def _terms(self, at: int) -> Run:
        found = self._cut.get(at)
        if found is None:
            found = self._cut[at] = tuple(self._analyse(self._titles[at][1]))
        return found

    def _near(self, letters: str) -> Iterator[int]:
        """Yield the titles in which letters stand one behind the other."""
        text, begins = self._lines
        place = text.find(letters)
        while place >= 0:
            line = bisect_right(begins, place)
            yield line - 1
            place = text.find(letters, begins[line])

    def _forms(self, term: str) -> _Forms:
        """Return the sessions whose title has some form of a term, and which."""
        stem = stem_of(term)
        found = self._known.get(stem)
        if found is None:
            found = self._known[stem] = {}
            start = start_of(stem)
            for at in self._near(start):
                near = (one for one in self._terms(at) if one.startswith(start))
                if forms := frozenset(one for one in near if stem_of(one) == stem):
                    found[self._titles[at][0]] = forms
        return found

    def runs(self, unit: Unit) -> Iterator[Run]:
        """Yield the forms that titles have of a unit's words."""
        for way in unit.ways if not unit.is_exact else ():
            if len(way) == 1:
                forms = frozenset().union(*self._forms(way[0]).values())
                yield from ((form,) for form in forms)

    def has(self, term: str) -> bool:
        """Whether a title has some form of a term."""
        return bool(self._forms(term))

    def having(self, unit: Unit) -> set[int]:
        """Return the sessions whose title has what a unit looks for."""
        if not unit.ways:
            return {number for number, _ in self._titles}
        return {session for way in unit.ways for session in self._with(way, unit)}

    def _with(self, way: Run, unit: Unit) -> Iterator[int]:
        if len(way) == 1 and not unit.is_exact:
            yield from self._forms(way[0])
            return
        stands = _is_begun if unit.is_begun else _stands
        rarest = max(way, key=len)
        for at in self._near(rarest):
            if stands(way, self._terms(at)):
                yield self._titles[at][0]


def _stands(way: Run, terms: Run) -> bool:
    count = len(way)
    return way[0] in terms and any(
        terms[at : at + count] == way for at in range(len(terms))
    )


def _is_begun(way: Run, terms: Run) -> bool:
    *whole, start = way
    return any(
        terms[at : at + len(whole)] == tuple(whole)
        and terms[at + len(whole)].startswith(start)
        for at in range(len(terms) - len(whole))
    )
