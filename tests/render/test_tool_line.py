"""Tool calls in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from bygones.render.text.primitives import plain_text
from bygones.render.tool_line import ToolCallFormatter, ToolCallState, render_tool_line
from tests.build import CWD, Written, prompt, reply, thread, tool_result, tool_use
from tests.render.shared import make_tool_call, session_of

PATCH = [{"oldStart": 1, "newStart": 1, "lines": [" a", "-b", "+c", "+d"]}]
FILE = {"filePath": f"{CWD}/a.py", "numLines": 3, "startLine": 1, "totalLines": 3}
TODOS = [
    {"content": "Plan", "status": "completed", "activeForm": "Planning"},
    {"content": "Build", "status": "in_progress", "activeForm": "Building"},
    {"content": "Test", "status": "pending", "activeForm": "Testing"},
]
QUESTIONS = [{"question": "Which?", "header": "H", "options": []}]
FOUND = [{"tool_use_id": "s", "content": [{"title": "T", "url": "u"}] * 3}, None, "x"]

LINES: dict[str, tuple[str, Written, object, str]] = {
    "bash": ("Bash", {"command": "ls -l"}, {"stdout": "a"}, "$ ls -l"),
    "bash of many lines": (
        "Bash",
        {"command": "cat <<E\nhello\nE"},
        {"stdout": ""},
        "$ cat <<E hello E",
    ),
    "bash in the background": (
        "Bash",
        {"command": "serve"},
        {"stdout": "", "backgroundTaskId": "b1"},
        "$ serve  in the background as b1",
    ),
    "bash explained": (
        "Bash",
        {"command": "grep x"},
        {"stdout": "", "returnCodeInterpretation": "No matches found"},
        "$ grep x  No matches found",
    ),
    "read": (
        "Read",
        {"file_path": f"{CWD}/a.py"},
        {"type": "text", "file": FILE},
        "Read a.py  3 lines",
    ),
    "read in part": (
        "Read",
        {"file_path": "/elsewhere/a.py"},
        {"type": "text", "file": FILE | {"startLine": 10, "totalLines": 99}},
        "Read /elsewhere/a.py  lines 10 to 12 of 99",
    ),
    "read a picture": (
        "Read",
        {"file_path": f"{CWD}/a.png"},
        {"type": "image", "file": {"base64": "", "originalSize": 2048}},
        "Read a.png  image, 2.0 kB",
    ),
    "read unchanged": (
        "Read",
        {"file_path": f"{CWD}/a.py"},
        {"type": "file_unchanged", "file": {"filePath": "a.py"}},
        "Read a.py  unchanged",
    ),
    "edit": (
        "Edit",
        {"file_path": f"{CWD}/a.py", "old_string": "b", "new_string": "c\nd"},
        {"filePath": f"{CWD}/a.py", "structuredPatch": PATCH},
        "Edit a.py +2 \N{MINUS SIGN}1",
    ),
    "edit without a patch": (
        "Edit",
        {"file_path": f"{CWD}/a.py", "old_string": "a\nb", "new_string": "a\nc\nd"},
        None,
        "Edit a.py +2 \N{MINUS SIGN}1",
    ),
    "many edits": (
        "MultiEdit",
        {
            "file_path": f"{CWD}/a.py",
            "edits": [{"old_string": "a", "new_string": "b"}] * 2,
        },
        None,
        "MultiEdit a.py +2 \N{MINUS SIGN}2",
    ),
    "write": (
        "Write",
        {"file_path": f"{CWD}/a.py", "content": "a\nb\n"},
        {"type": "create", "filePath": f"{CWD}/a.py", "structuredPatch": []},
        "Write a.py +2  new",
    ),
    "notebook": (
        "NotebookEdit",
        {"notebook_path": f"{CWD}/a.ipynb", "new_source": "x = 1"},
        {"notebook_path": f"{CWD}/a.ipynb", "new_source": "x = 1"},
        "NotebookEdit a.ipynb +1",
    ),
    "grep": (
        "Grep",
        {"pattern": "fork", "path": f"{CWD}/src", "glob": "*.py"},
        {"mode": "content", "filenames": [], "numFiles": 0, "numLines": 4},
        "Grep fork in src *.py  4 lines",
    ),
    "grep for files": (
        "Grep",
        {"pattern": "fork"},
        {"mode": "files_with_matches", "filenames": ["a"], "numFiles": 1},
        "Grep fork  1 file",
    ),
    "grep that counts": (
        "Grep",
        {"pattern": "fork"},
        {"mode": "count", "filenames": [], "numFiles": 2, "numMatches": 7},
        "Grep fork  7 matches · 2 files",
    ),
    "glob": (
        "Glob",
        {"pattern": "**/*.py"},
        {"filenames": ["a", "b"], "numFiles": 2, "truncated": True},
        "Glob **/*.py  2 files · cut off",
    ),
    "fetch": (
        "WebFetch",
        {"url": "https://example.org", "prompt": "What?"},
        {"bytes": 2048, "code": 200, "codeText": "OK", "url": "u"},
        "WebFetch https://example.org  200 OK · 2.0 kB",
    ),
    "search the web": (
        "WebSearch",
        {"query": "weather"},
        {"query": "weather", "results": FOUND, "durationSeconds": 1},
        "WebSearch weather  3 pages",
    ),
    "todo": (
        "TodoWrite",
        {"todos": TODOS},
        {"oldTodos": [], "newTodos": TODOS},
        "Todo Building  1/3 done",
    ),
    "todo emptied": ("TodoWrite", {"todos": []}, None, "Todo  emptied"),
    "todo as given": ("TodoWrite", {"todos": TODOS}, None, "Todo Building  1/3 done"),
    "tasks": (
        "TaskList",
        {},
        {"tasks": [{"id": "1", "subject": "A", "status": "completed"}]},
        "Tasks  1/1 done",
    ),
    "output": (
        "BashOutput",
        {"bash_id": "b1"},
        {"shellId": "b1", "status": "running", "stdout": ""},
        "Output b1  running",
    ),
    "output of a task": (
        "TaskOutput",
        {"task_id": "t1"},
        {"retrieval_status": "success", "task": {"status": "completed"}},
        "Output t1  completed",
    ),
    "stop": ("KillShell", {"shell_id": "b1"}, {"shell_id": "b1"}, "Stop b1"),
    "question": (
        "AskUserQuestion",
        {"questions": QUESTIONS},
        {"questions": QUESTIONS, "answers": {}},
        "Question Which?  not answered",
    ),
    "plan": (
        "ExitPlanMode",
        {"plan": "# Do it\n\nThen rest."},
        {"plan": "# Do it\n\nThen rest.", "isAgent": False},
        "Plan Do it  3 lines · approved",
    ),
    "skill": ("Skill", {"skill": "tidy", "args": "all"}, None, "Skill tidy all"),
    "old skill": ("SlashCommand", {"command": "/tidy"}, None, "Skill /tidy"),
    "agent": (
        "Task",
        {"description": "Look", "subagent_type": "Explore", "prompt": "look"},
        {
            "status": "completed",
            "agentId": "a1",
            "totalDurationMs": 65000,
            "totalToolUseCount": 2,
        },
        "Agent Explore: Look  1m 05s · 2 calls",
    ),
    "mcp": (
        "mcp__store__add_all",
        {"name": "x", "count": 2, "deep": {"a": 1}},
        None,
        "store · add_all name=x count=2",
    ),
    "unknown": ("Brandnew", {"query": "q"}, {"what": 1}, "Brandnew q"),
    "malformed": ("Bash", {"command": ["ls"]}, None, "$"),
}


def line_of(folder: Path, name: str, given: Written, outcome: object) -> str:
    call = make_tool_call(folder, name, given, "fine", outcome=outcome)
    rows = list(render_tool_line(ToolCallFormatter(CWD).format_call(call), 80))

    assert len(rows) == 1
    return plain_text(rows[0]).strip()


@pytest.mark.parametrize(
    ("name", "given", "outcome", "line"), LINES.values(), ids=LINES
)
def test_call_is_described_in_one_line(
    name: str, given: Written, outcome: object, line: str, *, tmp_path: Path
) -> None:
    assert line_of(tmp_path, name, given, outcome) == line


def test_answers_to_questions_are_not_truncated(tmp_path: Path) -> None:
    questions = [{"question": "Which of them " * 9}]
    answers = {questions[0]["question"]: "This one"}
    outcome = {"questions": questions, "answers": answers}
    call = make_tool_call(
        tmp_path, "AskUserQuestion", {"questions": questions}, outcome=outcome
    )

    rows = list(render_tool_line(ToolCallFormatter().format_call(call), 40))

    assert [plain_text(spans) for spans in rows] == [
        "  Question Which of them Which of them…",
        "    → This one",
    ]


def test_several_questions_have_their_own_lines(tmp_path: Path) -> None:
    questions = [{"question": "Which?"}, {"question": "When?"}]
    answers = {"Which?": ["a", "b"]}
    outcome = {"questions": questions, "answers": answers}
    call = make_tool_call(
        tmp_path, "AskUserQuestion", {"questions": questions}, outcome=outcome
    )

    rows = render_tool_line(ToolCallFormatter().format_call(call), 80)

    assert [plain_text(spans) for spans in rows] == [
        "  Questions",
        "    Which?",
        "    → a, b",
        "    When?",
    ]


@pytest.mark.parametrize(
    ("content", "state", "expected"),
    [
        (None, ToolCallState.WAITING, ["  $ make  no result"]),
        (
            "Exit code 2\nmake: no rule\nmore",
            ToolCallState.FAILED,
            ["  $ make  exit 2", "    ╰ make: no rule"],
        ),
        ("Exit code 1", ToolCallState.FAILED, ["  $ make  exit 1"]),
        (
            "╭────────╮\n│ broken │\n╰────────╯",
            ToolCallState.FAILED,
            ["  $ make  failed", "    ╰ │ broken │"],
        ),
        (
            "<tool_use_error>Not allowed</tool_use_error>",
            ToolCallState.FAILED,
            ["  $ make  failed", "    ╰ Not allowed"],
        ),
        (
            "The user doesn't want to proceed with this tool use.",
            ToolCallState.REFUSED,
            ["  $ make  refused"],
        ),
        (
            "User chose to stay in plan mode and continue planning",
            ToolCallState.REFUSED,
            ["  $ make  refused"],
        ),
        (
            "[Request interrupted by user for tool use]",
            ToolCallState.INTERRUPTED,
            ["  $ make  interrupted"],
        ),
    ],
)
def test_state_of_a_call_is_shown(
    content: str | None, state: ToolCallState, expected: list[str], tmp_path: Path
) -> None:
    call = make_tool_call(tmp_path, "Bash", {"command": "make"}, content, is_error=True)

    line = ToolCallFormatter().format_call(call)

    assert line.state is state
    assert [plain_text(spans) for spans in render_tool_line(line, 80)] == expected


def test_task_progress_is_tracked(tmp_path: Path) -> None:
    session = session_of(
        tmp_path,
        thread(
            prompt("go"),
            reply([tool_use("TaskCreate", id="c1", subject="Plan")]),
            tool_result("c1", "ok", outcome={"task": {"id": "1", "subject": "Plan"}}),
            reply([tool_use("TaskCreate", id="c2", subject="Build")]),
            tool_result("c2", "ok", outcome={"task": {"id": "2", "subject": "Build"}}),
            reply([tool_use("TaskUpdate", id="c3", taskId="1", status="completed")]),
            tool_result("c3", "ok", outcome={"success": True, "taskId": "1"}),
        ),
    )
    lines = ToolCallFormatter()

    calls = [
        lines.format_call(call) for call in session.live_branch.turns[0].tool_calls
    ]

    assert [(line.subject, line.facts) for line in calls] == [
        ("#1 Plan", ("0/1 done",)),
        ("#2 Build", ("0/2 done",)),
        ("#1 completed", ("1/2 done",)),
    ]


def test_slow_call_shows_its_duration(tmp_path: Path) -> None:
    session = session_of(
        tmp_path,
        thread(
            prompt("go"),
            reply([tool_use("Bash", command="sleep")]),
            tool_result("toolu_1", "", timestamp="2026-01-05T09:01:01.000Z"),
        ),
    )

    line = ToolCallFormatter().format_call(session.live_branch.turns[0].tool_calls[0])

    assert line.facts == ("1m 00s",)


def test_outcome_shared_by_two_results_is_ignored(tmp_path: Path) -> None:
    results = [
        {"type": "tool_result", "tool_use_id": name, "content": "x"}
        for name in ("a", "b")
    ]
    uses = [tool_use("Read", id=name, file_path="f.py") for name in ("a", "b")]
    outcome = {"type": "text", "file": FILE}
    session = session_of(
        tmp_path,
        thread(prompt("go"), reply(uses), prompt(results, toolUseResult=outcome)),
    )

    lines = [
        ToolCallFormatter().format_call(call)
        for call in session.live_branch.turns[0].tool_calls
    ]

    assert [line.facts for line in lines] == [(), ()]


def test_narrow_line_keeps_the_state(tmp_path: Path) -> None:
    given = {"command": "find . -name 'x' -exec grep something {} +"}
    call = make_tool_call(tmp_path, "Bash", given, "Exit code 1\nno", is_error=True)

    first = plain_text(
        next(iter(render_tool_line(ToolCallFormatter().format_call(call), 40)))
    )

    assert first == "  $ find . -name 'x' -exec grep…  exit 1"
