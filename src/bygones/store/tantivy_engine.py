"""Queries of the text index: texts that match, and sessions that have words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cached_property, reduce, wraps
from itertools import islice, repeat
from operator import and_, or_
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import tantivy
from msgspec import Struct

from bygones.errors import IndexDamaged
from bygones.model.query import KINDS_PER_SESSION
from bygones.store.index_seal import mark_damaged
from bygones.store.text_index import TextIndex, translate_engine_error
from bygones.store.tokenizer import correct_term, tokenize
from bygones.store.word_forms import find_word_forms

TantivyQuery = tantivy.Query
"""A query of tantivy, created and combined by `TantivyEngine`."""

_MAX_PREFIX_TERMS = 500
_FORMS_CACHE_SIZE = 4_096
"""Terms whose forms are cached."""
_MAX_SCORED_TERMS = 32
_MAX_MASKED_QUERIES = 24
"""Bits that a score of tantivy has, which is a 32-bit float."""
_BY_SESSION = {"field": "text_key", "interval": KINDS_PER_SESSION, "min_doc_count": 1}


class TextMatch(Struct, frozen=True, gc=False):
    """A text that matches a query: its record, its text key and its score."""

    record: int
    text_key: int
    score: float
    length: int = 0
    """The number of its terms."""


MatchedText = tuple[int, int, int, int]
"""A text that matches some of several queries: its record, its text key, a bit for each
query that it matches, and the number of its terms."""


class WordSessions(NamedTuple):
    """How many sessions have words, and which of them may be the best."""

    by_word: list[int]
    """How many sessions have each word."""
    with_any: int
    with_all: int
    best: list[int]


_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def _reads_index(
    method: Callable[Concatenate[TantivyEngine, _Parameters], _Result],
) -> Callable[Concatenate[TantivyEngine, _Parameters], _Result]:
    """Let a method raise `IndexDamaged` if tantivy fails; the next writer rebuilds."""

    @wraps(method)
    def call(
        self: TantivyEngine, /, *words: _Parameters.args, **more: _Parameters.kwargs
    ) -> _Result:
        try:
            return method(self, *words, **more)
        except BaseException as error:
            translated = translate_engine_error(error, self.folder)
            if isinstance(translated, IndexDamaged):
                mark_damaged(self.folder.parent, translated.detail)
            raise translated from error

    return call


def _mask_queries(queries: Sequence[TantivyQuery]) -> TantivyQuery:
    """Return a query whose score has a bit for each of some queries that match."""
    weighted = [
        tantivy.Query.const_score_query(query, float(1 << bit))
        for bit, query in enumerate(queries)
    ]
    if len(weighted) == 1:
        return weighted[0]
    return tantivy.Query.boolean_query([(tantivy.Occur.Should, q) for q in weighted])


class TantivyEngine:
    """The text index in the state when this was created. It is thread-safe."""

    max_keys = 65_000
    """Text keys that one aggregation returns at most."""

    def __init__(self, text: TextIndex) -> None:
        self.folder = text.folder
        self._schema = text.index.schema
        self._block_schema = text.blocks.index.schema
        self._searcher, self._block_searcher = text.searchers()
        self._forms_cache: dict[str, tuple[str, ...]] = {}
        self._frequency_cache: dict[str, int] = {}
        self._sessions_by_word: dict[tuple[str, ...], int] = {}
        """The sessions that have a word, as a number with a bit for each."""

    def frequency(self, term: str) -> int:
        """Return how many texts contain a term, including some that were deleted."""
        found = self._frequency_cache.get(term)
        if found is None:
            if len(self._frequency_cache) >= _FORMS_CACHE_SIZE:
                self._frequency_cache.clear()
            found = self._frequency_cache[term] = self._count_texts(term)
        return found

    @_reads_index
    def _count_texts(self, term: str) -> int:
        return int(self._searcher.doc_freq("text", term))

    def word_forms(self, term: str) -> tuple[str, ...]:
        """Return the indexed terms that are forms of a word, the term itself first."""
        found = self._forms_cache.get(term)
        if found is None:
            found = find_word_forms(term, self.frequency, self.terms_with_prefix)
            if len(self._forms_cache) >= _FORMS_CACHE_SIZE:
                self._forms_cache.clear()
            self._forms_cache[term] = found
        return found

    def correct_spelling(self, term: str) -> str | None:
        """Return the term that was probably meant by one that doesn't exist."""
        return correct_term(term, self._frequencies, self.terms_with_prefix)

    def _frequencies(self, terms: Iterable[str]) -> dict[str, int]:
        return {term: self._count_texts(term) for term in terms}

    @_reads_index
    def terms_with_prefix(self, prefix: str) -> Sequence[tuple[str, int]]:
        """Return the terms with a prefix, with the number of texts."""
        found = self._searcher.terms_with_prefix("text", prefix)
        return [(term, count) for term, count in found]

    def match_all(self) -> TantivyQuery:
        return tantivy.Query.all_query()

    def match_none(self) -> TantivyQuery:
        return tantivy.Query.empty_query()

    def match_terms(self, terms: Sequence[str]) -> TantivyQuery:
        """Match texts with at least one of the terms."""
        if len(terms) > _MAX_SCORED_TERMS:
            # Without scores: so many terms say little about relevance.
            return tantivy.Query.term_set_query(self._schema, "text", list(terms))
        schema = self._schema
        return self.any_of(
            [tantivy.Query.term_query(schema, "text", term) for term in terms]
        )

    def match_phrase(self, terms: Sequence[str]) -> TantivyQuery:
        """Match texts that contain the terms in a row."""
        if len(terms) == 1:
            return self.match_terms(terms)
        return tantivy.Query.phrase_query(self._schema, "text", list(terms))

    def match_prefix_phrase(self, terms: Sequence[str]) -> TantivyQuery:
        """Match texts that contain the terms in a row, the last one as a prefix."""
        *whole, prefix = terms
        matching = [found for found, _ in self.terms_with_prefix(prefix)]
        if not matching:
            return self.match_none()
        if not whole:
            return self.match_terms(matching)
        return self.any_of(
            [self.match_phrase([*whole, term]) for term in matching[:_MAX_PREFIX_TERMS]]
        )

    def match_prefix_phrase_parts(
        self, terms: Sequence[str]
    ) -> tuple[TantivyQuery, ...]:
        """Return one query for each term with the prefix, if they are few."""
        matching = [term for term, _ in self.terms_with_prefix(terms[-1])]
        if len(terms) > 1 or not 0 < len(matching) <= _MAX_PREFIX_TERMS:
            return (self.match_prefix_phrase(terms),)
        return tuple(self.match_terms([matching_term]) for matching_term in matching)

    def is_prefix_complete(self, terms: Sequence[str]) -> bool:
        """Whether `match_prefix_phrase` covers all terms with the prefix."""
        if len(terms) == 1:
            return True
        return len(self.terms_with_prefix(terms[-1])) <= _MAX_PREFIX_TERMS

    def match_substring(self, substring: str) -> TantivyQuery:
        """Match texts with a term that contains a substring. This is slow."""
        pattern = f".*{substring}.*"
        return tantivy.Query.regex_query(self._schema, "text", pattern)

    def in_sessions(self, sessions: Iterable[int]) -> TantivyQuery:
        numbers = list(sessions)
        if len(numbers) == 1:
            return tantivy.Query.term_query(self._schema, "session", numbers[0])
        return tantivy.Query.term_set_query(self._schema, "session", numbers)

    def in_records(self, records: Sequence[int]) -> TantivyQuery:
        if not records:
            return self.match_none()
        return tantivy.Query.term_set_query(self._schema, "record", list(records))

    def in_kinds(self, session: int, kinds: Iterable[int]) -> TantivyQuery:
        """Match the texts of a session that are of the given kinds."""
        keys = [session * KINDS_PER_SESSION + kind for kind in kinds]
        queries = [self._key_range(key, key) for key in keys]
        return self.any_of(queries) if queries else self.match_none()

    def without_score(self, query: TantivyQuery) -> TantivyQuery:
        """Return a query that matches the same texts without a score."""
        return tantivy.Query.const_score_query(query, 0.0)

    def any_of(self, queries: Sequence[TantivyQuery]) -> TantivyQuery:
        return self._combine(queries, tantivy.Occur.Should)

    def all_of(self, queries: Sequence[TantivyQuery]) -> TantivyQuery:
        return self._combine(queries, tantivy.Occur.Must)

    def none_of(self, query: TantivyQuery) -> TantivyQuery:
        """Match the texts that a query doesn't match."""
        return tantivy.Query.boolean_query(
            [
                (tantivy.Occur.Must, self.match_all()),
                (tantivy.Occur.MustNot, query),
            ]
        )

    def _combine(
        self, queries: Sequence[TantivyQuery], occur: tantivy.Occur
    ) -> TantivyQuery:
        if len(queries) == 1:
            return queries[0]
        return tantivy.Query.boolean_query([(occur, query) for query in queries])

    def count(self, query: TantivyQuery) -> dict[int, int]:
        """Return the number of matches by text key."""
        pending: list[tuple[int, int] | None] = [None]
        counts: dict[int, int] = {}
        while pending:
            key_range = pending.pop()
            result = self._aggregate(query, key_range)
            buckets = result["found"]
            if not buckets["sum_other_doc_count"]:
                counts |= {
                    int(bucket["key"]): bucket["doc_count"]
                    for bucket in buckets["buckets"]
                }
                continue
            # There are more text keys than one aggregation returns.
            low, high = key_range or (0, int(result["last"]["value"]))
            middle = (low + high) // 2
            pending += [(low, middle), (middle + 1, high)]
        return counts

    @_reads_index
    def count_sessions(self, query: TantivyQuery) -> dict[int, int]:
        """Return the number of matches by session; much faster than `count`."""
        step = self.max_keys * KINDS_PER_SESSION
        starts = range(0, self._last_key + 1, step)
        counts: dict[int, int] = {}
        for low in starts:
            part = query
            if len(starts) > 1:
                part = self.all_of([query, self._key_range(low, low + step - 1)])
            result = self._searcher.aggregate(
                part, {"sessions": {"histogram": _BY_SESSION}}
            )
            for bucket in result["sessions"]["buckets"]:
                session = int(bucket["key"]) // KINDS_PER_SESSION
                counts[session] = bucket["doc_count"]
        return counts

    @cached_property
    def _last_key(self) -> int:
        """The highest text key."""
        last = {"last": {"max": {"field": "text_key"}}}
        return int(
            self._searcher.aggregate(self.match_all(), last)["last"]["value"] or 0
        )

    @_reads_index
    def _aggregate(
        self, query: TantivyQuery, key_range: tuple[int, int] | None
    ) -> dict[str, Any]:
        if key_range is not None:
            query = self.all_of([query, self._key_range(*key_range)])
        size = self.max_keys
        terms = {"field": "text_key", "size": size, "segment_size": size}
        result: dict[str, Any] = self._searcher.aggregate(
            query, {"found": {"terms": terms}, "last": {"max": {"field": "text_key"}}}
        )
        return result

    def _key_range(self, low: int, high: int) -> TantivyQuery:
        kind = tantivy.FieldType.Unsigned
        return tantivy.Query.range_query(self._schema, "text_key", kind, low, high)

    @_reads_index
    def search(self, query: TantivyQuery, limit: int) -> tuple[int, list[TextMatch]]:
        """Return the number of matches, and the best ones."""
        result = self._searcher.search(query, limit=limit)
        hits = result.hits
        addresses = [address for _, address in hits]
        records = self._searcher.fast_field_values("record", addresses)
        text_keys = self._searcher.fast_field_values("text_key", addresses)
        lengths = self._searcher.fast_field_values("length", addresses)
        texts = [
            TextMatch(record or 0, text_key or 0, score or 0.0, length or 0)  # type: ignore[arg-type]
            for (score, _), record, text_key, length in zip(
                hits, records, text_keys, lengths, strict=True
            )
        ]
        return int(result.count or 0), texts  # type: ignore[attr-defined]

    def count_many(self, queries: Sequence[TantivyQuery]) -> list[dict[int, int]]:
        return [self.count(query) for query in queries]

    def search_many(
        self, queries: Sequence[TantivyQuery], limit: int
    ) -> list[tuple[int, list[TextMatch]]]:
        return [self.search(query, limit) for query in queries]

    def find_sessions(
        self,
        words: Sequence[Sequence[str]],
        total: int,
        limit: int,
        sessions: Collection[int] | None = None,
    ) -> WordSessions:
        """Count the sessions that have words, and return those that may be the best.

        A word is given as the terms of its forms. The best are chosen by their blocks
        and by single texts, among ``sessions``.
        """
        del total
        keys = list(map(tuple, words))
        known = self._sessions_by_word
        new = [key for key in dict.fromkeys(keys) if key not in known]
        if len(known) + len(new) > _FORMS_CACHE_SIZE:
            known.clear()
            new = list(dict.fromkeys(keys))
        for start in range(0, len(new), _MAX_MASKED_QUERIES):
            some = new[start : start + _MAX_MASKED_QUERIES]
            known |= zip(some, self._find_sessions(some), strict=True)
        by_word = [known[key] for key in keys]
        return WordSessions(
            [one.bit_count() for one in by_word],
            reduce(or_, by_word, 0).bit_count(),
            reduce(and_, by_word, by_word[0] if by_word else 0).bit_count(),
            self._best_sessions(words, limit, sessions),
        )

    @_reads_index
    def _find_sessions(self, words: Sequence[Sequence[str]]) -> list[int]:
        """Return the sessions that have each word, as a number with a bit for each."""
        searcher = self._block_searcher
        masked = _mask_queries([self._match_blocks(terms) for terms in words])
        hits = searcher.search(
            masked, limit=max(searcher.num_docs, 1), count=False
        ).hits
        addresses = [address for _, address in hits]
        found = searcher.fast_field_values("session", addresses)
        sessions = [int(session or 0) for session in found]
        size = max(sessions, default=0) // 8 + 1
        by_mask: dict[int, bytearray] = {}
        for (mask, _), session in zip(hits, sessions, strict=True):
            bits = by_mask.get(mask)
            if bits is None:
                bits = by_mask[mask] = bytearray(size)
            bits[session >> 3] |= 1 << (session & 7)
        numbers = {int(m): int.from_bytes(b, "little") for m, b in by_mask.items()}
        return [
            reduce(or_, (n for mask, n in numbers.items() if mask >> bit & 1), 0)
            for bit in range(len(words))
        ]

    @_reads_index
    def sessions_with(self, terms: Sequence[str]) -> list[int]:
        """Return the sessions that have at least one of the terms, by their blocks."""
        size = max(self._block_searcher.num_docs, 1)
        result = self._block_searcher.aggregate(
            self._match_blocks(terms),
            {"found": {"terms": {"field": "session", "size": size}}},
        )
        return [int(bucket["key"]) for bucket in result["found"]["buckets"]]

    @_reads_index
    def block_terms(self) -> list[str]:
        """Return the terms of all blocks, including some that were deleted."""
        return [term for term, _ in self._block_searcher.terms_with_prefix("text", "")]

    @_reads_index
    def _best_sessions(
        self,
        words: Sequence[Sequence[str]],
        limit: int,
        sessions: Collection[int] | None,
    ) -> list[int]:
        """Return the sessions of the best blocks, and those of the best texts."""
        words = [terms for terms in words if terms]
        if not words:
            return []
        schema, size = self._schema, self._block_searcher.num_docs
        # BM25 has the rarity of a word already; with it twice, sessions that have the
        # rarest word hide those that have all the others.
        blocks = self.any_of(list(map(self._match_blocks, words)))
        found = self._block_searcher.search(
            blocks, limit=limit if sessions is None else max(size, 1), count=False
        )
        addresses = [address for _, address in found.hits]
        numbers = self._block_searcher.fast_field_values("session", addresses)
        best = dict.fromkeys(int(number or 0) for number in numbers)
        if sessions is not None:
            best = dict.fromkeys(one for one in best if one in sessions)
        chosen = dict.fromkeys(islice(best, limit))
        # One form of each word is enough to choose by, and takes half as long.
        texts = self.any_of(
            [tantivy.Query.term_query(schema, "text", terms[0]) for terms in words]
        )
        if sessions is not None:
            texts = self.all_of([texts, self.without_score(self.in_sessions(sessions))])
        hits = self._searcher.search(texts, limit=2 * limit, count=False).hits
        keys = self._searcher.fast_field_values("text_key", [one for _, one in hits])
        chosen |= dict.fromkeys(int(key or 0) // KINDS_PER_SESSION for key in keys)
        return list(chosen)

    def _match_blocks(self, terms: Sequence[str]) -> TantivyQuery:
        schema = self._block_schema
        if len(terms) > _MAX_SCORED_TERMS:
            return tantivy.Query.term_set_query(schema, "text", list(terms))
        queries = [tantivy.Query.term_query(schema, "text", one) for one in terms]
        return tantivy.Query.disjunction_max_query(queries)

    @_reads_index
    def match_texts(
        self,
        queries: Sequence[TantivyQuery],
        sessions: Sequence[int] | None,
        conditions: Sequence[TantivyQuery],
        limit: int,
    ) -> list[MatchedText]:
        """Return texts of sessions, or of all, with the queries that each matches.

        Only texts that match all conditions count. Of more than the limit, those that
        match later queries are returned, of a single query the shortest ones.
        """
        scope = [] if sessions is None else [self.in_sessions(sessions)]
        needed = [self.without_score(one) for one in (*scope, *conditions)]
        if len(queries) == 1:
            return self._shortest(self.all_of([queries[0], *needed]), limit)
        merged: dict[tuple[int, int, int], int] = {}
        for start in range(0, len(queries), _MAX_MASKED_QUERIES):
            masked = _mask_queries(queries[start : start + _MAX_MASKED_QUERIES])
            query = self.all_of([masked, *needed])
            hits = self._searcher.search(query, limit=limit, count=False).hits
            columns = self._columns([address for _, address in hits])
            masks = [int(mask) for mask, _ in hits]
            if len(queries) <= _MAX_MASKED_QUERIES:
                records, keys, lengths = columns
                return list(zip(records, keys, masks, lengths, strict=True))
            for place, mask in zip(zip(*columns, strict=True), masks, strict=True):
                merged[place] = merged.get(place, 0) | mask << start
        return [(record, key, mask, n) for (record, key, n), mask in merged.items()]

    def _columns(self, addresses: list[tantivy.DocAddress]) -> list[list[int]]:
        """Return the records, text keys and lengths of texts."""
        return [
            self._searcher.fast_field_values(name, addresses)  # type: ignore[misc]
            for name in ("record", "text_key", "length")
        ]

    def _shortest(self, query: TantivyQuery, limit: int) -> list[MatchedText]:
        hits = self._searcher.search(
            query,
            limit=limit,
            count=False,
            order_by_field="length",
            order=tantivy.Order.Asc,
        ).hits
        records, keys, lengths = self._columns([address for _, address in hits])
        return list(zip(records, keys, repeat(1), lengths, strict=False))

    @_reads_index
    def best_keys(self, query: TantivyQuery, limit: int) -> tuple[int, dict[int, int]]:
        """Return the number of matches, and counts by text key of the best ones."""
        found = self._searcher.search(query, limit=limit)
        addresses = [address for _, address in found.hits]
        keys = self._searcher.fast_field_values("text_key", addresses)
        return int(found.count or 0), Counter(int(key or 0) for key in keys)  # type: ignore[attr-defined]

    @_reads_index
    def text_checksums(self, records: Sequence[int]) -> dict[tuple[int, int], int]:
        """Return the CRC-32 of the texts of records, by record and text key."""
        query = self.in_records(records)
        limit = max(self._searcher.num_docs, 1)
        hits = self._searcher.search(query, limit=limit, count=False).hits
        addresses = [address for _, address in hits]
        columns = [
            map(int, self._searcher.fast_field_values(name, addresses))  # type: ignore[arg-type]
            for name in ("record", "text_key", "checksum")
        ]
        return {(record, key): crc for record, key, crc in zip(*columns, strict=True)}

    def prefetch(self, terms: Iterable[str], count_only: Iterable[str] = ()) -> None:
        """Do nothing: local lookups are fast."""

    def tokenize(self, text: str) -> list[str]:
        """Return the terms of a text as they are indexed."""
        return tokenize(text)
