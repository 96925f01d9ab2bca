"""Questions about texts as values, and how well a text answers one.

An engine finds texts by its own means; which of a session's texts fit best is worked
out here, for all engines alike, and as the engine of a folder does it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

__all__ = [
    "All",
    "Any",
    "Every",
    "Kinds",
    "Level",
    "Match",
    "Nothing",
    "Posted",
    "Posting",
    "Question",
    "Records",
    "Run",
    "Scorer",
    "Sessions",
    "Unscored",
    "Without",
    "session_in",
    "terms_in",
]

Run = tuple[str, ...]
_SCORED = 32
"""Single terms of a match above which they say too little to be scored."""
_K1, _B = 1.2, 0.75


class Match(Struct, frozen=True):
    """Texts that have one of some runs of terms; a term alone is a run."""

    runs: tuple[Run, ...]


class Every(Struct, frozen=True):
    """All texts."""


class Nothing(Struct, frozen=True):
    """No text."""


class Sessions(Struct, frozen=True):
    """The texts of some sessions."""

    numbers: tuple[int, ...]


class Records(Struct, frozen=True):
    """The texts of some records, by session and number within."""

    pairs: frozenset[tuple[int, int]]


class Kinds(Struct, frozen=True):
    """The texts of a session that are of some kinds."""

    session: int
    kinds: tuple[int, ...]


class Unscored(Struct, frozen=True):
    """What a question finds, without adding to a score."""

    asked: Question


class Level(Struct, frozen=True):
    """What a question finds, all of it equally good."""

    asked: Question


class Any(Struct, frozen=True):
    """What one question at least finds."""

    asked: tuple[Question, ...]


class All(Struct, frozen=True):
    """What all questions find."""

    asked: tuple[Question, ...]


class Without(Struct, frozen=True):
    """What a question does not find."""

    asked: Question


Question = (
    Match
    | Every
    | Nothing
    | Sessions
    | Records
    | Kinds
    | Unscored
    | Level
    | Any
    | All
    | Without
)


def _parts(asked: Question) -> tuple[Question, ...]:
    if isinstance(asked, Any | All):
        return asked.asked
    return (asked.asked,) if isinstance(asked, Unscored | Level | Without) else ()


def terms_in(asked: Question) -> Iterator[str]:
    """Yield all terms that a question names."""
    if isinstance(asked, Match):
        for run in asked.runs:
            yield from run
    for part in _parts(asked):
        yield from terms_in(part)


def session_in(asked: Question) -> int | None:
    """Return the one session whose texts are asked for, if it is one."""
    if isinstance(asked, Sessions):
        return asked.numbers[0] if len(asked.numbers) == 1 else None
    if isinstance(asked, Kinds):
        return asked.session
    if isinstance(asked, Unscored | Level):
        return session_in(asked.asked)
    if isinstance(asked, All):
        found = (session_in(part) for part in asked.asked)
        return next((one for one in found if one is not None), None)
    if isinstance(asked, Any) and asked.asked:
        (first, *others) = map(session_in, asked.asked)
        return first if all(one == first for one in others) else None
    return None


class Posting(Struct, frozen=True):
    """A text of a session: where it stands, how long it is, and its terms asked for."""

    text: int
    record: int
    kind: int
    length: int
    places: Mapping[str, Sequence[int]]
    """Where each term stands in it."""


class Posted(Struct):
    """What is known of a session's texts, as far as it was asked for."""

    facts: dict[int, tuple[int, int, int]] = {}
    """The record, the kind and the length of each text."""
    places: dict[str, dict[int, Sequence[int]]] = {}
    """Where terms stand in which texts."""

    def text(self, number: int) -> Posting:
        """Return a text by its number."""
        own = {
            term: texts[number]
            for term, texts in self.places.items()
            if number in texts
        }
        return Posting(number, *self.facts[number], own)


class Scorer:
    """Says which texts of a session answer a question, and how well."""

    def __init__(self, size: int, average: float, frequency: Mapping[str, int]) -> None:
        self._session = 0
        self._average = average or 1.0
        self._idf = {
            term: math.log(1 + (max(size - count, 0) + 0.5) / (count + 0.5))
            for term, count in frequency.items()
        }

    def scores(
        self, session: int, asked: Question, posted: Posted, *, everything: bool
    ) -> Iterator[tuple[int, float]]:
        """Yield the texts of a session that answer a question, and how well.

        With ``everything`` a text may answer that has none of the terms. One session
        after the other is asked for.
        """
        self._session = session
        asked = self._plain(asked)
        ways = asked.asked if isinstance(asked, Any) else (asked,)
        terms = [
            one.runs[0][0] for one in ways if isinstance(one, Match) and _is_term(one)
        ]
        if len(terms) == len(ways):
            yield from self._sums(terms, posted).items()
            return
        numbers = posted.facts.keys() if everything else _having(posted)
        for number in sorted(numbers):
            score = self.score(asked, posted.text(number))
            if score is not None:
                yield number, score

    def _sums(self, terms: Sequence[str], posted: Posted) -> dict[int, float]:
        """Return the scores of texts that have one of some terms, added up."""
        flat, slope = _K1 * (1 - _B), _K1 * _B / self._average
        found: dict[int, float] = {}
        for term in terms:
            weight = self._idf[term] * (1 + _K1)
            for number, places in posted.places.get(term, {}).items():
                times = len(places)
                norm = flat + slope * _rounded(posted.facts[number][2])
                found[number] = found.get(number, 0) + weight * times / (times + norm)
        return found

    def _plain(self, asked: Question) -> Question:
        """Return a question without what all texts of the session fit anyway."""
        if isinstance(asked, Any):
            return Any(tuple(map(self._plain, asked.asked)))
        if not isinstance(asked, All):
            return asked
        parts = tuple(
            self._plain(part) for part in asked.asked if not self._is_given(part)
        )
        return parts[0] if len(parts) == 1 else All(parts)

    def _is_given(self, asked: Question) -> bool:
        inner = asked.asked if isinstance(asked, Unscored) else None
        return isinstance(inner, Sessions) and self._session in inner.numbers

    def score(self, asked: Question, text: Posting) -> float | None:
        """Return how well a text fits; ``None`` if it does not."""
        if isinstance(asked, Match):
            return self._match(asked, text)
        if isinstance(asked, Any | All):
            found = [self.score(part, text) for part in asked.asked]
            fits = [one for one in found if one is not None]
            needed = len(found) if isinstance(asked, All) else 1
            return sum(fits) if len(fits) >= needed else None
        if isinstance(asked, Unscored | Level | Without):
            is_found = self.score(asked.asked, text) is not None
            if is_found is isinstance(asked, Without):
                return None
            return 0.0 if isinstance(asked, Unscored) else 1.0
        return 1.0 if self._holds(asked, text) else None

    def _holds(
        self, asked: Every | Nothing | Sessions | Records | Kinds, text: Posting
    ) -> bool:
        if isinstance(asked, Sessions):
            return self._session in asked.numbers
        if isinstance(asked, Records):
            return (self._session, text.record) in asked.pairs
        if isinstance(asked, Kinds):
            return self._session == asked.session and text.kind in asked.kinds
        return isinstance(asked, Every)

    def _match(self, asked: Match, text: Posting) -> float | None:
        found = [(run, times) for run in asked.runs if (times := _times(run, text))]
        if not found:
            return None
        single = sum(len(run) == 1 for run in asked.runs)
        total = 0.0
        norm = _K1 * (1 - _B + _B * _rounded(text.length) / self._average)
        for run, times in found:
            if len(run) == 1 and single > _SCORED:
                continue
            weight = sum(self._idf[term] for term in run) * (1 + _K1)
            total += weight * times / (times + norm)
        return total + (single > _SCORED)


def _times(run: Run, text: Posting) -> int:
    """Return how often terms stand one right behind the other."""
    first = text.places.get(run[0])
    if first is None or len(run) == 1:
        return len(first or ())
    later = [frozenset(text.places.get(term, ())) for term in run[1:]]
    return sum(
        all(at + step in places for step, places in enumerate(later, 1)) for at in first
    )


def _is_term(asked: Match) -> bool:
    return len(asked.runs) == 1 and len(asked.runs[0]) == 1


def _having(posted: Posted) -> set[int]:
    return {number for texts in posted.places.values() for number in texts}


@lru_cache(1 << 14)
def _rounded(length: int) -> int:
    """Return a length as coarsely as the engine of a folder keeps it."""
    if length < 40:  # noqa: PLR2004 (as far as a byte counts one by one)
        return length
    low, step = 40, 2
    while length >= low + 8 * step:
        low, step = low + 8 * step, 2 * step
    return low + (length - low) // step * step
