"""Titles: texts of sessions that no record holds, searched in memory."""

from __future__ import annotations

from _thread import allocate_lock
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from bygones.model.base import SessionId
from bygones.model.query import Flag
from bygones.model.summary import Annotations
from bygones.query.matcher import SearchableText, make_session_text
from bygones.query.terms import Analyzer, TermRun
from bygones.search.plan import ScoredTerm
from bygones.search.scoring import CorpusNorms, recency_bonus
from bygones.store.archive_dir import ArchiveDir
from bygones.store.local_reader import LocalReader
from bygones.store.text_index import stem_prefix, stem_word
from bygones.store.tokenizer import strip_accents

_MAX_CACHED_TITLES = 8_192
"""Titles of which the words are remembered."""
_MAX_CACHED_STEMS = 512
"""Words of which it is remembered which titles have them."""


class _TitleForms(Struct, frozen=True):
    """The forms of a word that titles have, and the sessions that these are of."""

    forms: frozenset[str]
    sessions: array[int]


class TitleIndex:
    """The titles that sessions were given, by their words.

    Of all titles only those are cut into words in which letters of a query stand.
    Searches of several threads may ask at once.
    """

    def __init__(self, titles: Sequence[tuple[int, str]], analyzer: Analyzer) -> None:
        self._numbers = array("q", [number for number, _ in titles])
        self._titles = [title for _, title in titles]
        self._analyzer = analyzer
        self._terms_by_title: dict[int, TermRun] = {}
        self._forms_by_stem: dict[str, _TitleForms] = {}

    @cached_property
    def _lines(self) -> tuple[str, array[int]]:
        """All titles, small and without accents, a line each; where each one begins."""
        lines = [title.replace("\n", " ").lower() for title in self._titles]
        # Together they take as long as three of them would.
        strange = [at for at, line in enumerate(lines) if not line.isascii()]
        joined = "\n".join([self._titles[at].replace("\n", " ") for at in strange])
        for at, line in zip(strange, strip_accents(joined).split("\n"), strict=False):
            lines[at] = line.lower()
        text = "\n".join((*lines, ""))
        lengths = (len(line) + 1 for line in (*lines, ""))
        return text, array("q", accumulate(lengths, initial=0))

    def _terms(self, at: int) -> TermRun:
        found = self._terms_by_title.get(at)
        if found is None:
            if len(self._terms_by_title) >= _MAX_CACHED_TITLES:
                self._terms_by_title.clear()
            found = self._terms_by_title[at] = tuple(self._analyzer(self._titles[at]))
        return found

    def _titles_containing(self, letters: str) -> Iterator[int]:
        """Yield the titles in which letters stand one behind the other."""
        text, begins = self._lines
        place = text.find(letters)
        while place >= 0:
            line = bisect_right(begins, place)
            yield line - 1
            place = text.find(letters, begins[line])

    def _find_forms(self, term: str) -> _TitleForms:
        """Return the sessions whose title has some form of a term, and which."""
        stem = stem_word(term)
        found = self._forms_by_stem.get(stem)
        if found is None:
            if len(self._forms_by_stem) >= _MAX_CACHED_STEMS:
                self._forms_by_stem.clear()
            # Whole before others see it: searches of several threads ask.
            found = self._forms_by_stem[stem] = self._scan_forms(stem)
        return found

    def _scan_forms(self, stem: str) -> _TitleForms:
        start = stem_prefix(stem)
        forms: set[str] = set()
        sessions = array("q")
        for at in self._titles_containing(start):
            near = (one for one in self._terms(at) if one.startswith(start))
            own = [one for one in near if stem_word(one) == stem]
            if own:
                forms.update(own)
                sessions.append(self._numbers[at])
        return _TitleForms(frozenset(forms), sessions)

    def matched_runs(self, term: ScoredTerm) -> Iterator[TermRun]:
        """Yield the forms that titles have of a unit's words."""
        for way in term.variants if not term.is_exact else ():
            if len(way) == 1:
                yield from ((form,) for form in self._find_forms(way[0]).forms)

    def has_term(self, term: str) -> bool:
        """Whether a title has some form of a term."""
        return bool(self._find_forms(term).sessions)

    def sessions_matching(self, term: ScoredTerm) -> set[int]:
        """Return the sessions whose title has what a unit looks for."""
        if not term.variants:
            return set(self._numbers)
        return {
            session
            for way in term.variants
            for session in self._sessions_with(way, term)
        }

    def _sessions_with(self, variant: TermRun, term: ScoredTerm) -> Iterator[int]:
        if len(variant) == 1 and not term.is_exact:
            yield from self._find_forms(variant[0]).sessions
            return
        stands = _contains_prefix if term.is_prefix else _contains_run
        rarest = max(variant, key=len)
        for at in self._titles_containing(rarest):
            if stands(variant, self._terms(at)):
                yield self._numbers[at]


def _contains_run(run: TermRun, terms: TermRun) -> bool:
    count = len(run)
    return run[0] in terms and any(
        terms[at : at + count] == run for at in range(len(terms))
    )


def _contains_prefix(run: TermRun, terms: TermRun) -> bool:
    *whole, start = run
    return any(
        terms[at : at + len(whole)] == tuple(whole)
        and terms[at + len(whole)].startswith(start)
        for at in range(len(terms) - len(whole))
    )


if TYPE_CHECKING:  # protocols take long to make
    from bygones.store.protocols import SearchFacts, StoreReader


T = TypeVar("T")
_DAY_MS = 86_400_000


class SessionGroup(Struct, frozen=True):
    """Sessions of which the same can be told, but for their names."""

    sample: SearchableText
    """Any of them."""
    numbers: array[int]
    ids: list[SessionId]
    titles: list[str]

    def text_at(self, index: int, annotations: Annotations | None) -> SearchableText:
        """Return the fields of one of them, with its annotations."""
        added = annotations or Annotations()
        star = {Flag.STARRED} if added.is_starred else set()
        return replace(
            self.sample,
            session_id=self.ids[index],
            title=self.titles[index],
            tags=(*self.sample.tags, *added.tags),
            flags=self.sample.flags | star,
        )


class SearchStats:
    """What is known of all sessions as they were when this was made.

    Searches of several threads may ask it at once, each with connections of its own.
    """

    def __init__(self, reader: StoreReader) -> None:
        # The words first: what they name is looked up in the index they belong to.
        self.engine = reader.engine()
        with reader.read_transaction():
            places = reader.search_facts
            self.families = places.families()
            self.ended_ms = places.end_times()
            self.norms = CorpusNorms.from_lengths(places.text_lengths())
            self.titles = TitleIndex(places.given_titles(), self.engine.tokenize)
        newest = max(self.ended_ms.values(), default=0)
        self.recency = {
            session: recency_bonus((newest - ended) / _DAY_MS)
            for session, ended in self.ended_ms.items()
        }
        """What its age adds to each session."""
        self._lock = allocate_lock()
        self._loaded: dict[Callable[[SearchFacts], object], object] = {}

    def time_spans(self, facts: SearchFacts) -> Mapping[int, tuple[int, int]]:
        """Return the first and last time of each session's records."""
        return self._load_once(_load_time_spans, facts)

    def session_groups(self, facts: SearchFacts) -> list[SessionGroup]:
        """Return all sessions, gathered by what can be asked about them."""
        return self._load_once(_load_session_groups, facts)

    def _load_once(self, load: Callable[[SearchFacts], T], facts: SearchFacts) -> T:
        """Return what only some searches need, read when it is first asked for."""
        with self._lock:
            if load not in self._loaded:
                self._loaded[load] = load(facts)
            found: T = self._loaded[load]  # type: ignore[assignment]
            return found


def _load_time_spans(facts: SearchFacts) -> Mapping[int, tuple[int, int]]:
    return facts.time_ranges()


def _load_session_groups(facts: SearchFacts) -> list[SessionGroup]:
    found: dict[tuple[object, ...], SessionGroup] = {}
    for number, listed in facts.numbered_summaries():
        one = make_session_text(listed)
        key = (
            one.project,
            one.project_keys,
            one.models,
            one.git_branches,
            one.entrypoints,
            one.tags,
            one.flags,
        )
        same = found.get(key)
        if same is None:
            same = found[key] = SessionGroup(one, array("q"), [], [])
        same.numbers.append(number)
        same.ids.append(one.session_id)
        same.titles.append(one.title)
    return list(found.values())


if TYPE_CHECKING:  # protocols take long to make
    from bygones.store.protocols import StoreReader


class SharedSearchStats:
    """Keeps one value for all who search a folder, and makes it anew as that grows.

    It looks through connections of its own: only one that has read something can tell
    whether it was changed since.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = Lock()
        self._reader: LocalReader | None = None
        self._stats: SearchStats | None = None
        self._data_version = 0

    def refresh(self) -> None:
        """See what has come: what is known is made anew then, once it is asked for."""
        with self._lock:
            if self._reader is None:
                return
            if not self._reader.archive_dir.is_newest_index():
                self._release()
            elif self._reader.archive_dir.data_version != self._data_version:
                self._stats = None

    def stats_for(self, reader: StoreReader) -> SearchStats | None:
        """Return what is known of the index that a shelf stands on.

        Nothing if that has given way to another: its numbers mean other sessions.
        """
        with self._lock:
            try:
                own = self._reader = self._reader or LocalReader(
                    ArchiveDir(self._folder)
                )
                if self._stats is None:
                    # Whatever is written from here on is seen by the next look.
                    self._data_version = own.archive_dir.data_version
                    self._stats = SearchStats(own)
            except BaseException:
                self._release()
                raise
            is_same = (
                isinstance(reader, LocalReader)
                and reader.archive_dir.index_inode == own.archive_dir.index_inode
            )
            return self._stats if is_same else None

    def _release(self) -> None:
        shelf, self._reader, self._stats = self._reader, None, None
        if shelf is not None:
            shelf.close()

    def close(self) -> None:
        """Let go of what is known; whoever searches goes on with what they have."""
        with self._lock:
            self._release()
