"""Build search results: matches, hits and highlighted excerpts."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, cached_property
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from bygones.model.base import RecordId
from bygones.model.query import (
    KIND_TO_PART,
    KINDS_PER_SESSION,
    Part,
    Query,
    text_key_session,
)
from bygones.model.summary import (
    CountBound,
    Excerpt,
    Hit,
    LineageKind,
    SessionMatch,
    SessionSummary,
)
from bygones.query.fields import SearchableText
from bygones.query.matcher import matches_text
from bygones.query.tokens import TermRun
from bygones.search.grouping import (
    MAX_COMPARED_SESSIONS,
    MAX_GROUPED_SESSIONS,
    FoldedSessions,
    SessionProfile,
    fold_duplicates,
    group_similar,
    possible_duplicates,
)
from bygones.search.plan import SearchPlan, matching_kinds
from bygones.search.ranking import RankedSessions
from bygones.search.scoring import SessionScores
from bygones.search.texts import LoadedRecord, TextLoader, make_title_text
from bygones.search.title_index import TitleIndex
from bygones.store.protocols import EngineQuery, SearchEngine
from bygones.store.tantivy_engine import TextMatch
from bygones.store.word_forms import stem_word

EXCERPT_WIDTH = 180
"""Characters of an excerpt, before it is cut back to whole words."""
_CONTEXT_BEFORE = 40
"""Characters before the first highlight, if there are as many."""
_WORD_SLACK = 30
"""How many characters a cut may move to keep a word whole."""
_MAX_HIGHLIGHTS = 400
_MAX_SCANNED_CHARS = 400_000
"""Characters of a text that are scanned."""
_TERMINAL_ESCAPE = re.compile(
    r"\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"
)
_CJK_RANGES = "\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc"
_FIRST_CJK = "\u2e80"
_JOINERS = {"\u200d", "\ufe0e", "\ufe0f"}


class Highlighter(Struct, frozen=True):
    """Finds what to highlight in a text."""

    word_pattern: re.Pattern[str] | None = None
    """Matches lower-case text without accents; a match has to start a word."""
    regex_pattern: re.Pattern[str] | None = None

    def find_spans(self, text: str) -> list[tuple[int, int]]:
        """Return the start and end of each highlight, in order, none inside another."""
        spans: list[tuple[int, int]] = []
        if self.word_pattern is not None:
            folded = _fold_text(text)
            for match in islice(self.word_pattern.finditer(folded), _MAX_HIGHLIGHTS):
                start = match.start()
                if start == 0 or not _is_inside_word(folded, start):
                    spans.append(match.span())
        if self.regex_pattern is not None:
            matches = islice(self.regex_pattern.finditer(text), _MAX_HIGHLIGHTS)
            spans = _merge_spans([*spans, *(m.span() for m in matches if m[0])])
        return spans


def make_highlighter(
    runs: Iterable[TermRun],
    prefixes: Iterable[TermRun] = (),
    patterns: Iterable[str] = (),
) -> Highlighter:
    """Return a highlighter for runs of terms, prefixes and regular expressions."""
    words = [_run_pattern(run) for run in runs]
    words += [_run_pattern(run, is_prefix=True) for run in prefixes]
    # The longest first: it may start with another one.
    words = sorted(dict.fromkeys(words), key=len, reverse=True)
    regexes = [f"(?:{pattern})" for pattern in patterns]
    return Highlighter(
        re.compile("|".join(words)) if words else None,
        re.compile("|".join(regexes), re.IGNORECASE) if regexes else None,
    )


@cache
def _cjk_pattern() -> re.Pattern[str]:
    # Compiled for the first text that needs it: that takes as long as ten excerpts.
    return re.compile(f"[{_CJK_RANGES}]")


def _is_cjk(character: str) -> bool:
    return (
        character >= _FIRST_CJK
        and character.isalnum()
        and _cjk_pattern().match(character) is not None
    )


def _run_pattern(run: TermRun, *, is_prefix: bool = False) -> str:
    """Return a pattern for consecutive terms; CJK characters may touch."""
    pattern = re.escape(run[0])
    for term in run[1:]:
        pattern += (r"[\W_]*" if _is_cjk(term[:1]) else r"[\W_]+") + re.escape(term)
    if not _is_cjk(run[-1][:1]):
        pattern += r"[^\W_]*" if is_prefix else r"(?![^\W_])"
    return pattern


def _is_inside_word(text: str, at: int) -> bool:
    return text[at - 1].isalnum() and not (
        _is_cjk(text[at : at + 1]) or _is_cjk(text[at - 1])
    )


def _merge_spans(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        else:
            merged.append((start, stop))
    return merged


def cut_excerpt(text: str, highlighter: Highlighter) -> Excerpt:
    """Return the part of a text that contains the most of what is highlighted.

    It is on one line, consists of whole words where possible, and contains no terminal
    escape sequences.
    """
    text = text[:_MAX_SCANNED_CHARS]
    if "\x1b" in text:
        text = _TERMINAL_ESCAPE.sub("", text)
    text = " ".join(text.split())
    spans = highlighter.find_spans(text)
    start = _best_start(text, spans) if len(text) > EXCERPT_WIDTH else 0
    start, stop = _snap_to_words(text, start)
    inside = tuple(
        (max(begin, start) - start, min(end, stop) - start)
        for begin, end in spans
        if begin < stop and end > start
    )
    return Excerpt(text[start:stop], inside, start > 0, stop < len(text))


def _best_start(text: str, spans: Sequence[tuple[int, int]]) -> int:
    """Return the start that includes most different words, then most words."""
    best = (0, 0, 0)
    for at, (start, _) in enumerate(spans):
        inside = []
        for begin, end in spans[at:]:
            if end > start + EXCERPT_WIDTH - _CONTEXT_BEFORE:
                break
            inside.append(text[begin:end].lower())
        best = max(best, (len(set(inside)), len(inside), -start))
    return max(0, -best[2] - _CONTEXT_BEFORE) if spans else 0


def _snap_to_words(text: str, start: int) -> tuple[int, int]:
    stop = min(len(text), start + EXCERPT_WIDTH)
    if start:
        space = text.find(" ", start - 1, start + _WORD_SLACK)
        start = space + 1 if space >= 0 else _snap_to_character(text, start)
    if stop < len(text):
        space = text.rfind(" ", stop - _WORD_SLACK, stop + 1)
        stop = space if space > start else _snap_to_character(text, stop)
    return start, stop


def _snap_to_character(text: str, at: int) -> int:
    """Return the nearest offset before that is not inside a visible character."""
    while 0 < at < len(text) and (
        unicodedata.combining(text[at])
        or text[at] in _JOINERS
        or text[at - 1] == "\u200d"
    ):
        at -= 1
    return at


def _fold_text(text: str) -> str:
    """Return a text of the same length in lower case, without accents."""
    return text.lower() if text.isascii() else text.translate(_FOLD_TABLE)


class _FoldTable(dict[int, str]):
    """Maps characters to lower case without accents, each when it is first met."""

    def __missing__(self, character: int) -> str:
        if len(self) >= _FOLD_CACHE_SIZE:
            self.clear()
        folded = unicodedata.normalize("NFKD", chr(character))[0].lower()[:1]
        self[character] = folded
        return folded


_FOLD_CACHE_SIZE = 4096
_FOLD_TABLE = _FoldTable()


MAX_OPENED_RECORDS = 10_000
"""Records that are opened for one query, at most."""
_TEXTS_PER_HIT = 24
"""Texts of a session that are sorted again by weight, for each hit that is shown."""
_MAX_COMPARED_TEXTS = 200
"""Texts of a session that are compared with those of another."""
_MAX_CHECKED_TEXTS = 1_000
"""Texts of a session that are opened to find one that matches, at most."""
_MAX_OPENED_TEXTS = 2_000
"""Texts of one session that are opened to find all that match."""
_PREFETCH_SESSIONS = 10
"""Sessions whose texts are requested at once, where they have to be opened."""
_SPARE_TEXTS = 6
"""Texts prefetched beyond the hits to show: some texts repeat others."""
_MAX_BATCH_TEXTS = 20_000
"""Texts of all sessions together that are requested at once."""
_MAX_SESSION_TEXTS = 200_000
"""Texts of one session that are requested at once."""
_PART_WEIGHTS = {
    Part.TITLE: 1.3,
    Part.PROMPT: 1.3,
    Part.REPLY: 1.1,
    Part.TOOL: 0.9,
    Part.THINKING: 0.9,
    Part.OTHER: 0.8,
    Part.RESULT: 0.7,
}
_CALL_WEIGHT = 1_000_000.0
"""What calls count more if the query names nothing but tools and files."""


class ResultBuilder:
    """Builds the matches of one query, session by session."""

    def __init__(  # noqa: PLR0913 (what results are made of)
        self,
        loader: TextLoader,
        engine: SearchEngine,
        plan: SearchPlan,
        hit_query: Query,
        *,
        titles: TitleIndex,
        title_matches: frozenset[int],
        families: Mapping[int, int],
        redact: Callable[[str], str],
    ) -> None:
        self._redact = redact
        self._loader = loader
        self._facts = loader.facts
        self._families = families
        self._title_matches = title_matches
        self._titles = titles
        self._engine = engine
        self._plan = plan
        self._hit_query = hit_query
        self._kinds = (
            matching_kinds(plan.kind_conditions) if plan.kind_conditions else None
        )
        title_runs = (run for term in plan.terms for run in titles.matched_runs(term))
        self._highlighter = make_highlighter(
            (*plan.indexed_variants(is_prefix=False), *title_runs),
            plan.indexed_variants(is_prefix=True),
            plan.regexes,
        )
        self._folded = FoldedSessions([], {}, {})
        self._summaries: dict[int, SessionSummary | None] = {}
        self._lineages: dict[int, list[int]] = {}
        """The sessions of each family that are among the best."""
        self._text_cache: dict[tuple[int, int], tuple[int, list[TextMatch]]] = {}
        """Texts that were requested already, by session and limit."""
        self._record_keys: dict[int, int] = {}
        """The keys of records, as far as they were looked up."""
        self._ranked: RankedSessions | None = None
        """By which the page is built."""
        self._excluded: dict[int, set[tuple[int, int]]] = {}
        """Records and keys of matching texts that are not shown, by session."""
        self.is_partial = False
        """Whether something may be missing, because of the limits above."""
        self._min_hits = 1 if plan.text_conditions else 0
        """Texts that have to be opened to know that the session matches."""

    def exclude(self, phrase: str) -> None:
        """Leave out the results of tools that contain a phrase."""
        run = self._engine.tokenize(phrase)
        if not run or not all(map(self._engine.frequency, run)):
            return
        query = self._engine.match_phrase(run)
        _, texts = self._engine.search(
            self._engine.all_of([*self._build_queries(None), query]),
            _MAX_SESSION_TEXTS,
        )
        for text in texts:
            kind = text.text_key % KINDS_PER_SESSION
            is_matching = self._kinds is None or kind in self._kinds
            if is_matching and KIND_TO_PART[kind] is Part.RESULT:
                session = text_key_session(text.text_key)
                place = text.record, text.text_key
                self._excluded.setdefault(session, set()).add(place)

    def without_excluded(
        self, ranked: RankedSessions, sessions: frozenset[int], needed: int
    ) -> RankedSessions:
        """Drop sessions, and those with nothing but excluded texts that match.

        Of these only as many are looked at as may be shown.
        """
        checked = [
            session
            for session in ranked.sessions[: needed + MAX_COMPARED_SESSIONS]
            if session in self._excluded and session not in self._title_matches
        ]
        queries = [
            self._engine.all_of(self._build_queries(session)) for session in checked
        ]
        found = self._engine.search_many(queries, 1) if checked else []
        empty = {
            session
            for session, (count, _) in zip(checked, found, strict=True)
            if count <= len(self._excluded[session])
        }
        dropped = (sessions | empty) & frozenset(ranked.sessions)
        return ranked.drop(dropped) if dropped else ranked

    def _drop_excluded(
        self, session: int, found: tuple[int, list[TextMatch]]
    ) -> tuple[int, list[TextMatch]]:
        excluded = self._excluded.get(session)
        if not excluded:
            return found
        count, texts = found
        own = [text for text in texts if (text.record, text.text_key) not in excluded]
        if count == len(texts):
            return len(own), own
        return max(len(own), count - len(excluded)), own

    def build_page(
        self, ranked: RankedSessions, offset: int, limit: int, hits: int
    ) -> tuple[dict[int, SessionMatch], int]:
        """Return matches from an offset on, and how many more may follow.

        They are by session number, in order, and lack what depends on the ranking.
        Sessions that were ranked by their records are grouped with similar ones.
        Where texts have to be opened, those that follow were not looked at.
        """
        self._ranked = ranked
        sessions: Sequence[int] = ranked.sessions
        if not self._plan.is_session_only:
            duplicates = possible_duplicates(sessions, self._families)
            self._prefetch(duplicates, _MAX_COMPARED_TEXTS, include_all=True)
            self._facts.prefetch(duplicates, ())
            self._folded = fold_duplicates(
                sessions, self._families, self._compared_records, self._sort_by_age
            )
            sessions = self._folded.sessions
        groups = self._group_sessions(sessions, ranked.scores)
        if not self._plan.text_conditions:
            page = groups[offset : offset + limit]
            self._prefetch([group[0] for group in page], hits)
            matches = {
                group[0]: self._with_group(match, group)
                for group in page
                if (match := self._build_session(group[0], hits))
            }
            return matches, max(0, len(groups) - offset - len(matches))
        matches = {}
        count = rest = 0
        for index, group in enumerate(groups):
            if index % _PREFETCH_SESSIONS == 0:
                batch = groups[index : index + _PREFETCH_SESSIONS]
                self._prefetch([group[0] for group in batch], hits)
            if self._loader.opened_count > MAX_OPENED_RECORDS:
                self.is_partial = True
                break
            matching = {
                session: match
                for session in group
                if (match := self._build_session(session, hits)) and match.hits
            }
            if matching:
                count += 1
                first, match = next(iter(matching.items()))
                if count > offset:
                    matches[first] = self._with_group(match, tuple(matching))
            if count == offset + limit:
                rest = len(groups) - index - 1
                break
        return matches, rest

    def _group_sessions(
        self, sessions: Sequence[int], scores: SessionScores
    ) -> list[tuple[int, ...]]:
        """Return sessions that were ranked by their records in groups of similar ones."""
        if not scores.records:
            return [(session,) for session in sessions]
        self._facts.prefetch(sessions[:MAX_GROUPED_SESSIONS], ())

        def load_profile(session: int) -> SessionProfile | None:
            summary = self._load_summary(session)
            if summary is None:
                return None
            return SessionProfile.build(
                summary, scores.best_texts(session), self._engine.tokenize
            )

        groups = group_similar(sessions, self._families, load_profile)
        for first, *_ in groups[:MAX_GROUPED_SESSIONS]:
            if first in self._families:
                self._lineages.setdefault(self._families[first], []).append(first)
        return groups

    def _with_group(self, match: SessionMatch, group: Sequence[int]) -> SessionMatch:
        """Add the sessions that are shown with a match, or next to it."""
        first, *others = group
        lineage = self._lineages.get(self._families.get(first, -1), ())
        return replace(
            match,
            lineage=self._load_summaries(one for one in lineage if one != first),
            similar=self._load_summaries(others),
        )

    def _load_summaries(self, sessions: Iterable[int]) -> tuple[SessionSummary, ...]:
        summaries = map(self._load_summary, sessions)
        return tuple(one for one in summaries if one is not None)

    def filter_sessions(self, sessions: Sequence[int]) -> list[int]:
        """Return the sessions that have a text which meets the conditions.

        Where texts have to be opened for that, at most `MAX_OPENED_RECORDS` are.
        """
        if not self._plan.text_conditions:
            return list(sessions)
        matching = []
        for index, session in enumerate(sessions):
            if index % _PREFETCH_SESSIONS == 0:
                self._prefetch(sessions[index : index + _PREFETCH_SESSIONS], 1)
            if self._loader.opened_count > MAX_OPENED_RECORDS:
                self.is_partial = True
                break
            if self._has_match(session):
                matching.append(session)
        return matching

    def _has_match(self, session: int) -> bool:
        if session in self._title_matches:
            return True
        summary = self._facts.load_summary(session)
        return summary is not None and any(
            self._text_matches(text, summary)
            for text in self._find_texts(session, 1)[1]
        )

    def _prefetch(
        self, sessions: Sequence[int], hits: int, *, include_all: bool = False
    ) -> None:
        """Request the texts of several sessions at once, and the records to open.

        These are the records of the hits to show, or of all texts. Where texts repeat
        others, more are requested later.
        """
        if not sessions:
            return
        if self._plan.text_conditions and self._texts_by_session is not None:
            found = [self._find_texts(session, hits) for session in sessions]
        else:
            found = self._search_sessions(
                sessions, self._text_limit(hits), needs_all=include_all
            )
        stop = None if include_all else hits + _SPARE_TEXTS
        records = [text.record for _, texts in found for text in texts[:stop]]
        if include_all and not self._plan.text_conditions:
            self._record_keys |= self._facts.record_keys(records)
            return
        copies = [
            copy
            for session in sessions
            for copy in self._folded.copies.get(session, ())
        ]
        self._facts.prefetch([*sessions, *copies], records)
        if hits:
            self._loader.checksums |= self._engine.text_checksums(records)

    def _search_sessions(
        self, sessions: Sequence[int], limit: int, *, needs_all: bool
    ) -> list[tuple[int, list[TextMatch]]]:
        """Return the number of texts of each session that match, and the best ones."""
        found = (
            self._ranked.matched_texts(sessions, limit, needs_all=needs_all)
            if self._ranked
            else {}
        )
        known = {one: self._drop_excluded(one, some) for one, some in found.items()}
        found = {one: some for one, some in known.items() if some[1]}
        others = [session for session in sessions if session not in found]
        queries = [
            self._engine.all_of(self._build_queries(session)) for session in others
        ]
        searched = self._engine.search_many(queries, limit) if others else []
        found |= {
            session: self._drop_excluded(session, some)
            for session, some in zip(others, searched, strict=True)
        }
        for session in sessions:
            self._sort_by_weight(found[session][1])
            self._text_cache[session, limit] = found[session]
        return [found[session] for session in sessions]

    def _load_summary(self, session: int) -> SessionSummary | None:
        if session not in self._summaries:
            self._summaries[session] = self._facts.load_summary(session)
        return self._summaries[session]

    def _build_session(self, session: int, hits: int) -> SessionMatch | None:
        summary = self._load_summary(session)
        if summary is None:
            return None
        hit_count, texts = self._find_own_texts(session, hits)
        # A record in two files is one hit, and so is what was said twice.
        hits_by_text: dict[str, Hit] = {}
        for text in texts:
            if len(hits_by_text) >= max(hits, self._min_hits):
                break
            loaded = self._loader.load(text, summary)
            if loaded is not None and self._matches(loaded[0]):
                hit = self._make_hit(loaded)
                if hit.excerpt.text:
                    hits_by_text.setdefault(hit.excerpt.text, hit)
        title = cut_excerpt(self._redact(summary.title.text), self._highlighter)
        if session in self._title_matches:
            hit_count += 1
            hit = self._find_title(session, summary)
            is_title = hit.excerpt.text == title.text
            if not hits_by_text or (not is_title and len(hits_by_text) < hits):
                hits_by_text[hit.excerpt.text] = hit
        bound = CountBound.EXACT
        if self._plan.text_conditions and hit_count > 1:
            bound = CountBound.AT_MOST
        elif self._ranked and self._ranked.has_more_texts and hit_count > 1:
            bound = CountBound.AT_LEAST
        copies = map(self._facts.load_summary, self._folded.copies.get(session, ()))
        return SessionMatch(
            summary=summary,
            highlighted_title=title,
            hit_count=hit_count,
            hit_count_bound=bound,
            hits=tuple(hits_by_text.values()),
            duplicate_ids=tuple(copy.id for copy in copies if copy),
        )

    def _find_own_texts(self, session: int, hits: int) -> tuple[int, list[TextMatch]]:
        """Return the matching texts of a session without those of older sessions."""
        copied = self._folded.copied_records.get(session)
        if not copied:
            return self._find_texts(session, hits)
        count, texts = self._find_texts(session, _MAX_COMPARED_TEXTS)
        keys = self._load_record_keys(texts)
        own = [text for text in texts if keys.get(text.record) not in copied]
        return count - len(texts) + len(own), own

    def _sort_by_age(self, sessions: Sequence[int]) -> list[int]:
        """Sort related sessions, those that others continue or copy first."""
        summaries = {number: self._facts.load_summary(number) for number in sessions}
        numbers = {one.id: number for number, one in summaries.items() if one}

        def age(number: int) -> tuple[int, float, int]:
            depth, seen, origins = 0, {number}, {number}
            while (
                origins := {
                    numbers[link.session_id]
                    for origin in origins
                    if (summary := summaries[origin]) is not None
                    for link in summary.lineage
                    if link.kind is not LineageKind.CONTINUED_IN
                    and link.session_id in numbers
                }
                - seen
            ):
                depth += 1
                seen |= origins
            own = summaries[number]
            ended_at = own.ended_at if own else None
            return depth, ended_at.timestamp() if ended_at else 0.0, number

        return sorted(sessions, key=age)

    def _find_title(self, session: int, summary: SessionSummary) -> Hit:
        """Return the title, summary or queued prompt with the most highlights."""
        titles = self._titles.titles_of(session) or [summary.title.text]
        hits = []
        for title in titles:
            text = make_title_text(summary, title)
            excerpt = cut_excerpt(self._redact(text.text), self._highlighter)
            hit = Hit(
                record_id=RecordId(""),
                position=None,
                part=text.part,
                role=text.role,
                sent_at=summary.ended_at,
                excerpt=excerpt,
            )
            hits.append(hit)
        return max(hits, key=lambda hit: len(hit.excerpt.highlights))

    def matching_records(self, session: int) -> frozenset[int]:
        """Return all records of a session that match, by the keys of their ids.

        Where texts have to be opened for that, at most `_MAX_OPENED_TEXTS` are.
        """
        total, texts = self._engine.search(
            self._engine.all_of(self._build_queries(session)), _MAX_SESSION_TEXTS
        )
        self.is_partial |= total > len(texts)
        if self._kinds is not None:
            texts = [
                text
                for text in texts
                if text.text_key % KINDS_PER_SESSION in self._kinds
            ]
        if self._plan.text_conditions:
            self.is_partial |= len(texts) > _MAX_OPENED_TEXTS
            summary = self._facts.load_summary(session)
            texts = [
                text
                for text in texts[:_MAX_OPENED_TEXTS]
                if summary is not None and self._text_matches(text, summary)
            ]
        return self._keys_of(texts)

    def _keys_of(self, texts: Sequence[TextMatch]) -> frozenset[int]:
        keys = self._load_record_keys(texts)
        return frozenset(keys[t.record] for t in texts if t.record in keys)

    def _load_record_keys(self, texts: Sequence[TextMatch]) -> Mapping[int, int]:
        """Return at least the keys of the records of texts."""
        known = self._record_keys
        new = [text.record for text in texts if text.record not in known]
        if new:
            known |= self._facts.record_keys(new)
        return known

    def _compared_records(self, session: int) -> frozenset[int]:
        """Return the matching records by which a session is compared with others."""
        _, texts = self._find_texts(session, _MAX_COMPARED_TEXTS)
        if self._plan.text_conditions:
            summary = self._facts.load_summary(session)
            texts = [t for t in texts if summary and self._text_matches(t, summary)]
        title = {-session} if session in self._title_matches else set()
        return self._keys_of(texts) | title

    def _text_matches(self, text: TextMatch, summary: SessionSummary) -> bool:
        loaded = self._loader.load(text, summary)
        return loaded is not None and self._matches(loaded[0])

    def _find_texts(self, session: int, hits: int) -> tuple[int, list[TextMatch]]:
        """Return how many texts of a session match, and the best of them."""
        has_text_conditions = bool(self._plan.text_conditions)
        limit = self._text_limit(hits)
        texts_by_session = self._texts_by_session if has_text_conditions else None
        if texts_by_session is not None:
            texts = texts_by_session.get(session, [])
            _, texts = self._drop_excluded(session, (len(texts), texts))
            return len(texts), self._sort_by_weight(texts)
        found = self._text_cache.get((session, limit))
        if found is None:
            query = self._engine.all_of(self._build_queries(session))
            found = self._engine.search(query, limit)
            found = self._drop_excluded(session, found)
            self._sort_by_weight(found[1])
        self.is_partial |= has_text_conditions and found[0] > limit
        return found

    def _text_limit(self, hits: int) -> int:
        """Return how many texts of a session are looked at."""
        least = (
            _MAX_CHECKED_TEXTS
            if self._plan.text_conditions
            else _TEXTS_PER_HIT * max(hits, 1)
        )
        # Those that are left out may be the best.
        spare = max(map(len, self._excluded.values()), default=0)
        return max(least, hits) + spare

    def _sort_by_weight(self, texts: list[TextMatch]) -> list[TextMatch]:
        """Sort the engine's list in place, so that a cached list is sorted once.

        Texts of the same length, kind and score are usually the same: after the first
        of them come all others.
        """
        weights = self._kind_weights
        texts.sort(
            key=lambda text: (
                -text.score * weights[text.text_key % KINDS_PER_SESSION],
                text.record,
            )
        )
        seen: set[tuple[float, int, int]] = set()
        repeated: list[TextMatch] = []
        first: list[TextMatch] = []
        for text in texts:
            profile = text.score, text.length, text.text_key
            (repeated if profile in seen else first).append(text)
            seen.add(profile)
        texts[:] = first + repeated
        return texts

    @cached_property
    def _kind_weights(self) -> list[float]:
        """What texts of each kind count; calls come first if the query names them."""
        weights = [_PART_WEIGHTS[part] for part in KIND_TO_PART]
        if self._plan.asks_for_calls:
            is_call = (part is Part.TOOL for part in KIND_TO_PART)
            factors = (_CALL_WEIGHT if call else 1.0 for call in is_call)
            return [w * factor for w, factor in zip(weights, factors, strict=True)]
        return weights

    @cached_property
    def _texts_by_session(self) -> dict[int, list[TextMatch]] | None:
        """The texts of all sessions that have to be opened, unless they are too many.

        One request is cheaper where the engine has to scan its terms, or where most
        sessions have nothing that matches.
        """
        queries = self._build_queries(None) or [self._engine.match_all()]
        total, texts = self._engine.search(
            self._engine.all_of(queries), _MAX_BATCH_TEXTS
        )
        if total > _MAX_BATCH_TEXTS:
            return None
        by_session: dict[int, list[TextMatch]] = {}
        for text in texts:
            if self._kinds is None or text.text_key % KINDS_PER_SESSION in self._kinds:
                session = text_key_session(text.text_key)
                by_session.setdefault(session, []).append(text)
        return by_session

    def _build_queries(self, session: int | None) -> list[EngineQuery]:
        """Return the engine queries that a text of a session, or of any, has to match."""
        engine, plan = self._engine, self._plan
        terms = plan.plain_words or (plan.terms if plan.is_covered_by_terms else ())
        scope = [engine.without_score(engine.in_sessions([session]))] if session else []
        queries = list(scope)
        if terms:
            # Each variant is intersected with the session by itself: the union of all
            # variants is far larger than the session.
            variants = [query for term in terms for query in term.variant_queries]
            queries = [
                engine.any_of([engine.all_of([*scope, query]) for query in variants])
            ]
        if plan.required is not None:
            queries.append(plan.required)
        if session and self._kinds is not None:
            queries.append(engine.in_kinds(session, sorted(self._kinds)))
        return queries

    def _matches(self, candidate: SearchableText) -> bool:
        if not self._plan.text_conditions:
            return True
        return matches_text(
            self._hit_query, candidate, self._engine.tokenize, stem_word
        )

    def _make_hit(self, loaded: tuple[SearchableText, LoadedRecord]) -> Hit:
        excerpt = cut_excerpt(self._redact(loaded[0].text), self._highlighter)
        return self._loader.make_hit(loaded, excerpt)
