"""Formatting numbers and times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from bygones.render.numbers import (
    format_bytes,
    format_duration,
    format_time,
    format_time_range,
    format_tokens,
    pluralize,
    version_order,
)

START = datetime(2026, 1, 5, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1.0k"),
        (9949, "9.9k"),
        (9951, "10k"),
        (999_600, "1.0M"),
        (5_000_000_000, "5.0G"),
        (10**15, "1000.0T"),
    ],
)
def test_tokens_have_few_digits(number: int, text: str) -> None:
    assert format_tokens(number) == text


def test_versions_are_sorted_by_their_numbers() -> None:
    versions = ["2.0.10", "1.0.120", "2.0.9", "9" * 5000, "1.0.117", "dev"]
    assert sorted(versions, key=version_order)[-4:] == [
        *("1.0.117", "1.0.120", "2.0.9", "2.0.10"),
    ]


def test_sizes_have_units() -> None:
    assert [format_bytes(n) for n in (12, 1200, 3_400_000)] == [
        "12 B",
        "1.2 kB",
        "3.4 MB",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0.0s"),
        (9.96, "10s"),
        (59.6, "1m 00s"),
        (3600, "1h 00m"),
        (86400 * 2, "2d 0h"),
    ],
)
def test_durations_have_two_units(seconds: float, text: str) -> None:
    assert format_duration(timedelta(seconds=seconds)) == text


def test_date_is_shown_when_it_changes() -> None:
    later = START + timedelta(hours=2)

    assert format_time(later, UTC, START) == "11:00"
    assert format_time(START + timedelta(days=1), UTC, START) == "2026-01-06 09:00"
    assert format_time_range(START, START, UTC) == "2026-01-05 09:00"
    assert format_time_range(START, later, UTC) == "2026-01-05 09:00 to 11:00"


def test_nouns_are_pluralized() -> None:
    assert pluralize(1, "branch", "branches") == "1 branch"
    assert pluralize(1200, "line") == "1,200 lines"
