"""Decides which records are shown in messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bygones.assemble.dedupe import TREE_KINDS
from bygones.model.base import RecordId
from bygones.model.metadata import METADATA_BY_TYPE, VISIBLE_ATTACHMENT_TYPES
from bygones.model.nodes import Origin, RecordNode

SHOWN_SYSTEM_SUBTYPES = frozenset(
    {
        None,
        "compact_boundary",
        "local_command",
        "away_summary",
        "informational",
        "scheduled_task_fire",
        "agents_killed",
        "api_error",
        "error",
        "model_refusal_fallback",
        "model_refusal_no_fallback",
        "model_consent_fallback",
    }
)
"""Subtypes of system records that are shown."""


def hidden_reason(node: RecordNode, removed: Mapping[RecordId, str]) -> str | None:
    """Return why a record is not shown, or `None` if it is.

    `removed` contains the records that a later one replaces, with the reason.
    """
    if node.uuid is not None and node.uuid in removed:
        return removed[node.uuid]
    find_reason = _REASON_BY_KIND.get(node.kind)
    if find_reason is not None:
        return find_reason(node)
    if node.kind in TREE_KINDS:
        return "context"
    return "metadata" if node.kind in METADATA_BY_TYPE else "unknown"


def _assistant_reason(node: RecordNode) -> str | None:
    return "synthetic" if node.is_synthetic and not node.is_error else None


def _user_reason(node: RecordNode) -> str | None:
    if node.origin is Origin.HARNESS or node.origin is None:
        return "harness"
    return {Origin.HOOK: "hook", Origin.WARMUP: "warm-up"}.get(node.origin)


def _system_reason(node: RecordNode) -> str | None:
    return None if node.subtype in SHOWN_SYSTEM_SUBTYPES else "notice"


def _attachment_reason(node: RecordNode) -> str | None:
    if node.subtype == "queued_command":
        return None if node.origin is Origin.PERSON else "notice"
    return None if node.subtype in VISIBLE_ATTACHMENT_TYPES else "context"


_REASON_BY_KIND: dict[str, Callable[[RecordNode], str | None]] = {
    "assistant": _assistant_reason,
    "user": _user_reason,
    "system": _system_reason,
    "attachment": _attachment_reason,
    "progress": lambda _: "progress",
}
