"""Outcomes of tools are recognized by their fields."""

from __future__ import annotations

import json

import pytest

from bygones.model.outcomes import (
    CURRENT_TOOL_NAMES,
    OUTCOME_TYPES,
    AgentOutcome,
    BashOutcome,
    EditOutcome,
    FileSearchOutcome,
    NotebookOutcome,
    PlanOutcome,
    QuestionOutcome,
    ReadOutcome,
    SkillOutcome,
    TaskOutcome,
    TaskStopOutcome,
    TextOutcome,
    TodoOutcome,
    UnknownOutcome,
    WebFetchOutcome,
    WebSearchOutcome,
    WorkflowOutcome,
)
from bygones.parse.loader import parse_outcome, parse_read_extent
from tests.build import Written, line, text, tool_result
from tests.parse.helpers import full, light, outcome

PATCH: Written = {
    "oldStart": 1,
    "oldLines": 1,
    "newStart": 1,
    "newLines": 2,
    "lines": [" a", "+b"],
}
EDIT: Written = {
    "filePath": "/a.py",
    "oldString": "a",
    "newString": "b",
    "originalFile": None,
    "structuredPatch": [PATCH],
    "userModified": False,
    "replaceAll": False,
}
USAGE = {"input_tokens": 7, "output_tokens": 3437}
SHAPES: list[tuple[str, type, Written]] = [
    ("Bash", BashOutcome, {"stdout": "o", "stderr": "", "interrupted": False}),
    ("BashOutput", BashOutcome, {"shellId": "b1", "stdoutLines": 3, "exitCode": 0}),
    ("Read", ReadOutcome, {"type": "text", "file": {"filePath": "/a", "numLines": 3}}),
    ("image", ReadOutcome, {"type": "image", "file": {"base64": "x", "type": "png"}}),
    ("notebook", ReadOutcome, {"type": "notebook", "file": {"cells": []}}),
    ("pdf", ReadOutcome, {"type": "pdf", "file": {"originalSize": 9}}),
    ("parts", ReadOutcome, {"type": "parts", "file": {"count": 2}, "pages": "1-2"}),
    ("unchanged", ReadOutcome, {"type": "file_unchanged", "file": {"filePath": "/a"}}),
    ("Edit", EditOutcome, EDIT),
    ("MultiEdit", EditOutcome, {"filePath": "/a", "edits": [], "structuredPatch": []}),
    (
        "Write",
        EditOutcome,
        {"type": "create", "filePath": "/a", "content": "x", "structuredPatch": []},
    ),
    ("NotebookEdit", NotebookOutcome, {"notebook_path": "/n", "new_source": "x"}),
    (
        "Glob",
        FileSearchOutcome,
        {"filenames": ["/a"], "numFiles": 1, "truncated": False},
    ),
    ("Grep", FileSearchOutcome, {"mode": "content", "filenames": [], "numMatches": 2}),
    ("WebFetch", WebFetchOutcome, {"url": "u", "code": 200, "codeText": "OK"}),
    (
        "WebSearch",
        WebSearchOutcome,
        {"query": "q", "results": [None, "x"], "durationSeconds": 1.5},
    ),
    ("TodoWrite", TodoOutcome, {"oldTodos": [], "newTodos": [{"content": "x"}]}),
    ("TaskCreate", TaskOutcome, {"task": {"id": "1", "subject": "x"}}),
    ("TaskGet", TaskOutcome, {"task": None}),
    ("TaskUpdate", TaskOutcome, {"success": True, "taskId": "1"}),
    ("TaskList", TaskOutcome, {"tasks": []}),
    ("TaskOutput", TaskOutcome, {"retrieval_status": "success", "task": {}}),
    ("AgentOutput", TaskOutcome, {"retrieval_status": "success", "agents": {}}),
    ("Monitor", TaskOutcome, {"taskId": "1", "timeoutMs": 1000, "persistent": True}),
    ("TaskStop", TaskStopOutcome, {"message": "m", "task_id": "1", "task_type": "x"}),
    ("KillShell", TaskStopOutcome, {"success": True, "shellId": "b1"}),
    ("killed", TaskStopOutcome, {"message": "m", "shell_id": "b1"}),
    (
        "AskUserQuestion",
        QuestionOutcome,
        {"questions": [], "answers": {}, "annotations": {}},
    ),
    ("ExitPlanMode", PlanOutcome, {"plan": "first", "isAgent": False}),
    ("Skill", SkillOutcome, {"success": True, "commandName": "pdf"}),
    (
        "Workflow",
        WorkflowOutcome,
        {"status": "async_launched", "taskId": "1", "runId": "wf_1"},
    ),
    (
        "Agent",
        AgentOutcome,
        {
            "status": "completed",
            "agentId": "a1",
            "content": [text("done")],
            "prompt": "look",
            "totalToolUseCount": 25,
            "totalDurationMs": 100032,
            "totalTokens": 32927,
            "usage": USAGE,
        },
    ),
    ("async", AgentOutcome, {"status": "async_launched", "agentId": "a1"}),
    ("remote", AgentOutcome, {"status": "remote_launched", "sessionUrl": "u"}),
    ("teammate", AgentOutcome, {"status": "teammate_spawned", "agent_id": "a1"}),
]


@pytest.mark.req("R6")
@pytest.mark.parametrize(
    ("kind", "written"),
    [shape[1:] for shape in SHAPES],
    ids=[shape[0] for shape in SHAPES],
)
def test_every_documented_outcome_has_its_struct(kind: type, written: Written) -> None:
    assert isinstance(outcome(written), kind)


@pytest.mark.req("R6")
def test_every_outcome_struct_is_documented() -> None:
    assert {kind for _, kind, _ in SHAPES} == set(OUTCOME_TYPES)


@pytest.mark.req("R6")
def test_edit_has_its_patch() -> None:
    edit = outcome(EDIT)

    (hunk,) = edit.structured_patch
    assert (edit.file_path, edit.old_string, edit.new_string) == ("/a.py", "a", "b")
    assert (hunk.old_start, hunk.new_lines, hunk.lines) == (1, 2, (" a", "+b"))


@pytest.mark.req("R6")
def test_created_file_read_file_and_shell_are_decoded() -> None:
    created = outcome({"type": "create", "filePath": "/a", "structuredPatch": []})
    read = outcome({"type": "text", "file": {"filePath": "/a", "content": "x"}})
    shell = outcome({"stdout": "o", "stderr": "e", "interrupted": True})

    assert (created.type, created.file_path) == ("create", "/a")
    assert (read.file.file_path, read.file.content) == ("/a", "x")
    assert (shell.stdout, shell.stderr, shell.interrupted) == ("o", "e", True)


@pytest.mark.req("R6")
def test_agent_outcome_has_id_counts_and_usage() -> None:
    agent = outcome(next(written for name, _, written in SHAPES if name == "Agent"))

    assert (agent.agent_id, agent.status) == ("a1", "completed")
    assert (agent.total_tokens, agent.total_tool_use_count) == (32927, 25)
    assert agent.usage.output_tokens == 3437


@pytest.mark.req("R6")
@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("Error: no", TextOutcome("Error: no")),
        ([text("x")], UnknownOutcome(line([text("x")]))),
        ({"of": "no shape"}, UnknownOutcome(b'{"of":"no shape"}')),
        (7, UnknownOutcome(b"7")),
        (None, None),
    ],
    ids=["text", "list", "object", "number", "null"],
)
def test_outcome_may_have_any_form(written: object, expected: object) -> None:
    assert outcome(written) == expected


@pytest.mark.req("R6")
def test_missing_outcome_is_none() -> None:
    assert parse_outcome(b"") is None


@pytest.mark.req("R6", "E1")
def test_outcome_that_is_not_json_is_kept_raw() -> None:
    assert parse_outcome(b'{"stdout":') == UnknownOutcome(b'{"stdout":')
    assert parse_outcome(b'"\xff"') == UnknownOutcome(b'"\xff"')


@pytest.mark.req("R6")
def test_outcome_is_decoded_in_both_decoders() -> None:
    written = tool_result("t1", "ok", outcome={"agentId": "a1"})

    assert bytes(full(written).tool_use_result) == b'{"agentId":"a1"}'
    assert bytes(light(written).tool_use_result) == b'{"agentId":"a1"}'


@pytest.mark.req("E1")
def test_invalid_field_of_an_outcome_is_left_out() -> None:
    edit = outcome(EDIT | {"structuredPatch": [PATCH, "torn"], "userModified": "?"})

    assert len(edit.structured_patch) == 1
    assert edit.user_modified is None


def test_former_tool_names_lead_to_current_ones() -> None:
    assert not set(CURRENT_TOOL_NAMES) & set(CURRENT_TOOL_NAMES.values())


@pytest.mark.parametrize(
    "shape", [item for _, kind, item in SHAPES if kind is ReadOutcome]
)
def test_read_extent_is_decoded_without_the_file(shape: Written) -> None:
    raw = json.dumps(shape).encode()
    actual, whole = parse_read_extent(raw), parse_outcome(raw)

    assert actual is not None
    assert isinstance(whole, ReadOutcome)
    assert whole.file is not None
    assert actual.file is not None
    assert (actual.type, actual.file.num_lines) == (whole.type, whole.file.num_lines)
    assert actual.file.original_size == whole.file.original_size


@pytest.mark.parametrize(
    "raw", [b"", b'"text"', b"{}", b'{"file": 3}', b'{"file": {"numLines": "x"}}']
)
def test_read_extent_of_other_outcomes_is_none(raw: bytes) -> None:
    assert parse_read_extent(raw) is None
