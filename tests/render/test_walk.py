"""Walking through a session."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from bygones.reader import read_sessions
from bygones.render.walk import (
    AgentEnd,
    AgentStep,
    BranchEnd,
    BranchStep,
    MessageStep,
    OrphanAgents,
    SessionView,
    ToolCallStep,
    WalkStep,
    walk_session,
)
from tests.build import (
    SESSION,
    Home,
    prompt,
    reply,
    session,
    thread,
    tool_result,
    tool_use,
)
from tests.render.shared import session_of
from tests.render.stories import STORIES


def describe_steps(steps: Iterable[WalkStep]) -> list[str]:
    """Return a short description of each step."""
    lines = []
    for step in steps:
        match step:
            case MessageStep(message=message):
                lines.append(message.preview or message.text)
            case BranchStep(branch=branch, is_expanded=is_whole):
                lines.append(f"{'<' if is_whole else '-'}{branch.number}")
            case BranchEnd(branch=branch):
                lines.append(f"{branch.number}>")
            case AgentStep(run=run, is_expanded=is_whole, is_resumed=is_again):
                lines.append(f"{'=' if is_again else '(' if is_whole else '.'}{run.id}")
            case AgentEnd(run=run):
                lines.append(f"{run.id})")
            case OrphanAgents():
                lines.append("orphans")
            case ToolCallStep(call=call):
                lines.append(call.name)
            case _:
                pass
    return lines


def test_live_branch_has_steps_for_forks(tmp_path: Path) -> None:
    session = STORIES["rewound"](tmp_path)

    assert describe_steps(walk_session(session, SessionView())) == [
        "Write a poem",
        "Of what?",
        "-1",
        "-2",
        "Of the sun",
        "Light.",
    ]


def test_all_branches_are_walked_at_their_forks(tmp_path: Path) -> None:
    session = STORIES["rewound"](tmp_path)

    assert describe_steps(walk_session(session, SessionView(include_branches=True)))[
        2:9
    ] == [
        "<1",
        "Of the sea, in four lines and without rhymes",
        "Waves.",
        "1>",
        "<2",
        "Of the wind",
        "Air.",
    ]


def test_branch_without_own_answers_is_walked(
    tmp_path: Path,
) -> None:
    """A heartbeat record precedes the answer and the first two attempts."""
    tries = ("h<a:progress", "c<h:user", "d<c", "e<h:user", "f<e")
    loaded = session_of(tmp_path, session("p", "a<p", *tries, "g<a", "i<g"))

    assert describe_steps(walk_session(loaded, SessionView(include_branches=True))) == [
        *("p", "a"),
        *("<1", "<2", "c", "d", "2>", "e", "f", "1>"),
        *("g", "i"),
    ]


@pytest.mark.parametrize("branches", [False, True])
def test_other_branch_has_a_step_for_the_live_one(
    branches: bool, tmp_path: Path
) -> None:
    session = STORIES["rewound"](tmp_path)

    steps = describe_steps(
        walk_session(session, SessionView(branch=2, include_branches=branches))
    )

    assert steps[:3] == ["Write a poem", "Of what?", "-0"]
    assert steps[-2:] == ["Of the wind", "Air."]


def test_edited_first_prompt_is_walked_first(
    tmp_path: Path,
) -> None:
    records = thread(prompt("Hello", uuid="p1"), reply("Hi", uuid="a1"))
    again = thread(prompt("Good day", uuid="p2"), reply("Good day", uuid="a2"), start=9)

    session = session_of(tmp_path, records + again)

    assert describe_steps(walk_session(session, SessionView())) == [
        "-1",
        "Good day",
        "Good day",
    ]


def test_agents_are_walked_at_their_calls_and_orphans_last(tmp_path: Path) -> None:
    session = STORIES["called"](tmp_path)

    assert describe_steps(walk_session(session, SessionView())) == [
        *("What is here?", "", "Task", ".outer", "So it is."),
        *("orphans", ".alone"),
    ]
    assert describe_steps(walk_session(session, SessionView(include_agents=True))) == [
        *("What is here?", "", "Task", "(outer"),
        *("Find it", "", "Task", "(inner", "Count it"),
        "\n".join(f"Line {number}" for number in range(9)),
        *("inner)", "So it is.", "outer)", "So it is."),
        *("orphans", "(alone", "Who am I?", "Nobody knows.", "alone)"),
    ]


def test_resumed_agent_is_walked_once(tmp_path: Path) -> None:
    home = Home(tmp_path)
    outcome = {"status": "completed", "agentId": "a1"}
    home.session(
        SESSION,
        thread(
            prompt("go"),
            reply([tool_use("Task", id="t1", prompt="look")], message_id="m1"),
            tool_result("t1", "ok", outcome=outcome),
            reply([tool_use("Task", id="t2", prompt="again")], message_id="m2"),
            tool_result("t2", "ok", outcome=outcome),
        ),
    )
    home.agent(SESSION, "a1", thread(prompt("look"), reply("here")))
    (session,) = read_sessions(tmp_path)

    agent_steps = [
        w
        for w in describe_steps(walk_session(session, SessionView(include_agents=True)))
        if "a1" in w
    ]
    assert agent_steps == ["(a1", "a1)", "=a1"]


def test_calls_are_walked_even_if_the_file_is_gone(tmp_path: Path) -> None:
    records = thread(prompt("go"), reply([tool_use("Bash", command="ls")]))
    session = session_of(tmp_path, records)
    for path in tmp_path.rglob("*.jsonl"):
        path.unlink()

    assert describe_steps(walk_session(session, SessionView())) == ["go", "", "Bash"]
