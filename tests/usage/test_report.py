"""Usage reports: groupings, queries and costs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from bygones.archive import Archive
from bygones.errors import UngroupableField
from bygones.model.reports import ToolRow, UsageRow
from tests.build import (
    Written,
    prompt,
    reply,
    session_id,
    thread,
    tool_result,
    tool_use,
)
from tests.usage.usage_archive import OPUS, SONNET, UsageArchive, answer

FIRST, SECOND = session_id(1), session_id(2)


def at(time: str, *records: Written, **fields: object) -> list[Written]:
    """Return a thread all of whose records were written at this time."""
    return [record | {"timestamp": time} | fields for record in thread(*records)]


def spend(usage_archive: UsageArchive, times: dict[str, int]) -> None:
    """Write an answer for each time, in a session of its own."""
    for number, (time, output) in enumerate(times.items(), 1):
        records = at(time, prompt("go"), answer(number, output=output))
        usage_archive.home.session(session_id(number), records)


TIMES = {
    "2026-01-31T22:30:00Z": 1,
    "2026-01-31T23:30:00Z": 10,
    "2026-02-01T12:00:00Z": 100,
    "2026-02-02T00:00:00Z": 1000,
}


@pytest.mark.req("U3")
@pytest.mark.parametrize(
    ("by", "zone", "rows"),
    [
        ("day", "UTC", {"2026-01-31": 11, "2026-02-01": 100, "2026-02-02": 1000}),
        (
            "day",
            "Europe/Paris",
            {"2026-01-31": 1, "2026-02-01": 110, "2026-02-02": 1000},
        ),
        ("day", "America/New_York", {"2026-01-31": 11, "2026-02-01": 1100}),
        ("day", "Asia/Kathmandu", {"2026-02-01": 111, "2026-02-02": 1000}),
        ("week", "UTC", {"2026-01-26": 111, "2026-02-02": 1000}),
        ("week", "America/New_York", {"2026-01-26": 1111}),
        ("month", "UTC", {"2026-01": 11, "2026-02": 1100}),
        ("month", "Asia/Tokyo", {"2026-02": 1111}),
    ],
)
def test_days_start_in_the_given_zone(
    usage_archive: UsageArchive, by: str, zone: str, rows: dict[str, int]
) -> None:
    spend(usage_archive, TIMES)

    assert usage_archive.tokens(by, zone=ZoneInfo(zone)) == rows


@pytest.mark.req("U3")
def test_clock_change_makes_a_day_longer(usage_archive: UsageArchive) -> None:
    spend(
        usage_archive,
        {
            "2025-10-25T21:59:00Z": 1,
            "2025-10-25T22:00:00Z": 10,
            "2025-10-26T22:59:00Z": 100,
            "2025-10-26T23:00:00Z": 1000,
        },
    )

    assert usage_archive.tokens("day", zone=ZoneInfo("Europe/Paris")) == {
        "2025-10-25": 1,
        "2025-10-26": 110,
        "2025-10-27": 1000,
    }


def test_answers_without_a_time_have_no_day(usage_archive: UsageArchive) -> None:
    records = thread(prompt("go"), answer(1, output=5), answer(2, output=7))
    del records[1]["timestamp"]
    usage_archive.home.session(FIRST, records)

    assert usage_archive.tokens("day") == {"": 5, "2026-01-05": 7}
    assert usage_archive.tokens("block") == {"2026-01-05T09:00:00Z": 7}
    assert usage_archive.tokens("day", "after:2020") == {"2026-01-05": 7}
    assert usage_archive.tokens("day", "-after:2020") == {"": 5}


@pytest.mark.req("U3")
def test_usage_by_project_model_session_and_entrypoint(
    usage_archive: UsageArchive,
) -> None:
    one = thread(prompt("one"), answer(1, output=10), answer(2, model=OPUS, output=1))
    two = at("2026-01-06T00:00:00Z", prompt("two"), answer(3, output=100))
    usage_archive.home.session(FIRST, one)
    other = [record | {"cwd": "/other", "entrypoint": "sdk-py"} for record in two]
    usage_archive.home.session(SECOND, other, project="-other")

    assert usage_archive.tokens("project") == {"/other": 100, "/work/demo": 11}
    assert usage_archive.tokens("model") == {SONNET: 110, OPUS: 1}
    assert usage_archive.tokens("session") == {SECOND: 100, FIRST: 11}
    assert usage_archive.tokens("entrypoint") == {"sdk-py": 100, "": 11}
    assert usage_archive.tokens("session", "entrypoint:sdk-*") == {SECOND: 100}
    assert usage_archive.tokens("session", "-entrypoint:sdk-py") == {FIRST: 11}
    titles = {row.key: row.title for row in usage_rows(usage_archive, "session")}
    assert titles == {FIRST: "one", SECOND: "two"}


@pytest.mark.req("U3")
def test_projects_without_a_directory_are_grouped_by_key(
    usage_archive: UsageArchive,
) -> None:
    for number, (id_, key) in enumerate(((FIRST, "-one"), (SECOND, "-two")), 1):
        records = thread(prompt("hello"), answer(number, output=number))
        without = [{k: v for k, v in one.items() if k != "cwd"} for one in records]
        usage_archive.home.session(id_, without, project=key)

    assert usage_archive.tokens("project") == {"-one": 1, "-two": 2}
    assert usage_archive.tokens("project", "project:-two") == {"-two": 2}


def usage_rows(usage_archive: UsageArchive, by: str) -> list[UsageRow]:
    return [row for row in usage_archive.usage(by).rows if isinstance(row, UsageRow)]


@pytest.mark.req("U3")
def test_block_lasts_five_hours_from_the_hour_of_its_first_answer(
    usage_archive: UsageArchive,
) -> None:
    spend(
        usage_archive,
        {
            "2026-01-05T00:40:00Z": 1,
            "2026-01-05T04:59:59Z": 10,
            "2026-01-05T05:00:00Z": 100,
            "2026-01-05T11:30:00Z": 1000,
        },
    )

    assert usage_archive.tokens("block") == {
        "2026-01-05T00:00:00Z": 11,
        "2026-01-05T05:00:00Z": 100,
        "2026-01-05T11:00:00Z": 1000,
    }


@pytest.mark.req("U3")
def test_start_of_a_block_does_not_depend_on_the_query(
    usage_archive: UsageArchive,
) -> None:
    spend(usage_archive, {"2026-01-05T00:40:00Z": 1, "2026-01-05T03:10:00Z": 10})

    late = usage_archive.tokens("block", "after:2026-01-05T02:00Z")

    assert late == {"2026-01-05T00:00:00Z": 10}


@pytest.mark.req("U3")
def test_active_block_is_projected(usage_archive: UsageArchive) -> None:
    spend(
        usage_archive,
        {"2026-01-05T09:00:00Z": 600_000, "2026-01-05T10:40:00Z": 400_000},
    )
    now = datetime(2026, 1, 5, 11, tzinfo=UTC)

    (row,) = usage_archive.usage("block", now=now).rows
    assert isinstance(row, UsageRow)
    assert row.block is not None
    assert (row.block.started_at.hour, row.block.ends_at.hour) == (9, 14)
    assert row.block.is_active
    assert row.block.tokens_per_minute == 1_000_000 // 120
    assert row.block.projected_tokens == 1_000_000 + 1_500_000
    # A million tokens of output are 15 dollars, in two hours up to now.
    assert row.block.cost_per_hour == 7_500_000_000
    assert row.block.projected_cost == 15_000_000_000 + 3 * 7_500_000_000

    (over,) = usage_archive.usage("block", now=now + timedelta(hours=3)).rows
    assert isinstance(over, UsageRow)
    assert over.block is not None
    assert not over.block.is_active
    assert over.block.projected_cost is None
    assert over.block.cost_per_hour == 9_000_000_000


@pytest.mark.parametrize("seconds", [0, 30])
def test_short_burst_is_not_extrapolated(
    usage_archive: UsageArchive, seconds: int
) -> None:
    times = {"2026-01-05T09:00:00Z": 500, f"2026-01-05T09:00:{seconds:02}.5Z": 500}
    spend(usage_archive, times)
    now = datetime(2026, 1, 5, 9, 1, tzinfo=UTC)

    (row,) = usage_archive.usage("block", now=now).rows

    assert isinstance(row, UsageRow)
    assert row.block is not None
    assert row.block.tokens_per_minute == 1000 // 15
    assert row.block.projected_tokens == 1000 + 1000 * 299 // 15


def test_usage_by_tool(usage_archive: UsageArchive) -> None:
    calls = [
        tool_use("Read", id="a"),
        tool_use("Bash", id="b"),
        tool_use("Read", id="c"),
    ]
    records = thread(
        prompt("go"),
        reply(calls),
        tool_result("a", "x" * 98),
        tool_result("b", "y" * 8),
    )
    usage_archive.home.session(FIRST, records)

    # A result is as long as its JSON, and one that never came has no length.
    assert usage_archive.usage("tool").rows == (
        ToolRow(key="Read", calls=1, bytes=100, tokens=25),
        ToolRow(key="Bash", calls=1, bytes=10, tokens=2),
    )
    assert usage_archive.usage("tool", "before:2020").rows == ()
    with pytest.raises(
        UngroupableField, match="by tool cannot be filtered by 'model:opus'"
    ):
        usage_archive.usage("tool", "model:opus")


LIMITS = {
    "": 1111,
    "project:demo": 1011,
    "project:other": 100,
    "-project:demo": 100,
    "model:opus": 10,
    "model:claude-*": 1111,
    f"session:{FIRST}": 11,
    "title:second": 100,
    "title:second OR model:opus": 110,
    "-title:second": 1011,
    "git:main": 1011,
    "git:feature/*": 100,
    "tag:none": 0,
    "after:2026-01-06": 1100,
    "before:2026-01-06": 11,
    "on:2026-01-06": 100,
    "on:2026-01-05..2026-01-06 model:sonnet": 101,
    "-(after:2026-01-06 project:other)": 1011,
    "branch:live": 1111,
    "is:agent": 0,
    "-is:agent": 1111,
    "agent:Explore": 0,
    "is:compacted": 0,
    "-is:interrupted": 1111,
    "is:AGENT OR title:Third": 1000,
}


@pytest.mark.parametrize(("query", "tokens"), LIMITS.items())
def test_query_limits_the_report(
    usage_archive: UsageArchive, query: str, tokens: int
) -> None:
    opus = answer(2, model=OPUS, output=10)
    usage_archive.home.session(
        FIRST, thread(prompt("first"), answer(1, output=1), opus)
    )
    two = at("2026-01-06T00:00:00Z", prompt("second"), answer(3, output=100))
    other = [record | {"cwd": "/other", "gitBranch": "feature/x"} for record in two]
    usage_archive.home.session(SECOND, other, project="-other")
    three = at("2026-01-07T00:00:00Z", prompt("third"), answer(4, output=1000))
    usage_archive.home.session(session_id(3), three)

    assert usage_archive.total(query).tokens == tokens


@pytest.mark.parametrize(
    "query", ["flaky", '"a phrase"', "mig*", "/x+/", "tool:Bash", "is:error", "cmd:git"]
)
def test_conditions_on_texts_are_rejected(
    usage_archive: UsageArchive, query: str
) -> None:
    usage_archive.home.session(FIRST, thread(prompt("go"), answer(1, output=1)))

    with pytest.raises(UngroupableField):
        usage_archive.usage(query=f"project:demo -({query})")


@pytest.mark.req("U2")
def test_cost_is_exact_and_rounded_once(usage_archive: UsageArchive) -> None:
    spent = answer(1, input=3, output=7, write_5m=11, write_1h=13, read=17)
    usage_archive.home.session(FIRST, thread(prompt("go"), spent))

    # Billionths: 3 · 3000 + 7 · 15000 + 11 · 3750 + 13 · 6000 + 17 · 300
    assert usage_archive.total().cost == 9000 + 105_000 + 41_250 + 78_000 + 5100


@pytest.mark.req("U2")
def test_long_context_price_applies_per_answer(usage_archive: UsageArchive) -> None:
    many = [answer(number, read=150_000, output=1) for number in (1, 2)]
    usage_archive.home.session(
        FIRST, thread(prompt("go"), *many, answer(3, read=200_001))
    )

    assert usage_archive.total().cost == 300_000 * 300 + 2 * 15_000 + 200_001 * 600


@pytest.mark.req("U2")
def test_price_is_valid_from_its_date(usage_archive: UsageArchive) -> None:
    model = "claude-opus-4-6"
    for number, time in enumerate(("2026-03-12T23:59:59Z", "2026-03-13T00:00:00Z"), 1):
        long = answer(number, model=model, read=300_000)
        usage_archive.home.session(session_id(number), at(time, prompt("go"), long))

    costs = [row.cost for row in usage_rows(usage_archive, "day")]
    assert costs == [300_000 * 1000, 300_000 * 500]
    assert usage_archive.total().cost == 300_000 * 1500


@pytest.mark.req("U2")
def test_terms_multiply_the_price(usage_archive: UsageArchive) -> None:
    model = "claude-opus-4-6"
    terms: list[dict[str, str | None]] = [
        {"speed": "fast"},
        {"inference_geo": "us"},
        {"service_tier": "batch"},
        {"speed": "fast", "inference_geo": "us", "service_tier": "batch"},
        {"speed": "standard", "inference_geo": "not_available", "service_tier": None},
    ]
    answers = [
        answer(number, model=model, more=more, output=1000)
        for number, more in enumerate(terms)
    ]
    usage_archive.home.session(FIRST, thread(prompt("go"), *answers))

    one = 1000 * 25_000
    assert usage_archive.total().cost == (60 + 11 + 5 + 33 + 10) * one // 10


@pytest.mark.req("U2")
def test_cost_without_a_price_is_unknown(usage_archive: UsageArchive) -> None:
    answers = [
        answer(1, output=10),
        answer(2, model="glm-4.6", output=100),
        answer(3, more={"speed": "fast"}, output=1000),
        answer(4, more={"service_tier": "priority"}, output=10_000),
    ]
    usage_archive.home.session(FIRST, thread(prompt("go"), *answers))
    usage_archive.home.session(
        SECOND, at("2026-01-06T00:00:00Z", prompt("go"), answer(5, model="x", output=1))
    )

    report = usage_archive.usage("model")
    costs = {row.key: row.cost for row in usage_rows(usage_archive, "model")}

    assert costs == {SONNET: 150_000, "glm-4.6": None, "x": None}
    assert (report.total.cost, report.total.unpriced_tokens) == (150_000, 11_101)
    assert report.unpriced_models == (
        f"{SONNET} fast",
        f"{SONNET} priority",
        "glm-4.6",
        "x",
    )


def test_web_searches_have_a_price(usage_archive: UsageArchive) -> None:
    more = {"server_tool_use": {"web_search_requests": 3}}
    usage_archive.home.session(
        FIRST, thread(prompt("go"), answer(1, output=0, more=more))
    )

    assert usage_archive.total().cost == 3 * 10_000_000


@pytest.mark.parametrize(
    ("version", "output", "more"),
    [
        ("2.0.74", 3, 97),
        ("1.0.98", 0, 100),
        ("2.1.96", 49, 51),
        ("2.1.96", 50, 0),
        ("2.1.97", 3, 0),
        ("2.10.0", 3, 0),
    ],
)
def test_uncounted_output_is_estimated_separately(
    usage_archive: UsageArchive, version: str, output: int, more: int
) -> None:
    pieces = [
        answer(1, says="x" * 200, input=5, output=output),
        answer(1, says="y" * 200, input=5, output=output),
        answer(1, says="x" * 200, input=5, output=output),
    ]
    records = thread(prompt("go"), *pieces)
    usage_archive.home.session(
        FIRST, [record | {"version": version} for record in records]
    )

    total = usage_archive.total()

    assert (total.output_tokens, total.estimated_output_tokens) == (output, more)
    assert total.cost == 5 * 3000 + output * 15_000
    assert total.estimated_cost == more * 15_000


def test_usage_of_an_empty_archive_is_zero(usage_archive: UsageArchive) -> None:
    for by in ("day", "block", "session", "tool"):
        report = usage_archive.usage(by)

        assert report.rows == ()
        assert (report.total.tokens, report.total.cost) == (0, 0)


def test_report_names_its_zone_and_prices(usage_archive: UsageArchive) -> None:
    report = usage_archive.usage(zone=timezone(timedelta(hours=2)))

    assert report.timezone == "UTC+02:00"
    assert report.prices_date is not None
    assert report.prices_date.year == 2026


@pytest.mark.parametrize("by", ["model", "project", "session", "agent", "branch"])
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu"])
def test_series_has_the_days_and_the_total_of_the_report(
    by: str, zone: str, usage_archive: UsageArchive
) -> None:
    spend(usage_archive, TIMES)
    usage_archive.ingest()
    with Archive.open(usage_archive.archive) as archive:
        days = archive.usage("day", timezone=ZoneInfo(zone))
        series = archive.usage_series(by, timezone=ZoneInfo(zone))

    by_day: dict[str, int] = {}
    for cell in series.cells:
        by_day[cell.day] = by_day.get(cell.day, 0) + cell.tokens
    assert by_day == {row.key: row.tokens for row in days.rows}
    assert sum(cell.cost or 0 for cell in series.cells) == days.total.cost
    assert sum(map(sum, series.hours)) == days.total.replies


def test_series_by_hour_is_in_local_time(usage_archive: UsageArchive) -> None:
    spend(usage_archive, {"2026-02-01T23:30:00Z": 1})  # a Sunday
    usage_archive.ingest()
    with Archive.open(usage_archive.archive) as archive:
        utc = archive.usage_series("model").hours
        later = archive.usage_series("model", timezone=ZoneInfo("Asia/Tokyo")).hours

    assert utc[6][23] == 1
    assert later[0][8] == 1


def test_days_are_not_divided_by_days(usage_archive: UsageArchive) -> None:
    spend(usage_archive, TIMES)
    usage_archive.ingest()
    with (
        Archive.open(usage_archive.archive) as archive,
        pytest.raises(ValueError, match="week"),
    ):
        archive.usage_series("week")
