"""Decoding the files that stand beside transcripts."""

from __future__ import annotations

import msgspec

from bygones.model.ids import AgentId, ToolUseId
from bygones.model.nodes import AgentNote
from bygones.model.wire import Wire

__all__ = ["parse_note"]


class _Meta(Wire, frozen=True, kw_only=True):
    tool_use_id: str | None = None
    agent_type: str | None = None
    description: str | None = None
    name: str | None = None
    model: str | None = None
    parent_agent_id: str | None = None
    stopped_by_user: bool | None = None


_decode = msgspec.json.Decoder(_Meta, strict=False).decode


def parse_note(raw: bytes, agent: AgentId) -> AgentNote | None:
    """Return what an agent's sidecar says, or ``None`` where it cannot be read."""
    try:
        meta = _decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return AgentNote(
        agent=agent,
        tool_use=ToolUseId(meta.tool_use_id) if meta.tool_use_id else None,
        type=meta.agent_type,
        description=meta.description,
        name=meta.name,
        model=meta.model,
        parent=AgentId(meta.parent_agent_id) if meta.parent_agent_id else None,
        stopped_by_user=bool(meta.stopped_by_user),
    )
