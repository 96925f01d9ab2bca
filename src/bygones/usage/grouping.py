"""Group usage by calendar periods in a time zone, and by blocks of five hours."""

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
MINUTE_MS = 60_000
_BLOCK_MS = 5 * HOUR_MS
_EPOCH = date(1970, 1, 1)
_MAX_TIME_MS = 47_482 * DAY_MS
"""The year 2100. Changes of UTC offsets are looked up only between 1970 and then,
because invalid timestamps may be thousands of years away."""


def build_clock(zone: tzinfo, first_ms: int, last_ms: int) -> UtcOffsets:
    """Return the UTC offsets of a zone between two times, in milliseconds."""
    changes = []
    first_ms = min(max(first_ms, 0), _MAX_TIME_MS)
    last_ms = min(max(last_ms, 0), _MAX_TIME_MS)
    offset = _utc_offset_ms(zone, first_ms)
    for day in range(first_ms, last_ms + DAY_MS, DAY_MS):
        next_offset = _utc_offset_ms(zone, min(day + DAY_MS, last_ms))
        if next_offset != offset:
            changes.append((_find_offset_change(zone, day, day + DAY_MS), offset))
            offset = next_offset
    return UtcOffsets(tuple(changes), offset)


def _utc_offset_ms(zone: tzinfo, time_ms: int) -> int:
    offset = datetime.fromtimestamp(time_ms / 1000, UTC).astimezone(zone).utcoffset()
    return int((offset or timedelta()).total_seconds() * 1000)


def _find_offset_change(zone: tzinfo, low: int, high: int) -> int:
    """Return the minute between two times in which the UTC offset changes."""
    offset = _utc_offset_ms(zone, low)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (
            (middle, high) if _utc_offset_ms(zone, middle) == offset else (low, middle)
        )
    return high // MINUTE_MS * MINUTE_MS


def calendar_key(by: Grouping, slot: int | None) -> str:
    """Return the name of the day, week or month that a day number belongs to."""
    if slot is None:
        return ""
    day = _EPOCH + timedelta(days=slot)
    if by is Grouping.WEEK:
        day -= timedelta(days=day.weekday())
    return day.isoformat()[: len("2026-01") if by is Grouping.MONTH else None]


class BlockWindow(Struct, frozen=True):
    """A block of five hours, and the usage in it by hour."""

    start_ms: int
    end_ms: int
    sums: tuple[UsageSum, ...]


def split_into_blocks(sums: Iterable[UsageSum]) -> Iterator[BlockWindow]:
    """Yield the blocks of hourly sums, in order.

    A block starts with the hour of its first answer. It ends after five hours, or when
    there was no answer for five hours.
    """
    hours: dict[int, list[UsageSum]] = {}
    for usage_sum in sums:
        if usage_sum.slot is not None:
            hours.setdefault(usage_sum.slot, []).append(usage_sum)
    start, last = 0, 0
    block: list[UsageSum] = []
    for hour in sorted(hours):
        first = min(one.first_ms or 0 for one in hours[hour])
        if block and (hour * HOUR_MS >= start + _BLOCK_MS or first - last >= _BLOCK_MS):
            yield BlockWindow(start, start + _BLOCK_MS, tuple(block))
            block = []
        if not block:
            start = hour * HOUR_MS
        block.extend(hours[hour])
        last = max(one.last_ms or 0 for one in hours[hour])
    if block:
        yield BlockWindow(start, start + _BLOCK_MS, tuple(block))


class UsageTotal:
    """The usage under one key of a report."""

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
        """Return the usage of several keys together."""
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
        """Add a sum and its cost."""
        payer = pricer.payers[usage_sum.payer]
        self.counts = list(map(add, self.counts, usage_sum.token_counts))
        self.answers += usage_sum.answers
        model, tokens = payer.model or "", sum(usage_sum.token_counts[:5])
        self.models[model] = self.models.get(model, 0) + tokens
        picos, estimated_picos = pricer.cost(usage_sum)
        if picos is None:
            self.unpriced_tokens += tokens
            self.unpriced_labels.add(pricer.describe_unpriced(usage_sum))
        else:
            self.has_price = True
            self.cost += picos
        self.estimated_output += usage_sum.estimated_output
        self.estimated_cost += estimated_picos or 0
        self._extend_period(usage_sum.first_ms, usage_sum.last_ms)

    def _extend_period(self, first: int | None, last: int | None) -> None:
        if first is None or last is None:
            return
        self.first_ms = first if self.first_ms is None else min(first, self.first_ms)
        self.last_ms = last if self.last_ms is None else max(last, self.last_ms)

    def to_row(
        self, key: str, *, title: str = "", block: UsageBlock | None = None
    ) -> UsageRow:
        """Return the total as a row of a report."""
        counts = self.counts
        by_tokens = sorted(self.models, key=lambda model: -self.models[model])
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
            models=tuple(model for model in by_tokens if model),
            first_at=from_milliseconds(self.first_ms),
            last_at=from_milliseconds(self.last_ms),
            block=block,
        )


def from_milliseconds(milliseconds: int | None) -> datetime | None:
    """Return a time that is stored in milliseconds."""
    if milliseconds is None:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
