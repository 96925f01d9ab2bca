"""Which records are shown, and why the others are not."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bygones.assemble.dedupe import TREE_KINDS
from bygones.model.base import RecordId
from bygones.model.metadata import METADATA_BY_TYPE, VISIBLE_ATTACHMENT_TYPES
from bygones.model.nodes import Origin, RecordNode

__all__ = ["HIDDEN_REASONS", "SHOWN_SYSTEM_SUBTYPES", "hidden_reason"]

HIDDEN_REASONS = {
    "copy": "the same record stands elsewhere",
    "superseded": "a later record replaces it",
    "retracted": "another model answered instead",
    "synthetic": "the client wrote it to fill a gap",
    "harness": "the harness put it into the context",
    "hook": "a hook put it into the context",
    "warm-up": "it only warms an agent up",
    "context": "an attachment that repeats what is known",
    "progress": "a sign of life of a running tool",
    "notice": "a notice that tells a reader nothing",
    "metadata": "it says something about the session, not in it",
    "answered-again": "a later result of the same call is shown",
    "unknown": "of a type that is not known",
}
"""Every reason for which a record is in no message."""

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
"""Subtypes of system records that a reader wants to see."""


def hidden_reason(node: RecordNode, removed: Mapping[RecordId, str]) -> str | None:
    """Return why a record is not shown, or ``None`` if it is."""
    if node.uuid is not None and node.uuid in removed:
        return removed[node.uuid]
    judge = _REASON_BY_KIND.get(node.kind)
    if judge is not None:
        return judge(node)
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
