"""Score sessions: a pure function of counts, lengths and times.

A score is the sum of two BM25F scores with different profiles. One counts records with
a word in all parts of a session; the other only in prompts, replies and thinking, and
normalises by their length in characters. In BM25F the parts are weighted before a
word's count is saturated, so that a word in many parts counts as one word.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import islice

from msgspec import Struct

from bygones.model.query import KIND_TO_PART, KINDS_PER_SESSION, Part

PartLengths = Sequence[int]
"""Of a session: the number of records, then of characters, for each part in order."""
_PART_OFFSETS = {part: 2 * number for number, part in enumerate(Part)}


class ScoringProfile(Struct, frozen=True, kw_only=True):
    """The parameters of a BM25F score."""

    weights: Mapping[Part, float]
    saturation: float
    """Weighted count at which a word has half of its largest score (BM25's k1)."""
    length_norm: float
    """How much long sessions are penalised, from 0 to 1 (BM25's b)."""
    is_by_characters: bool
    """Whether length is the number of characters, not of records."""


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
"""Tuned by measuring: see benchmarks/bench_relevance.py."""

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
"""For tool names, paths and identifiers: calls that use them count most."""


RECENCY_HALF_LIFE_DAYS = 90
"""A session this much older than the newest one has half of the recency bonus."""
_RECENCY_WEIGHT = 0.04
"""The largest recency bonus: less than any word contributes."""
_MAX_CACHED_NORMS = 100_000
"""Text keys whose norms are cached."""
_BATCH_SIZE = 1_000
"""Sessions that are summed at once."""
MAX_STRICT_WORDS = 3
"""With at most this many words, sessions that have more of them come first."""


class TermCounts(Struct, frozen=True):
    """A term of a query: how rare it is, and in which texts it appears."""

    idf: float
    counts: Mapping[int, int]
    """The number of records that have it, by text key."""
    is_identifier: bool = False
    """Whether it is a tool name, a path or an identifier."""


class LengthNorms(dict[int, tuple[float, float]]):
    """The weights of one record with a word, by text key, computed on demand.

    The weights of both profiles are computed together, because a search needs ten
    thousands of them. The cache is bounded: a large archive has millions of keys.
    """

    def __init__(
        self,
        profiles: Sequence[ScoringProfile],
        lengths: Mapping[int, PartLengths],
        sums: PartLengths,
    ) -> None:
        self._lengths = lengths
        first, second = (
            [_length_scale(profile, part, sums) for part in KIND_TO_PART]
            for profile in profiles
        )
        self._scales = list(zip(first, second, strict=True))

    def __missing__(self, text_key: int) -> tuple[float, float]:
        """Compute the weights of a text key."""
        first, second = self._scales[text_key % KINDS_PER_SESSION]
        lengths = self._lengths.get(text_key // KINDS_PER_SESSION)
        if lengths:
            weight, flat, slope, at = first
            first_weight = weight / (flat + slope * (lengths[at] or 1))
            weight, flat, slope, at = second
            weights = first_weight, weight / (flat + slope * (lengths[at] or 1))
        else:
            weights = first[0], second[0]
        if len(self) >= _MAX_CACHED_NORMS:
            self.clear()
        self[text_key] = weights
        return weights


def _length_scale(
    profile: ScoringProfile, part: Part, sums: PartLengths
) -> tuple[float, float, float, int]:
    """Return a part's weight, and how to divide it by length: flat, slope, offset.

    ``sums`` are the lengths of all sessions together, and the number of sessions.
    """
    at = _PART_OFFSETS[part] + profile.is_by_characters
    average = sums[at] / sums[-1]
    weight = profile.weights.get(part, 0.0)
    if not average:
        return weight, 1.0, 0.0, at
    return weight, 1 - profile.length_norm, profile.length_norm / average, at


class CorpusNorms(Struct, frozen=True):
    """The length norms of all sessions of an index."""

    by_profile: LengthNorms
    for_identifiers: LengthNorms

    @classmethod
    def from_lengths(cls, lengths: Mapping[int, PartLengths]) -> CorpusNorms:
        """Return the norms for sessions of these lengths."""
        sums = [0] * 2 * len(Part)
        rows = iter(lengths.values())
        while batch := list(islice(rows, _BATCH_SIZE)):
            sums = [sum(column) for column in zip(sums, *batch, strict=True)]
        sums.append(len(lengths) or 1)
        return cls(
            LengthNorms(PROFILES, lengths, sums),
            LengthNorms((IDENTIFIER_PROFILE, IDENTIFIER_PROFILE), lengths, sums),
        )


def idf(sessions: float, total: int) -> float:
    """Return the inverse document frequency of a word that is in so many sessions."""
    sessions = min(sessions, total)
    return math.log(1 + (total - sessions + 0.5) / (sessions + 0.5))


class SessionScores(Struct, frozen=True):
    """The scores of sessions, and the sessions that have each term."""

    by_session: dict[int, float]
    sessions_by_term: tuple[frozenset[int], ...]


def score_sessions(
    terms: Sequence[TermCounts], norms: CorpusNorms, verbatim: Collection[int] = ()
) -> SessionScores:
    """Return the scores of all sessions that have a term.

    The scores of each profile are scaled so that the best is 1. Sessions that have the
    query ``verbatim`` come before all others.
    """
    weights = [_weigh(term, norms) for term in terms]
    sessions_by_term = tuple(frozenset(by_profile[0]) for by_profile in weights)
    sums: list[dict[int, float]] = []
    for number, profile in enumerate(PROFILES):
        # The first term needs no additions.
        scores = _saturate(terms[0], weights[0][number], profile) if terms else {}
        for term, by_profile in zip(terms[1:], weights[1:], strict=True):
            for session, score in _saturate(term, by_profile[number], profile).items():
                scores[session] = scores.get(session, 0.0) + score
        sums.append(scores)
    first, second = sums
    first_scale = 1 / (max(first.values(), default=0.0) or 1.0)
    second_scale = 1 / (max(second.values(), default=0.0) or 1.0)
    total = {
        session: score * first_scale + second[session] * second_scale
        for session, score in first.items()
    }
    if 1 < len(terms) <= MAX_STRICT_WORDS:
        # Of so few words, all are meant to be there.
        for sessions in sessions_by_term:
            for session in sessions:
                total[session] += len(PROFILES)
    for session in verbatim:
        if session in total:
            total[session] += len(PROFILES) * (1 + MAX_STRICT_WORDS)
    return SessionScores(total, sessions_by_term)


def term_contribution(term: TermCounts, session: int, norms: CorpusNorms) -> float:
    """Return what a term adds to a session's score, before profiles are scaled."""
    first_key = session * KINDS_PER_SESSION
    keys = range(first_key, first_key + KINDS_PER_SESSION)
    counts = {key: term.counts[key] for key in keys if key in term.counts}
    by_profile = _weigh(TermCounts(term.idf, counts, term.is_identifier), norms)
    return sum(
        score
        for profile, weights in zip(PROFILES, by_profile, strict=True)
        for score in _saturate(term, weights, profile).values()
    )


def _saturate(
    term: TermCounts, weights: Mapping[int, float], profile: ScoringProfile
) -> dict[int, float]:
    top, half = term.idf * (profile.saturation + 1), profile.saturation
    return {s: top * weight / (weight + half) for s, weight in weights.items()}


def _weigh(term: TermCounts, corpus: CorpusNorms) -> tuple[dict[int, float], ...]:
    """Return the weighted count of a term in each session, for each profile."""
    norms = corpus.for_identifiers if term.is_identifier else corpus.by_profile
    first: dict[int, float] = {}
    second: dict[int, float] = {}
    for text_key, count in term.counts.items():
        first_weight, second_weight = norms[text_key]
        session = text_key // KINDS_PER_SESSION
        if session in first:
            first[session] += count * first_weight
            second[session] += count * second_weight
        else:
            first[session] = count * first_weight
            second[session] = count * second_weight
    return first, second


def recency_bonus(age_days: float) -> float:
    """Return what a session's age adds to its score; it halves with each half-life."""
    return _RECENCY_WEIGHT * math.pow(0.5, max(age_days, 0.0) / RECENCY_HALF_LIFE_DAYS)
