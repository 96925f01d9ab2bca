"""Which records are shown, and why the others are not."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bygones.assemble.dedupe import TREE_KINDS
from bygones.model.attachments import SPEAKING
from bygones.model.ids import RecordId
from bygones.model.metadata import METADATA
from bygones.model.nodes import Node
from bygones.model.texts import Origin

__all__ = ["HIDDEN_REASONS", "SHOWN_NOTICES", "hidden_reason"]

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

SHOWN_NOTICES = frozenset(
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


def hidden_reason(node: Node, gone: Mapping[RecordId, str]) -> str | None:
    """Return why a record is not shown, or ``None`` if it is."""
    if node.uuid is not None and node.uuid in gone:
        return gone[node.uuid]
    judge = _JUDGES.get(node.kind)
    if judge is not None:
        return judge(node)
    if node.kind in TREE_KINDS:
        return "context"
    return "metadata" if node.kind in METADATA else "unknown"


def _of_assistant(node: Node) -> str | None:
    return "synthetic" if node.is_synthetic and not node.is_error else None


def _of_user(node: Node) -> str | None:
    if node.origin is Origin.HARNESS or node.origin is None:
        return "harness"
    return {Origin.HOOK: "hook", Origin.WARMUP: "warm-up"}.get(node.origin)


def _of_system(node: Node) -> str | None:
    return None if node.subtype in SHOWN_NOTICES else "notice"


def _of_attachment(node: Node) -> str | None:
    if node.subtype == "queued_command":
        return None if node.origin is Origin.PERSON else "notice"
    return None if node.subtype in SPEAKING else "context"


_JUDGES: dict[str, Callable[[Node], str | None]] = {
    "assistant": _of_assistant,
    "user": _of_user,
    "system": _of_system,
    "attachment": _of_attachment,
    "progress": lambda _: "progress",
}
