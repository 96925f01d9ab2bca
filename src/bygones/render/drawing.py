"""A session as a drawing: turns below each other, and what branched off beside them.

Nothing is opened: a drawing costs the structure of its session and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from enum import StrEnum

from msgspec import Struct, structs

from bygones.model.ids import AgentId, RecordId
from bygones.model.parts import Spend
from bygones.model.sessions import AgentRun, Branch, Message, Session, Turn
from bygones.model.usage import Cost, Usage
from bygones.model.windows import BranchFacts, SessionFacts
from bygones.render.figures import clock, lasting, price, several, tokens
from bygones.render.safe import safe_line
from bygones.render.spans import Row, Span, Style, row
from bygones.render.walk import anchor
from bygones.render.widths import fit_right, width
from bygones.render.windows import beside

__all__ = ["Mark", "MarkKind", "Pricer", "branch_marks", "drawn", "marks"]

_DEEPEST = 8
"""Bars that stand before a line at most."""
_LEAST = 16
_DISPENSABLE = (4, 1, 0, 2, 3)
"""Which of the facts a narrow line does without first."""


class MarkKind(StrEnum):
    """What a line of a drawing stands for."""

    TURN = "turn"
    BRANCH = "branch"
    AGENT = "agent"
    COMPACTION = "compaction"
    ELSEWHERE = "elsewhere"
    """What was spent in the session and is on no other line."""


class Mark(Struct, frozen=True, kw_only=True):
    """One line of a drawing."""

    kind: MarkKind
    depth: int
    """How many branches and agents it stands inside of."""
    branch: int
    """The number of its branch; 0 is the live one."""
    number: int | None = None
    """Of a turn on its branch."""
    record: RecordId | None = None
    agent: AgentId | None = None
    text: str = ""
    """How the prompt begins, what the agent was to do, what was compacted."""
    time: datetime | None = None
    duration: timedelta | None = None
    calls: int = 0
    usage: Usage = Usage()
    """Of a turn, a branch's own turns, or an agent without those below it.

    All but those of branches add up to what the session has spent.
    """
    cost: Cost | None = None
    """Of the same; none where nobody asked."""


_Way = Iterator["Mark | _Way"]
Pricer = Callable[[Iterable[Spend]], Cost]
"""Tells what answers cost together."""


def marks(session: Session, pricer: Pricer | None = None) -> Iterator[Mark]:
    """Yield the lines of a drawing from the top: every branch, every agent once."""
    drawing = _Drawing(session.branches, _Bill(session, pricer))
    waiting: list[_Way] = [drawing.follow(session)]
    while waiting:
        step = next(waiting[-1], None)
        if step is None:
            waiting.pop()
        elif isinstance(step, Iterator):
            waiting.append(step)
        else:
            yield step


def branch_marks(facts: SessionFacts, turns: Iterable[Turn]) -> Iterator[Mark]:
    """Yield the lines of the live branch alone, and one for each that was left.

    For sessions that are read by windows: what anything cost is not told.
    """
    live = next(branch.number for branch in facts.branches if branch.is_live)
    leaving = beside(facts.branches, live)
    met: set[str] = set()
    shared = {one.number for left in leaving.values() for one in left}
    rootless = [
        branch
        for branch in facts.branches
        if branch.parent is None and not branch.is_live and branch.number not in shared
    ]
    yield from _left_marks(facts.branches, [*leaving.pop(None, ()), *rootless])
    for turn in turns:
        yield _turn_mark(turn, _LIVE, 0)
        for message in turn.messages:
            if message.compaction is not None:
                yield _compaction_mark(message, _LIVE, 0)
            for call in message.calls:
                for run in call.agents:
                    if run.kind.is_shown and run.id not in met:
                        met.add(run.id)
                        yield _agent_mark(run, 0, 1)
            yield from _left_marks(facts.branches, leaving.pop(message.id, ()))
    for branches in leaving.values():
        yield from _left_marks(facts.branches, branches)


def _left_marks(
    every: Sequence[BranchFacts], left: Sequence[BranchFacts]
) -> Iterator[Mark]:
    """Yield a line for each branch that was left here, and for those that left it."""
    known = {branch.number for branch in left}
    waiting = [(branch, 0) for branch in reversed(left)]
    while waiting:
        branch, depth = waiting.pop()
        yield Mark(
            kind=MarkKind.BRANCH,
            depth=depth,
            branch=branch.number,
            record=branch.id,
            text=several(branch.own_prompts, "prompt"),
            usage=branch.usage,
        )
        below = [
            one
            for one in every
            if one.parent == branch.number
            and not one.is_live
            and one.number not in known
        ]
        known.update(one.number for one in below)
        waiting += [(one, depth + 1) for one in reversed(below)]


class _Bill:
    """What a session spent, and which of it stands on some line."""

    def __init__(self, session: Session, pricer: Pricer | None) -> None:
        self._pricer = pricer
        self._left = {spend.key: spend for spend in session.spends}
        self._own = frozenset(self._left)
        self._said: dict[RecordId, list[Spend]] = {}
        for spend in session.spends:
            if spend.agent is None:
                self._said.setdefault(spend.record, []).append(spend)

    def turns(self, turns: Iterable[Turn]) -> Cost | None:
        """Return what turns cost, without the agents that were called in them."""
        pieces = (p for turn in turns for m in turn.messages for p in m.pieces)
        return self._cost([s for p in pieces for s in self._said.get(p.record, ())])

    def agent(self, run: AgentRun) -> tuple[Usage, Cost | None]:
        """Return what an agent spent here; in another session it counts there."""
        spends = [spend for spend in run.spends if spend.key in self._own]
        return sum((one.usage for one in spends), Usage()), self._cost(spends)

    def rest(self) -> tuple[list[Spend], Cost | None]:
        """Return what stands on no line, and what that cost."""
        spends = list(self._left.values())
        return spends, self._cost(spends)

    def _cost(self, spends: Sequence[Spend]) -> Cost | None:
        for spend in spends:
            self._left.pop(spend.key, None)
        return self._pricer(spends) if self._pricer else None


class _Drawing:
    def __init__(self, branches: Sequence[Branch], bill: _Bill) -> None:
        self._bill = bill
        self._beside: dict[int | None, list[Branch]] = {}
        for branch in sorted(branches, key=lambda branch: branch.number):
            if not branch.is_live:
                self._beside.setdefault(branch.parent, []).append(branch)
        self._met: set[str] = set()

    def follow(self, session: Session) -> _Way:
        live = session.live
        rootless = self._beside.get(None, ()) if live.parent is None else ()
        yield self._forks(rootless, 0)
        yield self._turns(live, live.turns, 0)
        for run in session.agents:
            if not run.calls:
                yield self._agent(run, live.number, 1)
        yield self._elsewhere(live.number)

    def _turns(self, branch: Branch, turns: Sequence[Turn], depth: int) -> _Way:
        leaving = self._leaving(branch, turns)
        yield self._forks(leaving.get(None, ()), depth)
        for turn in turns:
            mark = _turn_mark(turn, branch, depth)
            yield structs.replace(mark, cost=self._bill.turns((turn,)))
            for message in turn.messages:
                if message.compaction is not None:
                    yield _compaction_mark(message, branch, depth)
                for call in message.calls:
                    for run in call.agents:
                        yield self._agent(run, branch.number, depth + 1)
                yield self._forks(leaving.get(message.id, ()), depth)

    def _leaving(
        self, branch: Branch, turns: Sequence[Turn]
    ) -> Mapping[RecordId | None, list[Branch]]:
        """Return the branches that leave this one, by the last message they share."""
        here = {message.id for turn in turns for message in turn.messages}
        found: dict[RecordId | None, list[Branch]] = {}
        for other in self._beside.get(branch.number, ()):
            last = anchor(other)
            found.setdefault(last if last in here else None, []).append(other)
        return found

    def _forks(self, branches: Sequence[Branch], depth: int) -> _Way:
        for branch in branches:
            prompts = branch.prompts
            yield Mark(
                kind=MarkKind.BRANCH,
                depth=depth,
                branch=branch.number,
                record=branch.id,
                text=several(len(prompts), "prompt"),
                time=prompts[0].time if prompts else None,
                calls=sum(len(turn.calls) for turn in branch.own),
                usage=branch.usage,
                cost=self._bill.turns(branch.own),
            )
            yield self._turns(branch, branch.own, depth + 1)

    def _agent(self, run: AgentRun, branch: int, depth: int) -> _Way:
        if run.id in self._met or not run.kind.is_shown:
            return
        self._met.add(run.id)
        usage, cost = self._bill.agent(run)
        mark = _agent_mark(run, branch, depth)
        yield structs.replace(mark, usage=usage, cost=cost)
        for below in run.agents:
            yield self._agent(below, branch, depth + 1)

    def _elsewhere(self, branch: int) -> _Way:
        """Yield what was spent by what is not drawn, so that all adds up."""
        spends, cost = self._bill.rest()
        if not spends:
            return
        runs = len({spend.agent for spend in spends if spend.agent is not None})
        answers = sum(spend.agent is None for spend in spends)
        told = (
            f"{several(runs, 'agent run')} without a transcript" if runs else "",
            f"{several(answers, 'answer')} on no branch" if answers else "",
        )
        yield Mark(
            kind=MarkKind.ELSEWHERE,
            depth=0,
            branch=branch,
            text=", ".join(filter(None, told)),
            usage=sum((spend.usage for spend in spends), Usage()),
            cost=cost,
        )


def _agent_mark(run: AgentRun, branch: int, depth: int) -> Mark:
    return Mark(
        kind=MarkKind.AGENT,
        depth=depth,
        branch=branch,
        agent=run.id,
        text=": ".join(filter(None, (run.type, run.description))) or run.id,
        time=run.started,
        duration=run.duration,
        calls=run.tool_count,
        usage=run.usage,
    )


_LIVE = Branch(id=RecordId(""), number=0, is_live=True, turns=(), own=(), usage=Usage())
"""Stands for the live branch where it is not at hand."""


def _turn_mark(turn: Turn, branch: Branch, depth: int) -> Mark:
    first = turn.prompt or next(iter(turn.messages), None)
    return Mark(
        kind=MarkKind.TURN,
        depth=depth,
        branch=branch.number,
        number=turn.number,
        record=first.id if first else None,
        text=first.head if first else "",
        time=first.time if first else None,
        duration=turn.duration,
        calls=len(turn.calls),
        usage=turn.usage,
    )


def _compaction_mark(message: Message, branch: Branch, depth: int) -> Mark:
    facts = message.compaction
    sizes = [facts.before, facts.after] if facts else []
    told = " to ".join(tokens(size) for size in sizes if size is not None)
    trigger = f", {facts.trigger}" if facts and facts.trigger else ""
    return Mark(
        kind=MarkKind.COMPACTION,
        depth=depth,
        branch=branch.number,
        record=message.id,
        text=f"compacted{f' {told} tokens' if told else ''}{trigger}",
        time=message.time,
    )


def drawn(mark: Mark, room: int | None, zone: tzinfo | None) -> Row:
    """Return a line of the drawing, its facts at the right where there is room."""
    bars = "│ " * min(mark.depth, _DEEPEST)
    head, style = _sign(mark)
    text = safe_line(mark.text) or "…"
    if mark.kind is MarkKind.BRANCH:
        text = f"branch {mark.branch}, rewound: {text}"
    elif mark.kind is MarkKind.ELSEWHERE:
        text = f"elsewhere: {text}"
    told = _facts(mark, zone)
    facts = "  ".join(filter(None, told))
    if room is not None:
        for least in _DISPENSABLE:
            if room - width(bars + head) - width(facts) - 2 >= _LEAST:
                break
            told[least] = ""
            facts = "  ".join(filter(None, told))
        left = room - width(bars + head) - (width(facts) + 2 if facts else 0)
        text = fit_right(text, left)
        text += " " * (left - width(text)) if facts else ""
    quiet = Style.FORK if "│" in bars else Style.PLAIN
    spans = (Span(bars, quiet), Span(head, style), Span(text, _text_style(mark)))
    return row(*spans, Span(f"  {facts}" if facts else "", Style.FACT))


def _sign(mark: Mark) -> tuple[str, Style]:
    match mark.kind:
        case MarkKind.TURN:
            return ("● ", Style.PROMPT) if not mark.branch else ("○ ", Style.FORK)
        case MarkKind.BRANCH:
            return "├╮", Style.FORK
        case MarkKind.AGENT:
            return "◆ ", Style.AGENT
        case MarkKind.COMPACTION:
            return "≡ ", Style.FACT
        case MarkKind.ELSEWHERE:
            return "+ ", Style.FACT


def _text_style(mark: Mark) -> Style:
    match mark.kind:
        case MarkKind.TURN:
            return Style.PLAIN
        case MarkKind.BRANCH:
            return Style.FORK
        case MarkKind.AGENT:
            return Style.AGENT
        case MarkKind.COMPACTION | MarkKind.ELSEWHERE:
            return Style.FACT


def _facts(mark: Mark, zone: tzinfo | None) -> list[str]:
    timed = mark.kind in {MarkKind.TURN, MarkKind.COMPACTION} and mark.time
    return [
        several(mark.calls, "call") if mark.calls else "",
        lasting(mark.duration) if mark.duration else "",
        tokens(mark.usage.total) if mark.usage.total else "",
        price(mark.cost) if mark.usage.total else "",
        clock(mark.time, zone)[5:] if timed and mark.time else "",
    ]
