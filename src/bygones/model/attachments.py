"""Attachments: what the harness adds to the context between messages."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Raw

from bygones.model.records import Envelope, WireOrigin
from bygones.model.wire import Wire

__all__ = [
    "ATTACHMENTS",
    "SPEAKING",
    "Attachment",
    "AttachmentRecord",
    "CapabilityList",
    "ContextFile",
    "HookReport",
    "ModeChange",
    "PrivateAttachment",
    "QueuedCommand",
    "Reminder",
    "StructuredOutput",
    "UnknownAttachment",
]


class Attachment(Wire, frozen=True, kw_only=True):
    """What all attachments have: a type."""

    types: ClassVar[tuple[str, ...]] = ()

    type: str | None = None


class QueuedCommand(Attachment, frozen=True, kw_only=True):
    """Text typed while Claude worked, or a notice put into the same queue.

    Since about 2.1.101 such a prompt is recorded nowhere else.
    """

    types: ClassVar[tuple[str, ...]] = ("queued_command",)

    prompt: Raw = Raw()
    command_mode: str | None = None
    origin: WireOrigin | None = None
    image_paste_ids: Raw = Raw()
    source_uuid: Raw = Raw()


class ContextFile(Attachment, frozen=True, kw_only=True):
    """A file, a folder, a memory or a selection put into the context."""

    types: ClassVar[tuple[str, ...]] = (
        "file",
        "edited_text_file",
        "compact_file_reference",
        "plan_file_reference",
        "nested_memory",
        "instructions",
        "memory",
        "relevant_memories",
        "read_truncation_notice",
        "already_read_file",
        "directory",
        "selected_lines_in_ide",
        "opened_file_in_ide",
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
    memories: Raw = Raw()


class HookReport(Attachment, frozen=True, kw_only=True):
    """What a hook did: succeeded, failed, blocked, said something."""

    types: ClassVar[tuple[str, ...]] = (
        "hook_success",
        "hook_non_blocking_error",
        "hook_blocking_error",
        "hook_cancelled",
        "hook_system_message",
        "hook_additional_context",
        "hook_permission_decision",
        "async_hook_response",
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
    """Tools, agents, skills and permissions that came or went."""

    types: ClassVar[tuple[str, ...]] = (
        "deferred_tools_delta",
        "deferred_tools_record",
        "mcp_instructions_delta",
        "agent_listing_delta",
        "skill_listing",
        "dynamic_skill",
        "invoked_skills",
        "command_permissions",
        "team_context",
        "workflow_keyword_request",
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
    """What the harness keeps telling the model: tasks, tokens, dates, budgets."""

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
    """Plan mode or auto mode began, goes on or ended."""

    types: ClassVar[tuple[str, ...]] = (
        "plan_mode",
        "plan_mode_exit",
        "plan_mode_reentry",
        "auto_mode",
        "auto_mode_exit",
    )

    reminder_type: str | None = None
    is_sub_agent: bool | None = None
    plan_file_path: str | None = None
    plan_exists: bool | None = None


class StructuredOutput(Attachment, frozen=True, kw_only=True):
    """The result of a run that was asked for JSON."""

    types: ClassVar[tuple[str, ...]] = ("structured_output",)

    content: Raw = Raw()
    output: Raw = Raw()


class PrivateAttachment(Attachment, frozen=True, kw_only=True):
    """Holds an e-mail address, an account or the whole system prompt; never shown."""

    is_private: ClassVar[bool] = True
    types: ClassVar[tuple[str, ...]] = (
        "session_context",
        "credential_org",
        "prompt_snapshot",
    )


class UnknownAttachment(Wire, frozen=True, kw_only=True):
    """An attachment of a type this version does not know, or malformed; kept whole."""

    type: str
    raw: bytes


ATTACHMENTS: dict[str, type[Attachment]] = {
    name: kind for kind in Attachment.__subclasses__() for name in kind.types
}
"""The struct of each attachment type by the name it has in a transcript."""

SPEAKING = frozenset(
    {"hook_blocking_error", "hook_non_blocking_error", "structured_output"}
)
"""The types that a reader wants to see, beside the texts that people typed."""


class AttachmentRecord(Envelope, frozen=True, kw_only=True):
    """An attachment as a record of the tree; children may hang on it."""

    attachment: Attachment | UnknownAttachment | None = None
    rendered: Raw = Raw()
