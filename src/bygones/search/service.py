"""Searching: words that count, candidates in order, then the hits of a page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from bygones.model.base import SessionId
from bygones.model.query import And, Phrase, Query, Words
from bygones.model.summary import (
    CountBound,
    SearchResults,
    SessionMatch,
    SpellingCorrection,
)
from bygones.query.fields import iter_leaves
from bygones.query.parser import and_terms
from bygones.query.terms import TermRun, drop_stop_words, expand_word, expand_words
from bygones.search.plan import SearchPlan, plan_search, relax_query
from bygones.search.ranking import SessionRanker, SortOrder
from bygones.search.results import ResultBuilder
from bygones.search.stats import SearchStats
from bygones.search.texts import AnnotationsBySession, TextLoader
from bygones.store.encoding import id_key

if TYPE_CHECKING:  # protocols take long to make
    from bygones.search.stats import SharedSearchStats
    from bygones.store.protocols import StoreReader

MAX_WORDS = 32
"""Words of a query that count; of more, the rarest do."""


class _PageRequest(Struct, frozen=True):
    """Which part of an answer is asked for."""

    limit: int
    offset: int
    hits_per_session: int
    sort: SortOrder
    redact: Callable[[str], str]


class MatchPositions(Struct, frozen=True):
    """Where words stand in a session, by the numbers of records' ids."""

    record_numbers: frozenset[int] = frozenset()
    is_partial: bool = False
    """Whether there may be more: not all could be looked at."""
    runs: tuple[TermRun, ...] = ()
    """As what they are found: terms that stand behind each other."""
    prefixes: tuple[TermRun, ...] = ()
    """The same, where the last term is the beginning of a word."""

    @staticmethod
    def record_number(record: str) -> int:
        """Return the number of a record's id."""
        return id_key(record)


class MatchingSessions(Struct, frozen=True):
    """The sessions that match a query, and how it had to be changed for that."""

    ids: frozenset[SessionId] = frozenset()
    corrections: tuple[SpellingCorrection, ...] = ()
    is_phrase_relaxed: bool = False
    is_partial: bool = False
    """Whether there may be more: not every record could be opened."""


class Searcher:
    """Answers queries from one shelf; what it knows of all sessions may be shared."""

    def __init__(
        self, reader: StoreReader, shared_stats: SharedSearchStats | None = None
    ) -> None:
        self._reader = reader
        self._shared_stats = shared_stats
        self._own_stats: SearchStats | None = None
        """What is known of the sessions of this shelf, where nobody shares it."""
        if shared_stats is not None:
            shared_stats.refresh()

    @property
    def stats(self) -> SearchStats:
        """What is known of all sessions: what others know, where there are others."""
        if self._own_stats is None:
            shared = (
                self._shared_stats.stats_for(self._reader)
                if self._shared_stats
                else None
            )
            if shared is not None:
                return shared
            self._own_stats = SearchStats(self._reader)
        return self._own_stats

    def search(  # noqa: PLR0913 (all but one by name and optional)
        self,
        query: Query,
        *,
        limit: int = 10,
        offset: int = 0,
        hits: int = 3,
        sort: str = SortOrder.BEST,
        redact: Callable[[str], str] = str,
    ) -> SearchResults:
        """Return the sessions that answer a query, and their best hits.

        The order is the same for every page of an answer. Where nothing has quoted
        words side by side, they are looked for one by one. ``hide`` is given every text
        before it is cut: a secret that is cut in two is no longer known for one.
        """
        page = _PageRequest(limit, offset, hits, SortOrder(sort), redact)
        with self._reader.read_transaction():
            search = _SearchRun(self._reader, self.stats)
            found = search.run(query, page)
            loose = _unquote_phrases(query) if not found.session_count else query
            if loose == query:
                return found
            other = search.run(loose, page)
        return replace(other, is_phrase_relaxed=True) if other.session_count else found

    def match_positions(self, query: Query, session: int | None) -> MatchPositions:
        """Return all records of a session that fit, in no order; none is told."""
        with self._reader.read_transaction():
            search = _SearchRun(self._reader, self.stats)
            return search.match_positions(query, session)

    def matching_sessions(
        self, query: Query, *, is_exact: bool = False
    ) -> MatchingSessions:
        """Return all sessions that have every word of a query and meet its conditions.

        Other than a search this neither ranks nor folds copies into one another. Typos
        are corrected and quoted words that appear nowhere are looked for one by one,
        unless ``is_exact``.
        """
        with self._reader.read_transaction():
            search = _SearchRun(self._reader, self.stats)
            found = search.matching_sessions(query, is_exact=is_exact)
            loose = query if found.ids or is_exact else _unquote_phrases(query)
            if loose == query:
                return found
            other = search.matching_sessions(loose, is_exact=is_exact)
        return replace(other, is_phrase_relaxed=True) if other.ids else found


class _SearchRun:
    """One search, of what is there now."""

    def __init__(self, reader: StoreReader, stats: SearchStats) -> None:
        self._reader = reader
        self._byte_reader = reader.byte_store
        self._facts = reader.search_facts
        self._annotations: AnnotationsBySession = reader.annotations()
        self._engine = stats.engine
        self._families = stats.families
        self._titles = stats.titles
        self._ranker = SessionRanker(stats, self._facts, self._annotations)

    def match_positions(self, query: Query, session: int | None) -> MatchPositions:
        """Return all records of a session that fit."""
        words, _, missing = self._correct_words(query)
        if session is None or (missing and not words):
            return MatchPositions()
        plan = plan_search(query, words, self._engine, self._facts.abandoned_records)
        teller = self._make_builder(plan, relax_query(query, words))
        records = teller.matching_records(session)
        written, begun = (
            plan.indexed_variants(is_prefix=False),
            plan.indexed_variants(is_prefix=True),
        )
        return MatchPositions(records, teller.is_partial, written, begun)

    def matching_sessions(self, query: Query, *, is_exact: bool) -> MatchingSessions:
        """Return the sessions that have all words and a text that meets all conditions."""
        words, corrections, missing = self._correct_words(query)
        if missing or (corrections and is_exact):
            return MatchingSessions()
        plan = plan_search(query, words, self._engine, self._facts.abandoned_records)
        hit_query = relax_query(query, words)
        ranked = self._ranker.rank(plan, hit_query, SortOrder.NEWEST, 0)
        builder = self._make_builder(plan, hit_query, ranked.title_matches)
        numbers = builder.filter_sessions(ranked.sessions_with_all_words())
        ids = {
            number: id_
            for number, (id_, _) in self._reader.usage.session_projects().items()
        }
        return MatchingSessions(
            ids=frozenset(ids[number] for number in numbers if number in ids),
            corrections=tuple(corrections),
            is_partial=builder.is_partial,
        )

    def _make_builder(
        self,
        plan: SearchPlan,
        hit_query: Query,
        title_matches: frozenset[int] = frozenset(),
        redact: Callable[[str], str] = str,
    ) -> ResultBuilder:
        subjects = TextLoader(
            self._byte_reader,
            self._facts,
            self._annotations,
            resolve_calls=bool(plan.text_conditions),
        )
        return ResultBuilder(
            subjects,
            self._engine,
            plan,
            hit_query,
            titles=self._titles,
            title_matches=title_matches,
            families=self._families,
            redact=redact,
        )

    def run(self, query: Query, request: _PageRequest) -> SearchResults:
        """Return a page of what answers a query."""
        words, repairs, missing = self._correct_words(query)
        if missing and not words:
            return SearchResults(missing_words=tuple(missing), notes=query.notes)
        plan = plan_search(query, words, self._engine, self._facts.abandoned_records)
        checked = relax_query(query, words)
        ranked = self._ranker.rank(
            plan, checked, request.sort, request.offset + request.limit
        )
        teller = self._make_builder(plan, checked, ranked.title_matches, request.redact)
        page, more = teller.build_page(
            ranked.sessions, request.offset, request.limit, request.hits_per_session
        )
        bound = (
            CountBound.AT_MOST if more and plan.text_conditions else CountBound.EXACT
        )
        if teller.is_partial:
            bound = CountBound.AT_LEAST
        elif ranked.estimated_total:
            bound = CountBound.ABOUT
        return SearchResults(
            sessions=tuple(
                SessionMatch(
                    summary=told.summary,
                    highlighted_title=told.highlighted_title,
                    score=ranked.scores.by_session[told.session_number],
                    matched_words=ranked.matched_words(told.session_number),
                    hit_count=told.hit_count,
                    hit_count_bound=told.hit_count_bound,
                    hits=told.hits[: request.hits_per_session],
                    duplicate_ids=told.duplicate_ids,
                    word_shares=tuple(
                        ranked.iter_word_shares(told.session_number, self._ranker.norms)
                    ),
                )
                for told in page
            ),
            session_count=max(
                request.offset + len(page) + more, ranked.estimated_total
            ),
            session_count_bound=bound,
            query_words=tuple(unit.label for unit in plan.plain_words),
            full_match_count=ranked.complete_count,
            corrections=tuple(repairs),
            missing_words=tuple(missing),
            notes=query.notes,
            is_partial=teller.is_partial,
            is_empty_query=not plan.terms and not query.conditions,
        )

    def _correct_words(
        self, query: Query
    ) -> tuple[list[str], list[SpellingCorrection], list[str]]:
        """Return the words that count, with those changed that nobody wrote."""
        words: list[str] = []
        repairs: list[SpellingCorrection] = []
        missing: list[str] = []
        rarest = self._rarest_words(drop_stop_words(query.plain_words))
        self._prefetch_terms(query, rarest)
        for word in rarest:
            found = expand_word(word, self._engine.tokenize)
            if found is None:
                continue
            if any(map(self._is_indexed, found.runs)):
                words.append(word)
                continue
            meant = [
                other for run in found.runs[:1] for other in self._suggest_words(run)
            ]
            if meant:
                repairs.append(SpellingCorrection(word, " ".join(meant)))
                words += [other for other in meant if other not in words]
            else:
                missing.append(word)
        return words, repairs, missing

    def _prefetch_terms(self, query: Query, words: Sequence[str]) -> None:
        """Tell the engine of all terms that it will be asked for."""
        analyse = self._engine.tokenize
        said = [words, *_condition_words(query)]
        ways = [way for some in said for way in expand_words(some, analyse) if way]
        terms = {term for way in ways for run in way.runs for term in run}
        others = {term for word in query.plain_words for term in analyse(word)}
        self._engine.prefetch(terms, others - terms)

    def _suggest_words(self, run: TermRun) -> Iterator[str]:
        """Yield what may be meant by a word that nobody wrote so."""
        if len(run) > 1:
            # Its parts may be there, though never side by side.
            yield from (term for term in drop_stop_words(run) if self._has_term(term))
        elif other := self._engine.correct_spelling(run[0]):
            yield other

    def _is_indexed(self, run: TermRun) -> bool:
        if len(run) == 1:
            return self._has_term(run[0])
        if not all(map(self._engine.frequency, run)):
            return False
        return bool(self._engine.best_keys(self._engine.match_phrase(run), 1)[0])

    def _has_term(self, term: str) -> bool:
        return bool(self._engine.word_forms(term)) or self._titles.has_term(term)

    def _rarest_words(self, words: Sequence[str]) -> Sequence[str]:
        if len(words) <= MAX_WORDS:
            return words

        def rarity(word: str) -> int:
            terms = self._engine.tokenize(word)
            return min(map(self._engine.frequency, terms), default=0)

        chosen = set(sorted(words, key=rarity)[:MAX_WORDS])
        return [word for word in words if word in chosen]


def _condition_words(query: Query) -> Iterator[tuple[str, ...]]:
    """Yield the words that conditions look for."""
    for condition in query.conditions:
        for leaf in iter_leaves(condition):
            if isinstance(leaf, Words):
                yield leaf.words


def _unquote_phrases(query: Query) -> Query:
    """Return a query in which quoted words are words."""
    terms = query.root.terms if isinstance(query.root, And) else (query.root,)
    loose = [
        Words(tuple(term.text.split())) if isinstance(term, Phrase) else term
        for term in terms
        if term is not None
    ]
    return Query(and_terms(loose), query.notes)
