"""Days, weeks, months and blocks of five hours, on somebody's clock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo

from msgspec import Struct

from bygones.model.reports import Grouping
from bygones.store.spending import Clock, Sum

__all__ = ["DAY", "HOUR", "Block", "blocks_of", "clock_of", "slot_key"]

HOUR = 3_600_000
DAY = 24 * HOUR
_MINUTE = 60_000
_BLOCK = 5 * HOUR
_FIRST_DAY = date(1970, 1, 1)
_LAST = 47_482 * DAY
"""The year 2100: nobody knows how clocks are set later, or cares how they were before
1970, and there may be thousands of years on either side."""


def clock_of(zone: tzinfo, first: int, last: int) -> Clock:
    """Return how far a zone is ahead of UTC between two moments, in milliseconds."""
    changes = []
    first, last = (min(max(moment, 0), _LAST) for moment in (first, last))
    before = _ahead(zone, first)
    for day in range(first, last + DAY, DAY):
        now = _ahead(zone, min(day + DAY, last))
        if now != before:
            changes.append((_change(zone, day, day + DAY), before))
            before = now
    return Clock(tuple(changes), before)


def _ahead(zone: tzinfo, moment: int) -> int:
    ahead = datetime.fromtimestamp(moment / 1000, UTC).astimezone(zone).utcoffset()
    return int((ahead or timedelta()).total_seconds() * 1000)


def _change(zone: tzinfo, low: int, high: int) -> int:
    """Return the minute in which a clock is set, between two moments."""
    before = _ahead(zone, low)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _ahead(zone, middle) == before else (low, middle)
    return high // _MINUTE * _MINUTE


def slot_key(by: Grouping, slot: int | None) -> str:
    """Return the name of the day, week or month that a day belongs to."""
    if slot is None:
        return ""
    day = _FIRST_DAY + timedelta(days=slot)
    if by is Grouping.WEEK:
        day -= timedelta(days=day.weekday())
    return day.isoformat()[: len("2026-01") if by is Grouping.MONTH else None]


class Block(Struct, frozen=True):
    """Five hours, and the hours in which something was spent in them."""

    start: int
    end: int
    sums: tuple[Sum, ...]


def blocks_of(sums: Iterable[Sum]) -> Iterator[Block]:
    """Yield blocks in order; the sums come in slots of an hour.

    A block begins with the hour of its first answer, and ends after five hours, or
    when there was none for five hours. Both are at full hours or between slots, so
    that hours are enough to tell blocks apart.
    """
    hours: dict[int, list[Sum]] = {}
    for one in sums:
        if one.slot is not None:
            hours.setdefault(one.slot, []).append(one)
    start, last = 0, 0
    inside: list[Sum] = []
    for hour in sorted(hours):
        first = min(one.first_ms or 0 for one in hours[hour])
        if inside and (hour * HOUR >= start + _BLOCK or first - last >= _BLOCK):
            yield Block(start, start + _BLOCK, tuple(inside))
            inside = []
        if not inside:
            start = hour * HOUR
        inside.extend(hours[hour])
        last = max(one.last_ms or 0 for one in hours[hour])
    if inside:
        yield Block(start, start + _BLOCK, tuple(inside))
