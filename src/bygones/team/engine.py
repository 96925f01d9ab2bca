"""The words of a team's store: as the text index of a folder, for one scope."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import cached_property
from heapq import nsmallest
from typing import NamedTuple, Protocol

from bygones.model.buckets import KINDS
from bygones.store.search import Text, groups_of, shared_stem
from bygones.store.spelling import close_terms
from bygones.store.words import terms_of
from bygones.team.asking import (
    All,
    Any,
    Every,
    Kinds,
    Level,
    Match,
    Nothing,
    Posted,
    Question,
    Records,
    Run,
    Scorer,
    Sessions,
    Unscored,
    Without,
    session_in,
    terms_in,
)
from bygones.team.packing import pack, unpack

__all__ = ["Learned", "TeamEngine", "Words", "group_of"]

_MOST_PHRASES = 500
_FEW = 50
"""Sessions whose texts are all looked at, where no session is named."""
_KEPT = 300
"""Groups of forms whose counts are kept for the next question."""
_COUNTS = 100_000
"""Counts of them all, about: each takes a hundred bytes, and a hub has many readers."""


def group_of(terms: Sequence[str]) -> list[str]:
    """Return of each term under what it is counted together with its other forms."""
    found = zip(terms, groups_of(terms), strict=True)
    return [f"={term}" if stem is None else stem for term, stem in found]


class Learned(NamedTuple):
    """What an engine knows of some groups of forms, and of other terms."""

    words: dict[str, int]
    """How many texts have each term that there is."""
    tallies: dict[str, dict[int, int]]
    """How many texts have a form of a group, by bucket."""


class Words(Protocol):
    """What an engine must be able to say of texts and terms, for one scope."""

    def standing(self) -> object:
        """Look whose rows may be seen; return what changes when these do."""
        ...

    def totals(self) -> tuple[int, int]:
        """Return how many texts there are, and how many terms in all of them."""
        ...

    def learn(
        self, groups: Sequence[str], terms: Sequence[str], alive: Container[int]
    ) -> Learned:
        """Return all terms of some groups with where they stand, and other terms.

        Sessions that are not ``alive`` do not count: they were replaced meanwhile.
        """
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

    def counts(self, asked: Sequence[Question]) -> list[tuple[int, int, int, int]]:
        """Return how many texts are found, by question, session and kind."""
        ...

    def shared(self, one: Match, other: Match) -> list[tuple[int, int, int]]:
        """Return how many texts two matches both find, by session and kind."""
        ...

    def postings(
        self, sessions: Sequence[int], terms: Sequence[str], *, everything: bool
    ) -> dict[int, Posted]:
        """Return where terms stand in the texts of sessions.

        With ``everything`` texts are told of as well that have none of the terms.
        """
        ...


class TeamEngine:
    """Makes questions and has them answered."""

    def __init__(self, words: Words, alive: Callable[[], Container[int]]) -> None:
        self._words = words
        self._alive = alive
        """Gives the sessions that are there."""
        self._counted: dict[str, int] = {}
        self._groups: dict[str, dict[str, int]] = {}
        """Terms by their group, and how many texts have each."""
        self._tallies: dict[str, dict[int, int]] = {}
        self._begun: dict[str, list[tuple[str, int]]] = {}
        self._answers: dict[Question, dict[int, int]] = {}
        """What was counted for the query that is being answered."""
        self._posted: dict[int, Posted] = {}
        """Where the terms stand that were asked for last."""
        self._posted_for = (frozenset[str](), False)

    @cached_property
    def _totals(self) -> tuple[int, int]:
        return self._words.totals()

    @property
    def size(self) -> int:
        """How many texts there are."""
        return self._totals[0]

    def expect(self, words: Iterable[str], others: Iterable[str] = ()) -> None:
        """Learn of terms with all their forms, and of others, in one question."""
        self._posted.clear()
        self._answers.clear()
        asked = list(dict.fromkeys(words))
        stems = filter(None, map(shared_stem, asked))
        groups = {*group_of(asked), *stems}
        new = sorted(groups - self._groups.keys())
        more = [term for term in others if term not in self._counted]
        if not new and not more:
            return
        held = sum(map(len, self._tallies.values()))
        if held > _COUNTS or len(self._groups) + len(new) > _KEPT:
            self._groups.clear()
            self._tallies.clear()
            new = sorted(groups)
        found = self._words.learn(new, more, self._alive())
        for term in (*asked, *more):
            self._counted.setdefault(term, 0)
        self._counted |= found.words
        self._groups |= {group: {} for group in new}
        known = list(found.words)
        for term, group in zip(known, group_of(known), strict=True):
            if group in self._groups:
                self._groups[group][term] = found.words[term]
        self._tallies |= {group: found.tallies.get(group, {}) for group in new}

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
        self.expect([term])
        stem = shared_stem(term)
        own = (term,) if self._counted[term] else ()
        others = self._groups[stem] if stem is not None else {}
        return (*own, *(other for other in sorted(others) if other != term))

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

    def term(self, terms: Sequence[str]) -> Match:
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
        (found,) = self.each_counts([asked])
        return found

    def each_counts(self, asked: Sequence[Question]) -> list[dict[int, int]]:
        """Return the same for several questions; what is known is not asked for."""
        found = [self._tallied(one) for one in asked]
        unknown = [at for at, told in enumerate(found) if told is None]
        told: list[dict[int, int]] = [{} for _ in unknown]
        if unknown:
            questions = [asked[at] for at in unknown]
            for at, session, kind, count in self._words.counts(questions):
                told[at][session * KINDS + kind] = count
            self._answers |= dict(zip(questions, told, strict=True))
        new = iter(told)
        return [next(new) if one is None else one for one in found]

    def _tallied(self, asked: Question) -> dict[int, int] | None:
        """Return the counts of a question, if all that it asks for is known."""
        if asked in self._answers:
            return self._answers[asked]
        if isinstance(asked, Nothing):
            return {}
        if isinstance(asked, Unscored | Level):
            return self._tallied(asked.asked)
        if isinstance(asked, Match):
            return {} if self._is_nowhere(asked) else self._grouped(asked)
        return self._narrowed(asked) if isinstance(asked, All) else None

    def _is_nowhere(self, asked: Match) -> bool:
        """Whether no session has all terms of a run in texts of one kind."""
        return all(map(self._are_apart, asked.runs))

    def _are_apart(self, run: Run) -> bool:
        known = [self._tallies[one] for one in group_of(run) if one in self._tallies]
        if len(run) == 1 or not known:
            return False
        first, *others = sorted(known, key=len)
        return not any(all(bucket in one for one in others) for bucket in first)

    def _narrowed(self, asked: All) -> dict[int, int] | None:
        """Return what is known of a question, in some sessions."""
        within = [set(one.numbers) for one in asked.asked if isinstance(one, Sessions)]
        others = [one for one in asked.asked if not isinstance(one, Sessions)]
        counts = self._tallied(others[0]) if len(others) == 1 else None
        if counts is None or not within:
            return counts if not within else None
        chosen = set.intersection(*within)
        return {b: count for b, count in counts.items() if b // KINDS in chosen}

    def _grouped(self, asked: Match) -> dict[int, int] | None:
        """Return the counts of words in all their forms, if these are known."""
        terms = {run[0] for run in asked.runs}
        if not terms or any(len(run) > 1 for run in asked.runs):
            return None
        groups = sorted(set(group_of(sorted(terms))))
        known = [self._groups.get(group, {}).keys() for group in groups]
        if not all(known) or terms != set().union(*known):
            return None
        if len(groups) == 1:
            return self._tallies[groups[0]]
        found = self._answers[asked] = self._united(groups)
        return found

    def _united(self, groups: Sequence[str]) -> dict[int, int]:
        """Return how many texts have a form of one of some words, by bucket.

        A text that has forms of two is counted once; which do is asked for.
        """
        first, *others = sorted(groups, key=lambda one: -len(self._tallies[one]))
        found = dict(self._tallies[first])
        terms = list(self._groups[first])
        for group in others:
            tally, own = self._tallies[group], list(self._groups[group])
            both = any(bucket in found for bucket in tally)
            for bucket, count in tally.items():
                found[bucket] = found.get(bucket, 0) + count
            if both:
                twice = self._words.shared(self.term(terms), self.term(own))
                for session, kind, count in twice:
                    found[session * KINDS + kind] -= count
            terms += own
        return found

    def buckets(self, asked: Question, most: int) -> tuple[int, dict[int, int]]:
        """Return how many texts are found, and where all of them lie.

        Of forms of a word it is told where the word in any form lies: that is known,
        and sessions are only chosen by it.
        """
        del most
        counts = self._likely(asked)
        if counts is not None:
            return sum(self._frequencies(terms_in(asked)).values()), counts
        counts = self.counts(asked)
        return sum(counts.values()), counts

    def _likely(self, asked: Question) -> dict[int, int] | None:
        if not isinstance(asked, Match) or any(len(run) > 1 for run in asked.runs):
            return None
        groups = set(group_of([run[0] for run in asked.runs]))
        if not groups or not groups <= self._tallies.keys():
            return None
        if len(groups) == 1:
            return self._tallies[groups.pop()]
        found: Counter[int] = Counter()
        for group in groups:
            found.update(self._tallies[group])
        return found

    def texts(self, asked: Question, limit: int) -> tuple[int, list[Text]]:
        """Return how many texts are found, and those that fit best, best first.

        Where they lie in many sessions, it is told that there are more than were asked
        for: whoever wants to open them asks session by session.
        """
        if session_in(asked) is not None:
            (found,) = self.each_texts([asked], limit)
            return found
        counts = self.counts(asked)
        sessions = {bucket // KINDS for bucket in counts}
        if len(sessions) > _FEW or sum(counts.values()) > limit:
            return limit + 1, []
        posted = self._postings([asked], sorted(sessions))
        return self._best(asked, posted, limit, self._scorer([asked]))

    def each_texts(
        self, asked: Sequence[Question], limit: int
    ) -> list[tuple[int, list[Text]]]:
        """Return the same for several questions; best where each names its session."""
        sessions = [session_in(one) for one in asked]
        named = [session for session in sessions if session is not None]
        if len(named) < len(asked):
            return [self.texts(one, limit) for one in asked]
        posted = self._postings(asked, named)
        scorer = self._scorer(asked)
        return [
            self._best(one, {session: posted[session]}, limit, scorer)
            for one, session in zip(asked, named, strict=True)
        ]

    def _scorer(self, asked: Sequence[Question]) -> Scorer:
        counted = self._frequencies(term for one in asked for term in terms_in(one))
        size, length = self._totals
        return Scorer(size, length / size if size else 0.0, counted)

    def _postings(
        self, asked: Sequence[Question], sessions: Sequence[int]
    ) -> Mapping[int, Posted]:
        """Return what is needed of sessions to answer questions."""
        terms = list(dict.fromkeys(term for one in asked for term in terms_in(one)))
        everything = not all(map(_needs_terms, asked))
        key = (frozenset(terms), everything)
        if key != self._posted_for:
            self._posted_for = key
            self._posted.clear()
        new = [session for session in sessions if session not in self._posted]
        if new:
            found = self._words.postings(new, terms, everything=everything)
            self._posted |= {one: found.get(one, Posted({}, {})) for one in new}
        return {session: self._posted[session] for session in sessions}

    @staticmethod
    def _best(
        asked: Question, posted: Mapping[int, Posted], limit: int, scorer: Scorer
    ) -> tuple[int, list[Text]]:
        """Return how many texts of sessions are found, and the best of them."""
        everything = not _needs_terms(asked)
        found: list[tuple[float, int, int, int, int]] = []
        for session, texts in posted.items():
            scored = scorer.scores(session, asked, texts, everything=everything)
            for text, score in scored:
                found.append((-score, session, text, *texts.facts[text][:2]))
        return len(found), [
            Text(pack(session, record), session * KINDS + kind, -score)
            for score, session, _, record, kind in nsmallest(limit, found)
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
