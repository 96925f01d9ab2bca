"""Tool calls as HTML."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bygones.render.html.tool_calls import ToolCallOptions, render_tool_call
from bygones.render.tool_line import ToolCallFormatter
from tests.build import Written, image, text
from tests.render.html.outline import attributes, outline, tags
from tests.render.shared import make_tool_call

HERE = Path(__file__).parent / "calls"
LONG = "for n in 1 2 3; do\n  echo $n\ndone"
PATCH = {
    "oldStart": 3,
    "oldLines": 2,
    "newStart": 3,
    "newLines": 2,
    "lines": [" def f():", "-    return 1", "+    return 2"],
}
TASKS = [
    {"content": "Look", "status": "completed", "activeForm": "Looking"},
    {"content": "Mend <it>", "status": "in_progress", "activeForm": "Mending"},
    {"content": "Test", "status": "pending", "activeForm": "Testing"},
]
QUESTIONS = [
    {
        "question": "Which one?",
        "header": "Choice",
        "options": [
            {"label": "The first", "description": "It is there"},
            {"label": "The second", "description": "It is better"},
        ],
    }
]
HITS = [{"content": [{"title": "A <page>", "url": "https://a.dev/?a=1&b"}]}, "And so."]

CALLS: dict[str, tuple[str, Written, str | list[Written] | None, Written]] = {
    "bash": ("Bash", {"command": LONG}, "1\n2\n3", {}),
    "bash_failed": (
        "Bash",
        {"command": "false"},
        "Exit code 1\nno",
        {"is_error": True},
    ),
    "bash_waiting": ("Bash", {"command": "sleep 9"}, None, {}),
    "read": ("Read", {"file_path": "/work/demo/a.py"}, "     1\tx = 1", {}),
    "read_image": ("Read", {"file_path": "/a.png"}, [image()], {}),
    "edit": (
        "Edit",
        {"file_path": "/work/demo/a.py", "old_string": "1", "new_string": "2"},
        "ok",
        {"outcome": {"filePath": "/work/demo/a.py", "structuredPatch": [PATCH]}},
    ),
    "edit_refused": (
        "Edit",
        {"file_path": "/a.py", "old_string": "1", "new_string": "2"},
        "The user doesn't want to proceed with this tool use.",
        {"is_error": True},
    ),
    "write": (
        "Write",
        {"file_path": "/work/demo/new.py", "content": "a = 1\nb = 2\n"},
        "File created",
        {},
    ),
    "grep": (
        "Grep",
        {"pattern": "<x>", "path": "/work/demo"},
        "a.py:1:<x>",
        {"outcome": {"filenames": ["a.py"], "numFiles": 1}},
    ),
    "glob": ("Glob", {"pattern": "**/*.py"}, "a.py\nb.py", {}),
    "todo": ("TodoWrite", {"todos": TASKS}, "Todos have been modified", {}),
    "task_update": ("TaskUpdate", {"taskId": "1", "status": "completed"}, "ok", {}),
    "task_list": (
        "TaskList",
        {},
        "#1 Look",
        {"outcome": {"tasks": [{"id": 1, "subject": "Look", "status": "completed"}]}},
    ),
    "plan": ("ExitPlanMode", {"plan": "# The plan\n\n1. **Look**\n2. Mend"}, "ok", {}),
    "question": (
        "AskUserQuestion",
        {"questions": QUESTIONS},
        "answered",
        {"outcome": {"questions": QUESTIONS, "answers": {"Which one?": "The second"}}},
    ),
    "question_own": (
        "AskUserQuestion",
        {"questions": QUESTIONS},
        "answered",
        {"outcome": {"questions": QUESTIONS, "answers": {"Which one?": "Neither"}}},
    ),
    "web_fetch": (
        "WebFetch",
        {"url": "https://a.dev", "prompt": "What?"},
        "It says **so**",
        {
            "outcome": {
                "url": "https://a.dev",
                "code": 200,
                "codeText": "OK",
                "bytes": 900,
                "result": "It says **so**",
            }
        },
    ),
    "web_search": (
        "WebSearch",
        {"query": "cats"},
        "found",
        {"outcome": {"query": "cats", "results": HITS, "durationSeconds": 1.5}},
    ),
    "agent": ("Task", {"prompt": "Go\nand look", "description": "Look"}, "Done.", {}),
    "mcp": ("mcp__db__query", {"sql": "select 1", "n": [1]}, [text("1 row")], {}),
    "unknown": ("Nowhere<b>", {"deep": {"list": [1, None]}}, "<i>", {}),
}


@pytest.mark.parametrize("name", CALLS)
def test_call_matches_its_golden_file(
    name: str, tmp_path: Path, golden: Callable[[Path, str], None]
) -> None:
    tool, given, content, answer = CALLS[name]
    call = make_tool_call(tmp_path, tool, given, content, **answer)

    html = render_tool_call(call, ToolCallFormatter("/work/demo").format_call(call))

    golden(HERE / f"{name}.txt", outline(html))


def test_call_followed_by_its_agent_has_no_body(tmp_path: Path) -> None:
    call = make_tool_call(tmp_path, "Task", {"prompt": "Go"}, "Done.")

    html = render_tool_call(
        call,
        ToolCallFormatter().format_call(call),
        ToolCallOptions(has_agent_below=True),
    )

    assert tags(html) == {"div", "b"}


@pytest.mark.parametrize("url", ["javascript:alert(1)", "data:text/html,x", "//a.dev"])
def test_search_results_link_to_web_pages_only(url: str, tmp_path: Path) -> None:
    results = [{"content": [{"title": "A", "url": url}]}]
    outcome = {"query": "cats", "results": results, "durationSeconds": 1}
    call = make_tool_call(
        tmp_path, "WebSearch", {"query": "cats"}, "x", outcome=outcome
    )

    html = render_tool_call(call, ToolCallFormatter().format_call(call))

    assert [item for item in attributes(html) if item[1] == "href"] == []


def test_truncated_subject_ends_with_an_ellipsis(tmp_path: Path) -> None:
    call = make_tool_call(tmp_path, "Bash", {"command": "word " * 50}, "ok")

    summary = render_tool_call(call, ToolCallFormatter().format_call(call)).partition(
        "</summary>"
    )[0]

    assert summary.endswith("word …</code>")


def test_long_error_is_cut_in_the_line_and_complete_below(tmp_path: Path) -> None:
    call = make_tool_call(
        tmp_path,
        "Bash",
        {"command": "x"},
        f"went wrong {'very ' * 500}!",
        is_error=True,
    )
    html = render_tool_call(call, ToolCallFormatter().format_call(call))
    summary, body = html.split("</summary>", 1)

    assert "went wrong very" in summary
    assert len(summary) < 600
    assert summary.count("…") == 1
    assert "very !" in body
