"""Metadata records: titles, snapshots, queue and the rest that is not in the tree.

They have no uuid, mostly no time, and are appended again after turns and resumes:
the last one of a kind in a file counts, and their number means nothing.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import Raw, field

from bygones.model.ids import AgentId, RecordId, SessionId, ToolUseId
from bygones.model.wire import Moment, Wire

__all__ = [
    "METADATA",
    "AgentName",
    "Backup",
    "ContentReplacement",
    "ContinuedIn",
    "CostState",
    "FileDelta",
    "FileSnapshot",
    "ForkContext",
    "Journal",
    "LastPrompt",
    "MetadataRecord",
    "ModelCost",
    "PrLink",
    "PrivateRecord",
    "QueueOperation",
    "QuietRecord",
    "Relocated",
    "Replacement",
    "Snapshot",
    "Summary",
    "Tag",
    "TaskSummary",
    "Title",
    "WorktreeState",
]


class MetadataRecord(Wire, frozen=True, kw_only=True):
    """What metadata records share."""

    types: ClassVar[tuple[str, ...]] = ()

    type: str
    session_id: SessionId | None = None
    session_id_again: SessionId | None = None
    uuid: RecordId | None = None
    timestamp: Moment | None = None


class Summary(MetadataRecord, frozen=True, kw_only=True):
    """The title that Claude Code gave to a leaf, often one of another file."""

    types: ClassVar[tuple[str, ...]] = ("summary",)

    summary: str | None = None
    leaf_uuid: RecordId | None = None
    cwd: str | None = None


class Title(MetadataRecord, frozen=True, kw_only=True):
    """A session's title, made by a model or chosen by the person."""

    types: ClassVar[tuple[str, ...]] = ("ai-title", "custom-title")

    ai_title: str | None = None
    custom_title: str | None = None


class AgentName(MetadataRecord, frozen=True, kw_only=True):
    """How an agent or a session is called, coloured and set up."""

    types: ClassVar[tuple[str, ...]] = ("agent-name", "agent-color", "agent-setting")

    agent_name: str | None = None
    agent_color: str | None = None
    agent_setting: str | None = None


class Tag(MetadataRecord, frozen=True, kw_only=True):
    """A label of the session; an empty one takes the label away."""

    types: ClassVar[tuple[str, ...]] = ("tag",)

    tag: str | None = None


class LastPrompt(MetadataRecord, frozen=True, kw_only=True):
    """The newest prompt, cut, and the leaf it belongs to; often stale."""

    types: ClassVar[tuple[str, ...]] = ("last-prompt",)

    last_prompt: str | None = None
    leaf_uuid: RecordId | None = None
    explicit: bool | None = None


class QueueOperation(MetadataRecord, frozen=True, kw_only=True):
    """Text that a person typed while Claude worked, coming into or leaving a queue."""

    types: ClassVar[tuple[str, ...]] = ("queue-operation",)

    operation: str | None = None
    content: Raw = Raw()
    reason: str | None = None


class Backup(Wire, frozen=True, kw_only=True):
    """One kept version of a file; no name means that the file was new."""

    backup_file_name: str | None = None
    version: int | None = None
    backup_time: Moment | None = None
    real_parent_dir: str | None = None


class Snapshot(Wire, frozen=True, kw_only=True):
    """The tracked files at one message."""

    message_id: RecordId | None = None
    tracked_file_backups: dict[str, Backup] = field(default_factory=dict)
    timestamp: Moment | None = None


class FileSnapshot(MetadataRecord, frozen=True, kw_only=True):
    """The versions of all tracked files when a message was sent."""

    types: ClassVar[tuple[str, ...]] = ("file-history-snapshot",)

    message_id: RecordId | None = None
    snapshot: Snapshot | None = None
    is_snapshot_update: bool = False


class FileDelta(MetadataRecord, frozen=True, kw_only=True):
    """One more version of one file, added to an earlier snapshot."""

    types: ClassVar[tuple[str, ...]] = ("file-history-delta",)

    message_id: RecordId | None = None
    snapshot_message_id: RecordId | None = None
    tracking_path: str | None = None
    backup: Backup | None = None


class PrLink(MetadataRecord, frozen=True, kw_only=True):
    """A pull request that the session made."""

    types: ClassVar[tuple[str, ...]] = ("pr-link",)

    pr_number: int | None = None
    pr_url: str | None = None
    pr_repository: str | None = None


class Worktree(Wire, frozen=True, kw_only=True):
    """A git worktree and where it came from."""

    original_cwd: str | None = None
    worktree_path: str | None = None
    worktree_name: str | None = None
    worktree_branch: str | None = None
    original_branch: str | None = None
    original_head_commit: str | None = None
    session_id: SessionId | None = None
    tmux_session_name: str | None = None
    hook_based: bool | None = None


class WorktreeState(MetadataRecord, frozen=True, kw_only=True):
    """The worktree that the session works in, or none."""

    types: ClassVar[tuple[str, ...]] = ("worktree-state",)

    worktree_session: Worktree | None = None


class Relocated(MetadataRecord, frozen=True, kw_only=True):
    """The session moved to another directory."""

    types: ClassVar[tuple[str, ...]] = ("relocated",)

    relocated_cwd: str | None = None


class ContinuedIn(MetadataRecord, frozen=True, kw_only=True):
    """The conversation goes on in a copy under another id."""

    types: ClassVar[tuple[str, ...]] = ("continued-in",)

    continued_in_session_id: SessionId | None = None


class ForkContext(MetadataRecord, frozen=True, kw_only=True):
    """First line of a forked agent: the context that it began with, by reference."""

    types: ClassVar[tuple[str, ...]] = ("fork-context-ref",)

    agent_id: AgentId | None = None
    parent_session_id: SessionId | None = None
    parent_last_uuid: RecordId | None = None
    context_length: int | None = None


class Replacement(Wire, frozen=True, kw_only=True):
    """The text that stands for a tool result in the model's context."""

    kind: str | None = None
    tool_use_id: ToolUseId | None = None
    replacement: Raw = Raw()


class ContentReplacement(MetadataRecord, frozen=True, kw_only=True):
    """Tool results that the model no longer sees in full; the originals stay."""

    types: ClassVar[tuple[str, ...]] = ("content-replacement",)

    agent_id: AgentId | None = None
    replacements: tuple[Replacement, ...] = ()


class ModelCost(Wire, frozen=True, kw_only=True):
    """Claude Code's own count for one model."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    thinking_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    web_search_requests: int | None = None
    cost_usd: float | None = None


class CostState(MetadataRecord, frozen=True, kw_only=True):
    """Claude Code's own totals, written at exit; the last one counts."""

    types: ClassVar[tuple[str, ...]] = ("cost-state",)

    total_cost_usd: float | None = None
    total_api_duration: float | None = None
    total_api_duration_without_retries: float | None = None
    total_tool_duration: float | None = None
    total_duration: float | None = None
    total_lines_added: int | None = None
    total_lines_removed: int | None = None
    start_time: Raw = Raw()
    has_unknown_model_cost: bool | None = None
    model_usage: dict[str, ModelCost] = field(default_factory=dict)


class TaskSummary(MetadataRecord, frozen=True, kw_only=True):
    """A recap of a background session."""

    types: ClassVar[tuple[str, ...]] = ("task-summary",)

    summary: str | None = None


class Journal(MetadataRecord, frozen=True, kw_only=True):
    """One step of a workflow's agents, in the workflow's own journal."""

    types: ClassVar[tuple[str, ...]] = ("launched", "started", "result", "failed")

    key: str | None = None
    agent_id: AgentId | None = None
    label: str | None = None
    phase: Raw = Raw()
    result: Raw = Raw()
    error: Raw = Raw()


class QuietRecord(MetadataRecord, frozen=True, kw_only=True):
    """State of the harness that is known and of no use to a reader."""

    types: ClassVar[tuple[str, ...]] = (
        "mode",
        "permission-mode",
        "history-suppression",
        "frame-link",
        "attribution-snapshot",
        "speculation-accept",
        "marble-origami-commit",
        "marble-origami-snapshot",
        "marble-origami-reset",
        "atis-latch",
        "isolation-latch",
        "ended-by-model",
        "observer-ref",
        "dev-mods",
        "agent_metadata",
    )

    mode: str | None = None
    permission_mode: str | None = None
    cause: str | None = None
    path: str | None = None
    frame_url: str | None = None
    title: str | None = None
    artifact_count: int | None = None
    message_id: RecordId | None = None
    surface: str | None = None
    file_states: Raw = Raw()
    time_saved_ms: float | None = None
    atis: Raw = Raw()


class PrivateRecord(MetadataRecord, frozen=True, kw_only=True):
    """Names accounts or devices; kept as bytes, never indexed, shown or exported."""

    is_private: ClassVar[bool] = True
    types: ClassVar[tuple[str, ...]] = (
        "bridge-session",
        "artifact-autoreact-ledger",
        "artifact-comment-monitor",
    )

    bridge_session_id: Raw = Raw()
    last_sequence_num: Raw = Raw()
    owner_account_uuid: Raw = Raw()
    owner_organization_uuid: Raw = Raw()
    version_number: Raw = Raw()
    artifacts: Raw = Raw()
    account_uuid: Raw = Raw()


METADATA: dict[str, type[MetadataRecord]] = {
    name: kind for kind in MetadataRecord.__subclasses__() for name in kind.types
}
"""The struct of each metadata record type by the name it has in a transcript."""
