"""The search engine of a team store, limited to a scope.

It has the interface of the local text index. Queries are values; a database counts
their matches, and their scores are computed here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from heapq import nlargest, nsmallest
from sys import maxsize
from typing import Protocol, runtime_checkable

from msgspec import Struct

from bygones.model.query import KINDS_PER_SESSION
from bygones.store.tantivy_engine import MatchedText, TextMatch, WordSessions
from bygones.store.tokenizer import correct_term, tokenize
from bygones.store.word_forms import shared_stem, stem_terms
from bygones.team.contract import pack_key, unpack_key
from bygones.team.text_query import (
    AndQuery,
    BM25Scorer,
    ConstantScoreQuery,
    KindsQuery,
    MatchAllQuery,
    MatchNoneQuery,
    MatchQuery,
    NotQuery,
    OrQuery,
    RecordsQuery,
    SessionPostings,
    SessionsQuery,
    TextQuery,
    UnscoredQuery,
    query_session,
    query_terms,
)

_MAX_PREFIX_EXPANSIONS = 500
_MAX_OPENED_SESSIONS = 50
"""Sessions whose texts are loaded to find the best ones."""
_MAX_MASK_BITS = 62
"""Queries whose matches the database can return as bits."""
_MAX_COUNTED_TEXTS = 50_000
"""Texts with some terms above which only those of the newest sessions are sampled."""
_SAMPLED_SESSIONS = 1_000
_MAX_COUNTED_WORDS = 32
"""Words up to which each is counted by itself."""
TEXT_SATURATION = 4
"""Texts of a session that have a word at which it counts half, to find the best."""
_MAX_CACHED_TERMS = 50_000
"""Terms whose number of texts is cached."""
_MAX_CACHED_COUNTS = 100_000
"""Counts by session and kind that are cached; each takes about a hundred bytes."""


_NO_STEM = "="
"""With what a word starts that is a term without other forms: stems have only letters."""


def words_of(terms: Sequence[str]) -> list[str]:
    """Return the word that each term is a form of, as stores count them by session.

    It is the stem that the forms share; a term without other forms is marked.
    """
    stems = stem_terms(terms)
    return [
        stem or f"{_NO_STEM}{term}" for term, stem in zip(terms, stems, strict=True)
    ]


class TermFilter(Struct, frozen=True, kw_only=True):
    """Which terms to look up: all that match one of the conditions."""

    exact: Sequence[str] = ()
    stems: Sequence[str] = ()
    prefix: str | None = None
    substring: str | None = None


@runtime_checkable
class WordIndex(Protocol):
    """A backend that knows in which texts of a session a word is.

    PostgreSQL does: reading the positions of all words in many sessions takes longer
    than the whole search otherwise.
    """

    def find_sessions(
        self,
        words: Sequence[str],
        total: int,
        limit: int,
        sessions: Sequence[int] | None,
    ) -> WordSessions:
        """Count the sessions that have words, and return the best by their texts."""
        ...

    def match_words(
        self, words: Sequence[str], sessions: Sequence[int] | None, limit: int
    ) -> list[tuple[int, int, int, int, int]]:
        """Return session, record, kind, bits of words, and length of texts.

        Those with later words come first, of equal ones the shortest.
        """
        ...


@runtime_checkable
class TermIndex(Protocol):
    """A backend that finds texts by their terms in one statement, as ClickHouse does."""

    def match_term_texts(
        self, masks: Mapping[str, int], sessions: Sequence[int] | None, limit: int
    ) -> list[tuple[int, int, int, int, int]]:
        """Return session, record, kind, bits of terms, and length of texts.

        ``masks`` has the bits of each term. Texts with later bits come first, of equal
        ones the shortest.
        """
        ...


class TextSearchBackend(Protocol):
    """What a database answers about texts and terms, limited to one scope."""

    def refresh_scope(self) -> object:
        """Look up whose rows are visible; return a value that changes when these do."""
        ...

    def totals(self) -> tuple[int, int]:
        """Return the number of texts, and of terms in all of them."""
        ...

    def terms(self, wanted: TermFilter) -> list[tuple[str, int]]:
        """Return terms in their order, each with the number of texts that have it."""
        ...

    def count_texts(
        self, queries: Sequence[TextQuery]
    ) -> list[tuple[int, int, int, int]]:
        """Return query index, session, kind and number of matching texts."""
        ...

    def load_postings(
        self,
        sessions: Sequence[int],
        terms: Mapping[str, int],
        *,
        include_unmatched: bool,
    ) -> dict[int, SessionPostings]:
        """Return the positions of terms in the texts of sessions.

        ``terms`` says how many texts have each, in all sessions. With
        ``include_unmatched``, texts without any of the terms are included.
        """
        ...


class TeamEngine:
    """The :class:`~bygones.store.protocols.SearchEngine` of a team store."""

    def __init__(
        self,
        backend: TextSearchBackend,
        newest_sessions: Callable[[int], Sequence[int]],
    ) -> None:
        self._backend = backend
        self._newest_sessions = newest_sessions
        self._term_counts: dict[str, int] = {}
        self._forms_by_stem: dict[str, list[str]] = {}
        self._prefix_terms: dict[str, list[tuple[str, int]]] = {}
        self._counts_cache: dict[TextQuery, dict[int, int]] = {}
        """Counts of earlier queries: people refine a search step by step."""
        self._postings_cache: dict[int, SessionPostings] = {}
        """Postings of the terms in ``_postings_key``."""
        self._postings_key = (frozenset[str](), False)

    @cached_property
    def _totals(self) -> tuple[int, int]:
        return self._backend.totals()

    def prefetch(self, terms: Iterable[str], count_only: Iterable[str] = ()) -> None:
        """Look up terms with all their forms, and the counts of others, at once."""
        self._postings_cache.clear()
        if sum(map(len, self._counts_cache.values())) > _MAX_CACHED_COUNTS:
            self._counts_cache.clear()
        if len(self._term_counts) > _MAX_CACHED_TERMS:
            self._term_counts.clear()
            self._forms_by_stem.clear()
        wanted = list(dict.fromkeys(terms))
        stems = set(filter(None, map(shared_stem, wanted))) - self._forms_by_stem.keys()
        exact = [
            term
            for term in dict.fromkeys((*wanted, *count_only))
            if term not in self._term_counts
        ]
        if not stems and not exact:
            return
        found = self._backend.terms(TermFilter(exact=exact, stems=sorted(stems)))
        self._term_counts |= dict.fromkeys(exact, 0) | dict(found)
        self._forms_by_stem |= {stem: [] for stem in stems}
        names = [term for term, _ in found]
        for term, stem in zip(names, stem_terms(names), strict=True):
            if stem in stems:
                self._forms_by_stem[stem].append(term)

    def text_checksums(self, records: Sequence[int]) -> dict[tuple[int, int], int]:
        """Return nothing: a store checks the hashes of all bytes that it reads."""
        del records
        return {}

    def frequency(self, term: str) -> int:
        """Return the number of texts that contain a term."""
        return self._frequencies([term])[term]

    def _frequencies(self, terms: Iterable[str]) -> dict[str, int]:
        wanted = list(dict.fromkeys(terms))
        new = [term for term in wanted if term not in self._term_counts]
        if new:
            found = self._backend.terms(TermFilter(exact=new))
            self._term_counts |= dict.fromkeys(new, 0) | dict(found)
        return {term: self._term_counts[term] for term in wanted}

    def word_forms(self, term: str) -> tuple[str, ...]:
        """Return the indexed forms of a term, itself first."""
        self.prefetch([term])
        stem = shared_stem(term)
        own = (term,) if self._term_counts[term] else ()
        others = self._forms_by_stem[stem] if stem is not None else []
        return (*own, *(other for other in others if other != term))

    def correct_spelling(self, term: str) -> str | None:
        """Return the indexed term that is likely meant by a misspelled one."""
        return correct_term(term, self._frequencies, self.terms_with_prefix)

    def terms_with_prefix(self, prefix: str) -> list[tuple[str, int]]:
        """Return the terms with a prefix, with the number of texts that have each."""
        found = self._prefix_terms.get(prefix)
        if found is None:
            found = self._backend.terms(TermFilter(prefix=prefix))
            self._prefix_terms[prefix] = found
            self._term_counts.update(found)
        return found

    def match_all(self) -> TextQuery:
        return MatchAllQuery()

    def match_none(self) -> TextQuery:
        return MatchNoneQuery()

    def match_terms(self, terms: Sequence[str]) -> MatchQuery:
        return MatchQuery(tuple((term,) for term in terms), self._find_word(terms))

    def _find_word(self, terms: Sequence[str]) -> str | None:
        """Return the word of which these terms are all indexed forms, if it is known."""
        words = set(words_of(terms))
        if len(words) != 1:
            return None
        (word,) = words
        if word.startswith(_NO_STEM):
            return word
        forms = self._forms_by_stem.get(word)
        return word if forms is not None and set(forms) <= set(terms) else None

    def match_phrase(self, terms: Sequence[str]) -> TextQuery:
        if len(terms) == 1:
            return self.match_terms(terms)
        return MatchQuery((tuple(terms),))

    def match_prefix_phrase(self, terms: Sequence[str]) -> TextQuery:
        """Match a phrase whose last term is only a prefix."""
        *whole, start = terms
        words = [term for term, _ in self.terms_with_prefix(start)]
        if not words:
            return MatchNoneQuery()
        if not whole:
            return self.match_terms(words)
        return MatchQuery(
            tuple((*whole, word) for word in words[:_MAX_PREFIX_EXPANSIONS])
        )

    def match_prefix_phrase_parts(self, terms: Sequence[str]) -> tuple[TextQuery, ...]:
        """Match the same in several queries, one per term with the prefix, if few."""
        words = [term for term, _ in self.terms_with_prefix(terms[-1])]
        if len(terms) > 1 or not 0 < len(words) <= _MAX_PREFIX_EXPANSIONS:
            return (self.match_prefix_phrase(terms),)
        return tuple(self.match_terms([word]) for word in words)

    def is_prefix_complete(self, terms: Sequence[str]) -> bool:
        """Whether :meth:`match_prefix_phrase` matches all terms with the prefix."""
        return (
            len(terms) == 1
            or len(self.terms_with_prefix(terms[-1])) <= _MAX_PREFIX_EXPANSIONS
        )

    def match_substring(self, substring: str) -> TextQuery:
        """Match texts with a term that contains a substring; this is slow."""
        found = self._backend.terms(TermFilter(substring=substring))
        if not found:
            return MatchNoneQuery()
        return ConstantScoreQuery(self.match_terms([term for term, _ in found]))

    def in_sessions(self, sessions: Iterable[int]) -> TextQuery:
        return SessionsQuery(tuple(sessions))

    def in_records(self, records: Sequence[int]) -> TextQuery:
        return (
            RecordsQuery(frozenset(map(unpack_key, records)))
            if records
            else MatchNoneQuery()
        )

    def in_kinds(self, session: int, kinds: Iterable[int]) -> TextQuery:
        return KindsQuery(session, tuple(kinds))

    def without_score(self, query: TextQuery) -> TextQuery:
        return UnscoredQuery(query)

    def any_of(self, queries: Sequence[TextQuery]) -> TextQuery:
        if len(queries) == 1:
            return queries[0]
        if all(isinstance(one, MatchQuery) for one in queries):
            runs = (
                run
                for one in queries
                if isinstance(one, MatchQuery)
                for run in one.phrases
            )
            return MatchQuery(tuple(runs))
        return OrQuery(tuple(queries))

    def all_of(self, queries: Sequence[TextQuery]) -> TextQuery:
        return queries[0] if len(queries) == 1 else AndQuery(tuple(queries))

    def none_of(self, query: TextQuery) -> TextQuery:
        return NotQuery(query)

    def count(self, query: TextQuery) -> dict[int, int]:
        """Return the number of matching texts by text key."""
        (counts,) = self.count_many([query])
        return counts

    def count_sessions(self, query: TextQuery) -> dict[int, int]:
        """Return the number of matching texts by session."""
        sums: dict[int, int] = {}
        for key, count in self.count(query).items():
            session = key // KINDS_PER_SESSION
            sums[session] = sums.get(session, 0) + count
        return sums

    def count_many(self, queries: Sequence[TextQuery]) -> list[dict[int, int]]:
        """Count for several queries; those that are not cached in one statement."""
        cache = self._counts_cache
        new = [query for query in dict.fromkeys(queries) if query not in cache]
        asked = [query for query in new if not isinstance(query, MatchNoneQuery)]
        cache |= {query: {} for query in new}
        if asked:
            for index, session, kind, count in self._backend.count_texts(asked):
                counts = cache[asked[index]]
                key = session * KINDS_PER_SESSION + kind
                counts[key] = counts.get(key, 0) + count  # of each part of a session
        return [cache[query] for query in queries]

    def find_sessions(
        self,
        words: Sequence[Sequence[str]],
        total: int,
        limit: int,
        sessions: Collection[int] | None = None,
    ) -> WordSessions:
        """Count the sessions that have words, and return those that may be the best."""
        queries = [self.match_terms(terms) for terms in words]
        known = [query.word for query in queries if query.word is not None]
        if isinstance(self._backend, WordIndex) and len(known) == len(queries):
            allowed = None if sessions is None else sorted(sessions)
            return self._backend.find_sessions(known, total, limit, allowed)
        texts: list[Counter[int]] = []
        for counts in self.count_many(queries):
            texts.append(Counter())
            for key, count in counts.items():
                texts[-1][key // KINDS_PER_SESSION] += count
        scores: dict[int, float] = {}
        for one in texts:
            weight = math.log(1 + max(total - len(one) + 0.5, 0) / (len(one) + 0.5))
            for session, count in one.items():
                if sessions is None or session in sessions:
                    score = weight * count / (count + TEXT_SATURATION)
                    scores[session] = scores.get(session, 0.0) + score
        by_word = [one.keys() for one in texts]
        return WordSessions(
            list(map(len, by_word)),
            len(set().union(*by_word)),
            len(set.intersection(*map(set, by_word))) if by_word else 0,
            nlargest(limit, scores, key=lambda session: (scores[session], session)),
        )

    def match_texts(
        self,
        queries: Sequence[TextQuery],
        sessions: Sequence[int] | None,
        conditions: Sequence[TextQuery],
        limit: int,
    ) -> list[MatchedText]:
        """Return texts of sessions, or of all, with the queries that each matches.

        Of more than the limit, those that match later queries are returned, then the
        shortest ones, on every database.
        """
        rows = None if conditions else self._match_rows(queries, sessions, limit)
        if rows is not None:
            return [
                (
                    pack_key(session, record),
                    session * KINDS_PER_SESSION + kind,
                    mask,
                    length,
                )
                for session, record, kind, mask, length in rows
            ]
        if sessions is None:
            sessions = self._sessions_matching(queries)
        if not sessions:
            return []
        query: TextQuery = OrQuery(
            tuple(
                ConstantScoreQuery(one, float(1 << bit))
                for bit, one in enumerate(queries)
            )
        )
        if conditions:
            query = AndQuery((query, *map(UnscoredQuery, conditions)))
        ((_, texts),) = self._search_in([query], [sessions], maxsize)
        texts.sort(key=lambda one: (-one.score, one.length, one.record, one.text_key))
        return [
            (text.record, text.text_key, int(text.score), text.length)
            for text in texts[:limit]
        ]

    def _match_rows(
        self,
        queries: Sequence[TextQuery],
        sessions: Sequence[int] | None,
        limit: int,
    ) -> list[tuple[int, int, int, int, int]] | None:
        """Let the database match words or terms; None if it cannot."""
        simple = [one for one in queries if isinstance(one, MatchQuery)]
        if len(simple) < len(queries) or len(queries) > _MAX_MASK_BITS:
            return None
        words = [one.word for one in simple if one.word]
        if isinstance(self._backend, WordIndex) and len(words) == len(queries):
            return self._backend.match_words(words, sessions, limit)
        if not isinstance(self._backend, TermIndex) or not all(
            one.has_terms_only for one in simple
        ):
            return None
        masks: dict[str, int] = {}
        for bit, one in enumerate(simple):
            for (term,) in one.phrases:
                masks[term] = masks.get(term, 0) | 1 << bit
        return self._backend.match_term_texts(masks, sessions, limit)

    def _sessions_matching(self, queries: Sequence[TextQuery]) -> list[int]:
        """Return the sessions that match most of some queries."""
        matches: Counter[int] = Counter()
        for counts in self.count_many(queries):
            matches.update({key // KINDS_PER_SESSION for key in counts})
        return nlargest(
            _MAX_OPENED_SESSIONS, matches, key=lambda one: (matches[one], one)
        )

    def best_keys(self, query: TextQuery, limit: int) -> tuple[int, dict[int, int]]:
        """Return the number of matching texts, and how many have which text key.

        For single terms both are upper bounds: all forms of each word are counted, and
        a text counts once per word. Frequent words are counted in the newest sessions.
        """
        del limit
        if not isinstance(query, MatchQuery) or not query.has_terms_only:
            counts = self.count(query)
            return sum(counts.values()), counts
        terms = list(query_terms(query))
        total = sum(self._frequencies(terms).values())
        queries: list[TextQuery] = list(self._word_queries(terms))
        if total > _MAX_COUNTED_TEXTS:
            newest = self.in_sessions(self._newest_sessions(_SAMPLED_SESSIONS))
            queries = [self.all_of([one, newest]) for one in queries]
        sums: Counter[int] = Counter()
        for counts in self.count_many(queries):
            sums.update(counts)
        return total, sums

    def _word_queries(self, terms: Sequence[str]) -> Iterator[MatchQuery]:
        """Yield a query for each word that terms are forms of, with all its forms.

        Many terms, as a prefix has, are matched by a single query instead.
        """
        if len(terms) > _MAX_COUNTED_WORDS:
            yield self.match_terms(terms)
            return
        self.prefetch(terms)
        for word in dict.fromkeys(words_of(terms)):
            forms = self._forms_by_stem.get(word, [word.removeprefix(_NO_STEM)])
            yield self.match_terms(forms)

    def search(self, query: TextQuery, limit: int) -> tuple[int, list[TextMatch]]:
        """Return the number of matching texts, and the best ones, best first.

        If the query isn't limited to a session and matches texts in many of them, only
        a number above the limit is returned: the caller searches session by session.
        """
        if query_session(query) is not None:
            (found,) = self.search_many([query], limit)
            return found
        counts = self.count(query)
        sessions = {bucket // KINDS_PER_SESSION for bucket in counts}
        if len(sessions) > _MAX_OPENED_SESSIONS or sum(counts.values()) > limit:
            return limit + 1, []
        (found,) = self._search_in([query], [sorted(sessions)], limit)
        return found

    def search_many(
        self, queries: Sequence[TextQuery], limit: int
    ) -> list[tuple[int, list[TextMatch]]]:
        """Search with several queries, at once if each is limited to a session."""
        sessions = [query_session(query) for query in queries]
        named = [[session] for session in sessions if session is not None]
        if len(named) < len(queries):
            return [self.search(query, limit) for query in queries]
        return self._search_in(queries, named, limit)

    def _search_in(
        self,
        queries: Sequence[TextQuery],
        sessions: Sequence[Sequence[int]],
        limit: int,
    ) -> list[tuple[int, list[TextMatch]]]:
        """Search with each query in some sessions."""
        terms = dict.fromkeys(term for query in queries for term in query_terms(query))
        frequencies = self._frequencies(terms)
        include_unmatched = [not _requires_terms(query) for query in queries]
        postings = self._load_postings(
            [session for own in sessions for session in own],
            frequencies,
            include_unmatched=any(include_unmatched),
        )
        texts, length = self._totals
        scorer = BM25Scorer(texts, length / texts if texts else 0.0, frequencies)
        return [
            self._top_texts(
                query,
                {session: postings[session] for session in own},
                limit,
                scorer,
                include_unmatched=is_unmatched,
            )
            for query, own, is_unmatched in zip(
                queries, sessions, include_unmatched, strict=True
            )
        ]

    def _load_postings(
        self,
        sessions: Sequence[int],
        frequencies: Mapping[str, int],
        *,
        include_unmatched: bool,
    ) -> Mapping[int, SessionPostings]:
        key = (frozenset(frequencies), include_unmatched)
        if key != self._postings_key:
            self._postings_key = key
            self._postings_cache.clear()
        new = [session for session in sessions if session not in self._postings_cache]
        if new:
            found = self._backend.load_postings(
                new, frequencies, include_unmatched=include_unmatched
            )
            self._postings_cache |= {
                session: found.get(session, SessionPostings({}, {})) for session in new
            }
        return self._postings_cache

    @staticmethod
    def _top_texts(
        query: TextQuery,
        postings: Mapping[int, SessionPostings],
        limit: int,
        scorer: BM25Scorer,
        *,
        include_unmatched: bool,
    ) -> tuple[int, list[TextMatch]]:
        found: list[tuple[float, int, int, int, int, int]] = []
        for session, texts in postings.items():
            scored = scorer.score_texts(
                session, query, texts, include_unmatched=include_unmatched
            )
            for text, score in scored:
                found.append((-score, session, text, *texts.text_facts[text]))
        return len(found), [
            TextMatch(
                pack_key(session, record),
                session * KINDS_PER_SESSION + kind,
                -score,
                length,
            )
            for score, session, _, record, kind, length in nsmallest(limit, found)
        ]

    def tokenize(self, text: str) -> list[str]:
        return tokenize(text)


def _requires_terms(query: TextQuery) -> bool:
    """Whether only texts with a term of the query can match."""
    if isinstance(query, MatchQuery):
        return True
    if isinstance(query, OrQuery):
        return all(map(_requires_terms, query.queries))
    if isinstance(query, AndQuery):
        return any(map(_requires_terms, query.queries))
    return isinstance(query, UnscoredQuery | ConstantScoreQuery) and _requires_terms(
        query.query
    )
