"""Parsing times at a fixed date, in several time zones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bygones.model.query import TimeRange
from bygones.query.times import ReferenceTime, parse_period
from tests.query.parsing import NOW
from tests.query.trees import moments

BERLIN = ZoneInfo("Europe/Berlin")
HERE = ReferenceTime(NOW, UTC)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("2025-12-01", "2025-12-01", "2025-12-02"),
        ("2025-12-1", "2025-12-01", "2025-12-02"),
        ("2025-12", "2025-12-01", "2026-01-01"),
        ("2024-02", "2024-02-01", "2024-03-01"),
        ("2025", "2025-01-01", "2026-01-01"),
        ("2025-12-01T10:30", "2025-12-01T10:30", "2025-12-01T10:31"),
        ("2025-12-01 10:30", "2025-12-01T10:30", "2025-12-01T10:31"),
        ("2025-12-01T10:30+02:00", "2025-12-01T08:30", "2025-12-01T08:31"),
        ("today", "2025-12-10", "2025-12-11"),
        ("Yesterday", "2025-12-09", "2025-12-10"),
        ("this week", "2025-12-08", "2025-12-15"),
        ("last week", "2025-12-01", "2025-12-08"),
        ("last-week", "2025-12-01", "2025-12-08"),
        ("this_month", "2025-12-01", "2026-01-01"),
        ("last month", "2025-11-01", "2025-12-01"),
        ("this year", "2025-01-01", "2026-01-01"),
        ("last year", "2024-01-01", "2025-01-01"),
        ("2d", "2025-12-08", "2025-12-09"),
        ("1w", "2025-12-03", "2025-12-04"),
        ("1mo", "2025-11-10", "2025-11-11"),
        ("2y", "2023-12-10", "2023-12-11"),
        ("3h", "2025-12-10T09:30", "2025-12-10T10:30"),
        ("5min", "2025-12-10T12:25", "2025-12-10T12:26"),
        ("2025-11..2025-12-05", "2025-11-01", "2025-12-06"),
        ("last week..today", "2025-12-01", "2025-12-11"),
    ],
)
def test_calendar_periods(text: str, start: str, end: str) -> None:
    assert parse_period("on", text, HERE) == TimeRange(utc(start), utc(end))


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2025-12-01", "2025-12-01"),
        ("2d", "2025-12-08T12:30"),
        ("2w", "2025-11-26T12:30"),
        ("3h", "2025-12-10T09:30"),
        ("0h", "2025-12-10T12:30"),
        ("1mo", "2025-11-10T12:30"),
        ("last month", "2025-11-01"),
    ],
)
def test_after_starts_where_before_ends(text: str, at: str) -> None:
    assert parse_period("after", text, HERE) == TimeRange(start=utc(at))
    assert parse_period("before", text, HERE) == TimeRange(end=utc(at))


def test_a_month_ago_is_an_existing_day() -> None:
    now = ReferenceTime(utc("2025-03-31T08:00"), UTC)

    assert parse_period("after", "1mo", now) == TimeRange(start=utc("2025-02-28T08:00"))


@pytest.mark.parametrize(
    "text",
    [
        *("", "soon", "2025-13", "2025-02-30", "0000", "9999", "2025-1-1-1", "12-2025"),
        *("3m", "2", "d", "-2d", "99999y", "99999mo", "2025-12-01T25:00", "next week"),
        *(
            "last day",
            "..",
            "2025..",
            "..2025",
            "2026..2025",
            "2027..2025",
            "2025..x",
            "0001-01-01",
        ),
    ],
)
@pytest.mark.parametrize("zone", [timezone(timedelta(hours=14))])
def test_invalid_times_give_none(text: str, zone: tzinfo) -> None:
    assert parse_period("on", text, ReferenceTime(NOW, zone)) is None


def test_ranges_are_only_valid_for_on() -> None:
    assert parse_period("after", "2024..2025", HERE) is None
    assert parse_period("before", "2024..2025", HERE) is None


def test_days_start_in_the_given_zone() -> None:
    late = ReferenceTime(utc("2025-12-10T23:30"), BERLIN)

    assert parse_period("on", "today", late) == TimeRange(
        utc("2025-12-10T23:00"), utc("2025-12-11T23:00")
    )


@pytest.mark.parametrize(
    ("day", "start", "end"),
    [
        ("2025-03-30", "2025-03-29T23:00", "2025-03-30T22:00"),
        ("2025-10-26", "2025-10-25T22:00", "2025-10-26T23:00"),
    ],
)
def test_day_of_a_clock_change_is_shorter_or_longer(
    day: str, start: str, end: str
) -> None:
    assert parse_period("on", day, ReferenceTime(NOW, BERLIN)) == TimeRange(
        utc(start), utc(end)
    )


def test_a_day_ago_is_the_same_local_time() -> None:
    # Clocks went forward in the night before.
    now = ReferenceTime(utc("2025-03-30T10:00"), BERLIN)

    assert parse_period("after", "1d", now) == TimeRange(start=utc("2025-03-29T11:00"))
    assert parse_period("after", "24h", now) == TimeRange(start=utc("2025-03-29T10:00"))


def test_skipped_midnight_is_the_time_of_the_change() -> None:
    # In Santiago the day begins at one o'clock when summer time does.
    now = ReferenceTime(NOW, ZoneInfo("America/Santiago"))

    assert parse_period("after", "2024-09-08", now) == TimeRange(
        start=utc("2024-09-08T04:00")
    )


zones = st.sampled_from(
    [UTC, BERLIN, ZoneInfo("Asia/Kolkata"), ZoneInfo("America/St_Johns")]
)
spoken = st.sampled_from(
    [
        *("today", "yesterday", "2d", "5w", "3mo", "1y", "3h", "9min", "last week"),
        *("this month", "last year", "2025-10-26", "2025-03", "2024"),
    ]
)


@given(spoken, moments, zones)
def test_on_is_between_before_and_after(
    text: str, time: datetime, zone: tzinfo
) -> None:
    now = ReferenceTime(time, zone)
    on, after = parse_period("on", text, now), parse_period("after", text, now)

    assert on
    assert after
    assert on.start
    assert on.end
    assert after.start
    assert on.start <= after.start < on.end
    assert parse_period("before", text, now) == TimeRange(end=after.start)
