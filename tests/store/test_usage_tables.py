"""Sums of usage by quarter hour equal sums of answers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bygones.archive import Archive
from bygones.model.reports import Grouping, UsageReport
from bygones.query.parser import parse_query
from bygones.store import usage_tables
from tests.build import prompt, session_id, thread
from tests.usage.usage_archive import NOW, OPUS, SONNET, UsageArchive, answer

START = datetime(2025, 10, 24, tzinfo=UTC)
"""Two days before summer time ends in Europe, nine days before it ends in America."""

spends = st.tuples(
    st.integers(0, 12 * 24 * 3600),
    st.sampled_from([SONNET, OPUS, "claude-opus-4-6", "glm-4.6"]),
    st.sampled_from([0, 99_999, 100_000, 100_001, 200_000, 200_001, 350_000]),
    st.integers(0, 5000),
)


def reports(
    usage_archive: UsageArchive, query: str, zone: str
) -> dict[str, UsageReport]:
    time_zone = ZoneInfo(zone)
    with Archive.open(usage_archive.archive) as archive:
        parsed = parse_query(query, now=NOW, zone=time_zone)
        return {
            by: archive.usage(
                by,
                query=parsed,
                timezone=time_zone,
                now=NOW,
                prices=usage_archive.prices,
            )
            for by in Grouping
            if by is not Grouping.TOOL
        }


@pytest.mark.req("U3")
@settings(max_examples=15)
@given(
    spent=st.lists(spends, min_size=1, max_size=12),
    query=st.sampled_from(
        ["", "after:2025-10-27", "on:2025-10-26", "-on:2025-10-26", "branch:live"]
    ),
    zone=st.sampled_from(["UTC", "Europe/Paris", "America/New_York", "Asia/Kathmandu"]),
)
def test_quarter_hour_sums_equal_sums_of_answers(
    tmp_path_factory: pytest.TempPathFactory,
    spent: list[tuple[int, str, int, int]],
    query: str,
    zone: str,
) -> None:
    usage_archive = UsageArchive(tmp_path_factory.mktemp("spells"))
    for number, (seconds, model, read, output) in enumerate(spent):
        time = (START + timedelta(seconds=seconds)).isoformat()
        reply_record = answer(number, model=model, read=read, output=output)
        records = [prompt("go"), reply_record | {"timestamp": time}]
        usage_archive.home.session(
            session_id(number % 3 + 1) + f"-{number}", thread(*records)
        )
    usage_archive.ingest()

    coarse = reports(usage_archive, query, zone)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(usage_tables, "_is_answered_by_15_minutes", never)
        fine = reports(usage_archive, query, zone)

    assert coarse == fine


def never(*_: object) -> bool:
    return False


def record_decisions(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return a list that records each decision to use quarter-hour sums."""
    decisions: list[bool] = []
    real: Callable[..., bool] = usage_tables._is_answered_by_15_minutes

    def decide(*words: object) -> bool:
        decisions.append(real(*words))
        return decisions[-1]

    monkeypatch.setattr(usage_tables, "_is_answered_by_15_minutes", decide)
    return decisions


@pytest.mark.parametrize(
    ("query", "is_enough"),
    [("", True), ("after:2025-10-27", True), ("after:2025-10-27T10:07", False)],
)
def test_quarter_hour_sums_are_used_where_they_suffice(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    query: str,
    is_enough: bool,
) -> None:
    usage_archive = UsageArchive(tmp_path_factory.mktemp("spells"))
    time = {"timestamp": "2025-10-27T10:06:00Z"}
    usage_archive.home.session(
        session_id(1), thread(prompt("go"), answer(1, output=5) | time)
    )
    decisions = record_decisions(monkeypatch)

    assert usage_archive.total(query).tokens == (0 if "T" in query else 5)
    assert decisions == [is_enough]
