"""What calls were given and what they brought, as far as a line about them needs it."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

from bygones.model.sessions import ToolCall

__all__ = [
    "Answers",
    "Change",
    "Input",
    "Question",
    "Task",
    "decoded",
    "first_words",
    "input_of",
]

_FAILURES = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
T = TypeVar("T")


class Change(Struct, frozen=True):
    """A text and what was put in its place."""

    old_string: str | None = None
    new_string: str | None = None


class Task(Struct, frozen=True):
    """One thing to do, of any of the tools that keep a list of them."""

    id: str | int | None = None
    content: str | None = None
    subject: str | None = None
    status: str | None = None
    active_form: str | None = msgspec.field(default=None, name="activeForm")


class Question(Struct, frozen=True):
    """A question that was put to the person."""

    question: str | None = None
    header: str | None = None


Answers = dict[str, str | list[str] | None]


class Input(Struct, frozen=True):
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
    edits: list[Change] | None = None
    todos: list[Task] | None = None
    questions: list[Question] | None = None
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


_input = msgspec.json.Decoder(Input, strict=False).decode
_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_string = msgspec.json.Decoder(str | int | float | bool).decode


def input_of(call: ToolCall) -> Input:
    """Return a call's input, opened now; what does not fit is left out."""
    raw = call.input
    try:
        return _input(raw)
    except _FAILURES:
        return _piecemeal(raw)


def _piecemeal(raw: Raw) -> Input:
    """Return the fields of an odd input that have the expected form."""
    try:
        given = _fields(raw)
    except _FAILURES:
        return Input()
    known = {field.encode_name: field for field in msgspec.structs.fields(Input)}
    found = {}
    for name, value in given.items():
        field = known.get(name)
        if field is not None:
            found[field.name] = decoded(value, field.type)
    return Input(**found)


def decoded(raw: Raw | bytes, kind: type[T]) -> T | None:
    """Return raw JSON as a value of a type, or ``None`` if it is not one."""
    try:
        return msgspec.json.decode(raw, type=kind, strict=False) if bytes(raw) else None
    except _FAILURES:
        return None


def first_words(call: ToolCall) -> str:
    """Return the small values of an input, as ``name=value``, for any tool at all."""
    try:
        given = _fields(call.input)
    except _FAILURES:
        return ""
    found = []
    for name, raw in given.items():
        try:
            value = _string(raw)
        except _FAILURES:
            continue
        found.append(f"{name}={value}")
    return " ".join(found)
