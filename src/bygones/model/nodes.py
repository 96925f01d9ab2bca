"""What texts of a record are: who produced them, and what of them is indexed."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Raw, Struct

from bygones.model.base import (
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
    """Who really produced a user text; a caller is what started an agent run."""

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
    """A slash command: its name with the slash, and what was typed behind it."""

    name: str
    args: str = ""
    message: str = ""
    contents: str = ""


class Notification(Struct, frozen=True):
    """The news that a background task ended, or how it goes."""

    task_id: str = ""
    tool_use_id: ToolUseId | None = None
    status: str = ""
    summary: str = ""
    result: str = ""


class UserText(Struct, frozen=True):
    """A user text with what a person typed told apart from what was put around it."""

    origin: Origin
    typed_text: str = ""
    """What a person typed, exactly; empty unless the origin is a person."""
    command: Command | None = None
    notification: Notification | None = None
    output: str = ""
    """What a command or the shell printed, or what was put into the shell."""


class IndexField(StrEnum):
    """The kinds of text that can be searched, each with its own weight."""

    TEXT = "text"
    THINKING = "thinking"
    TOOL = "tool"
    PATH = "path"
    COMMAND = "command"
    INPUT = "input"
    RESULT = "result"
    TITLE = "title"


class TextSpan(Struct, frozen=True, gc=False):
    """Some text of a record that is indexed under one field."""

    field: IndexField
    text: str
    is_truncated: bool = False
    is_error: bool = False


class RecordText(Struct, frozen=True, gc=False):
    """What a record says in one part: a document of the text index."""

    part: Part
    text: str
    is_error: bool = False


class LightBlock(Struct, frozen=True, kw_only=True, gc=False):
    """A content block; ``input`` and ``content`` are JSON, not yet decoded."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    id: ToolUseId | None = None
    name: str | None = None
    input: Raw = Raw()
    tool_use_id: ToolUseId | None = None
    content: Raw = Raw()
    is_error: bool | None = None
    source: Raw = Raw()


class LightMessage(Struct, frozen=True, kw_only=True, gc=False):
    """The message of a user or assistant record."""

    role: str | None = None
    model: str | None = None
    id: MessageId | None = None
    content: str | list[LightBlock] | None = None
    usage: WireUsage | None = None


class LightOrigin(Struct, frozen=True, kw_only=True, gc=False):
    """Who sent a user record, as newer versions say it."""

    kind: str | None = None


class LightProgress(Struct, frozen=True, kw_only=True, gc=False, rename=wire_name):
    """Which agent a progress record tells of."""

    type: str | None = None
    agent_id: AgentId | None = None
    message: Raw = Raw()
    """A record of the agent, repeated whole."""


class LightRecord(Struct, frozen=True, kw_only=True, gc=False, rename=wire_name):
    """A record as the light pass sees it, in the order in which fields are written."""

    parent_uuid: RecordId | None = None
    logical_parent_uuid: RecordId | None = None
    is_sidechain: bool = False
    prompt_id: str | None = None
    agent_id: AgentId | None = None
    cwd: str | None = None
    session_id: SessionId | None = None
    version: str | None = None
    git_branch: str | None = None
    slug: str | None = None
    type: str | None = None
    subtype: str | None = None
    message: LightMessage | None = None
    progress: LightProgress | None = None
    request_id: str | None = None
    is_api_error_message: bool = False
    is_meta: bool = False
    is_compact_summary: bool = False
    parent_tool_use: ToolUseId | None = None
    uuid: RecordId | None = None
    timestamp: AwareDatetime | None = None
    tool_use_result: Raw = Raw()
    source_tool_assistant: RecordId | None = None
    source_tool_use: ToolUseId | None = None
    entrypoint: str | None = None
    team_name: str | None = None
    forked_from: ForkedFrom | None = None
    supersedes_uuids: tuple[RecordId, ...] = ()
    session_kind: str | None = None
    origin: LightOrigin | None = None


class LocatedRecord(Struct, frozen=True, gc=False):
    """A sketch with the place of the bytes it was made from, and those bytes."""

    record: LightRecord
    position: Position
    raw: bytes


PREVIEW_LIMIT = 300
"""Characters of a text that a node keeps."""


class NodeBlock(Struct, frozen=True, kw_only=True, gc=False, array_like=True):
    """A content block without its content."""

    kind: str
    """Its type: text, thinking, tool_use, tool_result, image, …"""
    id: ToolUseId | None = None
    """Of the tool use that it is or answers."""
    name: str | None = None
    label: str | None = None
    """The file, the command or the words by which a call is told from others."""
    path: str | None = None
    """The file that a call names."""
    agent_type: str | None = None
    """The kind of agent that a call asks for."""
    digest: int = 0
    """Of a text; equal digests in one message mean one block written twice."""
    size: int = 0
    is_error: bool = False


class ResultFacts(Struct, frozen=True, kw_only=True, gc=False, array_like=True):
    """What an outcome says beyond the result's text."""

    agent_id: AgentId | None = None
    mentioned_agent_id: AgentId | None = None
    """As the result's text tells the model, where nothing better names it."""
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
    """A workflow's run, or a background task."""
    stored_path: str | None = None
    """Where an output too long for the transcript was put."""
    web_searches: int = 0


class SideText(Struct, frozen=True, gc=False, array_like=True):
    """What stands beside results in one record: who said it, and how it begins."""

    origin: Origin
    preview: str = ""
    digest: int = 0


class CompactionFacts(Struct, frozen=True, tag="compaction", omit_defaults=True):
    """What a compaction replaced, and what it kept."""

    trigger: str | None = None
    tokens_before: int | None = None
    tokens_after: int | None = None
    preserved_ids: tuple[RecordId, ...] = ()
    anchor_id: RecordId | None = None


class TitleFacts(Struct, frozen=True, tag="title", omit_defaults=True):
    """A title and the leaf that it names, if it names one."""

    text: str
    leaf_id: RecordId | None = None
    is_explicit: bool = False


class QueueFacts(Struct, frozen=True, tag="queue", omit_defaults=True):
    """What happened to a queued text."""

    operation: str


class LineageFacts(Struct, frozen=True, tag="lineage", omit_defaults=True):
    """Another session that this one came from or went on in."""

    session_id: SessionId | None = None
    record_id: RecordId | None = None


class DirectoryFacts(Struct, frozen=True, tag="place", omit_defaults=True):
    """The directory that a worktree belongs to, or that a session moved to."""

    path: str


class JournalFacts(Struct, frozen=True, tag="journal", omit_defaults=True):
    """A step of a workflow's agent."""

    agent_id: AgentId | None = None
    label: str | None = None


class RetractionFacts(Struct, frozen=True, tag="retraction", omit_defaults=True):
    """Records that are no longer valid."""

    record_ids: tuple[RecordId, ...] = ()


class DurationFacts(Struct, frozen=True, tag="duration", omit_defaults=True):
    """How long a turn took."""

    duration_ms: int


class ReportedCostFacts(Struct, frozen=True, tag="cost", omit_defaults=True):
    """Claude Code's own total."""

    reported_cost: ReportedCost


class AgentProgressFacts(Struct, frozen=True, tag="told", omit_defaults=True):
    """An answer of an agent, as a progress record repeats it."""

    message_id: MessageId | None
    request_id: str | None
    model: str | None
    usage: Usage
    billing: Billing | None = None


NodeExtra = (
    CompactionFacts
    | TitleFacts
    | QueueFacts
    | LineageFacts
    | DirectoryFacts
    | JournalFacts
    | RetractionFacts
    | DurationFacts
    | ReportedCostFacts
    | AgentProgressFacts
)


class RecordNode(Struct, frozen=True, kw_only=True, array_like=True):
    """One record as a part of a tree, or beside it."""

    position: Position
    kind: str
    """The record's type."""
    subtype: str | None = None
    uuid: RecordId | None = None
    parent_uuid: RecordId | None = None
    logical_parent_uuid: RecordId | None = None
    session_id: SessionId | None = None
    """As the record says; the session it is shown in is its source's."""
    agent_id: AgentId | None = None
    timestamp: datetime | None = None
    is_sidechain: bool = False
    is_meta: bool = False
    is_error: bool = False
    """An answer that the client made because the API gave none."""
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
    """The beginning of what was typed, said or titled."""
    digest: int = 0
    """Of the whole text of which ``head`` is the beginning."""
    blocks: tuple[NodeBlock, ...] = ()
    result: ResultFacts | None = None
    side_text: SideText | None = None
    """A text in a record of results: typed while they were on their way."""
    command: Command | None = None
    notification: Notification | None = None
    source_call_id: ToolUseId | None = None
    """The call that a skill's body or a progress record belongs to."""
    source_record_id: RecordId | None = None
    """The record whose call this result answers."""
    forked_from: LineageFacts | None = None
    supersedes_ids: tuple[RecordId, ...] = ()
    extra: NodeExtra | None = None
    billing: Billing | None = None

    @property
    def is_conversation(self) -> bool:
        """Whether this is a user or assistant record."""
        return self.kind in {"user", "assistant"}

    @property
    def is_synthetic(self) -> bool:
        """Whether the client made this answer, with or without an error."""
        return self.model == "<synthetic>" or self.is_error


class AgentSidecar(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an agent's sidecar says about it."""

    agent_id: AgentId
    tool_use_id: ToolUseId | None = None
    agent_type: str | None = None
    description: str | None = None
    name: str | None = None
    model: str | None = None
    parent_agent_id: AgentId | None = None
    is_stopped_by_user: bool = False


class Transcript(Struct, frozen=True, kw_only=True):
    """The nodes of one source, in the source's order, and its agent's note."""

    source: SourceFile
    nodes: tuple[RecordNode, ...] = ()
    problems: tuple[Problem, ...] = ()
    sidecar: AgentSidecar | None = None
    journal_nodes: tuple[RecordNode, ...] = ()
    """What the journal of its workflow says of its agent, in the journal's order."""
