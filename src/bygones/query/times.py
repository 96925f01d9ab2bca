"""Parse times such as ``2w`` or ``last month``, relative to a given time and zone."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, tzinfo

from msgspec import Struct

from bygones.model.query import TimeRange

_DAY = timedelta(days=1)
_WEEK = timedelta(weeks=1)
_MINUTE = timedelta(minutes=1)

_DATE = re.compile(r"([0-9]{4})(?:-([0-9]{1,2})(?:-([0-9]{1,2}))?)?")
_INSTANT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}[^ ]*")
_SECONDS = re.compile(r"[^Tt ]+[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}([.,][0-9])?")
_AGO = re.compile(r"([0-9]{1,5})(min|h|d|w|mo|y)")
_NAMED = re.compile(r"(last|this)[ _-](week|month|year)")


class ReferenceTime(Struct, frozen=True):
    """The time to which relative times refer, and the zone in which days start."""

    time: datetime
    zone: tzinfo

    @property
    def local_time(self) -> datetime:
        """The local time, without a zone."""
        return self.time.astimezone(self.zone).replace(tzinfo=None, fold=0)

    def to_utc(self, local_time: datetime) -> datetime:
        """Return when a clock first shows a local time.

        A time in an hour that the clock skips is that of the change, or after it.
        """
        return local_time.replace(tzinfo=self.zone).astimezone(UTC)


class _TimeSpan(Struct, frozen=True):
    anchor: datetime
    """The time that *before* and *after* refer to."""
    start: datetime
    end: datetime


def parse_period(field: str, text: str, now: ReferenceTime) -> TimeRange | None:
    """Return the range of ``before``, ``after`` or ``on`` a time; none if it is invalid.

    *Before* ends where *after* starts: at the start of the named period.
    """
    try:
        return _find_period(field, text, now)
    except (OverflowError, ValueError):
        return None  # a date that does not exist, or a year out of range


def _find_period(field: str, text: str, now: ReferenceTime) -> TimeRange | None:
    first, dots, last = text.partition("..")
    if dots and field == "on":
        start, end = _parse_span(first, now), _parse_span(last, now)
        return _period_between(start, end) if start and end else None
    span = _parse_span(text, now)
    if span is None:
        return None
    if field == "before":
        return TimeRange(end=span.anchor)
    if field == "after":
        return TimeRange(start=span.anchor)
    return TimeRange(span.start, max(span.end, span.start + _precision(text)))


def _precision(text: str) -> timedelta:
    """Return how long a time lasts: a minute, or less if it has seconds."""
    found = _SECONDS.match(text)
    if found is None:
        return _MINUTE
    return timedelta(milliseconds=1) if found[1] else timedelta(seconds=1)


def _period_between(first: _TimeSpan, last: _TimeSpan) -> TimeRange | None:
    # From an instant to the same instant is empty, but not reversed.
    is_instant = last.start == last.end
    if first.start > last.end or (first.start == last.end and not is_instant):
        return None
    return TimeRange(first.start, last.end)


def _parse_span(text: str, now: ReferenceTime) -> _TimeSpan | None:
    if _INSTANT.fullmatch(text):
        return _instant_span(datetime.fromisoformat(text), now)
    text = text.casefold()
    if found := _DATE.fullmatch(text):
        year, month, day = (int(part) if part else None for part in found.groups())
        return _calendar_span(now, year or 0, month, day)
    if found := _AGO.fullmatch(text):
        return _relative_span(int(found[1]), found[2], now)
    if found := _NAMED.fullmatch(text):
        return _named_span(found[1] == "last", found[2], now)
    if text in {"today", "yesterday"}:
        start = _midnight(now.local_time) - (
            _DAY if text == "yesterday" else timedelta()
        )
        return _local_span(start, start + _DAY, now)
    return None


def _instant_span(time: datetime, now: ReferenceTime) -> _TimeSpan:
    utc = now.to_utc(time) if time.tzinfo is None else time.astimezone(UTC)
    return _TimeSpan(utc, utc, utc)


def _calendar_span(
    now: ReferenceTime, year: int, month: int | None, day: int | None
) -> _TimeSpan:
    start = datetime(year, month or 1, day or 1)  # noqa: DTZ001 (local time)
    if day:
        end = start + _DAY
    elif month:
        end = start + _days_in_month(year, month) * _DAY
    else:
        end = start.replace(year=year + 1)
    return _local_span(start, end, now)


def _relative_span(count: int, unit: str, now: ReferenceTime) -> _TimeSpan:
    if unit in {"min", "h"}:
        step = timedelta(hours=count) if unit == "h" else timedelta(minutes=count)
        at = (now.time - step).astimezone(UTC)
        return _TimeSpan(at, at, at + step / max(count, 1))
    if unit in {"d", "w"}:
        local = now.local_time - count * (_DAY if unit == "d" else _WEEK)
    else:
        local = _months_back(now.local_time, count * (12 if unit == "y" else 1))
    day = _local_span(_midnight(local), _midnight(local) + _DAY, now)
    return _TimeSpan(now.to_utc(local), day.start, day.end)


def _days_in_month(year: int, month: int) -> int:
    last_year, last_month = divmod(year * 12 + month, 12)
    return (
        date(last_year, last_month + 1, 1).toordinal()
        - date(year, month, 1).toordinal()
    )


def _months_back(local_time: datetime, count: int) -> datetime:
    year, month = divmod(local_time.year * 12 + local_time.month - 1 - count, 12)
    last = _days_in_month(year, month + 1)
    return local_time.replace(year=year, month=month + 1, day=min(local_time.day, last))


def _named_span(is_last: bool, unit: str, now: ReferenceTime) -> _TimeSpan:
    today = _midnight(now.local_time)
    if unit == "week":
        start = today - today.weekday() * _DAY - (_WEEK if is_last else timedelta())
        return _local_span(start, start + _WEEK, now)
    if unit == "year":
        return _calendar_span(now, today.year - is_last, None, None)
    month = _months_back(today.replace(day=1), int(is_last))
    return _calendar_span(now, month.year, month.month, None)


def _midnight(local_time: datetime) -> datetime:
    return local_time.replace(hour=0, minute=0, second=0, microsecond=0)


def _local_span(start: datetime, end: datetime, now: ReferenceTime) -> _TimeSpan:
    return _TimeSpan(now.to_utc(start), now.to_utc(start), now.to_utc(end))
