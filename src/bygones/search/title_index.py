"""Look for words in the titles of all sessions."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate

from msgspec import Struct

from bygones.query.tokens import Analyzer, TermRun
from bygones.search.plan import ScoredTerm
from bygones.store.encoding import STEERING_TITLE
from bygones.store.tokenizer import split_lines_into_terms
from bygones.store.word_forms import stem_prefix, stem_word

_MAX_CACHED_TITLES = 500_000
"""Titles that are cached, summed over the stems that they have."""
_MAX_CACHED_STEMS = 4_096


class _TitleForms(Struct, frozen=True):
    """The forms of a word that titles have, and the sessions with such titles."""

    forms: frozenset[str]
    sessions: array[int]


class TitleIndex:
    """Finds explicit titles and summaries by their words.

    Words are looked for in one text: the terms of all titles between spaces, a line for
    each title. Searches in several threads may use it at the same time.
    """

    def __init__(self, titles: Sequence[tuple[int, str]], analyzer: Analyzer) -> None:
        self._numbers = array("q", [number for number, _ in titles])
        self._titles = [title for _, title in titles]
        self._analyzer = analyzer
        self._forms_by_stem: dict[str, _TitleForms] = {}
        self._cached_count = 0

    def matched_runs(self, term: ScoredTerm) -> Iterator[TermRun]:
        """Yield the forms of a term's words that titles have."""
        for variant in term.variants if not term.is_exact else ():
            if len(variant) == 1:
                yield from ((form,) for form in self._find_forms(variant[0]).forms)

    def has_term(self, term: str) -> bool:
        """Whether a title has some form of a term."""
        return bool(self._find_forms(term).sessions)

    def sessions_matching(self, term: ScoredTerm) -> set[int]:
        """Return the sessions whose title has a term; one without variants is in all."""
        if not term.variants:
            return set(self._numbers)
        return {
            session
            for variant in term.variants
            for session in self._sessions_with(variant, term)
        }

    def titles_of(self, session: int) -> list[str]:
        """Return the title of a session and its summaries, as far as there are any."""
        start, stop = self._places.get(session, (0, 0))
        return self._titles[start:stop]

    def sessions_titled(self, terms: TermRun) -> set[int]:
        """Return the sessions whose title has exactly these terms."""
        if not terms:
            return set()
        return {
            self._numbers[index]
            for index in self._titles_containing(f"\n {' '.join(terms)} \n")
            if not self._titles[index].startswith(STEERING_TITLE)
        }

    def _sessions_with(self, variant: TermRun, term: ScoredTerm) -> Iterator[int]:
        if len(variant) == 1 and not term.is_exact:
            yield from self._find_forms(variant[0]).sessions
            return
        end = "" if term.is_prefix else " "
        for index in self._titles_containing(f" {' '.join(variant)}{end}"):
            yield self._numbers[index]

    @cached_property
    def _places(self) -> dict[int, tuple[int, int]]:
        """Where the titles of each session are."""
        places: dict[int, tuple[int, int]] = {}
        for at, number in enumerate(self._numbers):
            places[number] = (places.get(number, (at, at))[0], at + 1)
        return places

    @cached_property
    def _lines(self) -> tuple[str, array[int]]:
        """The terms of all titles, and the offsets at which their lines start."""
        titles = [title.replace("\n", " ") for title in self._titles]
        # Plain ones at once, which is far faster.
        plain = "\n".join(filter(str.isascii, titles))
        split = iter(split_lines_into_terms(plain))
        lines = [
            next(split) if title.isascii() else " ".join(self._analyzer(title))
            for title in titles
        ]
        text = "".join(("\n", *(f" {line} \n" for line in lines)))
        lengths = (len(line) + 3 for line in lines)
        return text, array("q", accumulate(lengths, initial=0))

    def _titles_containing(self, letters: str) -> Iterator[int]:
        """Yield the titles with these letters, in the text of all lines."""
        text, starts = self._lines
        offset = text.find(letters)
        while offset >= 0:
            next_line = bisect_right(starts, offset)
            yield next_line - 1
            offset = text.find(letters, starts[next_line])

    def _find_forms(self, term: str) -> _TitleForms:
        """Return the sessions whose title has some form of a term, and these forms."""
        stem = stem_word(term)
        found = self._forms_by_stem.get(stem)
        if found is None:
            if (
                len(self._forms_by_stem) >= _MAX_CACHED_STEMS
                or self._cached_count >= _MAX_CACHED_TITLES
            ):
                self._forms_by_stem.clear()
                self._cached_count = 0
            # Complete before it is visible to searches in other threads.
            found = self._forms_by_stem[stem] = self._scan_forms(stem)
            self._cached_count += len(found.sessions)
        return found

    def _scan_forms(self, stem: str) -> _TitleForms:
        letters = f" {stem_prefix(stem)}"
        text, starts = self._lines
        is_form: dict[str, bool] = {}
        sessions = array("q")
        offset = text.find(letters)
        while offset >= 0:
            end = text.find(" ", offset + 1)
            word = text[offset + 1 : end]
            if word not in is_form:
                is_form[word] = stem_word(word) == stem
            if is_form[word]:
                sessions.append(self._numbers[bisect_right(starts, offset) - 1])
            offset = text.find(letters, end)
        return _TitleForms(
            frozenset(w for w, same in is_form.items() if same), sessions
        )
