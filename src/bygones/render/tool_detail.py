"""Inputs and results of tool calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

from bygones.model.base import DECODE_ERRORS
from bygones.model.outcomes import (
    CURRENT_TOOL_NAMES,
    PatchHunk,
    PlanOutcome,
    QuestionOutcome,
    TaskOutcome,
    TodoOutcome,
    build_hunks,
)
from bygones.model.sessions import ToolCall
from bygones.render.message_text import result_text
from bygones.render.text.primitives import SpanStyle, StyledSpan, sanitized_lines

T = TypeVar("T")


class TextEdit(Struct, frozen=True):
    old_string: str | None = None
    new_string: str | None = None


class TodoItem(Struct, frozen=True):
    """An entry of a todo or task list, as the different tools write it."""

    id: str | int | None = None
    content: str | None = None
    subject: str | None = None
    status: str | None = None
    active_form: str | None = msgspec.field(default=None, name="activeForm")


class QuestionOption(Struct, frozen=True):
    label: str | None = None
    description: str | None = None


class UserQuestion(Struct, frozen=True):
    question: str | None = None
    header: str | None = None
    options: list[QuestionOption] | None = None

    @property
    def text(self) -> str:
        return self.question or self.header or ""


QuestionAnswers = dict[str, str | list[str] | None]


class ToolInput(Struct, frozen=True):
    """The fields that are shown of all tools' inputs."""

    command: str | None = None
    file_path: str | None = None
    notebook_path: str | None = None
    path: str | None = None
    pattern: str | None = None
    glob: str | None = None
    query: str | None = None
    url: str | None = None
    content: str | None = None
    old_string: str | None = None
    new_string: str | None = None
    new_source: str | None = None
    edits: list[TextEdit] | None = None
    todos: list[TodoItem] | None = None
    questions: list[UserQuestion] | None = None
    plan: str | None = None
    skill: str | None = None
    args: str | None = None
    subject: str | None = None
    status: str | None = None
    task_id: str | int | None = None
    task: str | int | None = msgspec.field(default=None, name="taskId")
    bash_id: str | None = None
    shell_id: str | None = None
    agent: str | None = msgspec.field(default=None, name="agentId")
    description: str | None = None
    subagent_type: str | None = None
    to: str | None = None
    summary: str | None = None


_decode_input = msgspec.json.Decoder(ToolInput, strict=False).decode
_decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_scalar = msgspec.json.Decoder(str | int | float | bool).decode


def parse_tool_input(call: ToolCall) -> ToolInput:
    """Load and decode the input of a call; fields of another type are left out."""
    raw = call.raw_input
    try:
        return _decode_input(raw)
    except DECODE_ERRORS:
        return _parse_valid_fields(raw)


def _parse_valid_fields(raw: Raw) -> ToolInput:
    try:
        raw_fields = _decode_fields(raw)
    except DECODE_ERRORS:
        return ToolInput()
    fields = {field.encode_name: field for field in msgspec.structs.fields(ToolInput)}
    values = {}
    for name, value in raw_fields.items():
        field = fields.get(name)
        if field is not None:
            values[field.name] = decode_or_none(value, field.type)
    return ToolInput(**values)


def decode_or_none(raw: Raw | bytes, type_: type[T]) -> T | None:
    """Decode JSON; return ``None`` if it does not match the type."""
    try:
        return (
            msgspec.json.decode(raw, type=type_, strict=False) if bytes(raw) else None
        )
    except DECODE_ERRORS:
        return None


def summarize_input(call: ToolCall) -> str:
    """Return the scalar values of an input as ``name=value``, for any tool."""
    try:
        raw_fields = _decode_fields(call.raw_input)
    except DECODE_ERRORS:
        return ""
    parts = []
    for name, raw in raw_fields.items():
        try:
            value = _decode_scalar(raw)
        except DECODE_ERRORS:
            continue
        parts.append(f"{name}={value}")
    return " ".join(parts)


def find_todos(call: ToolCall) -> list[TodoItem]:
    """Return the entries of a todo list after the call."""
    outcome = call.outcome
    todos = None
    if isinstance(outcome, TodoOutcome):
        todos = decode_or_none(outcome.new_todos, list[TodoItem])
    return todos or parse_tool_input(call).todos or []


def find_tasks(call: ToolCall) -> list[TodoItem]:
    """Return the entries of a task list that a call returned."""
    outcome = call.outcome
    if not isinstance(outcome, TaskOutcome):
        return []
    return decode_or_none(outcome.tasks, list[TodoItem]) or []


def find_plan(call: ToolCall) -> str:
    outcome = call.outcome
    plan = outcome.plan if isinstance(outcome, PlanOutcome) else None
    return plan or parse_tool_input(call).plan or ""


def find_questions(call: ToolCall) -> tuple[list[UserQuestion], QuestionAnswers]:
    """Return the questions of a call and the answers by question."""
    outcome = call.outcome
    questions = parse_tool_input(call).questions or []
    answers: QuestionAnswers = {}
    if isinstance(outcome, QuestionOutcome):
        if not questions:
            questions = decode_or_none(outcome.questions, list[UserQuestion]) or []
        answers = decode_or_none(outcome.answers, QuestionAnswers) or {}
    return questions, answers


def find_web_pages(results: Raw) -> Iterator[WebPage]:
    """Yield the pages that a web search found, in any of the forms it has had."""
    for raw in decode_or_none(results, list[Raw]) or ():
        result = decode_or_none(raw, _WebSearchResult)
        if result is not None:
            yield from result.content or ()
            if not result.content and result.url:
                yield WebPage(result.title, result.url)


class WebPage(Struct, frozen=True):
    title: str | None = None
    url: str | None = None


class _WebSearchResult(Struct, frozen=True):
    content: list[WebPage] | None = None
    title: str | None = None
    url: str | None = None


_INLINE_COMMAND_CHARS = 40
"""Shorter commands are shown completely by the line of the call."""


def render_input(call: ToolCall) -> Iterator[StyledSpan]:
    """Yield the lines of an input: a command, a diff, or formatted JSON."""
    name = CURRENT_TOOL_NAMES.get(call.name, call.name)
    fields = parse_tool_input(call)
    if name in {"Bash", "PowerShell"} and fields.command:
        if "\n" in fields.command or len(fields.command) > _INLINE_COMMAND_CHARS:
            yield from _render_lines(fields.command, SpanStyle.CODE)
    elif name in {"Edit", "Write", "MultiEdit", "NotebookEdit"}:
        yield from _render_hunks(build_hunks(call.outcome, call.raw_input))
    else:
        yield from _render_lines(format_json(bytes(call.raw_input)), SpanStyle.CODE)


def render_result(call: ToolCall) -> Iterator[StyledSpan]:
    text = output_text(call)
    if text:
        yield from _render_lines(
            text, SpanStyle.WARNING if call.is_error else SpanStyle.OUTPUT
        )
    for path, hunks in shell_diffs(call):
        yield from _render_lines(path, SpanStyle.META)
        yield from _render_hunks(hunks)


def shell_diffs(call: ToolCall) -> Iterator[tuple[str, tuple[PatchHunk, ...]]]:
    """Yield the files that a shell command changed and whose lines are recorded."""
    facts = call.result_facts
    files = [f for f in facts.changed_files if f.has_diff] if facts else []
    outcome = call.outcome if files else None
    for file in files:
        yield file.path, build_hunks(outcome, Raw(), file.path)


def output_text(call: ToolCall) -> str:
    """Load the result of a call as text; a long one is stored in its own file."""
    return call.stored_output or result_text(call.result)


def _render_lines(text: str, style: SpanStyle) -> Iterator[StyledSpan]:
    for line in sanitized_lines(text.rstrip("\n")):
        yield StyledSpan(line, style)


def _render_hunks(hunks: Iterable[PatchHunk]) -> Iterator[StyledSpan]:
    for hunk in hunks:
        if hunk.old_start or hunk.new_start:
            yield StyledSpan(
                f"@@ -{hunk.old_start},{hunk.old_lines} "
                f"+{hunk.new_start},{hunk.new_lines} @@",
                SpanStyle.META,
            )
        for line in hunk.lines:
            for part in sanitized_lines(line):
                yield StyledSpan(part, _DIFF_STYLES.get(line[:1], SpanStyle.CODE))


_DIFF_STYLES = {"+": SpanStyle.ADDED, "-": SpanStyle.REMOVED}


def format_json(raw: bytes) -> str:
    """Indent JSON; bytes that are not JSON are returned unchanged."""
    if not raw or raw == b"{}":
        return ""
    try:
        return msgspec.json.format(raw, indent=2).decode("utf-8", "replace")
    except (msgspec.MsgspecError, RecursionError):
        return raw.decode("utf-8", "replace")
