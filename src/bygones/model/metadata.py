"""Metadata records (titles, snapshots, queue operations, …) and attachments.

Metadata records are not part of the tree. They have no uuid, mostly no timestamp, and
are appended again after turns and resumes: the last one of a type in a file counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, ClassVar

from msgspec import Raw, Struct, field

from bygones.model.base import (
    ID_LENGTH,
    AgentId,
    AwareDatetime,
    RecordId,
    SessionId,
    ToolUseId,
    WireStruct,
)
from bygones.model.records import (
    AssistantRecord,
    Envelope,
    HookContextRecord,
    ProgressRecord,
    SystemRecord,
    UnknownRecord,
    UserRecord,
    WireOrigin,
)


class MetadataRecord(WireStruct, frozen=True, kw_only=True):
    """Base class of all metadata records."""

    types: ClassVar[tuple[str, ...]] = ()

    type: str
    session_id: SessionId | None = None
    session_id_again: SessionId | None = None
    uuid: RecordId | None = None
    timestamp: AwareDatetime | None = None


class SummaryRecord(MetadataRecord, frozen=True, kw_only=True):
    """The title of a leaf, often of one in another file."""

    types: ClassVar[tuple[str, ...]] = ("summary",)

    summary: str | None = None
    leaf_uuid: Annotated[RecordId, ID_LENGTH] | None = None
    cwd: str | None = None


class TitleRecord(MetadataRecord, frozen=True, kw_only=True):
    """A session's title, generated or chosen by the user."""

    types: ClassVar[tuple[str, ...]] = ("ai-title", "custom-title")

    ai_title: str | None = None
    custom_title: str | None = None


class AgentNameRecord(MetadataRecord, frozen=True, kw_only=True):
    """Name, color and settings of an agent or a session."""

    types: ClassVar[tuple[str, ...]] = ("agent-name", "agent-color", "agent-setting")

    agent_name: str | None = None
    agent_color: str | None = None
    agent_setting: str | None = None


class TagRecord(MetadataRecord, frozen=True, kw_only=True):
    """A tag of the session; an empty one removes the tag."""

    types: ClassVar[tuple[str, ...]] = ("tag",)

    tag: str | None = None


class LastPromptRecord(MetadataRecord, frozen=True, kw_only=True):
    """The last prompt, shortened, and its leaf; often outdated."""

    types: ClassVar[tuple[str, ...]] = ("last-prompt",)

    last_prompt: str | None = None
    leaf_uuid: Annotated[RecordId, ID_LENGTH] | None = None
    explicit: bool | None = None


class QueueOperationRecord(MetadataRecord, frozen=True, kw_only=True):
    """Text that was typed while Claude worked, added to or removed from a queue."""

    types: ClassVar[tuple[str, ...]] = ("queue-operation",)
    unused_fields: ClassVar[tuple[str, ...]] = ("commandUuid", "deliveryId")

    operation: str | None = None
    content: Raw = Raw()
    reason: str | None = None
    """Why text was removed: it was delivered to the model or to an agent."""


class FileBackup(WireStruct, frozen=True, kw_only=True):
    """One backup of a file; no name means that the file was new."""

    backup_file_name: str | None = None
    version: int | None = None
    backup_time: AwareDatetime | None = None
    real_parent_dir: str | None = None


class TrackedFiles(WireStruct, frozen=True, kw_only=True):
    """The tracked files at one message."""

    message_id: RecordId | None = None
    tracked_file_backups: dict[str, FileBackup] = field(default_factory=dict)
    timestamp: AwareDatetime | None = None


class FileSnapshotRecord(MetadataRecord, frozen=True, kw_only=True):
    """The versions of all tracked files when a message was sent."""

    types: ClassVar[tuple[str, ...]] = ("file-history-snapshot",)

    message_id: RecordId | None = None
    snapshot: TrackedFiles | None = None
    is_snapshot_update: bool = False


class FileDeltaRecord(MetadataRecord, frozen=True, kw_only=True):
    """One version of one file, added to an earlier snapshot."""

    types: ClassVar[tuple[str, ...]] = ("file-history-delta",)

    message_id: RecordId | None = None
    snapshot_message_id: RecordId | None = None
    tracking_path: str | None = None
    backup: FileBackup | None = None


class PrLinkRecord(MetadataRecord, frozen=True, kw_only=True):
    """A pull request that the session created."""

    types: ClassVar[tuple[str, ...]] = ("pr-link",)

    pr_number: int | None = None
    pr_url: str | None = None
    pr_repository: str | None = None


class Worktree(WireStruct, frozen=True, kw_only=True):
    """A git worktree and its origin."""

    original_cwd: str | None = None
    worktree_path: str | None = None
    worktree_name: str | None = None
    worktree_branch: str | None = None
    original_branch: str | None = None
    original_head_commit: str | None = None
    session_id: SessionId | None = None
    tmux_session_name: str | None = None
    hook_based: bool | None = None


class WorktreeStateRecord(MetadataRecord, frozen=True, kw_only=True):
    """The worktree of the session, or none."""

    types: ClassVar[tuple[str, ...]] = ("worktree-state",)

    worktree_session: Worktree | None = None


class RelocatedRecord(MetadataRecord, frozen=True, kw_only=True):
    """The session moved to another directory."""

    types: ClassVar[tuple[str, ...]] = ("relocated",)

    relocated_cwd: str | None = None


class ContinuedInRecord(MetadataRecord, frozen=True, kw_only=True):
    """The conversation continues in a copy with another id."""

    types: ClassVar[tuple[str, ...]] = ("continued-in",)

    continued_in_session_id: SessionId | None = None


class ForkContextRecord(MetadataRecord, frozen=True, kw_only=True):
    """First line of a forked agent: a reference to its initial context."""

    types: ClassVar[tuple[str, ...]] = ("fork-context-ref",)

    agent_id: AgentId | None = None
    parent_session_id: SessionId | None = None
    parent_last_uuid: RecordId | None = None
    context_length: int | None = None


class ResultReplacement(WireStruct, frozen=True, kw_only=True):
    """The text that replaces a tool result in the model's context."""

    kind: str | None = None
    tool_use_id: ToolUseId | None = None
    replacement: Raw = Raw()


class ContentReplacementRecord(MetadataRecord, frozen=True, kw_only=True):
    """Tool results that were replaced in the context; the originals stay in the file."""

    types: ClassVar[tuple[str, ...]] = ("content-replacement",)

    agent_id: AgentId | None = None
    replacements: tuple[ResultReplacement, ...] = ()


class ModelCost(WireStruct, frozen=True, kw_only=True):
    """The usage that Claude Code reports for one model."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    thinking_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    web_search_requests: int | None = None
    cost_usd: float | None = None


class CostStateRecord(MetadataRecord, frozen=True, kw_only=True):
    """The totals that Claude Code reports at exit; the last one counts."""

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


class TaskSummaryRecord(MetadataRecord, frozen=True, kw_only=True):
    """A summary of a background session."""

    types: ClassVar[tuple[str, ...]] = ("task-summary",)

    summary: str | None = None


class JournalRecord(MetadataRecord, frozen=True, kw_only=True):
    """One step of an agent, in the journal of its workflow."""

    types: ClassVar[tuple[str, ...]] = ("launched", "started", "result", "failed")
    unused_fields: ClassVar[tuple[str, ...]] = ("remoteSessionId", "hiddenScriptSha256")

    key: str | None = None
    agent_id: AgentId | None = None
    label: str | None = None
    phase: Raw = Raw()
    result: Raw = Raw()
    error: Raw = Raw()


class ToolsUsedRecord(MetadataRecord, frozen=True, kw_only=True):
    """The names of all tools that the session has used; the last record counts."""

    types: ClassVar[tuple[str, ...]] = ("tools-used",)

    tools: tuple[str, ...] = ()


class RequestShapeRecord(MetadataRecord, frozen=True, kw_only=True):
    """A system prompt and the definitions of all tools, before their first request."""

    is_private: ClassVar[bool] = True
    types: ClassVar[tuple[str, ...]] = ("api-request-shape",)

    agent_id: AgentId | None = None
    shape_hash: str | None = None
    version: str | None = None
    shape: Raw = Raw()


class RequestBlobRecord(MetadataRecord, frozen=True, kw_only=True):
    """A message of a request that does not follow from the records of the tree.

    It repeats a prompt together with what the harness added, for example CLAUDE.md.
    """

    is_private: ClassVar[bool] = True
    types: ClassVar[tuple[str, ...]] = ("api-request-blob",)

    agent_id: AgentId | None = None
    hash: str | None = None
    message: Raw = Raw()


class CacheBreakpoint(WireStruct, frozen=True, kw_only=True):
    """Where a request asked the API to cache its beginning."""

    path: Raw = Raw()
    value: Raw = Raw()


class ApiRequestRecord(MetadataRecord, frozen=True, kw_only=True):
    """A request to the model: `keep` messages of the request `base`, then `tail`."""

    is_private: ClassVar[bool] = True
    types: ClassVar[tuple[str, ...]] = ("api-request",)

    id: str | None = None
    version: str | None = None
    query_source: str | None = None
    agent_id: AgentId | None = None
    shape_hash: str | None = None
    params: Raw = Raw()
    base: str | None = None
    keep: int | None = None
    tail: tuple[str, ...] = ()
    """Hashes of messages; see `RequestBlobRecord`."""
    cache_control: tuple[CacheBreakpoint, ...] = ()
    request_digest: str | None = None


class HarnessStateRecord(MetadataRecord, frozen=True, kw_only=True):
    """Internal state of Claude Code that is known and not used."""

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
    unused_fields: ClassVar[tuple[str, ...]] = ("agentType", "folder", "ts", "side")

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
    """Contains accounts or devices: archived, but never indexed, shown or exported."""

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


METADATA_BY_TYPE: dict[str, type[MetadataRecord]] = {
    name: kind for kind in MetadataRecord.__subclasses__() for name in kind.types
}
"""The struct of each metadata record, by its `type`."""


class FileVersion(Struct, frozen=True, kw_only=True):
    """A version of a tracked file at one message."""

    path: str
    version: int
    message_id: RecordId | None
    """The prompt at which the file had this version."""
    saved_at: datetime | None = None
    backup_name: str | None = None
    """The name of the backup in the file history; `None` if the file was new."""

    @property
    def is_new(self) -> bool:
        """Whether the file did not exist before."""
        return self.backup_name is None


def collect_file_versions(
    records: Iterable[FileSnapshotRecord | FileDeltaRecord],
) -> dict[str, tuple[FileVersion, ...]]:
    """Return the distinct versions of each tracked file, oldest first."""
    by_path: dict[str, dict[tuple[int, str | None], FileVersion]] = {}

    def add(path: str, backup: FileBackup, message: RecordId | None) -> None:
        version = FileVersion(
            path=path,
            version=backup.version or 0,
            message_id=message,
            saved_at=backup.backup_time,
            backup_name=backup.backup_file_name,
        )
        versions = by_path.setdefault(path, {})
        versions.setdefault((version.version, version.backup_name), version)

    for record in records:
        if isinstance(record, FileSnapshotRecord):
            snapshot = record.snapshot
            for path, backup in (
                snapshot.tracked_file_backups if snapshot else {}
            ).items():
                add(path, backup, record.message_id)
        elif record.tracking_path and record.backup:
            add(record.tracking_path, record.backup, record.message_id)
    return {
        path: tuple(sorted(versions.values(), key=lambda v: v.version))
        for path, versions in by_path.items()
    }


class Attachment(WireStruct, frozen=True, kw_only=True):
    """Base class of all attachments."""

    types: ClassVar[tuple[str, ...]] = ()
    is_exported: ClassVar[bool] = False
    """Whether its content may leave the machine; others are for the model only."""

    type: str | None = None


class QueuedCommand(Attachment, frozen=True, kw_only=True):
    """Text that was typed while Claude worked, or a notification in the same queue.

    Since about 2.1.101 such a prompt has no other record.
    """

    is_exported: ClassVar[bool] = True
    types: ClassVar[tuple[str, ...]] = ("queued_command",)
    unused_fields: ClassVar[tuple[str, ...]] = (
        "source_uuid",
        "delivery_id",
        "humanTurn",
        "timestamp",
        "carriedByCompaction",
        "fileAttachments",
        "forwardedIntent",
        "imageFileUuids",
        "inlinedImageNames",
        "inlinedImagePaths",
        "isMeta",
        "savedFiles",
    )

    prompt: Raw = Raw()
    command_mode: str | None = None
    origin: WireOrigin | None = None
    image_paste_ids: Raw = Raw()


class ContextFile(Attachment, frozen=True, kw_only=True):
    """A file, folder, memory or selection that was added to the context."""

    is_exported: ClassVar[bool] = True
    types: ClassVar[tuple[str, ...]] = (
        "file",
        "edited_text_file",
        "compact_file_reference",
        "plan_file_reference",
        "read_truncation_notice",
        "already_read_file",
        "directory",
        "selected_lines_in_ide",
        "at_mention_reference",
        "image",
        "document",
        "opened_file_in_ide",
    )
    unused_fields: ClassVar[tuple[str, ...]] = (
        "savedCopyFraming",
        "rereadEntry",
        "query",
        "description",
    )

    filename: str | None = None
    display_path: str | None = None
    path: str | None = None
    content: Raw = Raw()
    snippet: str | None = None
    banner: str | None = None
    tool_use_ref: str | None = None
    plan_file_path: str | None = None
    plan_content: str | None = None
    truncated: Raw = Raw()
    line_start: Raw = Raw()
    line_end: Raw = Raw()
    ide_name: str | None = None


class HookReport(Attachment, frozen=True, kw_only=True):
    """The result of a hook."""

    is_exported: ClassVar[bool] = True
    types: ClassVar[tuple[str, ...]] = (
        "hook_success",
        "hook_non_blocking_error",
        "hook_blocking_error",
        "hook_cancelled",
        "hook_system_message",
        "hook_additional_context",
        "hook_permission_decision",
        "async_hook_response",
        "async_hook_response_batch",
    )
    unused_fields: ClassVar[tuple[str, ...]] = (
        "toolName",
        "accountMemoryBatch",
        "timedOut",
        "timeoutMs",
        "responses",
    )

    hook_name: str | None = None
    hook_event: str | None = None
    tool_use_ref: str | None = None
    stdout: str | None = None
    stderr: str | None = None
    exit_code: int | None = None
    command: str | None = None
    duration_ms: float | None = None
    content: Raw = Raw()
    blocking_error: Raw = Raw()
    decision: str | None = None
    process_id: Raw = Raw()
    response: Raw = Raw()


class CapabilityList(Attachment, frozen=True, kw_only=True):
    """Tools, agents, skills and permissions that were added or removed."""

    types: ClassVar[tuple[str, ...]] = (
        "deferred_tools_delta",
        "mcp_instructions_delta",
        "agent_listing_delta",
        "skill_listing",
        "dynamic_skill",
        "invoked_skills",
        "command_permissions",
        "team_context",
        "teammate_shutdown_batch",
        "workflow_keyword_request",
    )
    unused_fields: ClassVar[tuple[str, ...]] = (
        "readdedNames",
        "surfacedNames",
        "wireHiddenNames",
        "pendingMcpServers",
        "failedMcpServers",
        "needsAuthMcpServers",
        "addedTypes",
        "removedTypes",
        "builtInTypes",
        "builtInPluginTypes",
        "showConcurrencyNote",
        "digests",
        "model",
        "displayPath",
        "skillDir",
        "skillNames",
        "hasTaskListTools",
    )

    added_names: Raw = Raw()
    added_lines: Raw = Raw()
    added_blocks: Raw = Raw()
    removed_names: Raw = Raw()
    content: Raw = Raw()
    skill_count: int | None = None
    is_initial: bool | None = None
    allowed_tools: Raw = Raw()
    agent_id: str | None = None
    agent_name: str | None = None
    team_name: str | None = None
    team_config_path: str | None = None
    task_list_path: str | None = None
    skills: Raw = Raw()
    names: Raw = Raw()


class Reminder(Attachment, frozen=True, kw_only=True):
    """A reminder to the model: tasks, tokens, dates, budgets."""

    types: ClassVar[tuple[str, ...]] = (
        "task_reminder",
        "todo_reminder",
        "total_tokens_reminder",
        "silent_turn_reminder",
        "task_status",
        "date",
        "date_change",
        "model",
        "environment",
        "ultrathink_effort",
        "budget_usd",
        "goal_status",
        "max_turns_reached",
        "thinking_drop",
        "companion_intro",
        "remote_session_change",
        "diagnostics",
        "critical_system_reminder",
    )
    unused_fields: ClassVar[tuple[str, ...]] = (
        "date",
        "snapshot",
        "changes",
        "identity",
        "url",
        "commit",
        "pr",
        "sendUserFileHint",
        "managedCommit",
        "managedPr",
        "taskType",
        "deltaSummary",
        "outputFilePath",
        "canContinueAgent",
        "shell",
        "isNew",
        "connectorDownloadsUnchecked",
        "onlyAsSystemMessage",
        "condition",
        "durationMs",
        "failed",
        "iterations",
        "met",
        "reason",
        "sentinel",
        "tokens",
        "maxTurns",
        "turnCount",
        "blockHashes",
        "clientChange",
        "firstReportForThreadInProcess",
        "model",
        "newlyDropped",
        "querySource",
        "requestId",
        "requestedBehavior",
        "thinkingBlocksSent",
        "thinkingTurnsSent",
    )

    content: Raw = Raw()
    item_count: int | None = None
    used: Raw = Raw()
    total: Raw = Raw()
    remaining: Raw = Raw()
    new_date: str | None = None
    task_id: str | None = None
    status: str | None = None
    description: str | None = None
    files: Raw = Raw()
    text: Raw = Raw()


class ModeChange(Attachment, frozen=True, kw_only=True):
    """Plan mode or auto mode started, continues or ended."""

    types: ClassVar[tuple[str, ...]] = (
        "plan_mode",
        "plan_mode_exit",
        "plan_mode_reentry",
        "auto_mode",
        "auto_mode_exit",
    )
    unused_fields: ClassVar[tuple[str, ...]] = (
        "autoModeConsentFlow",
        "finishExposedWork",
        "bashFirst",
        "bashFirstSteer",
        "steerOnly",
        "bypass",
        "customInstructions",
    )

    reminder_type: str | None = None
    is_sub_agent: bool | None = None
    plan_file_path: str | None = None
    plan_exists: bool | None = None


class StructuredOutput(Attachment, frozen=True, kw_only=True):
    """The result of a run with structured output."""

    is_exported: ClassVar[bool] = True
    types: ClassVar[tuple[str, ...]] = ("structured_output",)
    unused_fields: ClassVar[tuple[str, ...]] = ("data", "toolUseID")

    content: Raw = Raw()
    output: Raw = Raw()


class PrivateAttachment(Attachment, frozen=True, kw_only=True):
    """Contains an account, the system prompt, tool definitions or memory files.

    Memory files are CLAUDE.md and the notes of the user; never shown or exported.
    """

    is_private: ClassVar[bool] = True
    types: ClassVar[tuple[str, ...]] = (
        "session_context",
        "credential_org",
        "prompt_snapshot",
        "deferred_tools_record",
        "instructions",
        "memory",
        "nested_memory",
        "relevant_memories",
    )


class UnknownAttachment(WireStruct, frozen=True, kw_only=True):
    """An attachment of an unknown type, or a malformed one, as raw JSON."""

    type: str
    raw: bytes


ATTACHMENTS_BY_TYPE: dict[str, type[Attachment]] = {
    name: kind for kind in Attachment.__subclasses__() for name in kind.types
}
"""The struct of each attachment, by its `type`."""

VISIBLE_ATTACHMENT_TYPES = frozenset(
    {"hook_blocking_error", "hook_non_blocking_error", "structured_output"}
)
"""The types that are shown, besides typed texts."""


class AttachmentRecord(Envelope, frozen=True, kw_only=True):
    """An attachment as a record of the tree; it may have children."""

    unused_fields: ClassVar[tuple[str, ...]] = (
        "renderedRole",
        "renderedBesideToolResult",
    )

    attachment: Attachment | UnknownAttachment | None = None
    rendered: Raw = Raw()


Record = Envelope | MetadataRecord | UnknownRecord
"""Any record."""

RECORDS_BY_TYPE: dict[str, type[Envelope | MetadataRecord]] = {
    "user": UserRecord,
    "assistant": AssistantRecord,
    "system": SystemRecord,
    "attachment": AttachmentRecord,
    "progress": ProgressRecord,
    "saved_hook_context": HookContextRecord,
    **METADATA_BY_TYPE,
}
"""The struct of each record, by its `type`."""
