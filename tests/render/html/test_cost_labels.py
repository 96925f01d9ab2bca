"""Cost labels of turns and agents."""

from __future__ import annotations

from pathlib import Path

from bygones.model.base import AgentId
from bygones.model.sessions import walk_agents
from bygones.model.usage import Cost
from bygones.render.html.session import CostLabels
from tests.render.stories import STORIES


def test_agent_cost_is_shown_alone_and_with_agents_below(tmp_path: Path) -> None:
    session = STORIES["called"](tmp_path)
    runs = {run.id: Cost(nano_usd=10**9) for run in walk_agents(session.agents)}
    costs = CostLabels(None, runs, {})

    labels = {run.id: costs.agent_label(run) for run in walk_agents(session.agents)}

    for run in walk_agents(session.agents):
        count = len(list(walk_agents(run.agents)))
        more = f", ${count + 1}.00 with {count} agent" if count else ""
        assert labels[run.id].removesuffix("s") == f"$1.00{more}"


def test_agent_without_price_is_marked(tmp_path: Path) -> None:
    session = STORIES["called"](tmp_path)
    runs = dict.fromkeys(
        (run.id for run in walk_agents(session.agents)), Cost(unpriced_tokens=5)
    )
    (turn, *_) = (
        turn
        for turn in session.live_branch.turns
        if any(call.agents for message in turn.messages for call in message.tool_calls)
    )

    labels = CostLabels(lambda _: 2 * 10**9, runs, {}).turn_label(turn)

    assert labels.startswith("$2.00, $2.00+ with ")


def test_without_prices_there_are_no_labels(tmp_path: Path) -> None:
    session = STORIES["called"](tmp_path)
    costs = CostLabels(None, {}, {})

    assert {costs.turn_label(turn) for turn in session.live_branch.turns} == {""}
    assert {costs.agent_label(run) for run in session.agents} == {""}


def test_agent_that_contains_itself_counts_once(tmp_path: Path) -> None:
    session = STORIES["called"](tmp_path)
    again = [*session.agents, *session.agents]

    ids = [run.id for run in walk_agents(again)]

    assert len(ids) == len(set(ids))
    assert set(ids) == {AgentId(run.id) for run in session.all_agents}
