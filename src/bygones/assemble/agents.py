"""Agent runs: which call started them, what they are for, and how they ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, structs

from bygones.assemble.dedupe import get_record_id
from bygones.model.base import AgentId, RecordId, SourceFile, ToolUseId
from bygones.model.nodes import (
    AgentProgressFacts,
    AgentSidecar,
    JournalFacts,
    NodeBlock,
    Origin,
    RecordNode,
    ResultFacts,
)
from bygones.model.summary import REPLAY_ID_PREFIXES, AgentKind, AgentStatus

JournalNodes = Mapping[AgentId, tuple[RecordNode, ...]]
"""The records of a workflow's journal by agent, in order."""

_JOURNAL_STATUSES = {"result": AgentStatus.COMPLETED, "failed": AgentStatus.FAILED}


def journal_nodes_by_agent(nodes: Iterable[RecordNode]) -> JournalNodes:
    by_agent: dict[AgentId, list[RecordNode]] = {}
    for node in nodes:
        if isinstance(node.extra, JournalFacts) and node.extra.agent_id:
            by_agent.setdefault(node.extra.agent_id, []).append(node)
    return {agent: tuple(steps) for agent, steps in by_agent.items()}


def journal_label(journal_nodes: Sequence[RecordNode]) -> str | None:
    """Return the last label of an agent in its journal."""
    facts = (step.extra for step in reversed(journal_nodes))
    return next(
        (f.label for f in facts if isinstance(f, JournalFacts) and f.label), None
    )


def journal_status(journal_nodes: Sequence[RecordNode]) -> AgentStatus | None:
    """Return the status of an agent by its journal; it runs until an end is recorded."""
    ends = (
        _JOURNAL_STATUSES[step.kind]
        for step in reversed(journal_nodes)
        if step.kind in _JOURNAL_STATUSES
    )
    return next(ends, AgentStatus.RUNNING) if journal_nodes else None


AGENT_TOOLS = {"Task", "Agent"}
_EVIDENCE_RANKS = (
    "sidecar",
    "outcome",
    "progress",
    "notification",
    "text",
    "workflow",
    "prompt",
)
"""What links an agent to its call, the most reliable first."""
_FINAL_STATUSES = {
    "completed": AgentStatus.COMPLETED,
    "failed": AgentStatus.FAILED,
    "error": AgentStatus.FAILED,
    "killed": AgentStatus.INTERRUPTED,
    "stopped": AgentStatus.INTERRUPTED,
    "interrupted": AgentStatus.INTERRUPTED,
}


class AgentRecords(Struct, frozen=True, kw_only=True):
    """The records of one agent run, from its own file or inline in the session's."""

    id: AgentId
    nodes: tuple[RecordNode, ...]
    source: SourceFile | None = None
    sidecar: AgentSidecar | None = None
    workflow: str | None = None
    journal_nodes: tuple[RecordNode, ...] = ()
    is_from_progress: bool = False
    """Whether only progress records of the session repeat its records."""


class AgentLink(Struct, frozen=True):
    """The calls that started and continued an agent run."""

    call_ids: tuple[ToolUseId, ...] = ()
    evidence: str | None = None
    parent_id: AgentId | None = None
    """The agent run that made the call; `None` for the session itself."""


class _CallSite(Struct, frozen=True):
    id: ToolUseId
    owner: AgentId | None
    order: int
    block: NodeBlock


def agent_kind(agent: AgentRecords) -> AgentKind:
    """Return the purpose of an agent run, by its id and its first prompt."""
    if agent.id.startswith(REPLAY_ID_PREFIXES):
        return AgentKind.REPLAY
    return AgentKind.WARM_UP if starts_warm_up(agent.nodes) else AgentKind.TASK


def starts_warm_up(nodes: Iterable[RecordNode]) -> bool | None:
    """Whether the first prompt is that of a warm-up; `None` if there is no prompt."""
    first = next((n for n in nodes if n.kind == "user" and n.origin), None)
    return None if first is None else first.origin is Origin.WARMUP


def link_agents(
    main: Sequence[RecordNode], agents: Sequence[AgentRecords]
) -> dict[AgentId, AgentLink]:
    """Link every agent run of a session to its calls."""
    calls = _index_calls(main, agents)
    evidence: dict[AgentId, dict[ToolUseId, int]] = {agent.id: {} for agent in agents}
    for agent_id, call_id, rank in _iter_evidence(main, agents):
        if agent_id not in evidence or call_id not in calls:
            continue
        if calls[call_id].owner != agent_id:
            earlier = evidence[agent_id].get(call_id, rank)
            evidence[agent_id][call_id] = min(earlier, rank)
    _match_by_prompt(agents, calls, evidence)
    links = {}
    for agent in agents:
        call_ids = sorted(evidence[agent.id], key=lambda call: calls[call].order)
        parent = calls[call_ids[0]].owner if call_ids else None
        if not call_ids and agent.sidecar and agent.sidecar.parent_agent_id in evidence:
            parent = agent.sidecar.parent_agent_id
        best = min(evidence[agent.id].values(), default=None)
        linked_by = _EVIDENCE_RANKS[best] if best is not None else None
        links[agent.id] = AgentLink(tuple(call_ids), linked_by, parent)
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
    for agent in agents:
        yield agent.id, agent.nodes


def _iter_evidence(
    main: Sequence[RecordNode], agents: Sequence[AgentRecords]
) -> Iterable[tuple[AgentId, ToolUseId, int]]:
    """Yield agent, call and rank of everything that links an agent to a call."""
    workflow_calls: dict[str, list[ToolUseId]] = {}
    for agent in agents:
        if agent.sidecar and agent.sidecar.tool_use_id:
            yield agent.id, agent.sidecar.tool_use_id, 0
    for _, nodes in _nodes_by_owner(main, agents):
        for node in nodes:
            yield from _record_evidence(node)
            call = answered_call_id(node)
            if call is not None and node.result is not None and node.result.run_id:
                workflow_calls.setdefault(node.result.run_id, []).append(call)
    for agent in agents:
        for call in workflow_calls.get(agent.workflow or "", ()):
            yield agent.id, call, 5


def _record_evidence(node: RecordNode) -> Iterable[tuple[AgentId, ToolUseId, int]]:
    call, facts = answered_call_id(node), node.result
    if call is not None and facts is not None and facts.agent_id:
        yield facts.agent_id, call, 1
    if node.kind == "progress" and node.agent_id and node.source_call_id:
        yield node.agent_id, node.source_call_id, 2
    notification = node.notification
    if notification is not None and notification.task_id and notification.tool_use_id:
        yield AgentId(notification.task_id), notification.tool_use_id, 3
    if call is not None and facts is not None and facts.mentioned_agent_id:
        yield facts.mentioned_agent_id, call, 4


def answered_call_id(node: RecordNode) -> ToolUseId | None:
    """Return the call that a record answers, if it answers exactly one."""
    ids = [block.id for block in node.blocks if block.id and block.name is None]
    return ids[0] if len(ids) == 1 else None


def _match_by_prompt(
    agents: Sequence[AgentRecords],
    calls: Mapping[ToolUseId, _CallSite],
    evidence: dict[AgentId, dict[ToolUseId, int]],
) -> None:
    """Match agents without evidence to the calls with the same prompt, in order."""
    used = {call for calls_of_agent in evidence.values() for call in calls_of_agent}
    free: dict[int, list[_CallSite]] = {}
    for call in calls.values():
        if call.block.name in AGENT_TOOLS and call.id not in used and call.block.digest:
            free.setdefault(call.block.digest, []).append(call)
    for agent in agents:
        if evidence[agent.id]:
            continue
        prompt = next((n for n in agent.nodes if n.origin is Origin.CALLER), None)
        candidates = free.get(prompt.digest, []) if prompt is not None else []
        match = next((call for call in candidates if call.owner != agent.id), None)
        if match is not None:
            candidates.remove(match)
            evidence[agent.id][match.id] = _EVIDENCE_RANKS.index("prompt")


def _break_cycles(links: dict[AgentId, AgentLink]) -> dict[AgentId, AgentLink]:
    """Unlink an agent that is its own ancestor."""
    acyclic: dict[AgentId, AgentLink] = {}
    for agent, link in links.items():
        seen = {agent}
        parent = link.parent_id
        while parent is not None and parent not in seen:
            seen.add(parent)
            parent = links[parent].parent_id if parent in links else None
        acyclic[agent] = AgentLink() if parent == agent else link
    return acyclic


def split_inline_agents(
    nodes: Sequence[RecordNode],
) -> tuple[list[RecordNode], list[AgentRecords]]:
    """Separate a transcript from the agent runs that old versions wrote into it.

    A run starts at a sidechain record whose parent is not in a sidechain. The records
    of parallel runs are interleaved.
    """
    sidechain = {n.uuid: n for n in nodes if n.is_sidechain and n.uuid is not None}
    main: list[RecordNode] = []
    runs: dict[AgentId, list[RecordNode]] = {}
    agent_ids: dict[RecordId, AgentId] = {}
    last: AgentId | None = None
    for node in nodes:
        if not node.is_sidechain:
            main.append(node)
            continue
        if node.uuid is None and node.agent_id is None and last is not None:
            agent = last
        else:
            agent = _inline_agent_id(node, sidechain, agent_ids)
        runs.setdefault(agent, []).append(node)
        last = agent
    return main, [
        AgentRecords(id=agent, nodes=tuple(records)) for agent, records in runs.items()
    ]


def runs_from_progress(nodes: Iterable[RecordNode]) -> list[AgentRecords]:
    """Return the agent runs that progress records repeat.

    They are all that is left of a run if its own file is gone.
    """
    runs: dict[AgentId, dict[RecordId, RecordNode]] = {}
    for node in nodes:
        if not isinstance(node.extra, AgentProgressFacts) or not node.agent_id:
            continue
        run = runs.setdefault(node.agent_id, {})
        for record in node.extra.records:
            last = next(reversed(run), None)
            run.setdefault(
                get_record_id(record), structs.replace(record, parent_uuid=last)
            )
    return [
        AgentRecords(id=agent, nodes=tuple(run.values()), is_from_progress=True)
        for agent, run in runs.items()
    ]


def may_start_hidden_run(nodes: Iterable[RecordNode]) -> bool:
    """Whether inline agent runs may be warm-ups or replays; a quick check."""
    return any(
        node.is_sidechain
        and (
            node.origin is Origin.WARMUP
            or (node.agent_id or "").startswith(REPLAY_ID_PREFIXES)
        )
        for node in nodes
    )


def find_hidden_records(nodes: Iterable[RecordNode]) -> frozenset[RecordId]:
    """Return the records of warm-ups and replays inside the file of a session."""
    sidechain = [node for node in nodes if node.is_sidechain]
    if not may_start_hidden_run(sidechain):
        return frozenset()
    _, runs = split_inline_agents(sidechain)
    return frozenset(
        get_record_id(node)
        for run in runs
        if not agent_kind(run).is_shown
        for node in run.nodes
    )


def _inline_agent_id(
    node: RecordNode,
    sidechain: Mapping[RecordId, RecordNode],
    agent_ids: dict[RecordId, AgentId],
) -> AgentId:
    """Return the agent that a record belongs to: that of its first ancestor."""
    path: dict[RecordId, None] = {}
    current = node
    while current.agent_id is None and get_record_id(current) not in agent_ids:
        path[get_record_id(current)] = None
        parent_id = current.parent_uuid
        parent = sidechain.get(parent_id) if parent_id is not None else None
        if parent is None or get_record_id(parent) in path:
            break
        current = parent
    root_id = get_record_id(current)
    # The id of a record without one contains the path of its file.
    name = root_id.removeprefix("@").rpartition("/")[2]
    agent = current.agent_id or agent_ids.get(root_id) or AgentId(f"inline-{name}")
    agent_ids.update(dict.fromkeys(path, agent))
    return agent


class AgentReports(Struct, frozen=True):
    """What the records of a session report about calls and agents, by id."""

    calls: Mapping[ToolUseId, NodeBlock]
    results: Mapping[AgentId, Sequence[ResultFacts]]
    last_statuses: Mapping[str, tuple[int, AgentStatus]]
    """The last reported end of a call or task, and the index of its record."""


def collect_reports(nodes: Iterable[RecordNode]) -> AgentReports:
    calls: dict[ToolUseId, NodeBlock] = {}
    results: dict[AgentId, list[ResultFacts]] = {}
    last_statuses: dict[str, tuple[int, AgentStatus]] = {}
    for order, node in enumerate(nodes):
        notification = node.notification
        if notification is not None and notification.status in _FINAL_STATUSES:
            status = _FINAL_STATUSES[notification.status]
            last_statuses[notification.task_id] = (order, status)
        if node.result is not None and node.result.agent_id is not None:
            results.setdefault(node.result.agent_id, []).append(node.result)
        for block in node.blocks:
            if block.id is None:
                continue
            if block.name is not None:
                calls.setdefault(block.id, block)
                continue
            result_status = _result_status(node, block)
            if result_status is not None:
                last_statuses[block.id] = (order, result_status)
    return AgentReports(calls, results, last_statuses)


def agent_status(
    agent: AgentRecords, link: AgentLink, reports: AgentReports
) -> AgentStatus:
    """Return how an agent run ended, by what was recorded about it.

    The journal of a workflow is more reliable than the last record of the run, which may
    be an answer although more follows. Only the run itself records an interruption.
    """
    if agent.sidecar is not None and agent.sidecar.is_stopped_by_user:
        return AgentStatus.INTERRUPTED
    reported = [
        reports.last_statuses[name]
        for name in (agent.id, *link.call_ids)
        if name in reports.last_statuses
    ]
    if reported:
        return max(reported)[1]
    own = _status_from_last_record(agent)
    in_journal = journal_status(agent.journal_nodes)
    is_interrupted = (
        own is AgentStatus.INTERRUPTED and in_journal is AgentStatus.RUNNING
    )
    return own if in_journal is None or is_interrupted else in_journal


def _result_status(node: RecordNode, block: NodeBlock) -> AgentStatus | None:
    if block.is_error:
        interrupted = "interrupted" in node.preview or "doesn't want" in node.preview
        return AgentStatus.INTERRUPTED if interrupted else AgentStatus.FAILED
    status = node.result.status if node.result else None
    return _FINAL_STATUSES.get(status) if status else None


def _status_from_last_record(agent: AgentRecords) -> AgentStatus:
    """Return the status by the last record: an answer without calls ends a run."""
    last = next((n for n in reversed(agent.nodes) if n.is_conversation), None)
    if last is None:
        return AgentStatus.UNKNOWN
    if last.origin is Origin.INTERRUPT:
        return AgentStatus.INTERRUPTED
    if last.kind == "assistant" and last.is_error:
        return AgentStatus.FAILED
    is_open = last.kind == "user" or any(b.name is not None for b in last.blocks)
    return AgentStatus.RUNNING if is_open else AgentStatus.COMPLETED
