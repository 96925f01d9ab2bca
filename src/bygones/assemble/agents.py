"""Workflows' journals: what they call their agents, and how far those came."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from bygones.assemble.dedupe import get_record_id
from bygones.model.base import AgentId, RecordId, SourceFile, ToolUseId
from bygones.model.nodes import (
    AgentSidecar,
    JournalFacts,
    NodeBlock,
    Origin,
    RecordNode,
    ResultFacts,
)
from bygones.model.summary import AgentKind, AgentStatus

JournalNodes = Mapping[AgentId, tuple[RecordNode, ...]]
"""What a journal says of each of its agents, in order."""

_JOURNAL_STATUSES = {"result": AgentStatus.COMPLETED, "failed": AgentStatus.FAILED}


def journal_nodes_by_agent(nodes: Iterable[RecordNode]) -> JournalNodes:
    """Return what the records of a journal say of each agent that they name."""
    found: dict[AgentId, list[RecordNode]] = {}
    for node in nodes:
        if isinstance(node.extra, JournalFacts) and node.extra.agent_id:
            found.setdefault(node.extra.agent_id, []).append(node)
    return {agent: tuple(steps) for agent, steps in found.items()}


def journal_label(journal_nodes: Sequence[RecordNode]) -> str | None:
    """Return what an agent's steps call it; the last name counts."""
    facts = (step.extra for step in reversed(journal_nodes))
    return next(
        (f.label for f in facts if isinstance(f, JournalFacts) and f.label), None
    )


def journal_status(journal_nodes: Sequence[RecordNode]) -> AgentStatus | None:
    """Return how an agent ended by its steps: it runs while none tells of an end."""
    ends = (
        _JOURNAL_STATUSES[step.kind]
        for step in reversed(journal_nodes)
        if step.kind in _JOURNAL_STATUSES
    )
    return next(ends, AgentStatus.RUNNING) if journal_nodes else None


_AGENT_TOOLS = {"Task", "Agent"}
_REPLAY_PREFIXES = ("acompact-", "aside_question-", "aprompt_suggestion-")
_EVIDENCE_RANKS = (
    "sidecar",
    "outcome",
    "progress",
    "notification",
    "text",
    "workflow",
    "prompt",
)
_FINAL_STATUSES = {
    "completed": AgentStatus.COMPLETED,
    "failed": AgentStatus.FAILED,
    "error": AgentStatus.FAILED,
    "killed": AgentStatus.INTERRUPTED,
    "stopped": AgentStatus.INTERRUPTED,
    "interrupted": AgentStatus.INTERRUPTED,
}


class AgentRecords(Struct, frozen=True, kw_only=True):
    """The records of one agent run, from its own file or from the session's."""

    id: AgentId
    nodes: tuple[RecordNode, ...]
    source: SourceFile | None = None
    sidecar: AgentSidecar | None = None
    workflow: str | None = None
    journal_nodes: tuple[RecordNode, ...] = ()


class AgentLink(Struct, frozen=True):
    """How an agent run hangs on what started it."""

    call_ids: tuple[ToolUseId, ...] = ()
    evidence: str | None = None
    parent_id: AgentId | None = None
    """The agent run whose call it was; ``None`` for the session's own."""


class _CallSite(Struct, frozen=True):
    id: ToolUseId
    owner: AgentId | None
    order: int
    block: NodeBlock


def agent_kind(agent: AgentRecords) -> AgentKind:
    """Return what an agent run is for, by its name and its first prompt."""
    if agent.id.startswith(_REPLAY_PREFIXES):
        return AgentKind.REPLAY
    first = next((n for n in agent.nodes if n.kind == "user" and n.origin), None)
    if first is not None and first.origin is Origin.WARMUP:
        return AgentKind.WARM_UP
    return AgentKind.TASK


def link_agents(
    main: Sequence[RecordNode], agents: Sequence[AgentRecords]
) -> dict[AgentId, AgentLink]:
    """Return the link of every agent run of a session."""
    calls = _index_calls(main, agents)
    told: dict[AgentId, dict[ToolUseId, int]] = {part.id: {} for part in agents}
    for agent, call, rank in _iter_evidence(main, agents):
        if agent in told and call in calls and calls[call].owner != agent:
            before = told[agent].get(call, rank)
            told[agent][call] = min(before, rank)
    _match_by_prompt(agents, calls, told)
    links = {}
    for part in agents:
        found = sorted(told[part.id], key=lambda call: calls[call].order)
        parent = calls[found[0]].owner if found else None
        if not found and part.sidecar and part.sidecar.parent_agent_id in told:
            parent = part.sidecar.parent_agent_id
        best = min(told[part.id].values(), default=None)
        by = _EVIDENCE_RANKS[best] if best is not None else None
        links[part.id] = AgentLink(tuple(found), by, parent)
    return _break_cycles(links)


def _index_calls(
    main: Sequence[RecordNode], agents: Sequence[AgentRecords]
) -> dict[ToolUseId, _CallSite]:
    calls: dict[ToolUseId, _CallSite] = {}
    for owner, nodes in _nodes_by_owner(main, agents):
        for node in nodes:
            for block in node.blocks:
                if block.name is not None and block.id is not None:
                    call = _CallSite(block.id, owner, len(calls), block)
                    calls.setdefault(block.id, call)
    return calls


def _nodes_by_owner(
    main: Sequence[RecordNode], agents: Sequence[AgentRecords]
) -> Iterable[tuple[AgentId | None, Sequence[RecordNode]]]:
    yield None, main
    for part in agents:
        yield part.id, part.nodes


def _iter_evidence(
    main: Sequence[RecordNode], agents: Sequence[AgentRecords]
) -> Iterable[tuple[AgentId, ToolUseId, int]]:
    """Yield every hint of which call an agent belongs to, with its rank."""
    runs: dict[str, list[ToolUseId]] = {}
    for part in agents:
        if part.sidecar and part.sidecar.tool_use_id:
            yield part.id, part.sidecar.tool_use_id, 0
    for _, nodes in _nodes_by_owner(main, agents):
        for node in nodes:
            yield from _record_evidence(node)
            call = answered_call_id(node)
            if call is not None and node.result is not None and node.result.run_id:
                runs.setdefault(node.result.run_id, []).append(call)
    for part in agents:
        for call in runs.get(part.workflow or "", ()):
            yield part.id, call, 5


def _record_evidence(node: RecordNode) -> Iterable[tuple[AgentId, ToolUseId, int]]:
    """Yield what one record says about which call an agent belongs to."""
    call, facts = answered_call_id(node), node.result
    if call is not None and facts is not None and facts.agent_id:
        yield facts.agent_id, call, 1
    if node.kind == "progress" and node.agent_id and node.source_call_id:
        yield node.agent_id, node.source_call_id, 2
    news = node.notification
    if news is not None and news.task_id and news.tool_use_id:
        yield AgentId(news.task_id), news.tool_use_id, 3
    if call is not None and facts is not None and facts.mentioned_agent_id:
        yield facts.mentioned_agent_id, call, 4


def answered_call_id(node: RecordNode) -> ToolUseId | None:
    """Return the call that a record answers, if it answers just one."""
    ids = [block.id for block in node.blocks if block.id and block.name is None]
    return ids[0] if len(ids) == 1 else None


def _match_by_prompt(
    agents: Sequence[AgentRecords],
    calls: Mapping[ToolUseId, _CallSite],
    evidence: dict[AgentId, dict[ToolUseId, int]],
) -> None:
    """Give agents that nothing names to the calls with their prompt, in order."""
    used = {call for found in evidence.values() for call in found}
    free: dict[int, list[_CallSite]] = {}
    for call in calls.values():
        if (
            call.block.name in _AGENT_TOOLS
            and call.id not in used
            and call.block.digest
        ):
            free.setdefault(call.block.digest, []).append(call)
    for part in agents:
        if evidence[part.id]:
            continue
        first = next((n for n in part.nodes if n.origin is Origin.CALLER), None)
        options = free.get(first.digest, []) if first is not None else []
        option = next((call for call in options if call.owner != part.id), None)
        if option is not None:
            options.remove(option)
            evidence[part.id][option.id] = len(_EVIDENCE_RANKS) - 1


def _break_cycles(links: dict[AgentId, AgentLink]) -> dict[AgentId, AgentLink]:
    """Make an agent an orphan where its callers lead back to itself."""
    sound: dict[AgentId, AgentLink] = {}
    for agent, found in links.items():
        seen = {agent}
        above = found.parent_id
        while above is not None and above not in seen:
            seen.add(above)
            above = links[above].parent_id if above in links else None
        sound[agent] = AgentLink() if above is not None and above == agent else found
    return sound


def split_inline_agents(
    nodes: Sequence[RecordNode],
) -> tuple[list[RecordNode], list[AgentRecords]]:
    """Part a transcript from the agents that old versions wrote into it.

    Each begins at a sidechain record whose parent is not one; parallel ones stand
    interleaved.
    """
    beside = {n.uuid: n for n in nodes if n.is_sidechain and n.uuid is not None}
    main: list[RecordNode] = []
    groups: dict[AgentId, list[RecordNode]] = {}
    names: dict[RecordId, AgentId] = {}
    last: AgentId | None = None
    for node in nodes:
        if not node.is_sidechain:
            main.append(node)
            continue
        if node.uuid is None and node.agent_id is None and last is not None:
            agent = last
        else:
            agent = _inline_agent_id(node, beside, names)
        groups.setdefault(agent, []).append(node)
        last = agent
    return main, [AgentRecords(id=a, nodes=tuple(some)) for a, some in groups.items()]


def _inline_agent_id(
    node: RecordNode,
    beside: Mapping[RecordId, RecordNode],
    names: dict[RecordId, AgentId],
) -> AgentId:
    """Return the agent that a record belongs to: that of its first ancestor."""
    path: dict[RecordId, None] = {}
    at = node
    while at.agent_id is None and get_record_id(at) not in names:
        path[get_record_id(at)] = None
        above = beside.get(at.parent_uuid) if at.parent_uuid is not None else None
        if above is None or get_record_id(above) in path:
            break
        at = above
    agent = (
        at.agent_id
        or names.get(get_record_id(at))
        or AgentId(f"inline-{get_record_id(at)}")
    )
    names.update(dict.fromkeys(path, agent))
    return agent


class AgentReports(Struct, frozen=True):
    """What the records of a session say of calls and of agents, found by id."""

    calls: Mapping[ToolUseId, NodeBlock]
    results: Mapping[AgentId, Sequence[ResultFacts]]
    last_statuses: Mapping[str, tuple[int, AgentStatus]]
    """The last word on how a call or a task ended, and when it was said."""


def collect_reports(nodes: Iterable[RecordNode]) -> AgentReports:
    """Return what records say, gathered in one pass."""
    calls: dict[ToolUseId, NodeBlock] = {}
    results: dict[AgentId, list[ResultFacts]] = {}
    ends: dict[str, tuple[int, AgentStatus]] = {}
    for order, node in enumerate(nodes):
        news = node.notification
        if news is not None and news.status in _FINAL_STATUSES:
            ends[news.task_id] = (order, _FINAL_STATUSES[news.status])
        if node.result is not None and node.result.agent_id is not None:
            results.setdefault(node.result.agent_id, []).append(node.result)
        for block in node.blocks:
            if block.id is None:
                continue
            if block.name is not None:
                calls.setdefault(block.id, block)
                continue
            status = _result_status(node, block)
            if status is not None:
                ends[block.id] = (order, status)
    return AgentReports(calls, results, ends)


def agent_status(
    agent: AgentRecords, link: AgentLink, reports: AgentReports
) -> AgentStatus:
    """Return how far an agent run came, by what was recorded of its end.

    A workflow's journal knows better than the run's last record, which may be an
    answer though more is to come. That it was interrupted, only the run itself says.
    """
    if agent.sidecar is not None and agent.sidecar.is_stopped_by_user:
        return AgentStatus.INTERRUPTED
    names = (agent.id, *link.call_ids)
    told = [
        reports.last_statuses[name] for name in names if name in reports.last_statuses
    ]
    if told:
        return max(told)[1]
    own, noted = _status_from_last_record(agent), journal_status(agent.journal_nodes)
    is_cut = own is AgentStatus.INTERRUPTED and noted is AgentStatus.RUNNING
    return own if noted is None or is_cut else noted


def _result_status(node: RecordNode, block: NodeBlock) -> AgentStatus | None:
    if block.is_error:
        interrupted = "interrupted" in node.preview or "doesn't want" in node.preview
        return AgentStatus.INTERRUPTED if interrupted else AgentStatus.FAILED
    status = node.result.status if node.result else None
    return _FINAL_STATUSES.get(status) if status else None


def _status_from_last_record(agent: AgentRecords) -> AgentStatus:
    """Judge by the last record: an answer without calls ends a run."""
    last = next((n for n in reversed(agent.nodes) if n.is_conversation), None)
    if last is None:
        return AgentStatus.UNKNOWN
    if last.origin is Origin.INTERRUPT:
        return AgentStatus.INTERRUPTED
    if last.kind == "assistant" and last.is_error:
        return AgentStatus.FAILED
    is_open = last.kind == "user" or any(b.name is not None for b in last.blocks)
    return AgentStatus.RUNNING if is_open else AgentStatus.COMPLETED
