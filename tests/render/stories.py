"""Homes with sessions that cover what renderers show."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bygones.model.sessions import Session
from bygones.reader import read_sessions
from tests import forms
from tests.build import (
    SESSION,
    Home,
    Written,
    compact,
    prompt,
    reply,
    system,
    text,
    thinking,
    thread,
    title,
    tool_result,
    tool_use,
)
from tests.render.shared import session_of

__all__ = ["HOSTILE", "STORIES", "hostile"]

PATCH = {"oldStart": 7, "oldLines": 1, "newStart": 7, "newLines": 2}
ANSWER = """\
It was the clock. The test compared two times that were taken a moment apart, and on a \
slow machine that moment was long.

## What changed

- `wait` takes the clock as an argument, so that a test can hold it still
- the test no longer sleeps

```python
def wait(clock: Clock, seconds: float) -> None:  # a line longer than the page is
```
"""


def everyday(folder: Path) -> Session:
    """A bug is found, fixed and tested."""
    edited = {
        "filePath": "/work/demo/src/wait.py",
        "structuredPatch": [PATCH | {"lines": ["-sleep(1)", "+clock.sleep(1)", "+"]}],
    }
    return session_of(
        folder,
        [
            *thread(
                prompt("The test of wait fails now and then.\n\nCan you mend it?"),
                reply(
                    [
                        thinking("Perhaps the clock."),
                        text("I'll look."),
                        tool_use("Bash", id="t1", command="pytest -q tests/wait.py"),
                        tool_use("Grep", id="t2", pattern="sleep", path="/work/demo"),
                    ],
                    message_id="m1",
                ),
                tool_result("t1", "Exit code 1\n1 failed\nmore", is_error=True),
                tool_result("t2", "a", outcome={"filenames": ["a"], "numFiles": 1}),
                reply([tool_use("Edit", id="t3", file_path="/work/demo/src/wait.py")]),
                tool_result("t3", "ok", outcome=edited),
                reply(ANSWER),
                prompt("Thanks, 日本語でも書いて"),
                reply("はい。" * 30),
            ),
            title("Mend the test of wait"),
        ],
    )


def passing(folder: Path) -> Session:
    """Commands, a compaction, an interrupt, notifications, steering, errors."""
    return session_of(
        folder,
        thread(
            forms.caveat(),
            forms.command("/model", "opus"),
            forms.printed("Set model to \x1b[1mopus\x1b[0m"),
            prompt("Start the server", uuid="start"),
            reply([tool_use("Bash", command="serve", run_in_background=True)]),
            tool_result("toolu_1", "ok", outcome={"backgroundTaskId": "b1"}),
            forms.queued("Use port 8080"),
            reply("It runs on 8080.", uuid="last"),
            compact("last", uuid="cut", tokens=155_000),
            forms.digest() | {"parentUuid": "cut"},
            forms.notification("b1", "failed"),
            system("api_error"),
            system("api_error"),
            forms.api_error("API Error: overloaded"),
            prompt("Again"),
            reply("I"),
            prompt(forms.INTERRUPT),
        ),
    )


def rewound(folder: Path) -> Session:
    """A session that was rewound twice, once on a rewound branch."""
    return session_of(
        folder,
        thread(
            prompt("Write a poem", uuid="p1"),
            reply("Of what?", uuid="a1"),
            prompt("Of the sea, in four lines and without rhymes", uuid="p2"),
            reply("Waves.", uuid="a2"),
            prompt("Of the wind", uuid="p3", parent="a1"),
            reply("Air.", uuid="a3"),
            prompt("Of the sun", uuid="p4", parent="a1"),
            reply("Light.", uuid="a4"),
        ),
    )


def called(folder: Path) -> Session:
    """An agent that calls another one, and an orphan."""
    home = Home(folder)
    home.session(SESSION, _calling("What is here?", "Find it", "outer", "Explore"))
    home.agent(SESSION, "outer", _calling("Find it", "Count it", "inner", "Plan"))
    home.agent(
        SESSION,
        "inner",
        thread(prompt("Count it"), reply("\n".join(f"Line {n}" for n in range(9)))),
    )
    home.agent(SESSION, "alone", thread(prompt("Who am I?"), reply("Nobody knows.")))
    (session,) = read_sessions(folder)
    return session


def _calling(question: str, answer: str, agent: str, kind: str) -> list[Written]:
    outcome = {"status": "completed", "agentId": agent, "totalDurationMs": 75_000}
    use = tool_use(
        "Task", id=f"by_{agent}", prompt=answer, description="Look", subagent_type=kind
    )
    return thread(
        prompt(question),
        reply([use], message_id=f"asks_{agent}"),
        tool_result(f"by_{agent}", "It is so.", outcome=outcome),
        reply("So it is.", message_id=f"told_{agent}"),
    )


STORIES: dict[str, Callable[[Path], Session]] = {
    "everyday": everyday,
    "passing": passing,
    "rewound": rewound,
    "called": called,
}

HOSTILE = (
    "\x1b[31m\x1b]0;owned\x07\x1b]8;;http://evil.example\x1b\\x\x1b]52;c;aGk=\x07"
    "\x1bP$qm\x1b\\\x9b2J\x85\r\b\x7f\x00\u202e\u2066\u200b\u200d\ufeff"
    "\U000e0041\u2028日"
)


def hostile(folder: Path, bad: str = HOSTILE) -> Session:
    """Hostile text in every field that is shown."""
    home = Home(folder)
    uses = [
        tool_use(name, id=f"u{number}", **dict.fromkeys(_FIELDS, bad))
        for number, name in enumerate((*_TOOLS, bad, f"mcp__{bad}__{bad}"))
    ]
    results = [
        tool_result(
            f"u{number}",
            bad,
            is_error=bool(number % 2),
            outcome=_OUTCOMES[number % len(_OUTCOMES)](bad),
        )
        for number in range(len(uses))
    ]
    questions = [{"question": bad, "header": bad}]
    call = tool_use("AskUserQuestion", id="q", questions=questions)
    launched = tool_use("Task", id="t", description=bad, subagent_type=bad, prompt=bad)
    records = thread(
        prompt(f"p {bad}"),
        reply([thinking(bad), text(bad), *uses], model=f"m {bad}"),
        *results,
        reply([call], message_id="asked"),
        tool_result("q", bad, outcome={"questions": questions, "answers": {bad: bad}}),
        reply([launched], message_id="launched"),
        tool_result("t", bad, outcome={"status": bad, "agentId": "x1"}),
        forms.command(f"/{bad}", bad),
        forms.printed(bad),
        forms.notification(bad, bad),
        forms.queued(f"q {bad}"),
        system("informational", bad),
        forms.api_error(bad),
        prompt([{"type": bad, "x": bad}, {"type": "document", "title": bad}]),
        reply([{"type": "fallback", "trigger": bad}, {"type": bad}]),
    )
    odd = {"cwd": f"/work/{bad}", "gitBranch": bad, "version": bad}
    home.session(SESSION, [*(record | odd for record in records), title(bad)])
    home.agent(SESSION, "x1", thread(prompt(bad), reply(bad, message_id="by_x1")))
    (session,) = read_sessions(folder)
    return session


_FIELDS = (
    *("command", "file_path", "pattern", "path", "glob", "query", "url", "content"),
    *("old_string", "new_string", "plan", "skill", "args", "subject", "status"),
    *("taskId", "task_id", "description", "prompt", "anything"),
)
_TOOLS = (
    *("Bash", "Read", "Edit", "Write", "Grep", "Glob", "WebFetch", "WebSearch"),
    *("TodoWrite", "TaskCreate", "TaskUpdate", "TaskOutput", "ExitPlanMode", "Skill"),
    *("Workflow", "NotebookEdit"),
)
_OUTCOMES: tuple[Callable[[str], Written], ...] = (
    lambda bad: {"stdout": bad, "returnCodeInterpretation": bad},
    lambda bad: {"type": bad, "file": {"filePath": bad}},
    lambda bad: {
        "filePath": bad,
        "structuredPatch": [PATCH | {"lines": [f"+{bad}", bad]}],
    },
    lambda bad: {"url": bad, "code": 200, "codeText": bad},
    lambda bad: {"workflowName": bad, "runId": bad},
    lambda bad: {"task": {"id": bad, "subject": bad, "status": bad}},
    lambda bad: {"plan": bad},
)
