"""Candidates: where the engine finds what is looked for, and in which order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from bygones.model.buckets import KINDS, part_of
from bygones.model.hits import WordShare
from bygones.model.query import Part, Period, Query, Term
from bygones.query import Subject, matches
from bygones.query.rank import Measures, Scored, Sought, scores, worth
from bygones.search.counting import Counting, Wanted, Within
from bygones.search.known import Known
from bygones.search.plan import Plan, Unit, kinds_of, leaves
from bygones.search.subjects import Tags, of_session
from bygones.store.search import stem_of

if TYPE_CHECKING:  # protocols take long to make
    from bygones.store.shelf import Placing

__all__ = ["Ranked", "Ranking", "Sort"]

_OWN = {"title", "session"}
"""Fields that tell one session from all others."""
_TAG = "tag"
"""The field of what readers add to sessions."""


class Sort(StrEnum):
    """The order of what is found."""

    BEST = "best"
    NEWEST = "newest"
    OLDEST = "oldest"


class Ranked(Struct, frozen=True):
    """Sessions in order, with what they were ordered by."""

    sessions: list[int]
    units: tuple[Unit, ...]
    sought: tuple[Sought, ...]
    scored: Scored
    titled: frozenset[int]
    """Sessions whose title fits."""
    about: int = 0
    """How many there may be in all, where not all were looked at."""

    @property
    def complete(self) -> int:
        """How many sessions have all of the words."""
        each = [
            having
            for unit, having in zip(self.units, self.scored.having, strict=True)
            if unit.is_word
        ]
        return len(frozenset.intersection(*each)) if each else 0

    def shares(self, session: int, measures: Measures) -> Iterator[WordShare]:
        """Yield what each word gave to a session's score, and by which records."""
        given = [worth(word, session, measures) for word in self.sought]
        whole = sum(given) or 1.0
        for unit, word, gift in zip(self.units, self.sought, given, strict=True):
            records: dict[Part, int] = {}
            for bucket in range(session * KINDS, session * KINDS + KINDS):
                if count := word.counts.get(bucket, 0):
                    part = part_of(bucket)
                    records[part] = records.get(part, 0) + count
            if records and unit.label:
                yield WordShare(unit.label, gift / whole, tuple(records.items()))

    def words_of(self, session: int) -> tuple[str, ...]:
        """Return the plain words that a session has."""
        return tuple(
            unit.label
            for unit, having in zip(self.units, self.scored.having, strict=True)
            if unit.is_word and session in having
        )


class Ranking:
    """Ranks sessions by what is known of all of them."""

    def __init__(self, known: Known, places: Placing, tags: Tags) -> None:
        self._known = known
        self._places = places
        self._tags = tags
        self._engine = known.engine
        self._titles = known.titles
        self._ends = known.ends
        self.measures = known.measures
        self._counting = Counting(
            known.engine, known.titles, known.measures, len(known.ends)
        )

    def ranked(self, plan: Plan, checked: Query, sort: Sort, upto: int) -> Ranked:
        """Return the sessions that may answer a query, in order.

        So many of them at least, if there are: what is broad may not be counted
        everywhere for the first ones.
        """
        allowed = self._allowed(plan.of_session, plan.of_text)
        if plan.is_of_sessions:
            allowed = self._real if allowed is None else allowed & self._real
        kinds = kinds_of(plan.of_kind) if plan.of_kind else None
        within = Within(allowed, kinds)
        units = plan.units
        if not plan.words and not plan.is_covered:
            # What fits need not have any of the units.
            units += (Unit("", self._engine.everything(), (), (), is_word=False),)
        titled = self._titled(plan, units, checked, within)
        whole = self._counting.whole(plan, within)
        wanted = Wanted(plan, units, within, titled, frozenset(whole))
        is_pure = not plan.of_text and within.kinds is None and bool(plan.units)
        if sort is not Sort.BEST or not is_pure:
            counted = self._counting.everywhere(wanted)
        else:
            counted = self._counting.counted(wanted)
        scored = scores(counted.sought, self.measures, whole)
        order = self._ordered(
            _found(plan, units, scored), sort, is_scored=bool(plan.units)
        )
        about = max(counted.about, len(order)) if not counted.is_whole else 0
        if about and len(order) < upto:
            # The others follow, the newest first.
            counted = self._counting.everywhere(wanted)
            others = scores(counted.sought, self.measures)
            rest = _found(plan, units, others).keys() - set(order)
            order += self._ordered(dict.fromkeys(rest, 0.0), sort, is_scored=False)
            scored = Scored({**others.total, **scored.total}, others.having)
            about = 0
        return Ranked(order, units, counted.sought, scored, titled, about)

    def _ordered(
        self, found: Mapping[int, float], sort: Sort, *, is_scored: bool
    ) -> list[int]:
        ends = self._ends
        if sort is Sort.BEST and is_scored:
            new = self._known.newness
            best = [
                (-score - new[s], -ends[s], s) for s, score in found.items() if s in new
            ]
            best.sort()
            return [session for _, _, session in best]
        sign = 1 if sort is Sort.OLDEST else -1
        known = (session for session in found if session in ends)
        return sorted(known, key=lambda s: (sign * ends[s], s))

    def _allowed(
        self, settled: Sequence[Term], of_text: Sequence[Term]
    ) -> set[int] | None:
        """Return the sessions of which all may hold that a session can tell."""
        periods = [term for term in of_text if isinstance(term, Period)]
        if not settled and not periods:
            return None
        allowed = set(self._ends)
        if periods:
            spans = self._known.spans(self._places)
            # Of those that there still are: these may have come together since.
            allowed = {s for s in allowed if s in spans and _touches(spans[s], periods)}
        if not settled:
            return allowed
        asked = {
            getattr(leaf, "field", "") for term in settled for leaf in leaves(term)
        }
        tags = self._tags if _TAG in asked else {}
        found = set()
        for alike in self._known.alike(self._places):
            is_alone = bool(asked & _OWN)
            fits = not is_alone and self._is_so(settled, alike.one)
            for at, (number, name) in enumerate(
                zip(alike.numbers, alike.ids, strict=True)
            ):
                if number not in allowed:
                    continue
                if is_alone or name in tags:
                    one = alike.subject(at, tags.get(name, ()))
                    is_found = self._is_so(settled, one)
                else:
                    is_found = fits
                if is_found:
                    found.add(number)
        return found

    @cached_property
    def _real(self) -> set[int]:
        """Sessions in which something was said, by their numbers."""
        return {
            number for number, one in self._places.each_listed() if not one.is_empty
        }

    def _is_so(self, settled: Sequence[Term], one: Subject) -> bool:
        """Whether all holds of a session that it can tell."""
        analyse = self._engine.terms_of
        return all(matches(Query(term), one, analyse, stem_of) for term in settled)

    def _titled(
        self, plan: Plan, units: Sequence[Unit], checked: Query, within: Within
    ) -> frozenset[int]:
        """Return the sessions whose title is itself what a query asks for."""
        having = frozenset().union(*map(self._titles.having, units))
        if plan.is_plain:
            return having
        found = set()
        for number in having:
            if within.sessions is not None and number not in within.sessions:
                continue
            listed = self._places.listed(number)
            if listed and matches(
                checked,
                of_session(listed, Part.TITLE, self._tags),
                self._engine.terms_of,
                stem_of,
            ):
                found.add(number)
        return frozenset(found)


def _found(plan: Plan, units: Sequence[Unit], scored: Scored) -> Mapping[int, float]:
    """Return the sessions that answer, with their scores.

    Conditions narrow what words find; one of the words must be there.
    """
    if not plan.words:
        return scored.total
    having = zip(units, scored.having, strict=True)
    words = (sessions for unit, sessions in having if unit.is_word)
    return {s: scored.total[s] for s in frozenset().union(*words)}


def _touches(span: tuple[int, int], periods: Sequence[Period]) -> bool:
    """Whether something of a session may be of the time that is asked for."""
    first, last = span
    return not first or all(
        (one.start is None or last + 1 >= one.start.timestamp() * 1000)
        and (one.end is None or first < one.end.timestamp() * 1000)
        for one in periods
    )
