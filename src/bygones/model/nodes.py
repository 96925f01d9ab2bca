"""Nodes: what one record contributes to the structure of its session.

A node is small and holds no text beyond a beginning: sessions are assembled from
nodes alone, and what a record says in full is opened by its position.
"""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from bygones.model.ids import (
    AgentId,
    MessageId,
    Position,
    RecordId,
    SessionId,
    ToolUseId,
)
from bygones.model.problems import Problem
from bygones.model.sources import Source
from bygones.model.texts import Command, Notification, Origin
from bygones.model.usage import Billing, Claim, Usage

__all__ = [
    "HEAD_LIMIT",
    "AgentNote",
    "Beside",
    "BlockFact",
    "CompactionFacts",
    "CostFacts",
    "DurationFacts",
    "Extra",
    "JournalFacts",
    "LineageFacts",
    "Node",
    "PlaceFacts",
    "QueueFacts",
    "ResultFacts",
    "RetractionFacts",
    "TitleFacts",
    "ToldFacts",
    "Transcript",
]

HEAD_LIMIT = 300
"""Characters of a text that a node keeps."""


class BlockFact(Struct, frozen=True, kw_only=True, gc=False, array_like=True):
    """A content block without its content."""

    kind: str
    """Its type: text, thinking, tool_use, tool_result, image, …"""
    id: ToolUseId | None = None
    """Of the tool use that it is or answers."""
    name: str | None = None
    note: str | None = None
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

    agent: AgentId | None = None
    told_agent: AgentId | None = None
    """As the result's text tells the model, where nothing better names it."""
    status: str | None = None
    duration_ms: int | None = None
    tokens: int | None = None
    tool_count: int | None = None
    path: str | None = None
    added: int = 0
    removed: int = 0
    has_patch: bool = False
    is_new: bool = False
    run: str | None = None
    """A workflow's run, or a background task."""
    stored_at: str | None = None
    """Where an output too long for the transcript was put."""
    searches: int = 0


class Beside(Struct, frozen=True, gc=False, array_like=True):
    """What stands beside results in one record: who said it, and how it begins."""

    origin: Origin
    head: str = ""
    digest: int = 0


class CompactionFacts(Struct, frozen=True, tag="compaction", omit_defaults=True):
    """What a compaction replaced, and what it kept."""

    trigger: str | None = None
    before: int | None = None
    after: int | None = None
    preserved: tuple[RecordId, ...] = ()
    anchor: RecordId | None = None


class TitleFacts(Struct, frozen=True, tag="title", omit_defaults=True):
    """A title and the leaf that it names, if it names one."""

    text: str
    leaf: RecordId | None = None
    explicit: bool = False


class QueueFacts(Struct, frozen=True, tag="queue", omit_defaults=True):
    """What happened to a queued text."""

    operation: str


class LineageFacts(Struct, frozen=True, tag="lineage", omit_defaults=True):
    """Another session that this one came from or went on in."""

    session: SessionId | None = None
    record: RecordId | None = None


class PlaceFacts(Struct, frozen=True, tag="place", omit_defaults=True):
    """The directory that a worktree belongs to, or that a session moved to."""

    path: str


class JournalFacts(Struct, frozen=True, tag="journal", omit_defaults=True):
    """A step of a workflow's agent."""

    agent: AgentId | None = None
    label: str | None = None


class RetractionFacts(Struct, frozen=True, tag="retraction", omit_defaults=True):
    """Records that are no longer valid."""

    records: tuple[RecordId, ...] = ()


class DurationFacts(Struct, frozen=True, tag="duration", omit_defaults=True):
    """How long a turn took."""

    milliseconds: int


class CostFacts(Struct, frozen=True, tag="cost", omit_defaults=True):
    """Claude Code's own total."""

    claim: Claim


class ToldFacts(Struct, frozen=True, tag="told", omit_defaults=True):
    """An answer of an agent, as a progress record repeats it."""

    message: MessageId | None
    request: str | None
    model: str | None
    usage: Usage
    billing: Billing | None = None


Extra = (
    CompactionFacts
    | TitleFacts
    | QueueFacts
    | LineageFacts
    | PlaceFacts
    | JournalFacts
    | RetractionFacts
    | DurationFacts
    | CostFacts
    | ToldFacts
)


class Node(Struct, frozen=True, kw_only=True, array_like=True):
    """One record as a part of a tree, or beside it."""

    position: Position
    kind: str
    """The record's type."""
    subtype: str | None = None
    uuid: RecordId | None = None
    parent: RecordId | None = None
    logical_parent: RecordId | None = None
    session: SessionId | None = None
    """As the record says; the session it is shown in is its source's."""
    agent: AgentId | None = None
    time: datetime | None = None
    is_sidechain: bool = False
    is_meta: bool = False
    is_error: bool = False
    """An answer that the client made because the API gave none."""
    cwd: str | None = None
    git_branch: str | None = None
    version: str | None = None
    slug: str | None = None
    entrypoint: str | None = None
    team: str | None = None
    message: MessageId | None = None
    request: str | None = None
    model: str | None = None
    usage: Usage | None = None
    origin: Origin | None = None
    head: str = ""
    """The beginning of what was typed, said or titled."""
    digest: int = 0
    """Of the whole text of which ``head`` is the beginning."""
    blocks: tuple[BlockFact, ...] = ()
    result: ResultFacts | None = None
    beside: Beside | None = None
    """A text in a record of results: typed while they were on their way."""
    command: Command | None = None
    notification: Notification | None = None
    source_call: ToolUseId | None = None
    """The call that a skill's body or a progress record belongs to."""
    source_record: RecordId | None = None
    """The record whose call this result answers."""
    forked_from: LineageFacts | None = None
    supersedes: tuple[RecordId, ...] = ()
    extra: Extra | None = None
    billing: Billing | None = None

    @property
    def is_conversation(self) -> bool:
        """Whether this is a user or assistant record."""
        return self.kind in {"user", "assistant"}

    @property
    def is_synthetic(self) -> bool:
        """Whether the client made this answer, with or without an error."""
        return self.model == "<synthetic>" or self.is_error


class AgentNote(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an agent's sidecar says about it."""

    agent: AgentId
    tool_use: ToolUseId | None = None
    type: str | None = None
    description: str | None = None
    name: str | None = None
    model: str | None = None
    parent: AgentId | None = None
    stopped_by_user: bool = False


class Transcript(Struct, frozen=True, kw_only=True):
    """The nodes of one source, in the source's order, and its agent's note."""

    source: Source
    nodes: tuple[Node, ...] = ()
    problems: tuple[Problem, ...] = ()
    note: AgentNote | None = None
    steps: tuple[Node, ...] = ()
    """What the journal of its workflow says of its agent, in the journal's order."""
