"""What turns and agents cost, in words."""

from __future__ import annotations

from pathlib import Path

from bygones.model.base import AgentId
from bygones.model.sessions import walk_agents
from bygones.model.usage import Cost
from bygones.render.html.session import CostLabels
from tests.render.stories import STORIES


def test_an_agent_is_told_alone_and_with_those_below_it(tmp_path: Path) -> None:
    session = STORIES["called"](tmp_path)
    runs = {run.id: Cost(nano_usd=10**9) for run in walk_agents(session.agents)}
    bill = CostLabels(None, runs, {})

    told = {run.id: bill.agent_label(run) for run in walk_agents(session.agents)}

    for run in walk_agents(session.agents):
        count = len(list(walk_agents(run.agents)))
        more = f", ${count + 1}.00 with {count} agent" if count else ""
        assert told[run.id].removesuffix("s") == f"$1.00{more}"


def test_an_agent_without_a_price_is_counted_and_marked(tmp_path: Path) -> None:
    session = STORIES["called"](tmp_path)
    runs = dict.fromkeys(
        (run.id for run in walk_agents(session.agents)), Cost(unpriced_tokens=5)
    )
    (turn, *_) = (
        turn
        for turn in session.live_branch.turns
        if any(call.agents for message in turn.messages for call in message.tool_calls)
    )

    told = CostLabels(lambda _: 2 * 10**9, runs, {}).turn_label(turn)

    assert told.startswith("$2.00, $2.00+ with ")


def test_where_nobody_knows_prices_nothing_is_told(tmp_path: Path) -> None:
    session = STORIES["called"](tmp_path)
    bill = CostLabels(None, {}, {})

    assert {bill.turn_label(turn) for turn in session.live_branch.turns} == {""}
    assert {bill.agent_label(run) for run in session.agents} == {""}


def test_a_run_that_names_itself_is_met_once(tmp_path: Path) -> None:
    session = STORIES["called"](tmp_path)
    again = [*session.agents, *session.agents]

    ids = [run.id for run in walk_agents(again)]

    assert len(ids) == len(set(ids))
    assert set(ids) == {AgentId(run.id) for run in session.all_agents}
