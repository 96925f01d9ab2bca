"""Sessions as they really were: branches, turns, messages, calls and agent runs.

These values hold structure and places. What was said in full is opened through
their loader when it is asked for, so that a session costs its structure only.
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
    Command,
    CompactionFacts,
    Notification,
    Origin,
    ResultFacts,
)
from bygones.model.outcomes import Outcome, PatchHunk, ReadOutcome, build_hunks
from bygones.model.records import Block, ToolResultBlock, ToolUseBlock
from bygones.model.summary import (
    AgentKind,
    AgentStatus,
    HiddenRecord,
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


class ToolCall(Struct, frozen=True, kw_only=True, weakref=True, array_like=True):
    """A tool use and the result that answers it, or none yet."""

    id: ToolUseId
    name: str
    label: str = ""
    """The file, the command or the words by which it is told from others."""
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
    result_size: int = 0
    result_facts: ResultFacts | None = None
    attached_refs: tuple[RecordRef, ...] = ()
    """Texts that the harness added for this call, such as a skill's body."""
    agents: tuple[AgentRun, ...] = ()
    """What it started or went on with: one run, or all those of a workflow."""
    loader: Loader

    @property
    def agent(self) -> AgentRun | None:
        """The agent run that it started, the first of several."""
        return self.agents[0] if self.agents else None

    @property
    def has_result(self) -> bool:
        """Whether a result is there."""
        return self.result_position is not None

    @property
    def edited_path(self) -> str | None:
        """The file that it changed; ``None`` if it failed or has no result yet."""
        if self.name not in _EDITING_TOOLS or self.is_error or not self.has_result:
            return None
        facts = self.result_facts
        return (facts.path if facts else None) or self.path or None

    @property
    def tool_use(self) -> ToolUseBlock | None:
        """The call as it was made, opened now."""
        found = _block_at(self.loader.load_blocks(self.position), self.block_index)
        return found if isinstance(found, ToolUseBlock) else None

    @property
    def input(self) -> Raw:
        """The call's input as JSON, opened now."""
        use = self.tool_use
        return use.input if use else Raw()

    @property
    def result(self) -> ToolResultBlock | None:
        """What the tool answered, opened now; ``None`` where nothing did."""
        if self.result_position is None:
            return None
        found = _block_at(
            self.loader.load_blocks(self.result_position), self.result_index
        )
        return found if isinstance(found, ToolResultBlock) else None

    @property
    def outcome(self) -> Outcome | None:
        """The structured form of the result, opened now.

        A record that answers several calls does not say which of them it is of.
        """
        place = self._outcome_position
        return None if place is None else self.loader.load_outcome(place)

    @property
    def read_extent(self) -> ReadOutcome | None:
        """The same of a Read, without what was read: far less to open."""
        place = self._outcome_position
        return None if place is None else self.loader.load_read_extent(place)

    @property
    def _outcome_position(self) -> Position | None:
        if self.result_position is None:
            return None
        blocks = self.loader.load_blocks(self.result_position)
        is_alone = sum(isinstance(block, ToolResultBlock) for block in blocks) <= 1
        return self.result_position if is_alone else None

    @property
    def stored_output(self) -> str | None:
        """An output too long for the transcript, opened from the session's folder."""
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
    """What one side said at one time: one or more records, joined."""

    id: RecordId
    """Of its first record."""
    role: Role
    origin: Origin | None = None
    """Who really produced a message of the user's side."""
    sent_at: datetime | None = None
    preview: str = ""
    """The beginning of its text."""
    record_refs: tuple[RecordRef, ...]
    branch_number: int = 0
    """The number of the branch on which it was said first."""
    api_id: MessageId | None = None
    model: str | None = None
    usage: Usage | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    attached_refs: tuple[RecordRef, ...] = ()
    """What a command printed or stood for, what a compaction kept."""
    command: Command | None = None
    notification: Notification | None = None
    compaction: CompactionFacts | None = None
    system_subtype: str | None = None
    """The subtype of a system record."""
    is_error: bool = False
    is_steering: bool = False
    """Typed while Claude was at work; belongs to the turn it came into."""
    turn_duration_ms: int | None = None
    """How long the turn took that ends behind it, as Claude Code measured it."""
    loader: Loader

    @property
    def is_prompt(self) -> bool:
        """Whether a person typed it (or a caller, in an agent run)."""
        return self.origin in _PROMPT_ORIGINS

    @property
    def record_ids(self) -> frozenset[RecordId]:
        """The records it is made of: its own, attached ones and its calls' results."""
        pieces = (
            *self.record_refs,
            *self.attached_refs,
            *(p for c in self.tool_calls for p in c.attached_refs),
        )
        answers = (
            call.result_record_id for call in self.tool_calls if call.result_record_id
        )
        return frozenset((*(piece.record_id for piece in pieces), *answers))

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Its blocks in order, each once, opened now."""
        found: list[Block] = []
        for piece in self.record_refs:
            blocks = self.loader.load_blocks(piece.position)
            found.extend(blocks[at] for at in piece.block_indexes if at < len(blocks))
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
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls of all its messages."""
        return tuple(call for message in self.messages for call in message.tool_calls)


class Branch(Struct, frozen=True, kw_only=True, array_like=True):
    """The path from a root to one leaf.

    ``turns`` is the whole path; ``own`` begins behind the fork.
    """

    id: RecordId
    """Of its leaf."""
    number: int
    is_live: bool
    fork_id: RecordId | None = None
    """The last record that it shares with the branch it left."""
    first_prompt_id: RecordId | None = None
    """The prompt with which it left."""
    parent_number: int | None = None
    """The number of the branch it left."""
    turns: tuple[Turn, ...]
    own_turns: tuple[Turn, ...]
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
        return tuple(m for turn in self.own_turns for m in turn.messages if m.is_prompt)


class AgentRun(Struct, frozen=True, kw_only=True, weakref=True, array_like=True):
    """The session within a session that a tool call started."""

    id: AgentId
    kind: AgentKind
    status: AgentStatus
    linked_by: str | None = None
    """By what it was linked to its call; ``None`` for an orphan."""
    call_ids: tuple[ToolUseId, ...] = ()
    """The calls that started it and went on with it."""
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
    """Its own, without the agents below it."""
    live_branch: Branch
    branches: tuple[Branch, ...]
    agents: tuple[AgentRun, ...] = ()
    problems: tuple[Problem, ...] = ()
    hidden_records: tuple[HiddenRecord, ...] = ()
    source: SourceFile | None = None
    """The agent's file; ``None`` where its records stand in the session's."""
    message_usages: tuple[MessageUsage, ...] = ()


class FileEdit(Struct, frozen=True, kw_only=True):
    """A change of one file by one call."""

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
    has_patch: bool = False

    @property
    def diff(self) -> tuple[PatchHunk, ...]:
        """What came and went, opened now: the patch, else the old and the new text."""
        return build_hunks(self.tool_call.outcome, self.tool_call.input)


class Session(Struct, frozen=True, kw_only=True, weakref=True):
    """One conversation, gathered from every source that holds a piece of it."""

    id: SessionId
    title: Title
    project: str | None = None
    """The directory of the project that it belongs to."""
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
    """The live one first, then the abandoned ones, newest first."""
    agents: tuple[AgentRun, ...] = ()
    """Those that its own calls started, and orphans; each holds those below it."""
    endpoint_ids: tuple[RecordId, ...] = ()
    """Leaves, and the records that summaries name."""
    edits: tuple[FileEdit, ...] = ()
    usage: Usage
    """Of its branches, without agents."""
    message_usages: tuple[MessageUsage, ...] = ()
    """What was spent here first; copies of older messages are not."""
    reported_cost: ReportedCost | None = None
    """Claude Code's own total, where it wrote one."""
    cost_reported_at: datetime | None = None
    """The last thing said before that total was written."""
    snapshot_positions: tuple[Position, ...] = ()
    """Where file history stands in its sources."""
    lineage: tuple[Lineage, ...] = ()
    problems: tuple[Problem, ...] = ()
    hidden_records: tuple[HiddenRecord, ...] = ()
    sources: tuple[SourceFile, ...] = ()
    is_empty: bool = False
    """No prompt and no answer in it: not listed unless asked for."""
    loader: Loader

    @property
    def file_versions(self) -> dict[str, tuple[FileVersion, ...]]:
        """The versions of each file that was tracked, oldest first, opened now."""
        return collect_file_versions(
            filter(None, map(self.loader.load_snapshot, self.snapshot_positions))
        )

    @property
    def all_agents(self) -> tuple[AgentRun, ...]:
        """All agent runs at any depth, parents before children."""
        return tuple(walk_agents(self.agents))

    @property
    def total_usage(self) -> Usage:
        """The usage with all agents but replays and warm-ups."""
        return sum(
            (agent.usage for agent in self.all_agents if agent.kind.is_shown),
            self.usage,
        )

    @property
    def prompts(self) -> tuple[Message, ...]:
        """What a person typed on the live branch."""
        return tuple(m for m in self.live_branch.messages if m.is_prompt)

    @property
    def message_count(self) -> int:
        """Prompts and answers on the live branch."""
        messages = self.live_branch.messages
        return sum(1 for m in messages if m.is_prompt or m.role is Role.ASSISTANT)

    def find_branch(self, record_id: str) -> Branch | None:
        """Return the branch that has this leaf, else one that holds this record."""
        for branch in self.branches:
            if branch.id == record_id:
                return branch
        for branch in self.branches:
            for turn in branch.own_turns:
                if any(record_id in message.record_ids for message in turn.messages):
                    return branch
        return None


PREVIEW_MESSAGES = 6
"""Messages that a page shows first, at most."""


class BranchSummary(Struct, frozen=True, kw_only=True, gc=False, array_like=True):
    """What is told of a branch without its messages."""

    id: RecordId
    number: int
    is_live: bool
    parent_number: int | None = None
    message_count: int = 0
    """Messages from the root to the leaf."""
    shared_count: int = 0
    """How many of them, the first ones, it shares with the branch that it left."""
    last_shared_id: RecordId | None = None
    prompt_count: int = 0
    """From the root to the leaf."""
    tool_call_count: int = 0
    own_prompt_count: int = 0
    preview: str = ""
    """How the first prompt of its own begins."""
    usage: Usage
    """Of its own turns."""


class ConversationHeader(Struct, frozen=True, kw_only=True, array_like=True):
    """What is told of a session, or of an agent run in it, without its messages."""

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
    """With that of agents."""
    lineage: tuple[Lineage, ...] = ()
    agent_count: int = 0
    """Runs that did something, at any depth."""
    problem_count: int = 0
    file_count: int = 0
    """How many files were changed."""
    branches: tuple[BranchSummary, ...]
    orphan_agents: tuple[AgentRun, ...] = ()
    """Runs that no call is known to have started, in brief."""

    def find_branch(self, number: int) -> BranchSummary | None:
        """Return a branch by its number."""
        return next((one for one in self.branches if one.number == number), None)


class MessageWindow(Struct, frozen=True, kw_only=True):
    """Messages of a branch, by their numbers, in the turns that they are of.

    A turn that began before has no prompt here, and its usage is that of all of it.
    """

    header: ConversationHeader
    branch_number: int
    start: int
    turns: tuple[Turn, ...]
    is_first_turn_partial: bool = False
    """Whether its first turn began before it."""

    @property
    def messages(self) -> tuple[Message, ...]:
        """Its messages in order."""
        return tuple(message for turn in self.turns for message in turn.messages)

    @property
    def stop(self) -> int:
        """The number behind that of its last message."""
        return self.start + sum(len(turn.messages) for turn in self.turns)


def build_conversation_header(
    session: Session, agent_id: AgentId | None = None
) -> ConversationHeader:
    """Return what is told of a session, or of a run that was made one."""
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
        problem_count=len(session.problems),
        file_count=len({edit.path for edit in session.edits}),
        branches=tuple(_summarize_branches(session.branches)),
        orphan_agents=tuple(
            strip_agent_run(run)
            for run in session.agents
            if not run.call_ids and run.kind.is_shown
        ),
    )


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
        )


class _BranchPath:
    """A branch, and how many prompts and calls are above each message of its own."""

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
        """Return the prompts and calls of the whole path, without walking it."""
        path: _BranchPath | None = self
        until, prompts, calls = self.total, 0, 0
        while path is not None and until:
            if until > path.shared:
                prompts += path.prompts[until - path.shared]
                calls += path.calls[until - path.shared]
                until = path.shared
            path = paths.get(path.parent) if path.parent is not None else None
        return prompts, calls


def _last_shared_id(branch: Branch, own_count: int) -> RecordId | None:
    """Return the last message before those of a branch's own."""
    for turn in reversed(branch.turns):
        if own_count < len(turn.messages):
            return turn.messages[-1 - own_count].id
        own_count -= len(turn.messages)
    return None


def own_messages(branch: Branch) -> list[Message]:
    """Return the messages of a branch that it shares with none before it."""
    return [message for turn in branch.own_turns for message in turn.messages]


def build_window(
    session: Session, header: ConversationHeader, span: tuple[int, int, int]
) -> MessageWindow:
    """Return messages: of which branch, the first, and the one behind the last."""
    number, start, stop = span
    branch = next(one for one in session.branches if one.number == number)
    turns = []
    is_begun = False
    before = 0
    for turn in branch.turns:
        first, last = max(start - before, 0), stop - before
        before += len(turn.messages)
        if last <= 0:
            break
        messages = turn.messages[first:last]
        if not messages:
            continue
        is_begun |= bool(first)
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
        is_first_turn_partial=is_begun,
    )


_EMPTY_BRANCH = Branch(
    id=RecordId(""), number=0, is_live=True, turns=(), own_turns=(), usage=Usage()
)


def strip_agent_run(run: AgentRun) -> AgentRun:
    """Return an agent run without what was said in it."""
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
    """Return a message as windows have it.

    Its calls have agent runs without what was said in them, and an answer says how it
    begins only if it is an error: whoever shows it opens all of it.
    """
    has_agents = any(call.agents for call in message.tool_calls)
    is_cut = message.role is Role.ASSISTANT and message.preview and not message.is_error
    if not has_agents and not is_cut:
        return message
    calls = message.tool_calls
    if has_agents:
        calls = tuple(map(_strip_call_agents, calls))
    return structs.replace(
        message, preview="" if is_cut else message.preview, tool_calls=calls
    )


def _strip_call_agents(call: ToolCall) -> ToolCall:
    if not call.agents:
        return call
    return structs.replace(call, agents=tuple(map(strip_agent_run, call.agents)))


def count_messages(session: Session) -> int:
    """Return how many messages a session has, on all branches and in all agents."""
    branches = [
        *session.branches,
        *(b for run in session.all_agents for b in run.branches),
    ]
    return sum(len(turn.messages) for branch in branches for turn in branch.own_turns)


def agent_run_as_session(session: Session, run: AgentRun) -> Session:
    """Return an agent run as if it were a session, to be read in the same way."""
    called = ": ".join(filter(None, (run.agent_type, run.description))) or run.id
    return structs.replace(
        session,
        title=structs.replace(session.title, text=called),
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
    """The usage of answers of one model, and between what they are.

    A price may hold from a context or a day on: whoever knows prices can tell whether
    one of them holds for all.
    """

    model: str | None
    usage: Usage
    min_context: int
    """The smallest context of an answer."""
    max_context: int
    first_at: datetime | None = None
    last_at: datetime | None = None


class TurnRemainder(Struct, frozen=True, array_like=True):
    """What messages cost, and the agents that were first called in them."""

    usages: tuple[ModelUsage, ...] = ()
    agent_ids: tuple[AgentId, ...] = ()


def collect_remainder(messages: Sequence[Message]) -> TurnRemainder:
    """Return what messages cost, each by itself."""
    paid = (
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
    runs = tuple(
        dict.fromkeys(run.id for run in walk_agents(list_started_agents(messages)))
    )
    return TurnRemainder(tuple(paid), runs)


def merge_by_model(remainder: TurnRemainder) -> TurnRemainder:
    """Return the same in few words: one for each model, and for what has no time."""
    sums: dict[tuple[str | None, bool], ModelUsage] = {}
    for one in remainder.usages:
        key = (one.model, one.last_at is None)
        sums[key] = _merge_usages(sums[key], one) if key in sums else one
    return TurnRemainder(tuple(sums.values()), remainder.agent_ids)


def _merge_usages(one: ModelUsage, other: ModelUsage) -> ModelUsage:
    firsts = [time for time in (one.first_at, other.first_at) if time is not None]
    lasts = [time for time in (one.last_at, other.last_at) if time is not None]
    return ModelUsage(
        model=one.model,
        usage=one.usage + other.usage,
        min_context=min(one.min_context, other.min_context),
        max_context=max(one.max_context, other.max_context),
        first_at=min(firsts, default=None),
        last_at=max(lasts, default=None),
    )


def list_started_agents(messages: Iterable[Message]) -> list[AgentRun]:
    """Return the agents that were called in messages, each where it first was."""
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

        Usages are summed only where ``can_sum`` allows it.
        """
        ...
