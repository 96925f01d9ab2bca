"""Rank sessions by the words of a query.

How many sessions have a word is always exact. Where rare words are, is counted in all
sessions. Words that many texts have are counted only in sessions that may be among the
best: counting them everywhere would take too long, and the order of the last of ten
thousand sessions does not matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from heapq import nlargest
from itertools import accumulate, chain, repeat

from msgspec import Struct
from msgspec.structs import replace

from bygones.model.query import (
    KINDS_PER_SESSION,
    FieldTerm,
    FieldValue,
    Flag,
    Part,
    Query,
    Term,
    TimeRange,
    pack_text_key,
    text_key_part,
)
from bygones.model.summary import ScorePart, ScorePartKind, WordShare
from bygones.query.fields import FIELDS, SearchableText, iter_leaves
from bygones.query.matcher import matches_text
from bygones.search.plan import ScoredTerm, SearchPlan, matching_kinds
from bygones.search.scoring import (
    CorpusNorms,
    SearchStats,
    SessionScores,
    TermCounts,
    TitleIndex,
    add_record_scores,
    idf,
    score_words,
    term_contribution,
)
from bygones.search.texts import AnnotationsBySession, make_title_text
from bygones.store.annotations import with_annotations
from bygones.store.protocols import EngineQuery, SearchEngine, SearchFacts
from bygones.store.text_index import TextMatch, stem_word

_MAX_EXACT_TEXTS = 2_000
"""Texts up to which words are counted in all sessions, summed over the words."""
_FEW_SESSIONS = 500
"""With at most this many sessions everything is counted everywhere."""
_MAX_CANDIDATES = 60
"""How many sessions each criterion contributes to the candidates for the best."""
_SAMPLE_SIZE = 120
"""Of how many of the engine's best texts the sessions become candidates."""
_MAX_VERBATIM_TEXTS = 2_000
"""Texts that have the words as they were typed, of which the sessions are known."""
_MAX_RECORD_SESSIONS = 80
"""Sessions whose records are scored."""
_MAX_SCORED_TEXTS = 1_000
"""Texts of the best sessions that are scored as records."""
_UNIQUE_FIELDS = {field.name for field in FIELDS if field.is_unique}
"""Fields that differ between the sessions of a group."""
_IS_EMPTY = FieldValue("is", Flag.EMPTY)
_IS_STARRED = FieldValue("is", Flag.STARRED)


class TextFilter(Struct, frozen=True):
    """Which sessions and kinds of text count; none means all."""

    sessions: set[int] | None = None
    kinds: frozenset[int] | None = None

    def apply(self, counts: Mapping[int, int]) -> dict[int, int]:
        """Return the counts, by text key, of the texts that pass."""
        sessions, kinds = self.sessions, self.kinds
        if sessions is None and kinds is None:
            return dict(counts)
        return {
            key: count
            for key, count in counts.items()
            if (kinds is None or key % KINDS_PER_SESSION in kinds)
            and (sessions is None or key // KINDS_PER_SESSION in sessions)
        }


class CountRequest(Struct, frozen=True):
    """What to count, and in which texts."""

    plan: SearchPlan
    terms: tuple[ScoredTerm, ...]
    text_filter: TextFilter
    title_matches: frozenset[int]
    """Sessions whose title matches the query."""
    verbatim_matches: frozenset[int] = frozenset()
    """Sessions that have the words as they were typed."""


class CountResult(Struct, frozen=True):
    """In which texts the terms of a plan appear."""

    term_counts: tuple[TermCounts, ...]
    is_complete: bool = True
    """Whether every term was counted in all sessions."""
    estimated_total: int = 0
    """How many sessions there may be in all, if not."""
    best_text_sessions: frozenset[int] = frozenset()
    """The sessions of the texts that the engine ranks best, if they were looked for."""


class TermCounter:
    """Counts the terms of a query."""

    def __init__(
        self,
        engine: SearchEngine,
        titles: TitleIndex,
        norms: CorpusNorms,
        session_count: int,
    ) -> None:
        self._engine = engine
        self._titles = titles
        self._norms = norms
        self._session_count = session_count

    def count(self, request: CountRequest) -> CountResult:
        """Count each term in texts and titles, the rarest first.

        Once many texts were counted, the remaining terms are counted only in sessions
        that are among the best by the terms so far, by all their words, by their
        title, or by one text.
        """
        terms, allowed = request.terms, request.text_filter.sessions
        size = self._session_count if allowed is None else len(allowed)
        if size <= _FEW_SESSIONS:
            return self.count_all(request)
        sizes = [self._count_texts(term) for term in terms]
        order = sorted(range(len(terms)), key=sizes.__getitem__)
        cumulative = accumulate(sizes[index] for index in order)
        common = {
            index
            for index, total in zip(order, cumulative, strict=True)
            if total > _MAX_EXACT_TEXTS and terms[index].index_terms
        }
        if not common:
            return self.count_all(request)
        rare = [index for index in order if index not in common]
        rare_counts = self._count_terms(request, [terms[index] for index in rare])
        counts = dict(zip(rare, rare_counts, strict=True))
        idfs = {index: self._idf(terms[index]) for index in common}
        weights = [
            counts[index].idf if index in counts else idfs[index]
            for index in range(len(terms))
        ]
        best_texts = self.find_best_texts(request)
        candidates = best_texts | self._find_candidates(request, rare_counts, weights)
        common_terms = [terms[index] for index in sorted(common)]
        found = self._count_terms(
            request, common_terms, self._engine.in_sessions(candidates)
        )
        for index, one in zip(sorted(common), found, strict=True):
            counts[index] = TermCounts(idfs[index], one.counts, one.is_identifier)
        return CountResult(
            tuple(counts[index] for index in range(len(terms))),
            is_complete=False,
            estimated_total=self._count_sessions(terms),
            best_text_sessions=frozenset(best_texts),
        )

    def count_all(self, request: CountRequest) -> CountResult:
        """Count each term in all sessions."""
        return CountResult(tuple(self._count_terms(request, request.terms)))

    def find_verbatim(self, plan: SearchPlan, text_filter: TextFilter) -> set[int]:
        """Return the sessions that have the words side by side, as they were typed.

        If there are none, return those that have half of them so.
        """
        for query in plan.verbatim:
            _, found = self._engine.best_keys(
                self._with_required(plan, query), _MAX_VERBATIM_TEXTS
            )
            counts = text_filter.apply(found)
            if counts:
                return {key // KINDS_PER_SESSION for key in counts}
        return set()

    def _count_terms(
        self,
        request: CountRequest,
        terms: Sequence[ScoredTerm],
        candidates: EngineQuery | None = None,
    ) -> list[TermCounts]:
        queries = [self._build_query(request, term, candidates) for term in terms]
        term_counts: list[TermCounts] = []
        for term, found in zip(terms, self._engine.count_many(queries), strict=True):
            counts = request.text_filter.apply(found)
            for session in self._titles.sessions_matching(term) & request.title_matches:
                counts[pack_text_key(session, Part.TITLE)] = 1
            sessions = len({key // KINDS_PER_SESSION for key in counts})
            weight = idf(sessions, self._session_count)
            term_counts.append(TermCounts(weight, counts, term.is_identifier))
        return term_counts

    def _build_query(
        self, request: CountRequest, term: ScoredTerm, candidates: EngineQuery | None
    ) -> EngineQuery:
        plan, sessions = request.plan, request.text_filter.sessions
        queries = [one for one in (plan.required, candidates) if one is not None]
        if term.indexed_variants or not queries:
            queries.append(term.query)
        if sessions is not None and len(sessions) <= _FEW_SESSIONS:
            queries.append(self._engine.in_sessions(sessions))
        return self._engine.all_of(queries)

    def score_texts(
        self,
        request: CountRequest,
        term_counts: Sequence[TermCounts],
        sessions: Sequence[int],
    ) -> list[TextMatch]:
        """Return texts of some sessions by the words that they have, best first."""
        queries = [
            (term.query, counts.idf)
            for term, counts in zip(request.terms, term_counts, strict=True)
            if term.indexed_variants and counts.idf
        ]
        if not sessions or not queries:
            return []
        required = request.plan.required
        conditions = [] if required is None else [required]
        texts = self._engine.score_texts(
            queries, sorted(sessions), conditions, _MAX_SCORED_TEXTS
        )
        kinds = request.text_filter.kinds
        return [
            text
            for text in texts
            if kinds is None or text.text_key % KINDS_PER_SESSION in kinds
        ]

    def _find_candidates(
        self,
        request: CountRequest,
        term_counts: Sequence[TermCounts],
        weights: Sequence[float],
    ) -> set[int]:
        """Return sessions that may be among the best.

        These are the best by the terms that were counted, by all their words, and by
        titles.
        """
        scores = score_words(term_counts, self._norms).by_session
        chosen = set(nlargest(_MAX_CANDIDATES, scores, key=scores.__getitem__))
        chosen.update(sorted(request.verbatim_matches)[-_MAX_CANDIDATES:])
        terms_in_title = dict.fromkeys(request.title_matches, 0)
        for term in request.terms:
            for session in self._titles.sessions_matching(term) & terms_in_title.keys():
                terms_in_title[session] += 1
        chosen.update(
            nlargest(
                _MAX_CANDIDATES,
                terms_in_title,
                key=lambda session: (terms_in_title[session], session),
            )
        )
        words = [
            (term.index_terms, weight)
            for term, weight in zip(request.terms, weights, strict=True)
            if term.index_terms
        ]
        chosen.update(self._engine.best_sessions(words, _MAX_CANDIDATES))
        allowed = request.text_filter.sessions
        return chosen if allowed is None else chosen & allowed

    def find_best_texts(self, request: CountRequest) -> set[int]:
        """Return the sessions of the texts that the engine ranks best."""
        # One form of each word is enough to choose by, and takes half as long.
        query = self._engine.any_of([_first_query(term) for term in request.terms])
        _, sample = self._engine.best_keys(
            self._with_required(request.plan, query), _SAMPLE_SIZE
        )
        sessions = {key // KINDS_PER_SESSION for key in sample}
        allowed = request.text_filter.sessions
        return sessions if allowed is None else sessions & allowed

    def _with_required(self, plan: SearchPlan, query: EngineQuery) -> EngineQuery:
        if plan.required is None:
            return query
        return self._engine.all_of([query, plan.required])

    def _count_texts(self, term: ScoredTerm) -> int:
        """Return at most how many texts have a term."""
        if term.index_terms:
            return sum(map(self._engine.frequency, term.index_terms))
        return sum(
            min(map(self._engine.frequency, run)) for run in term.indexed_variants
        )

    def _idf(self, term: ScoredTerm) -> float:
        sessions = self._engine.count_sessions(term.index_terms)
        return idf(sessions, self._session_count)

    def _count_sessions(self, terms: Sequence[ScoredTerm]) -> int:
        """Return how many sessions have one of the terms, without phrases."""
        return self._engine.count_sessions(
            list(dict.fromkeys(chain.from_iterable(t.index_terms for t in terms)))
        )


def _first_query(term: ScoredTerm) -> EngineQuery:
    if term.variant_queries and not term.is_prefix:
        return term.variant_queries[0]
    return term.query


class SortOrder(StrEnum):
    """The order of search results."""

    BEST = "best"
    NEWEST = "newest"
    OLDEST = "oldest"


class RankedSessions(Struct, frozen=True):
    """Sessions in order, with the counts and scores that gave this order."""

    sessions: list[int]
    terms: tuple[ScoredTerm, ...]
    term_counts: tuple[TermCounts, ...]
    scores: SessionScores
    title_matches: frozenset[int]
    """Sessions whose title matches the query."""
    estimated_total: int = 0
    """How many there may be in all, if not all were counted."""

    @property
    def complete_count(self) -> int:
        """How many sessions have all of the words."""
        return len(self._complete_sessions or ())

    def sessions_with_all_words(self) -> list[int]:
        """Return the sessions that have every plain word, in order."""
        complete = self._complete_sessions
        if complete is None:
            return self.sessions
        return [session for session in self.sessions if session in complete]

    @property
    def _complete_sessions(self) -> frozenset[int] | None:
        """The sessions that have every plain word; none if there are no words."""
        by_word = [sessions for _, sessions in self._sessions_by_word()]
        return frozenset.intersection(*by_word) if by_word else None

    def _sessions_by_word(self) -> Iterator[tuple[str, frozenset[int]]]:
        for term, sessions in zip(
            self.terms, self.scores.sessions_by_term, strict=True
        ):
            if term.is_plain_word:
                yield term.label, sessions

    def matched_words(self, session: int) -> tuple[str, ...]:
        """Return the plain words that a session has."""
        return tuple(
            word for word, sessions in self._sessions_by_word() if session in sessions
        )

    def iter_word_shares(self, session: int, norms: CorpusNorms) -> Iterator[WordShare]:
        """Yield how much each word contributes to a session's score, and where it is."""
        contributions = [
            term_contribution(term, session, norms) for term in self.term_counts
        ]
        total = sum(contributions) or 1.0
        first_key = session * KINDS_PER_SESSION
        for term, term_counts, contribution in zip(
            self.terms, self.term_counts, contributions, strict=True
        ):
            records: dict[Part, int] = {}
            for key in range(first_key, first_key + KINDS_PER_SESSION):
                if count := term_counts.counts.get(key, 0):
                    part = text_key_part(key)
                    records[part] = records.get(part, 0) + count
            if records and term.label:
                yield WordShare(
                    term.label, contribution / total, tuple(records.items())
                )


class SessionRanker:
    """Ranks the sessions of one store."""

    def __init__(
        self, stats: SearchStats, facts: SearchFacts, annotations: AnnotationsBySession
    ) -> None:
        self._stats = stats
        self._facts = facts
        self._annotations = annotations
        self._engine = stats.engine
        self._titles = stats.titles
        self._ended_ms = stats.ended_ms
        self.norms = stats.norms
        self._counter = TermCounter(
            stats.engine, stats.titles, stats.norms, len(stats.ended_ms)
        )

    def rank(
        self, plan: SearchPlan, hit_query: Query, sort: SortOrder, min_count: int
    ) -> RankedSessions:
        """Return the sessions that may match a query, in order.

        At least ``min_count`` of them, if there are as many: frequent words may not be
        counted everywhere for the first ones.
        """
        text_filter = self._make_filter(plan)
        terms = plan.terms
        if not plan.plain_words and not plan.is_covered_by_terms:
            # A text may match without any of the terms.
            terms += (
                ScoredTerm("", self._engine.match_all(), (), (), is_plain_word=False),
            )
        titles = self._match_titles(plan, terms, hit_query, text_filter)
        verbatim = self._counter.find_verbatim(plan, text_filter)
        request = CountRequest(plan, terms, text_filter, titles, frozenset(verbatim))
        can_estimate = (
            sort is SortOrder.BEST
            and bool(plan.terms)
            and not plan.text_conditions
            and text_filter.kinds is None
        )
        counted = (
            self._counter.count(request)
            if can_estimate
            else self._counter.count_all(request)
        )
        scores = self._score(request, counted, is_ranked=sort is SortOrder.BEST)
        order = self._sort_sessions(
            _matching_scores(plan, terms, scores), sort, is_scored=bool(plan.terms)
        )
        estimate = (
            0 if counted.is_complete else max(counted.estimated_total, len(order))
        )
        if estimate and len(order) < min_count:
            # The others follow, newest first.
            counted = self._counter.count_all(request)
            all_scores = score_words(counted.term_counts, self.norms)
            rest = _matching_scores(plan, terms, all_scores).keys() - set(order)
            order += self._sort_sessions(
                dict.fromkeys(rest, 0.0), sort, is_scored=False
            )
            scores = replace(
                scores,
                by_session=all_scores.by_session | scores.by_session,
                words=all_scores.words | scores.words,
                sessions_by_term=all_scores.sessions_by_term,
            )
            estimate = 0
        return RankedSessions(
            order, terms, counted.term_counts, scores, titles, estimate
        )

    def score_parts(self, ranked: RankedSessions, session: int) -> Iterator[ScorePart]:
        """Yield the parts of the score by which a session was ranked."""
        yield from ranked.scores.parts_of(session)
        recency = self._stats.recency.get(session, 0.0)
        if recency:
            yield ScorePart(ScorePartKind.RECENCY, recency)

    def _score(
        self, request: CountRequest, counted: CountResult, *, is_ranked: bool
    ) -> SessionScores:
        """Return the scores of the sessions that were counted.

        The records of the best ones by their words are scored too, if that matters.
        """
        by_words = score_words(counted.term_counts, self.norms)
        if not is_ranked or not request.plan.terms:
            return by_words
        matching = _matching_scores(request.plan, request.terms, by_words)
        coverage = dict.fromkeys(matching, 0.0)
        total_idf = sum(one.idf for one in counted.term_counts) or 1.0
        for one, sessions in zip(
            counted.term_counts, by_words.sessions_by_term, strict=True
        ):
            for session in sessions & coverage.keys():
                coverage[session] += one.idf / total_idf
        best = nlargest(
            _MAX_RECORD_SESSIONS,
            matching,
            key=lambda session: (matching[session] + coverage[session], session),
        )
        chosen = set(best)
        if len(matching) > len(best):
            # One text may be among the best though its session isn't.
            sample = counted.best_text_sessions or self._counter.find_best_texts(
                request
            )
            chosen |= sample & matching.keys()
        texts = self._counter.score_texts(request, counted.term_counts, sorted(chosen))
        titled = self._titles.sessions_titled(request.plan.typed_terms)
        return add_record_scores(
            by_words,
            texts,
            request.verbatim_matches,
            titled & request.title_matches,
            calling=self._calling_sessions(request.terms, counted),
        )

    def _calling_sessions(
        self, terms: Sequence[ScoredTerm], counted: CountResult
    ) -> set[int]:
        """Return the sessions with calls that a query of nothing else names."""
        found = []
        for term, counts in zip(terms, counted.term_counts, strict=True):
            if term.tool_name:
                found.append(self._facts.sessions_calling(term.tool_name))
            elif term.is_file_name:
                keys = counts.counts
                in_calls = (key for key in keys if text_key_part(key) is Part.TOOL)
                found.append({key // KINDS_PER_SESSION for key in in_calls})
            else:
                return set()
        return set.intersection(*found) if found else set()

    def _make_filter(self, plan: SearchPlan) -> TextFilter:
        sessions = self._allowed_sessions(plan.session_conditions, plan.text_conditions)
        if plan.is_session_only and _IS_EMPTY not in _leaves(plan.session_conditions):
            sessions = (
                self._nonempty_sessions
                if sessions is None
                else sessions & self._nonempty_sessions
            )
        kinds = matching_kinds(plan.kind_conditions) if plan.kind_conditions else None
        return TextFilter(sessions, kinds)

    def _sort_sessions(
        self, scores: Mapping[int, float], sort: SortOrder, *, is_scored: bool
    ) -> list[int]:
        ended_ms = self._ended_ms
        if sort is SortOrder.BEST and is_scored:
            recency = self._stats.recency
            keys = [
                (-score - recency[session], -ended_ms[session], session)
                for session, score in scores.items()
                if session in recency
            ]
            keys.sort()
            return [session for _, _, session in keys]
        direction = 1 if sort is SortOrder.OLDEST else -1
        known = (session for session in scores if session in ended_ms)
        return sorted(known, key=lambda s: (direction * ended_ms[s], s))

    def _allowed_sessions(
        self, session_conditions: Sequence[Term], text_conditions: Sequence[Term]
    ) -> set[int] | None:
        """Return the sessions that may match, as far as that depends on the session."""
        periods = [term for term in text_conditions if isinstance(term, TimeRange)]
        if not session_conditions and not periods:
            return None
        allowed = set(self._ended_ms)
        if periods:
            spans = self._stats.time_spans(self._facts)
            # Sessions may have been merged since the statistics were loaded.
            allowed = {
                s for s in allowed if s in spans and _overlaps(spans[s], periods)
            }
        if not session_conditions:
            return allowed
        leaves = _leaves(session_conditions)
        fields = {leaf.field for leaf in leaves}
        # Only tags and stars depend on annotations.
        is_annotated = "tag" in fields or _IS_STARRED in leaves
        annotations = self._annotations if is_annotated else {}
        has_unique_field = bool(fields & _UNIQUE_FIELDS)
        matching = set()
        for group in self._stats.session_groups(self._facts):
            group_matches = not has_unique_field and self._matches_all(
                session_conditions, group.sample
            )
            for index, (number, id_) in enumerate(
                zip(group.numbers, group.ids, strict=True)
            ):
                if number not in allowed:
                    continue
                if has_unique_field or id_ in annotations:
                    text = group.text_at(index, annotations.get(id_))
                    is_match = self._matches_all(session_conditions, text)
                else:
                    is_match = group_matches
                if is_match:
                    matching.add(number)
        return matching

    @cached_property
    def _nonempty_sessions(self) -> set[int]:
        return {
            number
            for number, summary in self._facts.numbered_summaries()
            if not summary.is_empty
        }

    def _matches_all(
        self, conditions: Sequence[Term], candidate: SearchableText
    ) -> bool:
        return all(
            matches_text(Query(term), candidate, self._engine.tokenize, stem_word)
            for term in conditions
        )

    def _match_titles(
        self,
        plan: SearchPlan,
        terms: Sequence[ScoredTerm],
        hit_query: Query,
        text_filter: TextFilter,
    ) -> frozenset[int]:
        """Return the sessions whose title, taken as a text, matches a query."""
        candidates = frozenset().union(*map(self._titles.sessions_matching, terms))
        if plan.has_only_words:
            return candidates
        matching = set()
        for number in candidates:
            if text_filter.sessions is not None and number not in text_filter.sessions:
                continue
            summary = self._facts.load_summary(number)
            if summary is None:
                continue
            summary = with_annotations(summary, self._annotations)
            titles = map(
                make_title_text, repeat(summary), self._titles.titles_of(number)
            )
            if any(
                matches_text(hit_query, title, self._engine.tokenize, stem_word)
                for title in titles
            ):
                matching.add(number)
        return frozenset(matching)


def _matching_scores(
    plan: SearchPlan, terms: Sequence[ScoredTerm], scores: SessionScores
) -> Mapping[int, float]:
    """Return the scores of the sessions that match.

    Conditions limit what words find, so a session has to have one of the words.
    """
    if not plan.plain_words:
        return scores.by_session
    by_term = zip(terms, scores.sessions_by_term, strict=True)
    by_word = (sessions for term, sessions in by_term if term.is_plain_word)
    return {s: scores.by_session[s] for s in frozenset().union(*by_word)}


def _leaves(terms: Sequence[Term]) -> set[FieldTerm | FieldValue]:
    """Return the fields with their values that conditions on sessions consist of."""
    return {
        leaf
        for term in terms
        for leaf in iter_leaves(term)
        if isinstance(leaf, FieldTerm | FieldValue)
    }


def _overlaps(span: tuple[int, int], periods: Sequence[TimeRange]) -> bool:
    """Whether a session may have a record in all of the time ranges."""
    first, last = span
    return not first or all(
        (one.start is None or last + 1 >= one.start.timestamp() * 1000)
        and (one.end is None or first < one.end.timestamp() * 1000)
        for one in periods
    )
