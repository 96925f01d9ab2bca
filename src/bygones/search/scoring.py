"""Score sessions: a pure function of counts, lengths and times.

A score is a sum of parts, each from 0 to 1, words from 0 to 1.5:

- words: two views of the session as one document, added. One is BM25F, in which prompts
  count more than replies, and calls and results hardly; its parts are weighted before a
  word's count is saturated, so that a word in many parts counts as one word. The other
  is BM25, in which all texts count the same: some sessions are known by what they ran.
  It counts half.
- records: its best records, shorter ones first. A session about something has several;
  each counts less than the one before.
- coverage: how much of the query one record has, by the rarity of the words. It counts
  less than a third.
- messages: how much of a query of several words everything but calls and results has,
  by the rarity of the words, however often. Words that a session has only in what it
  ran often have nothing to do with its topic. It counts less than half, and for a
  quotation, like the words, half of that.
- calls: whether it called the tools, or used the files, that the query names, if it
  names nothing else. Such sessions come before those that only mention them, and their
  best record, a short call, counts again.
- as typed: whether a text has the query, or half of it, word for word. If some session
  has it, the query is a quotation rather than a topic, and the words count half.
"""

from __future__ import annotations

import math
import sys
from _thread import allocate_lock
from array import array
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from functools import cached_property
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from bygones.model.base import SessionId
from bygones.model.query import (
    KIND_TO_PART,
    KINDS_PER_SESSION,
    Part,
)
from bygones.model.summary import Annotations, ScorePart, ScorePartKind, Title
from bygones.query.fields import FIELDS, FieldLevel, SearchableText
from bygones.query.matcher import make_session_text
from bygones.search.title_index import TitleIndex
from bygones.store.annotations import with_annotations
from bygones.store.archive_dir import ArchiveDir
from bygones.store.local_reader import LocalReader
from bygones.store.protocols import SearchFacts, StoreReader
from bygones.store.tantivy_engine import MatchedText, TextMatch

PartLengths = Sequence[int]
"""Of a session: the number of records, then of characters, for each part in order."""
_PART_OFFSETS = {part: 2 * number for number, part in enumerate(Part)}


class ScoringProfile(Struct, frozen=True, kw_only=True):
    """The parameters of a BM25F score, by the parts of a session."""

    weights: Mapping[Part, float]
    saturation: float
    """Weighted count at which a word has half of its largest score (BM25's k1)."""
    length_norm: float
    """How much long sessions are penalized, from 0 to 1 (BM25's b).

    The length of a part is the geometric mean of its numbers of records and characters.
    One number alone misjudges sessions with few long prompts, or with many short ones.
    """


PROFILE = ScoringProfile(
    weights={
        Part.TITLE: 3,
        Part.PROMPT: 3,
        Part.REPLY: 1,
        Part.THINKING: 0.3,
        Part.OTHER: 0.3,
        # They matter only if nothing but calls and results has the words.
        Part.TOOL: 0.002,
        Part.RESULT: 0.001,
    },
    saturation=4,
    length_norm=0.9,
)
"""Measured with benchmarks/bench_relevance.py."""

IDENTIFIER_PROFILE = ScoringProfile(
    weights={
        Part.TITLE: 1,
        Part.TOOL: 3,
        Part.PROMPT: 1,
        Part.REPLY: 1,
        Part.THINKING: 1,
        Part.OTHER: 1,
        Part.RESULT: 0.3,
    },
    saturation=1,
    length_norm=0,
)
"""For tool names, paths and identifiers: calls that use them count most."""

_WHOLE_SATURATION = 4
_WHOLE_LENGTH_NORM = 0.75
"""The parameters of the view in which all texts of a session count the same."""
_WHOLE_WEIGHT = 0.5
_MAX_RECORDS = 6
_RECORD_DECAYS = [0.6**rank for rank in range(_MAX_RECORDS)]
"""What the best records count; each less than the one before it."""
_RECORD_SATURATION = 1.2
_RECORD_LENGTH_NORM = 0.75
_COVERAGE_WEIGHT = 0.3
_MESSAGES_WEIGHT = 0.4
_MESSAGE_KINDS = frozenset(
    kind
    for kind, part in enumerate(KIND_TO_PART)
    if part not in {Part.TOOL, Part.RESULT}
)
"""The kinds of text, as in text keys, that are neither calls nor results."""
_QUOTED_WORD_WEIGHT = 0.5
"""What the score of words counts if some session has the query as it was typed, or made
the calls that it names."""


RECENCY_HALF_LIFE_DAYS = 90
"""A session this much older than the newest one has half of the recency bonus."""
_RECENCY_WEIGHT = 0.04
"""The largest recency bonus: less than any word contributes."""
_MAX_CACHED_NORMS = 100_000
"""Text keys whose norms are cached."""
_BATCH_SIZE = 1_000
"""Sessions that are summed at once."""
_COUNT_TYPE = "H"
"""The type of an array for numbers of texts, of which few are looked at."""
_COUNT_BYTES = array(_COUNT_TYPE).itemsize
MAX_STRICT_WORDS = 2
"""With at most this many words, sessions that have more of them come first."""
_MAX_SCORE = 6
"""More than the highest score of a session, before such bonuses."""


class TermCounts(Struct, frozen=True):
    """A term of a query: how rare it is, and in which texts it appears."""

    idf: float
    counts: Mapping[int, int]
    """The number of records that have it, by text key."""
    is_identifier: bool = False
    """Whether it is a tool name, a path or an identifier."""


class LengthNorms(dict[int, float]):
    """The weights of one record with a word, by text key, computed on demand.

    The cache is bounded: a large archive has millions of keys.
    """

    def __init__(
        self,
        profile: ScoringProfile,
        lengths: Mapping[int, PartLengths],
        sums: PartLengths,
    ) -> None:
        self._lengths = lengths
        self._scales = [_length_scale(profile, part, sums) for part in KIND_TO_PART]

    def __missing__(self, text_key: int) -> float:
        """Compute the weight of a text key."""
        weight, flat, slope, at = self._scales[text_key % KINDS_PER_SESSION]
        lengths = self._lengths.get(text_key // KINDS_PER_SESSION)
        if lengths:
            size = (lengths[at] or 1) * (lengths[at + 1] or 1)
            weight /= flat + slope * math.sqrt(size)
        if len(self) >= _MAX_CACHED_NORMS:
            self.clear()
        self[text_key] = weight
        return weight


def _length_scale(
    profile: ScoringProfile, part: Part, sums: PartLengths
) -> tuple[float, float, float, int]:
    """Return a part's weight, and how to divide it by length: flat, slope, offset.

    ``sums`` are the lengths of all sessions together, and the number of sessions.
    """
    at = _PART_OFFSETS[part]
    average = math.sqrt(sums[at] * sums[at + 1]) / sums[-1]
    weight = profile.weights.get(part, 0.0)
    if not average:
        return weight, 1.0, 0.0, at
    return weight, 1 - profile.length_norm, profile.length_norm / average, at


class WholeNorms(dict[int, float]):
    """The weights of one record with a word, by session, whatever its part."""

    def __init__(self, lengths: Mapping[int, PartLengths], sums: PartLengths) -> None:
        self._lengths = lengths
        average = _whole_size(sums[:-1]) / sums[-1]
        self._slope = _WHOLE_LENGTH_NORM / average if average else 0.0

    def __missing__(self, session: int) -> float:
        """Compute the weight of a session."""
        lengths = self._lengths.get(session)
        weight = 1.0
        if lengths and self._slope:
            size = _whole_size(lengths)
            weight = 1 / (1 - _WHOLE_LENGTH_NORM + self._slope * size)
        if len(self) >= _MAX_CACHED_NORMS:
            self.clear()
        self[session] = weight
        return weight


def _whole_size(lengths: PartLengths) -> float:
    """Return the length of all parts: the mean of records and characters."""
    return math.sqrt((sum(lengths[::2]) or 1) * (sum(lengths[1::2]) or 1))


class CorpusNorms(Struct, frozen=True):
    """The length norms of all sessions of an index."""

    for_words: LengthNorms
    for_identifiers: LengthNorms
    for_whole: WholeNorms

    @classmethod
    def from_lengths(cls, lengths: Mapping[int, PartLengths]) -> CorpusNorms:
        """Return the norms for sessions of these lengths."""
        sums = [0] * 2 * len(Part)
        rows = iter(lengths.values())
        while batch := list(islice(rows, _BATCH_SIZE)):
            sums = [sum(column) for column in zip(sums, *batch, strict=True)]
        sums.append(len(lengths) or 1)
        return cls(
            LengthNorms(PROFILE, lengths, sums),
            LengthNorms(IDENTIFIER_PROFILE, lengths, sums),
            WholeNorms(lengths, sums),
        )


def idf(sessions: float, total: int) -> float:
    """Return the inverse document frequency of a word that is in so many sessions."""
    sessions = min(sessions, total)
    return math.log(1 + (total - sessions + 0.5) / (sessions + 0.5))


class TextProfile(NamedTuple):
    """What two equal texts have in common."""

    kind: int
    length: int
    score: float


class RecordScore(Struct, frozen=True):
    """What the best records of a session add to its score."""

    total: float
    """The sum over its best records, of the best session's."""
    best: float
    """The score of the best record, of the best session's."""
    coverage: float
    """The share of the query that one record has, by the rarity of words."""


ScoredText = tuple[float, int, int, float, int]
"""A text as a record: its score, its kind, the number of its terms, the sum of the
rarities of the terms of the query that it has, and its record."""


class SessionScores(Struct, frozen=True):
    """The scores of sessions, and what each term adds to them."""

    by_session: dict[int, float]
    by_term: tuple[Mapping[int, float], ...]
    """For each term, the sessions that have it, with its share of their words' score."""
    words: dict[int, float] = {}
    """The scores of words alone, by session."""
    messages: Mapping[int, float] = {}
    """The share of the query that the messages of a session have, weighted."""
    records: Mapping[int, RecordScore] = {}
    """The scores of records, by session."""
    verbatim: Collection[int] = frozenset()
    """Sessions that have the query as it was typed."""
    titled: Collection[int] = frozenset()
    """Sessions that have the query as their title."""
    calling: Collection[int] = frozenset()
    """Sessions that called the tools, or used the files, that the query names."""
    texts: Mapping[int, Sequence[ScoredText]] = {}
    """The texts that match, best first, by session."""

    def parts_of(self, session: int) -> Iterator[ScorePart]:
        """Yield the parts of a session's score; their sum is the score."""
        for kind, value in self._values(session).items():
            if value:
                yield ScorePart(kind, value)

    def total(self, session: int) -> float:
        """Return the score of a session."""
        return sum(self._values(session).values())

    def best_texts(self, session: int) -> list[TextProfile]:
        """Return the texts that count for a session, best first."""
        texts = self.texts.get(session, ())[:_MAX_RECORDS]
        return [TextProfile(*text[1:4]) for text in texts]

    def _values(self, session: int) -> dict[ScorePartKind, float]:
        values = {
            ScorePartKind.WORDS: self.words.get(session, 0.0) * self.word_weight,
            ScorePartKind.MESSAGES: self.messages.get(session, 0.0) * self.word_weight,
            ScorePartKind.AS_TYPED: float(session in self.verbatim),
            ScorePartKind.ALL_WORDS: self._strict_bonus(session),
            ScorePartKind.CALLS: float(_MAX_SCORE * (session in self.calling)),
            ScorePartKind.TITLE: float(session in self.titled)
            * _MAX_SCORE
            * (1 + MAX_STRICT_WORDS),
        }
        if record := self.records.get(session):
            values |= {
                ScorePartKind.RECORDS: record.total,
                ScorePartKind.BEST_RECORD: record.best if self.calling else 0.0,
                ScorePartKind.COVERAGE: record.coverage * _COVERAGE_WEIGHT,
            }
        return values

    @property
    def word_weight(self) -> float:
        """What the scores of words count."""
        is_quotation = self.verbatim or self.calling
        return _QUOTED_WORD_WEIGHT if is_quotation else 1.0

    @property
    def is_strict(self) -> bool:
        """Whether there are so few words that all of them are meant to be there."""
        return 1 < len(self.by_term) <= MAX_STRICT_WORDS

    def _strict_bonus(self, session: int) -> float:
        if not self.is_strict:
            return 0.0
        has_term = (session in sessions for sessions in self.by_term)
        return float(_MAX_SCORE * sum(has_term))


def score_words(terms: Sequence[TermCounts], norms: CorpusNorms) -> SessionScores:
    """Return the scores of all sessions that have a term, without their records."""
    views = [_score_term(term, norms) for term in terms]
    part_scale = _scale_of([by_parts for by_parts, _ in views])
    whole_scale = _WHOLE_WEIGHT * _scale_of([by_whole for _, by_whole in views])
    by_term: list[dict[int, float]] = []
    total: dict[int, float] = {}
    for parts, whole in views:
        scores = {
            session: score * part_scale + whole[session] * whole_scale
            for session, score in parts.items()
        }
        by_term.append(scores)
        for session, score in scores.items():
            total[session] = total.get(session, 0.0) + score
    messages = _score_messages(terms)
    by_session = {
        session: score + messages.get(session, 0.0) for session, score in total.items()
    }
    return SessionScores(by_session, tuple(by_term), total, messages)


def _score_messages(terms: Sequence[TermCounts]) -> dict[int, float]:
    """Return how much of a query of several words the messages of sessions have."""
    if len(terms) <= MAX_STRICT_WORDS:
        return {}
    scale = _MESSAGES_WEIGHT / (sum(term.idf for term in terms) or 1.0)
    scores: dict[int, float] = {}
    for term in terms:
        keys = (key for key in term.counts if key % KINDS_PER_SESSION in _MESSAGE_KINDS)
        for session in {key // KINDS_PER_SESSION for key in keys}:
            scores[session] = scores.get(session, 0.0) + term.idf * scale
    return scores


def _scale_of(by_term: Sequence[Mapping[int, float]]) -> float:
    """Return the factor with which the best session has a score of 1."""
    sums: dict[int, float] = {}
    for scores in by_term:
        for session, score in scores.items():
            sums[session] = sums.get(session, 0.0) + score
    return 1 / (max(sums.values(), default=0.0) or 1.0)


def score_sessions(
    terms: Sequence[TermCounts],
    norms: CorpusNorms,
    texts: Iterable[TextMatch] = (),
    verbatim: Collection[int] = (),
) -> SessionScores:
    """Return the scores of all sessions that have a term.

    The score of each of the ``texts`` is the sum of the rarities of the terms that it
    has. Sessions in ``verbatim`` have the query as it was typed.
    """
    found = list(texts)
    by_session = score_texts(
        [(t.record, t.text_key, at, t.length) for at, t in enumerate(found)],
        {at: text.score for at, text in enumerate(found)},
    )
    return add_record_scores(score_words(terms, norms), by_session, verbatim)


def add_record_scores(
    scores: SessionScores,
    texts: Mapping[int, Sequence[ScoredText]],
    verbatim: Collection[int] = (),
    titled: Collection[int] = (),
    *,
    calling: Collection[int] = (),
) -> SessionScores:
    """Return the scores of words with those of records and of the query as typed.

    Sessions in ``titled`` have the query as their title, and come first. Those in
    ``calling`` made calls that the query names.
    """
    detailed = replace(
        scores,
        texts=texts,
        records=_score_records(texts),
        verbatim=verbatim,
        titled=titled,
        calling=calling,
    )
    total = {
        session: score * detailed.word_weight
        for session, score in scores.by_session.items()
    }
    # Only these sessions have other parts.
    others = {*detailed.records, *verbatim, *titled, *calling}
    if detailed.is_strict:
        others.update(*scores.by_term)
    for session in others & total.keys():
        total[session] = detailed.total(session)
    return replace(detailed, by_session=total)


class MatchedTexts(Struct, dict=True):
    """Texts with the terms of a query that each has."""

    texts: Sequence[MatchedText]
    labels: Sequence[str]
    """The terms, in the order of their bits."""
    is_complete: bool = True
    """Whether there are no more texts in these sessions."""

    def count_by_term(self) -> dict[str, dict[int, int]]:
        """Return how many texts have each term, by text key."""
        # The counts of all terms in one number, some bits for each.
        size = _COUNT_BYTES * len(self.labels)
        fields = [1 << 8 * _COUNT_BYTES * bit for bit in range(len(self.labels))]
        one_each = _sum_by_mask(self._masks, fields)
        sums: dict[int, int] = {}
        for _, key, mask, _ in self.texts:
            sums[key] = sums.get(key, 0) + one_each[mask]
        packed = b"".join([one.to_bytes(size, "little") for one in sums.values()])
        counts = array(_COUNT_TYPE, packed)
        if sys.byteorder == "big":
            counts.byteswap()
        by_label = {}
        for bit, label in enumerate(self.labels):
            pairs = zip(sums, counts[bit :: len(self.labels)], strict=True)
            by_label[label] = {key: count for key, count in pairs if count}
        return by_label

    def score(self, idfs: Mapping[str, float]) -> dict[int, list[ScoredText]]:
        """Return the texts of each session, scored by the rarities of their terms."""
        sums = _sum_by_mask(self._masks, [idfs[label] for label in self.labels])
        # Rounded: engines compute with different precision.
        weights = {mask: round(weight, 4) for mask, weight in sums.items()}
        return score_texts(self.texts, weights)

    @cached_property
    def _masks(self) -> set[int]:
        return {mask for _, _, mask, _ in self.texts}


_Number = TypeVar("_Number", int, float)


def _sum_by_mask(masks: Iterable[int], values: Sequence[_Number]) -> dict[int, _Number]:
    """Return the sum of the values whose bits are set, for each mask.

    The sums of eight values are looked up at once: there are many masks.
    """
    tables: list[list[_Number]] = []
    for start in range(0, len(values), 8):
        table: list[_Number] = [values[0] * 0]
        for value in values[start : start + 8]:
            table += [one + value for one in table]
        tables.append(table)
    sums: dict[int, _Number] = {}
    for mask in masks:
        total, rest = values[0] * 0, mask
        for table in tables:
            total += table[rest & 255]
            rest >>= 8
        sums[mask] = total
    return sums


def score_texts(
    texts: Sequence[MatchedText], weights: Mapping[int, float]
) -> dict[int, list[ScoredText]]:
    """Return the texts of each session, best first.

    The weight of a text is divided by its length: shorter ones are better.
    """
    flat, slope = RecordNorm.from_lengths([length for *_, length in texts])
    found: dict[int, list[ScoredText]] = {}
    by_key: dict[int, list[ScoredText]] = {}
    for record, key, mask, length in texts:
        weight = weights[mask]
        kind = key % KINDS_PER_SESSION
        scored = weight / (flat + slope * length), kind, length, weight, record
        own = by_key.get(key)
        if own is None:
            by_key[key] = [scored]
        else:
            own.append(scored)
    for key, own in by_key.items():
        found.setdefault(key // KINDS_PER_SESSION, []).extend(own)
    for own in found.values():
        own.sort(reverse=True)
    return found


class RecordNorm(NamedTuple):
    """By what the score of a record is divided: flat + slope * length."""

    flat: float
    slope: float

    @classmethod
    def from_lengths(cls, lengths: Sequence[int]) -> RecordNorm:
        """Return the norm for records of these lengths."""
        average = sum(lengths) / len(lengths) if lengths else 1
        return cls(
            1 + _RECORD_SATURATION * (1 - _RECORD_LENGTH_NORM),
            _RECORD_SATURATION * _RECORD_LENGTH_NORM / (average or 1),
        )


def _score_records(
    texts: Mapping[int, Sequence[ScoredText]],
) -> dict[int, RecordScore]:
    """Return the scores of the best records of each session."""
    sums: dict[int, float] = {}
    coverage: dict[int, float] = {}
    for session, scored in texts.items():
        sums[session] = sum(
            text[0] * decay for text, decay in zip(scored, _RECORD_DECAYS, strict=False)
        )
        coverage[session] = max([text[3] for text in scored])
    highest = max(sums.values(), default=0.0) or 1.0
    best = max((scored[0][0] for scored in texts.values()), default=0.0) or 1.0
    full = max(coverage.values(), default=0.0) or 1.0
    return {
        session: RecordScore(
            sums[session] / highest,
            scored[0][0] / best,
            round(coverage[session] / full, 4),
        )
        for session, scored in texts.items()
    }


def _score_term(
    term: TermCounts, norms: CorpusNorms
) -> tuple[dict[int, float], dict[int, float]]:
    """Return the scores of a term in each session, by its parts and as a whole."""
    profile = IDENTIFIER_PROFILE if term.is_identifier else PROFILE
    weight_of = norms.for_identifiers if term.is_identifier else norms.for_words
    weights: dict[int, float] = {}
    counts: dict[int, int] = {}
    for text_key, count in term.counts.items():
        session = text_key // KINDS_PER_SESSION
        weights[session] = weights.get(session, 0.0) + count * weight_of[text_key]
        counts[session] = counts.get(session, 0) + count
    by_parts = _saturate(weights, term.idf, profile.saturation)
    if term.is_identifier:
        return by_parts, by_parts
    return by_parts, score_whole(counts, term.idf, norms)


def score_whole(
    counts: Mapping[int, int], rarity: float, norms: CorpusNorms
) -> dict[int, float]:
    """Return the score of a term by the number of records of each session with it."""
    weight_of = norms.for_whole
    weights = {session: count * weight_of[session] for session, count in counts.items()}
    return _saturate(weights, rarity, _WHOLE_SATURATION)


def _saturate(
    weights: Mapping[int, float], rarity: float, saturation: float
) -> dict[int, float]:
    top = rarity * (saturation + 1)
    return {s: top * weight / (weight + saturation) for s, weight in weights.items()}


def recency_bonus(age_days: float) -> float:
    """Return what a session's age adds to its score; it halves with each half-life."""
    return _RECENCY_WEIGHT * math.pow(0.5, max(age_days, 0.0) / RECENCY_HALF_LIFE_DAYS)


T = TypeVar("T")
_DAY_MS = 86_400_000
_GROUP_FIELDS = tuple(
    field
    for field in FIELDS
    if field.level is FieldLevel.SESSION and not field.is_unique
)


class SessionGroup(Struct, frozen=True):
    """Sessions with the same fields, except for their ids and titles."""

    sample: SearchableText
    """The fields of one of them."""
    numbers: array[int]
    ids: list[SessionId]
    titles: list[Title]

    def text_at(self, index: int, annotations: Annotations | None) -> SearchableText:
        """Return the fields of one of them, with its annotations."""
        session = replace(
            self.sample.session, id=self.ids[index], title=self.titles[index]
        )
        known = {session.id: annotations} if annotations else {}
        return make_session_text(with_annotations(session, known))


class SearchStats:
    """What searches need to know of all sessions, as they were when it was made.

    Searches in several threads may use it, each with connections of its own.
    """

    def __init__(self, reader: StoreReader) -> None:
        # The engine first: its numbers are looked up in the index that it belongs to.
        self.engine = reader.engine()
        with reader.read_transaction():
            facts = reader.search_facts
            self.families = facts.families()
            self.ended_ms = facts.end_times()
            self.norms = CorpusNorms.from_lengths(facts.text_lengths())
            self.titles = TitleIndex(facts.given_titles(), self.engine.tokenize)
        newest = max(self.ended_ms.values(), default=0)
        self.recency = {
            session: recency_bonus((newest - ended) / _DAY_MS)
            for session, ended in self.ended_ms.items()
        }
        """What a session's age adds to its score."""
        self._lock = allocate_lock()
        self._loaded: dict[Callable[[SearchFacts], object], object] = {}

    def time_spans(self, facts: SearchFacts) -> Mapping[int, tuple[int, int]]:
        """Return the first and last time of each session's records."""
        return self._load_once(_load_time_spans, facts)

    def tool_names(self, facts: SearchFacts) -> Sequence[str]:
        """Return the tools that were called."""
        return self._load_once(_load_tool_names, facts)

    def session_groups(self, facts: SearchFacts) -> list[SessionGroup]:
        """Return all sessions, grouped by their fields."""
        return self._load_once(_load_session_groups, facts)

    def _load_once(self, load: Callable[[SearchFacts], T], facts: SearchFacts) -> T:
        """Return what only some searches need; it is loaded for the first of them."""
        with self._lock:
            if load not in self._loaded:
                self._loaded[load] = load(facts)
            value: T = self._loaded[load]  # type: ignore[assignment]
            return value


def _load_time_spans(facts: SearchFacts) -> Mapping[int, tuple[int, int]]:
    return facts.time_ranges()


def _load_tool_names(facts: SearchFacts) -> Sequence[str]:
    return facts.tool_names()


def _load_session_groups(facts: SearchFacts) -> list[SessionGroup]:
    groups: dict[tuple[object, ...], SessionGroup] = {}
    for number, summary in facts.numbered_summaries():
        text = make_session_text(summary)
        key = (
            summary.project_keys,
            summary.contained_ids,
            *(tuple(field.values(text)) for field in _GROUP_FIELDS),
        )
        group = groups.get(key)
        if group is None:
            group = groups[key] = SessionGroup(text, array("q"), [], [])
        group.numbers.append(number)
        group.ids.append(summary.id)
        group.titles.append(summary.title)
    return list(groups.values())


class SharedSearchStats:
    """Shares statistics between all searchers of an archive, and renews them.

    It has connections of its own: only a connection that has read something can tell
    whether the database changed since.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = Lock()
        self._reader: LocalReader | None = None
        self._stats: SearchStats | None = None
        self._data_version = 0

    def refresh(self) -> None:
        """Drop the statistics if the archive has changed; they are loaded on demand."""
        with self._lock:
            if self._reader is None:
                return
            if not self._reader.archive_dir.is_newest_index():
                self._release()
            elif self._reader.archive_dir.data_version != self._data_version:
                self._stats = None

    def stats_for(self, reader: StoreReader) -> SearchStats | None:
        """Return the statistics of the index that a reader has open.

        None if there is a newer index: its numbers mean other sessions.
        """
        with self._lock:
            try:
                own = self._reader = self._reader or LocalReader(
                    ArchiveDir(self._folder)
                )
                if self._stats is None:
                    # What is written from here on is noticed by the next refresh.
                    self._data_version = own.archive_dir.data_version
                    self._stats = SearchStats(own)
            except BaseException:
                self._release()
                raise
            is_same = (
                isinstance(reader, LocalReader)
                and reader.archive_dir.index_inode == own.archive_dir.index_inode
            )
            return self._stats if is_same else None

    def _release(self) -> None:
        reader, self._reader, self._stats = self._reader, None, None
        if reader is not None:
            reader.close()

    def close(self) -> None:
        """Release the statistics; running searches keep what they have."""
        with self._lock:
            self._release()
