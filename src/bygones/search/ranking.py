"""Rank sessions by the words of a query.

How many sessions have a word is always exact. Where the words of a query are is looked
up in all sessions if few texts have them, otherwise only in sessions that may be among
the best: looking everywhere would take too long, and the order of the last of ten
thousand sessions does not matter.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property, reduce
from heapq import nlargest
from itertools import repeat
from operator import and_

from msgspec import Struct
from msgspec.structs import replace

from bygones.model.query import (
    KINDS_PER_SESSION,
    FieldTerm,
    FieldValue,
    Flag,
    Part,
    Phrase,
    Query,
    Term,
    TimeRange,
    pack_text_key,
    text_key_part,
)
from bygones.model.summary import ScorePart, ScorePartKind, WordShare
from bygones.query.fields import FIELDS, SearchableText, iter_leaves
from bygones.query.matcher import TitleMatcher, matches_text
from bygones.search.plan import ScoredTerm, SearchPlan, matching_kinds
from bygones.search.scoring import (
    CorpusNorms,
    MatchedTexts,
    SearchStats,
    SessionScores,
    TermCounts,
    add_record_scores,
    idf,
    score_whole,
    score_words,
)
from bygones.search.texts import AnnotationsBySession, make_title_text
from bygones.search.title_index import TitleIndex
from bygones.store.annotations import with_annotations
from bygones.store.protocols import EngineQuery, SearchEngine, SearchFacts
from bygones.store.tantivy_engine import TextMatch, WordSessions
from bygones.store.word_forms import stem_word

_MAX_EXACT_TEXTS = 2_000
"""Texts up to which words are looked up in all sessions, summed over the words."""
_FEW_SESSIONS = 500
"""Sessions up to which a search that is limited to them names them to the engine."""
_MAX_CANDIDATES = 25
"""How many sessions each criterion contributes to the candidates for the best."""
_MAX_PHRASE_SESSIONS = 2_000
"""Sessions with a phrase up to which the best of them are candidates."""
_MAX_VERBATIM_TEXTS = 2_000
"""Texts that have the words as they were typed, of which the sessions are known."""
_MAX_RECORD_SESSIONS = 80
"""Sessions whose records are scored."""
_MAX_MATCHED_TEXTS = 1_500
"""Texts of these sessions that are looked at; those with rare words first."""
_MAX_SHORT_TEXTS = 1_000
"""Texts that are looked at if there is a single word: the shortest ones."""
_MIN_KNOWN_TEXTS = 12
"""Of how many of these the best of a session are shown."""
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


class TitledSessions:
    """The sessions whose title has a term, looked up once in a search."""

    def __init__(self, titles: TitleIndex) -> None:
        self._titles = titles
        self._found: dict[tuple[object, ...], set[int]] = {}

    def __getitem__(self, term: ScoredTerm) -> set[int]:
        key = term.variants, term.is_exact, term.is_prefix
        if key not in self._found:
            self._found[key] = self._titles.sessions_matching(term)
        return self._found[key]


class CountRequest(Struct, frozen=True):
    """What to count, and in which texts."""

    plan: SearchPlan
    terms: tuple[ScoredTerm, ...]
    text_filter: TextFilter
    titled: TitledSessions
    title_matches: frozenset[int]
    """Sessions whose title matches the query."""
    verbatim_matches: frozenset[int] = frozenset()
    """Sessions that have the words as they were typed."""

    def sessions_titled(self, term: ScoredTerm) -> set[int]:
        """Return the sessions whose title matches the query, and has a term."""
        found = self.titled[term]
        # Without conditions these are all that have some term.
        return found if self.plan.has_only_words else found & self.title_matches


class CountResult(Struct, frozen=True):
    """In which texts the terms of a plan appear."""

    term_counts: tuple[TermCounts, ...]
    texts: MatchedTexts | None = None
    """The texts in which terms were counted, if they were looked up."""
    session_counts: WordSessions | None = None
    """How many sessions have the terms, if they were counted in some sessions only."""


class TermCounter:
    """Counts the terms of a query."""

    def __init__(
        self, engine: SearchEngine, norms: CorpusNorms, session_count: int
    ) -> None:
        self._engine = engine
        self._norms = norms
        self._session_count = session_count

    def count(self, request: CountRequest) -> CountResult:
        """Count the terms of a query without conditions in texts and titles.

        If many texts have them, only sessions count that may be among the best: by all
        their words, by one text, by their title, or because they have a phrase.
        """
        terms, allowed = request.terms, request.text_filter.sessions
        if sum(map(self._count_texts, terms)) <= _MAX_EXACT_TEXTS:
            is_limited = allowed is not None and len(allowed) <= _FEW_SESSIONS
            return self._count_matches(request, allowed if is_limited else None, {})
        words = [term for term in terms if term.index_terms]
        phrases = [term for term in terms if not term.index_terms]
        counts = self._engine.find_sessions(
            [term.index_terms for term in words],
            self._session_count,
            _MAX_CANDIDATES,
            allowed,
        )
        by_phrase = {
            term.label: self._count_in_sessions(request, term) for term in phrases
        }
        session_counts = dict(
            zip((term.label for term in words), counts.by_word, strict=True)
        ) | {label: len(found) for label, found in by_phrase.items()}
        idfs = {
            label: idf(count, self._session_count)
            for label, count in session_counts.items()
        }
        candidates = self._find_candidates(request, counts.best, idfs, by_phrase)
        result = self._count_matches(request, candidates, idfs)
        if phrases:
            # Sessions may have a phrase, or another word, and none of these words.
            found = frozenset().union(*by_phrase.values())
            counts = counts._replace(
                with_any=max(counts.with_any, len(found)), with_all=0
            )
        return replace(result, session_counts=counts)

    def _count_matches(
        self,
        request: CountRequest,
        sessions: Collection[int] | None,
        idfs: Mapping[str, float],
    ) -> CountResult:
        """Look up the texts of sessions, or of all, and count the terms in them."""
        terms = sorted(
            (term for term in request.terms if term.indexed_variants),
            key=self._count_texts,
            reverse=True,
        )
        texts = self._match_texts(request, terms, sessions)
        if len(terms) == 1:
            # Only the shortest texts were looked up.
            scope = None if sessions is None else self._engine.in_sessions(sessions)
            counted = self._count_terms(request, terms, scope)
            by_label = {terms[0].label: dict(counted[0].counts)}
        else:
            by_label = texts.count_by_term()
        term_counts: list[TermCounts] = []
        scoped = None if sessions is None else frozenset(sessions)
        for term in request.terms:
            counts = by_label.get(term.label, {})
            titled = request.sessions_titled(term)
            for session in titled if scoped is None else titled & scoped:
                counts[pack_text_key(session, Part.TITLE)] = 1
            weight = idfs.get(term.label)
            if weight is None:
                found = len({key // KINDS_PER_SESSION for key in counts})
                weight = idf(found, self._session_count)
            term_counts.append(TermCounts(weight, counts, term.is_identifier))
        return CountResult(tuple(term_counts), texts)

    def _match_texts(
        self,
        request: CountRequest,
        terms: Sequence[ScoredTerm],
        sessions: Collection[int] | None,
    ) -> MatchedTexts:
        """Look up the texts that have terms; the rarest terms come last."""
        required, text_filter = request.plan.required, request.text_filter
        limit = _MAX_MATCHED_TEXTS if len(terms) > 1 else _MAX_SHORT_TEXTS
        matched = (
            self._engine.match_texts(
                [term.query for term in terms],
                None if sessions is None else sorted(sessions),
                [] if required is None else [required],
                limit,
            )
            if terms
            else []
        )
        is_complete = len(matched) < limit
        allowed, kinds = text_filter.sessions, text_filter.kinds
        if allowed is not None or kinds is not None:
            matched = [
                text
                for text in matched
                if (allowed is None or text[1] // KINDS_PER_SESSION in allowed)
                and (kinds is None or text[1] % KINDS_PER_SESSION in kinds)
            ]
        return MatchedTexts(matched, [term.label for term in terms], is_complete)

    def count_all(self, request: CountRequest) -> CountResult:
        """Count each term in all sessions."""
        required = request.plan.required
        if required is not None and all(one.indexed_variants for one in request.terms):
            count, _ = self._engine.best_keys(required, 1)
            if count < _MAX_MATCHED_TEXTS:
                # All terms in one request: a condition costs the same for each of them.
                return self._count_matches(request, None, {})
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
            for session in request.sessions_titled(term):
                counts[pack_text_key(session, Part.TITLE)] = 1
            sessions = len({key // KINDS_PER_SESSION for key in counts})
            weight = idf(sessions, self._session_count)
            term_counts.append(TermCounts(weight, counts, term.is_identifier))
        return term_counts

    def _count_in_sessions(
        self, request: CountRequest, term: ScoredTerm
    ) -> dict[int, int]:
        """Return how many texts of each session have a term, titles included."""
        allowed = request.text_filter.sessions
        counts = self._engine.count_sessions(self._build_query(request, term, None))
        if allowed is not None:
            counts = {one: count for one, count in counts.items() if one in allowed}
        for session in request.sessions_titled(term):
            counts[session] = counts.get(session, 0) + 1
        return counts

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

    def match_in(
        self, request: CountRequest, sessions: Collection[int]
    ) -> MatchedTexts:
        """Look up the texts of sessions that have terms of a query."""
        terms = [term for term in request.terms if term.indexed_variants]
        terms.sort(key=self._count_texts, reverse=True)
        return self._match_texts(request, terms, sessions)

    def _find_candidates(
        self,
        request: CountRequest,
        best: Sequence[int],
        idfs: Mapping[str, float],
        by_phrase: Mapping[str, Mapping[int, int]],
    ) -> set[int]:
        """Return sessions that may be among the best.

        These are the best by all their words, by one text, by phrases, and by titles.
        Phrases that are in many sessions count only if there is nothing else.
        """
        allowed = request.text_filter.sessions
        chosen = set(best)
        scores: dict[int, float] = {}
        for label, counts in sorted(by_phrase.items(), key=lambda item: len(item[1])):
            if len(counts) > _MAX_PHRASE_SESSIONS and (chosen or scores):
                continue
            own = score_whole(counts, idfs[label], self._norms)
            for session, score in own.items():
                scores[session] = scores.get(session, 0.0) + score
        chosen.update(
            nlargest(
                _MAX_CANDIDATES, scores, key=lambda session: (scores[session], session)
            )
        )
        chosen.update(sorted(request.verbatim_matches)[-_MAX_CANDIDATES:])
        terms_in_title = dict.fromkeys(request.title_matches, 0.0)
        for term in request.terms:
            for session in request.sessions_titled(term):
                terms_in_title[session] += idfs[term.label]
        chosen.update(
            nlargest(
                _MAX_CANDIDATES,
                terms_in_title,
                key=lambda session: (terms_in_title[session], session),
            )
        )
        return chosen if allowed is None else chosen & allowed

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
    estimated_complete: int = 0
    """How many have all of the words, if not all were counted."""
    texts: MatchedTexts | None = None
    """The texts that match, if the query consists of words."""
    dropped: frozenset[int] = frozenset()
    """Sessions that were ranked, and are not shown."""

    @property
    def complete_count(self) -> int:
        """How many sessions have all of the words."""
        complete = frozenset(self._complete_sessions or ())
        count = max(len(complete), self.estimated_complete)
        return count - len(complete & self.dropped)

    def drop(self, sessions: Collection[int]) -> RankedSessions:
        """Return the other sessions, in the same order."""
        dropped = frozenset(sessions)
        return replace(
            self,
            sessions=[one for one in self.sessions if one not in dropped],
            estimated_total=max(0, self.estimated_total - len(dropped)),
            dropped=dropped,
        )

    @property
    def has_more_texts(self) -> bool:
        """Whether sessions may have more texts that match than are known."""
        texts = self.texts
        return texts is not None and not texts.is_complete and len(texts.labels) > 1

    def matched_texts(
        self, sessions: Collection[int], limit: int, *, needs_all: bool
    ) -> dict[int, tuple[int, list[TextMatch]]]:
        """Return how many texts of sessions match, and the best ones or all.

        Sessions of which too few are known are left out.
        """
        texts = self.texts
        if texts is None or (needs_all and not texts.is_complete):
            return {}
        scored = self.scores.texts
        counts = {session: len(scored.get(session, ())) for session in sessions}
        found = {
            session: [
                TextMatch(record, session * KINDS_PER_SESSION + kind, score, length)
                for score, kind, length, _, record in scored[session][:limit]
            ]
            for session, count in counts.items()
            if count
        }
        if texts.is_complete or len(texts.labels) > 1:
            return {session: (counts[session], own) for session, own in found.items()}
        # Of a single word only the shortest texts were looked up, but all were counted.
        sums = dict.fromkeys(sessions, 0)
        for one in self.term_counts:
            for key, count in one.counts.items():
                if (
                    key // KINDS_PER_SESSION in sums
                    and text_key_part(key) != Part.TITLE
                ):
                    sums[key // KINDS_PER_SESSION] += count
        return {
            session: (sums[session], own)
            for session, own in found.items()
            if counts[session] >= min(sums[session], _MIN_KNOWN_TEXTS)
        }

    def sessions_with_all_words(self) -> list[int]:
        """Return the sessions that have every plain word, in order."""
        complete = self._complete_sessions
        if complete is None:
            return self.sessions
        return [session for session in self.sessions if session in complete]

    @property
    def _complete_sessions(self) -> Collection[int] | None:
        """The sessions that have every plain word; none if there are no words."""
        by_word = [sessions.keys() for _, sessions in self._sessions_by_word()]
        return reduce(and_, by_word) if by_word else None

    def _sessions_by_word(self) -> Iterator[tuple[str, Mapping[int, float]]]:
        for term, sessions in zip(self.terms, self.scores.by_term, strict=True):
            if term.is_plain_word:
                yield term.label, sessions

    def matched_words(self, session: int) -> tuple[str, ...]:
        """Return the plain words that a session has."""
        return tuple(
            word for word, sessions in self._sessions_by_word() if session in sessions
        )

    def iter_word_shares(self, session: int) -> Iterator[WordShare]:
        """Yield how much each word contributes to a session's score, and where it is."""
        contributions = [one.get(session, 0.0) for one in self.scores.by_term]
        total = sum(contributions) or 1.0
        first_key = session * KINDS_PER_SESSION
        own_keys = frozenset(range(first_key, first_key + KINDS_PER_SESSION))
        for term, term_counts, contribution in zip(
            self.terms, self.term_counts, contributions, strict=True
        ):
            if not contribution:
                continue
            records: dict[Part, int] = {}
            for key in sorted(term_counts.counts.keys() & own_keys):
                part = text_key_part(key)
                records[part] = records.get(part, 0) + term_counts.counts[key]
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
        self._counter = TermCounter(stats.engine, stats.norms, len(stats.ended_ms))

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
        titled = TitledSessions(self._titles)
        titles = self._match_titles(
            plan, [titled[term] for term in terms], hit_query, text_filter
        )
        verbatim = self._counter.find_verbatim(plan, text_filter)
        request = CountRequest(
            plan, terms, text_filter, titled, titles, frozenset(verbatim)
        )
        can_estimate = (
            sort is SortOrder.BEST and bool(plan.terms) and _has_no_conditions(plan)
        )
        counted = (
            self._counter.count(request)
            if can_estimate
            else self._counter.count_all(request)
        )
        by_words = score_words(counted.term_counts, self.norms)
        matching = _matching_scores(plan, terms, by_words)
        texts = counted.texts
        if texts is None and sort is SortOrder.BEST and plan.terms:
            texts = self._counter.match_in(request, _best_sessions(matching))
        scores = self._score(request, counted, by_words, texts)
        order = self._sort_sessions(
            _matching_scores(plan, terms, scores), sort, is_scored=bool(plan.terms)
        )
        totals = counted.session_counts
        ranked = RankedSessions(
            order,
            terms,
            counted.term_counts,
            scores,
            titles,
            max(totals.with_any, len(order)) if totals else 0,
            totals.with_all if totals else 0,
            counted.texts,
        )
        is_enough = totals is None or len(order) >= min_count
        return ranked if is_enough else self._add_others(ranked, request, sort)

    def _add_others(
        self, ranked: RankedSessions, request: CountRequest, sort: SortOrder
    ) -> RankedSessions:
        """Add the sessions that are not among the best, by their words."""
        counted = self._counter.count_all(request)
        all_scores = score_words(counted.term_counts, self.norms)
        rest = dict(_matching_scores(request.plan, request.terms, all_scores))
        for session in ranked.sessions:
            rest.pop(session, None)
        scores = replace(
            ranked.scores,
            by_session=all_scores.by_session | ranked.scores.by_session,
            words=all_scores.words | ranked.scores.words,
            messages={**all_scores.messages, **ranked.scores.messages},
            by_term=all_scores.by_term,
        )
        return replace(
            ranked,
            sessions=ranked.sessions + self._sort_sessions(rest, sort, is_scored=True),
            term_counts=counted.term_counts,
            scores=scores,
            estimated_total=0,
            estimated_complete=0,
        )

    def sessions_with(self, condition: Term) -> set[int]:
        """Return the sessions that meet a condition on sessions."""
        return self._allowed_sessions([condition], []) or set()

    def score_parts(self, ranked: RankedSessions, session: int) -> Iterator[ScorePart]:
        """Yield the parts of the score by which a session was ranked.

        There are none if nothing is searched for: sessions are then in order of time.
        """
        if not any(term.label for term in ranked.terms):
            return
        yield from ranked.scores.parts_of(session)
        recency = self._stats.recency.get(session, 0.0)
        if recency:
            yield ScorePart(ScorePartKind.RECENCY, recency)

    def _score(
        self,
        request: CountRequest,
        counted: CountResult,
        by_words: SessionScores,
        texts: MatchedTexts | None,
    ) -> SessionScores:
        """Return the scores of the sessions that were counted, with their records."""
        if texts is None:
            return by_words
        idfs = {
            term.label: one.idf
            for term, one in zip(request.terms, counted.term_counts, strict=True)
        }
        titled = self._titles.sessions_titled(request.plan.typed_terms)
        return add_record_scores(
            by_words,
            texts.score(idfs),
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
            if term.is_alternative:
                continue
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
        titled: Sequence[set[int]],
        hit_query: Query,
        text_filter: TextFilter,
    ) -> frozenset[int]:
        """Return the sessions whose title, taken as a text, matches a query."""
        candidates = frozenset().union(*titled)
        if plan.has_only_words:
            return candidates
        # Matching each title takes long, and most lack the phrases of a query.
        phrases = {
            term.text for term in hit_query.conditions if isinstance(term, Phrase)
        }
        for term, found in zip(plan.terms, titled, strict=False):
            if term.is_exact and term.label in phrases:
                candidates &= found
        matching = set()
        matcher = TitleMatcher(hit_query, self._engine.tokenize, stem_word)
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
            if any(map(matcher.matches, titles)):
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
    by_term = zip(terms, scores.by_term, strict=True)
    by_word = (sessions for term, sessions in by_term if term.is_plain_word)
    return {s: scores.by_session[s] for s in frozenset().union(*by_word)}


def _best_sessions(matching: Mapping[int, float]) -> list[int]:
    """Return the sessions whose records are scored: the best by their words."""
    return nlargest(
        _MAX_RECORD_SESSIONS,
        matching,
        key=lambda session: (matching[session], session),
    )


def _has_no_conditions(plan: SearchPlan) -> bool:
    """Whether texts need only have the words of a query."""
    return not (plan.required or plan.text_conditions or plan.kind_conditions)


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
