"""Walk through a session step by step, in reading order.

All renderers consume these steps. A step loads only the blocks of its own message, so
memory use does not depend on the size of the session.
"""

from __future__ import annotations

from collections.abc import (
    Callable,
    Container,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from functools import cached_property, partial
from typing import Any, TypeVar

from msgspec import Struct, structs

from bygones.errors import NotInArchive
from bygones.model.assembled import as_conversation
from bygones.model.base import Position, RecordId
from bygones.model.conversations import (
    BranchSummary,
    Conversation,
    ConversationHeader,
    MessageWindow,
)
from bygones.model.records import Block, ToolUseBlock
from bygones.model.sessions import (
    AgentRun,
    Branch,
    Message,
    Session,
    ToolCall,
    Turn,
)
from bygones.model.summary import LeafSummary, Role
from bygones.model.usage import Usage


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
    header: ConversationHeader
    branch: BranchSummary
    turn_range: str = ""
    """Describes the turns that are shown, if not all are."""


class TurnStart(Struct, frozen=True):
    turn: Turn
    """With its first messages; a turn may have thousands."""
    branch_number: int
    read_messages: Callable[[], Iterator[Message]]
    """Reads all messages of the turn that the walk contains."""


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


class BranchRest(Struct, frozen=True):
    """What follows on a branch after the turn in which another one leaves it."""

    prompt_count: int
    preview: str
    """The beginning of the first prompt."""
    tokens: int


class BranchStep(Struct, frozen=True):
    """Another branch forks off here.

    If ``is_expanded``, its own turns follow, up to a `BranchEnd`.
    """

    branch: BranchSummary
    is_expanded: bool = False
    last_shared: RecordId | None = None
    """The last message that both branches have."""
    is_parent: bool = False
    """Whether the shown branch forks from it here."""
    read_rest: Callable[[], BranchRest] | None = None
    """Reads what follows, if it is the parent."""


class BranchEnd(Struct, frozen=True):
    branch: BranchSummary


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


def walk_session(
    source: Session | Conversation, view: SessionView
) -> Iterator[WalkStep]:
    """Yield the steps through a session, reading it in windows.

    Agents and branches may be nested to any depth, because nothing recurses.
    """
    conversation = as_conversation(source)
    header = conversation.facts
    branch = header.find_branch(view.branch)
    if branch is None:
        raise NotInArchive("branch", str(view.branch + 1))
    selected = select_messages(conversation, branch, view)
    yield SessionStart(header, branch, selected.description)
    yield from flatten(_walk_selected(conversation, branch, view, selected))


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


class SelectedMessages(Struct, frozen=True):
    """The messages of a branch that a view selects."""

    start: int
    stop: int
    description: str
    """Describes the turns, if not all are selected."""
    is_end: bool
    """Whether the last message is among them."""


def select_messages(
    conversation: Conversation, branch: BranchSummary, view: SessionView
) -> SelectedMessages:
    """Return which messages of a branch a view selects."""
    count = branch.message_count
    start, stop, is_end = 0, count, view.last_turn is None
    description = ""
    if view.first_turn or view.last_turn is not None:
        turns = conversation.turns(branch.number)
        description = _describe_turn_range(len(turns), view)
        starts = [turn.start for turn in turns]
        ends = [*starts[1:], count]
        shown = [
            at
            for at, turn in enumerate(turns)
            if turn.number >= view.first_turn
            and (view.last_turn is None or turn.number <= view.last_turn)
        ]
        start, stop = (starts[shown[0]], ends[shown[-1]]) if shown else (count, count)
    if view.stop_message is not None:
        start, stop = min(view.first_message, count), min(view.stop_message, count)
        is_end = view.stop_message >= count
    return SelectedMessages(start, stop, description, is_end)


def _describe_turn_range(count: int, view: SessionView) -> str:
    """Describe the turns that a view shows; empty if it shows all."""
    first = view.first_turn + 1
    last = count if view.last_turn is None else min(view.last_turn + 1, count)
    if first == 1 and last == count:
        return ""
    turns = f"turn {first}" if first == last else f"turns {first} to {last}"
    return f"only {turns} of {count}"


def find_visible(
    source: Session | Conversation, view: SessionView, positions: Container[Position]
) -> frozenset[Position]:
    """Return those of some positions whose records a view shows."""
    visible: set[Position] = set()
    for step in walk_session(source, view):
        found: tuple[Position | None, ...] = ()
        if isinstance(step, MessageStep):
            refs = (*step.message.record_refs, *step.message.attached_refs)
        elif isinstance(step, ToolCallStep):
            found = (step.call.position, step.call.result_position)
            refs = step.call.attached_refs
        else:
            continue
        places = (*found, *(ref.position for ref in refs))
        visible.update(one for one in places if one is not None and one in positions)
    return frozenset(visible)


StepIterator = Iterator["WalkStep | StepIterator"]
B = TypeVar("B", Branch, BranchSummary)
_Forks = Mapping[RecordId | None, Sequence[BranchStep]]
_WINDOW_SIZE = 256
"""Messages that are read at once."""


def _walk_selected(
    conversation: Conversation,
    branch: BranchSummary,
    view: SessionView,
    selected: SelectedMessages,
) -> StepIterator:
    header, seen = conversation.facts, set[str]()
    summaries = {one.leaf_id: one for one in header.branch_summaries}
    walker = _Walker(conversation, header, view, seen, summaries=summaries)
    yield from walker.walk_path(branch, selected.start, selected.stop)
    if header.orphan_agents and selected.is_end:
        yield OrphanAgents(header.orphan_agents)
        for run in header.orphan_agents:
            yield from walker.walk_agent(run, None)


class _Walker:
    """Walks a branch of a conversation, with the other branches where they fork.

    Without a conversation nothing is expanded.
    """

    def __init__(
        self,
        conversation: Conversation | None,
        header: ConversationHeader,
        view: SessionView,
        seen: set[str],
        *,
        summaries: Mapping[RecordId, LeafSummary] = {},
    ) -> None:
        self._conversation = conversation
        self._header = header
        self._view = view
        self._summaries = summaries
        self._seen_agents = seen
        """Ids of agents that were already walked."""

    def walk_path(self, branch: BranchSummary, start: int, stop: int) -> StepIterator:
        """Walk messages of a branch, counted from the root."""
        forks = self.forks_on_path(branch.number)
        if not start and stop:
            yield from self._walk_forks(forks.get(None, ()))
        yield from self._walk_range(branch, start, stop, forks)

    def _walk_range(
        self, branch: BranchSummary, start: int, stop: int, forks: _Forks
    ) -> StepIterator:
        if self._conversation is None:
            return
        while start < stop:
            window = self._conversation.window(
                branch.number, start, min(start + _WINDOW_SIZE, stop)
            )
            if window.stop == start:
                return
            yield from self.walk_window(window, forks, stop)
            start = window.stop

    def walk_window(
        self, window: MessageWindow, forks: _Forks, stop: int
    ) -> StepIterator:
        """Walk the messages of a window of a walk that stops at a message."""
        for at, turn in enumerate(window.turns):
            if at or not window.is_first_turn_partial:
                yield self._start_turn(turn, window, stop)
            for message in turn.messages:
                yield from self._walk_message(message, turn)
                yield from self._walk_summaries(message)
                yield from self._walk_forks(forks.get(message.id, ()))

    def _start_turn(self, turn: Turn, window: MessageWindow, stop: int) -> TurnStart:
        def read_messages() -> Iterator[Message]:
            yield from turn.messages
            start = window.stop
            if turn is window.turns[-1] and self._conversation is not None:
                yield from _continue_turn(
                    self._conversation, window.branch_number, start, stop
                )

        return TurnStart(turn, window.branch_number, read_messages)

    def _walk_summaries(self, message: Message) -> StepIterator:
        """Yield the summaries of the conversation up to a message."""
        if self._summaries:
            for leaf in sorted(self._summaries.keys() & message.record_ids):
                yield SummaryStep(self._summaries[leaf])

    def forks_on_path(self, number: int) -> _Forks:
        """Return the branches that fork from the path of a branch."""
        ancestors, others = split_branches(self._header.branches, number)
        forks: dict[RecordId | None, list[BranchStep]] = {}
        for child, parent in ancestors:
            # Where the path leaves its parent, the parent is the other branch.
            step = BranchStep(
                parent,
                last_shared=child.last_shared_id,
                is_parent=True,
                read_rest=partial(self._read_rest, parent, child.shared_count),
            )
            forks.setdefault(child.last_shared_id, []).append(step)
        for other in others:
            step = BranchStep(
                other,
                is_expanded=self._view.include_branches,
                last_shared=other.last_shared_id,
            )
            forks.setdefault(other.last_shared_id, []).append(step)
        return forks

    def _forks_within(self, branch: BranchSummary) -> _Forks:
        """Return the branches that fork from the own turns of a branch."""
        forks: dict[RecordId | None, list[BranchStep]] = {}
        for child in self._branches_by_parent.get(branch.number, ()):
            is_own = child.shared_count > branch.shared_count
            key = child.last_shared_id if is_own else None
            step = BranchStep(child, is_expanded=True, last_shared=key)
            forks.setdefault(key, []).append(step)
        return forks

    @cached_property
    def _branches_by_parent(self) -> dict[int | None, list[BranchSummary]]:
        branches: dict[int | None, list[BranchSummary]] = {}
        for branch in sorted(self._header.branches, key=lambda one: one.number):
            branches.setdefault(branch.parent_number, []).append(branch)
        return branches

    def _walk_forks(self, forks: Sequence[BranchStep]) -> StepIterator:
        for fork in forks:
            yield fork
            if fork.is_expanded:
                inner_forks = self._forks_within(fork.branch)
                yield self._walk_forks(inner_forks.get(None, ()))
                yield self._walk_own(fork.branch, inner_forks)
                yield BranchEnd(fork.branch)

    def _walk_own(self, branch: BranchSummary, forks: _Forks) -> StepIterator:
        """Walk the messages that a branch adds to its parent's."""
        start, stop = branch.shared_count, branch.message_count
        cut = branch.cut_turn
        if cut is not None and self._conversation is not None:
            window = self._conversation.window(
                branch.number, start, min(start + _WINDOW_SIZE, stop)
            )
            first, *others = window.turns
            first = structs.replace(
                first, number=cut.number, usage=cut.usage, duration=cut.duration
            )
            window = structs.replace(
                window, turns=(first, *others), is_first_turn_partial=False
            )
            yield from self.walk_window(window, forks, stop)
            start = window.stop
        yield from self._walk_range(branch, start, stop, forks)

    def _read_rest(self, branch: BranchSummary, shared_count: int) -> BranchRest:
        """Return what follows on a branch after the turn with a message."""
        if self._conversation is None:
            return BranchRest(0, "", 0)
        turns = self._conversation.turns(branch.number)
        later = turns
        if shared_count:
            later = [turn for turn in turns if turn.start >= shared_count]
        start = later[0].start if later else branch.message_count
        prompts = [
            message.preview
            for number, message in self._conversation.prompts(branch.number)
            if number >= start
        ]
        return BranchRest(
            len(prompts),
            prompts[0] if prompts else "",
            sum(turn.usage.total for turn in later),
        )

    def _walk_message(self, message: Message, turn: Turn) -> StepIterator:
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
                yield from self.walk_agent(run, call)

    def walk_agent(self, run: AgentRun, call: ToolCall | None) -> StepIterator:
        """Yield an agent run and, if the view includes agents, its messages."""
        is_resumed = run.id in self._seen_agents
        self._seen_agents.add(run.id)
        is_included = self._view.include_agents or run.id in self._view.focus
        is_expanded = is_included and not is_resumed and self._conversation is not None
        yield AgentStep(run, call, is_expanded=is_expanded, is_resumed=is_resumed)
        if is_expanded and self._conversation is not None:
            yield self._walk_run(self._conversation.agent(run.id))
            yield AgentEnd(run)

    def _walk_run(self, conversation: Conversation) -> StepIterator:
        header = conversation.facts
        walker = _Walker(conversation, header, self._view, self._seen_agents)
        live = next(branch for branch in header.branches if branch.is_live)
        return walker.walk_path(live, 0, live.message_count)


def _continue_turn(
    conversation: Conversation, branch: int, start: int, stop: int
) -> Iterator[Message]:
    """Yield messages from a number on, as far as they belong to the turn before it."""
    while start < stop:
        window = conversation.window(branch, start, min(start + _WINDOW_SIZE, stop))
        if not window.is_first_turn_partial:
            return
        yield from window.turns[0].messages
        if len(window.turns) > 1:
            return
        start = window.stop


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


def walk_window(
    window: MessageWindow, seen: set[str] | None = None
) -> Iterator[WalkStep]:
    """Yield the steps through a window, without expanding agents and branches.

    ``seen`` are the ids of agents in earlier windows; those of this one are added.
    """
    return flatten(_window_steps(window, set() if seen is None else seen))


def _window_steps(window: MessageWindow, seen: set[str]) -> StepIterator:
    header = window.header
    summaries = {one.leaf_id: one for one in header.branch_summaries}
    walker = _Walker(None, header, _WINDOW_VIEW, seen, summaries=summaries)
    forks = walker.forks_on_path(window.branch_number)
    if not window.start:
        yield from forks.get(None, ())
    yield from walker.walk_window(window, forks, window.stop)
    branch = header.find_branch(window.branch_number)
    orphans = header.orphan_agents
    if orphans and branch is not None and window.stop >= branch.message_count:
        yield OrphanAgents(orphans)
        for run in orphans:
            yield from walker.walk_agent(run, None)


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
