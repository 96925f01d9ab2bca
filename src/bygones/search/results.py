"""The best few words of a text, with those marked that were looked for."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, cached_property
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct

from bygones.model.base import RecordId, SessionId
from bygones.model.query import (
    KINDS_PER_SESSION,
    Part,
    Query,
    text_key_part,
    text_key_session,
)
from bygones.model.summary import CountBound, Excerpt, Hit, SessionSummary
from bygones.query.matcher import SearchableText, matches_text
from bygones.query.terms import TermRun
from bygones.search.plan import SearchPlan, matching_kinds
from bygones.search.stats import TitleIndex
from bygones.search.texts import LoadedRecord, TextLoader
from bygones.store.text_index import TextMatch, stem_word

EXCERPT_WIDTH = 180
"""Signs of an excerpt, before it is cut back to whole words."""
_CONTEXT_BEFORE = 40
"""Signs that stand before the first mark, if there are so many."""
_WORD_SLACK = 30
"""How far a cut is moved to keep a word whole."""
_MAX_MARKS = 400
_MAX_SCANNED_CHARS = 400_000
"""Signs of a text that are looked through."""
_TERMINAL_ESCAPE = re.compile(
    r"\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"
)
_CJK_RANGES = "\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc"
_FIRST_CJK = "\u2e80"
_JOINERS = {"\u200d", "\ufe0e", "\ufe0f"}


class Highlighter(Struct, frozen=True):
    """What is to be marked in a text."""

    word_pattern: re.Pattern[str] | None = None
    """Of small letters without accents, begun at the beginning of a word."""
    regex_pattern: re.Pattern[str] | None = None

    def find_spans(self, text: str) -> list[tuple[int, int]]:
        """Return where marks begin and end, in order; none lies within another."""
        found: list[tuple[int, int]] = []
        if self.word_pattern is not None:
            plain = _fold_text(text)
            for match in islice(self.word_pattern.finditer(plain), _MAX_MARKS):
                start = match.start()
                if start == 0 or not _is_inside_word(plain, start):
                    found.append(match.span())
        if self.regex_pattern is not None:
            matches = islice(self.regex_pattern.finditer(text), _MAX_MARKS)
            found = _merge_spans([*found, *(m.span() for m in matches if m[0])])
        return found


def make_highlighter(
    runs: Iterable[TermRun],
    prefixes: Iterable[TermRun] = (),
    patterns: Iterable[str] = (),
) -> Highlighter:
    """Return what marks terms in a row, beginnings of words, and patterns."""
    ways = [_run_pattern(run) for run in runs]
    ways += [_run_pattern(run, is_prefix=True) for run in prefixes]
    # The longest way first: a part of it may be another way.
    ways = sorted(dict.fromkeys(ways), key=len, reverse=True)
    others = [f"(?:{pattern})" for pattern in patterns]
    return Highlighter(
        re.compile("|".join(ways)) if ways else None,
        re.compile("|".join(others), re.IGNORECASE) if others else None,
    )


@cache
def _cjk_pattern() -> re.Pattern[str]:
    # Made when the first text needs it: that takes as long as ten excerpts.
    return re.compile(f"[{_CJK_RANGES}]")


def _is_cjk(character: str) -> bool:
    return (
        character >= _FIRST_CJK
        and character.isalnum()
        and _cjk_pattern().match(character) is not None
    )


def _run_pattern(run: TermRun, *, is_prefix: bool = False) -> str:
    """Return a pattern for terms in a row; signs without spaces may touch."""
    written = re.escape(run[0])
    for term in run[1:]:
        written += (r"[\W_]*" if _is_cjk(term[:1]) else r"[\W_]+") + re.escape(term)
    if not _is_cjk(run[-1][:1]):
        written += r"[^\W_]*" if is_prefix else r"(?![^\W_])"
    return written


def _is_inside_word(text: str, at: int) -> bool:
    """Whether a place is within a word."""
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
    """Return the stretch of a text that has the most of what is looked for.

    It is on one line, begins and ends with whole words where there are any, and
    leaves out what steers a terminal.
    """
    text = text[:_MAX_SCANNED_CHARS]
    if "\x1b" in text:
        text = _TERMINAL_ESCAPE.sub("", text)
    text = " ".join(text.split())
    found = highlighter.find_spans(text)
    start = _best_start(text, found)
    start, stop = _snap_to_words(text, start)
    inside = tuple(
        (max(begin, start) - start, min(end, stop) - start)
        for begin, end in found
        if begin < stop and end > start
    )
    return Excerpt(text[start:stop], inside, start > 0, stop < len(text))


def _best_start(text: str, spans: Sequence[tuple[int, int]]) -> int:
    """Return where to begin so that most different words, then most words, are in."""
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
    """Return a place near one that is between two signs as people see them."""
    while 0 < at < len(text) and (
        unicodedata.combining(text[at])
        or text[at] in _JOINERS
        or text[at - 1] == "\u200d"
    ):
        at -= 1
    return at


def _fold_text(text: str) -> str:
    """Return a text of the same length in small letters without accents."""
    return text.lower() if text.isascii() else text.translate(_FOLD_TABLE)


class _FoldTable(dict[int, str]):
    """Signs in small letters without accents, found when they are met."""

    def __missing__(self, sign: int) -> str:
        if len(self) >= _FOLD_CACHE_SIZE:
            self.clear()
        small = unicodedata.normalize("NFKD", chr(sign))[0].lower()[:1]
        self[sign] = small
        return small


_FOLD_CACHE_SIZE = 4096
_FOLD_TABLE = _FoldTable()


_MAX_COMPARED_SESSIONS = 50
"""Sessions among which copies are looked for, the best ones."""


def possible_duplicates(
    sessions: Sequence[int], families: Mapping[int, int]
) -> list[int]:
    """Return those of the best sessions that may share records with another of them."""
    return [one for group in _family_groups(sessions, families) for one in group]


def _family_groups(
    sessions: Sequence[int], families: Mapping[int, int]
) -> list[list[int]]:
    groups: dict[int, list[int]] = {}
    for session in sessions[:_MAX_COMPARED_SESSIONS]:
        if session in families:
            groups.setdefault(families[session], []).append(session)
    return [group for group in groups.values() if len(group) > 1]


def fold_duplicates(
    sessions: Sequence[int],
    families: Mapping[int, int],
    records_of: Callable[[int], frozenset[int]],
) -> tuple[list[int], dict[int, tuple[int, ...]]]:
    """Return sessions without those that only repeat another one, and where these went.

    ``families`` names those that may share records. Of two with the same records the
    older one stays; a session with fewer goes into one that has all of them. Whoever
    stays is where the best of them was.
    """
    into: dict[int, int] = {}
    for group in _family_groups(sessions, families):
        into |= _find_duplicates({session: records_of(session) for session in group})
    order: dict[int, None] = {}
    for session in sessions:
        order[into.get(session, session)] = None
    gone: dict[int, tuple[int, ...]] = {}
    for session in sorted(into):
        kept = into[session]
        gone[kept] = (*gone.get(kept, ()), session)
    return list(order), gone


def _find_duplicates(records: Mapping[int, frozenset[int]]) -> dict[int, int]:
    """Return which sessions have nothing that another one has not."""
    into: dict[int, int] = {}
    kept: list[int] = []
    # Numbers are given in order: the lower one was met first.
    for session in sorted(records, key=lambda one: (-len(records[one]), one)):
        for other in kept:
            if records[session] and records[session] <= records[other]:
                into[session] = other
                break
        else:
            kept.append(session)
    return into


if TYPE_CHECKING:  # protocols take long to make
    from bygones.store.protocols import EngineQuery, SearchEngine


MAX_OPENED_RECORDS = 10_000
"""Records that are opened for one answer, at most."""
_TEXTS_PER_HIT = 24
"""Texts of a session that are ordered anew, for each hit that is told."""
_MAX_COMPARED_TEXTS = 200
"""Texts of a session by which it is compared with another."""
_MAX_CHECKED_TEXTS = 1_000
"""Texts of a session that are opened to find one that fits, at most."""
_MAX_OPENED_TEXTS = 2_000
"""Texts of one session that are opened to know all that fit."""
_PREFETCH_SESSIONS = 10
"""Sessions of which the texts are asked for at once, where they must be opened."""
_SPARE_TEXTS = 6
"""Texts beyond those that are told: some say the same as others."""
_MAX_BATCH_TEXTS = 20_000
"""Texts of all sessions together that are asked for at once."""
_MAX_SESSION_TEXTS = 200_000
"""Texts of one session that are asked for at once."""
_PART_WEIGHTS = {
    Part.TITLE: 1.3,
    Part.PROMPT: 1.3,
    Part.REPLY: 1.1,
    Part.TOOL: 0.9,
    Part.THINKING: 0.9,
    Part.OTHER: 0.8,
    Part.RESULT: 0.7,
}


class SessionHits(Struct, frozen=True):
    """A session with its hits."""

    session_number: int
    summary: SessionSummary
    highlighted_title: Excerpt
    hit_count: int
    hit_count_bound: CountBound
    hits: tuple[Hit, ...]
    duplicate_ids: tuple[SessionId, ...] = ()


class ResultBuilder:
    """Tells of the sessions of one answer."""

    def __init__(  # noqa: PLR0913 (what an answer is made of)
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
        self._duplicates: dict[int, tuple[int, ...]] = {}
        """Sessions that are told of with another one."""
        self._loader = loader
        self._facts = loader.facts
        self._families = families
        self._title_matches = title_matches
        self._engine = engine
        self._plan = plan
        self._hit_query = hit_query
        self._kinds = (
            matching_kinds(plan.kind_conditions) if plan.kind_conditions else None
        )
        titled_runs = (run for unit in plan.terms for run in titles.matched_runs(unit))
        written = (*plan.indexed_variants(is_prefix=False), *titled_runs)
        self._highlighter = make_highlighter(
            written, plan.indexed_variants(is_prefix=True), plan.regexes
        )
        self._text_cache: dict[tuple[int, int], tuple[int, list[TextMatch]]] = {}
        """Texts that were asked for already, by session and how many."""
        self.is_partial = False
        self._min_hits = 1 if plan.text_conditions else 0
        """Texts that must be opened to know that one fits."""

    def build_page(
        self, sessions: Sequence[int], offset: int, limit: int, hits: int
    ) -> tuple[list[SessionHits], int]:
        """Return sessions from an offset on, and how many more may follow.

        Where texts must be opened, what follows was not looked at.
        """
        if not self._plan.is_session_only:
            self._prefetch(
                possible_duplicates(sessions, self._families),
                _MAX_COMPARED_TEXTS,
                every=True,
            )
            sessions, self._duplicates = fold_duplicates(
                sessions, self._families, self._compared_records
            )
        if not self._plan.text_conditions:
            chosen = sessions[offset : offset + limit]
            self._prefetch(chosen, hits)
            told = [one for s in chosen if (one := self._build_session(s, hits))]
            return told, max(0, len(sessions) - offset - len(told))
        told = []
        for number, session in enumerate(sessions):
            if number % _PREFETCH_SESSIONS == 0:
                self._prefetch(sessions[number : number + _PREFETCH_SESSIONS], hits)
            if self._loader.opened_count > MAX_OPENED_RECORDS:
                self.is_partial = True
                return told[offset:], 0
            one = self._build_session(session, hits)
            if one is not None and one.hits:
                told.append(one)
            if len(told) == offset + limit:
                return told[offset:], len(sessions) - number - 1
        return told[offset:], 0

    def filter_sessions(self, sessions: Sequence[int]) -> list[int]:
        """Return the sessions that have a text which meets the conditions.

        Where texts must be opened for that, at most `MAX_OPENED_RECORDS` are.
        """
        if not self._plan.text_conditions:
            return list(sessions)
        found = []
        for index, session in enumerate(sessions):
            if index % _PREFETCH_SESSIONS == 0:
                self._prefetch(sessions[index : index + _PREFETCH_SESSIONS], 1)
            if self._loader.opened_count > MAX_OPENED_RECORDS:
                self.is_partial = True
                break
            if self._has_match(session):
                found.append(session)
        return found

    def _has_match(self, session: int) -> bool:
        if session in self._title_matches:
            return True
        summary = self._facts.load_summary(session)
        return summary is not None and any(
            self._text_matches(text, summary)
            for text in self._find_texts(session, 1)[1]
        )

    def _prefetch(
        self, sessions: Sequence[int], hits: int, *, every: bool = False
    ) -> None:
        """Ask at once for what will be told of sessions, or for ``every`` text of it.

        Where texts are the same it may be more than that; this is then asked for.
        """
        if not sessions:
            return
        if self._plan.text_conditions and self._texts_by_session is not None:
            found = [self._find_texts(session, hits) for session in sessions]
        else:
            most = self._text_limit(hits)
            asked = [
                self._engine.all_of(self._build_queries(session))
                for session in sessions
            ]
            found = self._engine.search_many(asked, most)
            for session, told in zip(sessions, found, strict=True):
                self._text_cache[session, most] = told
        some = None if every else hits + _SPARE_TEXTS
        records = [
            text.record
            for _, texts in found
            for text in self._sort_by_weight(texts)[:some]
        ]
        if every and not self._plan.text_conditions:
            self._facts.record_keys(records)
            return
        gone = [
            one for session in sessions for one in self._duplicates.get(session, ())
        ]
        self._facts.prefetch([*sessions, *gone], records)

    def _build_session(self, session: int, hits: int) -> SessionHits | None:
        listed = self._facts.load_summary(session)
        if listed is None:
            return None
        total, texts = self._find_texts(session, hits)
        found: dict[str, Hit] = {}
        for text in texts:
            if len(found) >= max(hits, self._min_hits):
                break
            one = self._loader.load(text, listed)
            if one is not None and self._matches(one[0]):
                # A record in two files is one hit, and so is what is said twice.
                hit = self._make_hit(one)
                if hit.excerpt.text:
                    found.setdefault(hit.excerpt.text, hit)
        also = map(self._facts.load_summary, self._duplicates.get(session, ()))
        title = cut_excerpt(self._redact(listed.title.text), self._highlighter)
        if session in self._title_matches:
            total += 1
            if not found:
                own = Hit(
                    record_id=RecordId(""),
                    position=None,
                    part=Part.TITLE,
                    sent_at=listed.ended_at,
                    excerpt=title,
                )
                found[title.text] = own
        return SessionHits(
            session,
            listed,
            title,
            total,
            CountBound.AT_MOST
            if self._plan.text_conditions and total > 1
            else CountBound.EXACT,
            tuple(found.values()),
            tuple(other.id for other in also if other),
        )

    def matching_records(self, session: int) -> frozenset[int]:
        """Return all records of a session that fit, by the numbers of their ids.

        Where texts must be opened to know that, so many are, and no more.
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
            listed = self._facts.load_summary(session)
            texts = [
                text
                for text in texts[:_MAX_OPENED_TEXTS]
                if listed is not None and self._text_matches(text, listed)
            ]
        return self._facts.record_keys(text.record for text in texts)

    def _compared_records(self, session: int) -> frozenset[int]:
        """Return the records of a session that fit, by the numbers of their ids."""
        _, texts = self._find_texts(session, _MAX_COMPARED_TEXTS)
        if self._plan.text_conditions:
            listed = self._facts.load_summary(session)
            texts = [t for t in texts if listed and self._text_matches(t, listed)]
        own = {-session} if session in self._title_matches else set()
        return self._facts.record_keys(text.record for text in texts) | own

    def _text_matches(self, text: TextMatch, summary: SessionSummary) -> bool:
        found = self._loader.load(text, summary)
        return found is not None and self._matches(found[0])

    def _find_texts(self, session: int, hits: int) -> tuple[int, list[TextMatch]]:
        """Return texts of a session, the best first, and how many there are."""
        is_opened = bool(self._plan.text_conditions)
        most = self._text_limit(hits)
        gathered = self._texts_by_session if is_opened else None
        if gathered is not None:
            texts = gathered.get(session, [])
            total = len(texts)
        else:
            found = self._text_cache.get((session, most))
            if found is None:
                asked = self._engine.all_of(self._build_queries(session))
                found = self._engine.search(asked, most)
            total, texts = found
            self.is_partial |= is_opened and total > most
        return total, self._sort_by_weight(texts)

    def _text_limit(self, hits: int) -> int:
        """Return how many texts of a session are looked at."""
        least = (
            _MAX_CHECKED_TEXTS
            if self._plan.text_conditions
            else _TEXTS_PER_HIT * max(hits, 1)
        )
        return max(least, hits)

    @staticmethod
    def _sort_by_weight(texts: list[TextMatch]) -> list[TextMatch]:
        texts.sort(
            key=lambda text: (
                -text.score * _PART_WEIGHTS[text_key_part(text.text_key)],
                text.record,
            )
        )
        return texts

    @cached_property
    def _texts_by_session(self) -> dict[int, list[TextMatch]] | None:
        """The texts of all sessions that must be opened, if they are not too many.

        To ask once is cheaper where words must be looked through, or most sessions
        have nothing that fits.
        """
        asked = self._build_queries(None) or [self._engine.match_all()]
        total, texts = self._engine.search(self._engine.all_of(asked), _MAX_BATCH_TEXTS)
        if total > _MAX_BATCH_TEXTS:
            return None
        found: dict[int, list[TextMatch]] = {}
        for text in texts:
            if self._kinds is None or text.text_key % KINDS_PER_SESSION in self._kinds:
                found.setdefault(text_key_session(text.text_key), []).append(text)
        return found

    def _build_queries(self, session: int | None) -> list[EngineQuery]:
        """Return what the engine is asked for, of one session or of all."""
        engine, plan = self._engine, self._plan
        units = plan.plain_words or (plan.terms if plan.is_covered_by_terms else ())
        own = [engine.without_score(engine.in_sessions([session]))] if session else []
        asked = list(own)
        if units:
            # Each way meets the session by itself: their union is far larger than it.
            ways = [way for unit in units for way in unit.variant_queries]
            asked = [engine.any_of([engine.all_of([*own, way]) for way in ways])]
        if plan.required is not None:
            asked.append(plan.required)
        if session and self._kinds is not None:
            asked.append(engine.in_kinds(session, sorted(self._kinds)))
        return asked

    def _matches(self, candidate: SearchableText) -> bool:
        if not self._plan.text_conditions:
            return True
        return matches_text(
            self._hit_query, candidate, self._engine.tokenize, stem_word
        )

    def _make_hit(self, loaded: tuple[SearchableText, LoadedRecord]) -> Hit:
        told = cut_excerpt(self._redact(loaded[0].text), self._highlighter)
        return self._loader.make_hit(loaded, told)
