"""Agents: where their records are stored, and which call started them."""

from __future__ import annotations

from collections.abc import Mapping

from tests.build import (
    SESSION,
    Home,
    Written,
    meta,
    moment,
    progress,
    prompt,
    queue,
    reply,
    session,
    session_id,
    text,
    thread,
    tool_result,
    tool_use,
)
from tests.forms import INTERRUPT, notification, notification_text, queued
from tests.workflows import RUN, step, write_agent, write_journal

SECOND = session_id(1)


def agent_flat(home: Home) -> None:
    """In 2.0 an agent's file is next to the session; the result names it."""
    outcome = _completed("1a2b3c4d")
    home.session(SESSION, _asked("Find it", outcome=outcome))
    home.agent(SESSION, "1a2b3c4d", _worked("Find it"), flat=True)


def agent_below(home: Home) -> None:
    """From 2.1.2 it is below the session, later with a sidecar that names the call.

    The sidecar has priority over a result that names another agent.
    """
    home.session(SESSION, _asked("Find it", outcome=_completed("another")))
    note = {"agentType": "Explore", "description": "Searching", "toolUseId": "toolu_1"}
    home.agent(SESSION, "a0123456789abcdef", _worked("Find it"), meta=note)


def agents_inline(home: Home) -> None:
    """In 1.0 the records of two runs are interleaved in the session's file."""
    calls = [_task("1", "Find one"), _task("2", "Find two")]
    records = thread(
        prompt("Find both", uuid="p1"),
        reply([calls[0]], uuid="a1", message_id="msg_1"),
        reply([calls[1]], uuid="a2", message_id="msg_1"),
        tool_result("toolu_1", "one", uuid="r1", parent="a2"),
        tool_result("toolu_2", "two", uuid="r2"),
        reply("Both are found.", uuid="a3", message_id="msg_2"),
    )
    two, one = _inline("Find two", "y"), _inline("Find one", "x")
    told = [*records[:3], two[0], one[0], two[1], one[1], *records[3:]]
    home.session(SESSION, [record | {"version": "1.0.83"} for record in told])


def agents_nested(home: Home) -> None:
    """An agent starts an agent that starts an agent; all files are in one folder."""
    home.session(SESSION, _asked("First", outcome=_completed("a1")))
    for depth, words in ((1, "Second"), (2, "Third")):
        outcome = _completed(f"a{depth + 1}")
        asked = _asked(words, call=f"toolu_{depth + 1}", outcome=outcome)
        first = asked[0]["message"]
        first["content"] = "First" if depth == 1 else "Second"
        home.agent(SESSION, f"a{depth}", _named(asked, f"{depth}"))
    home.agent(SESSION, "a3", _named(_worked("Third"), "3"))


def agent_forked(home: Home) -> None:
    """A fork refers to the conversation that it continues, instead of copying it."""
    pointer = meta(
        "fork-context-ref",
        agentId="afork",
        parentSessionId=SESSION,
        parentLastUuid="a1",
        contextLength=2,
    )
    worked = _worked("Go on alone")
    worked[0]["parentUuid"] = "a1"
    outcome = _completed("afork")
    home.session(SESSION, _asked("Go on alone", kind="fork", outcome=outcome))
    home.agent(SESSION, "afork", [pointer, *worked])


def agent_forked_by_copy(home: Home) -> None:
    """Before 2.1.118 a fork contained a copy of the conversation that it continues."""
    asked = _asked("Go on alone", kind="fork", outcome=_completed("afork"))
    worked = _worked("Go on alone")
    worked[0]["parentUuid"] = "a1"
    home.session(SESSION, asked)
    home.agent(SESSION, "afork", [*asked[:2], *worked])


def agent_orphaned(home: Home) -> None:
    """No record names one agent; another one is named, but has no file."""
    home.session(SESSION, _asked("Find it", outcome=_completed("nowhere")))
    home.agent(SESSION, "alone", _worked("Something else"))


def agent_alone(home: Home) -> None:
    """The session's file is missing; the files of its agent and a warm-up exist."""
    warm = [prompt("Warmup", uuid="v1"), reply("I am ready.", uuid="v2", parent="v1")]
    home.agent(SESSION, "aleft", _worked("Find it"))
    home.agent(SECOND, "awarm", _later(1, warm))


def agent_reused(home: Home) -> None:
    """A fork of the session continued its agent in the agent's existing file."""
    first = _asked("Find it", outcome=_completed("1a2b3c4d"))
    outcome = _completed("1a2b3c4d")
    later = _later(100, _asked("Find more", call="toolu_9", outcome=outcome))
    later = _named(later, "later")
    later[0]["parentUuid"] = "a2"
    again = _later(100, _worked("Find more"))
    again = _named([record | {"sessionId": SECOND} for record in again], "more")
    again[0]["parentUuid"] = "w4"
    home.session(SESSION, first)
    home.session(SECOND, [*first, *later])
    home.agent(SESSION, "1a2b3c4d", [*_worked("Find it"), *again], flat=True)


def agent_warm_up(home: Home) -> None:
    """A warm-up is hidden, whatever files it leaves."""
    home.session(SESSION, session("p1", "a1<p1"))
    warm = [prompt("Warmup", uuid="w1"), reply("I am ready.", uuid="w2", parent="w1")]
    home.agent(SESSION, "0a1b2c3d", _later(1, warm), flat=True)


def agent_replay(home: Home) -> None:
    """The agent of a compaction replays the conversation before its own message."""
    records = session("p1", "a1<p1")
    asked = prompt("Sum it all up", uuid="w1", parent="a1", timestamp=moment(2))
    told = reply("All is well.", uuid="w2", parent="w1", timestamp=moment(3))
    home.session(SESSION, records)
    home.agent(SESSION, "acompact-0123456789abcdef", [*records, asked, told])


def agent_in_background(home: Home) -> None:
    """The result only reports the start; the end is reported later, three times."""
    launched = {"status": "async_launched", "isAsync": True, "agentId": "aback"}
    news = notification_text("aback", "completed", "toolu_1", "Found")
    records = [
        *_asked("Find it", outcome=launched),
        queue("enqueue", news),
        queue("dequeue"),
        *thread(
            queued(news, "task-notification", uuid="x1", parent="a2"),
            notification("aback", "completed", "toolu_1", uuid="n1"),
            reply("It was found.", uuid="a3"),
            start=20,
        ),
    ]
    home.session(SESSION, records)
    home.agent(SESSION, "aback", _worked("Find it"))


def agent_ends(home: Home) -> None:
    """Runs that failed, were refused, stopped, killed, or are still running."""
    names = ("failed", "refused", "stopped", "killed", "working", "errored")
    calls = {name: f"toolu_{name}" for name in names}
    refusal = "The user doesn't want to proceed with this tool use."
    asked = [
        reply([_task(name, name)], uuid=f"c-{name}", message_id="msg_1")
        for name in names
    ]
    records = thread(
        prompt("Do it all", uuid="p1"),
        *asked,
        tool_result(calls["failed"], "It failed", is_error=True, uuid="r1"),
        tool_result(calls["refused"], refusal, is_error=True, uuid="r2"),
        notification("akilled", "killed", calls["killed"], uuid="n1"),
    )
    home.session(SESSION, records)
    for name in names:
        worked = _named(_worked(name)[:2], name)
        note = {"toolUseId": calls[name], "stoppedByUser": name == "stopped"}
        if name == "errored":
            worked[1] |= {"isApiErrorMessage": True}
            worked[1]["message"]["content"] = [text("API Error")]
        home.agent(SESSION, f"a{name}", worked, meta=note)
    cut = [*_worked("More"), prompt([text(INTERRUPT)], uuid="i1", parent="w4")]
    home.agent(SESSION, "acut", _named(cut, "cut"))


def agent_evidence(home: Home) -> None:
    """Agents that are identified by progress, the result's text, or only the prompt.

    Two calls have the same prompt: their agents are assigned in order.
    """
    said = [text("Found."), text("agentId: atext (for resuming)")]
    words = ("progress", "words", "same", "same")
    asked = [
        reply([_task(f"{at}", word)], uuid=f"c{at}", message_id="msg_1")
        for at, word in enumerate(words)
    ]
    records = thread(
        prompt("Do it all", uuid="p1"),
        *asked,
        progress("agent_progress", agentId="areport", call="toolu_0", uuid="g1"),
        tool_result("toolu_1", said, uuid="r1"),
    )
    home.session(SESSION, records)
    home.agent(SESSION, "areport", _named(_worked("something"), "0"))
    home.agent(SESSION, "atext", _named(_worked("something"), "1"))
    home.agent(SESSION, "asame1", _named(_worked("same"), "2"))
    home.agent(SESSION, "asame2", _later(1, _named(_worked("same"), "3")))


def agent_in_progress_records(home: Home) -> None:
    """An agent without a file; progress records repeat all but its last reply.

    The text before a call is only in the list of previous messages.
    """
    asked = _asked("look here", outcome=_completed("agone"))
    first, call, result, _ = (_bare_copy(one) for one in _worked("look here"))
    said = _bare_copy(reply("I'll look.", uuid="w1b", message_id="msg_w"))
    call["message"]["id"] = "msg_w"
    steps = [
        progress("agent_progress", uuid="g0", agentId="agone", message=first),
        progress(
            "agent_progress",
            uuid="g1",
            agentId="agone",
            message=call,
            normalizedMessages=[said, call],
        ),
        progress(
            "agent_progress",
            uuid="g2",
            agentId="agone",
            message=result,
            normalizedMessages=[said, call, result],
        ),
    ]
    home.session(SESSION, thread(*asked[:2], *steps, *asked[2:]))


def _bare_copy(record: Written) -> Written:
    """Return a record as progress records repeat it, without most of its fields."""
    return {
        name: record[name]
        for name in ("type", "message", "uuid", "timestamp", "toolUseResult")
        if name in record
    }


def agents_of_workflow(home: Home) -> None:
    """The agents of one run are in its folder, and all belong to one call.

    The journal contains only one of them, without its end.
    """
    _workflow(home, {"aw1": None, "aw2": None})
    write_journal(home, step("started", "aw1", label="one"))


def workflow_journal(home: Home) -> None:
    """A journal names agents and how they ended, whatever their last message is.

    A run that the user stopped is stopped; an agent without a file is not listed; one
    that is missing in the journal ended with its reply.
    """
    stopped = {"description": "Its own words", "stoppedByUser": True}
    names = ("aw1", "aw2", "aw3", "aw4", "aw5")
    _workflow(home, dict.fromkeys(names) | {"aw4": stopped})
    started = ("aw1", "aw2", "aw3", "aw4", "nowhere")
    write_journal(
        home,
        {"type": "launched"},
        *(step("started", name, label=f"The part of {name}") for name in started),
        step("result", "aw1", result={"found": 1}),
        step("failed", "aw2", error="It broke"),
        step("result", "aw4", result=None),
        step("result", "nowhere", result=None),
    )


def _workflow(home: Home, agents: Mapping[str, Written | None]) -> None:
    """Write a session that started a workflow, with its agents and their sidecars."""
    outcome = {"status": "async_launched", "taskId": "w1", "runId": RUN}
    records = thread(
        prompt("Run the workflow", uuid="p1"),
        reply([tool_use("Workflow", name="all")], uuid="a1"),
        tool_result("toolu_1", "launched", outcome=outcome, uuid="r1"),
        reply("It runs.", uuid="a2"),
    )
    home.session(SESSION, records)
    for number, (name, note) in enumerate(agents.items(), 1):
        worked = _named(_worked(f"Part {number}"), f"{number}")
        write_agent(home, name, worked, meta=note)


def _asked(
    words: str, *, call: str = "toolu_1", kind: str = "Explore", outcome: Written
) -> list[Written]:
    """Return a conversation in which an agent is started and returns."""
    number = call.removeprefix("toolu_")
    return thread(
        prompt("Please", uuid="p1"),
        reply([_task(number, words, kind)], uuid="a1", message_id=f"msg_{number}a"),
        tool_result(call, "done", outcome=outcome, uuid="r1"),
        reply("It is done.", uuid="a2", message_id=f"msg_{number}b"),
    )


def _worked(words: str) -> list[Written]:
    """Return the records of an agent: one call and a reply."""
    return thread(
        prompt(words, uuid="w1"),
        reply([tool_use("Grep", id="toolu_w", pattern="it")], uuid="w2"),
        tool_result("toolu_w", "here", uuid="w3"),
        reply(f"Found: {words}", uuid="w4"),
        start=1,
    )


def _inline(words: str, name: str) -> list[Written]:
    """Return the records of an agent in 1.0: a prompt and a reply in the session's file."""
    return [
        prompt(words, uuid=f"{name}1", isSidechain=True),
        reply(f"Found: {words}", uuid=f"{name}2", parent=f"{name}1", isSidechain=True),
    ]


def _task(number: str, words: str, kind: str = "Explore") -> Written:
    asked = {"description": f"Task {number}", "prompt": words, "subagent_type": kind}
    return tool_use("Task", id=f"toolu_{number}", **asked)


def _completed(agent: str) -> Written:
    return {
        "status": "completed",
        "agentId": agent,
        "content": [text("done")],
        "totalDurationMs": 4000,
        "totalTokens": 12_000,
        "totalToolUseCount": 1,
    }


def _named(records: list[Written], name: str) -> list[Written]:
    """Return records with unique ids, calls and messages."""
    renamed = []
    for given in records:
        record = {**given, "uuid": f"{given['uuid']}-{name}"}
        if given["parentUuid"]:
            record["parentUuid"] = f"{given['parentUuid']}-{name}"
        message = dict(given["message"])
        if "id" in message:
            message["id"] = f"{message['id']}-{name}"
        if isinstance(message["content"], list):
            message["content"] = [_own_call(b, name) for b in message["content"]]
        renamed.append(record | {"message": message})
    return renamed


def _own_call(block: Written, name: str) -> Written:
    return {
        field: f"{value}-{name}"
        if field in {"id", "tool_use_id"} and value == "toolu_w"
        else value
        for field, value in block.items()
    }


def _later(seconds: float, records: list[Written]) -> list[Written]:
    return [
        record | {"timestamp": moment(seconds + number)}
        for number, record in enumerate(records)
    ]
