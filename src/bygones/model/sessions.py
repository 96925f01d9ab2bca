"""Sessions: branches, turns, messages, tool calls and agent runs.

These values contain the structure and the positions of records. The content is loaded
on access, through the loader of the session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import chain
from operator import attrgetter
from typing import Any

from msgspec import Raw, Struct, structs

from bygones.model.base import (
    AgentId,
    MessageId,
    Position,
    Problem,
    ProjectKey,
    RecordId,
    SessionId,
    SourceFile,
    ToolUseId,
    shorten,
    value_library,
)
from bygones.model.metadata import FileVersion, collect_file_versions
from bygones.model.nodes import (
    PREVIEW_LIMIT,
    ChangedFile,
    Command,
    CompactionFacts,
    Notification,
    Origin,
    ResultFacts,
)
from bygones.model.outcomes import Outcome, PatchHunk, ReadOutcome, build_hunks
from bygones.model.projects import RepositoryClue
from bygones.model.records import Block, ToolResultBlock, ToolUseBlock
from bygones.model.summary import (
    AgentKind,
    AgentStatus,
    EmptyReason,
    HiddenRecord,
    LeafSummary,
    Lineage,
    Loader,
    MessageUsage,
    RecordRef,
    Role,
    Title,
)
from bygones.model.usage import ReportedCost, Usage

PROMPT_ORIGINS = frozenset({Origin.PERSON, Origin.CALLER})
"""Who writes prompts."""


_EDITING_TOOLS = frozenset({"Edit", "Write", "MultiEdit", "NotebookEdit"})


_NO_FACTS = ResultFacts()


class ToolCall(Struct, frozen=True, kw_only=True, weakref=True, array_like=True):
    """A tool call and its result, if there is one."""

    id: ToolUseId
    name: str
    label: str = ""
    """The file, command or text that identifies the call."""
    path: str | None = None
    record_id: RecordId
    position: Position
    block_index: int
    called_at: datetime | None = None
    result_position: Position | None = None
    result_index: int = 0
    result_record_id: RecordId | None = None
    completed_at: datetime | None = None
    is_error: bool = False
    is_interrupted: bool = False
    """Whether the result says that the user interrupted or refused the call."""
    is_stopped: bool = False
    """Whether the user stopped the call while it ran."""
    result_size: int = 0
    result_facts: ResultFacts | None = None
    attached_refs: tuple[RecordRef, ...] = ()
    """Texts that the harness added to this call, such as the content of a skill."""
    agents: tuple[AgentRun, ...] = ()
    """The agent runs that it started or continued; several for a workflow."""
    loader: Loader

    @property
    def agent(self) -> AgentRun | None:
        """The first agent run that it started."""
        return self.agents[0] if self.agents else None

    @property
    def has_result(self) -> bool:
        """Whether there is a result."""
        return self.result_position is not None

    @property
    def changed_files(self) -> tuple[ChangedFile, ...]:
        """The files that it changed; none if it failed or has no result yet.

        A shell command has those that Claude Code recorded.
        """
        facts = self.result_facts or _NO_FACTS
        if self.name not in _EDITING_TOOLS:
            return facts.changed_files
        path = facts.path or self.path
        if self.is_error or not self.has_result or not path:
            return ()
        file = ChangedFile(
            path=path,
            added_lines=facts.added_lines,
            removed_lines=facts.removed_lines,
            is_new_file=facts.is_new_file,
        )
        return (file,)

    @property
    def tool_use(self) -> ToolUseBlock | None:
        """The block of the call; loaded on access."""
        block = _block_at(self.loader.load_blocks(self.position), self.block_index)
        return block if isinstance(block, ToolUseBlock) else None

    def __repr__(self) -> str:
        return f"<ToolCall {self.name} {shorten(self.label)!r}>"

    @property
    def input(self) -> dict[str, Any]:
        """The input; loaded on access, and empty if it is not an object."""
        return value_library().call_input(self)

    @property
    def output(self) -> str | None:
        """The result as text; loaded on access, `None` if there is no result."""
        return value_library().call_output(self)

    @property
    def failed(self) -> bool:
        """Whether the result is an error, also because you refused or interrupted it."""
        return self.is_error

    def to_dict(self) -> dict[str, Any]:
        """Return it in JSON schema 2."""
        return value_library().to_dict(self)

    @property
    def raw_input(self) -> Raw:
        """The input as JSON; loaded on access."""
        use = self.tool_use
        return use.input if use else Raw()

    @property
    def result(self) -> ToolResultBlock | None:
        """The block of the result; loaded on access."""
        if self.result_position is None:
            return None
        blocks = self.loader.load_blocks(self.result_position)
        block = _block_at(blocks, self.result_index)
        return block if isinstance(block, ToolResultBlock) else None

    @property
    def outcome(self) -> Outcome | None:
        """The structured result; loaded on access.

        `None` if the record contains the results of several calls: it does not say which
        one the outcome belongs to.
        """
        position = self._outcome_position
        return None if position is None else self.loader.load_outcome(position)

    @property
    def read_extent(self) -> ReadOutcome | None:
        """The outcome of a Read without the file's text, which is faster to load."""
        position = self._outcome_position
        return None if position is None else self.loader.load_read_extent(position)

    @property
    def _outcome_position(self) -> Position | None:
        if self.result_position is None:
            return None
        blocks = self.loader.load_blocks(self.result_position)
        result_count = sum(isinstance(block, ToolResultBlock) for block in blocks)
        return self.result_position if result_count <= 1 else None

    @property
    def stored_output(self) -> str | None:
        """An output that was too long for the transcript; loaded on access."""
        if (
            self.result_position is None
            or not self.result_facts
            or not self.result_facts.stored_path
        ):
            return None
        return self.loader.load_stored_output(
            self.result_position, self.result_facts.stored_path
        )


def _block_at(blocks: tuple[Block, ...], index: int) -> Block | None:
    return blocks[index] if index < len(blocks) else None


class Message(Struct, frozen=True, kw_only=True, array_like=True):
    """A message of the user, of Claude or of the system: one or more records."""

    id: RecordId
    """The id of its first record."""
    role: Role
    origin: Origin | None = None
    """Who produced a user message."""
    sent_at: datetime | None = None
    preview: str = ""
    """The beginning of the text."""
    record_refs: tuple[RecordRef, ...]
    branch_number: int = 0
    """The first branch that contains it."""
    api_id: MessageId | None = None
    model: str | None = None
    usage: Usage | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    attached_refs: tuple[RecordRef, ...] = ()
    """Output and expansion of a command, summary of a compaction."""
    command: Command | None = None
    notification: Notification | None = None
    compaction: CompactionFacts | None = None
    system_subtype: str | None = None
    """The subtype of a system record."""
    is_error: bool = False
    is_steering: bool = False
    """Whether it was typed while Claude worked; it belongs to the current turn."""
    turn_duration_ms: int | None = None
    """The duration of the turn that ends with it, as measured by Claude Code."""
    loader: Loader
    is_preview_cut: bool = False
    """Whether the preview was cut before redaction changed its length."""

    def __repr__(self) -> str:
        return f"<Message {self.role} {self.id[:8]} {shorten(self.preview)!r}>"

    @property
    def text(self) -> str:
        """What was typed, what Claude replied, or what a notice says; loaded on access."""
        return value_library().message_text(self)

    def to_dict(self) -> dict[str, Any]:
        """Return it in JSON schema 2, without the turn and the agent that it is in."""
        return value_library().to_dict(self)

    def _repr_html_(self) -> str:
        return value_library().to_html(self)

    @property
    def is_prompt(self) -> bool:
        """Whether it was typed, or is the prompt of an agent run."""
        return self.origin in PROMPT_ORIGINS

    @property
    def has_whole_preview(self) -> bool:
        """Whether the preview is the whole text, or a description if there is none."""
        return not self.is_preview_cut and len(self.preview) < PREVIEW_LIMIT

    @property
    def record_ids(self) -> frozenset[RecordId]:
        """Its records, including attached ones and the results of its calls."""
        refs = (
            *self.record_refs,
            *self.attached_refs,
            *(ref for call in self.tool_calls for ref in call.attached_refs),
        )
        results = (
            call.result_record_id for call in self.tool_calls if call.result_record_id
        )
        return frozenset((*(ref.record_id for ref in refs), *results))

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Its blocks in order; loaded on access."""
        blocks: list[Block] = []
        for ref in self.record_refs:
            loaded = self.loader.load_blocks(ref.position)
            blocks.extend(loaded[i] for i in ref.block_indexes if i < len(loaded))
        return tuple(blocks)


class Turn(Struct, frozen=True, kw_only=True, array_like=True):
    """A prompt and everything up to the next prompt on the same branch.

    Messages before the first prompt are a turn without a prompt.
    """

    number: int
    prompt: Message | None
    messages: tuple[Message, ...]
    usage: Usage
    duration: timedelta | None = None
    """As measured by Claude Code, or from the prompt to the last reply or result.

    `None` if the times are only those of copying the session.
    """

    def __repr__(self) -> str:
        preview = shorten(self.prompt.preview) if self.prompt else ""
        return f"<Turn {self.number} {preview!r} {len(self.messages)} messages>"

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls of all its messages."""
        return tuple(call for message in self.messages for call in message.tool_calls)


class CutTurn(Struct, frozen=True, kw_only=True, array_like=True):
    """The turn in which a path leaves another one."""

    path: TurnPath
    """The path that its first messages belong to."""
    message_count: int
    """The number of these messages."""
    last_message: Message
    """The last of them."""
    has_prompt: bool
    usage: Usage
    """Like the duration, of the whole turn."""
    duration: timedelta | None = None
    is_continued: bool = False
    """Whether the path's first own turn is the rest of it."""


class TurnPath(Struct, frozen=True, array_like=True):
    """The turns from a root to a leaf.

    What is before a fork belongs to another path, and is not copied: a session may be
    rewound at every turn, and a long turn at every answer.
    """

    own: tuple[Turn, ...] = ()
    """The turns after the fork."""
    shared: TurnPath | None = None
    """The path that its first turns belong to."""
    shared_turn_count: int = 0
    shared_message_count: int = 0
    """The number of messages in the shared turns."""
    cut: CutTurn | None = None
    """The turn at the fork, which follows the shared ones."""

    @property
    def rest(self) -> tuple[Turn, ...]:
        """The turns after the shared ones. The first may contain messages before the fork."""
        cut = self.cut
        if cut is None:
            return self.own
        continued = self.own[: cut.is_continued]
        messages = self._cut_messages()
        first = Turn(
            number=self.shared_turn_count,
            prompt=messages[0] if cut.has_prompt else None,
            messages=(*messages, *(m for turn in continued for m in turn.messages)),
            usage=cut.usage,
            duration=cut.duration,
        )
        return (first, *self.own[len(continued) :])

    def _cut_messages(self) -> list[Message]:
        """Return the messages of the turn at the fork that belong to other paths."""
        parts: list[tuple[Message, ...]] = []
        cut = self.cut
        count = cut.message_count if cut else 0
        while cut is not None:
            path, cut = cut.path, None
            at = self.shared_turn_count - path.own_turn_start
            skipped = 0
            if (
                path.cut is not None
                and self.shared_turn_count == path.shared_turn_count
            ):
                cut, skipped = path.cut, path.cut.message_count
            if at >= 0:
                parts.append(path.own[at].messages[: count - skipped])
            count = skipped
        return [message for part in reversed(parts) for message in part]

    @property
    def turns(self) -> tuple[Turn, ...]:
        """All turns, the shared ones first."""
        parts = [self.rest]
        stop = self.shared_turn_count
        path = self.shared
        while path is not None:
            if stop > path.shared_turn_count:
                parts.append(path.rest[: stop - path.shared_turn_count])
            stop, path = min(stop, path.shared_turn_count), path.shared
        return tuple(chain.from_iterable(reversed(parts)))

    @property
    def own_turn_start(self) -> int:
        """The number of turns before the first own one."""
        return self.shared_turn_count + (
            self.cut is not None and not self.cut.is_continued
        )

    @property
    def own_message_start(self) -> int:
        """The number of messages before its own turns."""
        return self.shared_message_count + (self.cut.message_count if self.cut else 0)

    @property
    def turn_count(self) -> int:
        """The number of all turns."""
        return self.own_turn_start + len(self.own)

    @property
    def message_count(self) -> int:
        """The number of messages in all turns."""
        return self.own_message_start + sum(len(turn.messages) for turn in self.own)


class Branch(Struct, frozen=True, kw_only=True, array_like=True):
    """The path from a root to one leaf.

    `turns` is the whole path; `own_turns` starts after the fork.
    """

    id: RecordId
    """The id of its leaf."""
    number: int
    is_live: bool
    fork_id: RecordId | None = None
    """The last record that it shares with its parent branch."""
    first_prompt_id: RecordId | None = None
    """Its first prompt after the fork."""
    parent_number: int | None = None
    """The branch that it was forked from."""
    path: TurnPath = TurnPath()
    own_turns: tuple[Turn, ...]
    usage: Usage
    """The usage of its own turns."""
    title: str | None = None
    session_id: SessionId | None = None
    """The session that it belongs to, if that is another one in the same file."""

    def __repr__(self) -> str:
        kind = "live" if self.is_live else "abandoned"
        return f"<Branch {self.number} {kind} {self.path.turn_count} turns>"

    @property
    def turns(self) -> tuple[Turn, ...]:
        """Its turns from the root to the leaf."""
        return self.path.turns

    @property
    def last_shared_id(self) -> RecordId | None:
        """The last message that it shares with its parent."""
        path = self.path
        if path.own and path.own[0].messages[0].id != self.own_turns[0].messages[0].id:
            return path.own[0].messages[0].id
        return path.cut.last_message.id if path.cut else None

    @property
    def messages(self) -> tuple[Message, ...]:
        """Its messages from the root to the leaf."""
        return tuple(message for turn in self.turns for message in turn.messages)

    @property
    def prompts(self) -> tuple[Message, ...]:
        """The prompts of its own turns."""
        return tuple(m for turn in self.own_turns for m in turn.messages if m.is_prompt)

    def find_prompt(self, turn_number: int) -> Message | None:
        """Return the prompt of a turn."""
        turns = (turn for turn in self.turns if turn.number == turn_number)
        return next((turn.prompt for turn in turns if turn.prompt), None)


class AgentRun(Struct, frozen=True, kw_only=True, weakref=True, array_like=True):
    """The conversation of an agent that a tool call started."""

    id: AgentId
    kind: AgentKind
    status: AgentStatus
    linked_by: str | None = None
    """What links it to its call; `None` if its call is unknown."""
    call_ids: tuple[ToolUseId, ...] = ()
    """The calls that started and continued it."""
    agent_type: str | None = None
    description: str | None = None
    workflow: str | None = None
    is_background: bool = False
    depth: int = 1
    started_at: datetime | None = None
    ended_at: datetime | None = None
    duration: timedelta | None = None
    tool_call_count: int = 0
    usage: Usage
    """Without nested agents."""
    live_branch: Branch
    branches: tuple[Branch, ...]
    agents: tuple[AgentRun, ...] = ()
    problems: tuple[Problem, ...] = ()
    hidden_records: tuple[HiddenRecord, ...] = ()
    source: SourceFile | None = None
    """The agent's file; `None` if its records are in the session's file."""
    message_usages: tuple[MessageUsage, ...] = ()
    is_partial: bool = False
    """Whether its file is gone, and only progress records repeat parts of it."""

    def __repr__(self) -> str:
        return f"<AgentRun {self.id} {self.agent_type} {shorten(self.description)!r}>"

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages of its live branch."""
        return self.live_branch.messages

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls of its live branch."""
        return tuple(call for m in self.messages for call in m.tool_calls)


class FileEdit(Struct, frozen=True, kw_only=True):
    """An edit of one file by one tool call."""

    path: str
    tool_call: ToolCall
    message_id: RecordId
    turn_number: int
    branch_number: int
    agent_id: AgentId | None = None
    edited_at: datetime | None = None
    added_lines: int = 0
    removed_lines: int = 0
    is_new_file: bool = False
    is_deleted: bool = False
    has_diff: bool = True
    """Whether the changed lines are recorded; otherwise both counts are 0."""

    def __repr__(self) -> str:
        lines = f"+{self.added_lines} -{self.removed_lines}"
        return f"<FileEdit {self.path!r} {lines}>"

    @property
    def diff(self) -> tuple[PatchHunk, ...]:
        """The diff: the recorded patch, or one computed from the texts; loaded on access."""
        return build_hunks(self.tool_call.outcome, self.tool_call.raw_input, self.path)


class Session(Struct, frozen=True, kw_only=True, weakref=True):
    """One conversation, assembled from all sources that contain a part of it."""

    id: SessionId
    title: Title
    project: str | None = None
    """The directory of its project."""
    project_keys: tuple[ProjectKey, ...] = ()
    directories: tuple[str, ...] = ()
    repository_clues: tuple[RepositoryClue, ...] = ()
    git_branches: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    entrypoints: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    slug: str | None = None
    tags: tuple[str, ...] = ()
    started_at: datetime | None = None
    ended_at: datetime | None = None
    live_branch: Branch
    branches: tuple[Branch, ...]
    """The live branch first, then the abandoned ones, newest first."""
    agents: tuple[AgentRun, ...] = ()
    """The agent runs that it started, with nested ones inside, and unlinked ones."""
    endpoint_ids: tuple[RecordId, ...] = ()
    """Leaves, and records with a summary."""
    summaries: tuple[LeafSummary, ...] = ()
    """Summaries of its records in their order, without those of API errors."""
    other_summaries: tuple[LeafSummary, ...] = ()
    """Summaries in its files, of records that these do not contain."""
    edits: tuple[FileEdit, ...] = ()
    usage: Usage
    """The usage of its branches, without agents."""
    message_usages: tuple[MessageUsage, ...] = ()
    """The usages of its own messages, without copies from older sessions."""
    reported_cost: ReportedCost | None = None
    """The total that Claude Code reported, if any."""
    cost_reported_at: datetime | None = None
    """The last timestamp before the total was written."""
    snapshot_positions: tuple[Position, ...] = ()
    """Positions of file history records."""
    lineage: tuple[Lineage, ...] = ()
    contained_ids: tuple[SessionId, ...] = ()
    """Other sessions without a file of their own, whose records its files contain."""
    problems: tuple[Problem, ...] = ()
    hidden_records: tuple[HiddenRecord, ...] = ()
    sources: tuple[SourceFile, ...] = ()
    is_empty: bool = False
    """Whether it has neither prompts nor replies; such sessions are not listed by default."""
    empty_reason: EmptyReason | None = None
    """What it consists of, if it is empty."""
    person: str = ""
    """Who pushed it to a hub; empty in a local archive."""
    loader: Loader

    def __repr__(self) -> str:
        ended = f" {self.ended_at:%Y-%m-%d}" if self.ended_at else ""
        return f"<Session {self.id[:8]}{ended} {shorten(self.title.text)!r}>"

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages of the live branch; `branches` has the others."""
        return self.live_branch.messages

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls of the live branch, without those of agents."""
        return tuple(call for m in self.messages for call in m.tool_calls)

    @property
    def cost_usd(self) -> float | None:
        """What it cost with its agents, without replies that another session has.

        `None` if no price is known. `Archive.costs` has it with your own prices.
        """
        return value_library().session_cost_usd(self)

    def to_dict(self) -> dict[str, Any]:
        """Return what lists show of it, in JSON schema 2."""
        return value_library().to_dict(self)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return it with its turns, messages and agents, in JSON schema 2."""
        return value_library().to_dicts(self)

    def _repr_html_(self) -> str:
        return value_library().to_html(self)

    @property
    def file_versions(self) -> dict[str, tuple[FileVersion, ...]]:
        """The versions of each tracked file, oldest first; loaded on access."""
        return collect_file_versions(
            filter(None, map(self.loader.load_snapshot, self.snapshot_positions))
        )

    @property
    def all_agents(self) -> tuple[AgentRun, ...]:
        """All agent runs at any depth, parents before children."""
        return tuple(walk_agents(self.agents))

    @property
    def total_usage(self) -> Usage:
        """The usage including agents, without replays and warm-ups."""
        return sum(
            (agent.usage for agent in self.all_agents if agent.kind.is_shown),
            self.usage,
        )

    @property
    def prompts(self) -> tuple[Message, ...]:
        """The prompts of the live branch."""
        return tuple(m for m in self.live_branch.messages if m.is_prompt)

    @property
    def message_count(self) -> int:
        """Number of prompts and replies on the live branch."""
        messages = self.live_branch.messages
        return sum(1 for m in messages if m.is_prompt or m.role is Role.ASSISTANT)

    def find_branch(self, record_id: str) -> Branch | None:
        """Return the branch with this leaf, otherwise the one with this record."""
        for branch in self.branches:
            if branch.id == record_id:
                return branch
        for branch in self.branches:
            for turn in branch.own_turns:
                if any(record_id in message.record_ids for message in turn.messages):
                    return branch
        return None


def own_messages(branch: Branch) -> list[Message]:
    return [message for turn in branch.own_turns for message in turn.messages]


def agent_run_as_session(session: Session, run: AgentRun) -> Session:
    """Return an agent run as a session, so that it can be shown like one."""
    title = ": ".join(filter(None, (run.agent_type, run.description))) or run.id
    return structs.replace(
        session,
        title=structs.replace(session.title, text=title),
        live_branch=run.live_branch,
        branches=run.branches,
        agents=run.agents,
        started_at=run.started_at,
        ended_at=run.ended_at,
        usage=run.usage,
        edits=(),
        lineage=(),
        problems=run.problems,
    )


def list_started_agents(messages: Iterable[Message]) -> list[AgentRun]:
    """Return the agents that messages started, without those that they continued."""
    return [
        run
        for message in messages
        for call in message.tool_calls
        for run in call.agents
        if not run.call_ids or run.call_ids[0] == call.id
    ]


def list_called_agents(session: Session) -> list[AgentRun]:
    """Return all agent runs of a session, and those that it only continues.

    A session that was continued in another one may have started them.
    """
    runs = list(session.agents)
    if session.lineage:
        runs += (
            run
            for branch in session.branches
            for message in own_messages(branch)
            for call in message.tool_calls
            for run in call.agents
        )
    return list(walk_agents(runs))


def walk_agents(
    runs: Sequence[AgentRun],
    nested: Callable[[AgentRun], Sequence[AgentRun]] = attrgetter("agents"),
) -> Iterator[AgentRun]:
    """Yield runs and the runs nested in them, parents before children, each once."""
    seen: set[AgentId] = set()
    stack = list(reversed(runs))
    while stack:
        run = stack.pop()
        if run.id not in seen:
            seen.add(run.id)
            yield run
            stack.extend(reversed(nested(run)))
