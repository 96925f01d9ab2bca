"""The way through a session that every renderer goes: a step at a time.

A step names values and opens nothing but the blocks of the message that it stands
for, so a session of any size is walked in the memory of one message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from bygones.model.blocks import Block, ToolUse
from bygones.model.ids import Position, RecordId
from bygones.model.sessions import (
    AgentRun,
    Branch,
    Message,
    Role,
    Session,
    ToolCall,
    Turn,
)

__all__ = [
    "AgentEnd",
    "AgentMet",
    "BlockMet",
    "Called",
    "Forked",
    "LeftEnd",
    "Orphans",
    "Paths",
    "Said",
    "Start",
    "Step",
    "TurnStart",
    "View",
    "Way",
    "agent",
    "anchor",
    "places",
    "turn_words",
    "walk",
]


class View(Struct, frozen=True, kw_only=True):
    """What of a session is shown; by default the live branch, agents in brief."""

    branch: int = 0
    """The number of the branch that is followed."""
    first: int = 0
    """The number of the first turn of that branch that is walked."""
    last: int | None = None
    """The number of the last one; ``None`` for all that follow."""
    start: int = 0
    """The first message of that branch that is walked, counted from its beginning."""
    stop: int | None = None
    """The one behind the last; if given, it is messages that count and not turns."""
    branches: bool = False
    """Whether the other branches are walked where they fork."""
    agents: bool = False
    """Whether agent runs are walked where they were called."""
    thinking: bool = False
    tools: bool = False
    """Whether the input and the output of calls are shown in full."""


class Start(Struct, frozen=True):
    """The session begins."""

    session: Session
    branch: Branch
    turns: str = ""
    """Which turns are walked, in words, if not all are."""


class TurnStart(Struct, frozen=True):
    """A turn begins; what it says follows."""

    turn: Turn
    branch: Branch


class Said(Struct, frozen=True):
    """A message; its blocks and calls follow if it is an answer."""

    message: Message
    turn: Turn


class BlockMet(Struct, frozen=True):
    """A block of an answer that is no call."""

    message: Message
    block: Block


class Called(Struct, frozen=True):
    """A call of an answer."""

    message: Message
    call: ToolCall


class AgentMet(Struct, frozen=True):
    """An agent run at the call that started it, or an orphan.

    If ``is_whole``, what it said follows, up to its :class:`AgentEnd`.
    """

    run: AgentRun
    call: ToolCall | None
    is_whole: bool
    is_again: bool = False
    """Whether an earlier call started it, and this one goes on with it."""


class AgentEnd(Struct, frozen=True):
    """An agent run has been walked."""

    run: AgentRun


class Forked(Struct, frozen=True):
    """A branch leaves the way, or the way left it.

    If ``is_whole``, its own turns follow, up to its :class:`LeftEnd`.
    """

    branch: Branch
    is_whole: bool


class LeftEnd(Struct, frozen=True):
    """A branch beside the way has been walked."""

    branch: Branch


class Orphans(Struct, frozen=True):
    """Agent runs follow that no call is known to have started."""

    runs: tuple[AgentRun, ...]


Step = (
    Start
    | TurnStart
    | Said
    | BlockMet
    | Called
    | AgentMet
    | AgentEnd
    | Forked
    | LeftEnd
    | Orphans
)


def walk(session: Session, view: View) -> Iterator[Step]:
    """Yield the steps through a session, in the order in which one reads them.

    Nothing recurses: agents may be nested, and branches left, to any depth.
    """
    branch = next(b for b in session.branches if b.number == view.branch)
    yield Start(session, branch, turn_words(branch, view))
    waiting: list[Way] = [_session(session, branch, view)]
    while waiting:
        step = next(waiting[-1], None)
        if step is None:
            waiting.pop()
        elif isinstance(step, Struct):
            yield step
        else:
            waiting.append(step)


def turn_words(branch: Branch, view: View) -> str:
    """Return which turns of a branch a view shows; nothing if it shows all."""
    count = len(branch.turns)
    first = view.first + 1
    last = count if view.last is None else min(view.last + 1, count)
    if first == 1 and last == count:
        return ""
    told = f"turn {first}" if first == last else f"turns {first} to {last}"
    return f"only {told} of {count}"


def places(session: Session, view: View) -> frozenset[Position]:
    """Return where the records stand of which a view shows something."""
    found: set[Position | None] = set()
    for step in walk(session, view):
        if isinstance(step, Said):
            pieces = (*step.message.pieces, *step.message.attached)
        elif isinstance(step, Called):
            found.update((step.call.place, step.call.answered_at))
            pieces = step.call.attached
        else:
            continue
        found.update(piece.position for piece in pieces)
    return frozenset(place for place in found if place is not None)


Way = Iterator["Step | Way"]
_Beside = Mapping[RecordId | None, Sequence[Forked]]


def _session(session: Session, branch: Branch, view: View) -> Way:
    seen: set[str] = set()
    paths = Paths(session.branches, view, seen)
    if view.stop is None:
        yield from paths.follow(branch, _window(branch, view))
        is_end = view.last is None
    else:
        yield from paths.window(branch, view.start, view.stop)
        is_end = view.stop >= sum(len(turn.messages) for turn in branch.turns)
    lost = tuple(run for run in session.agents if not run.calls and run.kind.is_shown)
    if lost and is_end:
        yield Orphans(lost)
        for run in lost:
            yield from agent(run, None, view, seen)


def _window(branch: Branch, view: View) -> Sequence[Turn]:
    """Return the turns of a branch that are asked for."""
    if view.first == 0 and view.last is None:
        return branch.turns
    return [
        turn
        for turn in branch.turns
        if turn.number >= view.first and (view.last is None or turn.number <= view.last)
    ]


def agent(run: AgentRun, call: ToolCall | None, view: View, seen: set[str]) -> Way:
    """Yield an agent run where it was called; whole if the view says so."""
    is_again = run.id in seen
    seen.add(run.id)
    is_whole = view.agents and not is_again
    yield AgentMet(run, call, is_whole=is_whole, is_again=is_again)
    if is_whole:
        paths = Paths(run.branches, view, seen)
        yield paths.follow(run.live, run.live.turns)
        yield AgentEnd(run)


class Paths:
    """Follows branches of one conversation, and meets the others where they fork."""

    def __init__(self, branches: Sequence[Branch], view: View, seen: set[str]) -> None:
        self._view = view
        self._seen = seen
        self._branches = {branch.number: branch for branch in branches}
        self._leaving: dict[int | None, list[Branch]] = {}
        for branch in sorted(branches, key=lambda branch: branch.number):
            self._leaving.setdefault(branch.parent, []).append(branch)

    def follow(self, branch: Branch, turns: Sequence[Turn]) -> Way:
        """Yield the way of a branch along these turns."""
        beside = self._beside(branch)
        if turns and turns[0] is branch.turns[0]:
            yield from self._forks(beside.get(None, ()))
        yield from self._turns(branch, turns, beside)

    def window(self, branch: Branch, start: int, stop: int) -> Way:
        """Yield the way of a branch along these messages, wherever turns begin."""
        beside = self._beside(branch)
        if not start:
            yield from self._forks(beside.get(None, ()))
        before = 0
        for turn in branch.turns:
            first, last = max(start - before, 0), stop - before
            before += len(turn.messages)
            if last <= 0:
                return
            if first == 0:
                yield TurnStart(turn, branch)
            for message in turn.messages[first:last]:
                yield from self.message(message, turn)
                yield from self._forks(beside.get(message.id, ()))

    def _turns(self, branch: Branch, turns: Sequence[Turn], beside: _Beside) -> Way:
        for turn in turns:
            yield TurnStart(turn, branch)
            for message in turn.messages:
                yield from self.message(message, turn)
                yield from self._forks(beside.get(message.id, ()))

    def _beside(self, branch: Branch) -> _Beside:
        """Return the branches that leave a way, by the last message they share."""
        found: dict[RecordId | None, list[Forked]] = {}
        numbers = [branch.number]
        below = branch
        while below.parent in self._branches and below.parent not in numbers:
            # Where the way left another, that one goes on without it.
            above = self._branches[below.parent]
            found.setdefault(anchor(below), []).append(Forked(above, is_whole=False))
            numbers.append(above.number)
            below = above
        others = (
            other for number in numbers for other in self._leaving.get(number, ())
        )
        for other in sorted(others, key=lambda other: other.number):
            if other.number not in numbers:
                fork = Forked(other, is_whole=self._view.branches)
                found.setdefault(anchor(other), []).append(fork)
        return found

    def _inside(self, branch: Branch) -> _Beside:
        """Return the branches that leave the own part of one, by the last message."""
        found: dict[RecordId | None, list[Forked]] = {}
        own = {message.id for turn in branch.own for message in turn.messages}
        for other in self._leaving.get(branch.number, ()):
            last = anchor(other)
            found.setdefault(last if last in own else None, []).append(
                Forked(other, is_whole=True)
            )
        return found

    def _forks(self, forks: Sequence[Forked]) -> Way:
        for fork in forks:
            yield fork
            if fork.is_whole:
                branch = fork.branch
                beside = self._inside(branch)
                yield self._forks(beside.get(None, ()))
                yield self._turns(branch, branch.own, beside)
                yield LeftEnd(branch)

    def message(self, message: Message, turn: Turn) -> Way:
        """Yield a message, and its blocks and calls."""
        yield Said(message, turn)
        if message.role is not Role.ASSISTANT:
            return
        calls = {call.id: call for call in message.calls if call.name}
        for block in message.blocks:
            used = block.id if isinstance(block, ToolUse) else None
            call = calls.pop(used, None) if used is not None else None
            if call is None:
                yield BlockMet(message, block)
            else:
                yield from self._call(message, call)
        # A file that is gone opens no blocks; the calls are known all the same.
        for call in calls.values():
            yield from self._call(message, call)

    def _call(self, message: Message, call: ToolCall) -> Way:
        yield Called(message, call)
        for run in call.agents:
            if run.kind.is_shown:
                yield from agent(run, call, self._view, self._seen)


def anchor(branch: Branch) -> RecordId | None:
    """Return the last message that a branch shares with the one it left."""
    own = sum(len(turn.messages) for turn in branch.own)
    for turn in reversed(branch.turns):
        if own < len(turn.messages):
            return turn.messages[-1 - own].id
        own -= len(turn.messages)
    return None
