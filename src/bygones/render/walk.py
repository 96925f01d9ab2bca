"""The way through a session that every renderer goes: a step at a time.

A step names values and opens nothing but the blocks of the message that it stands
for, so a session of any size is walked in the memory of one message.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct, structs

from bygones.model.base import Position, RecordId
from bygones.model.records import Block, ToolUseBlock
from bygones.model.sessions import (
    AgentRun,
    Branch,
    BranchSummary,
    Message,
    MessageWindow,
    Session,
    ToolCall,
    Turn,
)
from bygones.model.summary import Role
from bygones.model.usage import Usage


class SessionView(Struct, frozen=True, kw_only=True):
    """What of a session is shown; by default the live branch, agents in brief."""

    branch: int = 0
    """The number of the branch that is followed."""
    first_turn: int = 0
    """The number of the first turn of that branch that is walked."""
    last_turn: int | None = None
    """The number of the last one; ``None`` for all that follow."""
    first_message: int = 0
    """The first message of that branch that is walked, counted from its beginning."""
    stop_message: int | None = None
    """The one behind the last; if given, it is messages that count and not turns."""
    include_branches: bool = False
    """Whether the other branches are walked where they fork."""
    include_agents: bool = False
    """Whether agent runs are walked where they were called."""
    include_thinking: bool = False
    include_tools: bool = False
    """Whether the input and the output of calls are shown in full."""


SHOW_ALL = SessionView(
    include_branches=True,
    include_agents=True,
    include_thinking=True,
    include_tools=True,
)


class SessionStart(Struct, frozen=True):
    """The session begins."""

    session: Session
    branch: Branch
    turn_range: str = ""
    """Which turns are walked, in words, if not all are."""


class TurnStart(Struct, frozen=True):
    """A turn begins; what it says follows."""

    turn: Turn
    branch: Branch


class MessageStep(Struct, frozen=True):
    """A message; its blocks and calls follow if it is an answer."""

    message: Message
    turn: Turn


class BlockStep(Struct, frozen=True):
    """A block of an answer that is no call."""

    message: Message
    block: Block


class ToolCallStep(Struct, frozen=True):
    """A call of an answer."""

    message: Message
    call: ToolCall


class AgentStep(Struct, frozen=True):
    """An agent run at the call that started it, or an orphan.

    If ``is_whole``, what it said follows, up to its :class:`AgentEnd`.
    """

    run: AgentRun
    call: ToolCall | None
    is_expanded: bool
    is_resumed: bool = False
    """Whether an earlier call started it, and this one goes on with it."""


class AgentEnd(Struct, frozen=True):
    """An agent run has been walked."""

    run: AgentRun


class BranchStep(Struct, frozen=True):
    """A branch leaves the way, or the way left it.

    If ``is_whole``, its own turns follow, up to its :class:`LeftEnd`.
    """

    branch: Branch
    is_expanded: bool


class BranchEnd(Struct, frozen=True):
    """A branch beside the way has been walked."""

    branch: Branch


class OrphanAgents(Struct, frozen=True):
    """Agent runs follow that no call is known to have started."""

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
    | OrphanAgents
)


def walk_session(session: Session, view: SessionView) -> Iterator[WalkStep]:
    """Yield the steps through a session, in the order in which one reads them.

    Nothing recurses: agents may be nested, and branches left, to any depth.
    """
    branch = next(b for b in session.branches if b.number == view.branch)
    yield SessionStart(session, branch, describe_turn_range(branch, view))
    waiting: list[StepIterator] = [_walk_view(session, branch, view)]
    while waiting:
        step = next(waiting[-1], None)
        if step is None:
            waiting.pop()
        elif isinstance(step, Struct):
            yield step
        else:
            waiting.append(step)


def describe_turn_range(branch: Branch, view: SessionView) -> str:
    """Return which turns of a branch a view shows; nothing if it shows all."""
    count = len(branch.turns)
    first = view.first_turn + 1
    last = count if view.last_turn is None else min(view.last_turn + 1, count)
    if first == 1 and last == count:
        return ""
    told = f"turn {first}" if first == last else f"turns {first} to {last}"
    return f"only {told} of {count}"


def visible_positions(session: Session, view: SessionView) -> frozenset[Position]:
    """Return where the records stand of which a view shows something."""
    found: set[Position | None] = set()
    for step in walk_session(session, view):
        if isinstance(step, MessageStep):
            pieces = (*step.message.record_refs, *step.message.attached_refs)
        elif isinstance(step, ToolCallStep):
            found.update((step.call.position, step.call.result_position))
            pieces = step.call.attached_refs
        else:
            continue
        found.update(piece.position for piece in pieces)
    return frozenset(place for place in found if place is not None)


StepIterator = Iterator["WalkStep | StepIterator"]
_ForksByMessage = Mapping[RecordId | None, Sequence[BranchStep]]


def _walk_view(session: Session, branch: Branch, view: SessionView) -> StepIterator:
    seen: set[str] = set()
    paths = BranchWalker(session.branches, view, seen)
    if view.stop_message is None:
        yield from paths.walk_turns(branch, _selected_turns(branch, view))
        is_end = view.last_turn is None
    else:
        yield from paths.walk_messages(branch, view.first_message, view.stop_message)
        is_end = view.stop_message >= sum(len(turn.messages) for turn in branch.turns)
    lost = tuple(
        run for run in session.agents if not run.call_ids and run.kind.is_shown
    )
    if lost and is_end:
        yield OrphanAgents(lost)
        for run in lost:
            yield from walk_agent(run, None, view, seen)


def _selected_turns(branch: Branch, view: SessionView) -> Sequence[Turn]:
    """Return the turns of a branch that are asked for."""
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
    """Yield an agent run where it was called; whole if the view says so."""
    is_again = run.id in seen
    seen.add(run.id)
    is_whole = view.include_agents and not is_again
    yield AgentStep(run, call, is_expanded=is_whole, is_resumed=is_again)
    if is_whole:
        paths = BranchWalker(run.branches, view, seen)
        yield paths.walk_turns(run.live_branch, run.live_branch.turns)
        yield AgentEnd(run)


class BranchWalker:
    """Follows branches of one conversation, and meets the others where they fork."""

    def __init__(
        self, branches: Sequence[Branch], view: SessionView, seen: set[str]
    ) -> None:
        self._view = view
        self._seen_agents = seen
        self._branches = {branch.number: branch for branch in branches}
        self._branches_by_parent: dict[int | None, list[Branch]] = {}
        for branch in sorted(branches, key=lambda branch: branch.number):
            self._branches_by_parent.setdefault(branch.parent_number, []).append(branch)

    def walk_turns(self, branch: Branch, turns: Sequence[Turn]) -> StepIterator:
        """Yield the way of a branch along these turns."""
        beside = self._forks_on_path(branch)
        if turns and turns[0] is branch.turns[0]:
            yield from self._walk_forks(beside.get(None, ()))
        yield from self._walk_turns(branch, turns, beside)

    def walk_messages(self, branch: Branch, start: int, stop: int) -> StepIterator:
        """Yield the way of a branch along these messages, wherever turns begin."""
        beside = self._forks_on_path(branch)
        if not start:
            yield from self._walk_forks(beside.get(None, ()))
        before = 0
        for turn in branch.turns:
            first, last = max(start - before, 0), stop - before
            before += len(turn.messages)
            if last <= 0:
                return
            if first == 0:
                yield TurnStart(turn, branch)
            for message in turn.messages[first:last]:
                yield from self.walk_message(message, turn)
                yield from self._walk_forks(beside.get(message.id, ()))

    def _walk_turns(
        self, branch: Branch, turns: Sequence[Turn], forks: _ForksByMessage
    ) -> StepIterator:
        for turn in turns:
            yield TurnStart(turn, branch)
            for message in turn.messages:
                yield from self.walk_message(message, turn)
                yield from self._walk_forks(forks.get(message.id, ()))

    def _forks_on_path(self, branch: Branch) -> _ForksByMessage:
        """Return the branches that leave a way, by the last message they share."""
        found: dict[RecordId | None, list[BranchStep]] = {}
        numbers = [branch.number]
        below = branch
        while (
            below.parent_number in self._branches and below.parent_number not in numbers
        ):
            # Where the way left another, that one goes on without it.
            above = self._branches[below.parent_number]
            found.setdefault(last_shared_message(below), []).append(
                BranchStep(above, is_expanded=False)
            )
            numbers.append(above.number)
            below = above
        others = (
            other
            for number in numbers
            for other in self._branches_by_parent.get(number, ())
        )
        for other in sorted(others, key=lambda other: other.number):
            if other.number not in numbers:
                fork = BranchStep(other, is_expanded=self._view.include_branches)
                found.setdefault(last_shared_message(other), []).append(fork)
        return found

    def _forks_within(self, branch: Branch) -> _ForksByMessage:
        """Return the branches that leave the own part of one, by the last message."""
        found: dict[RecordId | None, list[BranchStep]] = {}
        own = {message.id for turn in branch.own_turns for message in turn.messages}
        for other in self._branches_by_parent.get(branch.number, ()):
            last = last_shared_message(other)
            found.setdefault(last if last in own else None, []).append(
                BranchStep(other, is_expanded=True)
            )
        return found

    def _walk_forks(self, forks: Sequence[BranchStep]) -> StepIterator:
        for fork in forks:
            yield fork
            if fork.is_expanded:
                branch = fork.branch
                beside = self._forks_within(branch)
                yield self._walk_forks(beside.get(None, ()))
                yield self._walk_turns(branch, branch.own_turns, beside)
                yield BranchEnd(branch)

    def walk_message(self, message: Message, turn: Turn) -> StepIterator:
        """Yield a message, and its blocks and calls."""
        yield MessageStep(message, turn)
        if message.role is not Role.ASSISTANT:
            return
        calls = {call.id: call for call in message.tool_calls if call.name}
        for block in message.blocks:
            used = block.id if isinstance(block, ToolUseBlock) else None
            call = calls.pop(used, None) if used is not None else None
            if call is None:
                yield BlockStep(message, block)
            else:
                yield from self._walk_call(message, call)
        # A file that is gone opens no blocks; the calls are known all the same.
        for call in calls.values():
            yield from self._walk_call(message, call)

    def _walk_call(self, message: Message, call: ToolCall) -> StepIterator:
        yield ToolCallStep(message, call)
        for run in call.agents:
            if run.kind.is_shown:
                yield from walk_agent(run, call, self._view, self._seen_agents)


def last_shared_message(branch: Branch) -> RecordId | None:
    """Return the last message that a branch shares with the one it left."""
    own = sum(len(turn.messages) for turn in branch.own_turns)
    for turn in reversed(branch.turns):
        if own < len(turn.messages):
            return turn.messages[-1 - own].id
        own -= len(turn.messages)
    return None


_WINDOW_VIEW = SessionView(include_thinking=True, include_tools=True)
_PLACEHOLDER_BRANCH = Branch(
    id=RecordId(""), number=0, is_live=True, turns=(), own_turns=(), usage=Usage()
)
"""Stands for the branch, of which a window knows only its own part."""


class BranchLink(Struct, frozen=True):
    """A branch leaves the way, or the way left it."""

    branch: BranchSummary
    last_shared: RecordId | None = None
    """The last message that both have."""


def walk_window(
    window: MessageWindow, seen: set[str] | None = None
) -> Iterator[WalkStep | BranchLink]:
    """Yield the steps through a window; agents and other branches are told in brief.

    ``seen`` are agents that windows before it have met; those of this one are added.
    """
    seen = set() if seen is None else seen
    waiting: list[Iterator[WalkStep | BranchLink | StepIterator]] = [
        _window_steps(window, seen)
    ]
    while waiting:
        step = next(waiting[-1], None)
        if step is None:
            waiting.pop()
        elif isinstance(step, Iterator):
            waiting.append(step)
        else:
            yield step


def _window_steps(
    window: MessageWindow, seen: set[str]
) -> Iterator[WalkStep | BranchLink | StepIterator]:
    paths = BranchWalker((), _WINDOW_VIEW, seen)
    leaving = branches_by_fork(window.header.branches, window.branch_number)
    if not window.start:
        yield from (BranchLink(one) for one in leaving.get(None, ()))
    for at, turn in enumerate(window.turns):
        if at or not window.is_first_turn_partial:
            yield TurnStart(turn, _PLACEHOLDER_BRANCH)
        for message in turn.messages:
            yield from paths.walk_message(message, turn)
            yield from (
                BranchLink(one, message.id) for one in leaving.get(message.id, ())
            )
    branch = window.header.find_branch(window.branch_number)
    orphans = window.header.orphan_agents
    if orphans and branch is not None and window.stop >= branch.message_count:
        yield OrphanAgents(orphans)
        for run in orphans:
            yield from walk_agent(run, None, _WINDOW_VIEW, seen)


def branches_by_fork(
    branches: Sequence[BranchSummary], branch_number: int
) -> dict[RecordId | None, list[BranchSummary]]:
    """Return the branches that leave a way, by the last message they share."""
    by_number = {branch.number: branch for branch in branches}
    found: dict[RecordId | None, list[BranchSummary]] = {}
    numbers = [branch_number]
    below = by_number[branch_number]
    while below.parent_number in by_number and below.parent_number not in numbers:
        # Where the way left another, that one goes on without it.
        above = by_number[below.parent_number]
        found.setdefault(below.last_shared_id, []).append(above)
        numbers.append(above.number)
        below = above
    for other in sorted(branches, key=lambda one: one.number):
        if other.parent_number in numbers and other.number not in numbers:
            found.setdefault(other.last_shared_id, []).append(other)
    return found


_CONTEXT_TURNS = 1
"""Turns before and behind that are shown with the one that is meant."""


def trim_around_record(session: Session, branch_number: int, record: str) -> Session:
    """Return a session of which a branch has only the turns around a record.

    Where the branch does not hold the record, the session is returned as it is.
    """
    branch = next(one for one in session.branches if one.number == branch_number)
    at = _find_turn_index(branch, record)
    if at is None:
        return session
    turns = branch.turns[max(at - _CONTEXT_TURNS, 0) : at + _CONTEXT_TURNS + 1]
    part = structs.replace(branch, turns=turns)
    branches = tuple(part if one is branch else one for one in session.branches)
    live = part if branch.is_live else session.live_branch
    return structs.replace(session, branches=branches, live_branch=live)


def find_message_index(
    session: Session, branch_number: int, ids: Collection[str]
) -> int | None:
    """Return which message of a branch has a record or an agent run, counted from 0."""
    branch = next(one for one in session.branches if one.number == branch_number)
    messages = (message for turn in branch.turns for message in turn.messages)
    for at, message in enumerate(messages):
        if _contains_id(message, ids):
            return at
    return None


def _find_turn_index(branch: Branch, record: str) -> int | None:
    for at, turn in enumerate(branch.turns):
        if any(_contains_id(message, {record}) for message in turn.messages):
            return at
    return None


def _contains_id(message: Message, ids: Collection[str]) -> bool:
    runs = (run.id for call in message.tool_calls for run in call.agents)
    answers = (call.result_record_id for call in message.tool_calls)
    return any(name in ids for name in (*message.record_ids, *runs, *answers))
