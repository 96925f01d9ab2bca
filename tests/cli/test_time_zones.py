"""Dates are in the time zone of the user."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import click
import pytest

from bygones.cli.commands.usage import parse_zone
from bygones.config import LocalTimezone

pytestmark = pytest.mark.skipif(os.name == "nt", reason="no TZ there")


@pytest.fixture(params=["Europe/Paris", "America/New_York", "Asia/Kathmandu", "UTC"])
def home_dir(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ZoneInfo]:
    """Set the time zone of this machine for a test."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield ZoneInfo(request.param)
    monkeypatch.undo()
    time.tzset()


def test_local_time_equals_time_in_its_zone(home_dir: ZoneInfo) -> None:
    moment = datetime(2025, 1, 1, tzinfo=UTC)
    for _ in range(365 * 8):
        moment += timedelta(hours=3)
        here, there = moment.astimezone(LocalTimezone()), moment.astimezone(home_dir)

        assert here.replace(tzinfo=None) == there.replace(tzinfo=None)
        assert here.utcoffset() == there.utcoffset()


def test_local_time_is_interpreted_in_its_zone(
    home_dir: ZoneInfo,
) -> None:
    wall = datetime(2025, 1, 1, 12)  # noqa: DTZ001 (a clock on the wall)
    for _ in range(365):
        wall += timedelta(days=1)
        here = wall.replace(tzinfo=LocalTimezone()).astimezone(UTC)

        assert here == wall.replace(tzinfo=home_dir).astimezone(UTC)


def test_zone_is_found_by_name() -> None:
    assert parse_zone("utc") is UTC
    assert str(parse_zone("Europe/Paris")) == "Europe/Paris"
    assert str(parse_zone(None)) == "local time"
    with pytest.raises(click.BadParameter, match="not a known time zone"):
        parse_zone("Nowhere")
