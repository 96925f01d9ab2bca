"""The part of a node that depends on the type of its record."""

from __future__ import annotations

from zlib import crc32

from msgspec import Struct

from bygones.model.base import AgentId, MessageId
from bygones.model.nodes import (
    PREVIEW_LIMIT,
    Command,
    NodeBlock,
    NodeExtra,
    Notification,
    Origin,
    ResultFacts,
    SideText,
    UserText,
)
from bygones.model.usage import Billing, Usage


class NodeFacts(Struct, kw_only=True, gc=False):
    """Fields of a `RecordNode`, with the same names; filled in while it is built."""

    subtype: str | None = None
    agent_id: AgentId | None = None
    message_id: MessageId | None = None
    model: str | None = None
    usage: Usage | None = None
    billing: Billing | None = None
    origin: Origin | None = None
    preview: str = ""
    digest: int = 0
    blocks: tuple[NodeBlock, ...] = ()
    result: ResultFacts | None = None
    side_text: SideText | None = None
    command: Command | None = None
    notification: Notification | None = None
    extra: NodeExtra | None = None


def text_digest(text: str) -> int:
    return crc32(text.encode("utf-8", "replace"))


def user_text_facts(user_text: UserText, origin: Origin, text: str) -> NodeFacts:
    """Return the facts of a user text that is shown as `text`."""
    return NodeFacts(
        origin=origin,
        preview=text[:PREVIEW_LIMIT],
        digest=text_digest(text) if text else 0,
        command=user_text.command,
        notification=user_text.notification,
    )
