"""The words of a team's store: as the text index of a folder, for one scope."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from heapq import nsmallest
from typing import Protocol

from recollect.model.buckets import KINDS
from recollect.store.search import Text, forms_among
from recollect.store.spelling import close_terms
from recollect.store.words import terms_of
from recollect.team.asking import (
    All,
    Any,
    Every,
    Kinds,
    Level,
    Match,
    Nothing,
    Posting,
    Question,
    Records,
    Scorer,
    Sessions,
    Unscored,
    Without,
    session_in,
    terms_in,
)
from recollect.team.packing import pack, unpack

__all__ = ["TeamEngine", "Words"]

_MOST_PHRASES = 500
_FEW = 50
"""Sessions whose texts are all looked at, where no session is named."""
_TOLD = 50
"""Texts of a bucket that are told of, where those of all sessions are."""


class Words(Protocol):
    """What an engine must be able to say of texts and terms, for one scope."""

    def totals(self) -> tuple[int, int]:
        """Return how many texts there are, and how many terms in all of them."""
        ...

    def frequencies(self, terms: Sequence[str]) -> dict[str, int]:
        """Return how many texts have each of some terms."""
        ...

    def beginning(self, start: str) -> list[tuple[str, int]]:
        """Return terms that begin so in their order, and how many texts have each."""
        ...

    def containing(self, piece: str) -> list[str]:
        """Return terms that have a piece somewhere in them."""
        ...

    def counts(self, asked: Question) -> list[tuple[int, int, int]]:
        """Return how many texts are found, by session and kind."""
        ...

    def postings(
        self, session: int, terms: Sequence[str], *, everything: bool
    ) -> list[Posting]:
        """Return the texts of a session that have a term, or all of its texts."""
        ...


class TeamEngine:
    """Makes questions and has them answered."""

    def __init__(
        self, words: Words, placed: dict[int, tuple[int, int, int, int]] | None = None
    ) -> None:
        self._words = words
        self._placed = {} if placed is None else placed
        """Where records stand that were found: whoever found one opens it next."""
        self._counted: dict[str, int] = {}
        self._forms: dict[str, tuple[str, ...]] = {}
        self._begun: dict[str, list[tuple[str, int]]] = {}

    @cached_property
    def _totals(self) -> tuple[int, int]:
        return self._words.totals()

    @property
    def size(self) -> int:
        """How many texts there are."""
        return self._totals[0]

    def frequency(self, term: str) -> int:
        """Return how many texts have a term."""
        return self._frequencies([term])[term]

    def _frequencies(self, terms: Iterable[str]) -> dict[str, int]:
        wanted = list(dict.fromkeys(terms))
        new = [term for term in wanted if term not in self._counted]
        if new:
            found = self._words.frequencies(new)
            self._counted |= {term: found.get(term, 0) for term in new}
        return {term: self._counted[term] for term in wanted}

    def forms(self, term: str) -> tuple[str, ...]:
        """Return the terms that are forms of one, itself first."""
        found = self._forms.get(term)
        if found is None:
            found = forms_among(term, self.frequency, self.beginning_with)
            self._forms[term] = found
        return found

    def corrected(self, term: str) -> str | None:
        """Return the term that is likely meant by one which is not there."""
        return close_terms(term, self._frequencies, self.beginning_with)

    def beginning_with(self, start: str) -> list[tuple[str, int]]:
        """Return the terms that begin so, and how many texts have each."""
        found = self._begun.get(start)
        if found is None:
            found = self._begun[start] = self._words.beginning(start)
            self._counted.update(found)
        return found

    def everything(self) -> Question:
        """Ask for all texts."""
        return Every()

    def nothing(self) -> Question:
        """Ask for no text."""
        return Nothing()

    def term(self, terms: Sequence[str]) -> Question:
        """Ask for texts that have one of some terms."""
        return Match(tuple((term,) for term in terms))

    def run(self, terms: Sequence[str]) -> Question:
        """Ask for texts in which terms stand one right behind the other."""
        return Match((tuple(terms),))

    def beginning(self, terms: Sequence[str]) -> Question:
        """Ask for texts in which terms stand in a row, the last of them begun only."""
        *whole, start = terms
        words = [term for term, _ in self.beginning_with(start)]
        if not words:
            return Nothing()
        if not whole:
            return self.term(words)
        return Match(tuple((*whole, word) for word in words[:_MOST_PHRASES]))

    def each_beginning(self, terms: Sequence[str]) -> tuple[Question, ...]:
        """Ask the same in parts, one for each word that begins so, if these are few."""
        words = [term for term, _ in self.beginning_with(terms[-1])]
        if len(terms) > 1 or not 0 < len(words) <= _MOST_PHRASES:
            return (self.beginning(terms),)
        return tuple(self.term([word]) for word in words)

    def is_whole(self, terms: Sequence[str]) -> bool:
        """Whether :meth:`beginning` asks for all there is."""
        return len(terms) == 1 or len(self.beginning_with(terms[-1])) <= _MOST_PHRASES

    def containing(self, piece: str) -> Question:
        """Ask for texts with a term that has a piece somewhere in it; this is slow."""
        found = self._words.containing(piece)
        return Level(self.term(found)) if found else Nothing()

    def of_sessions(self, sessions: Iterable[int]) -> Question:
        """Ask for the texts of some sessions."""
        return Sessions(tuple(sessions))

    def of_records(self, records: Sequence[int]) -> Question:
        """Ask for the texts of some records."""
        return Records(frozenset(map(unpack, records))) if records else Nothing()

    def of_kinds(self, session: int, kinds: Iterable[int]) -> Question:
        """Ask for the texts of a session that are of some kinds."""
        return Kinds(session, tuple(kinds))

    def unscored(self, asked: Question) -> Question:
        """Ask the same without adding to any score."""
        return Unscored(asked)

    def any_of(self, asked: Sequence[Question]) -> Question:
        """Ask for what one question at least finds."""
        if all(isinstance(one, Match) for one in asked):
            runs = (run for one in asked if isinstance(one, Match) for run in one.runs)
            return Match(tuple(runs))
        return asked[0] if len(asked) == 1 else Any(tuple(asked))

    def all_of(self, asked: Sequence[Question]) -> Question:
        """Ask for what all questions find."""
        return asked[0] if len(asked) == 1 else All(tuple(asked))

    def without(self, asked: Question) -> Question:
        """Ask for what a question does not find."""
        return Without(asked)

    def counts(self, asked: Question) -> dict[int, int]:
        """Return how many texts are found, by their bucket."""
        rows = self._words.counts(asked)
        return {session * KINDS + kind: count for session, kind, count in rows}

    def texts(self, asked: Question, limit: int) -> tuple[int, list[Text]]:
        """Return how many texts are found, and those that fit best, best first.

        Where they lie in many sessions, it is told in which buckets some of them lie,
        to choose sessions by, and that there are more than were asked for: whoever
        wants to open them asks session by session.
        """
        session = session_in(asked)
        if session is not None:
            return self._best(asked, [session], limit)
        counts = self.counts(asked)
        sessions = {bucket // KINDS for bucket in counts}
        if len(sessions) <= _FEW and sum(counts.values()) <= limit:
            return self._best(asked, sorted(sessions), limit)
        return (limit + 1 if counts else 0), [
            Text(0, bucket, 0.0)
            for bucket, count in counts.items()
            for _ in range(min(count, _TOLD))
        ]

    def _best(
        self, asked: Question, sessions: Sequence[int], limit: int
    ) -> tuple[int, list[Text]]:
        """Return how many texts of sessions are found, and the best of them."""
        terms = list(dict.fromkeys(terms_in(asked)))
        counted = self._frequencies(terms)
        size, length = self._totals
        everything = not _needs_terms(asked)
        found: list[tuple[float, int, int, Posting]] = []
        for session in sessions:
            scorer = Scorer(session, size, length / size if size else 0.0, counted)
            for text in self._words.postings(session, terms, everything=everything):
                score = scorer.score(asked, text)
                if score is not None:
                    found.append((-score, session, text.text, text))
        best = nsmallest(limit, found, key=lambda one: one[:3])
        self._placed.update(
            (pack(session, text.record), text.position)
            for _, session, _, text in best
            if text.position is not None
        )
        return len(found), [
            Text(pack(session, text.record), session * KINDS + text.kind, -score)
            for score, session, _, text in best
        ]

    def terms_of(self, text: str) -> list[str]:
        """Return the terms of a text, as the index has them."""
        return terms_of(text)


def _needs_terms(asked: Question) -> bool:
    """Whether only texts that have a term of a question can answer it."""
    if isinstance(asked, Match):
        return True
    if isinstance(asked, Any):
        return all(map(_needs_terms, asked.asked))
    if isinstance(asked, All):
        return any(map(_needs_terms, asked.asked))
    return isinstance(asked, Unscored | Level) and _needs_terms(asked.asked)
