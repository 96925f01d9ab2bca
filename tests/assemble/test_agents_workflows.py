"""Agent runs of workflows, with labels and status from the journal."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from msgspec import structs

from bygones.assemble.agents import journal_nodes_by_agent
from bygones.model.base import AgentId
from bygones.model.nodes import AgentSidecar, Transcript
from bygones.model.sessions import AgentRun
from bygones.model.summary import AgentStatus
from tests.assemble.helpers import assembled, nodes, transcript
from tests.build import (
    SESSION,
    Written,
    prompt,
    reply,
    session,
    text,
    thread,
    tool_result,
    tool_use,
)
from tests.forms import INTERRUPT, api_error, notification
from tests.workflows import RUN, UNDER, step

ANSWERED = session("w", "v<w")
STARTED = step("started", "x", label="The part")
RESULT = step("result", "x", result={"n": 1})
FAILED = step("failed", "x", error="It broke")
RUNS = tool_result("t", outcome={"status": "async_launched", "runId": RUN})


def main(*after: Written) -> list[Written]:
    """Return a session that starts a workflow."""
    call = tool_use("Workflow", id="t", name="all", description="All of it")
    return thread(prompt("Please", uuid="p"), reply([call], uuid="a"), *after)


def worker(
    *steps: object,
    records: Iterable[Written] = ANSWERED,
    name: str = "x",
    note: AgentSidecar | None = None,
) -> Transcript:
    """Return the file of an agent, with these steps in its journal."""
    own = {"isSidechain": True, "agentId": name}
    actual = [record | own for record in records]
    created = transcript(f"{SESSION}/{UNDER}agent-{name}", actual, agent=name)
    found = journal_nodes_by_agent(nodes(steps, "journal.jsonl"))
    return structs.replace(
        created, journal_nodes=found.get(AgentId(name), ()), sidecar=note
    )


def alone(*agents: Transcript, after: Iterable[Written] = (RUNS,)) -> AgentRun:
    (item,) = assembled(transcript(SESSION, main(*after)), *agents)
    (run,) = item.agents
    return run


@pytest.mark.req("A4")
@pytest.mark.parametrize(
    ("steps", "status"),
    [
        ((), AgentStatus.COMPLETED),
        ((step("result", "y"),), AgentStatus.COMPLETED),
        (({"type": "started", "key": "k"},), AgentStatus.COMPLETED),
        ((step("launched", "x"),), AgentStatus.RUNNING),
        ((STARTED,), AgentStatus.RUNNING),
        ((STARTED, step("result", "y")), AgentStatus.RUNNING),
        ((STARTED, RESULT), AgentStatus.COMPLETED),
        ((STARTED, FAILED), AgentStatus.FAILED),
        ((STARTED, FAILED, STARTED, RESULT), AgentStatus.COMPLETED),
        ((STARTED, RESULT, STARTED), AgentStatus.COMPLETED),
    ],
)
def test_journal_has_the_status_of_an_agent(
    steps: tuple[object, ...], status: AgentStatus
) -> None:
    assert alone(worker(*steps)).status is status


@pytest.mark.req("A4")
@pytest.mark.parametrize(
    ("steps", "status"),
    [
        ((STARTED,), AgentStatus.RUNNING),
        ((STARTED, RESULT), AgentStatus.COMPLETED),
        ((STARTED, FAILED), AgentStatus.FAILED),
    ],
)
@pytest.mark.parametrize(
    "records",
    [
        [],
        session("w"),
        thread(prompt("Do it", uuid="w"), reply([tool_use("Grep")], uuid="v")),
        thread(prompt("Do it", uuid="w"), api_error("Overloaded", uuid="v")),
    ],
    ids=["nothing", "prompt", "call", "error"],
)
def test_journal_is_preferred_to_the_last_record(
    records: list[Written], steps: tuple[object, ...], status: AgentStatus
) -> None:
    assert alone(worker(*steps, records=records)).status is status


@pytest.mark.req("A4")
@pytest.mark.parametrize(
    ("steps", "status"),
    [
        ((STARTED,), AgentStatus.INTERRUPTED),
        ((STARTED, FAILED), AgentStatus.FAILED),
    ],
)
def test_interrupt_ends_an_agent_without_a_recorded_end(
    steps: tuple[object, ...], status: AgentStatus
) -> None:
    records = [*ANSWERED, prompt([text(INTERRUPT)], uuid="i", parent="v")]

    assert alone(worker(*steps, records=records)).status is status


@pytest.mark.req("A4")
@pytest.mark.parametrize("steps", [(STARTED,), (STARTED, RESULT), (STARTED, FAILED)])
def test_agent_stopped_by_the_user_is_interrupted(steps: tuple[object, ...]) -> None:
    note = AgentSidecar(agent_id=AgentId("x"), is_stopped_by_user=True)

    assert alone(worker(*steps, note=note)).status is AgentStatus.INTERRUPTED


@pytest.mark.req("A4")
@pytest.mark.parametrize("steps", [(STARTED,), (STARTED, RESULT), (STARTED, FAILED)])
@pytest.mark.parametrize(
    ("end", "status"),
    [
        (notification("x", "killed", "t"), AgentStatus.INTERRUPTED),
        (notification("x", "completed", "t"), AgentStatus.COMPLETED),
        (
            tool_result("t", outcome={"status": "completed", "agentId": "x"}),
            AgentStatus.COMPLETED,
        ),
    ],
    ids=["killed", "news", "result"],
)
def test_notification_and_result_are_preferred_to_the_journal(
    end: Written, status: AgentStatus, steps: tuple[object, ...]
) -> None:
    assert alone(worker(*steps), after=(end,)).status is status


@pytest.mark.req("A1")
def test_label_in_the_journal_is_preferred_to_that_of_the_call() -> None:
    assert alone(worker()).description == "All of it"
    assert alone(worker(RESULT)).description == "All of it"
    assert alone(worker(STARTED, RESULT)).description == "The part"
    assert alone(worker(STARTED), after=()).description == "The part"


@pytest.mark.req("A1")
def test_last_label_counts_and_the_sidecar_is_preferred() -> None:
    steps = (STARTED, step("started", "x", label="Again"), step("launched", "x"))
    note = AgentSidecar(agent_id=AgentId("x"), description="Its own words")

    assert alone(worker(*steps)).description == "Again"
    assert alone(worker(*steps, note=note)).description == "Its own words"


@pytest.mark.req("A4")
def test_other_records_in_a_journal_are_ignored() -> None:
    odd = (prompt("x", uuid="o", agentId="x"), {"type": "result"}, {"type": "new"})

    assert journal_nodes_by_agent(nodes(odd)) == {}


@pytest.mark.req("A1")
def test_agent_in_two_files_has_the_steps_of_both() -> None:
    again = worker(RESULT, records=session("u<v"))
    place = structs.replace(again.source, id=f"other/{again.source.id}")
    run = alone(worker(STARTED), structs.replace(again, source=place))

    assert (run.description, run.status) == ("The part", AgentStatus.COMPLETED)
