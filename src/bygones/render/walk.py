"""Walk through a session step by step, in reading order.

All renderers consume these steps. A step loads only the blocks of its own message, so
memory use does not depend on the size of the session.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any, Generic, TypeVar

from msgspec import Struct, structs

from bygones.model.base import Position, RecordId
from bygones.model.conversations import (
    BranchSummary,
    MessageWindow,
    find_branch_summaries,
)
from bygones.model.nodes import Origin
from bygones.model.records import Block, ToolUseBlock
from bygones.model.sessions import (
    AgentRun,
    Branch,
    Message,
    Session,
    ToolCall,
    Turn,
    TurnPath,
    walk_agents,
)
from bygones.model.summary import LeafSummary, Role
from bygones.model.usage import Usage
from bygones.render.message_text import TextParser, display_origin, parse_as_typed
from bygones.render.numbers import format_duration, format_time, format_tokens
from bygones.render.text.primitives import sanitize
from bygones.render.tool_line import ToolCallFormatter


class SessionView(Struct, frozen=True, kw_only=True):
    """Which parts of a session are shown; by default the live branch."""

    branch: int = 0
    """The number of the branch to follow."""
    first_turn: int = 0
    """The number of the first turn to show."""
    last_turn: int | None = None
    """The number of the last turn to show; ``None`` for all."""
    first_message: int = 0
    """The index of the first message to show, used with ``stop_message``."""
    stop_message: int | None = None
    """The index after the last message. If given, turn numbers are ignored."""
    include_branches: bool = False
    """Whether other branches are expanded where they fork."""
    include_agents: bool = False
    """Whether agent runs are expanded where they were called."""
    include_thinking: bool = False
    include_tools: bool = False
    """Whether inputs and outputs of tool calls are shown completely."""
    focus: tuple[str, ...] = ()
    """Ids of records and agent runs that are shown completely in any case."""


SHOW_ALL = SessionView(
    include_branches=True,
    include_agents=True,
    include_thinking=True,
    include_tools=True,
)


class SessionStart(Struct, frozen=True):
    session: Session
    branch: Branch
    turn_range: str = ""
    """Describes the turns that are shown, if not all are."""


class TurnStart(Struct, frozen=True):
    turn: Turn
    branch: Branch


class MessageStep(Struct, frozen=True):
    """A message; the blocks and calls of an answer follow."""

    message: Message
    turn: Turn


class BlockStep(Struct, frozen=True):
    """A block of an answer that is not a tool call."""

    message: Message
    block: Block


class ToolCallStep(Struct, frozen=True):
    message: Message
    call: ToolCall


class AgentStep(Struct, frozen=True):
    """An agent run, at the call that started it or as an orphan.

    If ``is_expanded``, its messages follow, up to an `AgentEnd`.
    """

    run: AgentRun
    call: ToolCall | None
    is_expanded: bool
    is_resumed: bool = False
    """Whether an earlier call started the agent and this one continues it."""


class AgentEnd(Struct, frozen=True):
    run: AgentRun


class BranchStep(Struct, frozen=True):
    """Another branch forks off here.

    If ``is_expanded``, its own turns follow, up to a `BranchEnd`.
    """

    branch: Branch
    is_expanded: bool
    later_turns: tuple[Turn, ...] | None = None
    """The turns after the fork if this is the parent; otherwise they are its own turns."""


class BranchEnd(Struct, frozen=True):
    branch: Branch


class SummaryStep(Struct, frozen=True):
    """A summary of the conversation up to the message before."""

    summary: LeafSummary


class OrphanAgents(Struct, frozen=True):
    """Agent runs follow whose calls are unknown."""

    runs: tuple[AgentRun, ...]


WalkStep = (
    SessionStart
    | TurnStart
    | MessageStep
    | BlockStep
    | ToolCallStep
    | AgentStep
    | AgentEnd
    | BranchStep
    | BranchEnd
    | SummaryStep
    | OrphanAgents
)


def walk_session(session: Session, view: SessionView) -> Iterator[WalkStep]:
    """Yield the steps through a session.

    Agents and branches may be nested to any depth, because nothing recurses.
    """
    branch = next(b for b in session.branches if b.number == view.branch)
    yield SessionStart(session, branch, describe_turn_range(branch, view))
    yield from flatten(_walk_view(session, branch, view))


def flatten(items: Iterator[Any]) -> Iterator[Any]:
    """Yield the items of nested iterators without recursion."""
    stack = [items]
    while stack:
        item = next(stack[-1], None)
        if item is None:
            stack.pop()
        elif isinstance(item, Iterator):
            stack.append(item)
        else:
            yield item


def describe_turn_range(branch: Branch, view: SessionView) -> str:
    """Describe the turns that a view shows; empty if it shows all."""
    count = len(branch.turns)
    first = view.first_turn + 1
    last = count if view.last_turn is None else min(view.last_turn + 1, count)
    if first == 1 and last == count:
        return ""
    turns = f"turn {first}" if first == last else f"turns {first} to {last}"
    return f"only {turns} of {count}"


def visible_positions(session: Session, view: SessionView) -> frozenset[Position]:
    """Return the positions of all records that a view shows."""
    positions: set[Position | None] = set()
    for step in walk_session(session, view):
        if isinstance(step, MessageStep):
            refs = (*step.message.record_refs, *step.message.attached_refs)
        elif isinstance(step, ToolCallStep):
            positions.update((step.call.position, step.call.result_position))
            refs = step.call.attached_refs
        else:
            continue
        positions.update(ref.position for ref in refs)
    return frozenset(position for position in positions if position is not None)


StepIterator = Iterator["WalkStep | StepIterator"]
B = TypeVar("B", Branch, BranchSummary)
_ForksByMessage = Mapping[RecordId | None, Sequence[BranchStep]]


def _walk_view(session: Session, branch: Branch, view: SessionView) -> StepIterator:
    seen: set[str] = set()
    walker = BranchWalker(session.branches, view, seen, find_branch_summaries(session))
    if view.stop_message is None:
        yield from walker.walk_turns(branch, _selected_turns(branch, view))
        is_end = view.last_turn is None
    else:
        yield from walker.walk_messages(branch, view.first_message, view.stop_message)
        is_end = view.stop_message >= sum(len(turn.messages) for turn in branch.turns)
    orphans = tuple(
        run for run in session.agents if not run.call_ids and run.kind.is_shown
    )
    if orphans and is_end:
        yield OrphanAgents(orphans)
        for run in orphans:
            yield from walk_agent(run, None, view, seen)


def _selected_turns(branch: Branch, view: SessionView) -> Sequence[Turn]:
    if view.first_turn == 0 and view.last_turn is None:
        return branch.turns
    return [
        turn
        for turn in branch.turns
        if turn.number >= view.first_turn
        and (view.last_turn is None or turn.number <= view.last_turn)
    ]


def walk_agent(
    run: AgentRun, call: ToolCall | None, view: SessionView, seen: set[str]
) -> StepIterator:
    """Yield an agent run and, if the view includes agents, its messages.

    ``seen`` are the ids of agents that were already walked; this one is added.
    """
    is_resumed = run.id in seen
    seen.add(run.id)
    is_included = view.include_agents or run.id in view.focus
    is_expanded = is_included and not is_resumed
    yield AgentStep(run, call, is_expanded=is_expanded, is_resumed=is_resumed)
    if is_expanded:
        walker = BranchWalker(run.branches, view, seen)
        yield walker.walk_turns(run.live_branch, run.live_branch.turns)
        yield AgentEnd(run)


class BranchWalker:
    """Walks a branch of a conversation, with the other branches where they fork."""

    def __init__(
        self,
        branches: Sequence[Branch],
        view: SessionView,
        seen: set[str],
        summaries: Mapping[RecordId, LeafSummary] = {},
    ) -> None:
        self._view = view
        self._summaries = summaries
        self._seen_agents = seen
        self._branches = {branch.number: branch for branch in branches}
        self._branches_by_parent: dict[int | None, list[Branch]] = {}
        for branch in sorted(branches, key=lambda branch: branch.number):
            self._branches_by_parent.setdefault(branch.parent_number, []).append(branch)

    def walk_turns(self, branch: Branch, turns: Sequence[Turn]) -> StepIterator:
        forks = self._forks_on_path(branch)
        if turns and turns[0] is branch.turns[0]:
            yield from self._walk_forks(forks.get(None, ()))
        yield from self._walk_turns(branch, turns, forks)

    def walk_messages(self, branch: Branch, start: int, stop: int) -> StepIterator:
        """Walk the messages from ``start`` to ``stop``, counted from the first turn."""
        forks = self._forks_on_path(branch)
        if not start:
            yield from self._walk_forks(forks.get(None, ()))
        offset = 0
        for turn in branch.turns:
            first, last = max(start - offset, 0), stop - offset
            offset += len(turn.messages)
            if last <= 0:
                return
            if first == 0:
                yield TurnStart(turn, branch)
            for message in turn.messages[first:last]:
                yield from self.walk_message(message, turn)
                yield from self.walk_summaries(message)
                yield from self._walk_forks(forks.get(message.id, ()))

    def _walk_turns(
        self, branch: Branch, turns: Sequence[Turn], forks: _ForksByMessage
    ) -> StepIterator:
        for turn in turns:
            yield TurnStart(turn, branch)
            for message in turn.messages:
                yield from self.walk_message(message, turn)
                yield from self.walk_summaries(message)
                yield from self._walk_forks(forks.get(message.id, ()))

    def walk_summaries(self, message: Message) -> StepIterator:
        """Yield the summaries of the conversation up to a message."""
        if self._summaries:
            for leaf in sorted(self._summaries.keys() & message.record_ids):
                yield SummaryStep(self._summaries[leaf])

    def _forks_on_path(self, branch: Branch) -> _ForksByMessage:
        """Return the branches that fork from the path of a branch."""
        ancestors, others = split_branches(
            tuple(self._branches.values()), branch.number
        )
        forks: dict[RecordId | None, list[BranchStep]] = {}
        for child, parent in ancestors:
            # Where the path leaves its parent, the parent is the other branch.
            last_shared = child.last_shared_id
            step = BranchStep(
                parent,
                is_expanded=False,
                later_turns=_turns_after(parent, last_shared),
            )
            forks.setdefault(last_shared, []).append(step)
        for other in others:
            step = BranchStep(other, is_expanded=self._view.include_branches)
            forks.setdefault(other.last_shared_id, []).append(step)
        return forks

    def _forks_within(self, branch: Branch) -> _ForksByMessage:
        """Return the branches that fork from the own turns of a branch."""
        children = self._branches_by_parent.get(branch.number, ())
        return {
            last_shared: [BranchStep(child, is_expanded=True) for child in group]
            for last_shared, group in group_by_fork(children, branch.own_turns).items()
        }

    def _walk_forks(self, forks: Sequence[BranchStep]) -> StepIterator:
        for fork in forks:
            yield fork
            if fork.is_expanded:
                branch = fork.branch
                inner_forks = self._forks_within(branch)
                yield self._walk_forks(inner_forks.get(None, ()))
                yield self._walk_turns(branch, branch.own_turns, inner_forks)
                yield BranchEnd(branch)

    def walk_message(self, message: Message, turn: Turn) -> StepIterator:
        """Walk a message with its blocks and calls."""
        yield MessageStep(message, turn)
        if message.role is not Role.ASSISTANT:
            return
        calls = {call.id: call for call in message.tool_calls if call.name}
        for block in message.blocks:
            call_id = block.id if isinstance(block, ToolUseBlock) else None
            call = calls.pop(call_id, None) if call_id is not None else None
            if call is None:
                yield BlockStep(message, block)
            else:
                yield from self._walk_call(message, call)
        # If the file is gone there are no blocks, but the calls are still known.
        for call in calls.values():
            yield from self._walk_call(message, call)

    def _walk_call(self, message: Message, call: ToolCall) -> StepIterator:
        yield ToolCallStep(message, call)
        for run in call.agents:
            if run.kind.is_shown:
                yield from walk_agent(run, call, self._view, self._seen_agents)


def _turns_after(branch: Branch, message_id: RecordId | None) -> tuple[Turn, ...]:
    """Return the turns after the one with this message; all of them without one."""
    for turns in (branch.path.rest, branch.turns):
        for index, turn in enumerate(turns):
            if any(message.id == message_id for message in turn.messages):
                return turns[index + 1 :]
    return branch.turns


def group_by_fork(
    branches: Iterable[Branch], turns: Iterable[Turn]
) -> dict[RecordId | None, list[Branch]]:
    """Group branches by the last message that they share with these turns.

    Branches that share no message with them have the key ``None``.
    """
    message_ids = {message.id for turn in turns for message in turn.messages}
    groups: dict[RecordId | None, list[Branch]] = {}
    for branch in branches:
        last = branch.last_shared_id
        groups.setdefault(last if last in message_ids else None, []).append(branch)
    return groups


def split_branches(
    branches: Sequence[B], number: int
) -> tuple[list[tuple[B, B]], list[B]]:
    """Find out how other branches relate to the path of a branch.

    Returns each branch on the path with its parent, the innermost first, and the
    branches that fork from the path, by number.
    """
    by_number = {branch.number: branch for branch in branches}
    path = {number}
    ancestors: list[tuple[B, B]] = []
    child = by_number[number]
    while child.parent_number in by_number and child.parent_number not in path:
        parent = by_number[child.parent_number]
        ancestors.append((child, parent))
        path.add(parent.number)
        child = parent
    others = [
        branch
        for branch in sorted(branches, key=lambda branch: branch.number)
        if branch.parent_number in path and branch.number not in path
    ]
    return ancestors, others


_WINDOW_VIEW = SessionView(include_thinking=True, include_tools=True)
PLACEHOLDER_BRANCH = Branch(
    id=RecordId(""), number=0, is_live=True, own_turns=(), usage=Usage()
)
"""Used instead of the live branch where the session is read in windows."""


class BranchLink(Struct, frozen=True):
    """Another branch forks off here, of which only the summary is known."""

    branch: BranchSummary
    last_shared: RecordId | None = None
    """The last message that both branches have."""
    is_parent: bool = False
    """Whether the shown branch forks from it here."""


def walk_window(
    window: MessageWindow, seen: set[str] | None = None
) -> Iterator[WalkStep | BranchLink]:
    """Yield the steps through a window, without expanding agents and branches.

    ``seen`` are the ids of agents in earlier windows; those of this one are added.
    """
    return flatten(_window_steps(window, set() if seen is None else seen))


def _window_steps(
    window: MessageWindow, seen: set[str]
) -> Iterator[WalkStep | BranchLink | StepIterator]:
    summaries = {one.leaf_id: one for one in window.header.branch_summaries}
    walker = BranchWalker((), _WINDOW_VIEW, seen, summaries)
    forks = branches_by_fork(window.header.branches, window.branch_number)
    ancestors, _ = split_branches(window.header.branches, window.branch_number)
    parents = {parent.number for _, parent in ancestors}
    if not window.start:
        for fork in forks.get(None, ()):
            yield BranchLink(fork, is_parent=fork.number in parents)
    for at, turn in enumerate(window.turns):
        if at or not window.is_first_turn_partial:
            yield TurnStart(turn, PLACEHOLDER_BRANCH)
        for message in turn.messages:
            yield from walker.walk_message(message, turn)
            yield from walker.walk_summaries(message)
            for fork in forks.get(message.id, ()):
                yield BranchLink(fork, message.id, fork.number in parents)
    branch = window.header.find_branch(window.branch_number)
    orphans = window.header.orphan_agents
    if orphans and branch is not None and window.stop >= branch.message_count:
        yield OrphanAgents(orphans)
        for run in orphans:
            yield from walk_agent(run, None, _WINDOW_VIEW, seen)


def branches_by_fork(
    branches: Sequence[BranchSummary], branch_number: int
) -> dict[RecordId | None, list[BranchSummary]]:
    """Return the branches that fork from a branch, by the last shared message."""
    ancestors, others = split_branches(branches, branch_number)
    forks: dict[RecordId | None, list[BranchSummary]] = {}
    for child, parent in ancestors:
        forks.setdefault(child.last_shared_id, []).append(parent)
    for other in others:
        forks.setdefault(other.last_shared_id, []).append(other)
    return forks


_CONTEXT_TURNS = 1
"""Turns shown before and after the turn of a record."""


def trim_around_record(session: Session, branch_number: int, record: str) -> Session:
    """Reduce a branch of a session to the turns around a record.

    The session is returned unchanged if the branch does not contain the record.
    """
    branch = next(b for b in session.branches if b.number == branch_number)
    at = _find_turn_index(branch, record)
    if at is None:
        return session
    turns = branch.turns[max(at - _CONTEXT_TURNS, 0) : at + _CONTEXT_TURNS + 1]
    trimmed = structs.replace(branch, path=TurnPath(turns))
    branches = tuple(trimmed if b is branch else b for b in session.branches)
    live = trimmed if branch.is_live else session.live_branch
    return structs.replace(session, branches=branches, live_branch=live)


def find_message_index(
    session: Session, branch_number: int, ids: Collection[str]
) -> int | None:
    """Return the index of the message with one of these records or agent runs."""
    branch = next(b for b in session.branches if b.number == branch_number)
    messages = (message for turn in branch.turns for message in turn.messages)
    for at, message in enumerate(messages):
        if _contains_id(message, ids):
            return at
    return None


def find_message_before(
    session: Session, branch_number: int, position: Position
) -> int | None:
    """Return the index of the last message that starts before a record."""
    branch = next(b for b in session.branches if b.number == branch_number)
    messages = (message for turn in branch.turns for message in turn.messages)
    found = [at for at, one in enumerate(messages) if is_before(one, position)]
    return found[-1] if found else None


def is_before(message: Message, position: Position) -> bool:
    """Return whether a message starts before a record of the same file."""
    starts = (ref.position for ref in message.record_refs[:1])
    return any(
        start.source_id == position.source_id and start.offset <= position.offset
        for start in starts
    )


def _find_turn_index(branch: Branch, record: str) -> int | None:
    for at, turn in enumerate(branch.turns):
        if any(_contains_id(message, {record}) for message in turn.messages):
            return at
    return None


def _contains_id(message: Message, ids: Collection[str]) -> bool:
    agents = (run.id for call in message.tool_calls for run in walk_agents(call.agents))
    return contains_record(message, ids) or any(id_ in ids for id_ in agents)


def contains_record(message: Message, ids: Collection[str]) -> bool:
    """Return whether a message, or a result of its calls, is one of these records."""
    results = (call.result_record_id for call in message.tool_calls)
    return any(id_ in ids for id_ in (*message.record_ids, *results))


T = TypeVar("T")

ORPHAN_AGENTS_HEADING = "Agents without a known call"


def describe_summary(summary: LeafSummary) -> str:
    """Return a summary as one line, with the record that it ends with."""
    text = sanitize(summary.text, newlines="space")
    return f"Summary up to {summary.leaf_id[:8]}: {text}"


class RenderOptions(Struct, frozen=True, kw_only=True):
    """Options of every renderer."""

    zone: tzinfo | None = UTC
    """Time zone of all times; ``None`` for that of the machine."""
    text_parser: TextParser = parse_as_typed


class StepRenderer(ABC, Generic[T]):
    """Renders the steps of a walk through a session.

    Repeated API failures are collapsed: they are counted, and rendered before the next
    step. Call `finish` after the last step.
    """

    def __init__(
        self,
        project: str | None,
        options: RenderOptions,
        previous_time: datetime | None = None,
    ) -> None:
        self._call_formatter = ToolCallFormatter(project)
        self._zone = options.zone
        self._last_time = previous_time
        self._api_failures = 0

    def render_step(  # noqa: C901, PLR0912 (one case for each kind of step)
        self, step: WalkStep | BranchLink
    ) -> Iterator[T]:
        if isinstance(step, MessageStep) and step.message.system_subtype == "api_error":
            self._api_failures += 1
            return
        yield from self._before_step(step)
        yield from self._flush_api_failures()
        match step:
            case MessageStep(message=message):
                yield from self._render_message(message)
            case BlockStep(message=message, block=block):
                yield from self._render_block(block, is_error=message.is_error)
            case ToolCallStep(call=call):
                yield from self._render_call(call)
            case SessionStart():
                yield from self._render_header(step)
            case TurnStart(turn=turn):
                yield from self._render_turn(turn)
            case AgentStep():
                yield from self._render_agent(step)
            case AgentEnd():
                yield from self._render_agent_end()
            case BranchStep():
                yield from self._render_branch(step)
            case BranchLink():
                yield from self._render_branch_link(step)
            case BranchEnd(branch=branch):
                yield from self._render_branch_end(branch)
            case SummaryStep(summary=summary):
                yield from self._render_heading(describe_summary(summary))
            case OrphanAgents():
                yield from self._render_heading(ORPHAN_AGENTS_HEADING)

    def finish(self) -> Iterator[T]:
        yield from self._flush_api_failures()

    def _flush_api_failures(self) -> Iterator[T]:
        count, self._api_failures = self._api_failures, 0
        if count:
            times = f", {count} times in a row" if count > 1 else ""
            yield from self._render_failure(f"• API error{times}")

    def _turn_facts(self, turn: Turn) -> list[str]:
        """Return time, duration and tokens of a turn; the date only if it changed."""
        time = next((m.sent_at for m in turn.messages if m.sent_at), None)
        facts = []
        if time is not None:
            facts.append(format_time(time, self._zone, self._last_time))
            self._last_time = time
        if turn.duration:
            facts.append(format_duration(turn.duration))
        if turn.usage.total:
            facts.append(f"{format_tokens(turn.usage.total)} tokens")
        return facts

    def _before_step(self, _step: WalkStep | BranchLink) -> Iterator[T]:
        return iter(())

    def _render_header(self, _step: SessionStart) -> Iterator[T]:
        return iter(())

    def _render_branch_link(self, _step: BranchLink) -> Iterator[T]:
        return iter(())

    @abstractmethod
    def _render_message(self, message: Message) -> Iterator[T]: ...

    @abstractmethod
    def _render_block(self, block: Block, *, is_error: bool) -> Iterator[T]: ...

    @abstractmethod
    def _render_call(self, call: ToolCall) -> Iterator[T]: ...

    @abstractmethod
    def _render_turn(self, turn: Turn) -> Iterator[T]: ...

    @abstractmethod
    def _render_agent(self, step: AgentStep) -> Iterator[T]: ...

    @abstractmethod
    def _render_agent_end(self) -> Iterator[T]: ...

    @abstractmethod
    def _render_branch(self, step: BranchStep) -> Iterator[T]: ...

    @abstractmethod
    def _render_branch_end(self, branch: Branch) -> Iterator[T]: ...

    @abstractmethod
    def _render_heading(self, text: str) -> Iterator[T]: ...

    @abstractmethod
    def _render_failure(self, text: str) -> Iterator[T]: ...


class SystemMessageRenderer(ABC, Generic[T]):
    """Renders messages that are not answers of the model: prompts, commands, notices."""

    def render(self, message: Message) -> T:
        if message.compaction is not None:
            return self.compaction(message)
        renderers: dict[Origin, Callable[[Message], T]] = {
            Origin.PERSON: self.prompt,
            Origin.CALLER: self.agent_task,
            Origin.COMMAND: self.command,
            Origin.COMMAND_OUTPUT: self.command_output,
            Origin.SHELL: self.shell,
            Origin.SHELL_OUTPUT: self.command_output,
            Origin.MEMORY: self.memory,
            Origin.INTERRUPT: self.interrupt,
            Origin.COMPACTION: self.continuation,
            Origin.NOTIFICATION: self.notification,
            Origin.TEAMMATE: self.teammate,
            Origin.TOOL: self.orphan_result,
        }
        return renderers.get(display_origin(message), self.notice)(message)

    @abstractmethod
    def prompt(self, message: Message) -> T: ...

    @abstractmethod
    def agent_task(self, message: Message) -> T: ...

    @abstractmethod
    def command(self, message: Message) -> T: ...

    @abstractmethod
    def shell(self, message: Message) -> T: ...

    @abstractmethod
    def memory(self, message: Message) -> T: ...

    @abstractmethod
    def command_output(self, message: Message) -> T: ...

    @abstractmethod
    def interrupt(self, message: Message) -> T: ...

    @abstractmethod
    def compaction(self, message: Message) -> T: ...

    @abstractmethod
    def continuation(self, message: Message) -> T:
        """Render the first message after a compaction."""

    @abstractmethod
    def notification(self, message: Message) -> T: ...

    @abstractmethod
    def teammate(self, message: Message) -> T: ...

    @abstractmethod
    def orphan_result(self, message: Message) -> T:
        """Render a tool result that belongs to no known call."""

    @abstractmethod
    def notice(self, message: Message) -> T: ...
