"""Days, weeks, months and blocks of five hours, on somebody's clock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo
from operator import add
from typing import Self

from msgspec import Struct

from bygones.model.reports import Grouping, UsageBlock, UsageRow
from bygones.store.usage_tables import UsageSum, UtcOffsets
from bygones.usage.costs import SumPricer
from bygones.usage.prices import picos_to_nanos

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
_MINUTE_MS = 60_000
_BLOCK_MS = 5 * HOUR_MS
_EPOCH = date(1970, 1, 1)
_MAX_TIME_MS = 47_482 * DAY_MS
"""The year 2100: nobody knows how clocks are set later, or cares how they were before
1970, and there may be thousands of years on either side."""


def build_clock(zone: tzinfo, first_ms: int, last_ms: int) -> UtcOffsets:
    """Return how far a zone is ahead of UTC between two moments, in milliseconds."""
    changes = []
    first_ms, last_ms = (
        min(max(moment, 0), _MAX_TIME_MS) for moment in (first_ms, last_ms)
    )
    before = _utc_offset_ms(zone, first_ms)
    for day in range(first_ms, last_ms + DAY_MS, DAY_MS):
        now = _utc_offset_ms(zone, min(day + DAY_MS, last_ms))
        if now != before:
            changes.append((_find_offset_change(zone, day, day + DAY_MS), before))
            before = now
    return UtcOffsets(tuple(changes), before)


def _utc_offset_ms(zone: tzinfo, time_ms: int) -> int:
    ahead = datetime.fromtimestamp(time_ms / 1000, UTC).astimezone(zone).utcoffset()
    return int((ahead or timedelta()).total_seconds() * 1000)


def _find_offset_change(zone: tzinfo, low: int, high: int) -> int:
    """Return the minute in which a clock is set, between two moments."""
    before = _utc_offset_ms(zone, low)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (
            (middle, high) if _utc_offset_ms(zone, middle) == before else (low, middle)
        )
    return high // _MINUTE_MS * _MINUTE_MS


def calendar_key(by: Grouping, slot: int | None) -> str:
    """Return the name of the day, week or month that a day belongs to."""
    if slot is None:
        return ""
    day = _EPOCH + timedelta(days=slot)
    if by is Grouping.WEEK:
        day -= timedelta(days=day.weekday())
    return day.isoformat()[: len("2026-01") if by is Grouping.MONTH else None]


class BlockWindow(Struct, frozen=True):
    """Five hours, and the hours in which something was spent in them."""

    start_ms: int
    end_ms: int
    sums: tuple[UsageSum, ...]


def split_into_blocks(sums: Iterable[UsageSum]) -> Iterator[BlockWindow]:
    """Yield blocks in order; the sums come in slots of an hour.

    A block begins with the hour of its first answer, and ends after five hours, or
    when there was none for five hours. Both are at full hours or between slots, so
    that hours are enough to tell blocks apart.
    """
    hours: dict[int, list[UsageSum]] = {}
    for one in sums:
        if one.slot is not None:
            hours.setdefault(one.slot, []).append(one)
    start, last = 0, 0
    inside: list[UsageSum] = []
    for hour in sorted(hours):
        first = min(one.first_ms or 0 for one in hours[hour])
        if inside and (
            hour * HOUR_MS >= start + _BLOCK_MS or first - last >= _BLOCK_MS
        ):
            yield BlockWindow(start, start + _BLOCK_MS, tuple(inside))
            inside = []
        if not inside:
            start = hour * HOUR_MS
        inside.extend(hours[hour])
        last = max(one.last_ms or 0 for one in hours[hour])
    if inside:
        yield BlockWindow(start, start + _BLOCK_MS, tuple(inside))


class UsageTotal:
    """What was spent under one key."""

    def __init__(self) -> None:
        self.counts = [0] * 6
        self.answers = self.cost = self.unpriced_tokens = self.estimated_output = (
            self.estimated_cost
        ) = 0
        self.has_price = False
        self.models: dict[str, int] = {}
        self.unpriced_labels: set[str] = set()
        self.first_ms: int | None = None
        self.last_ms: int | None = None

    @classmethod
    def merge(cls, totals: Iterable[UsageTotal]) -> Self:
        """Return what several keys have spent together."""
        total = cls()
        for one in totals:
            total.counts = list(map(add, total.counts, one.counts))
            total.answers += one.answers
            total.cost += one.cost
            total.unpriced_tokens += one.unpriced_tokens
            total.estimated_output += one.estimated_output
            total.estimated_cost += one.estimated_cost
            total.has_price |= one.has_price
            total.unpriced_labels |= one.unpriced_labels
            for model, tokens in one.models.items():
                total.models[model] = total.models.get(model, 0) + tokens
            total._extend_period(one.first_ms, one.last_ms)
        return total

    def add(self, usage_sum: UsageSum, pricer: SumPricer) -> None:
        """Add a sum and what it costs."""
        purse = pricer.payers[usage_sum.payer]
        self.counts = list(map(add, self.counts, usage_sum.token_counts))
        self.answers += usage_sum.answers
        model, tokens = purse.model or "", sum(usage_sum.token_counts[:5])
        self.models[model] = self.models.get(model, 0) + tokens
        picos, guess = pricer.cost(usage_sum)
        if picos is None:
            self.unpriced_tokens += tokens
            self.unpriced_labels.add(pricer.describe_unpriced(usage_sum))
        else:
            self.has_price = True
            self.cost += picos
        self.estimated_output += usage_sum.estimated_output
        self.estimated_cost += guess or 0
        self._extend_period(usage_sum.first_ms, usage_sum.last_ms)

    def _extend_period(self, first: int | None, last: int | None) -> None:
        if first is None or last is None:
            return
        self.first_ms = first if self.first_ms is None else min(first, self.first_ms)
        self.last_ms = last if self.last_ms is None else max(last, self.last_ms)

    def to_row(
        self, key: str, *, title: str = "", block: UsageBlock | None = None
    ) -> UsageRow:
        """Return the row of a report."""
        counts = self.counts
        by_size = sorted(self.models, key=lambda model: -self.models[model])
        return UsageRow(
            key=key,
            title=title,
            answers=self.answers,
            tokens=sum(counts[:5]),
            input_tokens=counts[0],
            output_tokens=counts[1],
            cache_write_5m_tokens=counts[2],
            cache_write_1h_tokens=counts[3],
            cache_read_tokens=counts[4],
            web_searches=counts[5],
            cost=picos_to_nanos(self.cost)
            if self.has_price or not self.answers
            else None,
            unpriced_tokens=self.unpriced_tokens,
            estimated_output_tokens=self.estimated_output,
            estimated_cost=picos_to_nanos(self.estimated_cost),
            models=tuple(model for model in by_size if model),
            first_at=from_milliseconds(self.first_ms),
            last_at=from_milliseconds(self.last_ms),
            block=block,
        )


def from_milliseconds(milliseconds: int | None) -> datetime | None:
    """Return a time that is kept in milliseconds."""
    if milliseconds is None:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
