"""Draw a session as a tree of turns, branches and agents, without loading records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from enum import StrEnum

from msgspec import Struct, structs

from bygones.model.base import AgentId, RecordId
from bygones.model.conversations import (
    BranchSummary,
    ConversationHeader,
    find_branch_summaries,
)
from bygones.model.sessions import AgentRun, Branch, Message, Session, Turn
from bygones.model.summary import LeafSummary, MessageUsage, Role
from bygones.model.usage import Cost, Usage
from bygones.render.headers import agent_name, branch_label
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
    sanitize,
    styled_line,
    truncate_end,
)
from bygones.render.walk import (
    PLACEHOLDER_BRANCH,
    branches_by_fork,
    flatten,
    group_by_fork,
)

_MAX_BARS = 8
"""Nesting bars shown before a line at most."""
_MIN_TEXT_WIDTH = 16
_SHORT_ID_LENGTH = 8
_DROP_ORDER = (5, 1, 2, 0, 3, 4)
"""The order in which a narrow line drops its facts."""


class TreeLineKind(StrEnum):
    TURN = "turn"
    BRANCH = "branch"
    AGENT = "agent"
    COMPACTION = "compaction"
    SUMMARY = "summary"
    OTHER = "elsewhere"
    """Usage of the session that is on no other line."""


class TreeLine(Struct, frozen=True, kw_only=True):
    kind: TreeLineKind
    depth: int
    """Number of branches and agents around the line."""
    branch: int
    """The number of the branch; 0 is the live one."""
    turn_number: int | None = None
    record: RecordId | None = None
    agent: AgentId | None = None
    name: str = ""
    """What a branch is called."""
    text: str = ""
    """The start of a prompt, the task of an agent, what was compacted, or a summary."""
    time: datetime | None = None
    duration: timedelta | None = None
    calls: int = 0
    changed_files: int = 0
    """Number of files that its calls changed."""
    usage: Usage = Usage()
    """Usage of a turn, of a branch's own turns, or of an agent without those below it.

    All but those of branches add up to the usage of the session.
    """
    cost: Cost | None = None
    """Cost of the usage; ``None`` without a pricer."""


_TreeIterator = Iterator["TreeLine | _TreeIterator"]
UsagePricer = Callable[[Iterable[MessageUsage]], Cost]
"""Returns the total cost of messages."""


def iter_tree_lines(
    session: Session, pricer: UsagePricer | None = None
) -> Iterator[TreeLine]:
    """Yield the lines of a tree with every branch, and every agent once."""
    ledger = _CostLedger(session, pricer)
    builder = _TreeBuilder(session.branches, ledger, find_branch_summaries(session))
    return flatten(builder.build(session))


def iter_branch_tree_lines(
    facts: ConversationHeader, turns: Iterable[Turn]
) -> Iterator[TreeLine]:
    """Yield the lines of the live branch, and one line for each other branch.

    For sessions that are read in windows. Costs are not included.
    """
    live = next(branch.number for branch in facts.branches if branch.is_live)
    forks = branches_by_fork(facts.branches, live)
    seen_agents: set[str] = set()
    forked = {branch.number for branches in forks.values() for branch in branches}
    rootless = [
        branch
        for branch in facts.branches
        if branch.parent_number is None
        and not branch.is_live
        and branch.number not in forked
    ]
    children = _group_by_parent(facts.branches)
    yield from _abandoned_branch_lines(children, [*forks.pop(None, ()), *rootless])
    for turn in turns:
        if _has_line(turn):
            yield _turn_line(turn, PLACEHOLDER_BRANCH, 0)
        for message in turn.messages:
            if message.compaction is not None:
                yield _compaction_line(message, PLACEHOLDER_BRANCH, 0)
            for call in message.tool_calls:
                for run in call.agents:
                    if run.kind.is_shown and run.id not in seen_agents:
                        seen_agents.add(run.id)
                        yield _agent_line(run, 0, 1)
            yield from _abandoned_branch_lines(children, forks.pop(message.id, ()))
    for branches in forks.values():
        yield from _abandoned_branch_lines(children, branches)


_BranchesByParent = dict[int | None, list[BranchSummary]]


def _group_by_parent(branches: Iterable[BranchSummary]) -> _BranchesByParent:
    children: _BranchesByParent = {}
    for branch in branches:
        if not branch.is_live:
            children.setdefault(branch.parent_number, []).append(branch)
    return children


def _abandoned_branch_lines(
    children_of: _BranchesByParent, abandoned: Sequence[BranchSummary]
) -> Iterator[TreeLine]:
    """Yield a line for each abandoned branch and for the branches below it."""
    seen = {branch.number for branch in abandoned}
    stack = [(branch, 0) for branch in reversed(abandoned)]
    while stack:
        branch, depth = stack.pop()
        yield TreeLine(
            kind=TreeLineKind.BRANCH,
            depth=depth,
            branch=branch.number,
            name=branch_label(branch),
            record=branch.id,
            text=pluralize(branch.own_prompt_count, "prompt"),
            usage=branch.usage,
        )
        children = [
            child
            for child in children_of.get(branch.number, ())
            if child.number not in seen
        ]
        seen.update(child.number for child in children)
        stack += [(child, depth + 1) for child in reversed(children)]


class _CostLedger:
    """Computes costs of lines, and keeps track of usage that is on no line yet."""

    def __init__(self, session: Session, pricer: UsagePricer | None) -> None:
        self._pricer = pricer
        self._unassigned = {usage.key: usage for usage in session.message_usages}
        self._own_keys = frozenset(self._unassigned)
        self._by_record: dict[RecordId, list[MessageUsage]] = {}
        for usage in session.message_usages:
            if usage.agent_id is None:
                self._by_record.setdefault(usage.record_id, []).append(usage)

    def turn_cost(self, turns: Iterable[Turn]) -> Cost | None:
        """Return the cost of turns without the agents called in them."""
        refs = (ref for turn in turns for m in turn.messages for ref in m.record_refs)
        return self._cost(
            [usage for ref in refs for usage in self._by_record.get(ref.record_id, ())]
        )

    def agent_usage(self, run: AgentRun) -> tuple[Usage, Cost | None]:
        """Return usage and cost of an agent, without what belongs to other sessions."""
        own = [usage for usage in run.message_usages if usage.key in self._own_keys]
        return sum((usage.usage for usage in own), Usage()), self._cost(own)

    def unassigned_usage(self) -> tuple[list[MessageUsage], Cost | None]:
        """Return the usage that is on no line, and its cost."""
        usages = list(self._unassigned.values())
        return usages, self._cost(usages)

    def _cost(self, usages: Sequence[MessageUsage]) -> Cost | None:
        for usage in usages:
            self._unassigned.pop(usage.key, None)
        return self._pricer(usages) if self._pricer else None


class _TreeBuilder:
    def __init__(
        self,
        branches: Sequence[Branch],
        ledger: _CostLedger,
        summaries: Mapping[RecordId, LeafSummary],
    ) -> None:
        self._ledger = ledger
        self._summaries = summaries
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
        forks = group_by_fork(self._branches_by_parent.get(branch.number, ()), turns)
        yield self._branch_lines(forks.get(None, ()), depth)
        for turn in turns:
            if _has_line(turn):
                line = _turn_line(turn, branch, depth)
                yield structs.replace(line, cost=self._ledger.turn_cost((turn,)))
            for message in turn.messages:
                if message.compaction is not None:
                    yield _compaction_line(message, branch, depth)
                for call in message.tool_calls:
                    for run in call.agents:
                        yield self._agent_lines(run, branch.number, depth + 1)
                yield self._summary_lines(message, branch, depth)
                yield self._branch_lines(forks.get(message.id, ()), depth)

    def _summary_lines(
        self, message: Message, branch: Branch, depth: int
    ) -> _TreeIterator:
        leaves = self._summaries.keys() & message.record_ids if self._summaries else ()
        for leaf in sorted(leaves):
            yield TreeLine(
                kind=TreeLineKind.SUMMARY,
                depth=depth,
                branch=branch.number,
                record=leaf,
                text=self._summaries[leaf].text,
                time=message.sent_at,
            )

    def _branch_lines(self, branches: Sequence[Branch], depth: int) -> _TreeIterator:
        for branch in branches:
            prompts = branch.prompts
            yield TreeLine(
                kind=TreeLineKind.BRANCH,
                depth=depth,
                branch=branch.number,
                name=branch_label(branch),
                record=branch.id,
                text=pluralize(len(prompts), "prompt"),
                time=prompts[0].sent_at if prompts else None,
                calls=sum(len(turn.tool_calls) for turn in branch.own_turns),
                changed_files=_count_changed_files(branch.own_turns),
                usage=branch.usage,
                cost=self._ledger.turn_cost(branch.own_turns),
            )
            yield self._turn_lines(branch, branch.own_turns, depth + 1)

    def _agent_lines(self, run: AgentRun, branch: int, depth: int) -> _TreeIterator:
        if run.id in self._seen_agents or not run.kind.is_shown:
            return
        self._seen_agents.add(run.id)
        usage, cost = self._ledger.agent_usage(run)
        line = _agent_line(run, branch, depth)
        yield structs.replace(line, usage=usage, cost=cost)
        for below in run.agents:
            yield self._agent_lines(below, branch, depth + 1)

    def _other_line(self, branch: int) -> _TreeIterator:
        """Yield a line for the usage that is not drawn, so that everything adds up."""
        usages, cost = self._ledger.unassigned_usage()
        if not usages:
            return
        runs = len({usage.agent_id for usage in usages if usage.agent_id is not None})
        answers = sum(usage.agent_id is None for usage in usages)
        parts = (
            f"{pluralize(runs, 'agent run')} without a transcript" if runs else "",
            f"{pluralize(answers, 'reply', 'replies')} on no branch" if answers else "",
        )
        yield TreeLine(
            kind=TreeLineKind.OTHER,
            depth=0,
            branch=branch,
            text=", ".join(filter(None, parts)),
            usage=sum((usage.usage for usage in usages), Usage()),
            cost=cost,
        )


def _count_changed_files(turns: Iterable[Turn]) -> int:
    calls = (call for turn in turns for call in turn.tool_calls)
    return len({file.path for call in calls for file in call.changed_files})


def _agent_line(run: AgentRun, branch: int, depth: int) -> TreeLine:
    return TreeLine(
        kind=TreeLineKind.AGENT,
        depth=depth,
        branch=branch,
        agent=run.id,
        text=agent_name(run),
        time=run.started_at,
        duration=run.duration,
        calls=run.tool_call_count,
        changed_files=_count_changed_files(
            turn for branch in run.branches for turn in branch.own_turns
        ),
        usage=run.usage,
    )


def _has_line(turn: Turn) -> bool:
    """Whether a turn is more than notices of the client before the first prompt.

    A compaction among them has a line of its own.
    """
    return turn.prompt is not None or any(
        message.role is not Role.SYSTEM for message in turn.messages
    )


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
        changed_files=_count_changed_files((turn,)),
        usage=turn.usage,
    )


def _compaction_line(message: Message, branch: Branch, depth: int) -> TreeLine:
    facts = message.compaction
    sizes = [facts.tokens_before, facts.tokens_after] if facts else []
    tokens = " to ".join(format_tokens(size) for size in sizes if size is not None)
    trigger = f", {facts.trigger}" if facts and facts.trigger else ""
    return TreeLine(
        kind=TreeLineKind.COMPACTION,
        depth=depth,
        branch=branch.number,
        record=message.id,
        text=f"compacted{f' {tokens} tokens' if tokens else ''}{trigger}",
        time=message.sent_at,
    )


def render_tree_line(
    line: TreeLine, max_width: int | None, zone: tzinfo | None
) -> StyledLine:
    """Render a line with its facts at the right, as far as they have room."""
    bars = "│ " * min(line.depth, _MAX_BARS)
    symbol, style = _line_symbol(line)
    text = sanitize(line.text, newlines="space") or "…"
    if line.kind is TreeLineKind.BRANCH:
        text = f"{line.name}: {text}"
    elif line.kind is TreeLineKind.OTHER:
        text = f"elsewhere: {text}"
    elif line.kind is TreeLineKind.SUMMARY:
        text = f"summary up to {(line.record or '')[:8]}: {text}"
    name = _typed_name(line)
    all_facts = _line_facts(line, zone)
    facts = "  ".join(filter(None, all_facts))
    if max_width is not None:
        available = max_width - display_width(bars + symbol + name)
        for dropped in _DROP_ORDER:
            if available - display_width(facts) - 2 >= _MIN_TEXT_WIDTH:
                break
            all_facts[dropped] = ""
            facts = "  ".join(filter(None, all_facts))
        text_width = available - (display_width(facts) + 2 if facts else 0)
        text = truncate_end(text, text_width)
        text += " " * (text_width - display_width(text)) if facts else ""
    return styled_line(
        StyledSpan(bars, SpanStyle.FORK if bars else SpanStyle.PLAIN),
        StyledSpan(symbol, style),
        StyledSpan(name, SpanStyle.META),
        StyledSpan(text, _text_style(line)),
        StyledSpan(f"  {facts}" if facts else "", SpanStyle.META),
    )


def _typed_name(line: TreeLine) -> str:
    """Return the number of a turn or the id of an agent, as commands take them."""
    has_id = line.kind is TreeLineKind.AGENT and line.text != line.agent
    if has_id and line.agent is not None:
        return sanitize(line.agent[:_SHORT_ID_LENGTH], newlines="escape") + " "
    if line.kind is TreeLineKind.TURN and line.turn_number is not None:
        return f"{line.turn_number + 1} "
    return ""


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
        case TreeLineKind.COMPACTION | TreeLineKind.SUMMARY:
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
        case TreeLineKind.COMPACTION | TreeLineKind.SUMMARY | TreeLineKind.OTHER:
            return SpanStyle.META


def _line_facts(line: TreeLine, zone: tzinfo | None) -> list[str]:
    has_time = line.kind in {TreeLineKind.TURN, TreeLineKind.COMPACTION}
    return [
        pluralize(line.calls, "call") if line.calls else "",
        f"{pluralize(line.changed_files, 'file')} changed"
        if line.changed_files
        else "",
        format_duration(line.duration) if line.duration else "",
        format_tokens(line.usage.total) if line.usage.total else "",
        format_cost(line.cost) if line.usage.total else "",
        format_time(line.time, zone)[5:] if has_time and line.time else "",
    ]
