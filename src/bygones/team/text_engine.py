"""The text index of a team store within a scope; same interface as the local one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from heapq import nsmallest
from typing import Protocol

from msgspec import Struct

from bygones.model.query import KINDS_PER_SESSION
from bygones.store.text_index import TextMatch, shared_stem, stem_terms
from bygones.store.tokenizer import correct_term, tokenize
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
_MAX_COUNTED_TEXTS = 50_000
"""Texts with some terms above which only those of the newest sessions are sampled."""
_SAMPLED_SESSIONS = 1_000
_MAX_CACHED_TERMS = 50_000
"""Terms whose number of texts is cached."""
_MAX_CACHED_COUNTS = 100_000
"""Counts by session and kind that are cached; each takes about a hundred bytes."""


class TermFilter(Struct, frozen=True, kw_only=True):
    """Which terms to look up: all that match one of the conditions."""

    exact: Sequence[str] = ()
    stems: Sequence[str] = ()
    prefix: str | None = None
    substring: str | None = None


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
        self, sessions: Sequence[int], terms: Sequence[str], *, include_unmatched: bool
    ) -> dict[int, SessionPostings]:
        """Return the positions of terms in the texts of sessions.

        With ``include_unmatched``, texts without any of the terms are included.
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

    @property
    def text_count(self) -> int:
        """The number of texts."""
        return self._totals[0]

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

    def frequency(self, term: str) -> int:
        """Return how many texts have a term."""
        return self._frequencies([term])[term]

    def _frequencies(self, terms: Iterable[str]) -> dict[str, int]:
        wanted = list(dict.fromkeys(terms))
        new = [term for term in wanted if term not in self._term_counts]
        if new:
            found = self._backend.terms(TermFilter(exact=new))
            self._term_counts |= dict.fromkeys(new, 0) | dict(found)
        return {term: self._term_counts[term] for term in wanted}

    def word_forms(self, term: str) -> tuple[str, ...]:
        """Return the terms that are forms of one, itself first."""
        self.prefetch([term])
        stem = shared_stem(term)
        own = (term,) if self._term_counts[term] else ()
        others = self._forms_by_stem[stem] if stem is not None else []
        return (*own, *(other for other in others if other != term))

    def correct_spelling(self, term: str) -> str | None:
        """Return the term that is likely meant by one which is not there."""
        return correct_term(term, self._frequencies, self.terms_with_prefix)

    def terms_with_prefix(self, prefix: str) -> list[tuple[str, int]]:
        """Return the terms that begin so, and how many texts have each."""
        found = self._prefix_terms.get(prefix)
        if found is None:
            found = self._backend.terms(TermFilter(prefix=prefix))
            self._prefix_terms[prefix] = found
            self._term_counts.update(found)
        return found

    def match_all(self) -> TextQuery:
        """Ask for all texts."""
        return MatchAllQuery()

    def match_none(self) -> TextQuery:
        """Ask for no text."""
        return MatchNoneQuery()

    def match_terms(self, terms: Sequence[str]) -> MatchQuery:
        """Ask for texts that have one of some terms."""
        return MatchQuery(tuple((term,) for term in terms))

    def match_phrase(self, terms: Sequence[str]) -> TextQuery:
        """Ask for texts in which terms stand one right behind the other."""
        return MatchQuery((tuple(terms),))

    def match_prefix_phrase(self, terms: Sequence[str]) -> TextQuery:
        """Ask for texts in which terms stand in a row, the last of them begun only."""
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
        """Ask the same in parts, one for each word that begins so, if these are few."""
        words = [term for term, _ in self.terms_with_prefix(terms[-1])]
        if len(terms) > 1 or not 0 < len(words) <= _MAX_PREFIX_EXPANSIONS:
            return (self.match_prefix_phrase(terms),)
        return tuple(self.match_terms([word]) for word in words)

    def is_prefix_complete(self, terms: Sequence[str]) -> bool:
        """Whether :meth:`match_prefix_phrase` asks for all there is."""
        return (
            len(terms) == 1
            or len(self.terms_with_prefix(terms[-1])) <= _MAX_PREFIX_EXPANSIONS
        )

    def match_substring(self, substring: str) -> TextQuery:
        """Ask for texts with a term that has a piece somewhere in it; this is slow."""
        found = self._backend.terms(TermFilter(substring=substring))
        if not found:
            return MatchNoneQuery()
        return ConstantScoreQuery(self.match_terms([term for term, _ in found]))

    def in_sessions(self, sessions: Iterable[int]) -> TextQuery:
        """Ask for the texts of some sessions."""
        return SessionsQuery(tuple(sessions))

    def in_records(self, records: Sequence[int]) -> TextQuery:
        """Ask for the texts of some records."""
        return (
            RecordsQuery(frozenset(map(unpack_key, records)))
            if records
            else MatchNoneQuery()
        )

    def in_kinds(self, session: int, kinds: Iterable[int]) -> TextQuery:
        """Ask for the texts of a session that are of some kinds."""
        return KindsQuery(session, tuple(kinds))

    def without_score(self, query: TextQuery) -> TextQuery:
        """Ask the same without adding to any score."""
        return UnscoredQuery(query)

    def any_of(self, queries: Sequence[TextQuery]) -> TextQuery:
        """Ask for what one question at least finds."""
        if all(isinstance(one, MatchQuery) for one in queries):
            runs = (
                run
                for one in queries
                if isinstance(one, MatchQuery)
                for run in one.phrases
            )
            return MatchQuery(tuple(runs))
        return queries[0] if len(queries) == 1 else OrQuery(tuple(queries))

    def all_of(self, queries: Sequence[TextQuery]) -> TextQuery:
        """Ask for what all questions find."""
        return queries[0] if len(queries) == 1 else AndQuery(tuple(queries))

    def none_of(self, query: TextQuery) -> TextQuery:
        """Ask for what a question does not find."""
        return NotQuery(query)

    def count(self, query: TextQuery) -> dict[int, int]:
        """Return how many texts are found, by their bucket."""
        (found,) = self.count_many([query])
        return found

    def count_many(self, queries: Sequence[TextQuery]) -> list[dict[int, int]]:
        """Count for several queries; those that are not cached in one statement."""
        cache = self._counts_cache
        new = [query for query in dict.fromkeys(queries) if query not in cache]
        asked = [query for query in new if not isinstance(query, MatchNoneQuery)]
        cache |= {query: {} for query in new}
        if asked:
            for index, session, kind, count in self._backend.count_texts(asked):
                cache[asked[index]][session * KINDS_PER_SESSION + kind] = count
        return [cache[query] for query in queries]

    def best_keys(self, query: TextQuery, limit: int) -> tuple[int, dict[int, int]]:
        """Return the number of matching texts, and how many have which text key.

        Terms in very many texts are looked up in the newest sessions only; the total
        is then an upper bound.
        """
        del limit
        if isinstance(query, MatchQuery) and query.has_terms_only:
            total = sum(self._frequencies(query_terms(query)).values())
            if total > _MAX_COUNTED_TEXTS:
                newest = self.in_sessions(self._newest_sessions(_SAMPLED_SESSIONS))
                return total, self.count(self.all_of([query, newest]))
        counts = self.count(query)
        return sum(counts.values()), counts

    def search(self, query: TextQuery, limit: int) -> tuple[int, list[TextMatch]]:
        """Return how many texts are found, and those that fit best, best first.

        Where they lie in many sessions, it is told that there are more than were asked
        for: whoever wants to open them asks session by session.
        """
        if query_session(query) is not None:
            (found,) = self.search_many([query], limit)
            return found
        counts = self.count(query)
        sessions = {bucket // KINDS_PER_SESSION for bucket in counts}
        if len(sessions) > _MAX_OPENED_SESSIONS or sum(counts.values()) > limit:
            return limit + 1, []
        posted = self._load_postings([query], sorted(sessions))
        return self._top_texts(query, posted, limit, self._make_scorer([query]))

    def search_many(
        self, queries: Sequence[TextQuery], limit: int
    ) -> list[tuple[int, list[TextMatch]]]:
        """Return the same for several questions; best where each names its session."""
        sessions = [query_session(one) for one in queries]
        named = [session for session in sessions if session is not None]
        if len(named) < len(queries):
            return [self.search(one, limit) for one in queries]
        posted = self._load_postings(queries, named)
        scorer = self._make_scorer(queries)
        return [
            self._top_texts(one, {session: posted[session]}, limit, scorer)
            for one, session in zip(queries, named, strict=True)
        ]

    def _make_scorer(self, asked: Sequence[TextQuery]) -> BM25Scorer:
        counted = self._frequencies(term for one in asked for term in query_terms(one))
        size, length = self._totals
        return BM25Scorer(size, length / size if size else 0.0, counted)

    def _load_postings(
        self, asked: Sequence[TextQuery], sessions: Sequence[int]
    ) -> Mapping[int, SessionPostings]:
        """Return what is needed of sessions to answer questions."""
        terms = list(dict.fromkeys(term for one in asked for term in query_terms(one)))
        everything = not all(map(_requires_terms, asked))
        key = (frozenset(terms), everything)
        if key != self._postings_key:
            self._postings_key = key
            self._postings_cache.clear()
        new = [session for session in sessions if session not in self._postings_cache]
        if new:
            found = self._backend.load_postings(
                new, terms, include_unmatched=everything
            )
            self._postings_cache |= {
                one: found.get(one, SessionPostings({}, {})) for one in new
            }
        return {session: self._postings_cache[session] for session in sessions}

    @staticmethod
    def _top_texts(
        asked: TextQuery,
        posted: Mapping[int, SessionPostings],
        limit: int,
        scorer: BM25Scorer,
    ) -> tuple[int, list[TextMatch]]:
        """Return how many texts of sessions are found, and the best of them."""
        everything = not _requires_terms(asked)
        found: list[tuple[float, int, int, int, int]] = []
        for session, texts in posted.items():
            scored = scorer.score_texts(
                session, asked, texts, include_unmatched=everything
            )
            for text, score in scored:
                found.append((-score, session, text, *texts.text_facts[text][:2]))
        return len(found), [
            TextMatch(
                pack_key(session, record), session * KINDS_PER_SESSION + kind, -score
            )
            for score, session, _, record, kind in nsmallest(limit, found)
        ]

    def tokenize(self, text: str) -> list[str]:
        """Return the terms of a text, as the index has them."""
        return tokenize(text)


def _requires_terms(query: TextQuery) -> bool:
    """Whether only texts that have a term of a question can answer it."""
    if isinstance(query, MatchQuery):
        return True
    if isinstance(query, OrQuery):
        return all(map(_requires_terms, query.queries))
    if isinstance(query, AndQuery):
        return any(map(_requires_terms, query.queries))
    return isinstance(query, UnscoredQuery | ConstantScoreQuery) and _requires_terms(
        query.query
    )
