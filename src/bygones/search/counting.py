"""Counting: in which sessions the words of a query stand, and how often.

What is rare is counted everywhere. What is broad is counted in those sessions only
that may be among the best: everywhere would take longer than people wait, and who
comes last of ten thousand sessions interests nobody.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from heapq import nlargest
from itertools import accumulate
from typing import TYPE_CHECKING

from msgspec import Struct

from bygones.model.buckets import KINDS, bucket_of
from bygones.model.query import Part
from bygones.query.rank import Measures, Sought, idf, scores
from bygones.search.plan import Plan, Unit
from bygones.search.titles import Titles

if TYPE_CHECKING:  # protocols take long to make
    from bygones.store.engine import Asked, Engine

__all__ = ["Counted", "Counting", "Wanted", "Within"]

_EXACT = 10_000
"""Texts that are counted for all words together, wherever they stand."""
_FEW = 500
"""Sessions that are so few that all is counted in all of them."""
_BEST = 150
"""Sessions that each way of choosing the best may choose."""
_TEXTS = 2_000
"""Texts of which the best sessions are: the engine's best."""


class Within(Struct, frozen=True):
    """Which sessions and which kinds of text count."""

    sessions: set[int] | None = None
    kinds: frozenset[int] | None = None

    def filtered(self, counts: Mapping[int, int]) -> dict[int, int]:
        """Return the counts of what counts."""
        sessions, kinds = self.sessions, self.kinds
        if sessions is None and kinds is None:
            return dict(counts)
        return {
            bucket: count
            for bucket, count in counts.items()
            if (kinds is None or bucket % KINDS in kinds)
            and (sessions is None or bucket // KINDS in sessions)
        }


class Wanted(Struct, frozen=True):
    """What is to be counted, and where it counts."""

    plan: Plan
    units: tuple[Unit, ...]
    within: Within
    titled: frozenset[int]
    """Sessions whose title fits."""
    whole: frozenset[int] = frozenset()
    """Sessions that have the words as they were typed."""


class Counted(Struct, frozen=True):
    """Where the units of a plan stand."""

    sought: tuple[Sought, ...]
    is_whole: bool = True
    """Whether all was counted everywhere."""
    about: int = 0
    """How many sessions there may be in all, if not."""


class Counting:
    """Counts what one query looks for."""

    def __init__(
        self, engine: Engine, titles: Titles, measures: Measures, sessions: int
    ) -> None:
        self._engine = engine
        self._titles = titles
        self._measures = measures
        self._sessions = sessions

    def counted(self, wanted: Wanted) -> Counted:
        """Return where each unit stands, in texts and in titles.

        The rarest come first. Once many texts were counted, what is left is counted in
        sessions that are the best by what was counted, by their title, or by a text.
        """
        units = wanted.units
        # What is asked for by more than words must be found to know how much it is.
        is_sampled = len(units) == 1 and (units[0].is_begun or units[0].is_exact)
        sample = self._sample(wanted) if is_sampled else None
        sizes = [self._size(unit) for unit in units] if not sample else [sample[0]]
        order = sorted(range(len(units)), key=sizes.__getitem__)
        reach = list(accumulate(sizes[at] for at in order))
        is_few = self._sessions <= _FEW
        rare = sum(is_few or upto <= _EXACT for upto in reach)
        known = self._sought(wanted, [units[at] for at in order[:rare]])
        found = dict(zip(order[:rare], known, strict=True))
        if rare < len(order):
            best = self._engine.of_sessions(self._best(wanted, known, sample))
            rest = self._sought(wanted, [units[at] for at in order[rare:]], best)
            for at, one in zip(order[rare:], rest, strict=True):
                found[at] = Sought(self._rarity(sizes[at]), one.counts, one.is_name)
        sought = tuple(found[at] for at in range(len(units)))
        if rare == len(order):
            return Counted(sought)
        return Counted(sought, is_whole=False, about=self._about(sizes))

    def everywhere(self, wanted: Wanted) -> Counted:
        """Return the same, with all counted wherever it stands."""
        return Counted(tuple(self._sought(wanted, wanted.units)))

    def whole(self, plan: Plan, within: Within) -> set[int]:
        """Return the sessions that have the words side by side, as they were typed.

        Where none has, those that have half of them so.
        """
        for asked in plan.whole:
            _, found = self._engine.buckets(self._with(plan, asked), _TEXTS)
            counts = within.filtered(found)
            if counts:
                return {bucket // KINDS for bucket in counts}
        return set()

    def _sought(
        self, wanted: Wanted, units: Sequence[Unit], best: Asked | None = None
    ) -> list[Sought]:
        """Return where units stand, asked for at once."""
        asked = [self._asked(wanted, unit, best) for unit in units]
        found: list[Sought] = []
        for unit, told in zip(units, self._engine.each_counts(asked), strict=True):
            counts = wanted.within.filtered(told)
            for session in self._titles.having(unit) & wanted.titled:
                counts[bucket_of(session, Part.TITLE)] = 1
            number = len({bucket // KINDS for bucket in counts})
            found.append(Sought(idf(number, self._sessions), counts, unit.is_name))
        return found

    def _asked(self, wanted: Wanted, unit: Unit, best: Asked | None) -> Asked:
        plan, within = wanted.plan, wanted.within
        asked = [one for one in (plan.must, best) if one is not None]
        if unit.runs or not asked:
            asked.append(unit.asked)
        if within.sessions is not None and len(within.sessions) <= _FEW:
            asked.append(self._engine.of_sessions(within.sessions))
        return self._engine.all_of(asked)

    def _sample(self, wanted: Wanted) -> tuple[int, dict[int, int]]:
        """Return how many texts have a unit, and where the engine's best ones lie."""
        # One form of each word is enough to choose by, and takes half as long.
        asked = self._engine.any_of([_first(unit) for unit in wanted.units])
        return self._engine.buckets(self._with(wanted.plan, asked), _TEXTS)

    def _best(
        self,
        wanted: Wanted,
        counted: Sequence[Sought],
        sample: tuple[int, dict[int, int]] | None,
    ) -> set[int]:
        """Return sessions that may be among the best.

        These are the best by what was counted, by titles, and, where this is little,
        by those texts that the engine takes for the best.
        """
        total = scores(counted, self._measures).total
        chosen = set(nlargest(_BEST, total, key=total.__getitem__))
        chosen.update(sorted(wanted.whole)[-_BEST:])
        named = dict.fromkeys(wanted.titled, 0)
        for unit in wanted.units:
            for session in self._titles.having(unit) & named.keys():
                named[session] += 1
        chosen.update(nlargest(_BEST, named, key=lambda one: (named[one], one)))
        if len(total) >= _BEST:
            return chosen
        _, found = sample or self._sample(wanted)
        counts = wanted.within.filtered(found)
        total = scores([Sought(1.0, counts)], self._measures).total
        chosen.update(nlargest(_BEST, total, key=total.__getitem__))
        return chosen

    def _with(self, plan: Plan, asked: Asked) -> Asked:
        return asked if plan.must is None else self._engine.all_of([asked, plan.must])

    def _size(self, unit: Unit) -> int:
        """Return about how many texts have a unit."""
        if not unit.runs:
            return self._engine.size
        if unit.is_begun:
            return self._engine.buckets(unit.asked, 1)[0]
        return sum(min(map(self._engine.frequency, run)) for run in unit.runs)

    def _rarity(self, texts: int) -> float:
        return idf(self._sessions * self._spread(texts), self._sessions)

    def _spread(self, texts: int) -> float:
        """Return in which share of all sessions so many texts may lie."""
        size = self._engine.size
        if not self._sessions or texts >= size:
            return 1.0
        return 1 - math.pow(1 - texts / size, size / self._sessions)

    def _about(self, sizes: Iterable[int]) -> int:
        """Return in how many sessions one of several numbers of texts may lie."""
        without = math.prod(1 - self._spread(size) for size in sizes)
        return round(self._sessions * (1 - without))


def _first(unit: Unit) -> Asked:
    return unit.each[0] if unit.each and not unit.is_begun else unit.asked
