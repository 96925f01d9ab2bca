"""Sessions: branches, turns, messages, tool calls and agent runs.

These values contain the structure and the positions of records. The content is loaded
on access, through the loader of the session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Protocol

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
)
from bygones.model.metadata import FileVersion, collect_file_versions
from bygones.model.nodes import (
    ChangedFile,
    Command,
    CompactionFacts,
    Notification,
    Origin,
    ResultFacts,
)
from bygones.model.outcomes import Outcome, PatchHunk, ReadOutcome, build_hunks
from bygones.model.problem_runs import count_problems
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

_PROMPT_ORIGINS = frozenset({Origin.PERSON, Origin.CALLER})
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

    @property
    def input(self) -> Raw:
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

    @property
    def is_prompt(self) -> bool:
        """Whether it was typed, or is the prompt of an agent run."""
        return self.origin in _PROMPT_ORIGINS

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
    """As measured by Claude Code, or from the first to the last record."""

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls of all its messages."""
        return tuple(call for message in self.messages for call in message.tool_calls)


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
    turns: tuple[Turn, ...]
    own_turns: tuple[Turn, ...]
    usage: Usage
    """The usage of its own turns."""
    title: str | None = None
    session_id: SessionId | None = None
    """The session that it belongs to, if that is another one in the same file."""

    @property
    def messages(self) -> tuple[Message, ...]:
        """Its messages from the root to the leaf."""
        return tuple(message for turn in self.turns for message in turn.messages)

    @property
    def prompts(self) -> tuple[Message, ...]:
        """The prompts of its own turns."""
        return tuple(m for turn in self.own_turns for m in turn.messages if m.is_prompt)


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

    @property
    def diff(self) -> tuple[PatchHunk, ...]:
        """The diff: the recorded patch, or one computed from the texts; loaded on access."""
        return build_hunks(self.tool_call.outcome, self.tool_call.input, self.path)


class Session(Struct, frozen=True, kw_only=True, weakref=True):
    """One conversation, assembled from all sources that contain a part of it."""

    id: SessionId
    title: Title
    project: str | None = None
    """The directory of its project."""
    project_keys: tuple[ProjectKey, ...] = ()
    directories: tuple[str, ...] = ()
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
    """Whether it has neither prompts nor answers; such sessions are not listed by default."""
    empty_reason: EmptyReason | None = None
    """What it consists of, if it is empty."""
    loader: Loader

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
        """Number of prompts and answers on the live branch."""
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


PREVIEW_MESSAGES = 6
"""Number of messages that a page shows first."""


class BranchSummary(Struct, frozen=True, kw_only=True, gc=False, array_like=True):
    """A branch without its messages."""

    id: RecordId
    number: int
    is_live: bool
    parent_number: int | None = None
    message_count: int = 0
    """Number of messages from the root to the leaf."""
    shared_count: int = 0
    """How many of them it shares with its parent branch."""
    last_shared_id: RecordId | None = None
    prompt_count: int = 0
    """From the root to the leaf."""
    tool_call_count: int = 0
    own_prompt_count: int = 0
    preview: str = ""
    """The beginning of its first own prompt."""
    usage: Usage
    """The usage of its own turns."""
    session_id: SessionId | None = None
    """The session that it belongs to, if that is another one in the same file."""
    title: str | None = None


class ConversationHeader(Struct, frozen=True, kw_only=True, array_like=True):
    """A session, or an agent run in it, without its messages."""

    id: SessionId
    agent_id: AgentId | None = None
    title: Title
    project: str | None = None
    git_branches: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    entrypoints: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    started_at: datetime | None = None
    ended_at: datetime | None = None
    usage: Usage
    """Including agents."""
    lineage: tuple[Lineage, ...] = ()
    agent_count: int = 0
    """Agent runs at any depth, without replays and warm-ups."""
    problem_count: int = 0
    file_count: int = 0
    """Number of files that were edited."""
    branches: tuple[BranchSummary, ...]
    orphan_agents: tuple[AgentRun, ...] = ()
    """Agent runs whose call is unknown, without their content."""
    summary_count: int = 0
    """Number of summaries, if there are several."""
    branch_summaries: tuple[LeafSummary, ...] = ()
    """The last summary of each branch."""
    other_summaries: tuple[LeafSummary, ...] = ()
    """If it is empty: the summaries in its file."""
    empty_reason: EmptyReason | None = None

    def find_branch(self, number: int) -> BranchSummary | None:
        return next((b for b in self.branches if b.number == number), None)


class MessageWindow(Struct, frozen=True, kw_only=True):
    """A range of messages of a branch, in turns.

    If the first turn is partial, it has no prompt, and its usage is that of the whole
    turn.
    """

    header: ConversationHeader
    branch_number: int
    start: int
    turns: tuple[Turn, ...]
    is_first_turn_partial: bool = False
    """Whether the first turn starts before the window."""

    @property
    def messages(self) -> tuple[Message, ...]:
        """Its messages in order."""
        return tuple(message for turn in self.turns for message in turn.messages)

    @property
    def stop(self) -> int:
        """The number after the last message."""
        return self.start + sum(len(turn.messages) for turn in self.turns)


def build_conversation_header(
    session: Session, agent_id: AgentId | None = None
) -> ConversationHeader:
    """Return the header of a session, or of an agent run as a session."""
    return ConversationHeader(
        id=session.id,
        agent_id=agent_id,
        title=session.title,
        project=session.project,
        git_branches=session.git_branches,
        versions=session.versions,
        entrypoints=session.entrypoints,
        models=session.models,
        started_at=session.started_at,
        ended_at=session.ended_at,
        usage=session.total_usage,
        lineage=session.lineage,
        agent_count=sum(1 for run in session.all_agents if run.kind.is_shown),
        problem_count=count_problems(session.problems),
        file_count=len({edit.path for edit in session.edits}),
        branches=tuple(_summarize_branches(session.branches)),
        orphan_agents=tuple(
            strip_agent_run(run)
            for run in session.agents
            if not run.call_ids and run.kind.is_shown
        ),
        summary_count=len(session.summaries) if len(session.summaries) > 1 else 0,
        branch_summaries=tuple(find_branch_summaries(session).values()),
        other_summaries=session.other_summaries if session.is_empty else (),
        empty_reason=session.empty_reason,
    )


def find_branch_summaries(session: Session) -> dict[RecordId, LeafSummary]:
    """Return the last summary of each branch by its leaf, unless it is the title.

    Old versions wrote one after almost every answer.
    """
    by_leaf = {summary.leaf_id: summary for summary in session.summaries}
    found: dict[RecordId, LeafSummary] = {}
    for branch in session.branches if by_leaf else ():
        records = {
            record
            for turn in branch.own_turns
            for message in turn.messages
            for record in message.record_ids
        }
        last = next((leaf for leaf in reversed(by_leaf) if leaf in records), None)
        if last is not None and by_leaf[last].text != session.title.text:
            found[last] = by_leaf[last]
    return found


def _summarize_branches(branches: Sequence[Branch]) -> Iterator[BranchSummary]:
    paths = {branch.number: _BranchPath(branch) for branch in branches}
    for branch in branches:
        path = paths[branch.number]
        prompts, calls = path.count_prompts_and_calls(paths)
        yield BranchSummary(
            id=branch.id,
            number=branch.number,
            is_live=branch.is_live,
            parent_number=branch.parent_number,
            message_count=path.total,
            shared_count=path.shared,
            last_shared_id=_last_shared_id(branch, len(path.own_messages)),
            prompt_count=prompts,
            tool_call_count=calls,
            own_prompt_count=path.prompts[-1],
            preview=next((m.preview for m in path.own_messages if m.is_prompt), ""),
            usage=branch.usage,
            title=branch.title,
            session_id=branch.session_id,
        )


class _BranchPath:
    """A branch, with cumulated counts of prompts and calls of its own messages."""

    def __init__(self, branch: Branch) -> None:
        self.parent = branch.parent_number
        self.own_messages = own_messages(branch)
        self.total = sum(len(turn.messages) for turn in branch.turns)
        self.shared = self.total - len(self.own_messages)
        self.prompts = [0, *accumulate(int(m.is_prompt) for m in self.own_messages)]
        self.calls = [0, *accumulate(len(m.tool_calls) for m in self.own_messages)]

    def count_prompts_and_calls(
        self, paths: Mapping[int, _BranchPath]
    ) -> tuple[int, int]:
        """Count the prompts and calls of the whole path from those of its branches."""
        path: _BranchPath | None = self
        end, prompts, calls = self.total, 0, 0
        while path is not None and end:
            if end > path.shared:
                prompts += path.prompts[end - path.shared]
                calls += path.calls[end - path.shared]
                end = path.shared
            path = paths.get(path.parent) if path.parent is not None else None
        return prompts, calls


def _last_shared_id(branch: Branch, own_count: int) -> RecordId | None:
    """Return the id of the last message before a branch's own ones."""
    for turn in reversed(branch.turns):
        if own_count < len(turn.messages):
            return turn.messages[-1 - own_count].id
        own_count -= len(turn.messages)
    return None


def own_messages(branch: Branch) -> list[Message]:
    return [message for turn in branch.own_turns for message in turn.messages]


def build_window(
    session: Session, header: ConversationHeader, span: tuple[int, int, int]
) -> MessageWindow:
    """Return a window of messages; `span` is branch number, start and stop."""
    number, start, stop = span
    branch = next(branch for branch in session.branches if branch.number == number)
    turns = []
    is_partial = False
    position = 0
    for turn in branch.turns:
        first, last = max(start - position, 0), stop - position
        position += len(turn.messages)
        if last <= 0:
            break
        messages = turn.messages[first:last]
        if not messages:
            continue
        is_partial |= bool(first)
        turns.append(
            structs.replace(
                turn,
                prompt=None if first else turn.prompt and strip_message(turn.prompt),
                messages=tuple(map(strip_message, messages)),
            )
        )
    return MessageWindow(
        header=header,
        branch_number=number,
        start=start,
        turns=tuple(turns),
        is_first_turn_partial=is_partial,
    )


_EMPTY_BRANCH = Branch(
    id=RecordId(""), number=0, is_live=True, turns=(), own_turns=(), usage=Usage()
)


def strip_agent_run(run: AgentRun) -> AgentRun:
    """Return an agent run without its content."""
    return _without_content(
        run, tuple(_without_content(inner, ()) for inner in run.agents)
    )


def _without_content(run: AgentRun, agents: tuple[AgentRun, ...]) -> AgentRun:
    return structs.replace(
        run,
        live_branch=_EMPTY_BRANCH,
        branches=(),
        agents=agents,
        problems=(),
        hidden_records=(),
        source=None,
        message_usages=(),
    )


def strip_message(message: Message) -> Message:
    """Return a message as it is stored in windows.

    Its agent runs have no content. The preview of an answer is dropped unless it is an
    error: showing the answer loads its blocks anyway.
    """
    has_agents = any(call.agents for call in message.tool_calls)
    is_answer = message.role is Role.ASSISTANT
    drops_preview = is_answer and message.preview and not message.is_error
    if not has_agents and not drops_preview:
        return message
    calls = message.tool_calls
    if has_agents:
        calls = tuple(map(_strip_call_agents, calls))
    return structs.replace(
        message, preview="" if drops_preview else message.preview, tool_calls=calls
    )


def _strip_call_agents(call: ToolCall) -> ToolCall:
    if not call.agents:
        return call
    return structs.replace(call, agents=tuple(map(strip_agent_run, call.agents)))


def count_messages(session: Session) -> int:
    """Count the messages of all branches and agents of a session."""
    branches = [
        *session.branches,
        *(b for run in session.all_agents for b in run.branches),
    ]
    return sum(len(turn.messages) for branch in branches for turn in branch.own_turns)


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


class ModelUsage(Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """The usage of several answers of one model, with ranges of context and time.

    A price may depend on the context size and the date. The ranges show whether one price
    applies to all of the answers.
    """

    model: str | None
    usage: Usage
    min_context: int
    """The smallest context of an answer."""
    max_context: int
    first_at: datetime | None = None
    last_at: datetime | None = None


class TurnRemainder(Struct, frozen=True, array_like=True):
    """The usage of messages, and the agents that they started."""

    usages: tuple[ModelUsage, ...] = ()
    agent_ids: tuple[AgentId, ...] = ()


def collect_remainder(messages: Sequence[Message]) -> TurnRemainder:
    """Return the usage of messages, one entry per message."""
    usages = (
        ModelUsage(
            model=message.model,
            usage=message.usage,
            min_context=message.usage.context,
            max_context=message.usage.context,
            first_at=message.sent_at,
            last_at=message.sent_at,
        )
        for message in messages
        if message.usage is not None and message.usage.total
    )
    runs = walk_agents(list_started_agents(messages))
    return TurnRemainder(tuple(usages), tuple(run.id for run in runs))


def merge_by_model(remainder: TurnRemainder) -> TurnRemainder:
    """Merge the usages of each model; those without a time stay separate."""
    merged: dict[tuple[str | None, bool], ModelUsage] = {}
    for usage in remainder.usages:
        key = (usage.model, usage.last_at is None)
        merged[key] = _merge_usages(merged[key], usage) if key in merged else usage
    return TurnRemainder(tuple(merged.values()), remainder.agent_ids)


def _merge_usages(a: ModelUsage, b: ModelUsage) -> ModelUsage:
    return ModelUsage(
        model=a.model,
        usage=a.usage + b.usage,
        min_context=min(a.min_context, b.min_context),
        max_context=max(a.max_context, b.max_context),
        first_at=min(filter(None, (a.first_at, b.first_at)), default=None),
        last_at=max(filter(None, (a.last_at, b.last_at)), default=None),
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


def walk_agents(runs: Sequence[AgentRun]) -> Iterator[AgentRun]:
    """Yield runs and the runs nested in them, parents before children, each once."""
    seen: set[AgentId] = set()
    stack = list(reversed(runs))
    while stack:
        run = stack.pop()
        if run.id not in seen:
            seen.add(run.id)
            yield run
            stack.extend(reversed(run.agents))


class Conversation(Protocol):
    """A session, or an agent run in it, that is read in windows of messages."""

    @property
    def facts(self) -> ConversationHeader:
        """What is known of it without its messages."""
        ...

    @property
    def agent_ids(self) -> Sequence[str]:
        """The ids of all agent runs of the session."""
        ...

    @property
    def is_assembled(self) -> bool:
        """Whether all its messages are in memory."""
        ...

    def load_session(self) -> Session:
        """Return it as a whole session, assembled on the first call."""
        ...

    def agent(self, agent: str) -> Conversation:
        """Return an agent run of the session."""
        ...

    def window(self, branch: int, start: int, stop: int) -> MessageWindow:
        """Return the messages of a branch from one number up to another."""
        ...

    def messages(
        self, branch: int, names: Sequence[str] = ()
    ) -> Iterator[tuple[int, Message]]:
        """Yield the messages of a branch with their numbers.

        With names: at least those messages that contain one of them.
        """
        ...

    def rest_of_turn(
        self, window: MessageWindow, can_sum: Callable[[ModelUsage], bool]
    ) -> TurnRemainder:
        """Return what follows a window in the last turn that starts in it.

        Usages are summed only where `can_sum` allows it.
        """
        ...
