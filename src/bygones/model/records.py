"""Records of the conversation, and the content blocks of their messages."""

from __future__ import annotations

import re
from functools import cache
from typing import ClassVar

from msgspec import Raw, Struct

from bygones.model.base import (
    TOOL_USE_TYPES,
    AgentId,
    AwareDatetime,
    ForkedFrom,
    MessageId,
    RecordId,
    SessionId,
    ShortStruct,
    ToolUseId,
    WireStruct,
)
from bygones.model.usage import WireUsage


class TextBlock(ShortStruct, frozen=True, kw_only=True):
    """Text of the user, of Claude, or of the harness."""

    types: ClassVar[tuple[str, ...]] = ("text",)

    text: str | None = None
    citations: Raw = Raw()


class ThinkingBlock(ShortStruct, frozen=True, kw_only=True):
    """Claude's reasoning; the text is empty in most records of 2.1.x."""

    types: ClassVar[tuple[str, ...]] = ("thinking",)

    thinking: str | None = None
    signature: str | None = None


class RedactedThinkingBlock(ShortStruct, frozen=True, kw_only=True):
    """Reasoning that the API returned encrypted."""

    types: ClassVar[tuple[str, ...]] = ("redacted_thinking",)

    data: str | None = None


class ToolUseBlock(ShortStruct, frozen=True, kw_only=True):
    """A call of a local tool, a server tool or a tool of an MCP server.

    `input` is raw JSON: normally an object, but anything in a malformed call.
    """

    types: ClassVar[tuple[str, ...]] = TOOL_USE_TYPES

    type: str = "tool_use"
    id: ToolUseId | None = None
    name: str | None = None
    input: Raw = Raw()
    caller: Raw = Raw()
    toolset_name: str | None = None
    server_name: str | None = None


class ToolResultBlock(
    ShortStruct, frozen=True, kw_only=True, rename={"outcome": "toolUseResult"}
):
    """The result of a tool call; `content` is text, blocks, or `None`."""

    types: ClassVar[tuple[str, ...]] = ("tool_result", "mcp_tool_result")

    tool_use_id: ToolUseId | None = None
    content: str | tuple[Block, ...] | None = None
    is_error: bool | None = None
    outcome: Raw = Raw()
    """The structured result, if it is here instead of in the record."""


class ServerToolResultBlock(ShortStruct, frozen=True, kw_only=True):
    """The result of a server tool, inside the assistant's message."""

    types: ClassVar[tuple[str, ...]] = (
        "web_search_tool_result",
        "web_fetch_tool_result",
        "code_execution_tool_result",
        "bash_code_execution_tool_result",
        "text_editor_code_execution_tool_result",
        "tool_search_tool_result",
        "advisor_tool_result",
    )

    type: str
    tool_use_id: ToolUseId | None = None
    content: Raw = Raw()


class MediaSource(ShortStruct, frozen=True, kw_only=True):
    """The source of an image or a document; `data` is base64 or text."""

    type: str | None = None
    media_type: str | None = None
    data: str | None = None
    url: str | None = None
    file_id: str | None = None
    content: Raw = Raw()


class ImageBlock(ShortStruct, frozen=True, kw_only=True):
    """An image, pasted or returned by a tool."""

    types: ClassVar[tuple[str, ...]] = ("image",)

    source: MediaSource | None = None


class DocumentBlock(ShortStruct, frozen=True, kw_only=True):
    """A PDF or text document."""

    types: ClassVar[tuple[str, ...]] = ("document",)

    source: MediaSource | None = None
    title: str | None = None
    context: str | None = None


class SearchResultBlock(ShortStruct, frozen=True, kw_only=True):
    """A search result with its text."""

    types: ClassVar[tuple[str, ...]] = ("search_result",)

    source: str | None = None
    title: str | None = None
    content: Raw = Raw()


class ToolReferenceBlock(ShortStruct, frozen=True, kw_only=True):
    """A tool that a tool search found."""

    types: ClassVar[tuple[str, ...]] = ("tool_reference",)

    tool_name: str | None = None


class ContainerUploadBlock(ShortStruct, frozen=True, kw_only=True):
    """A file that was uploaded to the API's container."""

    types: ClassVar[tuple[str, ...]] = ("container_upload",)

    file_id: str | None = None


class CompactionBlock(ShortStruct, frozen=True, kw_only=True):
    """A summary of earlier context by the API."""

    types: ClassVar[tuple[str, ...]] = ("compaction",)

    content: str | None = None
    encrypted_content: str | None = None


class FallbackBlock(ShortStruct, frozen=True, kw_only=True, rename={"origin": "from"}):
    """A switch to another model within a reply."""

    types: ClassVar[tuple[str, ...]] = ("fallback",)

    origin: Raw = Raw()
    to: Raw = Raw()
    trigger: str | None = None


class ToolChangeBlock(ShortStruct, frozen=True, kw_only=True):
    """Tools that were added or removed during a reply."""

    types: ClassVar[tuple[str, ...]] = ("tool_addition", "tool_removal")

    type: str
    tool_name: str | None = None
    tool: Raw = Raw()


class McpToolListingBlock(ShortStruct, frozen=True, kw_only=True):
    """The tools of an MCP server."""

    types: ClassVar[tuple[str, ...]] = ("mcp_tool_listing",)

    server_name: str | None = None
    tools: Raw = Raw()


class UnknownBlock(ShortStruct, frozen=True):
    """A block of an unknown type, as raw JSON.

    The type is empty if an element of the content is not an object.
    """

    type: str
    raw: bytes


Block = (
    TextBlock
    | ThinkingBlock
    | RedactedThinkingBlock
    | ToolUseBlock
    | ToolResultBlock
    | ServerToolResultBlock
    | ImageBlock
    | DocumentBlock
    | SearchResultBlock
    | ToolReferenceBlock
    | ContainerUploadBlock
    | CompactionBlock
    | FallbackBlock
    | ToolChangeBlock
    | McpToolListingBlock
    | UnknownBlock
)

BLOCKS_BY_TYPE: dict[str, type[Struct]] = {
    name: kind
    for kind in (
        TextBlock,
        ThinkingBlock,
        RedactedThinkingBlock,
        ToolUseBlock,
        ToolResultBlock,
        ServerToolResultBlock,
        ImageBlock,
        DocumentBlock,
        SearchResultBlock,
        ToolReferenceBlock,
        ContainerUploadBlock,
        CompactionBlock,
        FallbackBlock,
        ToolChangeBlock,
        McpToolListingBlock,
    )
    for name in kind.types
}
"""The struct of each block, by its `type`."""


class Envelope(WireStruct, frozen=True, kw_only=True):
    """Fields of all records of the tree; any may be missing."""

    type: str
    uuid: RecordId | None = None
    parent_uuid: RecordId | None = None
    logical_parent_uuid: RecordId | None = None
    timestamp: AwareDatetime | None = None
    session_id: SessionId | None = None
    session_id_again: SessionId | None = None
    cwd: str | None = None
    git_branch: str | None = None
    version: str | None = None
    user_type: str | None = None
    is_sidechain: bool = False
    agent_id: AgentId | None = None
    entrypoint: str | None = None
    slug: str | None = None
    session_kind: str | None = None
    team_name: str | None = None
    agent_name: str | None = None
    prompt_id: str | None = None
    forked_from: ForkedFrom | None = None
    is_meta: bool = False


class WireMessage(Struct, frozen=True, kw_only=True):
    """The message of the API, or the part of it in this record."""

    role: str | None = None
    content: str | tuple[Block, ...] | None = None
    id: MessageId | None = None
    type: str | None = None
    model: str | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: Raw = Raw()
    usage: WireUsage | None = None
    container: Raw = Raw()
    context_management: Raw = Raw()
    diagnostics: Raw = Raw()


class WireOrigin(WireStruct, frozen=True, kw_only=True):
    """The sender of a user record; newer versions only."""

    kind: str | None = None
    server: str | None = None
    sender: Raw = Raw()
    name: str | None = None
    body: Raw = Raw()
    handback: Raw = Raw()
    subkind: str | None = None
    fire_reason: str | None = None
    from_session: str | None = None
    sender_task_id: str | None = None
    run_id: str | None = None


class UserRecord(Envelope, frozen=True, kw_only=True):
    """Something that was added to the model's context.

    Most user records were not typed: tool results, command output and texts of the
    harness are user records too.
    """

    unused_fields: ClassVar[tuple[str, ...]] = (
        "sandboxed",
        "mcpCallNotReadOnly",
        "refusedMessageId",
        "joinedNoticeLengths",
        "joinedNoticeOwn",
        "joinedNoticeRunIds",
        "queueSkipAttachments",
        "apiErrorIsTransient",
        "bashEditDiff",
        "classifierMetaLines",
        "serverClassifierContext",
        "hostClassifierContext",
        "toolEndsTurn",
        "toolDenialBeforeRun",
        "toolDenialEndsTurn",
        "toolDenialUnanswered",
        "toolResultRemedy",
        "userFeedback",
        "stackedExpansion",
        "stackedOriginalInput",
        "interruptedByShutdown",
        "isVirtual",
        "isReplay",
        "isSynthetic",
        "mcpSkill",
        "promptShellHandOff",
        "replacesSpan",
        "usageLimitNote",
        "quotaLimits",
        "remoteSourced",
    )
    message: WireMessage | None = None
    tool_use_result: Raw = Raw()
    source_tool_assistant: RecordId | None = None
    source_tool_use: ToolUseId | None = None
    tool_denial_kind: str | None = None
    permission_mode: str | None = None
    origin: WireOrigin | None = None
    prompt_source: str | None = None
    turn_origin: Raw = Raw()
    is_compact_summary: bool = False
    is_visible_in_transcript_only: bool = False
    interrupted_message_id: MessageId | None = None
    image_paste_ids: Raw = Raw()
    todos: Raw = Raw()
    thinking_metadata: Raw = Raw()
    mcp_meta: Raw = Raw()
    plan_content: str | None = None
    queue_priority: Raw = Raw()
    permission_decision: Raw = Raw()
    """Who allowed or refused the tool call."""
    turn_position: Raw = Raw()
    turn_companion: bool = False
    """Whether the client wrote the message itself, for example an expanded command."""
    summarize_metadata: Raw = Raw()
    """The number of messages and the direction of a summary that the user asked for."""
    summarized_turn_prompt_uuids: tuple[RecordId, ...] = ()


class AssistantRecord(Envelope, frozen=True, kw_only=True):
    """A part of a reply, mostly one block."""

    unused_fields: ClassVar[tuple[str, ...]] = (
        "requestedModel",
        "requestSessionId",
        "promptCacheRequested",
        "madeBy",
        "toolInputStreamMs",
        "thinkingDisplay",
        "thinkingDurationMs",
        "serverClassifierRequest",
        "serverClassifierContext",
        "apiErrorType",
        "apiErrorIsTransient",
        "failedResponseHadNoToolCall",
        "streamCutCause",
        "truncatedAfterOutput",
        "refusingModel",
        "refusedMessageId",
        "quotaLimits",
        "isVirtual",
        "remoteSourced",
    )
    message: WireMessage | None = None
    request_id: str | None = None
    api_block_index: int | None = None
    api_error: Raw = Raw()
    effort: Raw = Raw()
    per_turn_effort: Raw = Raw()
    wire_tool_inputs: Raw = Raw()
    attribution_agent: Raw = Raw()
    attribution_skill: Raw = Raw()
    attribution_plugin: Raw = Raw()
    attribution_mcp_server: Raw = Raw()
    attribution_mcp_tool: Raw = Raw()
    is_api_error_message: bool = False
    error: Raw = Raw()
    api_error_status: Raw = Raw()
    error_details: Raw = Raw()
    is_aborted_mid_stream: bool = False
    supersedes_uuids: tuple[RecordId, ...] = ()
    advisor_model: str | None = None
    cost_usd: float | None = None
    duration_ms: float | None = None
    request_ref: str | None = None
    """The id of the `ApiRequestRecord` that this answers."""


class PreservedSegment(WireStruct, frozen=True, kw_only=True):
    """The first and last record that a compaction preserved."""

    head_uuid: RecordId | None = None
    anchor_uuid: RecordId | None = None
    tail_uuid: RecordId | None = None


class PreservedMessages(WireStruct, frozen=True, kw_only=True):
    """The records that a compaction preserved, as a chain after the anchor."""

    anchor_uuid: RecordId | None = None
    uuids: tuple[RecordId, ...] = ()
    all_uuids: tuple[RecordId, ...] = ()


class CompactionMetadata(WireStruct, frozen=True, kw_only=True):
    """Metadata of a compaction."""

    unused_fields: ClassVar[tuple[str, ...]] = ("runningTurnPrompt",)

    trigger: str | None = None
    pre_tokens: int | None = None
    post_tokens: int | None = None
    duration_ms: float | None = None
    cumulative_dropped_tokens: int | None = None
    tokens_saved: int | None = None
    pre_compact_discovered_tools: Raw = Raw()
    preserved_segment: PreservedSegment | None = None
    preserved_messages: PreservedMessages | None = None
    compacted_tool_ids: Raw = Raw()
    cleared_attachments: Raw = Raw()
    messages_summarized: int | None = None


class SystemSubtype(Struct, frozen=True):
    """What a subtype of system records means, and how it is shown."""

    meaning: str
    label: str | None = None
    """What is shown before its text; `None` if it is not shown at all."""
    is_indexed: bool = False
    """Whether its text can be found."""


SYSTEM_SUBTYPES: dict[str | None, SystemSubtype] = {
    None: SystemSubtype("a line of an old version, or of a hook", ""),
    "compact_boundary": SystemSubtype(
        "earlier context was replaced by a summary", "compact boundary"
    ),
    "microcompact_boundary": SystemSubtype("old tool results were cleared"),
    "local_command": SystemSubtype(
        "a slash command, or what it printed", "local command", is_indexed=True
    ),
    "turn_duration": SystemSubtype("how long a turn took"),
    "stop_hook_summary": SystemSubtype("what hooks did at the end of a turn"),
    "api_error": SystemSubtype("a request failed and is tried again", "api error"),
    "error": SystemSubtype("a request failed", "error"),
    "away_summary": SystemSubtype(
        "a summary for a user who was away", "", is_indexed=True
    ),
    "informational": SystemSubtype("a notice", ""),
    "bridge_status": SystemSubtype("the session is shared with another device"),
    "scheduled_task_fire": SystemSubtype(
        "a scheduled task began", "scheduled task started"
    ),
    "agents_killed": SystemSubtype("running agents were stopped", "agents stopped"),
    "model_refusal_fallback": SystemSubtype(
        "another model answered; some records are retracted",
        "the model refused; another model answered",
    ),
    "model_refusal_no_fallback": SystemSubtype(
        "the model refused and none took over", "the model refused"
    ),
    "model_consent_fallback": SystemSubtype(
        "another model answered after being asked", "another model continued"
    ),
}


class SystemRecord(Envelope, frozen=True, kw_only=True):
    """A notice of the harness.

    All subtypes share one struct: their fields hardly overlap, and the text of an unknown
    subtype can still be shown.
    """

    unused_fields: ClassVar[tuple[str, ...]] = (
        "source",
        "commandRun",
        "isDisplayOnly",
        "quotaLimits",
        "launchedAgentId",
        "writtenPaths",
        "snapshotFiles",
        "heardAtNextPrompt",
        "hookLabel",
        "persistedAsDefault",
        "originalModelName",
        "remoteSourced",
        "totalDurationMs",
        "fromRemoteErrorResult",
        "preventContinuation",
        "promptSubmitEnding",
        "failedHookErrorIndexes",
    )
    subtype: str | None = None
    content: str | None = None
    level: str | None = None
    tool_use_ref: str | None = None
    system_type: str | None = None
    message: Raw = Raw()
    compaction: CompactionMetadata | None = None
    microcompaction: CompactionMetadata | None = None
    duration_ms: float | None = None
    message_count: int | None = None
    pending_background_agent_count: int | None = None
    pending_workflow_count: int | None = None
    hook_count: int | None = None
    hooks: Raw = Raw()
    hook_errors: Raw = Raw()
    hook_additional_context: Raw = Raw()
    prevented_continuation: bool | None = None
    stop_reason: str | None = None
    has_output: bool | None = None
    error: Raw = Raw()
    cause: Raw = Raw()
    retry_in_ms: float | None = None
    retry_attempt: int | None = None
    max_retries: int | None = None
    url: str | None = None
    upgrade_nudge: Raw = Raw()
    trigger: str | None = None
    direction: str | None = None
    scope: str | None = None
    original_model: str | None = None
    fallback_model: str | None = None
    request_id: str | None = None
    api_refusal_category: str | None = None
    api_refusal_explanation: str | None = None
    refused_user_message_uuid: RecordId | None = None
    retracted_message_uuids: tuple[RecordId, ...] = ()


class ProgressData(WireStruct, frozen=True, kw_only=True):
    """The content of a progress record."""

    types: ClassVar[tuple[str, ...]] = (
        "hook_progress",
        "agent_progress",
        "bash_progress",
        "powershell_progress",
        "mcp_progress",
        "query_update",
        "search_results_received",
        "waiting_for_task",
        "skill_progress",
        "repl_tool_call",
    )

    type: str | None = None
    agent_id: AgentId | None = None
    prompt: str | None = None
    message: Raw = Raw()
    normalized_messages: Raw = Raw()
    resume: Raw = Raw()
    hook_event: str | None = None
    hook_name: str | None = None
    command: str | None = None
    output: str | None = None
    full_output: str | None = None
    elapsed_time_seconds: float | None = None
    elapsed_time_ms: float | None = None
    total_lines: int | None = None
    timeout_ms: float | None = None
    status: str | None = None
    server_name: str | None = None
    tool_name: str | None = None
    query: str | None = None
    result_count: int | None = None
    task_description: str | None = None
    task_type: str | None = None
    task_id: str | None = None
    total_bytes: int | None = None


class ProgressRecord(Envelope, frozen=True, kw_only=True):
    """Progress of a running tool (2.1.9 to about 2.1.96); part of the tree."""

    tool_use_ref: str | None = None
    parent_tool_use: ToolUseId | None = None
    progress: ProgressData | None = None


class HookContextRecord(Envelope, frozen=True, kw_only=True):
    """Text that a hook added to the context; part of the tree."""

    content: Raw = Raw()
    hook_name: str | None = None
    hook_event: str | None = None
    tool_use_ref: str | None = None


class UnknownRecord(Struct, frozen=True):
    """A record of an unknown type, as raw JSON."""

    is_private: ClassVar[bool] = False

    type: str
    raw: bytes


_NEWEST_VERSION = (2, 1, 327)
"""The newest version of Claude Code whose transcripts were checked."""


@cache
def is_known_version(version: str) -> bool:
    """Whether a version of Claude Code is not newer than the checked ones."""
    parts = re.findall(r"\d{1,9}", version)[:3]
    return bool(parts) and tuple(map(int, parts)) <= _NEWEST_VERSION
