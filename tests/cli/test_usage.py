"""``bygones usage``: tables, bars, rows for programs, and the manners around them."""

from __future__ import annotations

import csv
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bygones.cli.main import main
from bygones.errors import ExitCode
from bygones.render.text.primitives import display_width
from tests.build import (
    Home,
    compact,
    meta,
    prompt,
    session_id,
    thread,
    tool_result,
    tool_use,
)
from tests.cli.terminals import Terminal
from tests.usage.usage_archive import OPUS, SONNET, answer

on_terminals = pytest.mark.skipif(os.name == "nt", reason="no pseudo-terminals there")
HOSTILE = "=cmd|' /C calc'!A0 \x1b]0;owned\x07\u202eevil"


@pytest.fixture
def home(home_dir: Path) -> Home:
    """Return a home with three days of work, known to the token."""
    home = Home(home_dir / ".claude")
    first = thread(
        prompt("first"), answer(1, output=1_000_000), answer(2, model=OPUS, output=1000)
    )
    home.session(session_id(1), first)
    second = thread(
        prompt(HOSTILE), answer(3, model="glm-4.6", output=10), start=86_400
    )
    home.session(session_id(2), second)
    calls = answer(4, says="x", output=2) | {}
    calls["message"]["content"] = [tool_use("Read", id="r")]
    third = thread(prompt("third"), calls, tool_result("r", "y" * 38), start=200_000)
    home.session(session_id(3), third)
    return home


@pytest.fixture(autouse=True)
def _import_home(home: Home) -> None:
    assert home.path.exists()
    assert main(["ingest", "--quiet"]) == ExitCode.SUCCESS


def usage_output(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["usage", *words]) == ExitCode.SUCCESS
    return capsys.readouterr().out


def usage_rows(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    return list(map(json.loads, usage_output(capsys, *words, "--json").splitlines()))


def test_days_are_listed_newest_first_with_a_total(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = [
        line.split() for line in usage_output(capsys, "--zone", "UTC").splitlines()
    ]

    assert lines[0] == [
        *(
            "DAY",
            "REPLIES",
            "INPUT",
            "CACHE",
            "WRITE",
            "CACHE",
            "READ",
            "OUTPUT",
            "TOKENS",
            "COST",
        )
    ]
    assert lines[1] == ["2026-01-07", "1", "0", "0", "0", "2", "2", "<$0.01"]
    assert lines[2] == ["2026-01-06", "1", "0", "0", "0", "10", "10", "unknown"]
    assert lines[3] == ["2026-01-05", "2", "0", "0", "0", "1.0M", "1.0M", "$15.03"]
    assert lines[4] == ["total", "4", "0", "0", "0", "1.0M", "1.0M", "$15.03+"]
    assert " ".join(lines[5]) == "no price known for glm-4.6: 10 tokens"
    assert lines[6][:2] == ["prices", "as"]
    assert lines[6][-2:] == ["in", "UTC"]


@pytest.mark.parametrize("by", ["week", "month", "project", "agent", "branch"])
def test_every_grouping_has_the_same_total(
    capsys: pytest.CaptureFixture[str], by: str
) -> None:
    *_, last = usage_rows(capsys, "--by", by)

    assert last["by"] == by
    assert isinstance(last["total"], dict)
    assert last["total"]["cost_usd"] == 15.02503


def test_json_has_rows_and_then_the_report(
    capsys: pytest.CaptureFixture[str],
) -> None:
    *found, last = usage_rows(capsys, "--by", "model")

    assert [row["key"] for row in found] == [SONNET, OPUS, "glm-4.6"]
    assert [row["cost_usd"] for row in found] == [15.00003, 0.025, None]
    assert last["type"] == "usage_report"
    assert last["unpriced_models"] == ["glm-4.6"]
    assert "rows" not in last


def test_csv_has_integers_and_no_formulas(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = list(
        csv.DictReader(usage_output(capsys, "--by", "session", "--csv").splitlines())
    )

    assert [row["cost"] for row in found] == ["15.025000000", "0.000030000", ""]
    assert [row["output_tokens"] for row in found] == ["1001000", "2", "10"]
    assert found[2]["title"].startswith("'=cmd")
    assert "\x1b" not in found[2]["title"]
    assert found[0]["first_at"] == "2026-01-05T09:00:01Z"


def test_csv_of_blocks_has_their_columns(
    capsys: pytest.CaptureFixture[str],
) -> None:
    blocks = list(
        csv.DictReader(usage_output(capsys, "--by", "block", "--csv").splitlines())
    )

    assert len(blocks) == 3
    assert blocks[-1]["started_at"] == "2026-01-05T09:00:00Z"
    assert blocks[-1]["ends_at"] == "2026-01-05T14:00:00Z"
    assert blocks[-1]["cost_per_hour"] == "60.100000000"
    assert blocks[-1]["projected_cost"] == ""
    assert "block" not in blocks[-1]


def test_missing_price_is_named(
    home_dir: Path, home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    own = home_dir / ".config" / "bygones" / "prices.toml"
    own.parent.mkdir(parents=True)
    own.write_text('[[price]]\nmodels = ["glm-4.6"]\ninput = 1\noutput = 2\n')
    cached = answer(9, model="glm-4.6", output=1, read=500, write_1h=7)
    home.session(session_id(9), thread(prompt("cached"), cached))

    output = usage_output(capsys, "--by", "model")

    assert "no price known for glm-4.6 (write_1h, read): 508 tokens" in output


def test_last_is_the_newest_session(capsys: pytest.CaptureFixture[str]) -> None:
    assert usage_output(capsys, "--context", "last").startswith("third\n")


@pytest.mark.parametrize(
    "more", [["--by", "model"], ["--since", "7d"], ["--until", "7d"], ["model:opus"]]
)
def test_context_rejects_a_limit(
    capsys: pytest.CaptureFixture[str], more: list[str]
) -> None:
    assert main(["usage", "--context", "last", *more]) == ExitCode.USAGE_ERROR
    assert "--context shows all of one session" in capsys.readouterr().err


def test_usage_is_limited_by_query_and_times(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def tokens(*words: str) -> object:
        (*_, last) = usage_rows(capsys, "--zone", "UTC", *words)
        assert isinstance(last["total"], dict)
        return sum(last["total"]["tokens"].values())

    assert tokens("model:opus") == 1000
    assert tokens("model:opus", "OR", "model:glm*") == 1010
    assert tokens("--since", "2026-01-06") == 12
    assert tokens("--until", "2026-01-06") == 1_001_010
    assert tokens("--since", "2026-01-06", "--until", "2026-01-06") == 10
    assert tokens("--until", "2026-01", "title:third") == 2
    assert tokens("-model:opus", "-model:glm*") == 1_000_002
    assert tokens("-entrypoint:cli") == 1_001_012


def test_tools_are_listed_by_the_size_of_their_results(
    capsys: pytest.CaptureFixture[str],
) -> None:
    head, row, note = usage_output(capsys, "--by", "tool").splitlines()

    assert head.split() == ["TOOL", "RESULTS", "SIZE", "~TOKENS", "~EACH"]
    assert row.split() == ["Read", "1", "40", "B", "10", "10"]
    assert note.startswith("tokens are estimated")


def test_a_block_still_running_shows_its_projection(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    now = datetime.now(UTC)
    records = [
        prompt("now") | {"timestamp": (now - timedelta(minutes=2)).isoformat()},
        answer(8, output=100_000)
        | {"timestamp": (now - timedelta(minutes=1)).isoformat()},
        answer(9, output=100_000) | {"timestamp": now.isoformat()},
    ]
    home.session(session_id(9), thread(*records))

    lines = usage_output(capsys, "--by", "block").splitlines()

    assert "left, then about $" in lines[1]
    assert any(line.startswith("total") for line in lines)


def test_a_context_is_shown_turn_by_turn(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    before = thread(prompt("go"), answer(11, read=150_000, output=5))
    boundary = compact(before[-1]["uuid"], tokens=155_000)
    after = thread(boundary, prompt("on"), answer(12, read=20_000), start=60)
    home.session("c0ffee00-0000-4000-8000-000000000000", [*before, *after])

    title, head, *turns, last = usage_output(capsys, "--context", "c0ffee").splitlines()

    assert title == "go"
    assert head.split() == [
        *(
            "TURN",
            "TIME",
            "CONTEXT",
            "CACHE",
            "READ",
            "CACHE",
            "WRITE",
            "OUTPUT",
            "REPLIES",
        )
    ]
    assert [turn.split()[3] for turn in turns] == ["150k", "0", "20k"]
    assert turns[1].endswith("— compacted (auto) from 155k —")
    assert last == (
        "largest context: 150k tokens; 100% of all input came from the cache;"
        " 1 compaction"
    )
    found = usage_rows(capsys, "--context", "c0ffee")
    assert [row["type"] for row in found] == [
        *("context", "context", "context", "context_report")
    ]
    assert usage_output(capsys, "--context", "c0ffee", "--csv").count("\n") == 4


def test_reported_cost_is_compared_with_the_computed_one(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    models = {"claude-haiku-4-5": {"costUSD": 0.5, "outputTokens": 5}}
    state = meta("cost-state", totalCostUSD=0.65, modelUsage=models)
    records = thread(prompt("go"), answer(11, output=10_000), start=90)
    home.session(session_id(8), [*records, state])

    output = usage_output(capsys, f"session:{session_id(8)}")

    assert (
        "Claude Code reports $0.65 for 1 session, Bygones $0.15; difference:"
        " $0.50 calls without a record (claude-haiku-4-5)"
    ) in output


def test_own_prices_are_used(
    home_dir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    own = home_dir / ".config" / "bygones" / "prices.toml"
    own.parent.mkdir(parents=True)
    own.write_text('[[price]]\nmodels = ["glm-4.6"]\ninput = 1\noutput = 2\n')
    *_, glm, _ = usage_rows(capsys, "--by", "model")
    assert (glm["key"], glm["cost_usd"]) == ("glm-4.6", 0.00002)

    monkeypatch.setenv("BYGONES_PRICES", str(home_dir / "nowhere.toml"))
    assert main(["usage"]) == ExitCode.USAGE_ERROR

    other = home_dir / "other.toml"
    other.write_text("prices = 3")
    monkeypatch.setenv("BYGONES_PRICES", str(other))
    assert main(["usage"]) == ExitCode.USAGE_ERROR
    assert "other.toml is not a valid price file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (["flaky"], "usage cannot be filtered by 'flaky'"),
        (["--zone", "Nowhere/City"], "is not a known time zone"),
        (["--zone", "../../etc/passwd"], "is not a known time zone"),
        (["--since", "soon"], "'soon' is not a time"),
        (["--until", "soon"], "'soon' is not a time"),
        (["--by", "hour"], "'hour' is not one of"),
        (["--csv", "--json"], "--csv and --json cannot be combined"),
        (["--context", "zzz"], "no session 'zzz' in the archive"),
        (["is:wrong"], "'wrong' at character 4 is not a value of is:"),
    ],
)
def test_invalid_arguments_are_reported(
    capsys: pytest.CaptureFixture[str], words: list[str], output: str
) -> None:
    assert main(["usage", *words]) == ExitCode.USAGE_ERROR

    assert output in capsys.readouterr().err


def test_no_usage_is_reported_and_not_an_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["usage", "before:2020"]) == ExitCode.SUCCESS

    assert "no usage" in capsys.readouterr().err
    assert usage_output(capsys, "before:2020", "--csv") == ""


@on_terminals
@pytest.mark.parametrize("columns", [40, 60, 80, 120])
@pytest.mark.parametrize("by", ["day", "session", "block", "tool"])
def test_a_terminal_gets_lines_that_fit_it(columns: int, by: str) -> None:
    terminal = Terminal("usage", "--by", by, columns=columns)

    assert terminal.end() == ExitCode.SUCCESS
    usage_rows = [
        line
        for line in terminal.shown.splitlines()
        if not line.startswith(("prices", "no price", "tokens by"))
    ]
    assert all(display_width(line) <= columns for line in usage_rows)
    assert "\x07" not in terminal.shown
    assert "\u202e" not in terminal.shown


@on_terminals
def test_bars_are_proportional_to_cost(home: Home) -> None:
    home.session(
        session_id(7), thread(prompt("half"), answer(7, output=501_668), start=300_000)
    )
    assert main(["ingest", "--quiet"]) == ExitCode.SUCCESS  # which may draw bars too
    terminal = Terminal("usage", "--zone", "UTC", columns=110)

    assert terminal.end() == ExitCode.SUCCESS
    bars = [line.count("█") for line in terminal.shown.splitlines()[1:5]]
    assert bars == [12, 0, 0, 24]


@on_terminals
def test_many_rows_are_cut_to_the_newest_on_a_terminal(home: Home) -> None:
    for day in range(40):
        records = thread(prompt("go"), answer(100 + day, output=1), start=day * 86_400)
        home.session(session_id(100 + day), records)
    terminal = Terminal("usage", "--zone", "UTC", columns=100)

    assert terminal.end() == ExitCode.SUCCESS
    assert "2026-02-13" in terminal.shown
    assert "2026-01-14" not in terminal.shown
    assert (
        "30 of 40 rows; the total includes all of them; -n shows more" in terminal.shown
    )
