"""How fields are called in a transcript: camelCase, with its exceptions."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

__all__ = ["Wire", "wire_name"]

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
