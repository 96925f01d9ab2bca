"""The text index of a team store within a scope; same interface as the local one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import cached_property
from heapq import nsmallest
from typing import NamedTuple, Protocol

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
    TermSequence,
    TextQuery,
    UnscoredQuery,
    query_session,
    query_terms,
)

__all__ = ["TeamEngine", "TermStats", "TextSearchBackend", "form_groups"]

_MAX_PREFIX_EXPANSIONS = 500
_MAX_OPENED_SESSIONS = 50
"""Sessions whose texts are all looked at, where no session is named."""
_MAX_CACHED_GROUPS = 300
"""Groups of forms whose counts are kept for the next question."""
_MAX_CACHED_COUNTS = 100_000
"""Counts of them all, about: each takes a hundred bytes, and a hub has many readers."""


def form_groups(terms: Sequence[str]) -> list[str]:
    """Return of each term under what it is counted together with its other forms."""
    found = zip(terms, stem_terms(terms), strict=True)
    return [f"={term}" if stem is None else stem for term, stem in found]


class TermStats(NamedTuple):
    """What an engine knows of some groups of forms, and of other terms."""

    term_counts: dict[str, int]
    """How many texts have each term that there is."""
    group_counts: dict[str, dict[int, int]]
    """How many texts have a form of a group, by bucket."""


class TextSearchBackend(Protocol):
    """What an engine must be able to say of texts and terms, for one scope."""

    def refresh_scope(self) -> object:
        """Look whose rows may be seen; return what changes when these do."""
        ...

    def totals(self) -> tuple[int, int]:
        """Return how many texts there are, and how many terms in all of them."""
        ...

    def load_term_stats(
        self, groups: Sequence[str], terms: Sequence[str], live_sessions: Container[int]
    ) -> TermStats:
        """Return all terms of some groups with where they stand, and other terms.

        Sessions not in ``live_sessions`` do not count: they were replaced meanwhile.
        """
        ...

    def document_frequencies(self, terms: Sequence[str]) -> dict[str, int]:
        """Return how many texts have each of some terms."""
        ...

    def terms_with_prefix(self, prefix: str) -> list[tuple[str, int]]:
        """Return terms that begin so in their order, and how many texts have each."""
        ...

    def terms_containing(self, substring: str) -> list[str]:
        """Return terms that have a piece somewhere in them."""
        ...

    def count_texts(
        self, queries: Sequence[TextQuery]
    ) -> list[tuple[int, int, int, int]]:
        """Return how many texts are found, by question, session and kind."""
        ...

    def count_shared_texts(
        self, one: MatchQuery, other: MatchQuery
    ) -> list[tuple[int, int, int]]:
        """Return how many texts two matches both find, by session and kind."""
        ...

    def load_postings(
        self, sessions: Sequence[int], terms: Sequence[str], *, include_unmatched: bool
    ) -> dict[int, SessionPostings]:
        """Return where terms stand in the texts of sessions.

        With ``include_unmatched`` also texts that have none of the terms.
        """
        ...


class TeamEngine:
    """Makes questions and has them answered."""

    def __init__(
        self, backend: TextSearchBackend, live_sessions: Callable[[], Container[int]]
    ) -> None:
        self._backend = backend
        self._live_sessions = live_sessions
        """Gives the sessions that are there."""
        self._term_counts: dict[str, int] = {}
        self._group_terms: dict[str, dict[str, int]] = {}
        """Terms by their group, and how many texts have each."""
        self._group_counts: dict[str, dict[int, int]] = {}
        self._prefix_terms: dict[str, list[tuple[str, int]]] = {}
        self._counts_cache: dict[TextQuery, dict[int, int]] = {}
        """What was counted for the query that is being answered."""
        self._postings_cache: dict[int, SessionPostings] = {}
        """Where the terms stand that were asked for last."""
        self._postings_key = (frozenset[str](), False)

    @cached_property
    def _totals(self) -> tuple[int, int]:
        return self._backend.totals()

    @property
    def text_count(self) -> int:
        """How many texts there are."""
        return self._totals[0]

    def prefetch(self, terms: Iterable[str], count_only: Iterable[str] = ()) -> None:
        """Learn of terms with all their forms, and of others, in one question."""
        self._postings_cache.clear()
        self._counts_cache.clear()
        asked = list(dict.fromkeys(terms))
        stems = filter(None, map(shared_stem, asked))
        groups = {*form_groups(asked), *stems}
        new = sorted(groups - self._group_terms.keys())
        more = [term for term in count_only if term not in self._term_counts]
        if not new and not more:
            return
        held = sum(map(len, self._group_counts.values()))
        if (
            held > _MAX_CACHED_COUNTS
            or len(self._group_terms) + len(new) > _MAX_CACHED_GROUPS
        ):
            self._group_terms.clear()
            self._group_counts.clear()
            new = sorted(groups)
        found = self._backend.load_term_stats(new, more, self._live_sessions())
        for term in (*asked, *more):
            self._term_counts.setdefault(term, 0)
        self._term_counts |= found.term_counts
        self._group_terms |= {group: {} for group in new}
        known = list(found.term_counts)
        for term, group in zip(known, form_groups(known), strict=True):
            if group in self._group_terms:
                self._group_terms[group][term] = found.term_counts[term]
        self._group_counts |= {
            group: found.group_counts.get(group, {}) for group in new
        }

    def frequency(self, term: str) -> int:
        """Return how many texts have a term."""
        return self._frequencies([term])[term]

    def _frequencies(self, terms: Iterable[str]) -> dict[str, int]:
        wanted = list(dict.fromkeys(terms))
        new = [term for term in wanted if term not in self._term_counts]
        if new:
            found = self._backend.document_frequencies(new)
            self._term_counts |= {term: found.get(term, 0) for term in new}
        return {term: self._term_counts[term] for term in wanted}

    def word_forms(self, term: str) -> tuple[str, ...]:
        """Return the terms that are forms of one, itself first."""
        self.prefetch([term])
        stem = shared_stem(term)
        own = (term,) if self._term_counts[term] else ()
        others = self._group_terms[stem] if stem is not None else {}
        return (*own, *(other for other in sorted(others) if other != term))

    def correct_spelling(self, term: str) -> str | None:
        """Return the term that is likely meant by one which is not there."""
        return correct_term(term, self._frequencies, self.terms_with_prefix)

    def terms_with_prefix(self, prefix: str) -> list[tuple[str, int]]:
        """Return the terms that begin so, and how many texts have each."""
        found = self._prefix_terms.get(prefix)
        if found is None:
            found = self._prefix_terms[prefix] = self._backend.terms_with_prefix(prefix)
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
        found = self._backend.terms_containing(substring)
        return (
            ConstantScoreQuery(self.match_terms(found)) if found else MatchNoneQuery()
        )

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
        """Return the same for several questions; what is known is not asked for."""
        found = [self._known_counts(one) for one in queries]
        unknown = [at for at, told in enumerate(found) if told is None]
        told: list[dict[int, int]] = [{} for _ in unknown]
        if unknown:
            questions = [queries[at] for at in unknown]
            for at, session, kind, count in self._backend.count_texts(questions):
                told[at][session * KINDS_PER_SESSION + kind] = count
            self._counts_cache |= dict(zip(questions, told, strict=True))
        new = iter(told)
        return [next(new) if one is None else one for one in found]

    def _known_counts(self, asked: TextQuery) -> dict[int, int] | None:
        """Return the counts of a question, if all that it asks for is known."""
        if asked in self._counts_cache:
            return self._counts_cache[asked]
        if isinstance(asked, MatchNoneQuery):
            return {}
        if isinstance(asked, UnscoredQuery | ConstantScoreQuery):
            return self._known_counts(asked.query)
        if isinstance(asked, MatchQuery):
            return {} if self._cannot_match(asked) else self._known_group_counts(asked)
        return (
            self._known_counts_in_sessions(asked)
            if isinstance(asked, AndQuery)
            else None
        )

    def _cannot_match(self, asked: MatchQuery) -> bool:
        """Whether no session has all terms of a run in texts of one kind."""
        return all(map(self._never_cooccur, asked.phrases))

    def _never_cooccur(self, run: TermSequence) -> bool:
        known = [
            self._group_counts[one]
            for one in form_groups(run)
            if one in self._group_counts
        ]
        if len(run) == 1 or not known:
            return False
        first, *others = sorted(known, key=len)
        return not any(all(bucket in one for one in others) for bucket in first)

    def _known_counts_in_sessions(self, asked: AndQuery) -> dict[int, int] | None:
        """Return what is known of a question, in some sessions."""
        within = [
            set(one.numbers) for one in asked.queries if isinstance(one, SessionsQuery)
        ]
        others = [one for one in asked.queries if not isinstance(one, SessionsQuery)]
        counts = self._known_counts(others[0]) if len(others) == 1 else None
        if counts is None or not within:
            return counts if not within else None
        chosen = set.intersection(*within)
        return {
            b: count for b, count in counts.items() if b // KINDS_PER_SESSION in chosen
        }

    def _known_group_counts(self, asked: MatchQuery) -> dict[int, int] | None:
        """Return the counts of words in all their forms, if these are known."""
        terms = {run[0] for run in asked.phrases}
        if not terms or any(len(run) > 1 for run in asked.phrases):
            return None
        groups = sorted(set(form_groups(sorted(terms))))
        known = [self._group_terms.get(group, {}).keys() for group in groups]
        if not all(known) or terms != set().union(*known):
            return None
        if len(groups) == 1:
            return self._group_counts[groups[0]]
        found = self._counts_cache[asked] = self._union_group_counts(groups)
        return found

    def _union_group_counts(self, groups: Sequence[str]) -> dict[int, int]:
        """Return how many texts have a form of one of some words, by bucket.

        A text that has forms of two is counted once; which do is asked for.
        """
        first, *others = sorted(groups, key=lambda one: -len(self._group_counts[one]))
        found = dict(self._group_counts[first])
        terms = list(self._group_terms[first])
        for group in others:
            tally, own = self._group_counts[group], list(self._group_terms[group])
            both = any(bucket in found for bucket in tally)
            for bucket, count in tally.items():
                found[bucket] = found.get(bucket, 0) + count
            if both:
                twice = self._backend.count_shared_texts(
                    self.match_terms(terms), self.match_terms(own)
                )
                for session, kind, count in twice:
                    found[session * KINDS_PER_SESSION + kind] -= count
            terms += own
        return found

    def best_keys(self, query: TextQuery, limit: int) -> tuple[int, dict[int, int]]:
        """Return how many texts are found, and where all of them lie.

        Of forms of a word it is told where the word in any form lies: that is known,
        and sessions are only chosen by it.
        """
        del limit
        counts = self._approximate_counts(query)
        if counts is not None:
            return sum(self._frequencies(query_terms(query)).values()), counts
        counts = self.count(query)
        return sum(counts.values()), counts

    def _approximate_counts(self, asked: TextQuery) -> dict[int, int] | None:
        if not isinstance(asked, MatchQuery) or any(
            len(run) > 1 for run in asked.phrases
        ):
            return None
        groups = set(form_groups([run[0] for run in asked.phrases]))
        if not groups or not groups <= self._group_counts.keys():
            return None
        if len(groups) == 1:
            return self._group_counts[groups.pop()]
        found: Counter[int] = Counter()
        for group in groups:
            found.update(self._group_counts[group])
        return found

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
