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

from bygones.model.query import KIND_TO_PART, KINDS_PER_SESSION, Part

__all__ = [
    "CorpusNorms",
    "PartLengths",
    "SessionScores",
    "TermCounts",
    "idf",
    "recency_bonus",
    "score_sessions",
    "term_contribution",
]

PartLengths = Sequence[int]
"""Of a session: how many records, then how many characters, for each part in order."""
_PART_OFFSETS = {part: 2 * number for number, part in enumerate(Part)}


class ScoringProfile(Struct, frozen=True, kw_only=True):
    """A way to look at sessions."""

    weights: Mapping[Part, float]
    saturation: float
    """Records from which a word's weight grows no more than half as fast."""
    length_norm: float
    """How much long sessions are held to have a word by chance: from 0 to 1."""
    is_by_characters: bool
    """Whether length is counted in characters, else in records."""


PROFILES = (
    ScoringProfile(
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
        length_norm=1.0,
        is_by_characters=False,
    ),
    ScoringProfile(
        weights={
            Part.TITLE: 3,
            Part.PROMPT: 3,
            Part.REPLY: 1,
            Part.THINKING: 0.3,
            Part.OTHER: 0.3,
        },
        saturation=4,
        length_norm=0.75,
        is_by_characters=True,
    ),
)
"""Found by measuring: see benchmarks/bench_relevance.py."""

IDENTIFIER_PROFILE = ScoringProfile(
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
    length_norm=0.3,
    is_by_characters=False,
)
"""For a word that is a tool's name, a path or an identifier: its use counts."""


RECENCY_HALF_LIFE_DAYS = 90
"""A session this much older than the newest has half of what being new gives."""
_RECENCY_WEIGHT = 0.04
"""What being new gives: less than any word does."""
_MAX_CACHED_NORMS = 100_000
"""Buckets of which it is remembered what a record is worth there."""
_BATCH_SIZE = 1_000
"""Sessions that are summed up together."""
MAX_STRICT_WORDS = 3
"""Up to so many words, sessions that have more of them come first, whatever else."""


class TermCounts(Struct, frozen=True):
    """A word of a query: how rare it is, and where it was counted."""

    idf: float
    counts: Mapping[int, int]
    """Records that have it, by their bucket."""
    is_identifier: bool = False
    """Whether it is a tool's name, a path or an identifier."""


class LengthNorms(dict[int, tuple[float, float]]):
    """What one record with a word is worth in each bucket, found when asked for.

    Two views are looked at together: they are asked for by the ten thousand. Not all
    are remembered for good: there are millions in a large archive.
    """

    def __init__(
        self,
        profiles: Sequence[ScoringProfile],
        lengths: Mapping[int, PartLengths],
        sums: PartLengths,
    ) -> None:
        self._lengths = lengths
        one, other = (
            [_length_scale(view, part, sums) for part in KIND_TO_PART]
            for view in profiles
        )
        self._scales = list(zip(one, other, strict=True))

    def __missing__(self, bucket: int) -> tuple[float, float]:
        """Find it once."""
        one, other = self._scales[bucket % KINDS_PER_SESSION]
        amounts = self._lengths.get(bucket // KINDS_PER_SESSION)
        if amounts:
            weight, flat, slope, at = one
            first = weight / (flat + slope * (amounts[at] or 1))
            weight, flat, slope, at = other
            worth = first, weight / (flat + slope * (amounts[at] or 1))
        else:
            worth = one[0], other[0]
        if len(self) >= _MAX_CACHED_NORMS:
            self.clear()
        self[bucket] = worth
        return worth


def _length_scale(
    profile: ScoringProfile, part: Part, sums: PartLengths
) -> tuple[float, float, float, int]:
    """Return a part's weight, and how length takes from it: flat, by length, of what.

    The sums are those of all sessions, and their number.
    """
    at = _PART_OFFSETS[part] + profile.is_by_characters
    average = sums[at] / sums[-1]
    weight = profile.weights.get(part, 0.0)
    if not average:
        return weight, 1.0, 0.0, at
    return weight, 1 - profile.length_norm, profile.length_norm / average, at


class CorpusNorms(Struct, frozen=True):
    """What sessions are measured against: made once for an index."""

    by_profile: LengthNorms
    for_identifiers: LengthNorms

    @classmethod
    def from_lengths(cls, lengths: Mapping[int, PartLengths]) -> CorpusNorms:
        """Return the measures for sessions that say so much."""
        sums = [0] * 2 * len(Part)
        rows = iter(lengths.values())
        while some := list(islice(rows, _BATCH_SIZE)):
            sums = [sum(column) for column in zip(sums, *some, strict=True)]
        sums.append(len(lengths) or 1)
        return cls(
            LengthNorms(PROFILES, lengths, sums),
            LengthNorms((IDENTIFIER_PROFILE, IDENTIFIER_PROFILE), lengths, sums),
        )


def idf(sessions: float, total: int) -> float:
    """Return how telling a word is that stands in so many sessions of all."""
    sessions = min(sessions, total)
    return math.log(1 + (total - sessions + 0.5) / (sessions + 0.5))


class SessionScores(Struct, frozen=True):
    """How well sessions answer, and which of them have each of the words."""

    by_session: dict[int, float]
    sessions_by_term: tuple[frozenset[int], ...]


def score_sessions(
    terms: Sequence[TermCounts], norms: CorpusNorms, verbatim: Collection[int] = ()
) -> SessionScores:
    """Return how well each session answers, the best at most 1 for each view.

    Only sessions that have a word are there. Those that have the ``whole`` query as it
    was typed come before all others.
    """
    weighed = [_weigh(word, norms) for word in terms]
    having = tuple(frozenset(views[0]) for views in weighed)
    sums: list[dict[int, float]] = []
    for number, view in enumerate(PROFILES):
        # Sums of one word need no adding up.
        summed = _saturate(terms[0], weighed[0][number], view) if terms else {}
        for word, views in zip(terms[1:], weighed[1:], strict=True):
            for session, score in _saturate(word, views[number], view).items():
                summed[session] = summed.get(session, 0.0) + score
        sums.append(summed)
    first, second = sums
    one = 1 / (max(first.values(), default=0.0) or 1.0)
    other = 1 / (max(second.values(), default=0.0) or 1.0)
    total = {s: score * one + second[s] * other for s, score in first.items()}
    if 1 < len(terms) <= MAX_STRICT_WORDS:
        # So few words are meant to be there all of them.
        for sessions in having:
            for session in sessions:
                total[session] += len(PROFILES)
    for session in verbatim:
        if session in total:
            total[session] += len(PROFILES) * (1 + MAX_STRICT_WORDS)
    return SessionScores(total, having)


def term_contribution(term: TermCounts, session: int, norms: CorpusNorms) -> float:
    """Return what a word gives to a session in both views, before they are levelled."""
    own = range(
        session * KINDS_PER_SESSION, session * KINDS_PER_SESSION + KINDS_PER_SESSION
    )
    counts = {bucket: term.counts[bucket] for bucket in own if bucket in term.counts}
    views = _weigh(TermCounts(term.idf, counts, term.is_identifier), norms)
    return sum(
        score
        for view, weights in zip(PROFILES, views, strict=True)
        for score in _saturate(term, weights, view).values()
    )


def _saturate(
    term: TermCounts, weights: Mapping[int, float], profile: ScoringProfile
) -> dict[int, float]:
    top, half = term.idf * (profile.saturation + 1), profile.saturation
    return {s: top * weight / (weight + half) for s, weight in weights.items()}


def _weigh(term: TermCounts, corpus: CorpusNorms) -> tuple[dict[int, float], ...]:
    """Return how much of a word each session has, in each view."""
    norms = corpus.for_identifiers if term.is_identifier else corpus.by_profile
    one: dict[int, float] = {}
    other: dict[int, float] = {}
    for bucket, count in term.counts.items():
        first, second = norms[bucket]
        session = bucket // KINDS_PER_SESSION
        if session in one:
            one[session] += count * first
            other[session] += count * second
        else:
            one[session] = count * first
            other[session] = count * second
    return one, other


def recency_bonus(age_days: float) -> float:
    """Return what a session's age adds to its score; mild, and halved by and by."""
    return _RECENCY_WEIGHT * math.pow(0.5, max(age_days, 0.0) / RECENCY_HALF_LIFE_DAYS)
