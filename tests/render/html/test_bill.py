"""What turns and agents cost, in words."""

from __future__ import annotations

from pathlib import Path

from bygones.model.ids import AgentId
from bygones.model.rest import each_run
from bygones.model.usage import Cost
from bygones.render.html.bill import Bill
from tests.render.stories import STORIES


def test_an_agent_is_told_alone_and_with_those_below_it(tmp_path: Path) -> None:
    session = STORIES["called"](tmp_path)
    runs = {run.id: Cost(nanos=10**9) for run in each_run(session.agents)}
    bill = Bill(None, runs, {})

    told = {run.id: bill.run(run) for run in each_run(session.agents)}

    for run in each_run(session.agents):
        count = len(list(each_run(run.agents)))
        more = f", ${count + 1}.00 with {count} agent" if count else ""
        assert told[run.id].removesuffix("s") == f"$1.00{more}"


def test_an_agent_without_a_price_is_counted_and_marked(tmp_path: Path) -> None:
    session = STORIES["called"](tmp_path)
    runs = dict.fromkeys(
        (run.id for run in each_run(session.agents)), Cost(unpriced_tokens=5)
    )
    (turn, *_) = (
        turn
        for turn in session.live.turns
        if any(call.agents for message in turn.messages for call in message.calls)
    )

    told = Bill(lambda _: 2 * 10**9, runs, {}).turn(turn)

    assert told.startswith("$2.00, $2.00+ with ")


def test_where_nobody_knows_prices_nothing_is_told(tmp_path: Path) -> None:
    session = STORIES["called"](tmp_path)
    bill = Bill(None, {}, {})

    assert {bill.turn(turn) for turn in session.live.turns} == {""}
    assert {bill.run(run) for run in session.agents} == {""}


def test_a_run_that_names_itself_is_met_once(tmp_path: Path) -> None:
    session = STORIES["called"](tmp_path)
    again = [*session.agents, *session.agents]

    ids = [run.id for run in each_run(again)]

    assert len(ids) == len(set(ids))
    assert set(ids) == {AgentId(run.id) for run in session.all_agents}
