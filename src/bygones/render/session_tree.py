"""A session as a drawing: turns below each other, and what branched off beside them.

Nothing is opened: a drawing costs the structure of its session and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from enum import StrEnum

from msgspec import Struct, structs

from bygones.model.base import AgentId, RecordId
from bygones.model.sessions import (
    AgentRun,
    Branch,
    BranchSummary,
    ConversationHeader,
    Message,
    Session,
    Turn,
)
from bygones.model.summary import MessageUsage
from bygones.model.usage import Cost, Usage
from bygones.render.numbers import (
    format_cost,
    format_duration,
    format_time,
    format_tokens,
    pluralize,
)
from bygones.render.text.primitives import (
    SpanStyle,
    StyledLine,
    StyledSpan,
    display_width,
    sanitize_line,
    styled_line,
    truncate_end,
)
from bygones.render.walk import branches_by_fork, last_shared_message

__all__ = [
    "TreeLine",
    "TreeLineKind",
    "UsagePricer",
    "iter_branch_tree_lines",
    "iter_tree_lines",
    "render_tree_line",
]

_MAX_BARS = 8
"""Bars that stand before a line at most."""
_MIN_TEXT_WIDTH = 16
_DROP_ORDER = (4, 1, 0, 2, 3)
"""Which of the facts a narrow line does without first."""


class TreeLineKind(StrEnum):
    """What a line of a drawing stands for."""

    TURN = "turn"
    BRANCH = "branch"
    AGENT = "agent"
    COMPACTION = "compaction"
    OTHER = "elsewhere"
    """What was spent in the session and is on no other line."""


class TreeLine(Struct, frozen=True, kw_only=True):
    """One line of a drawing."""

    kind: TreeLineKind
    depth: int
    """How many branches and agents it stands inside of."""
    branch: int
    """The number of its branch; 0 is the live one."""
    turn_number: int | None = None
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


_TreeIterator = Iterator["TreeLine | _TreeIterator"]
UsagePricer = Callable[[Iterable[MessageUsage]], Cost]
"""Tells what answers cost together."""


def iter_tree_lines(
    session: Session, pricer: UsagePricer | None = None
) -> Iterator[TreeLine]:
    """Yield the lines of a drawing from the top: every branch, every agent once."""
    drawing = _TreeBuilder(session.branches, _CostLedger(session, pricer))
    waiting: list[_TreeIterator] = [drawing.build(session)]
    while waiting:
        step = next(waiting[-1], None)
        if step is None:
            waiting.pop()
        elif isinstance(step, Iterator):
            waiting.append(step)
        else:
            yield step


def iter_branch_tree_lines(
    facts: ConversationHeader, turns: Iterable[Turn]
) -> Iterator[TreeLine]:
    """Yield the lines of the live branch alone, and one for each that was left.

    For sessions that are read by windows: what anything cost is not told.
    """
    live = next(branch.number for branch in facts.branches if branch.is_live)
    leaving = branches_by_fork(facts.branches, live)
    met: set[str] = set()
    shared = {one.number for left in leaving.values() for one in left}
    rootless = [
        branch
        for branch in facts.branches
        if branch.parent_number is None
        and not branch.is_live
        and branch.number not in shared
    ]
    yield from _abandoned_branch_lines(
        facts.branches, [*leaving.pop(None, ()), *rootless]
    )
    for turn in turns:
        yield _turn_line(turn, _LIVE_PLACEHOLDER, 0)
        for message in turn.messages:
            if message.compaction is not None:
                yield _compaction_line(message, _LIVE_PLACEHOLDER, 0)
            for call in message.tool_calls:
                for run in call.agents:
                    if run.kind.is_shown and run.id not in met:
                        met.add(run.id)
                        yield _agent_line(run, 0, 1)
            yield from _abandoned_branch_lines(
                facts.branches, leaving.pop(message.id, ())
            )
    for branches in leaving.values():
        yield from _abandoned_branch_lines(facts.branches, branches)


def _abandoned_branch_lines(
    branches: Sequence[BranchSummary], abandoned: Sequence[BranchSummary]
) -> Iterator[TreeLine]:
    """Yield a line for each branch that was left here, and for those that left it."""
    known = {branch.number for branch in abandoned}
    waiting = [(branch, 0) for branch in reversed(abandoned)]
    while waiting:
        branch, depth = waiting.pop()
        yield TreeLine(
            kind=TreeLineKind.BRANCH,
            depth=depth,
            branch=branch.number,
            record=branch.id,
            text=pluralize(branch.own_prompt_count, "prompt"),
            usage=branch.usage,
        )
        below = [
            one
            for one in branches
            if one.parent_number == branch.number
            and not one.is_live
            and one.number not in known
        ]
        known.update(one.number for one in below)
        waiting += [(one, depth + 1) for one in reversed(below)]


class _CostLedger:
    """What a session spent, and which of it stands on some line."""

    def __init__(self, session: Session, pricer: UsagePricer | None) -> None:
        self._pricer = pricer
        self._unassigned = {spend.key: spend for spend in session.message_usages}
        self._own_keys = frozenset(self._unassigned)
        self._by_record: dict[RecordId, list[MessageUsage]] = {}
        for spend in session.message_usages:
            if spend.agent_id is None:
                self._by_record.setdefault(spend.record_id, []).append(spend)

    def turn_cost(self, turns: Iterable[Turn]) -> Cost | None:
        """Return what turns cost, without the agents that were called in them."""
        pieces = (p for turn in turns for m in turn.messages for p in m.record_refs)
        return self._cost(
            [s for p in pieces for s in self._by_record.get(p.record_id, ())]
        )

    def agent_usage(self, run: AgentRun) -> tuple[Usage, Cost | None]:
        """Return what an agent spent here; in another session it counts there."""
        spends = [spend for spend in run.message_usages if spend.key in self._own_keys]
        return sum((one.usage for one in spends), Usage()), self._cost(spends)

    def unassigned_usage(self) -> tuple[list[MessageUsage], Cost | None]:
        """Return what stands on no line, and what that cost."""
        spends = list(self._unassigned.values())
        return spends, self._cost(spends)

    def _cost(self, spends: Sequence[MessageUsage]) -> Cost | None:
        for spend in spends:
            self._unassigned.pop(spend.key, None)
        return self._pricer(spends) if self._pricer else None


class _TreeBuilder:
    def __init__(self, branches: Sequence[Branch], bill: _CostLedger) -> None:
        self._ledger = bill
        self._branches_by_parent: dict[int | None, list[Branch]] = {}
        for branch in sorted(branches, key=lambda branch: branch.number):
            if not branch.is_live:
                self._branches_by_parent.setdefault(branch.parent_number, []).append(
                    branch
                )
        self._seen_agents: set[str] = set()

    def build(self, session: Session) -> _TreeIterator:
        live = session.live_branch
        rootless = (
            self._branches_by_parent.get(None, ()) if live.parent_number is None else ()
        )
        yield self._branch_lines(rootless, 0)
        yield self._turn_lines(live, live.turns, 0)
        for run in session.agents:
            if not run.call_ids:
                yield self._agent_lines(run, live.number, 1)
        yield self._other_line(live.number)

    def _turn_lines(
        self, branch: Branch, turns: Sequence[Turn], depth: int
    ) -> _TreeIterator:
        leaving = self._branches_by_fork(branch, turns)
        yield self._branch_lines(leaving.get(None, ()), depth)
        for turn in turns:
            mark = _turn_line(turn, branch, depth)
            yield structs.replace(mark, cost=self._ledger.turn_cost((turn,)))
            for message in turn.messages:
                if message.compaction is not None:
                    yield _compaction_line(message, branch, depth)
                for call in message.tool_calls:
                    for run in call.agents:
                        yield self._agent_lines(run, branch.number, depth + 1)
                yield self._branch_lines(leaving.get(message.id, ()), depth)

    def _branches_by_fork(
        self, branch: Branch, turns: Sequence[Turn]
    ) -> Mapping[RecordId | None, list[Branch]]:
        """Return the branches that leave this one, by the last message they share."""
        here = {message.id for turn in turns for message in turn.messages}
        found: dict[RecordId | None, list[Branch]] = {}
        for other in self._branches_by_parent.get(branch.number, ()):
            last = last_shared_message(other)
            found.setdefault(last if last in here else None, []).append(other)
        return found

    def _branch_lines(self, branches: Sequence[Branch], depth: int) -> _TreeIterator:
        for branch in branches:
            prompts = branch.prompts
            yield TreeLine(
                kind=TreeLineKind.BRANCH,
                depth=depth,
                branch=branch.number,
                record=branch.id,
                text=pluralize(len(prompts), "prompt"),
                time=prompts[0].sent_at if prompts else None,
                calls=sum(len(turn.tool_calls) for turn in branch.own_turns),
                usage=branch.usage,
                cost=self._ledger.turn_cost(branch.own_turns),
            )
            yield self._turn_lines(branch, branch.own_turns, depth + 1)

    def _agent_lines(self, run: AgentRun, branch: int, depth: int) -> _TreeIterator:
        if run.id in self._seen_agents or not run.kind.is_shown:
            return
        self._seen_agents.add(run.id)
        usage, cost = self._ledger.agent_usage(run)
        mark = _agent_line(run, branch, depth)
        yield structs.replace(mark, usage=usage, cost=cost)
        for below in run.agents:
            yield self._agent_lines(below, branch, depth + 1)

    def _other_line(self, branch: int) -> _TreeIterator:
        """Yield what was spent by what is not drawn, so that all adds up."""
        spends, cost = self._ledger.unassigned_usage()
        if not spends:
            return
        runs = len({spend.agent_id for spend in spends if spend.agent_id is not None})
        answers = sum(spend.agent_id is None for spend in spends)
        told = (
            f"{pluralize(runs, 'agent run')} without a transcript" if runs else "",
            f"{pluralize(answers, 'answer')} on no branch" if answers else "",
        )
        yield TreeLine(
            kind=TreeLineKind.OTHER,
            depth=0,
            branch=branch,
            text=", ".join(filter(None, told)),
            usage=sum((spend.usage for spend in spends), Usage()),
            cost=cost,
        )


def _agent_line(run: AgentRun, branch: int, depth: int) -> TreeLine:
    return TreeLine(
        kind=TreeLineKind.AGENT,
        depth=depth,
        branch=branch,
        agent=run.id,
        text=": ".join(filter(None, (run.agent_type, run.description))) or run.id,
        time=run.started_at,
        duration=run.duration,
        calls=run.tool_call_count,
        usage=run.usage,
    )


_LIVE_PLACEHOLDER = Branch(
    id=RecordId(""), number=0, is_live=True, turns=(), own_turns=(), usage=Usage()
)
"""Stands for the live branch where it is not at hand."""


def _turn_line(turn: Turn, branch: Branch, depth: int) -> TreeLine:
    first = turn.prompt or next(iter(turn.messages), None)
    return TreeLine(
        kind=TreeLineKind.TURN,
        depth=depth,
        branch=branch.number,
        turn_number=turn.number,
        record=first.id if first else None,
        text=first.preview if first else "",
        time=first.sent_at if first else None,
        duration=turn.duration,
        calls=len(turn.tool_calls),
        usage=turn.usage,
    )


def _compaction_line(message: Message, branch: Branch, depth: int) -> TreeLine:
    facts = message.compaction
    sizes = [facts.tokens_before, facts.tokens_after] if facts else []
    told = " to ".join(format_tokens(size) for size in sizes if size is not None)
    trigger = f", {facts.trigger}" if facts and facts.trigger else ""
    return TreeLine(
        kind=TreeLineKind.COMPACTION,
        depth=depth,
        branch=branch.number,
        record=message.id,
        text=f"compacted{f' {told} tokens' if told else ''}{trigger}",
        time=message.sent_at,
    )


def render_tree_line(
    line: TreeLine, max_width: int | None, zone: tzinfo | None
) -> StyledLine:
    """Return a line of the drawing, its facts at the right where there is room."""
    bars = "│ " * min(line.depth, _MAX_BARS)
    head, style = _line_symbol(line)
    text = sanitize_line(line.text) or "…"
    if line.kind is TreeLineKind.BRANCH:
        text = f"branch {line.branch}, rewound: {text}"
    elif line.kind is TreeLineKind.OTHER:
        text = f"elsewhere: {text}"
    told = _line_facts(line, zone)
    facts = "  ".join(filter(None, told))
    if max_width is not None:
        for least in _DROP_ORDER:
            if (
                max_width - display_width(bars + head) - display_width(facts) - 2
                >= _MIN_TEXT_WIDTH
            ):
                break
            told[least] = ""
            facts = "  ".join(filter(None, told))
        left = (
            max_width
            - display_width(bars + head)
            - (display_width(facts) + 2 if facts else 0)
        )
        text = truncate_end(text, left)
        text += " " * (left - display_width(text)) if facts else ""
    quiet = SpanStyle.FORK if "│" in bars else SpanStyle.PLAIN
    spans = (
        StyledSpan(bars, quiet),
        StyledSpan(head, style),
        StyledSpan(text, _text_style(line)),
    )
    return styled_line(
        *spans, StyledSpan(f"  {facts}" if facts else "", SpanStyle.META)
    )


def _line_symbol(line: TreeLine) -> tuple[str, SpanStyle]:
    match line.kind:
        case TreeLineKind.TURN:
            return (
                ("● ", SpanStyle.PROMPT) if not line.branch else ("○ ", SpanStyle.FORK)
            )
        case TreeLineKind.BRANCH:
            return "├╮", SpanStyle.FORK
        case TreeLineKind.AGENT:
            return "◆ ", SpanStyle.AGENT
        case TreeLineKind.COMPACTION:
            return "≡ ", SpanStyle.META
        case TreeLineKind.OTHER:
            return "+ ", SpanStyle.META


def _text_style(line: TreeLine) -> SpanStyle:
    match line.kind:
        case TreeLineKind.TURN:
            return SpanStyle.PLAIN
        case TreeLineKind.BRANCH:
            return SpanStyle.FORK
        case TreeLineKind.AGENT:
            return SpanStyle.AGENT
        case TreeLineKind.COMPACTION | TreeLineKind.OTHER:
            return SpanStyle.META


def _line_facts(line: TreeLine, zone: tzinfo | None) -> list[str]:
    timed = line.kind in {TreeLineKind.TURN, TreeLineKind.COMPACTION} and line.time
    return [
        pluralize(line.calls, "call") if line.calls else "",
        format_duration(line.duration) if line.duration else "",
        format_tokens(line.usage.total) if line.usage.total else "",
        format_cost(line.cost) if line.usage.total else "",
        format_time(line.time, zone)[5:] if timed and line.time else "",
    ]
