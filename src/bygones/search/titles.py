"""Titles: texts of sessions that no record holds, searched in memory."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate

from msgspec import Struct

from bygones.query.terms import Analyse, Run
from bygones.search.plan import Unit
from bygones.store.search import start_of, stem_of
from bygones.store.words import without_accents

__all__ = ["Titles"]

_CUT = 8_192
"""Titles of which the words are remembered."""
_WORDS = 512
"""Words of which it is remembered which titles have them."""


class _Forms(Struct, frozen=True):
    """The forms of a word that titles have, and the sessions that these are of."""

    forms: frozenset[str]
    sessions: array[int]


class Titles:
    """The titles that sessions were given, by their words.

    Of all titles only those are cut into words in which letters of a query stand.
    Searches of several threads may ask at once.
    """

    def __init__(self, titles: Sequence[tuple[int, str]], analyse: Analyse) -> None:
        self._numbers = array("q", [number for number, _ in titles])
        self._titles = [title for _, title in titles]
        self._analyse = analyse
        self._cut: dict[int, Run] = {}
        self._known: dict[str, _Forms] = {}

    @cached_property
    def _lines(self) -> tuple[str, array[int]]:
        """All titles, small and without accents, a line each; where each one begins."""
        lines = [title.replace("\n", " ").lower() for title in self._titles]
        # Together they take as long as three of them would.
        strange = [at for at, line in enumerate(lines) if not line.isascii()]
        joined = "\n".join([self._titles[at].replace("\n", " ") for at in strange])
        for at, line in zip(strange, without_accents(joined).split("\n"), strict=False):
            lines[at] = line.lower()
        text = "\n".join((*lines, ""))
        lengths = (len(line) + 1 for line in (*lines, ""))
        return text, array("q", accumulate(lengths, initial=0))

    def _terms(self, at: int) -> Run:
        found = self._cut.get(at)
        if found is None:
            if len(self._cut) >= _CUT:
                self._cut.clear()
            found = self._cut[at] = tuple(self._analyse(self._titles[at]))
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
            if len(self._known) >= _WORDS:
                self._known.clear()
            # Whole before others see it: searches of several threads ask.
            found = self._known[stem] = self._formed(stem)
        return found

    def _formed(self, stem: str) -> _Forms:
        start = start_of(stem)
        forms: set[str] = set()
        sessions = array("q")
        for at in self._near(start):
            near = (one for one in self._terms(at) if one.startswith(start))
            own = [one for one in near if stem_of(one) == stem]
            if own:
                forms.update(own)
                sessions.append(self._numbers[at])
        return _Forms(frozenset(forms), sessions)

    def runs(self, unit: Unit) -> Iterator[Run]:
        """Yield the forms that titles have of a unit's words."""
        for way in unit.ways if not unit.is_exact else ():
            if len(way) == 1:
                yield from ((form,) for form in self._forms(way[0]).forms)

    def has(self, term: str) -> bool:
        """Whether a title has some form of a term."""
        return bool(self._forms(term).sessions)

    def having(self, unit: Unit) -> set[int]:
        """Return the sessions whose title has what a unit looks for."""
        if not unit.ways:
            return set(self._numbers)
        return {session for way in unit.ways for session in self._with(way, unit)}

    def _with(self, way: Run, unit: Unit) -> Iterator[int]:
        if len(way) == 1 and not unit.is_exact:
            yield from self._forms(way[0]).sessions
            return
        stands = _is_begun if unit.is_begun else _stands
        rarest = max(way, key=len)
        for at in self._near(rarest):
            if stands(way, self._terms(at)):
                yield self._numbers[at]


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
