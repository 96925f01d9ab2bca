"""Text queries as values, their scores (BM25), and their SQL conditions.

Each database finds matching texts by its own means. The scores of a session's texts are
computed here, the same for all databases and equal to those of the local text index.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

from bygones.team.contract import DatabaseConnection

TermSequence = tuple[str, ...]
_MAX_SCORED_TERMS = 32
"""Single terms of a query above which they are not scored: they mean too little."""
_K1, _B = 1.2, 0.75
_MAX_FREQUENCY = 255
"""Occurrences of a term in a text that count: PostgreSQL stores no more positions."""


class MatchQuery(Struct, frozen=True):
    """Texts that contain one of some phrases; a single term is a phrase too."""

    phrases: tuple[TermSequence, ...]
    word: str | None = None
    """The word of which these are all forms, if a store may have counted it."""

    @property
    def has_terms_only(self) -> bool:
        """Whether every phrase is a single term."""
        return all(len(phrase) == 1 for phrase in self.phrases)


class MatchAllQuery(Struct, frozen=True):
    """All texts."""


class MatchNoneQuery(Struct, frozen=True):
    """No text."""


class SessionsQuery(Struct, frozen=True):
    """The texts of some sessions."""

    numbers: tuple[int, ...]


class RecordsQuery(Struct, frozen=True):
    """The texts of some records, by session and number within the session."""

    pairs: frozenset[tuple[int, int]]


class KindsQuery(Struct, frozen=True):
    """The texts of a session that have some kinds."""

    session: int
    kinds: tuple[int, ...]


class UnscoredQuery(Struct, frozen=True):
    """Matches of a query, without adding to the score."""

    query: TextQuery


class ConstantScoreQuery(Struct, frozen=True):
    """Matches of a query, all with the same score."""

    query: TextQuery
    constant: float = 1.0


class OrQuery(Struct, frozen=True):
    """Matches of at least one query."""

    queries: tuple[TextQuery, ...]


class AndQuery(Struct, frozen=True):
    """Matches of all queries."""

    queries: tuple[TextQuery, ...]


class NotQuery(Struct, frozen=True):
    """Texts that do not match a query."""

    query: TextQuery


TextQuery = (
    MatchQuery
    | MatchAllQuery
    | MatchNoneQuery
    | SessionsQuery
    | RecordsQuery
    | KindsQuery
    | UnscoredQuery
    | ConstantScoreQuery
    | OrQuery
    | AndQuery
    | NotQuery
)


def _subqueries(query: TextQuery) -> tuple[TextQuery, ...]:
    if isinstance(query, OrQuery | AndQuery):
        return query.queries
    return (
        (query.query,)
        if isinstance(query, UnscoredQuery | ConstantScoreQuery | NotQuery)
        else ()
    )


def query_terms(query: TextQuery) -> Iterator[str]:
    """Yield all terms of a query."""
    if isinstance(query, MatchQuery):
        for phrase in query.phrases:
            yield from phrase
    for part in _subqueries(query):
        yield from query_terms(part)


def query_session(query: TextQuery) -> int | None:
    """Return the session that a query is limited to, if it is a single one."""
    if isinstance(query, SessionsQuery):
        return query.numbers[0] if len(query.numbers) == 1 else None
    if isinstance(query, KindsQuery):
        return query.session
    if isinstance(query, UnscoredQuery | ConstantScoreQuery):
        return query_session(query.query)
    if isinstance(query, AndQuery):
        sessions = (query_session(part) for part in query.queries)
        return next((session for session in sessions if session is not None), None)
    if isinstance(query, OrQuery) and query.queries:
        (first, *others) = map(query_session, query.queries)
        return first if all(other == first for other in others) else None
    return None


class TextPosting(Struct, frozen=True):
    """A text of a session, with the positions of some terms."""

    text: int
    record: int
    kind: int
    length: int
    positions: Mapping[str, Sequence[int]]


class SessionPostings(Struct):
    """Texts of a session, with the positions of some terms."""

    text_facts: dict[int, tuple[int, int, int]] = {}
    """Record, kind and length by text."""
    positions: dict[str, dict[int, Sequence[int]]] = {}
    """Positions by term and text."""

    def posting(self, number: int) -> TextPosting:
        own = {
            term: texts[number]
            for term, texts in self.positions.items()
            if number in texts
        }
        return TextPosting(number, *self.text_facts[number], own)


class BM25Scorer:
    """Computes which texts of a session match a query, and how well."""

    def __init__(self, size: int, average: float, frequency: Mapping[str, int]) -> None:
        self._session = 0
        self._average = average or 1.0
        self._idf = {
            term: math.log(1 + (max(size - count, 0) + 0.5) / (count + 0.5))
            for term, count in frequency.items()
        }

    def score_texts(
        self,
        session: int,
        query: TextQuery,
        postings: SessionPostings,
        *,
        include_unmatched: bool,
    ) -> Iterator[tuple[int, float]]:
        """Yield the texts of a session that match a query, with their scores.

        With ``include_unmatched``, texts without any of the terms are checked too.
        """
        self._session = session
        query = self._simplify(query)
        parts = query.queries if isinstance(query, OrQuery) else (query,)
        terms = [
            part.phrases[0][0]
            for part in parts
            if isinstance(part, MatchQuery) and _is_single_term(part)
        ]
        if len(terms) == len(parts):
            yield from self._sum_term_scores(terms, postings).items()
            return
        numbers = (
            postings.text_facts.keys()
            if include_unmatched
            else _texts_with_terms(postings)
        )
        for number in sorted(numbers):
            score = self.score(query, postings.posting(number))
            if score is not None:
                yield number, score

    def _sum_term_scores(
        self, terms: Sequence[str], postings: SessionPostings
    ) -> dict[int, float]:
        """Return the sum of the scores of single terms, by text."""
        flat, slope = _K1 * (1 - _B), _K1 * _B / self._average
        found: dict[int, float] = {}
        for term in terms:
            weight = self._idf[term] * (1 + _K1)
            for number, positions in postings.positions.get(term, {}).items():
                times = min(len(positions), _MAX_FREQUENCY)
                norm = flat + slope * _quantize_length(postings.text_facts[number][2])
                found[number] = found.get(number, 0) + weight * times / (times + norm)
        return found

    def _simplify(self, query: TextQuery) -> TextQuery:
        """Drop conditions that all texts of the session match."""
        if isinstance(query, OrQuery):
            return OrQuery(tuple(map(self._simplify, query.queries)))
        if not isinstance(query, AndQuery):
            return query
        parts = tuple(
            self._simplify(part) for part in query.queries if not self._is_implied(part)
        )
        return parts[0] if len(parts) == 1 else AndQuery(parts)

    def _is_implied(self, query: TextQuery) -> bool:
        inner = query.query if isinstance(query, UnscoredQuery) else None
        return isinstance(inner, SessionsQuery) and self._session in inner.numbers

    def score(self, query: TextQuery, text: TextPosting) -> float | None:
        """Return the score of a text, or ``None`` if it does not match."""
        if isinstance(query, MatchQuery):
            return self._score_match(query, text)
        if isinstance(query, OrQuery | AndQuery):
            scores = [self.score(part, text) for part in query.queries]
            matching = [score for score in scores if score is not None]
            needed = len(scores) if isinstance(query, AndQuery) else 1
            return sum(matching) if len(matching) >= needed else None
        if isinstance(query, UnscoredQuery | ConstantScoreQuery | NotQuery):
            is_found = self.score(query.query, text) is not None
            if is_found is isinstance(query, NotQuery):
                return None
            if isinstance(query, ConstantScoreQuery):
                return query.constant
            return 0.0 if isinstance(query, UnscoredQuery) else 1.0
        return 1.0 if self._matches_facts(query, text) else None

    def _matches_facts(
        self,
        query: MatchAllQuery
        | MatchNoneQuery
        | SessionsQuery
        | RecordsQuery
        | KindsQuery,
        text: TextPosting,
    ) -> bool:
        if isinstance(query, SessionsQuery):
            return self._session in query.numbers
        if isinstance(query, RecordsQuery):
            return (self._session, text.record) in query.pairs
        if isinstance(query, KindsQuery):
            return self._session == query.session and text.kind in query.kinds
        return isinstance(query, MatchAllQuery)

    def _score_match(self, query: MatchQuery, text: TextPosting) -> float | None:
        found = [
            (phrase, count)
            for phrase in query.phrases
            if (count := _count_occurrences(phrase, text))
        ]
        if not found:
            return None
        single = sum(len(phrase) == 1 for phrase in query.phrases)
        total = 0.0
        norm = _K1 * (1 - _B + _B * _quantize_length(text.length) / self._average)
        for phrase, count in found:
            if len(phrase) == 1 and single > _MAX_SCORED_TERMS:
                continue
            times = min(count, _MAX_FREQUENCY)
            weight = sum(self._idf[term] for term in phrase) * (1 + _K1)
            total += weight * times / (times + norm)
        return total + (single > _MAX_SCORED_TERMS)


def _count_occurrences(phrase: TermSequence, text: TextPosting) -> int:
    """Return how often the terms of a phrase follow one another."""
    first = text.positions.get(phrase[0])
    if first is None or len(phrase) == 1:
        return len(first or ())
    later = [frozenset(text.positions.get(term, ())) for term in phrase[1:]]
    return sum(
        all(start + step in positions for step, positions in enumerate(later, 1))
        for start in first
    )


def _is_single_term(query: MatchQuery) -> bool:
    return len(query.phrases) == 1 and len(query.phrases[0]) == 1


def _texts_with_terms(postings: SessionPostings) -> set[int]:
    return {number for texts in postings.positions.values() for number in texts}


@lru_cache(1 << 14)
def _quantize_length(length: int) -> int:
    """Round a length as tantivy does, which stores it in one byte."""
    if length < 40:  # noqa: PLR2004 (shorter lengths are exact)
        return length
    low, step = 40, 2
    while length >= low + 8 * step:
        low, step = low + 8 * step, 2 * step
    return low + (length - low) // step * step


def split_required_match(
    query: TextQuery,
) -> tuple[MatchQuery | None, TextQuery | None]:
    """Split a query into one required match, if it has one, and the rest."""
    if isinstance(query, MatchQuery):
        return query, None
    if isinstance(query, UnscoredQuery | ConstantScoreQuery):
        return split_required_match(query.query)
    if isinstance(query, AndQuery):
        for index, part in enumerate(query.queries):
            match, rest = split_required_match(part)
            if match is not None:
                others = (*query.queries[:index], *query.queries[index + 1 :])
                others += (rest,) if rest is not None else ()
                return match, AndQuery(others) if others else None
    return None, query


def split_sessions(
    query: TextQuery | None,
) -> tuple[tuple[int, ...] | None, TextQuery | None]:
    """Split off the sessions that a query is limited to, if it is.

    Returns these sessions and what else texts must match.
    """
    parts = query.queries if isinstance(query, AndQuery) else (query,)
    sessions: set[int] | None = None
    others: list[TextQuery] = []
    for part in parts:
        inner = part.query if isinstance(part, UnscoredQuery) else part
        if isinstance(inner, SessionsQuery):
            own = set(inner.numbers)
            sessions = own if sessions is None else sessions & own
        elif part is not None:
            others.append(part)
    rest = AndQuery(tuple(others)) if others else None
    return None if sessions is None else tuple(sorted(sessions)), rest


class SqlCondition:
    """Compiles queries to conditions on the rows ``t`` of texts.

    ``match_source`` returns the SQL of a subquery for the texts that match. It is called
    with a function that adds a value and returns its placeholder.
    """

    def __init__(
        self,
        db: DatabaseConnection,
        match_source: Callable[[MatchQuery, Callable[[object], str]], str],
    ) -> None:
        self._db = db
        self._match_source = match_source
        self.values: dict[str, object] = {}

    def match_source(self, query: MatchQuery) -> str:
        """Return the subquery for texts that match."""
        return self._match_source(query, self.bind)

    def compile(self, query: TextQuery) -> str:
        """Return the condition that a text matches a query."""
        if isinstance(query, MatchQuery):
            source = self.match_source(query)
            return f"(t.number, t.text) IN (SELECT number, text FROM {source} AS m)"  # noqa: S608 (constants)
        if isinstance(query, OrQuery | AndQuery):
            operator = " OR " if isinstance(query, OrQuery) else " AND "
            return f"({operator.join(map(self.compile, query.queries))})"
        if isinstance(query, UnscoredQuery | ConstantScoreQuery | NotQuery):
            prefix = "NOT " if isinstance(query, NotQuery) else ""
            return prefix + self.compile(query.query)
        return self._compile_fact(query)

    def _compile_fact(
        self,
        query: MatchAllQuery
        | MatchNoneQuery
        | SessionsQuery
        | RecordsQuery
        | KindsQuery,
    ) -> str:
        if isinstance(query, SessionsQuery):
            name = self._bind_name(list(query.numbers))
            return f"({self._db.in_list('t.number', name)})"
        if isinstance(query, KindsQuery):
            kinds = self._db.in_list("t.kind", self._bind_name(list(query.kinds)))
            return f"(t.number = {self.bind(query.session)} AND {kinds})"
        if isinstance(query, RecordsQuery):
            pairs = self._bind_name(sorted(query.pairs))
            return f"({self._db.pair_in_list('t.number, t.record', pairs)})"
        return "(1 = 1)" if isinstance(query, MatchAllQuery) else "(1 = 0)"

    def bind(self, value: object) -> str:
        """Add a value; return its placeholder."""
        return f"%({self._bind_name(value)})s"

    def _bind_name(self, value: object) -> str:
        key = f"v{len(self.values)}"
        self.values[key] = value
        return key
