"""Agent runs: which call started them, and how they nest.

What says it best comes first: the agent's sidecar, the result's structure, progress
reports, the news of its end, the result's text, and last the prompt itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from bygones.assemble.dedupe import name_of
from bygones.assemble.journals import status_in
from bygones.model.ids import AgentId, RecordId, ToolUseId
from bygones.model.nodes import AgentNote, BlockFact, Node, ResultFacts
from bygones.model.sessions import AgentKind, AgentStatus
from bygones.model.sources import Source
from bygones.model.texts import Origin

__all__ = [
    "AgentPart",
    "Link",
    "Reports",
    "answered_call",
    "inline_agents",
    "kind_of",
    "link",
    "reports_of",
    "status_of",
]

_CALLERS = {"Task", "Agent"}
_REPLAYS = ("acompact-", "aside_question-", "aprompt_suggestion-")
_RANKS = (
    "sidecar",
    "outcome",
    "progress",
    "notification",
    "text",
    "workflow",
    "prompt",
)
_ENDED = {
    "completed": AgentStatus.COMPLETED,
    "failed": AgentStatus.FAILED,
    "error": AgentStatus.FAILED,
    "killed": AgentStatus.INTERRUPTED,
    "stopped": AgentStatus.INTERRUPTED,
    "interrupted": AgentStatus.INTERRUPTED,
}


class AgentPart(Struct, frozen=True, kw_only=True):
    """The records of one agent run, from its own file or from the session's."""

    id: AgentId
    nodes: tuple[Node, ...]
    source: Source | None = None
    note: AgentNote | None = None
    workflow: str | None = None
    steps: tuple[Node, ...] = ()


class Link(Struct, frozen=True):
    """How an agent run hangs on what started it."""

    calls: tuple[ToolUseId, ...] = ()
    by: str | None = None
    parent: AgentId | None = None
    """The agent run whose call it was; ``None`` for the session's own."""


class _Call(Struct, frozen=True):
    id: ToolUseId
    owner: AgentId | None
    order: int
    block: BlockFact


def kind_of(part: AgentPart) -> AgentKind:
    """Return what an agent run is for, by its name and its first prompt."""
    if part.id.startswith(_REPLAYS):
        return AgentKind.REPLAY
    first = next((n for n in part.nodes if n.kind == "user" and n.origin), None)
    if first is not None and first.origin is Origin.WARMUP:
        return AgentKind.WARM_UP
    return AgentKind.TASK


def link(main: Sequence[Node], parts: Sequence[AgentPart]) -> dict[AgentId, Link]:
    """Return the link of every agent run of a session."""
    calls = _calls(main, parts)
    told: dict[AgentId, dict[ToolUseId, int]] = {part.id: {} for part in parts}
    for agent, call, rank in _evidence(main, parts):
        if agent in told and call in calls and calls[call].owner != agent:
            before = told[agent].get(call, rank)
            told[agent][call] = min(before, rank)
    _by_prompt(parts, calls, told)
    links = {}
    for part in parts:
        found = sorted(told[part.id], key=lambda call: calls[call].order)
        parent = calls[found[0]].owner if found else None
        if not found and part.note and part.note.parent in told:
            parent = part.note.parent
        best = min(told[part.id].values(), default=None)
        by = _RANKS[best] if best is not None else None
        links[part.id] = Link(tuple(found), by, parent)
    return _without_circles(links)


def _calls(main: Sequence[Node], parts: Sequence[AgentPart]) -> dict[ToolUseId, _Call]:
    calls: dict[ToolUseId, _Call] = {}
    for owner, nodes in _owned(main, parts):
        for node in nodes:
            for block in node.blocks:
                if block.name is not None and block.id is not None:
                    call = _Call(block.id, owner, len(calls), block)
                    calls.setdefault(block.id, call)
    return calls


def _owned(
    main: Sequence[Node], parts: Sequence[AgentPart]
) -> Iterable[tuple[AgentId | None, Sequence[Node]]]:
    yield None, main
    for part in parts:
        yield part.id, part.nodes


def _evidence(
    main: Sequence[Node], parts: Sequence[AgentPart]
) -> Iterable[tuple[AgentId, ToolUseId, int]]:
    """Yield every hint of which call an agent belongs to, with its rank."""
    runs: dict[str, list[ToolUseId]] = {}
    for part in parts:
        if part.note and part.note.tool_use:
            yield part.id, part.note.tool_use, 0
    for _, nodes in _owned(main, parts):
        for node in nodes:
            yield from _hints(node)
            call = answered_call(node)
            if call is not None and node.result is not None and node.result.run:
                runs.setdefault(node.result.run, []).append(call)
    for part in parts:
        for call in runs.get(part.workflow or "", ()):
            yield part.id, call, 5


def _hints(node: Node) -> Iterable[tuple[AgentId, ToolUseId, int]]:
    """Yield what one record says about which call an agent belongs to."""
    call, facts = answered_call(node), node.result
    if call is not None and facts is not None and facts.agent:
        yield facts.agent, call, 1
    if node.kind == "progress" and node.agent and node.source_call:
        yield node.agent, node.source_call, 2
    news = node.notification
    if news is not None and news.task and news.tool_use:
        yield AgentId(news.task), news.tool_use, 3
    if call is not None and facts is not None and facts.told_agent:
        yield facts.told_agent, call, 4


def answered_call(node: Node) -> ToolUseId | None:
    """Return the call that a record answers, if it answers just one."""
    ids = [block.id for block in node.blocks if block.id and block.name is None]
    return ids[0] if len(ids) == 1 else None


def _by_prompt(
    parts: Sequence[AgentPart],
    calls: Mapping[ToolUseId, _Call],
    told: dict[AgentId, dict[ToolUseId, int]],
) -> None:
    """Give agents that nothing names to the calls with their prompt, in order."""
    used = {call for found in told.values() for call in found}
    free: dict[int, list[_Call]] = {}
    for call in calls.values():
        if call.block.name in _CALLERS and call.id not in used and call.block.digest:
            free.setdefault(call.block.digest, []).append(call)
    for part in parts:
        if told[part.id]:
            continue
        first = next((n for n in part.nodes if n.origin is Origin.CALLER), None)
        options = free.get(first.digest, []) if first is not None else []
        option = next((call for call in options if call.owner != part.id), None)
        if option is not None:
            options.remove(option)
            told[part.id][option.id] = len(_RANKS) - 1


def _without_circles(links: dict[AgentId, Link]) -> dict[AgentId, Link]:
    """Make an agent an orphan where its callers lead back to itself."""
    sound: dict[AgentId, Link] = {}
    for agent, found in links.items():
        seen = {agent}
        above = found.parent
        while above is not None and above not in seen:
            seen.add(above)
            above = links[above].parent if above in links else None
        sound[agent] = Link() if above is not None and above == agent else found
    return sound


def inline_agents(nodes: Sequence[Node]) -> tuple[list[Node], list[AgentPart]]:
    """Part a transcript from the agents that old versions wrote into it.

    Each begins at a sidechain record whose parent is not one; parallel ones stand
    interleaved.
    """
    beside = {n.uuid: n for n in nodes if n.is_sidechain and n.uuid is not None}
    main: list[Node] = []
    groups: dict[AgentId, list[Node]] = {}
    names: dict[RecordId, AgentId] = {}
    last: AgentId | None = None
    for node in nodes:
        if not node.is_sidechain:
            main.append(node)
            continue
        if node.uuid is None and node.agent is None and last is not None:
            agent = last
        else:
            agent = _inline_name(node, beside, names)
        groups.setdefault(agent, []).append(node)
        last = agent
    return main, [AgentPart(id=a, nodes=tuple(some)) for a, some in groups.items()]


def _inline_name(
    node: Node, beside: Mapping[RecordId, Node], names: dict[RecordId, AgentId]
) -> AgentId:
    """Return the agent that a record belongs to: that of its first ancestor."""
    path: dict[RecordId, None] = {}
    at = node
    while at.agent is None and name_of(at) not in names:
        path[name_of(at)] = None
        above = beside.get(at.parent) if at.parent is not None else None
        if above is None or name_of(above) in path:
            break
        at = above
    agent = at.agent or names.get(name_of(at)) or AgentId(f"inline-{name_of(at)}")
    names.update(dict.fromkeys(path, agent))
    return agent


class Reports(Struct, frozen=True):
    """What the records of a session say of calls and of agents, found by id."""

    calls: Mapping[ToolUseId, BlockFact]
    results: Mapping[AgentId, Sequence[ResultFacts]]
    ends: Mapping[str, tuple[int, AgentStatus]]
    """The last word on how a call or a task ended, and when it was said."""


def reports_of(nodes: Iterable[Node]) -> Reports:
    """Return what records say, gathered in one pass."""
    calls: dict[ToolUseId, BlockFact] = {}
    results: dict[AgentId, list[ResultFacts]] = {}
    ends: dict[str, tuple[int, AgentStatus]] = {}
    for order, node in enumerate(nodes):
        news = node.notification
        if news is not None and news.status in _ENDED:
            ends[news.task] = (order, _ENDED[news.status])
        if node.result is not None and node.result.agent is not None:
            results.setdefault(node.result.agent, []).append(node.result)
        for block in node.blocks:
            if block.id is None:
                continue
            if block.name is not None:
                calls.setdefault(block.id, block)
                continue
            status = _answer_status(node, block)
            if status is not None:
                ends[block.id] = (order, status)
    return Reports(calls, results, ends)


def status_of(part: AgentPart, found: Link, reports: Reports) -> AgentStatus:
    """Return how far an agent run came, by what was recorded of its end.

    A workflow's journal knows better than the run's last record, which may be an
    answer though more is to come. That it was interrupted, only the run itself says.
    """
    if part.note is not None and part.note.stopped_by_user:
        return AgentStatus.INTERRUPTED
    names = (part.id, *found.calls)
    told = [reports.ends[name] for name in names if name in reports.ends]
    if told:
        return max(told)[1]
    own, noted = _own_end(part), status_in(part.steps)
    is_cut = own is AgentStatus.INTERRUPTED and noted is AgentStatus.RUNNING
    return own if noted is None or is_cut else noted


def _answer_status(node: Node, block: BlockFact) -> AgentStatus | None:
    if block.is_error:
        interrupted = "interrupted" in node.head or "doesn't want" in node.head
        return AgentStatus.INTERRUPTED if interrupted else AgentStatus.FAILED
    status = node.result.status if node.result else None
    return _ENDED.get(status) if status else None


def _own_end(part: AgentPart) -> AgentStatus:
    """Judge by the last record: an answer without calls ends a run."""
    last = next((n for n in reversed(part.nodes) if n.is_conversation), None)
    if last is None:
        return AgentStatus.UNKNOWN
    if last.origin is Origin.INTERRUPT:
        return AgentStatus.INTERRUPTED
    if last.kind == "assistant" and last.is_error:
        return AgentStatus.FAILED
    is_open = last.kind == "user" or any(b.name is not None for b in last.blocks)
    return AgentStatus.RUNNING if is_open else AgentStatus.COMPLETED
