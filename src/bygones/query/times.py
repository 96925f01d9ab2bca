"""Times as people type them, against a clock and a zone that the caller brings."""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import UTC, datetime, timedelta, tzinfo

from msgspec import Struct

from bygones.model.query import Period

__all__ = ["Now", "period"]

_DAY = timedelta(days=1)
_WEEK = timedelta(weeks=1)
_MINUTE = timedelta(minutes=1)

_DATE = re.compile(r"([0-9]{4})(?:-([0-9]{1,2})(?:-([0-9]{1,2}))?)?")
_INSTANT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}[^ ]*")
_AGO = re.compile(r"([0-9]{1,5})(min|h|d|w|mo|y)")
_NAMED = re.compile(r"(last|this)[ _-](week|month|year)")


class Now(Struct, frozen=True):
    """The moment at which a query is read, and the zone in which days begin."""

    time: datetime
    zone: tzinfo

    @property
    def wall(self) -> datetime:
        """What a clock on the wall shows; it knows no zone."""
        return self.time.astimezone(self.zone).replace(tzinfo=None, fold=0)

    def utc(self, wall: datetime) -> datetime:
        """Return the moment at which the clock shows this for the first time.

        An hour that the clock skips is the moment of the skip or behind it.
        """
        return wall.replace(tzinfo=self.zone).astimezone(UTC)


class _Span(Struct, frozen=True):
    at: datetime
    """What *before* and *after* mean."""
    start: datetime
    end: datetime


def period(field: str, text: str, now: Now) -> Period | None:
    """Return what ``before``, ``after`` or ``on`` this time is, if it is one.

    *Before* ends where *after* begins: at the beginning of what is named.
    """
    try:
        return _period(field, text, now)
    except (OverflowError, ValueError):
        return None  # a day that no calendar has, or a year beyond all of them


def _period(field: str, text: str, now: Now) -> Period | None:
    first, dots, last = text.partition("..")
    if dots and field == "on":
        start, end = _span(first, now), _span(last, now)
        return _between(start, end) if start and end else None
    span = _span(text, now)
    if span is None:
        return None
    if field == "before":
        return Period(end=span.at)
    if field == "after":
        return Period(start=span.at)
    return Period(span.start, max(span.end, span.start + _MINUTE))


def _between(first: _Span, last: _Span) -> Period | None:
    # From a moment to the same moment is empty, but not the wrong way round.
    is_moment = last.start == last.end
    if first.start > last.end or (first.start == last.end and not is_moment):
        return None
    return Period(first.start, last.end)


def _span(text: str, now: Now) -> _Span | None:
    if _INSTANT.fullmatch(text):
        return _instant(datetime.fromisoformat(text), now)
    text = text.casefold()
    if found := _DATE.fullmatch(text):
        year, month, day = (int(part) if part else None for part in found.groups())
        return _calendar(now, year or 0, month, day)
    if found := _AGO.fullmatch(text):
        return _ago(int(found[1]), found[2], now)
    if found := _NAMED.fullmatch(text):
        return _named(found[1] == "last", found[2], now)
    if text in {"today", "yesterday"}:
        start = _midnight(now.wall) - (_DAY if text == "yesterday" else timedelta())
        return _walls(start, start + _DAY, now)
    return None


def _instant(time: datetime, now: Now) -> _Span:
    utc = now.utc(time) if time.tzinfo is None else time.astimezone(UTC)
    return _Span(utc, utc, utc)


def _calendar(now: Now, year: int, month: int | None, day: int | None) -> _Span:
    # A clock on the wall knows no zone.
    start = datetime(year, month or 1, day or 1)  # noqa: DTZ001
    if day:
        end = start + _DAY
    elif month:
        end = start + monthrange(year, month)[1] * _DAY
    else:
        end = start.replace(year=year + 1)
    return _walls(start, end, now)


def _ago(count: int, unit: str, now: Now) -> _Span:
    if unit in {"min", "h"}:
        step = timedelta(hours=count) if unit == "h" else timedelta(minutes=count)
        at = (now.time - step).astimezone(UTC)
        return _Span(at, at, at + step / max(count, 1))
    if unit in {"d", "w"}:
        wall = now.wall - count * (_DAY if unit == "d" else _WEEK)
    else:
        wall = _months_back(now.wall, count * (12 if unit == "y" else 1))
    day = _walls(_midnight(wall), _midnight(wall) + _DAY, now)
    return _Span(now.utc(wall), day.start, day.end)


def _months_back(wall: datetime, count: int) -> datetime:
    year, month = divmod(wall.year * 12 + wall.month - 1 - count, 12)
    last = monthrange(year, month + 1)[1]
    return wall.replace(year=year, month=month + 1, day=min(wall.day, last))


def _named(is_last: bool, unit: str, now: Now) -> _Span:
    today = _midnight(now.wall)
    if unit == "week":
        start = today - today.weekday() * _DAY - (_WEEK if is_last else timedelta())
        return _walls(start, start + _WEEK, now)
    if unit == "year":
        return _calendar(now, today.year - is_last, None, None)
    month = _months_back(today.replace(day=1), int(is_last))
    return _calendar(now, month.year, month.month, None)


def _midnight(wall: datetime) -> datetime:
    return wall.replace(hour=0, minute=0, second=0, microsecond=0)


def _walls(start: datetime, end: datetime, now: Now) -> _Span:
    return _Span(now.utc(start), now.utc(start), now.utc(end))
