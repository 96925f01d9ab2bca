"""Calls in full: what a tool was given and what it answered, line by line."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from bygones.model.changes import hunks_of
from bygones.model.sessions import ToolCall
from bygones.model.tools import TOOL_NAMES
from bygones.render.inputs import input_of
from bygones.render.prose import unwrapped
from bygones.render.spans import Span, Style
from bygones.render.words import result_text

__all__ = ["answered", "given", "output_text", "pretty"]

_SEEN = 40
"""Signs of a command that its own line shows whole, however narrow the terminal."""


def given(call: ToolCall) -> Iterator[Span]:
    """Yield the lines of a call's input: a command, a diff, or any JSON."""
    name = TOOL_NAMES.get(call.name, call.name)
    fields = input_of(call)
    if name in {"Bash", "PowerShell"} and fields.command:
        if "\n" in fields.command or len(fields.command) > _SEEN:
            yield from _lines(fields.command, Style.CODE)
    elif name in {"Edit", "Write", "MultiEdit", "NotebookEdit"}:
        yield from _changes(call)
    else:
        yield from _lines(pretty(bytes(call.input)), Style.CODE)


def answered(call: ToolCall) -> Iterator[Span]:
    """Yield the lines of a call's result; a long one comes from its own file."""
    text = output_text(call)
    if text:
        yield from _lines(text, Style.ALERT if call.is_error else Style.OUTPUT)


def output_text(call: ToolCall) -> str:
    """Return what a call answered as one text, opened now."""
    return call.stored_output or result_text(call.result)


def _lines(text: str, style: Style) -> Iterator[Span]:
    for line in unwrapped(text.rstrip("\n")):
        yield Span(line, style)


def _changes(call: ToolCall) -> Iterator[Span]:
    for hunk in hunks_of(call.outcome, call.input):
        if hunk.old_start or hunk.new_start:
            yield Span(
                f"@@ -{hunk.old_start},{hunk.old_lines} "
                f"+{hunk.new_start},{hunk.new_lines} @@",
                Style.FACT,
            )
        for line in hunk.lines:
            for part in unwrapped(line):
                yield Span(part, _SIGNS.get(line[:1], Style.CODE))


_SIGNS = {"+": Style.ADDED, "-": Style.REMOVED}


def pretty(raw: bytes) -> str:
    """Return JSON on lines of its own; what is none as it stands."""
    if not raw or raw == b"{}":
        return ""
    try:
        return msgspec.json.format(raw, indent=2).decode("utf-8", "replace")
    except (msgspec.MsgspecError, RecursionError):
        return raw.decode("utf-8", "replace")
