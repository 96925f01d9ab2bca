"""How well sessions answer a query: a pure function of counts, lengths and times.

Two views of a session are added up. One counts the records that have a word, in all
that was said and done; the other measures them against how much was said, and looks
at prompts, answers and thoughts only. Each view is BM25F: the parts of a session are
weighed before a word's count is saturated, so that a word in many parts is one word.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import islice

from msgspec import Struct

from bygones.model.buckets import KIND_PARTS, KINDS
from bygones.model.query import Part

__all__ = [
    "Amounts",
    "Measures",
    "Scored",
    "Sought",
    "idf",
    "newness",
    "scores",
    "worth",
]

Amounts = Sequence[int]
"""Of a session: how many records, then how many characters, for each part in order."""
_AT = {part: 2 * number for number, part in enumerate(Part)}


class View(Struct, frozen=True, kw_only=True):
    """A way to look at sessions."""

    weights: Mapping[Part, float]
    saturation: float
    """Records from which a word's weight grows no more than half as fast."""
    norm: float
    """How much long sessions are held to have a word by chance: from 0 to 1."""
    by_size: bool
    """Whether length is counted in characters, else in records."""


VIEWS = (
    View(
        weights={
            Part.TITLE: 3,
            Part.PROMPT: 2,
            Part.REPLY: 1,
            Part.THINKING: 0.5,
            Part.OTHER: 0.5,
            Part.TOOL: 0.2,
            Part.RESULT: 0.1,
        },
        saturation=4,
        norm=1.0,
        by_size=False,
    ),
    View(
        weights={
            Part.TITLE: 3,
            Part.PROMPT: 3,
            Part.REPLY: 1,
            Part.THINKING: 0.3,
            Part.OTHER: 0.3,
        },
        saturation=4,
        norm=0.75,
        by_size=True,
    ),
)
"""Found by measuring: see benchmarks/bench_relevance.py."""

NAMES = View(
    weights={
        Part.TITLE: 1,
        Part.TOOL: 2,
        Part.PROMPT: 1,
        Part.REPLY: 1,
        Part.THINKING: 1,
        Part.OTHER: 1,
        Part.RESULT: 0.5,
    },
    saturation=4,
    norm=0.3,
    by_size=False,
)
"""For a word that is a tool's name, a path or an identifier: its use counts."""


HALF_LIFE_DAYS = 90
"""A session this much older than the newest has half of what being new gives."""
_NEW = 0.04
"""What being new gives: less than any word does."""
_REMEMBERED = 100_000
"""Buckets of which it is remembered what a record is worth there."""
_AT_ONCE = 1_000
"""Sessions that are summed up together."""
STRICT_WORDS = 3
"""Up to so many words, sessions that have more of them come first, whatever else."""


class Sought(Struct, frozen=True):
    """A word of a query: how rare it is, and where it was counted."""

    idf: float
    counts: Mapping[int, int]
    """Records that have it, by their bucket."""
    is_name: bool = False
    """Whether it is a tool's name, a path or an identifier."""


class Norms(dict[int, tuple[float, float]]):
    """What one record with a word is worth in each bucket, found when asked for.

    Two views are looked at together: they are asked for by the ten thousand. Not all
    are remembered for good: there are millions in a large archive.
    """

    def __init__(
        self, views: Sequence[View], amounts: Mapping[int, Amounts], sums: Amounts
    ) -> None:
        self._amounts = amounts
        one, other = (
            [_scale(view, part, sums) for part in KIND_PARTS] for view in views
        )
        self._scales = list(zip(one, other, strict=True))

    def __missing__(self, bucket: int) -> tuple[float, float]:
        """Find it once."""
        one, other = self._scales[bucket % KINDS]
        amounts = self._amounts.get(bucket // KINDS)
        if amounts:
            weight, flat, slope, at = one
            first = weight / (flat + slope * (amounts[at] or 1))
            weight, flat, slope, at = other
            worth = first, weight / (flat + slope * (amounts[at] or 1))
        else:
            worth = one[0], other[0]
        if len(self) >= _REMEMBERED:
            self.clear()
        self[bucket] = worth
        return worth


def _scale(view: View, part: Part, sums: Amounts) -> tuple[float, float, float, int]:
    """Return a part's weight, and how length takes from it: flat, by length, of what.

    The sums are those of all sessions, and their number.
    """
    at = _AT[part] + view.by_size
    average = sums[at] / sums[-1]
    weight = view.weights.get(part, 0.0)
    if not average:
        return weight, 1.0, 0.0, at
    return weight, 1 - view.norm, view.norm / average, at


class Measures(Struct, frozen=True):
    """What sessions are measured against: made once for an index."""

    views: Norms
    names: Norms

    @classmethod
    def of(cls, amounts: Mapping[int, Amounts]) -> Measures:
        """Return the measures for sessions that say so much."""
        sums = [0] * 2 * len(Part)
        rows = iter(amounts.values())
        while some := list(islice(rows, _AT_ONCE)):
            sums = [sum(column) for column in zip(sums, *some, strict=True)]
        sums.append(len(amounts) or 1)
        return cls(Norms(VIEWS, amounts, sums), Norms((NAMES, NAMES), amounts, sums))


def idf(sessions: float, of: int) -> float:
    """Return how telling a word is that stands in so many sessions of all."""
    sessions = min(sessions, of)
    return math.log(1 + (of - sessions + 0.5) / (sessions + 0.5))


class Scored(Struct, frozen=True):
    """How well sessions answer, and which of them have each of the words."""

    total: dict[int, float]
    having: tuple[frozenset[int], ...]


def scores(
    words: Sequence[Sought], measures: Measures, whole: Collection[int] = ()
) -> Scored:
    """Return how well each session answers, the best at most 1 for each view.

    Only sessions that have a word are there. Those that have the ``whole`` query as it
    was typed come before all others.
    """
    weighed = [_weighed(word, measures) for word in words]
    having = tuple(frozenset(views[0]) for views in weighed)
    sums: list[dict[int, float]] = []
    for number, view in enumerate(VIEWS):
        # Sums of one word need no adding up.
        summed = _saturated(words[0], weighed[0][number], view) if words else {}
        for word, views in zip(words[1:], weighed[1:], strict=True):
            for session, score in _saturated(word, views[number], view).items():
                summed[session] = summed.get(session, 0.0) + score
        sums.append(summed)
    first, second = sums
    one = 1 / (max(first.values(), default=0.0) or 1.0)
    other = 1 / (max(second.values(), default=0.0) or 1.0)
    total = {s: score * one + second[s] * other for s, score in first.items()}
    if 1 < len(words) <= STRICT_WORDS:
        # So few words are meant to be there all of them.
        for sessions in having:
            for session in sessions:
                total[session] += len(VIEWS)
    for session in whole:
        if session in total:
            total[session] += len(VIEWS) * (1 + STRICT_WORDS)
    return Scored(total, having)


def worth(word: Sought, session: int, measures: Measures) -> float:
    """Return what a word gives to a session in both views, before they are levelled."""
    own = range(session * KINDS, session * KINDS + KINDS)
    counts = {bucket: word.counts[bucket] for bucket in own if bucket in word.counts}
    views = _weighed(Sought(word.idf, counts, word.is_name), measures)
    return sum(
        score
        for view, weights in zip(VIEWS, views, strict=True)
        for score in _saturated(word, weights, view).values()
    )


def _saturated(
    word: Sought, weights: Mapping[int, float], view: View
) -> dict[int, float]:
    top, half = word.idf * (view.saturation + 1), view.saturation
    return {s: top * weight / (weight + half) for s, weight in weights.items()}


def _weighed(word: Sought, measures: Measures) -> tuple[dict[int, float], ...]:
    """Return how much of a word each session has, in each view."""
    norms = measures.names if word.is_name else measures.views
    one: dict[int, float] = {}
    other: dict[int, float] = {}
    for bucket, count in word.counts.items():
        first, second = norms[bucket]
        session = bucket // KINDS
        if session in one:
            one[session] += count * first
            other[session] += count * second
        else:
            one[session] = count * first
            other[session] = count * second
    return one, other


def newness(age_days: float) -> float:
    """Return what a session's age adds to its score; mild, and halved by and by."""
    return _NEW * math.pow(0.5, max(age_days, 0.0) / HALF_LIFE_DAYS)
