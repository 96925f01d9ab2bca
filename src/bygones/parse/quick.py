"""Content as nearly every record has it, decoded at once."""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from bygones.model.blocks import Block, Text, Thinking, ToolResult, ToolUse
from bygones.model.ids import ToolUseId

__all__ = ["quick_content"]

_FAILURES = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_MISSING = Raw()


class _Text(Struct, tag_field="type", tag="text", frozen=True, gc=False):
    text: str | None = None
    citations: Raw = _MISSING

    def block(self) -> Block:
        return Text(text=self.text, citations=_given(self.citations))


class _Thinking(Struct, tag_field="type", tag="thinking", frozen=True, gc=False):
    thinking: str | None = None
    signature: str | None = None

    def block(self) -> Block:
        return Thinking(thinking=self.thinking, signature=self.signature)


class _ToolUse(Struct, tag_field="type", tag="tool_use", frozen=True, gc=False):
    id: ToolUseId | None = None
    name: str | None = None
    input: Raw = _MISSING
    caller: Raw = _MISSING
    toolset_name: str | None = None
    server_name: str | None = None

    def block(self) -> Block:
        return ToolUse(
            id=self.id,
            name=self.name,
            input=_given(self.input),
            caller=_given(self.caller),
            toolset_name=self.toolset_name,
            server_name=self.server_name,
        )


class _ToolResult(
    Struct,
    tag_field="type",
    tag="tool_result",
    frozen=True,
    rename={"outcome": "toolUseResult"},
):
    tool_use_id: ToolUseId | None = None
    content: str | list[_Text] | None = None
    is_error: bool | None = None
    outcome: Raw = _MISSING

    def block(self) -> Block:
        content = self.content
        return ToolResult(
            tool_use_id=self.tool_use_id,
            content=tuple(text.block() for text in content)
            if isinstance(content, list)
            else content,
            is_error=self.is_error,
            outcome=_given(self.outcome),
        )


_decode = msgspec.json.Decoder(
    str | list[_Text | _Thinking | _ToolUse | _ToolResult]
).decode


def quick_content(raw: Raw) -> str | tuple[Block, ...] | None:
    """Return what content says; ``None`` where it holds anything unusual."""
    try:
        told = _decode(raw)
    except _FAILURES:
        return None
    return told if isinstance(told, str) else tuple(one.block() for one in told)


def _given(raw: Raw) -> Raw:
    """Return a value that is there; null means that it is missing."""
    return _MISSING if raw is _MISSING or raw == _NULL else raw


_NULL = Raw(b"null")
