"""Sessions as they really were: branches, turns, messages, calls and agent runs.

These values hold structure and places. What was said in full is opened through
their loader when it is asked for, so that a session costs its structure only.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Raw, Struct

from bygones.model.blocks import Block, ToolResult, ToolUse
from bygones.model.changes import hunks_of
from bygones.model.ids import (
    AgentId,
    MessageId,
    Position,
    ProjectKey,
    RecordId,
    SessionId,
    ToolUseId,
)
from bygones.model.nodes import CompactionFacts, ResultFacts
from bygones.model.parts import (
    AgentKind,
    AgentStatus,
    Hidden,
    Lineage,
    LineageKind,
    Loader,
    Piece,
    Project,
    Role,
    Spend,
    Title,
    TitleKind,
)
from bygones.model.problems import Problem
from bygones.model.sources import Source
from bygones.model.texts import Command, Notification, Origin
from bygones.model.tools import Outcome, PatchHunk, ReadOutcome
from bygones.model.usage import Claim, Usage
from bygones.model.versions import FileVersion, versions_of

_TYPED = frozenset({Origin.PERSON, Origin.CALLER})

__all__ = [
    "AgentKind",
    "AgentRun",
    "AgentStatus",
    "Branch",
    "FileEdit",
    "Hidden",
    "Lineage",
    "LineageKind",
    "Loader",
    "Message",
    "Piece",
    "Project",
    "Role",
    "Session",
    "Spend",
    "Title",
    "TitleKind",
    "ToolCall",
    "Turn",
]


class ToolCall(Struct, frozen=True, kw_only=True, weakref=True, array_like=True):
    """A tool use and the result that answers it, or none yet."""

    id: ToolUseId
    name: str
    note: str = ""
    """The file, the command or the words by which it is told from others."""
    path: str | None = None
    record: RecordId
    place: Position
    index: int
    time: datetime | None = None
    answered_at: Position | None = None
    answer_index: int = 0
    answer_record: RecordId | None = None
    answer_time: datetime | None = None
    is_error: bool = False
    is_interrupted: bool = False
    result_size: int = 0
    facts: ResultFacts | None = None
    attached: tuple[Piece, ...] = ()
    """Texts that the harness added for this call, such as a skill's body."""
    agents: tuple[AgentRun, ...] = ()
    """What it started or went on with: one run, or all those of a workflow."""
    loader: Loader

    @property
    def agent(self) -> AgentRun | None:
        """The agent run that it started, the first of several."""
        return self.agents[0] if self.agents else None

    @property
    def is_answered(self) -> bool:
        """Whether a result is there."""
        return self.answered_at is not None

    @property
    def use(self) -> ToolUse | None:
        """The call as it was made, opened now."""
        found = _at(self.loader.blocks(self.place), self.index)
        return found if isinstance(found, ToolUse) else None

    @property
    def input(self) -> Raw:
        """The call's input as JSON, opened now."""
        use = self.use
        return use.input if use else Raw()

    @property
    def result(self) -> ToolResult | None:
        """What the tool answered, opened now; ``None`` where nothing did."""
        if self.answered_at is None:
            return None
        found = _at(self.loader.blocks(self.answered_at), self.answer_index)
        return found if isinstance(found, ToolResult) else None

    @property
    def outcome(self) -> Outcome | None:
        """The structured form of the result, opened now.

        A record that answers several calls does not say which of them it is of.
        """
        place = self._told_at
        return None if place is None else self.loader.outcome(place)

    @property
    def extent(self) -> ReadOutcome | None:
        """The same of a Read, without what was read: far less to open."""
        place = self._told_at
        return None if place is None else self.loader.extent(place)

    @property
    def _told_at(self) -> Position | None:
        if self.answered_at is None:
            return None
        blocks = self.loader.blocks(self.answered_at)
        is_alone = sum(isinstance(block, ToolResult) for block in blocks) <= 1
        return self.answered_at if is_alone else None

    @property
    def stored_output(self) -> str | None:
        """An output too long for the transcript, opened from the session's folder."""
        if self.answered_at is None or not self.facts or not self.facts.stored_at:
            return None
        return self.loader.stored(self.answered_at, self.facts.stored_at)


def _at(blocks: tuple[Block, ...], index: int) -> Block | None:
    return blocks[index] if index < len(blocks) else None


class Message(Struct, frozen=True, kw_only=True, array_like=True):
    """What one side said at one time: one or more records, joined."""

    id: RecordId
    """Of its first record."""
    role: Role
    origin: Origin | None = None
    """Who really produced a message of the user's side."""
    time: datetime | None = None
    head: str = ""
    """The beginning of its text."""
    pieces: tuple[Piece, ...]
    branch: int = 0
    """The number of the branch on which it was said first."""
    api_id: MessageId | None = None
    model: str | None = None
    usage: Usage | None = None
    calls: tuple[ToolCall, ...] = ()
    attached: tuple[Piece, ...] = ()
    """What a command printed or stood for, what a compaction kept."""
    command: Command | None = None
    notification: Notification | None = None
    compaction: CompactionFacts | None = None
    notice: str | None = None
    """The subtype of a system record."""
    is_error: bool = False
    is_steering: bool = False
    """Typed while Claude was at work; belongs to the turn it came into."""
    turn_ms: int | None = None
    """How long the turn took that ends behind it, as Claude Code measured it."""
    loader: Loader

    @property
    def is_prompt(self) -> bool:
        """Whether a person typed it (or a caller, in an agent run)."""
        return self.origin in _TYPED

    @property
    def records(self) -> frozenset[RecordId]:
        """The records it is made of: its own, attached ones and its calls' results."""
        pieces = (
            *self.pieces,
            *self.attached,
            *(p for c in self.calls for p in c.attached),
        )
        answers = (call.answer_record for call in self.calls if call.answer_record)
        return frozenset((*(piece.record for piece in pieces), *answers))

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Its blocks in order, each once, opened now."""
        found: list[Block] = []
        for piece in self.pieces:
            blocks = self.loader.blocks(piece.position)
            found.extend(blocks[at] for at in piece.blocks if at < len(blocks))
        return tuple(found)


class Turn(Struct, frozen=True, kw_only=True, array_like=True):
    """A prompt and all that follows until the next one on the same branch.

    What comes before the first prompt is a turn without one.
    """

    number: int
    prompt: Message | None
    messages: tuple[Message, ...]
    usage: Usage
    duration: timedelta | None = None
    """As Claude Code measured it, else from the first to the last record."""

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls of all its messages."""
        return tuple(call for message in self.messages for call in message.calls)


class Branch(Struct, frozen=True, kw_only=True, array_like=True):
    """The path from a root to one leaf.

    ``turns`` is the whole path; ``own`` begins behind the fork.
    """

    id: RecordId
    """Of its leaf."""
    number: int
    is_live: bool
    fork: RecordId | None = None
    """The last record that it shares with the branch it left."""
    head: RecordId | None = None
    """The prompt with which it left."""
    parent: int | None = None
    """The number of the branch it left."""
    turns: tuple[Turn, ...]
    own: tuple[Turn, ...]
    usage: Usage
    """Of its own turns."""
    title: str | None = None

    @property
    def messages(self) -> tuple[Message, ...]:
        """All messages from the root to the leaf."""
        return tuple(message for turn in self.turns for message in turn.messages)

    @property
    def prompts(self) -> tuple[Message, ...]:
        """What a person typed on its own part."""
        return tuple(m for turn in self.own for m in turn.messages if m.is_prompt)


class AgentRun(Struct, frozen=True, kw_only=True, weakref=True, array_like=True):
    """The session within a session that a tool call started."""

    id: AgentId
    kind: AgentKind
    status: AgentStatus
    link: str | None = None
    """By what it was linked to its call; ``None`` for an orphan."""
    calls: tuple[ToolUseId, ...] = ()
    """The calls that started it and went on with it."""
    type: str | None = None
    description: str | None = None
    workflow: str | None = None
    is_background: bool = False
    depth: int = 1
    started: datetime | None = None
    ended: datetime | None = None
    duration: timedelta | None = None
    tool_count: int = 0
    usage: Usage
    """Its own, without the agents below it."""
    live: Branch
    branches: tuple[Branch, ...]
    agents: tuple[AgentRun, ...] = ()
    problems: tuple[Problem, ...] = ()
    hidden: tuple[Hidden, ...] = ()
    source: Source | None = None
    """The agent's file; ``None`` where its records stand in the session's."""
    spends: tuple[Spend, ...] = ()


class FileEdit(Struct, frozen=True, kw_only=True):
    """A change of one file by one call."""

    path: str
    call: ToolCall
    message: RecordId
    turn: int
    branch: int
    agent: AgentId | None = None
    time: datetime | None = None
    added: int = 0
    removed: int = 0
    is_new: bool = False
    has_patch: bool = False

    @property
    def diff(self) -> tuple[PatchHunk, ...]:
        """What came and went, opened now: the patch, else the old and the new text."""
        return hunks_of(self.call.outcome, self.call.input)


class Session(Struct, frozen=True, kw_only=True, weakref=True):
    """One conversation, gathered from every source that holds a piece of it."""

    id: SessionId
    title: Title
    project: str | None = None
    """The directory of the project that it belongs to."""
    keys: tuple[ProjectKey, ...] = ()
    directories: tuple[str, ...] = ()
    git_branches: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    entrypoints: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    slug: str | None = None
    tags: tuple[str, ...] = ()
    started: datetime | None = None
    ended: datetime | None = None
    live: Branch
    branches: tuple[Branch, ...]
    """The live one first, then the abandoned ones, newest first."""
    agents: tuple[AgentRun, ...] = ()
    """Those that its own calls started, and orphans; each holds those below it."""
    endpoints: tuple[RecordId, ...] = ()
    """Leaves, and the records that summaries name."""
    edits: tuple[FileEdit, ...] = ()
    usage: Usage
    """Of its branches, without agents."""
    spends: tuple[Spend, ...] = ()
    """What was spent here first; copies of older messages are not."""
    claim: Claim | None = None
    """Claude Code's own total, where it wrote one."""
    claimed: datetime | None = None
    """The last thing said before that total was written."""
    snapshots: tuple[Position, ...] = ()
    """Where file history stands in its sources."""
    lineage: tuple[Lineage, ...] = ()
    problems: tuple[Problem, ...] = ()
    hidden: tuple[Hidden, ...] = ()
    sources: tuple[Source, ...] = ()
    is_empty: bool = False
    """No prompt and no answer in it: not listed unless asked for."""
    loader: Loader

    @property
    def file_versions(self) -> dict[str, tuple[FileVersion, ...]]:
        """The versions of each file that was tracked, oldest first, opened now."""
        return versions_of(filter(None, map(self.loader.snapshot, self.snapshots)))

    @property
    def all_agents(self) -> tuple[AgentRun, ...]:
        """Its agents and those below them, callers before the called."""
        found: list[AgentRun] = []
        waiting = list(reversed(self.agents))
        while waiting:
            agent = waiting.pop()
            found.append(agent)
            waiting.extend(reversed(agent.agents))
        return tuple(found)

    @property
    def total(self) -> Usage:
        """The usage with all agents but replays and warm-ups."""
        return sum(
            (agent.usage for agent in self.all_agents if agent.kind.is_shown),
            self.usage,
        )

    @property
    def prompts(self) -> tuple[Message, ...]:
        """What a person typed on the live branch."""
        return tuple(m for m in self.live.messages if m.is_prompt)

    @property
    def message_count(self) -> int:
        """Prompts and answers on the live branch."""
        messages = self.live.messages
        return sum(1 for m in messages if m.is_prompt or m.role is Role.ASSISTANT)

    def branch(self, record: str) -> Branch | None:
        """Return the branch that has this leaf, else one that holds this record."""
        for branch in self.branches:
            if branch.id == record:
                return branch
        for branch in self.branches:
            for turn in branch.own:
                if any(record in message.records for message in turn.messages):
                    return branch
        return None
