"""Search an archive: correct the words, rank the sessions, build a page of results."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from bygones.model.base import SessionId
from bygones.model.query import And, Exclusion, FieldValue, Phrase, Query, Words
from bygones.model.summary import (
    CountBound,
    MatchPositions,
    SearchResults,
    SessionMatch,
    SpellingCorrection,
)
from bygones.query.fields import iter_leaves
from bygones.query.matcher import asks_for_hidden
from bygones.query.parser import and_terms, exclude_from
from bygones.query.tokens import (
    TermRun,
    drop_stop_words,
    expand_word,
    expand_words,
    split_alternatives,
)
from bygones.search.plan import SearchPlan, mark_calls, plan_search, relax_query
from bygones.search.ranking import RankedSessions, SessionRanker, SortOrder
from bygones.search.results import ResultBuilder
from bygones.search.scoring import SearchStats, SharedSearchStats
from bygones.search.texts import AnnotationsBySession, TextLoader
from bygones.store.protocols import StoreReader
from bygones.store.word_forms import stem_word

if TYPE_CHECKING:
    from bygones.search.hidden import HiddenSearch

_ID_PATTERN = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){0,3}(?:-[0-9a-fA-F]{12})?")
_UUID_LENGTH = 36
_MIN_COMPLETED_LENGTH = 2
_MAX_COMPLETIONS = 2
_SIMILAR_SHARE = 3
"""A second completion is at least one in this many of the best one."""
_FREQUENT_SHARE = 10
"""A word is not completed if it is at least one in this many of the best completion."""
MAX_WORDS = 16
"""Words of a query that count; of more, the rarest do."""


class _PageRequest(Struct, frozen=True):
    limit: int
    offset: int
    hits_per_session: int
    sort: SortOrder
    redact: Callable[[str], str]
    exclusion: Exclusion


class MatchingSessions(Struct, frozen=True):
    """The sessions that match a query, and how it had to be changed for that."""

    ids: frozenset[SessionId] = frozenset()
    corrections: tuple[SpellingCorrection, ...] = ()
    is_phrase_relaxed: bool = False
    is_partial: bool = False
    """Whether there may be more: not every record could be opened."""


class _ResolvedWords(Struct, frozen=True):
    """The plain words of a query after spelling correction."""

    words: list[str]
    corrections: list[SpellingCorrection]
    missing: list[str]
    """Words that appear nowhere, nor any like them."""


class Searcher:
    """Answers queries from one store; statistics may be shared with other searchers."""

    def __init__(
        self, reader: StoreReader, shared_stats: SharedSearchStats | None = None
    ) -> None:
        self._reader = reader
        self._shared_stats = shared_stats
        self._own_stats: SearchStats | None = None
        if shared_stats is not None:
            shared_stats.refresh()

    @property
    def stats(self) -> SearchStats:
        """Statistics of all sessions: the shared ones, if they are of this store."""
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
        exclusion: Exclusion | None = None,
    ) -> SearchResults:
        """Return the sessions that match a query, with their best hits.

        The order is the same for every page. If no text has a quoted phrase, its words
        are searched for one by one. ``redact`` is applied to each text before an excerpt
        is cut out of it, because half a secret is not recognized as one. What an
        ``exclusion`` leaves out is ranked like everything else, then dropped.
        """
        page = _PageRequest(
            limit, offset, hits, SortOrder(sort), redact, exclusion or Exclusion()
        )
        if asks_for_hidden(query):
            query = exclude_from(query, exclusion)
            with self._reader.read_transaction():
                return self._search_hidden(query).search(
                    limit=limit, offset=offset, hits=hits, redact=redact
                )
        with self._reader.read_transaction():
            search = _SearchRun(self._reader, self.stats)
            results = search.run(query, page)
            results = replace(results, named_id=self._find_id(query))
            relaxed = _unquote_phrases(query) if not results.session_count else query
            if relaxed == query:
                return results
            relaxed_results = search.run(relaxed, page)
        if not relaxed_results.session_count:
            return results
        return replace(relaxed_results, is_phrase_relaxed=True)

    def _search_hidden(self, query: Query) -> HiddenSearch:
        from bygones.search.hidden import HiddenSearch

        return HiddenSearch(self._reader, self.stats.engine, query)

    def _find_id(self, query: Query) -> str:
        """Return the id of a session or record that the query consists of, if any."""
        word = query.plain_words[0] if len(query.plain_words) == 1 else ""
        if query.conditions or _ID_PATTERN.fullmatch(word) is None:
            return ""
        lookup = self._reader.lookup
        word = word.casefold()
        is_record = len(word) == _UUID_LENGTH and lookup.find_records(word, 1)
        return word if is_record or lookup.find_sessions(word, 1) else ""

    def complete_last_word(self, query: Query) -> Query:
        """Return a query in which the last plain word may be the start of a word.

        The most frequent words that start with it are added, unless it is frequent
        itself. This is cheaper than a prefix: a search stays as fast as one for words.
        """
        words = query.plain_words
        terms = self.stats.engine.tokenize(words[-1]) if words else []
        if len(terms) != 1 or len(terms[0]) < _MIN_COMPLETED_LENGTH:
            return query
        counts = dict(self.stats.engine.terms_with_prefix(terms[0]))
        own_count = counts.get(terms[0], 0)
        if own_count * _FREQUENT_SHARE >= max(counts.values(), default=0):
            return query
        by_stem: dict[str, str] = {}
        ordered = sorted(counts, key=lambda term: (-counts[term], term))
        for term in ordered:
            if counts[term] * _SIMILAR_SHARE >= counts[ordered[0]]:
                by_stem.setdefault(stem_word(term), term)
        found = [term for term in by_stem.values() if term != terms[0]]
        own_word = words[-1:] if own_count else ()
        completed = (*words[:-1], *own_word, *found[:_MAX_COMPLETIONS])
        return Query(and_terms([Words(completed), *query.conditions]), query.notes)

    def match_positions(self, query: Query, session: int | None) -> MatchPositions:
        """Return all records of a session that match, without opening a hit."""
        if asks_for_hidden(query):
            return MatchPositions()
        with self._reader.read_transaction():
            return _SearchRun(self._reader, self.stats).match_positions(query, session)

    def matching_sessions(
        self, query: Query, *, is_exact: bool = False
    ) -> MatchingSessions:
        """Return all sessions that have every word of a query and meet its conditions.

        Unlike `search` this neither ranks sessions nor folds copies together. Typos are
        corrected and phrases that appear nowhere are relaxed, unless ``is_exact``.
        """
        if asks_for_hidden(query):
            with self._reader.read_transaction():
                hidden = self._search_hidden(query)
                return MatchingSessions(hidden.matching_sessions())
        with self._reader.read_transaction():
            search = _SearchRun(self._reader, self.stats)
            matching = search.matching_sessions(query, is_exact=is_exact)
            is_final = matching.ids or is_exact
            relaxed = query if is_final else _unquote_phrases(query)
            if relaxed == query:
                return matching
            other = search.matching_sessions(relaxed, is_exact=is_exact)
        return replace(other, is_phrase_relaxed=True) if other.ids else matching


class _SearchRun:
    """One search in one read transaction."""

    def __init__(self, reader: StoreReader, stats: SearchStats) -> None:
        self._reader = reader
        self._facts = reader.search_facts
        self._stats = stats
        self._annotations: AnnotationsBySession = reader.annotations()
        self._engine = stats.engine
        self._families = stats.families
        self._titles = stats.titles
        self._ranker = SessionRanker(stats, self._facts, self._annotations)

    def run(self, query: Query, request: _PageRequest) -> SearchResults:
        resolved = self._resolve_words(query)
        if resolved.missing and not resolved.words:
            return SearchResults(
                missing_words=tuple(resolved.missing), notes=query.notes
            )
        plan = self._plan(query, resolved.words)
        hit_query = relax_query(query, resolved.words)
        needed = request.offset + request.limit
        ranked = self._ranker.rank(plan, hit_query, request.sort, needed)
        builder = self._make_builder(
            plan, hit_query, ranked.title_matches, request.redact
        )
        if request.exclusion != Exclusion():
            excluded = self._excluded_sessions(request.exclusion.session_id)
            builder.exclude(request.exclusion.result_phrase)
            remaining = builder.without_excluded(ranked, excluded, needed)
            if len(remaining.sessions) < needed and ranked.estimated_total:
                dropped = len(ranked.sessions) - len(remaining.sessions)
                ranked = self._ranker.rank(
                    plan, hit_query, request.sort, needed + dropped
                )
                remaining = builder.without_excluded(ranked, excluded, needed)
            ranked = remaining
        page, rest = builder.build_page(
            ranked, request.offset, request.limit, request.hits_per_session
        )
        return SearchResults(
            sessions=tuple(
                self._complete_match(number, match, ranked, request.hits_per_session)
                for number, match in page.items()
            ),
            session_count=max(
                request.offset + len(page) + rest, ranked.estimated_total
            ),
            session_count_bound=_count_bound(plan, builder, ranked, rest),
            query_words=tuple(term.label for term in plan.plain_words),
            full_match_count=ranked.complete_count,
            corrections=tuple(resolved.corrections),
            missing_words=tuple(resolved.missing),
            notes=query.notes,
            is_partial=builder.is_partial,
            is_empty_query=not plan.terms and not query.conditions,
        )

    def _excluded_sessions(self, session_id: str | None) -> frozenset[int]:
        """Return the session with an id, or the sessions that contain it."""
        if session_id is None:
            return frozenset()
        number = self._reader.sessions.session_number(SessionId(session_id))
        if number is not None:
            return frozenset({number})
        return frozenset(self._ranker.sessions_with(FieldValue("session", session_id)))

    def match_positions(self, query: Query, session: int | None) -> MatchPositions:
        resolved = self._resolve_words(query)
        if session is None or (resolved.missing and not resolved.words):
            return MatchPositions()
        plan = self._plan(query, resolved.words)
        builder = self._make_builder(plan, relax_query(query, resolved.words))
        records = builder.matching_records(session)
        return MatchPositions(
            records,
            builder.is_partial,
            plan.indexed_variants(is_prefix=False),
            plan.indexed_variants(is_prefix=True),
            tuple(plan.regexes),
        )

    def matching_sessions(self, query: Query, *, is_exact: bool) -> MatchingSessions:
        resolved = self._resolve_words(query)
        if resolved.missing or (resolved.corrections and is_exact):
            return MatchingSessions()
        plan = self._plan(query, resolved.words)
        hit_query = relax_query(query, resolved.words)
        ranked = self._ranker.rank(plan, hit_query, SortOrder.NEWEST, 0)
        builder = self._make_builder(plan, hit_query, ranked.title_matches)
        numbers = builder.filter_sessions(ranked.sessions_with_all_words())
        sessions = self._reader.usage.session_projects()
        return MatchingSessions(
            ids=frozenset(sessions[n][0] for n in numbers if n in sessions),
            corrections=tuple(resolved.corrections),
            is_partial=builder.is_partial,
        )

    def _plan(self, query: Query, words: Sequence[str]) -> SearchPlan:
        plan = plan_search(query, words, self._engine, self._facts.abandoned_records)
        return mark_calls(plan, lambda: self._stats.tool_names(self._facts))

    def _make_builder(
        self,
        plan: SearchPlan,
        hit_query: Query,
        title_matches: frozenset[int] = frozenset(),
        redact: Callable[[str], str] = str,
    ) -> ResultBuilder:
        loader = TextLoader(
            self._reader.byte_store,
            self._facts,
            self._annotations,
            resolve_calls=bool(plan.text_conditions),
        )
        return ResultBuilder(
            loader,
            self._engine,
            plan,
            hit_query,
            titles=self._titles,
            title_matches=title_matches,
            families=self._families,
            redact=redact,
        )

    def _complete_match(
        self, number: int, match: SessionMatch, ranked: RankedSessions, hits: int
    ) -> SessionMatch:
        """Add what depends on the ranking, and drop hits that were only checked."""
        shares = ranked.iter_word_shares(number)
        parts = tuple(self._ranker.score_parts(ranked, number))
        return replace(
            match,
            score=sum(part.value for part in parts),
            score_parts=parts,
            matched_words=ranked.matched_words(number),
            hits=match.hits[:hits],
            word_shares=tuple(shares),
        )

    def _resolve_words(self, query: Query) -> _ResolvedWords:
        """Return the plain words that count, with typos corrected."""
        words: list[str] = []
        corrections: list[SpellingCorrection] = []
        missing: list[str] = []
        candidates = self._rarest_words(drop_stop_words(query.plain_words))
        self._prefetch_terms(query, candidates)
        for word in candidates:
            variants = expand_word(word, self._engine.tokenize)
            if variants is None:
                continue
            if any(map(self._is_indexed, variants.runs)):
                words += [word, *filter(self._has_word, split_alternatives(word))]
                continue
            suggestions = list(self._suggest_words(variants.runs[0]))
            if suggestions:
                corrections.append(SpellingCorrection(word, " ".join(suggestions)))
                words += [other for other in suggestions if other not in words]
            else:
                missing.append(word)
        return _ResolvedWords(list(dict.fromkeys(words)), corrections, missing)

    def _prefetch_terms(self, query: Query, words: Sequence[str]) -> None:
        """Announce all terms to the engine, so that it loads them together."""
        tokenize = self._engine.tokenize
        variants = [
            word_variants
            for some_words in (words, *_condition_words(query))
            for word_variants in expand_words(some_words, tokenize)
            if word_variants
        ]
        terms = {term for one in variants for run in one.runs for term in run}
        others = {term for word in query.plain_words for term in tokenize(word)}
        self._engine.prefetch(terms, others - terms)

    def _suggest_words(self, run: TermRun) -> Iterator[str]:
        """Yield the words that may be meant by one that appears nowhere."""
        if len(run) > 1:
            # Its parts may appear, though never next to each other.
            yield from (term for term in drop_stop_words(run) if self._has_term(term))
        elif other := self._engine.correct_spelling(run[0]):
            yield other

    def _is_indexed(self, run: TermRun) -> bool:
        if len(run) == 1:
            return self._has_term(run[0])
        if not all(map(self._engine.frequency, run)):
            return False
        return bool(self._engine.best_keys(self._engine.match_phrase(run), 1)[0])

    def _has_word(self, word: str) -> bool:
        return any(map(self._has_term, self._engine.tokenize(word)))

    def _has_term(self, term: str) -> bool:
        return bool(self._engine.word_forms(term)) or self._titles.has_term(term)

    def _rarest_words(self, words: Sequence[str]) -> Sequence[str]:
        if len(words) <= MAX_WORDS:
            return words

        def rarity(word: str) -> int:
            terms = self._engine.tokenize(word)
            return min(map(self._engine.frequency, terms), default=0)

        rarest = set(sorted(words, key=rarity)[:MAX_WORDS])
        return [word for word in words if word in rarest]


def _count_bound(
    plan: SearchPlan, builder: ResultBuilder, ranked: RankedSessions, rest: int
) -> CountBound:
    """Return how exact the number of sessions is."""
    if builder.is_partial:
        return CountBound.AT_LEAST
    if ranked.estimated_total:
        return CountBound.ABOUT
    return CountBound.AT_MOST if rest and plan.text_conditions else CountBound.EXACT


def _condition_words(query: Query) -> Iterator[tuple[str, ...]]:
    for condition in query.conditions:
        for leaf in iter_leaves(condition):
            if isinstance(leaf, Words):
                yield leaf.words


def _unquote_phrases(query: Query) -> Query:
    """Return a query in which top-level phrases are plain words."""
    terms = query.root.terms if isinstance(query.root, And) else (query.root,)
    unquoted = [
        Words(tuple(term.text.split())) if isinstance(term, Phrase) else term
        for term in terms
        if term is not None
    ]
    return Query(and_terms(unquoted), query.notes)
