"""Cost labels of turns and agents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from bygones.model.assembled import AssembledConversation
from bygones.model.base import AgentId
from bygones.model.sessions import Message, Session, walk_agents
from bygones.model.usage import Cost
from bygones.render.html.session import CostLabels, HtmlOptions
from bygones.render.walk import SessionView, TurnStart, walk_session
from tests.render.stories import STORIES


def turn_starts(session: Session) -> Iterator[TurnStart]:
    for step in walk_session(session, SessionView()):
        if isinstance(step, TurnStart):
            yield step


def price_at_two_dollars(messages: Iterable[Message]) -> int:
    for _ in messages:
        pass
    return 2 * 10**9


def test_agent_cost_is_shown_alone_and_with_agents_below(tmp_path: Path) -> None:
    session = STORIES["called"](tmp_path)
    runs = {run.id: Cost(nano_usd=10**9) for run in walk_agents(session.agents)}
    costs = CostLabels(HtmlOptions(agent_costs=runs), None)

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
    (start, *_) = (
        start
        for start in turn_starts(session)
        if any(
            call.agents
            for message in start.read_messages()
            for call in message.tool_calls
        )
    )
    options = HtmlOptions(message_pricer=price_at_two_dollars, agent_costs=runs)

    labels = CostLabels(options, None).turn_label(start)

    assert labels.startswith("$2.00, $2.00+ with ")


def test_without_prices_there_are_no_labels(tmp_path: Path) -> None:
    session = STORIES["called"](tmp_path)
    costs = CostLabels(HtmlOptions(), AssembledConversation(session))

    assert {costs.turn_label(start) for start in turn_starts(session)} == {""}
    assert {costs.agent_label(run) for run in session.agents} == {""}


def test_agent_that_contains_itself_counts_once(tmp_path: Path) -> None:
    session = STORIES["called"](tmp_path)
    again = [*session.agents, *session.agents]

    ids = [run.id for run in walk_agents(again)]

    assert len(ids) == len(set(ids))
    assert set(ids) == {AgentId(run.id) for run in session.all_agents}
