"""Sketches: what the light pass keeps of a record, decoded in one go.

A sketch has what ingestion needs of the records that fill a transcript (user,
assistant, progress) and the envelope of all others; the latter are small and are
decoded in full where somebody needs them. Tool input and output stay raw JSON: most
bytes of a transcript are tool output, and nobody may look at them.
"""

from __future__ import annotations

from msgspec import Raw, Struct

from bygones.model.ids import (
    AgentId,
    MessageId,
    Position,
    RecordId,
    SessionId,
    ToolUseId,
)
from bygones.model.usage import WireUsage
from bygones.model.wire import ForkedFrom, Moment, wire_name

__all__ = [
    "Sketch",
    "SketchBlock",
    "SketchMessage",
    "SketchOrigin",
    "SketchProgress",
    "Sketched",
]


class SketchBlock(Struct, frozen=True, kw_only=True, gc=False):
    """A content block; ``input`` and ``content`` are JSON, not yet decoded."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    id: ToolUseId | None = None
    name: str | None = None
    input: Raw = Raw()
    tool_use_id: ToolUseId | None = None
    content: Raw = Raw()
    is_error: bool | None = None
    source: Raw = Raw()


class SketchMessage(Struct, frozen=True, kw_only=True, gc=False):
    """The message of a user or assistant record."""

    role: str | None = None
    model: str | None = None
    id: MessageId | None = None
    content: str | list[SketchBlock] | None = None
    usage: WireUsage | None = None


class SketchOrigin(Struct, frozen=True, kw_only=True, gc=False):
    """Who sent a user record, as newer versions say it."""

    kind: str | None = None


class SketchProgress(Struct, frozen=True, kw_only=True, gc=False, rename=wire_name):
    """Which agent a progress record tells of."""

    type: str | None = None
    agent_id: AgentId | None = None
    message: Raw = Raw()
    """A record of the agent, repeated whole."""


class Sketch(Struct, frozen=True, kw_only=True, gc=False, rename=wire_name):
    """A record as the light pass sees it, in the order in which fields are written."""

    parent_uuid: RecordId | None = None
    logical_parent_uuid: RecordId | None = None
    is_sidechain: bool = False
    prompt_id: str | None = None
    agent_id: AgentId | None = None
    cwd: str | None = None
    session_id: SessionId | None = None
    version: str | None = None
    git_branch: str | None = None
    slug: str | None = None
    type: str | None = None
    subtype: str | None = None
    message: SketchMessage | None = None
    progress: SketchProgress | None = None
    request_id: str | None = None
    is_api_error_message: bool = False
    is_meta: bool = False
    is_compact_summary: bool = False
    parent_tool_use: ToolUseId | None = None
    uuid: RecordId | None = None
    timestamp: Moment | None = None
    tool_use_result: Raw = Raw()
    source_tool_assistant: RecordId | None = None
    source_tool_use: ToolUseId | None = None
    entrypoint: str | None = None
    team_name: str | None = None
    forked_from: ForkedFrom | None = None
    supersedes_uuids: tuple[RecordId, ...] = ()
    session_kind: str | None = None
    origin: SketchOrigin | None = None


class Sketched(Struct, frozen=True, gc=False):
    """A sketch with the place of the bytes it was made from, and those bytes."""

    sketch: Sketch
    position: Position
    raw: bytes
