"""What calls were given and what they brought, as far as a line about them needs it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

from bygones.model.base import DECODE_ERRORS
from bygones.model.outcomes import CURRENT_TOOL_NAMES, build_hunks
from bygones.model.sessions import ToolCall
from bygones.render.message_text import result_text
from bygones.render.text.primitives import SpanStyle, StyledSpan, sanitized_lines

T = TypeVar("T")


class TextEdit(Struct, frozen=True):
    """A text and what was put in its place."""

    old_string: str | None = None
    new_string: str | None = None


class TodoItem(Struct, frozen=True):
    """One thing to do, of any of the tools that keep a list of them."""

    id: str | int | None = None
    content: str | None = None
    subject: str | None = None
    status: str | None = None
    active_form: str | None = msgspec.field(default=None, name="activeForm")


class UserQuestion(Struct, frozen=True):
    """A question that was put to the person."""

    question: str | None = None
    header: str | None = None


QuestionAnswers = dict[str, str | list[str] | None]


class ToolInput(Struct, frozen=True):
    """The fields of all tools' inputs that are shown on a line."""

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
    """Return a call's input, opened now; what does not fit is left out."""
    raw = call.input
    try:
        return _decode_input(raw)
    except DECODE_ERRORS:
        return _parse_valid_fields(raw)


def _parse_valid_fields(raw: Raw) -> ToolInput:
    """Return the fields of an odd input that have the expected form."""
    try:
        given = _decode_fields(raw)
    except DECODE_ERRORS:
        return ToolInput()
    known = {field.encode_name: field for field in msgspec.structs.fields(ToolInput)}
    found = {}
    for name, value in given.items():
        field = known.get(name)
        if field is not None:
            found[field.name] = decode_or_none(value, field.type)
    return ToolInput(**found)


def decode_or_none(raw: Raw | bytes, type_: type[T]) -> T | None:
    """Return raw JSON as a value of a type, or ``None`` if it is not one."""
    try:
        return (
            msgspec.json.decode(raw, type=type_, strict=False) if bytes(raw) else None
        )
    except DECODE_ERRORS:
        return None


def summarize_input(call: ToolCall) -> str:
    """Return the small values of an input, as ``name=value``, for any tool at all."""
    try:
        given = _decode_fields(call.input)
    except DECODE_ERRORS:
        return ""
    found = []
    for name, raw in given.items():
        try:
            value = _decode_scalar(raw)
        except DECODE_ERRORS:
            continue
        found.append(f"{name}={value}")
    return " ".join(found)


_INLINE_COMMAND_CHARS = 40
"""Signs of a command that its own line shows whole, however narrow the terminal."""


def render_input(call: ToolCall) -> Iterator[StyledSpan]:
    """Yield the lines of a call's input: a command, a diff, or any JSON."""
    name = CURRENT_TOOL_NAMES.get(call.name, call.name)
    fields = parse_tool_input(call)
    if name in {"Bash", "PowerShell"} and fields.command:
        if "\n" in fields.command or len(fields.command) > _INLINE_COMMAND_CHARS:
            yield from _render_lines(fields.command, SpanStyle.CODE)
    elif name in {"Edit", "Write", "MultiEdit", "NotebookEdit"}:
        yield from _render_diff(call)
    else:
        yield from _render_lines(format_json(bytes(call.input)), SpanStyle.CODE)


def render_result(call: ToolCall) -> Iterator[StyledSpan]:
    """Yield the lines of a call's result; a long one comes from its own file."""
    text = output_text(call)
    if text:
        yield from _render_lines(
            text, SpanStyle.WARNING if call.is_error else SpanStyle.OUTPUT
        )


def output_text(call: ToolCall) -> str:
    """Return what a call answered as one text, opened now."""
    return call.stored_output or result_text(call.result)


def _render_lines(text: str, style: SpanStyle) -> Iterator[StyledSpan]:
    for line in sanitized_lines(text.rstrip("\n")):
        yield StyledSpan(line, style)


def _render_diff(call: ToolCall) -> Iterator[StyledSpan]:
    for hunk in build_hunks(call.outcome, call.input):
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
    """Return JSON on lines of its own; what is none as it stands."""
    if not raw or raw == b"{}":
        return ""
    try:
        return msgspec.json.format(raw, indent=2).decode("utf-8", "replace")
    except (msgspec.MsgspecError, RecursionError):
        return raw.decode("utf-8", "replace")
