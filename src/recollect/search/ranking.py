"""Candidates: where the engine finds what is looked for, and in which order."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from heapq import nlargest

from msgspec import Struct

from recollect.model.buckets import KINDS, bucket_of, part_of
from recollect.model.hits import WordShare
from recollect.model.query import Part, Period, Query, Term
from recollect.query import matches
from recollect.query.rank import Measures, Scored, Sought, idf, newness, scores, worth
from recollect.search.plan import Plan, Unit, kinds_of
from recollect.search.subjects import of_session
from recollect.search.titles import Titles
from recollect.store.search import stem_of
from recollect.store.shelf import Asked, Engine, Placing

__all__ = ["Ranked", "Ranking", "Sort"]

_BROAD = 60_000
"""Texts that are counted for all words together; what is left is counted in the best
sessions only."""
_BEST = 200
_DAY_MS = 86_400_000


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
    """Ranks the sessions of one index."""

    def __init__(self, engine: Engine, places: Placing, titles: Titles) -> None:
        self._engine = engine
        self._places = places
        self._titles = titles
        self._ends = places.ends()
        self.measures = Measures.of(places.amounts())
        newest = max(self._ends.values(), default=0)
        self._newness = {
            session: newness((newest - end) / _DAY_MS)
            for session, end in self._ends.items()
        }

    def ranked(self, plan: Plan, checked: Query, sort: Sort) -> Ranked:
        """Return the sessions that may answer a query, in order."""
        within = _Within(
            self._allowed(plan.of_session, plan.of_text),
            kinds_of(plan.of_kind) if plan.of_kind else None,
        )
        units = plan.units
        if not plan.words and not plan.is_covered:
            # What fits need not have any of the units.
            units += (Unit("", self._engine.everything(), (), (), is_word=False),)
        titled = self._titled(plan, units, checked, within)
        sought = tuple(self._sought(plan, units, titled, within))
        scored = scores(sought, self.measures, self._whole(plan, within))
        found = scored.total
        if plan.words:
            words = (
                having
                for unit, having in zip(units, scored.having, strict=True)
                if unit.is_word
            )
            # Conditions narrow what words find; one of the words must be there.
            found = {s: found[s] for s in frozenset().union(*words)}
        ends = self._ends
        if sort is Sort.BEST and plan.units:
            new = self._newness
            best = {s: score + new[s] for s, score in found.items() if s in new}
            order = sorted(best, key=lambda s: (-best[s], -ends[s], s))
        else:
            sign = 1 if sort is Sort.OLDEST else -1
            known = (session for session in found if session in ends)
            order = sorted(known, key=lambda s: (sign * ends[s], s))
        return Ranked(order, units, sought, scored, titled)

    def _allowed(
        self, settled: Sequence[Term], of_text: Sequence[Term]
    ) -> set[int] | None:
        """Return the sessions of which all may hold that a session can tell."""
        periods = [term for term in of_text if isinstance(term, Period)]
        if not settled and not periods:
            return None
        allowed = set(self._ends)
        if periods:
            spans = self._places.spans()
            allowed = {s for s in allowed if _touches(spans[s], periods)}
        if not settled:
            return allowed
        analyse = self._engine.terms_of
        return {
            number
            for number, listed in self._places.each_listed()
            if number in allowed
            and all(
                matches(Query(term), of_session(listed), analyse, stem_of)
                for term in settled
            )
        }

    def _sought(
        self,
        plan: Plan,
        units: Sequence[Unit],
        titled: frozenset[int],
        within: _Within,
    ) -> Iterator[Sought]:
        """Yield where each unit was counted, in texts and in titles.

        The rarest come first. Once many texts were counted, what is left is so broad
        that it is counted only in the sessions that are best so far: it can change
        their order, but hardly bring in another.
        """
        found: dict[int, Sought] = {}
        spent = 0
        best: Asked | None = None
        sizes = {at: self._size(unit) for at, unit in enumerate(units)}
        for at in sorted(sizes, key=lambda at: sizes[at]):
            unit, asked = units[at], self._with(plan, units[at].asked)
            spent += sizes[at]
            if found and best is None and spent > _BROAD:
                best = self._best(list(found.values()))
            if best is not None:
                asked = self._engine.all_of([best, asked])
            counts = within.filtered(self._engine.counts(asked))
            for session in self._titles.having(unit) & titled:
                counts[bucket_of(session, Part.TITLE)] = 1
            number = len({bucket // KINDS for bucket in counts})
            if best is not None:
                number = self._spread(sizes[at])
            found[at] = Sought(idf(number, len(self._ends)), counts, unit.is_name)
        yield from (found[at] for at in range(len(units)))

    def _size(self, unit: Unit) -> int:
        """Return about how many texts have a unit."""
        if not unit.runs:
            return self._engine.size
        return sum(min(map(self._engine.frequency, run)) for run in unit.runs)

    def _best(self, sought: Sequence[Sought]) -> Asked | None:
        """Ask for the sessions that are best so far, if they are many."""
        total = scores(sought, self.measures).total
        if len(total) < _BEST:
            return None
        best = nlargest(_BEST, total, key=lambda session: total[session])
        return self._engine.of_sessions(best)

    def _spread(self, texts: int) -> int:
        """Return in how many sessions so many texts may lie."""
        count, size = len(self._ends), self._engine.size
        if not count or texts >= size:
            return count
        empty = math.pow(1 - texts / size, size / count)
        return round(count * (1 - empty))

    def _whole(self, plan: Plan, within: _Within) -> set[int]:
        """Return the sessions that have the words side by side, as they were typed."""
        if plan.whole is None:
            return set()
        counts = self._engine.counts(self._with(plan, plan.whole))
        return {bucket // KINDS for bucket in within.filtered(counts)}

    def _titled(
        self, plan: Plan, units: Sequence[Unit], checked: Query, within: _Within
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
                of_session(listed, Part.TITLE),
                self._engine.terms_of,
                stem_of,
            ):
                found.add(number)
        return frozenset(found)

    def _with(self, plan: Plan, asked: Asked) -> Asked:
        return asked if plan.must is None else self._engine.all_of([asked, plan.must])


def _touches(span: tuple[int, int], periods: Sequence[Period]) -> bool:
    """Whether something of a session may be of the time that is asked for."""
    first, last = span
    return not first or all(
        (one.start is None or last + 1 >= one.start.timestamp() * 1000)
        and (one.end is None or first < one.end.timestamp() * 1000)
        for one in periods
    )


class _Within(Struct, frozen=True):
    """Which sessions and which kinds of text count."""

    sessions: set[int] | None
    kinds: frozenset[int] | None

    def filtered(self, counts: Mapping[int, int]) -> dict[int, int]:
        sessions, kinds = self.sessions, self.kinds
        if sessions is None and kinds is None:
            return dict(counts)
        return {
            bucket: count
            for bucket, count in counts.items()
            if (kinds is None or bucket % KINDS in kinds)
            and (sessions is None or bucket // KINDS in sessions)
        }
