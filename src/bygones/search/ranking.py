"""Counting: in which sessions the words of a query stand, and how often.

What is rare is counted everywhere. What is broad is counted in those sessions only
that may be among the best: everywhere would take longer than people wait, and who
comes last of ten thousand sessions interests nobody.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from heapq import nlargest
from itertools import accumulate
from typing import TYPE_CHECKING

from msgspec import Struct

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
from bygones.model.summary import WordShare
from bygones.query.fields import iter_leaves
from bygones.query.matcher import SearchableText, make_session_text, matches_text
from bygones.search.plan import ScoredTerm, SearchPlan, matching_kinds
from bygones.search.scoring import (
    CorpusNorms,
    SessionScores,
    TermCounts,
    idf,
    score_sessions,
    term_contribution,
)
from bygones.search.stats import SearchStats, TitleIndex
from bygones.search.texts import AnnotationsBySession
from bygones.store.archive_tables import with_annotations
from bygones.store.text_index import stem_word

if TYPE_CHECKING:  # protocols take long to make
    from bygones.store.protocols import EngineQuery, SearchEngine


_MAX_EXACT_TEXTS = 10_000
"""Texts that are counted for all words together, wherever they stand."""
_FEW_SESSIONS = 500
"""Sessions that are so few that all is counted in all of them."""
_MAX_CANDIDATES = 150
"""Sessions that each way of choosing the best may choose."""
_SAMPLE_SIZE = 2_000
"""Texts of which the best sessions are: the engine's best."""


class TextFilter(Struct, frozen=True):
    """Which sessions and which kinds of text count."""

    sessions: set[int] | None = None
    kinds: frozenset[int] | None = None

    def apply(self, counts: Mapping[int, int]) -> dict[int, int]:
        """Return the counts of what counts."""
        sessions, kinds = self.sessions, self.kinds
        if sessions is None and kinds is None:
            return dict(counts)
        return {
            bucket: count
            for bucket, count in counts.items()
            if (kinds is None or bucket % KINDS_PER_SESSION in kinds)
            and (sessions is None or bucket // KINDS_PER_SESSION in sessions)
        }


class CountRequest(Struct, frozen=True):
    """What is to be counted, and where it counts."""

    plan: SearchPlan
    terms: tuple[ScoredTerm, ...]
    text_filter: TextFilter
    title_matches: frozenset[int]
    """Sessions whose title fits."""
    verbatim_matches: frozenset[int] = frozenset()
    """Sessions that have the words as they were typed."""


class CountResult(Struct, frozen=True):
    """Where the units of a plan stand."""

    term_counts: tuple[TermCounts, ...]
    is_complete: bool = True
    """Whether all was counted everywhere."""
    estimated_total: int = 0
    """How many sessions there may be in all, if not."""


class TermCounter:
    """Counts what one query looks for."""

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
        """Return where each unit stands, in texts and in titles.

        The rarest come first. Once many texts were counted, what is left is counted in
        sessions that are the best by what was counted, by their title, or by a text.
        """
        units = request.terms
        # What is asked for by more than words must be found to know how much it is.
        is_sampled = len(units) == 1 and (units[0].is_prefix or units[0].is_exact)
        sample = self._sample_texts(request) if is_sampled else None
        sizes = (
            [self._estimate_texts(unit) for unit in units]
            if not sample
            else [sample[0]]
        )
        order = sorted(range(len(units)), key=sizes.__getitem__)
        reach = list(accumulate(sizes[at] for at in order))
        is_few = self._session_count <= _FEW_SESSIONS
        rare = sum(is_few or upto <= _MAX_EXACT_TEXTS for upto in reach)
        known = self._count_terms(request, [units[at] for at in order[:rare]])
        found = dict(zip(order[:rare], known, strict=True))
        if rare < len(order):
            best = self._engine.in_sessions(
                self._find_candidates(request, known, sample)
            )
            rest = self._count_terms(request, [units[at] for at in order[rare:]], best)
            for at, one in zip(order[rare:], rest, strict=True):
                found[at] = TermCounts(
                    self._estimate_idf(sizes[at]), one.counts, one.is_identifier
                )
        sought = tuple(found[at] for at in range(len(units)))
        if rare == len(order):
            return CountResult(sought)
        return CountResult(
            sought, is_complete=False, estimated_total=self._estimate_sessions(sizes)
        )

    def count_all(self, request: CountRequest) -> CountResult:
        """Return the same, with all counted wherever it stands."""
        return CountResult(tuple(self._count_terms(request, request.terms)))

    def find_verbatim(self, plan: SearchPlan, text_filter: TextFilter) -> set[int]:
        """Return the sessions that have the words side by side, as they were typed.

        Where none has, those that have half of them so.
        """
        for asked in plan.verbatim:
            _, found = self._engine.best_keys(
                self._with_required(plan, asked), _SAMPLE_SIZE
            )
            counts = text_filter.apply(found)
            if counts:
                return {bucket // KINDS_PER_SESSION for bucket in counts}
        return set()

    def _count_terms(
        self,
        request: CountRequest,
        terms: Sequence[ScoredTerm],
        candidates: EngineQuery | None = None,
    ) -> list[TermCounts]:
        """Return where units stand, asked for at once."""
        asked = [self._build_query(request, unit, candidates) for unit in terms]
        found: list[TermCounts] = []
        for unit, told in zip(terms, self._engine.count_many(asked), strict=True):
            counts = request.text_filter.apply(told)
            for session in self._titles.sessions_matching(unit) & request.title_matches:
                counts[pack_text_key(session, Part.TITLE)] = 1
            number = len({bucket // KINDS_PER_SESSION for bucket in counts})
            found.append(
                TermCounts(idf(number, self._session_count), counts, unit.is_identifier)
            )
        return found

    def _build_query(
        self, request: CountRequest, term: ScoredTerm, candidates: EngineQuery | None
    ) -> EngineQuery:
        plan, within = request.plan, request.text_filter
        asked = [one for one in (plan.required, candidates) if one is not None]
        if term.indexed_variants or not asked:
            asked.append(term.query)
        if within.sessions is not None and len(within.sessions) <= _FEW_SESSIONS:
            asked.append(self._engine.in_sessions(within.sessions))
        return self._engine.all_of(asked)

    def _sample_texts(self, request: CountRequest) -> tuple[int, dict[int, int]]:
        """Return how many texts have a unit, and where the engine's best ones lie."""
        # One form of each word is enough to choose by, and takes half as long.
        asked = self._engine.any_of([_first_query(unit) for unit in request.terms])
        return self._engine.best_keys(
            self._with_required(request.plan, asked), _SAMPLE_SIZE
        )

    def _find_candidates(
        self,
        request: CountRequest,
        term_counts: Sequence[TermCounts],
        sample: tuple[int, dict[int, int]] | None,
    ) -> set[int]:
        """Return sessions that may be among the best.

        These are the best by what was counted, by titles, and, where this is little,
        by those texts that the engine takes for the best.
        """
        total = score_sessions(term_counts, self._norms).by_session
        chosen = set(nlargest(_MAX_CANDIDATES, total, key=total.__getitem__))
        chosen.update(sorted(request.verbatim_matches)[-_MAX_CANDIDATES:])
        named = dict.fromkeys(request.title_matches, 0)
        for unit in request.terms:
            for session in self._titles.sessions_matching(unit) & named.keys():
                named[session] += 1
        chosen.update(
            nlargest(_MAX_CANDIDATES, named, key=lambda one: (named[one], one))
        )
        if len(total) >= _MAX_CANDIDATES:
            return chosen
        _, found = sample or self._sample_texts(request)
        counts = request.text_filter.apply(found)
        total = score_sessions([TermCounts(1.0, counts)], self._norms).by_session
        chosen.update(nlargest(_MAX_CANDIDATES, total, key=total.__getitem__))
        return chosen

    def _with_required(self, plan: SearchPlan, query: EngineQuery) -> EngineQuery:
        return (
            query
            if plan.required is None
            else self._engine.all_of([query, plan.required])
        )

    def _estimate_texts(self, term: ScoredTerm) -> int:
        """Return about how many texts have a unit."""
        if not term.indexed_variants:
            return self._engine.text_count
        if term.is_prefix:
            return self._engine.best_keys(term.query, 1)[0]
        return sum(
            min(map(self._engine.frequency, run)) for run in term.indexed_variants
        )

    def _estimate_idf(self, texts: int) -> float:
        return idf(
            self._session_count * self._estimate_share(texts), self._session_count
        )

    def _estimate_share(self, texts: int) -> float:
        """Return in which share of all sessions so many texts may lie."""
        size = self._engine.text_count
        if not self._session_count or texts >= size:
            return 1.0
        return 1 - math.pow(1 - texts / size, size / self._session_count)

    def _estimate_sessions(self, sizes: Iterable[int]) -> int:
        """Return in how many sessions one of several numbers of texts may lie."""
        without = math.prod(1 - self._estimate_share(size) for size in sizes)
        return round(self._session_count * (1 - without))


def _first_query(term: ScoredTerm) -> EngineQuery:
    return (
        term.variant_queries[0]
        if term.variant_queries and not term.is_prefix
        else term.query
    )


if TYPE_CHECKING:  # protocols take long to make
    from bygones.store.protocols import SearchFacts


_UNIQUE_FIELDS = {"title", "session"}
"""Fields that differ between the sessions of a group."""
_IS_EMPTY = FieldValue("is", Flag.EMPTY)
_IS_STARRED = FieldValue("is", Flag.STARRED)


class SortOrder(StrEnum):
    """The order of what is found."""

    BEST = "best"
    NEWEST = "newest"
    OLDEST = "oldest"


class RankedSessions(Struct, frozen=True):
    """Sessions in order, with what they were ordered by."""

    sessions: list[int]
    terms: tuple[ScoredTerm, ...]
    term_counts: tuple[TermCounts, ...]
    scores: SessionScores
    title_matches: frozenset[int]
    """Sessions whose title fits."""
    estimated_total: int = 0
    """How many there may be in all, where not all were looked at."""

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
        by_word = [
            sessions
            for term, sessions in zip(
                self.terms, self.scores.sessions_by_term, strict=True
            )
            if term.is_plain_word
        ]
        return frozenset.intersection(*by_word) if by_word else None

    def iter_word_shares(self, session: int, norms: CorpusNorms) -> Iterator[WordShare]:
        """Yield what each word gave to a session's score, and by which records."""
        given = [term_contribution(word, session, norms) for word in self.term_counts]
        whole = sum(given) or 1.0
        for unit, word, gift in zip(self.terms, self.term_counts, given, strict=True):
            records: dict[Part, int] = {}
            for bucket in range(
                session * KINDS_PER_SESSION,
                session * KINDS_PER_SESSION + KINDS_PER_SESSION,
            ):
                if count := word.counts.get(bucket, 0):
                    part = text_key_part(bucket)
                    records[part] = records.get(part, 0) + count
            if records and unit.label:
                yield WordShare(unit.label, gift / whole, tuple(records.items()))

    def matched_words(self, session: int) -> tuple[str, ...]:
        """Return the plain words that a session has."""
        return tuple(
            unit.label
            for unit, having in zip(
                self.terms, self.scores.sessions_by_term, strict=True
            )
            if unit.is_plain_word and session in having
        )


class SessionRanker:
    """Ranks sessions by what is known of all of them."""

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
        """Return the sessions that may answer a query, in order.

        So many of them at least, if there are: what is broad may not be counted
        everywhere for the first ones.
        """
        allowed = self._allowed_sessions(plan.session_conditions, plan.text_conditions)
        if plan.is_session_only and _IS_EMPTY not in _leaves(plan.session_conditions):
            allowed = (
                self._nonempty_sessions
                if allowed is None
                else allowed & self._nonempty_sessions
            )
        kinds = matching_kinds(plan.kind_conditions) if plan.kind_conditions else None
        within = TextFilter(allowed, kinds)
        units = plan.terms
        if not plan.plain_words and not plan.is_covered_by_terms:
            # What fits need not have any of the units.
            units += (
                ScoredTerm("", self._engine.match_all(), (), (), is_plain_word=False),
            )
        titled = self._match_titles(plan, units, hit_query, within)
        whole = self._counter.find_verbatim(plan, within)
        wanted = CountRequest(plan, units, within, titled, frozenset(whole))
        is_pure = not plan.text_conditions and within.kinds is None and bool(plan.terms)
        if sort is not SortOrder.BEST or not is_pure:
            counted = self._counter.count_all(wanted)
        else:
            counted = self._counter.count(wanted)
        scored = score_sessions(counted.term_counts, self.norms, whole)
        order = self._sort_sessions(
            _matching_scores(plan, units, scored), sort, is_scored=bool(plan.terms)
        )
        about = (
            max(counted.estimated_total, len(order)) if not counted.is_complete else 0
        )
        if about and len(order) < min_count:
            # The others follow, the newest first.
            counted = self._counter.count_all(wanted)
            others = score_sessions(counted.term_counts, self.norms)
            rest = _matching_scores(plan, units, others).keys() - set(order)
            order += self._sort_sessions(
                dict.fromkeys(rest, 0.0), sort, is_scored=False
            )
            scored = SessionScores(
                {**others.by_session, **scored.by_session}, others.sessions_by_term
            )
            about = 0
        return RankedSessions(order, units, counted.term_counts, scored, titled, about)

    def _sort_sessions(
        self, scores: Mapping[int, float], sort: SortOrder, *, is_scored: bool
    ) -> list[int]:
        ends = self._ended_ms
        if sort is SortOrder.BEST and is_scored:
            new = self._stats.recency
            best = [
                (-score - new[s], -ends[s], s)
                for s, score in scores.items()
                if s in new
            ]
            best.sort()
            return [session for _, _, session in best]
        sign = 1 if sort is SortOrder.OLDEST else -1
        known = (session for session in scores if session in ends)
        return sorted(known, key=lambda s: (sign * ends[s], s))

    def _allowed_sessions(
        self, session_conditions: Sequence[Term], text_conditions: Sequence[Term]
    ) -> set[int] | None:
        """Return the sessions of which all may hold that a session can tell."""
        periods = [term for term in text_conditions if isinstance(term, TimeRange)]
        if not session_conditions and not periods:
            return None
        allowed = set(self._ended_ms)
        if periods:
            spans = self._stats.time_spans(self._facts)
            # Of those that there still are: these may have come together since.
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
        found = set()
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
                    found.add(number)
        return found

    @cached_property
    def _nonempty_sessions(self) -> set[int]:
        """Sessions in which something was said, by their numbers."""
        return {
            number
            for number, one in self._facts.numbered_summaries()
            if not one.is_empty
        }

    def _matches_all(
        self, conditions: Sequence[Term], candidate: SearchableText
    ) -> bool:
        """Whether all holds of a session that it can tell."""
        analyse = self._engine.tokenize
        return all(
            matches_text(Query(term), candidate, analyse, stem_word)
            for term in conditions
        )

    def _match_titles(
        self,
        plan: SearchPlan,
        terms: Sequence[ScoredTerm],
        hit_query: Query,
        text_filter: TextFilter,
    ) -> frozenset[int]:
        """Return the sessions whose title is itself what a query asks for."""
        having = frozenset().union(*map(self._titles.sessions_matching, terms))
        if plan.has_only_words:
            return having
        found = set()
        for number in having:
            if text_filter.sessions is not None and number not in text_filter.sessions:
                continue
            listed = self._facts.load_summary(number)
            if listed and matches_text(
                hit_query,
                make_session_text(
                    with_annotations(listed, self._annotations), Part.TITLE
                ),
                self._engine.tokenize,
                stem_word,
            ):
                found.add(number)
        return frozenset(found)


def _matching_scores(
    plan: SearchPlan, terms: Sequence[ScoredTerm], scores: SessionScores
) -> Mapping[int, float]:
    """Return the sessions that answer, with their scores.

    Conditions narrow what words find; one of the words must be there.
    """
    if not plan.plain_words:
        return scores.by_session
    having = zip(terms, scores.sessions_by_term, strict=True)
    words = (sessions for unit, sessions in having if unit.is_plain_word)
    return {s: scores.by_session[s] for s in frozenset().union(*words)}


def _leaves(terms: Sequence[Term]) -> set[FieldTerm | FieldValue]:
    """Return the fields with their values that conditions on sessions consist of."""
    return {
        leaf
        for term in terms
        for leaf in iter_leaves(term)
        if isinstance(leaf, FieldTerm | FieldValue)
    }


def _overlaps(span: tuple[int, int], periods: Sequence[TimeRange]) -> bool:
    """Whether something of a session may be of the time that is asked for."""
    first, last = span
    return not first or all(
        (one.start is None or last + 1 >= one.start.timestamp() * 1000)
        and (one.end is None or first < one.end.timestamp() * 1000)
        for one in periods
    )
