"""A session as lists and pages read it: headers, windows of messages, what is left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Protocol

from msgspec import Struct, structs

from bygones.model.base import (
    AgentId,
    RecordId,
    SessionId,
    ShortStruct,
    SourceFile,
)
from bygones.model.problem_runs import count_problems
from bygones.model.sessions import (
    AgentRun,
    Branch,
    Message,
    Session,
    ToolCall,
    Turn,
    own_messages,
)
from bygones.model.summary import (
    EmptyReason,
    LeafSummary,
    Lineage,
    Loader,
    Role,
    Title,
)
from bygones.model.usage import Usage


class StoredTurn(Struct, frozen=True, array_like=True, gc=False):
    """A turn without its messages."""

    start: int
    """The number of its first message on the branch."""
    number: int
    has_prompt: bool
    usage: Usage
    duration: timedelta | None


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
    fork_id: RecordId | None = None
    """The last record that it shares with its parent branch."""
    first_prompt_id: RecordId | None = None
    """Its first prompt after the fork."""
    cut_turn: StoredTurn | None = None
    """If it was forked inside a turn: the part of that turn after the fork."""


class ConversationHeader(ShortStruct, frozen=True, kw_only=True, array_like=True):
    """A session, or an agent run in it, without its messages."""

    id: SessionId
    agent_id: AgentId | None = None
    title: Title
    project: str | None = None
    directories: tuple[str, ...] = ()
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
    summaries: tuple[LeafSummary, ...] = ()
    """Summaries of its records in their order."""
    branch_summaries: tuple[LeafSummary, ...] = ()
    """The last summary of each branch."""
    other_summaries: tuple[LeafSummary, ...] = ()
    """If it is empty: the summaries in its file."""
    empty_reason: EmptyReason | None = None
    person: str = ""
    """Who pushed it to a hub."""

    def find_branch(self, number: int) -> BranchSummary | None:
        return next((b for b in self.branches if b.number == number), None)


class MessageWindow(ShortStruct, frozen=True, kw_only=True):
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
        person=session.person,
        agent_id=agent_id,
        title=session.title,
        project=session.project,
        directories=session.directories,
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
        branches=tuple(summarize_branches(session.branches)),
        orphan_agents=tuple(
            strip_agent_run(run)
            for run in session.agents
            if not run.call_ids and run.kind.is_shown
        ),
        summaries=session.summaries,
        branch_summaries=tuple(find_branch_summaries(session).values()),
        other_summaries=session.other_summaries if session.is_empty else (),
        empty_reason=session.empty_reason,
    )


def find_branch_summaries(session: Session) -> dict[RecordId, LeafSummary]:
    """Return the last summary of each branch by its leaf, unless it is the title.

    Old versions wrote one after almost every reply.
    """
    by_leaf = {summary.leaf_id: summary for summary in session.summaries}
    ranks = {leaf: rank for rank, leaf in enumerate(by_leaf)}
    found: dict[RecordId, LeafSummary] = {}
    for branch in session.branches if by_leaf else ():
        leaves = (
            record
            for turn in branch.own_turns
            for message in turn.messages
            for record in message.record_ids
            if record in ranks
        )
        last = max(leaves, key=ranks.__getitem__, default=None)
        if last is not None and by_leaf[last].text != session.title.text:
            found[last] = by_leaf[last]
    return found


def summarize_branches(branches: Sequence[Branch]) -> Iterator[BranchSummary]:
    paths: dict[int, _PathCounts] = {}
    # Branches have higher numbers than their parents.
    for branch in sorted(branches, key=lambda branch: branch.number):
        paths[branch.number] = _PathCounts(branch, paths)
    for branch in branches:
        path = paths[branch.number]
        yield BranchSummary(
            id=branch.id,
            number=branch.number,
            is_live=branch.is_live,
            parent_number=branch.parent_number,
            message_count=path.shared + len(path.own_messages),
            shared_count=path.shared,
            last_shared_id=branch.last_shared_id,
            prompt_count=path.prompts[-1],
            tool_call_count=path.calls[-1],
            own_prompt_count=path.prompts[-1] - path.prompts[0],
            preview=next((m.preview for m in path.own_messages if m.is_prompt), ""),
            usage=branch.usage,
            title=branch.title,
            session_id=branch.session_id,
            fork_id=branch.fork_id,
            first_prompt_id=branch.first_prompt_id,
            cut_turn=_find_cut_turn(branch, path.shared),
        )


class _PathCounts:
    """Cumulated counts of prompts and calls, up to each message of a branch's own."""

    def __init__(self, branch: Branch, paths: Mapping[int, _PathCounts]) -> None:
        """Count on from the branches before, which include the parent."""
        self.own_messages = own_messages(branch)
        self.shared = branch.path.message_count - len(self.own_messages)
        self.parent = (
            None if branch.parent_number is None else paths.get(branch.parent_number)
        )
        prompts, calls = self._counts_of_shared()
        own = self.own_messages
        self.prompts = [*accumulate((m.is_prompt for m in own), initial=prompts)]
        self.calls = [*accumulate((len(m.tool_calls) for m in own), initial=calls)]

    def _counts_of_shared(self) -> tuple[int, int]:
        path = self.parent
        while path is not None and self.shared < path.shared:
            path = path.parent
        if path is None:
            return 0, 0
        at = self.shared - path.shared
        return path.prompts[at], path.calls[at]


def _find_cut_turn(branch: Branch, shared: int) -> StoredTurn | None:
    """Return the first own turn of a branch if the fork is inside a turn."""
    if not branch.own_turns:
        return None
    own, path = branch.own_turns[0], branch.path
    is_continued = path.cut is not None and path.cut.is_continued
    if not is_continued and own.messages[0].id == path.own[0].messages[0].id:
        return None
    return StoredTurn(
        shared, own.number, own.prompt is not None, own.usage, own.duration
    )


_EMPTY_BRANCH = Branch(
    id=RecordId(""), number=0, is_live=True, own_turns=(), usage=Usage()
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

    Its agent runs have no content. The preview of a reply is dropped unless it is an
    error: showing the reply loads its blocks anyway.
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
    def loader(self) -> Loader:
        """Loads the content of messages."""
        ...

    @property
    def sources(self) -> Sequence[SourceFile]:
        """The transcripts of the session, those of agents last."""
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

    def turns(self, branch: int) -> Sequence[StoredTurn]:
        """Return the turns of a branch without their messages."""
        ...

    def messages(
        self, branch: int, names: Sequence[str] = (), *, own: bool = False
    ) -> Iterator[tuple[int, Message]]:
        """Yield the messages of a branch with their numbers.

        With names: at least those messages that contain one of them. With ``own``:
        without those that it shares with its parent.
        """
        ...

    def prompts(self, branch: int) -> Iterator[tuple[int, Message]]:
        """Yield the prompts of a branch with their numbers."""
        ...

    def rest_of_turn(
        self, window: MessageWindow, limit: int
    ) -> Sequence[Message] | None:
        """Return what follows a window in the last turn that starts in it.

        `None` if that is more than about `limit` messages.
        """
        ...
