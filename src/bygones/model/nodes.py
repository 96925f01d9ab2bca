"""Light records, nodes of the tree, and the texts of records."""

from __future__ import annotations

import re
from datetime import datetime
from enum import StrEnum
from typing import Annotated
from zlib import crc32

from msgspec import Raw, Struct

from bygones.model.base import (
    ID_LENGTH,
    PATH_LENGTH,
    AgentId,
    AwareDatetime,
    ForkedFrom,
    MessageId,
    Position,
    Problem,
    RecordId,
    SessionId,
    SourceFile,
    ToolUseId,
    wire_name,
)
from bygones.model.query import Part
from bygones.model.usage import Billing, ReportedCost, Usage, WireUsage


class Origin(StrEnum):
    """Who produced a user text; `CALLER` is the prompt of an agent run."""

    PERSON = "person"
    CALLER = "caller"
    TOOL = "tool"
    COMMAND = "command"
    COMMAND_OUTPUT = "command-output"
    SHELL = "shell"
    SHELL_OUTPUT = "shell-output"
    MEMORY = "memory"
    INTERRUPT = "interrupt"
    COMPACTION = "compaction"
    NOTIFICATION = "notification"
    TEAMMATE = "teammate"
    HOOK = "hook"
    HARNESS = "harness"
    WARMUP = "warm-up"


class Command(Struct, frozen=True):
    """A slash command: its name with the slash, and its arguments."""

    name: str
    args: str = ""
    message: str = ""
    contents: str = ""


class Notification(Struct, frozen=True):
    """A notification about a background task."""

    task_id: str = ""
    tool_use_id: ToolUseId | None = None
    status: str = ""
    summary: str = ""
    result: str = ""


class UserText(Struct, frozen=True):
    """A user text, separated into typed text and what the harness added."""

    origin: Origin
    typed_text: str = ""
    """The exact text that was typed; empty unless the origin is `PERSON`."""
    command: Command | None = None
    notification: Notification | None = None
    output: str = ""
    """The output of a command or the shell, or the shell input."""


class IndexField(StrEnum):
    """The kinds of text that are indexed."""

    TEXT = "text"
    THINKING = "thinking"
    TOOL = "tool"
    PATH = "path"
    COMMAND = "command"
    INPUT = "input"
    RESULT = "result"
    TITLE = "title"


class TextSpan(Struct, frozen=True, gc=False):
    """A text of a record that is indexed as one field."""

    field: IndexField
    text: str
    is_truncated: bool = False
    is_error: bool = False


class RecordText(Struct, frozen=True, gc=False):
    """All text of one part of a record: a document of the text index."""

    part: Part
    text: str
    is_error: bool = False


class LightBlock(
    Struct, frozen=True, kw_only=True, gc=False, rename={"outcome": "toolUseResult"}
):
    """A content block; `input` and `content` are raw JSON."""

    type: Annotated[str, ID_LENGTH] = ""
    text: str | None = None
    thinking: str | None = None
    id: Annotated[ToolUseId, ID_LENGTH] | None = None
    name: Annotated[str, ID_LENGTH] | None = None
    input: Raw = Raw()
    tool_use_id: Annotated[ToolUseId, ID_LENGTH] | None = None
    content: Raw = Raw()
    is_error: bool | None = None
    source: Raw = Raw()
    outcome: Raw = Raw()
    """The structured result, if it is here instead of in the record."""


class LightMessage(Struct, frozen=True, kw_only=True, gc=False):
    """The message of a user or assistant record."""

    role: Annotated[str, ID_LENGTH] | None = None
    model: Annotated[str, ID_LENGTH] | None = None
    id: Annotated[MessageId, ID_LENGTH] | None = None
    content: str | list[LightBlock] | None = None
    usage: WireUsage | None = None


class LightOrigin(Struct, frozen=True, kw_only=True, gc=False):
    """The sender of a user record; newer versions only."""

    kind: Annotated[str, ID_LENGTH] | None = None


class LightProgress(Struct, frozen=True, kw_only=True, gc=False, rename=wire_name):
    """The agent that a progress record is about."""

    type: Annotated[str, ID_LENGTH] | None = None
    agent_id: Annotated[AgentId, ID_LENGTH] | None = None
    message: Raw = Raw()
    """A copy of a record of the agent."""
    normalized_messages: Raw = Raw()
    """The records of the agent since its last prompt, in some versions."""


class LightRecord(Struct, frozen=True, kw_only=True, gc=False, rename=wire_name):
    """A record with the fields that ingest uses, in the order of the file."""

    parent_uuid: Annotated[RecordId, ID_LENGTH] | None = None
    logical_parent_uuid: Annotated[RecordId, ID_LENGTH] | None = None
    is_sidechain: bool = False
    prompt_id: Annotated[str, ID_LENGTH] | None = None
    agent_id: Annotated[AgentId, ID_LENGTH] | None = None
    cwd: Annotated[str, PATH_LENGTH] | None = None
    session_id: Annotated[SessionId, ID_LENGTH] | None = None
    version: Annotated[str, ID_LENGTH] | None = None
    git_branch: Annotated[str, PATH_LENGTH] | None = None
    slug: Annotated[str, ID_LENGTH] | None = None
    type: Annotated[str, ID_LENGTH] | None = None
    subtype: Annotated[str, ID_LENGTH] | None = None
    message: LightMessage | None = None
    progress: LightProgress | None = None
    request_id: Annotated[str, ID_LENGTH] | None = None
    is_api_error_message: bool = False
    is_meta: bool = False
    is_compact_summary: bool = False
    parent_tool_use: Annotated[ToolUseId, ID_LENGTH] | None = None
    uuid: Annotated[RecordId, ID_LENGTH] | None = None
    timestamp: AwareDatetime | None = None
    tool_use_result: Raw = Raw()
    source_tool_assistant: Annotated[RecordId, ID_LENGTH] | None = None
    source_tool_use: Annotated[ToolUseId, ID_LENGTH] | None = None
    entrypoint: Annotated[str, ID_LENGTH] | None = None
    team_name: Annotated[str, ID_LENGTH] | None = None
    forked_from: ForkedFrom | None = None
    supersedes_uuids: tuple[Annotated[RecordId, ID_LENGTH], ...] = ()
    session_kind: Annotated[str, ID_LENGTH] | None = None
    origin: LightOrigin | None = None
    tool_denial_kind: Annotated[str, ID_LENGTH] | None = None
    interrupted_message_id: Annotated[MessageId, ID_LENGTH] | None = None
    turn_companion: bool = False


class LocatedRecord(Struct, frozen=True, gc=False):
    """A light record with its position and its bytes."""

    record: LightRecord
    position: Position
    raw: bytes


PREVIEW_LIMIT = 300
"""Characters of a text that are kept in a node."""


class NodeBlock(Struct, frozen=True, kw_only=True, gc=False, array_like=True):
    """A content block without its content."""

    kind: str
    """The type: text, thinking, tool_use, tool_result, image, …"""
    id: ToolUseId | None = None
    """The id of the tool call, in calls and results."""
    name: str | None = None
    label: str | None = None
    """The file, command or text that identifies a call."""
    path: str | None = None
    """The file in the input of a call."""
    agent_type: str | None = None
    """The agent type in the input of a call."""
    digest: int = 0
    """Checksum of a text, to find repeated blocks."""
    size: int = 0
    is_error: bool = False


class ChangedFile(Struct, frozen=True, kw_only=True, gc=False, array_like=True):
    """A file that a tool call changed."""

    path: str
    added_lines: int = 0
    removed_lines: int = 0
    is_new_file: bool = False
    is_deleted: bool = False
    has_diff: bool = True
    """Whether the changed lines are recorded; otherwise both counts are 0."""


class GitOutput(Struct, frozen=True, gc=False, array_like=True):
    """What the output of git in a tool result says about a repository."""

    remotes: tuple[str, ...] = ()
    """Names as `name_remote` gives them, such as `github.com/ann/shop`."""
    root_commit: str = ""
    """The hash of a first commit, as far as it was printed."""
    root: str = ""
    """The directory of a repository that was created."""


class ResultFacts(Struct, frozen=True, kw_only=True, gc=False, array_like=True):
    """Facts from the structured outcome of a tool."""

    agent_id: AgentId | None = None
    mentioned_agent_id: AgentId | None = None
    """From the result's text, if the outcome does not contain it."""
    status: str | None = None
    duration_ms: int | None = None
    tokens: int | None = None
    tool_call_count: int | None = None
    path: str | None = None
    added_lines: int = 0
    removed_lines: int = 0
    has_patch: bool = False
    is_new_file: bool = False
    run_id: str | None = None
    """Id of a workflow run or a background task."""
    stored_path: str | None = None
    """Path of an output that was too long for the transcript."""
    web_searches: int = 0
    is_denied: bool = False
    """Whether the call was not allowed, by the user or by a rule."""
    changed_files: tuple[ChangedFile, ...] = ()
    """What a shell command changed in a git working tree."""
    git_output: GitOutput | None = None


class SideText(Struct, frozen=True, gc=False, array_like=True):
    """A text in a record of tool results."""

    origin: Origin
    preview: str = ""
    digest: int = 0


class CompactionFacts(Struct, frozen=True, tag="compaction", omit_defaults=True):
    """Token counts of a compaction, and the records it preserved."""

    trigger: str | None = None
    tokens_before: int | None = None
    tokens_after: int | None = None
    preserved_ids: tuple[RecordId, ...] = ()
    anchor_id: RecordId | None = None


class TitleFacts(Struct, frozen=True, tag="title", omit_defaults=True):
    """A title, and the leaf that it belongs to."""

    text: str
    leaf_id: RecordId | None = None
    is_explicit: bool = False


class QueueFacts(Struct, frozen=True, tag="queue", omit_defaults=True):
    """An operation on the queue."""

    operation: str


class LineageFacts(Struct, frozen=True, tag="lineage", omit_defaults=True):
    """Another session that this one was forked from or continues in."""

    session_id: SessionId | None = None
    record_id: RecordId | None = None


class DirectoryFacts(Struct, frozen=True, tag="place", omit_defaults=True):
    """The repository of a worktree, or the new directory of a session."""

    path: str
    worktree: str = ""
    """The directory of the worktree."""


class RemoteFacts(Struct, frozen=True, tag="remote", omit_defaults=True):
    """The repository of a pull request that the session created."""

    name: str


class JournalFacts(Struct, frozen=True, tag="journal", omit_defaults=True):
    """A step of an agent in a workflow."""

    agent_id: AgentId | None = None
    label: str | None = None


class RetractionFacts(Struct, frozen=True, tag="retraction", omit_defaults=True):
    """Records that were retracted."""

    record_ids: tuple[RecordId, ...] = ()


class InterruptFacts(Struct, frozen=True, tag="interrupt", omit_defaults=True):
    """The reply that the user interrupted while it was written or its calls ran."""

    message_id: MessageId


class DurationFacts(Struct, frozen=True, tag="duration", omit_defaults=True):
    """The duration of a turn."""

    duration_ms: int


class ReportedCostFacts(Struct, frozen=True, tag="cost", omit_defaults=True):
    """The total that Claude Code reported."""

    reported_cost: ReportedCost


class AgentProgressFacts(Struct, frozen=True, tag="progress", omit_defaults=True):
    """Records of an agent that a progress record repeats, in order."""

    records: tuple[RecordNode, ...]
    """Each with its position inside the line; they don't name their parents."""

    @property
    def answer(self) -> RecordNode | None:
        """The last record, if it is a reply with its usage."""
        last = self.records[-1]
        return last if last.usage is not None and not last.is_error else None


NodeExtra = (
    CompactionFacts
    | TitleFacts
    | QueueFacts
    | LineageFacts
    | DirectoryFacts
    | RemoteFacts
    | JournalFacts
    | RetractionFacts
    | DurationFacts
    | InterruptFacts
    | ReportedCostFacts
    | AgentProgressFacts
)


_SHORT_RECORD = 200
_SHORT_PARENTLESS_RECORD = 1000
"""Bytes. Real records with a parent have 350 or more; those without one, such as
titles, may be shorter, but are rare beside the records with content."""


class RecordNode(Struct, frozen=True, kw_only=True, array_like=True):
    """One record, without its content: a node of the tree, or metadata."""

    position: Position
    kind: str
    """The type of the record."""
    subtype: str | None = None
    uuid: RecordId | None = None
    parent_uuid: RecordId | None = None
    logical_parent_uuid: RecordId | None = None
    session_id: SessionId | None = None
    """As in the record; the source decides which session it belongs to."""
    agent_id: AgentId | None = None
    timestamp: datetime | None = None
    is_sidechain: bool = False
    is_meta: bool = False
    is_error: bool = False
    """A reply that Claude Code created because the API failed."""
    cwd: str | None = None
    git_branch: str | None = None
    version: str | None = None
    slug: str | None = None
    entrypoint: str | None = None
    team_name: str | None = None
    message_id: MessageId | None = None
    request_id: str | None = None
    model: str | None = None
    usage: Usage | None = None
    origin: Origin | None = None
    preview: str = ""
    """The beginning of the text or title."""
    digest: int = 0
    """Checksum of the whole text."""
    blocks: tuple[NodeBlock, ...] = ()
    result: ResultFacts | None = None
    side_text: SideText | None = None
    """A text in a record of tool results, typed while they were pending."""
    command: Command | None = None
    notification: Notification | None = None
    source_call_id: ToolUseId | None = None
    """The call that an injected text or a progress record belongs to."""
    source_record_id: RecordId | None = None
    """The record with the call of this result."""
    forked_from: LineageFacts | None = None
    supersedes_ids: tuple[RecordId, ...] = ()
    extra: NodeExtra | None = None
    billing: Billing | None = None

    @property
    def is_conversation(self) -> bool:
        """Whether it is a user or assistant record."""
        return self.kind in {"user", "assistant"}

    @property
    def limited_count(self) -> int:
        """The number of records in it that count towards the limit of a file.

        Those are short records, and those of agents that it repeats.
        """
        repeated = self.extra.records if type(self.extra) is AgentProgressFacts else ()
        is_root = self.parent_uuid is None
        min_length = _SHORT_PARENTLESS_RECORD if is_root else _SHORT_RECORD
        is_limited = self.position.length < min_length
        return is_limited + len(repeated)

    @property
    def is_synthetic(self) -> bool:
        """Whether Claude Code created this reply itself."""
        return self.model == "<synthetic>" or self.is_error


class AgentSidecar(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The metadata file of an agent run."""

    agent_id: AgentId
    tool_use_id: ToolUseId | None = None
    agent_type: str | None = None
    description: str | None = None
    name: str | None = None
    model: str | None = None
    parent_agent_id: AgentId | None = None
    is_stopped_by_user: bool = False


class Transcript(Struct, frozen=True, kw_only=True):
    """The nodes of one source in file order, with the metadata of its agent."""

    source: SourceFile
    nodes: tuple[RecordNode, ...] = ()
    problems: tuple[Problem, ...] = ()
    sidecar: AgentSidecar | None = None
    journal_nodes: tuple[RecordNode, ...] = ()
    """Records about its agent in the workflow's journal, in order."""


_PREFIX_ORIGINS = (
    ("[Request interrupted by user", Origin.INTERRUPT),
    ("This session is being continued from a previous conv", Origin.COMPACTION),
    ("Caveat: The messages below were generated by the user", Origin.HARNESS),
    ("Stop hook feedback:", Origin.HOOK),
    ("[Image: source:", Origin.HARNESS),
)
_EXACT_TEXT_ORIGINS = {
    "Warmup": Origin.WARMUP,
    "No response requested.": Origin.HARNESS,
    "(no content)": Origin.HARNESS,
}
_TAG_ORIGINS = {
    "command-name": Origin.COMMAND,
    "command-message": Origin.COMMAND,
    "command-args": Origin.COMMAND,
    "command-contents": Origin.COMMAND,
    "local-command-stdout": Origin.COMMAND_OUTPUT,
    "local-command-stderr": Origin.COMMAND_OUTPUT,
    "local-command-caveat": Origin.HARNESS,
    "bash-input": Origin.SHELL,
    "bash-stdout": Origin.SHELL_OUTPUT,
    "bash-stderr": Origin.SHELL_OUTPUT,
    "user-memory-input": Origin.MEMORY,
    "task-notification": Origin.NOTIFICATION,
    "teammate-message": Origin.TEAMMATE,
    "agent-message": Origin.TEAMMATE,
    "channel": Origin.TEAMMATE,
    "tick": Origin.HARNESS,
    "goal": Origin.HARNESS,
    "session-start-hook": Origin.HOOK,
    "post-tool-use-hook": Origin.HOOK,
    "user-prompt-submit-hook": Origin.HOOK,
    "persisted-output": Origin.HARNESS,
}
"""The origin of a text that starts with the tag."""
_OUTPUT_TAGS = (
    "local-command-stdout",
    "local-command-stderr",
    "bash-input",
    "bash-stdout",
    "bash-stderr",
    "user-memory-input",
)
_FIRST_TAG = re.compile(r"<([a-z][a-z_-]*)[\s>]")
_CONTEXT_TAGS = r"(?:system-reminder|ide_opened_file|ide_selection|ide_diagnostics)"
_LEADING_CONTEXT = re.compile(rf"\s*<({_CONTEXT_TAGS})>.*?</\1>\s*", re.DOTALL)
_TEAMMATE_TAG = re.compile(
    r"</?(?:teammate-message|agent-message|channel)(?:\s[^<>]*)?>"
)
_REMINDER = "<system-reminder>"
_REMINDER_END = "</system-reminder>"


def parse_user_text(text: str) -> UserText:
    """Return who produced a user text, and what a person typed in it.

    Only a leading tag counts: a text that mentions a tag later was typed.
    """
    typed = _strip_context(text)
    head = typed.lstrip()
    if not head:
        return UserText(Origin.HARNESS if text.strip() else Origin.PERSON)
    if head[0] == "<":
        tag = _FIRST_TAG.match(head)
        origin = _TAG_ORIGINS.get(tag[1]) if tag else None
        if origin is not None:
            return _parse_tagged(origin, head)
    else:
        origin = _EXACT_TEXT_ORIGINS.get(head.rstrip())
        if origin is not None:
            return UserText(origin)
        for prefix, origin in _PREFIX_ORIGINS:
            if head.startswith(prefix):
                return UserText(origin)
    return UserText(Origin.PERSON, typed)


def _strip_context(text: str) -> str:
    """Remove the context that the harness added before and after a prompt."""
    if "<" not in text:
        return text
    # Indexes instead of slices: some texts are megabytes of reminders.
    start, end = 0, len(text)
    while match := _LEADING_CONTEXT.match(text, start):
        start = match.end()
    while text.endswith(_REMINDER_END, start, last := _rstrip_index(text, start, end)):
        opening = text.rfind(_REMINDER, start, last)
        if opening < 0:
            break
        end = _rstrip_index(text, start, opening)
    return text[start:end]


def _rstrip_index(text: str, start: int, end: int) -> int:
    while end > start and text[end - 1].isspace():
        end -= 1
    return end


def _parse_tagged(origin: Origin, text: str) -> UserText:
    if origin is Origin.COMMAND:
        return UserText(origin, command=_parse_command(text))
    if origin is Origin.NOTIFICATION:
        return UserText(origin, notification=_parse_notification(text))
    if origin is Origin.TEAMMATE:
        return UserText(origin, output=_TEAMMATE_TAG.sub("", text).strip())
    output = "\n".join(
        part for tag in _OUTPUT_TAGS if (part := _tag_content(text, tag))
    )
    return UserText(origin, output=output)


def _parse_command(text: str) -> Command:
    name = _tag_content(text, "command-name").strip()
    message = _tag_content(text, "command-message")
    name = name or message.strip().split(" ")[0]
    return Command(
        name=name if name.startswith("/") else f"/{name}",
        args=_tag_content(text, "command-args"),
        message=message,
        contents=_tag_content(text, "command-contents"),
    )


def _parse_notification(text: str) -> Notification:
    return Notification(
        task_id=_tag_content(text, "task-id").strip(),
        tool_use_id=ToolUseId(_tag_content(text, "tool-use-id").strip()) or None,
        status=_tag_content(text, "status").strip(),
        summary=_tag_content(text, "summary").strip(),
        result=_tag_content(text, "result"),
    )


def _tag_content(text: str, tag: str) -> str:
    """Return the text between a tag and its end tag, empty if there is none."""
    start = text.find(f"<{tag}>")
    if start < 0:
        return ""
    start += len(tag) + 2
    end = text.find(f"</{tag}>", start)
    return text[start : end if end >= 0 else len(text)]


def display_text(user_text: UserText, typed: str) -> str:
    """Return the text to show: the command, the notification, the output or `typed`."""
    if user_text.command is not None:
        return f"{user_text.command.name} {user_text.command.args}".strip()
    if user_text.notification is not None:
        return user_text.notification.summary
    return user_text.output or typed


def typed_text(text: str) -> str:
    """Return the part of a user text that is indexed: typed text, command or output."""
    user_text = parse_user_text(text)
    if user_text.origin in {Origin.PERSON, Origin.COMPACTION}:
        return user_text.typed_text or text
    if user_text.command:
        return f"{user_text.command.name} {user_text.command.args}".strip()
    return user_text.output


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
