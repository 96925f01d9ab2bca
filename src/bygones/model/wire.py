"""How fields are called in a transcript: camelCase, with its exceptions."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from bygones.model.ids import RecordId, SessionId

__all__ = ["CALLS", "ForkedFrom", "Moment", "Wire", "wire_name"]

CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")
"""The types of blocks that are calls."""
Moment = Annotated[datetime, Meta(tz=True)]
"""A point in time that knows its zone."""
_EXCEPTIONS = {
    "session_id_again": "session_id",
    "source_tool_assistant": "sourceToolAssistantUUID",
    "source_tool_use": "sourceToolUseID",
    "tool_use_ref": "toolUseID",
    "parent_tool_use": "parentToolUseID",
    "cost_usd": "costUSD",
    "total_cost_usd": "totalCostUSD",
    "total_api_duration": "totalAPIDuration",
    "total_api_duration_without_retries": "totalAPIDurationWithoutRetries",
    "compaction": "compactMetadata",
    "microcompaction": "microcompactMetadata",
    "hooks": "hookInfos",
    "progress": "data",
    "sender": "from",
    "version_number": "v",
    "cleared_attachments": "clearedAttachmentUUIDs",
}


def wire_name(field: str) -> str:
    """Return the name that a struct's field has in a transcript."""
    if field in _EXCEPTIONS:
        return _EXCEPTIONS[field]
    first, *rest = field.split("_")
    return first + "".join(word.capitalize() for word in rest)


class Wire(Struct, frozen=True, kw_only=True, rename=wire_name):
    """A value that is written in a transcript; every field may be missing there."""

    is_private: ClassVar[bool] = False
    """Whether it must never be indexed, exported or shown to an agent."""


class ForkedFrom(Wire, frozen=True, kw_only=True):
    """The record of another session that this one was copied from."""

    session_id: SessionId | None = None
    message_uuid: RecordId | None = None
