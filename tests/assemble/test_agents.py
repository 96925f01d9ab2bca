"""Agent runs: the calls that started them, and their status."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec import structs

from bygones.model.base import AgentId, ToolUseId
from bygones.model.nodes import AgentSidecar, Transcript
from bygones.model.sessions import AgentRun, Session
from bygones.model.summary import AgentKind, AgentStatus
from tests.assemble.helpers import assembled, transcript
from tests.build import (
    SESSION,
    Written,
    moment,
    progress,
    prompt,
    reply,
    session,
    session_id,
    text,
    thread,
    tool_result,
    tool_use,
)
from tests.forms import INTERRUPT, api_error, notification

WORK = ("w", "v<w")


def task(call: str = "t", words: str = "Do it", **given: object) -> Written:
    return tool_use("Task", id=call, description="Doing", prompt=words, **given)


def main(*after: Written, calls: tuple[Written, ...] = (task(),)) -> list[Written]:
    """Return a session that starts agents."""
    return thread(prompt("Please", uuid="p"), reply([*calls], uuid="a"), *after)


def agent(
    name: str, records: list[Written], *, under: str = "subagents/", **note: object
) -> Transcript:
    """Return the file of an agent, with its sidecar."""
    own = {"isSidechain": True, "agentId": name}
    marked = [record | own for record in records]
    created = transcript(f"{SESSION}/{under}agent-{name}", marked, agent=name)
    if not note:
        return created
    sidecar = AgentSidecar(agent_id=AgentId(name), **note)  # type: ignore[arg-type]
    return structs.replace(created, sidecar=sidecar)


def assemble_session(records: list[Written], *agents: Transcript) -> Session:
    found = assembled(transcript(SESSION, records), *agents)
    return next(item for item in found if item.id == SESSION)


def alone(records: list[Written], *agents: Transcript) -> AgentRun:
    (run,) = assemble_session(records, *agents).agents
    return run


def linked(run: AgentRun) -> tuple[str | None, tuple[str, ...]]:
    return run.linked_by, run.call_ids


@pytest.mark.req("A1")
def test_sidecar_links_agent_to_its_call() -> None:
    run = alone(main(), agent("x", session(*WORK), tool_use_id=ToolUseId("t")))

    assert linked(run) == ("sidecar", ("t",))


@pytest.mark.req("A1")
def test_result_links_agent_to_its_call() -> None:
    result = tool_result("t", outcome={"agentId": "x"})

    assert linked(alone(main(result), agent("x", session(*WORK)))) == (
        "outcome",
        ("t",),
    )


@pytest.mark.req("A1")
def test_progress_links_agent_to_its_call() -> None:
    report = progress("agent_progress", agentId="x", call="t")

    assert linked(alone(main(report), agent("x", session(*WORK)))) == (
        "progress",
        ("t",),
    )


@pytest.mark.req("A1")
def test_notification_links_agent_to_its_call() -> None:
    news = notification("x", "completed", "t")

    assert linked(alone(main(news), agent("x", session(*WORK)))) == (
        "notification",
        ("t",),
    )


@pytest.mark.req("A1")
def test_result_text_links_agent_to_its_call() -> None:
    result = tool_result("t", [text("Done"), text("agentId: x (to go on)")])

    assert linked(alone(main(result), agent("x", session(*WORK)))) == ("text", ("t",))


@pytest.mark.req("A1")
def test_agents_of_a_workflow_belong_to_its_call() -> None:
    result = tool_result("t", outcome={"runId": "wf_1"})
    calls = (tool_use("Workflow", id="t"),)
    runs = [
        agent(name, session(f"w{name}"), under="subagents/workflows/wf_1/")
        for name in ("x", "y")
    ]
    found_session = assemble_session(main(result, calls=calls), *runs)

    assert [linked(run) for run in found_session.agents] == [("workflow", ("t",))] * 2
    (call,) = found_session.live_branch.turns[0].tool_calls
    assert [run.id for run in call.agents] == ["x", "y"]
    assert call.agent is call.agents[0]
    assert {run.workflow for run in found_session.agents} == {"wf_1"}


@pytest.mark.req("A1")
def test_agents_with_equal_prompts_are_matched_to_calls_in_order() -> None:
    calls = (task("t1"), task("t2"))
    runs = [
        agent(f"x{at}", [prompt("Do it", uuid=f"w{at}", timestamp=moment(at))])
        for at in (3, 2, 1)
    ]

    found = {
        run.id: linked(run) for run in assemble_session(main(calls=calls), *runs).agents
    }

    assert found == {
        "x1": ("prompt", ("t1",)),
        "x2": ("prompt", ("t2",)),
        "x3": (None, ()),
    }


@pytest.mark.req("A1")
def test_best_evidence_wins_and_continuing_calls_are_kept() -> None:
    calls = (task("t1"), task("t2"))
    after = (
        tool_result("t2", outcome={"agentId": "x"}),
        notification("x", "completed", "t1"),
    )

    run = alone(main(*after, calls=calls), agent("x", session(*WORK)))

    assert linked(run) == ("outcome", ("t1", "t2"))


@pytest.mark.req("A1")
def test_result_of_two_calls_links_no_agent() -> None:
    results = [
        {"type": "tool_result", "tool_use_id": id_, "content": ""} for id_ in ("t", "u")
    ]
    record = prompt(results, toolUseResult={"agentId": "x"})

    run = alone(
        main(record, calls=(task("t", "a"), task("u", "b"))), agent("x", session("w"))
    )

    assert linked(run) == (None, ())


@pytest.mark.req("A1")
def test_agent_without_evidence_is_an_orphan_of_its_session() -> None:
    run = alone(session("p"), agent("x", session(*WORK)))

    assert linked(run) == (None, ())
    assert (run.agent_type, run.description, run.depth) == (None, None, 1)


@pytest.mark.req("A2")
def test_agents_nest_like_their_calls() -> None:
    inner = main(tool_result("t2", outcome={"agentId": "y"}), calls=(task("t2"),))
    found_session = assemble_session(
        main(tool_result("t", outcome={"agentId": "x"})),
        agent("x", [record | {"uuid": f"x{record['uuid']}"} for record in inner]),
        agent("y", session("deep")),
    )

    (outer,) = found_session.agents
    (below,) = outer.agents
    assert (below.id, below.depth) == ("y", 2)
    assert outer.live_branch.turns[0].tool_calls[0].agent is below
    assert [run.id for run in found_session.all_agents] == ["x", "y"]


@pytest.mark.req("A2")
def test_sidecar_may_name_the_parent_agent() -> None:
    found_session = assemble_session(
        main(tool_result("t", outcome={"agentId": "x"})),
        agent("x", session(*WORK)),
        agent("y", session("deep"), parent_agent_id=AgentId("x")),
        agent("z", session("deeper"), parent_agent_id=AgentId("nowhere")),
    )

    assert {run.id: run.depth for run in found_session.all_agents} == {
        "x": 1,
        "y": 2,
        "z": 1,
    }


@pytest.mark.req("A2")
def test_agents_that_call_each_other_are_orphans() -> None:
    calls = {"x": task("tx"), "y": task("ty")}
    runs = [
        agent(
            name,
            thread(prompt(name, uuid=name), reply([call], uuid=f"{name}a")),
            tool_use_id=ToolUseId("ty" if name == "x" else "tx"),
        )
        for name, call in calls.items()
    ]
    found_session = assemble_session(session("p"), *runs)

    assert sorted(run.id for run in found_session.all_agents) == ["x", "y"]


@pytest.mark.req("A2")
def test_agent_does_not_start_itself() -> None:
    records = thread(prompt("Do it", uuid="w"), reply([task("own")], uuid="v"))

    run = alone(session("p"), agent("x", records, tool_use_id=ToolUseId("own")))

    assert linked(run) == (None, ())


@pytest.mark.req("A1")
def test_sidechain_records_are_agents_of_old_versions() -> None:
    beside = {"isSidechain": True}
    records = [
        *main(calls=(task("t1", "One"), task("t2", "Two"))),
        prompt("Two", uuid="y1") | beside,
        prompt("One", uuid="x1") | beside,
        reply("1", uuid="x2", parent="x1") | beside,
        reply("2", uuid="y2", parent="y1") | beside,
    ]
    found_session = assemble_session(records)

    assert {run.id: run.call_ids for run in found_session.agents} == {
        "inline-y1": ("t2",),
        "inline-x1": ("t1",),
    }
    assert [m.id for m in found_session.agents[0].live_branch.messages] == ["y1", "y2"]
    assert found_session.agents[0].source is None


def test_records_of_an_inline_agent_may_come_before_their_parents() -> None:
    beside = {"isSidechain": True}
    records = [
        *session("p"),
        reply("2", uuid="x2", parent="x1") | beside,
        prompt("One", uuid="x1") | beside,
        prompt("bare") | beside,
        prompt("a", uuid="c1", parent="c2") | beside,
        reply("b", uuid="c2", parent="c1") | beside,
    ]
    del records[3]["uuid"]

    found = {
        run.id: len(run.live_branch.messages)
        for run in assemble_session(records).agents
    }

    assert found == {"inline-x1": 3, "inline-c2": 2}


def test_inline_agent_without_ids_is_one_agent() -> None:
    records = [record | {"isSidechain": True} for record in session(*WORK)]
    for record in records:
        del record["uuid"], record["parentUuid"]

    (run,) = assemble_session(records).agents

    assert len(run.live_branch.messages) == 2


@pytest.mark.req("A1")
def test_records_of_an_agent_may_be_inline_and_in_its_file() -> None:
    own = {"isSidechain": True, "agentId": "x"}
    records = [record | own for record in session(*WORK)]

    run = alone([*main(), *records[:1]], agent("x", records))

    assert [message.id for message in run.live_branch.messages] == ["w", "v"]
    assert run.source is not None


@pytest.mark.req("A3")
@pytest.mark.parametrize(
    ("name", "words", "kind"),
    [
        ("x", "Warmup", AgentKind.WARM_UP),
        ("x", "Warmup, please", AgentKind.TASK),
        ("acompact-1", "Sum up", AgentKind.REPLAY),
        ("aside_question-1", "Why", AgentKind.REPLAY),
        ("aprompt_suggestion-1", "What", AgentKind.REPLAY),
    ],
)
def test_warm_ups_and_replays_are_recognized_and_not_counted(
    name: str, words: str, kind: AgentKind
) -> None:
    records = thread(prompt(words, uuid="w"), reply("Yes", uuid="v"))
    found_session = assemble_session(session("p", "q<p"), agent(name, records))

    assert [run.kind for run in found_session.agents] == [kind]
    assert found_session.total_usage.output == (80 if kind.is_shown else 40)
    assert len(found_session.message_usages) == (2 if kind.is_shown else 1)


@pytest.mark.req("A3")
def test_agent_without_a_prompt_is_a_task() -> None:
    assert alone(session("p"), agent("x", [])).kind is AgentKind.TASK


@pytest.mark.req("A4")
@pytest.mark.parametrize(
    ("after", "records", "status"),
    [
        (tool_result("t", outcome={"status": "completed"}), WORK, "completed"),
        (tool_result("t", "no", is_error=True), WORK, "failed"),
        (tool_result("t", "doesn't want to", is_error=True), WORK, "interrupted"),
        (tool_result("t", outcome={"status": "async_launched"}), WORK, "completed"),
        (tool_result("t", outcome={"status": "async_launched"}), ("w",), "running"),
        (notification("x", "killed", "t"), WORK, "interrupted"),
        (notification("x", "failed", "t"), WORK, "failed"),
        (notification("x", "under way", "t"), ("w",), "running"),
        (tool_result("t"), (), "unknown"),
    ],
)
def test_status_of_an_agent_is_reported_or_derived(
    after: Written, records: tuple[str, ...], status: str
) -> None:
    note = {"tool_use_id": ToolUseId("t")}

    run = alone(main(after), agent("x", session(*records), **note))

    assert run.status == status


@pytest.mark.req("A4")
@pytest.mark.parametrize(
    ("last", "status"),
    [
        (prompt([text(INTERRUPT)], uuid="z"), AgentStatus.INTERRUPTED),
        (api_error("Overloaded", uuid="z"), AgentStatus.FAILED),
        (reply([tool_use("Bash", id="b")], uuid="z"), AgentStatus.RUNNING),
        (reply("Done", uuid="z"), AgentStatus.COMPLETED),
    ],
)
def test_last_record_decides_the_status_of_an_orphan(
    last: Written, status: AgentStatus
) -> None:
    assert alone(session("p"), agent("x", [*session("w"), last])).status is status


@pytest.mark.req("A4")
def test_agent_stopped_by_the_user_is_interrupted() -> None:
    run = alone(session("p"), agent("x", session(*WORK), is_stopped_by_user=True))

    assert run.status is AgentStatus.INTERRUPTED


@pytest.mark.req("A4")
def test_last_reported_status_counts() -> None:
    after = (
        notification("x", "failed", "t"),
        tool_result("t", outcome={"agentId": "x", "status": "completed"}),
    )

    run = alone(main(*after), agent("x", session(*WORK)))

    assert run.status is AgentStatus.COMPLETED


@pytest.mark.req("A4")
def test_agent_run_has_duration_usage_and_call_count() -> None:
    outcome = {"agentId": "x", "status": "async_launched", "totalDurationMs": 4000}
    records = thread(
        prompt("Do it", uuid="w"),
        reply([tool_use("Bash", id="b")], uuid="v"),
        start=9,
    )
    run = alone(main(tool_result("t", outcome=outcome)), agent("x", records))

    assert run.is_background
    assert run.duration == timedelta(seconds=4)
    assert run.tool_call_count == 1
    assert run.usage.output == 40
    assert (run.agent_type, run.description) == (None, "Doing")
    assert run.started_at is not None
    assert run.ended_at == run.started_at + timedelta(seconds=1)


@pytest.mark.req("A4")
def test_duration_is_from_first_to_last_record_if_not_measured() -> None:
    assert alone(session("p"), agent("x", session(*WORK))).duration == timedelta(
        seconds=1
    )
    assert alone(session("p"), agent("x", [])).duration is None


def test_sidecar_describes_the_agent() -> None:
    note = {"agent_type": "Explore", "description": "Looking"}

    run = alone(session("p"), agent("x", session(*WORK), **note))

    assert (run.agent_type, run.description) == ("Explore", "Looking")


@pytest.mark.req("T6", "A1")
def test_records_shared_with_the_caller_belong_to_the_caller() -> None:
    talk = main(tool_result("t", outcome={"agentId": "x"}))
    own = thread(prompt("Do it", uuid="w", parent="a"), reply("Yes", uuid="v"))

    run = alone(talk, agent("x", [*talk[:2], *own]))

    assert [message.id for message in run.live_branch.messages] == ["w", "v"]
    assert [(item.reason, item.record_id) for item in run.hidden_records] == [
        ("copy", "p"),
        ("copy", "a"),
    ]
    assert run.problems == ()


@pytest.mark.req("A1", "T6")
@pytest.mark.parametrize("is_fork", [True, False])
def test_fork_finds_the_agent_it_continued(*, is_fork: bool) -> None:
    talk = main(tool_result("t", outcome={"agentId": "x"}))
    more = thread(
        prompt("More", uuid="q"),
        reply([task("u")], uuid="b"),
        tool_result("u", outcome={"agentId": "x"}, uuid="s"),
        start=60,
    )
    actual = [*talk, *more] if is_fork else more
    first, second = assembled(
        transcript(SESSION, talk),
        agent("x", session(*WORK)),
        transcript(session_id(1), [r | {"sessionId": session_id(1)} for r in actual]),
    )

    (call,) = second.live_branch.turns[-1].tool_calls
    # An agent of another session may have the same id.
    assert call.agents == (first.agents if is_fork else ())
    assert second.agents == ()


@pytest.mark.req("A1", "T6")
def test_copied_call_finds_its_agent_in_the_original_session() -> None:
    talk = main()
    copied = [record | {"sessionId": session_id(1)} for record in talk]
    first, second = assembled(
        transcript(SESSION, talk),
        agent("x", session(*WORK), tool_use_id=ToolUseId("t")),
        transcript(session_id(1), [*copied, prompt("More", timestamp=moment(60))]),
    )

    assert second.live_branch.turns[0].tool_calls[0].agent is first.agents[0]


@pytest.mark.req("A1", "F5")
def test_agent_without_folder_belongs_to_the_session_that_started_it() -> None:
    later = {"sessionId": session_id(1), "timestamp": moment(60)}
    records = [*session("w"), *(r | later for r in session("v<w", "u<v", "s<u"))]
    flat = agent("x", records, under="../")
    flat = structs.replace(
        flat,
        source=structs.replace(flat.source, relative_path="projects/k/agent-x.jsonl"),
    )

    found_session = assemble_session(
        session("p"), flat, transcript(session_id(1), session("q"))
    )

    assert [run.id for run in found_session.agents] == ["x"]


def test_agent_without_session_is_a_session_of_its_own() -> None:
    records = [record | {"sessionId": None} for record in session("w")]
    flat = agent("x", records, under="../")
    flat = structs.replace(
        flat, source=structs.replace(flat.source, relative_path="k/agent-x.jsonl")
    )

    (found_session,) = assembled(flat)

    assert [run.id for run in found_session.agents] == ["x"]
    assert found_session.title.text == "w"


@pytest.mark.req("A1")
def test_message_to_an_agent_continues_it() -> None:
    records = main(
        tool_result("t", "Done", outcome={"status": "completed", "agentId": "a1"}),
        reply([tool_use("SendMessage", id="u", to="a1")], uuid="b"),
        tool_result("u", "Woken", outcome={"resumedAgentId": "a1"}),
    )

    assert alone(records, agent("a1", session(*WORK))).call_ids == ("t", "u")


@pytest.mark.req("A1")
def test_agent_without_a_file_is_shown_from_progress_records() -> None:
    def bare(record: Written) -> Written:
        return {key: record[key] for key in ("type", "message", "uuid", "timestamp")}

    asked, said, call, result = map(
        bare,
        thread(
            prompt("Do it", uuid="w1"),
            reply("I look.", uuid="w2", message_id="m"),
            reply([tool_use("Read", id="r")], uuid="w3", message_id="m"),
            tool_result("r", "text", uuid="w4"),
        ),
    )
    steps = [
        progress("agent_progress", agentId="x", call="t", uuid="g1", message=asked),
        progress(
            "agent_progress",
            agentId="x",
            call="t",
            uuid="g2",
            message=call,
            normalizedMessages=[said, call],
        ),
        progress(
            "agent_progress",
            agentId="x",
            call="t",
            uuid="g3",
            message=result,
            normalizedMessages=[said, call, result],
        ),
    ]
    run = alone(main(*steps))

    assert (run.id, run.is_partial, run.call_ids) == ("x", True, ("t",))
    assert [message.preview for message in run.messages] == ["Do it", "I look."]
    assert [(c.name, c.has_result) for c in run.tool_calls] == [("Read", True)]
    assert not alone(main(*steps), agent("x", session(*WORK))).is_partial
