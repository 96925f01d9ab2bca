"""Assembles one conversation from its records: a session's own, or an agent run's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from itertools import chain

from msgspec import Struct, structs

from bygones.assemble.agents import (
    AgentLink,
    AgentRecords,
    agent_kind,
    agent_status,
    answered_call_id,
    collect_reports,
    journal_label,
    link_agents,
)
from bygones.assemble.branches import (
    BranchLayout,
    assign_branches,
    build_branches,
    find_open_forks,
    iter_path,
)
from bygones.assemble.dedupe import (
    deduplicate,
    first_timestamp,
    get_record_id,
    last_timestamp,
)
from bygones.assemble.durations import measure_run
from bygones.assemble.grouping import SessionRecords
from bygones.assemble.messages import build_messages
from bygones.assemble.queue import (
    EMPTY_QUEUE,
    QueueState,
    continue_queue,
    find_queued_prompts,
)
from bygones.assemble.tree import (
    RecordTree,
    build_tree,
    find_current_leaf,
    find_named_leaf,
    find_restarts,
    join_fragments,
    order_parents_first,
)
from bygones.assemble.usage import (
    Ledger,
    answers_from_progress,
    collect_message_usages,
    progress_account,
)
from bygones.model.base import AgentId, Problem, RecordId, ToolUseId
from bygones.model.nodes import RecordNode
from bygones.model.sessions import AgentRun, Branch, walk_agents
from bygones.model.summary import AgentKind, HiddenRecord, Loader, MessageUsage
from bygones.model.usage import Usage


class BuiltConversation(Struct, frozen=True):
    nodes: list[RecordNode]
    branches: tuple[Branch, ...]
    hidden_records: tuple[HiddenRecord, ...]
    problems: tuple[Problem, ...]
    message_usages: tuple[MessageUsage, ...]
    leaf_ids: tuple[RecordId, ...]
    end: ConversationEnd | None = None
    """Only if it may continue, see `ConversationBuilder`."""


class ConversationEnd(Struct, frozen=True):
    """What the records that follow may change, besides what they name."""

    last_id: RecordId
    """The last record."""
    missing_ids: frozenset[RecordId]
    """Parents of records that are not known."""
    open_forks: tuple[bool, bool]
    """See `find_open_forks`."""
    is_leaf_before: bool
    """Whether the record named as the current leaf is before the last record."""
    queue: QueueState | None
    """See `continue_queue`."""


class ConversationBuilder:
    """Assembles the conversations of one session: its own and those of its agents."""

    def __init__(
        self,
        records: SessionRecords,
        ledger: Ledger,
        loader: Loader,
        *,
        queue: QueueState | None = None,
    ) -> None:
        """Prepare assembling; if more records will be assembled later, pass the queue."""
        self._records = records
        self._ledger = ledger
        self._loader = loader
        agent_nodes = (node for agent in records.agents for node in agent.nodes)
        nodes = chain(records.nodes, agent_nodes) if records.agents else ()
        self._reports = collect_reports(nodes)
        self._owners = _record_owners(records)
        self._continues = queue is not None
        self._queue = queue or EMPTY_QUEUE
        self._missing_ids: set[RecordId] = set()

    def build_main(
        self, runs: Sequence[AgentRun], earlier_agents: EarlierAgents
    ) -> BuiltConversation:
        """Return the session's own conversation, given the agents it started.

        Calls may also continue an agent of an earlier session, or be copies from there.
        """
        nodes = self._records.nodes
        by_call = earlier_agents.find_by_call(nodes) | _index_by_call(runs)
        return self._build(nodes, by_call, None)

    def build_agents(self) -> tuple[AgentRun, ...]:
        """Return the agents that the session itself started, with nested ones inside.

        Nested agents are built first, so that each call finds its agent.
        """
        if not self._records.agents:
            return ()
        links = link_agents(self._records.nodes, self._records.agents)
        children: dict[AgentId | None, list[AgentRecords]] = {}
        for agent in self._records.agents:
            children.setdefault(links[agent.id].parent_id, []).append(agent)
        runs: dict[AgentId, AgentRun] = {}
        for depth, agent in reversed(_sort_by_depth(children)):
            inner = tuple(runs[child.id] for child in children.get(agent.id, ()))
            run = self._build_agent_run(agent, links[agent.id], inner)
            runs[agent.id] = structs.replace(run, depth=depth)
        return tuple(runs[agent.id] for agent in children.get(None, ()))

    def _build(
        self,
        nodes: Sequence[RecordNode],
        agents: Mapping[ToolUseId, Sequence[AgentRun]],
        agent: AgentId | None,
    ) -> BuiltConversation:
        account = self._records.id if agent is None else f"{self._records.id}/{agent}"
        owners = self._owners
        foreign = (
            {n.uuid for n in nodes if n.uuid and owners[n.uuid] != agent}
            if self._records.agents
            else frozenset[RecordId]()
        )
        unsorted, copies, clashes = deduplicate(nodes, foreign)
        distinct = order_parents_first(unsorted)
        tree = build_tree(distinct, owners)
        queue = self._queue if agent is None else EMPTY_QUEUE
        queued = find_queued_prompts(distinct, queue)
        parents = join_fragments(tree, find_restarts(distinct))
        leaf = find_current_leaf(distinct, tree)
        layout = assign_branches(
            tree, parents, queued, leaf, session_id=self._records.id
        )
        tree_problems, leaves = tree.problems, tree.leaves
        if self._continues:
            self._missing_ids.update(_missing_parents(distinct))
        end = (
            self._find_end(distinct, tree, parents, layout)
            if self._continues and agent is None and tree.nodes
            else None
        )
        del tree  # It is large, and so are the messages.
        built = build_messages(
            distinct, layout.branch_of, self._loader, agents, queue=queue
        )
        usages = collect_message_usages(account, nodes, layout.branch_of, self._ledger)
        if agent is not None:
            usages = tuple(structs.replace(usage, agent_id=agent) for usage in usages)
        else:
            usages = (*usages, *self._usages_from_progress(nodes, layout.branch_of))
        return BuiltConversation(
            nodes=distinct,
            branches=build_branches(distinct, layout, built.messages, usages),
            hidden_records=(*copies, *built.hidden_records),
            problems=(*clashes, *tree_problems, *built.problems),
            message_usages=usages,
            leaf_ids=leaves,
            end=end,
        )

    def _find_end(
        self,
        nodes: Sequence[RecordNode],
        tree: RecordTree,
        parents: Mapping[RecordId, RecordId | None],
        layout: BranchLayout,
    ) -> ConversationEnd:
        last = next(reversed(tree.nodes))
        leaf, _ = find_named_leaf(nodes, tree)
        has_other_root = any(fork.fork_point_id is None for fork in layout.forks)
        return ConversationEnd(
            last_id=last,
            missing_ids=frozenset(self._missing_ids),
            open_forks=find_open_forks(tree, parents, last),
            is_leaf_before=leaf is None
            or (not has_other_root and leaf in set(iter_path(parents, last))),
            queue=continue_queue(nodes, self._queue),
        )

    def _usages_from_progress(
        self, nodes: Sequence[RecordNode], branch: Mapping[RecordId, int]
    ) -> Iterable[MessageUsage]:
        """Yield the usage of agents whose files are gone, from their progress records."""
        answers = answers_from_progress(nodes)
        agents = {get_record_id(node): node.agent_id for node in answers}
        account = progress_account(self._records.id)
        for usage in collect_message_usages(account, answers, branch, self._ledger):
            yield structs.replace(usage, agent_id=agents[usage.record_id])

    def _build_agent_run(
        self, agent: AgentRecords, link: AgentLink, inner: tuple[AgentRun, ...]
    ) -> AgentRun:
        conversation = self._build(agent.nodes, _index_by_call(inner), agent.id)
        results = self._reports.results.get(agent.id, ())
        started_at = first_timestamp(conversation.nodes)
        ended_at = last_timestamp(conversation.nodes)
        measured = next((r.duration_ms for r in reversed(results) if r.duration_ms), 0)
        duration = (
            timedelta(milliseconds=measured)
            if measured
            else measure_run(conversation.nodes)
        )
        sidecar = agent.sidecar
        call = self._reports.calls[link.call_ids[0]] if link.call_ids else None
        return AgentRun(
            id=agent.id,
            kind=agent_kind(agent),
            status=agent_status(agent, link, self._reports),
            linked_by=link.evidence,
            call_ids=link.call_ids,
            agent_type=(sidecar.agent_type if sidecar else None)
            or (call.agent_type if call else None),
            description=(sidecar.description if sidecar else None)
            or journal_label(agent.journal_nodes)
            or (call.label if call else None),
            workflow=agent.workflow,
            is_background=any(r.status == "async_launched" for r in results),
            started_at=started_at,
            ended_at=ended_at,
            duration=duration,
            tool_call_count=sum(
                len(turn.tool_calls)
                for branch in conversation.branches
                for turn in branch.own_turns
            ),
            usage=sum((u.usage for u in conversation.message_usages), Usage()),
            live_branch=conversation.branches[0],
            branches=conversation.branches,
            agents=inner,
            problems=conversation.problems,
            hidden_records=conversation.hidden_records,
            source=agent.source,
            message_usages=conversation.message_usages,
            is_partial=agent.is_from_progress,
        )


def _missing_parents(nodes: Sequence[RecordNode]) -> Iterable[RecordId]:
    known = {node.uuid for node in nodes}
    return (
        node.parent_uuid
        for node in nodes
        if node.parent_uuid is not None and node.parent_uuid not in known
    )


def _sort_by_depth(
    children: Mapping[AgentId | None, Sequence[AgentRecords]],
) -> list[tuple[int, AgentRecords]]:
    """Return agents with their depth, parents before children."""
    ordered = [(1, agent) for agent in children.get(None, ())]
    for depth, agent in ordered:
        ordered.extend((depth + 1, child) for child in children.get(agent.id, ()))
    return ordered


def _index_by_call(runs: Iterable[AgentRun]) -> dict[ToolUseId, list[AgentRun]]:
    by_call: dict[ToolUseId, list[AgentRun]] = {}
    for run in runs:
        for call in run.call_ids:
            by_call.setdefault(call, []).append(run)
    return by_call


class EarlierAgents:
    """The agents of earlier sessions, which later sessions may continue."""

    def __init__(self) -> None:
        self._by_id: dict[AgentId, AgentRun] = {}
        self._by_call: dict[ToolUseId, list[AgentRun]] = {}

    def add(self, runs: Sequence[AgentRun]) -> None:
        """Add the agents of a session, including nested ones."""
        for run in walk_agents(runs):
            self._by_id.setdefault(run.id, run)
            for call in run.call_ids:
                self._by_call.setdefault(call, []).append(run)

    def find_by_call(
        self, nodes: Iterable[RecordNode]
    ) -> dict[ToolUseId, list[AgentRun]]:
        """Return the agents that the calls in some records started or continued."""
        by_call: dict[ToolUseId, list[AgentRun]] = {}
        for node in nodes if self._by_id else ():
            for block in node.blocks:
                if block.id in self._by_call and block.name is not None:
                    by_call[block.id] = self._by_call[block.id]
            call, facts = answered_call_id(node), node.result
            run = self._by_id.get(facts.agent_id) if facts and facts.agent_id else None
            if call is not None and run is not None:
                by_call.setdefault(call, [run])
        return by_call


def _record_owners(records: SessionRecords) -> dict[RecordId, AgentId | None]:
    """Return the agent that each record belongs to, `None` for the session itself.

    Replays come last: most of their records are copies.
    """
    owners: dict[RecordId, AgentId | None] = {}
    runs = sorted(records.agents, key=lambda run: agent_kind(run) is AgentKind.REPLAY)
    for owner, nodes in ((None, records.nodes), *((run.id, run.nodes) for run in runs)):
        for node in nodes:
            if node.uuid is not None:
                owners.setdefault(node.uuid, owner)
    return owners
