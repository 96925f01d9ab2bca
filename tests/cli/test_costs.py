"""Money beside sessions: in lists and in trees."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from bygones.cli.main import main
from bygones.errors import ExitCode
from tests.build import Home, prompt, reply, session_id, thread
from tests.cli.terminals import Terminal


def stdout_of(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(list(words)) == ExitCode.SUCCESS
    return capsys.readouterr().out


@pytest.fixture
def own_prices(home_dir: Path) -> Path:
    """Return where the user's own prices are read from."""
    path = home_dir / ".config" / "bygones" / "prices.toml"
    path.parent.mkdir(parents=True)
    return path


@pytest.mark.req("L1")
@pytest.mark.usefixtures("demo_home")
def test_a_list_shows_what_each_session_cost(
    capsys: pytest.CaptureFixture[str],
) -> None:
    head, newest, *_ = stdout_of(capsys, "list").splitlines()

    at = head.index("COST") + len("COST")
    assert newest[:at].endswith("$0.14")


@pytest.mark.usefixtures("demo_home")
def test_overview_shows_costs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "$0.14" in stdout_of(capsys)


@pytest.mark.usefixtures("demo_home")
def test_costs_of_a_tree_add_up_to_the_session(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (row,) = map(json.loads, stdout_of(capsys, "list", "--json", "-n1").splitlines())
    marks = [json.loads(x) for x in stdout_of(capsys, "tree", "--json").splitlines()]

    turns = [mark["cost_usd"] for mark in marks if mark["kind"] == "turn"]
    (branch,) = (mark for mark in marks if mark["kind"] == "branch")
    inside = [m["cost_usd"] for m in marks if m["kind"] == "turn" and m["branch"] == 2]
    assert sum(turns) == pytest.approx(row["cost_usd"])
    assert branch["cost_usd"] == pytest.approx(sum(inside))
    assert sum(inside) > 0


@pytest.mark.usefixtures("demo_home")
def test_own_prices_are_used_in_lists_and_trees(
    own_prices: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own_prices.write_text(
        '[[price]]\nmodels = ["claude-sonnet-4-5"]\ninput = 0\noutput = 1000\n'
        "write_5m = 0\nwrite_1h = 0\nread = 0\n"
    )

    assert "$1.97" in stdout_of(capsys, "list")
    assert "2.0k output · $1.97" in stdout_of(capsys, "tree")


@pytest.mark.usefixtures("demo_home")
@pytest.mark.parametrize("command", ["list", "tree"])
def test_unreadable_prices_hide_only_costs(
    command: str, own_prices: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own_prices.write_text("not prices")

    assert main([command]) == ExitCode.SUCCESS

    captured = capsys.readouterr()
    assert "Make checkout retry" in captured.out
    assert "$" not in captured.out
    assert "note: costs are left out: " in captured.err


def test_a_model_without_a_price_has_an_unknown_cost(
    sample_home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = reply("a", model="claude-unheard-of", message_id="msg_odd")
    other = reply("b", model="claude-unheard-of", message_id="msg_other")
    strange = thread(prompt("Hello"), odd)
    mixed = thread(prompt("Hi"), reply("c", message_id="msg_usual"), other)
    sample_home.session(session_id(7), strange)
    sample_home.session(session_id(8), mixed)
    main(["ingest", "-q"])

    shown = stdout_of(capsys, "list", "--no-ingest").splitlines()
    lines = {line.split()[-1]: line for line in shown}

    assert "unknown  Hello" in lines["Hello"]
    assert "+  Hi" in lines["Hi"]


@pytest.mark.usefixtures("demo_home")
@pytest.mark.skipif(os.name == "nt", reason="no pseudo-terminals there")
def test_narrow_terminal_drops_tokens_before_costs() -> None:
    screen = Terminal("list", columns=90)

    assert screen.end() == 0
    head = screen.shown.splitlines()[0]
    assert "COST" in head
    assert "TOKENS" not in head
