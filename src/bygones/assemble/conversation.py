"""One conversation from its records: a session's own, or an agent run's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
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
from bygones.assemble.branches import assign_branches, build_branches
from bygones.assemble.dedupe import deduplicate, get_record_id
from bygones.assemble.grouping import SessionRecords, first_timestamp
from bygones.assemble.messages import build_messages
from bygones.assemble.queue import find_queued_prompts
from bygones.assemble.tree import build_tree, join_fragments, order_parents_first
from bygones.assemble.usage import (
    Ledger,
    answers_from_progress,
    collect_message_usages,
    progress_account,
)
from bygones.model.base import AgentId, Problem, RecordId, ToolUseId
from bygones.model.nodes import RecordNode
from bygones.model.sessions import AgentRun, Branch
from bygones.model.summary import AgentKind, HiddenRecord, Loader, MessageUsage
from bygones.model.usage import Usage

__all__ = [
    "BuiltConversation",
    "ConversationBuilder",
    "EarlierAgents",
    "iter_agent_runs",
    "last_timestamp",
]


class BuiltConversation(Struct, frozen=True):
    """One assembled conversation."""

    nodes: list[RecordNode]
    branches: tuple[Branch, ...]
    hidden_records: tuple[HiddenRecord, ...]
    problems: tuple[Problem, ...]
    message_usages: tuple[MessageUsage, ...]
    leaf_ids: tuple[RecordId, ...]


class ConversationBuilder:
    """Assembles the conversations of one session: its own and its agents'."""

    def __init__(self, records: SessionRecords, ledger: Ledger, loader: Loader) -> None:
        self._records = records
        self._ledger = ledger
        self._loader = loader
        inner = (node for agent in records.agents for node in agent.nodes)
        told = chain(records.nodes, inner) if records.agents else ()
        self._reports = collect_reports(told)
        self._owners = _record_owners(records)

    def build_main(
        self, runs: Sequence[AgentRun], earlier_agents: EarlierAgents
    ) -> BuiltConversation:
        """Return the session's own conversation, given the agents it started.

        Calls that went on with another session's agent, or that were copied from
        there, find it among those ``lent``.
        """
        by_call = earlier_agents.find_by_call(self._records.nodes) | _index_by_call(
            runs
        )
        return self._build(self._records.nodes, by_call, None)

    def build_agents(self) -> tuple[AgentRun, ...]:
        """Return the agents at the session's own level, with those below them.

        Those below others are made first, so that each call finds its agent.
        """
        if not self._records.agents:
            return ()
        links = link_agents(self._records.nodes, self._records.agents)
        below: dict[AgentId | None, list[AgentRecords]] = {}
        for agent in self._records.agents:
            below.setdefault(links[agent.id].parent_id, []).append(agent)
        made: dict[AgentId, AgentRun] = {}
        for depth, agent in reversed(_sort_by_depth(below)):
            inner = tuple(made[a.id] for a in below.get(agent.id, ()))
            run = self._build_agent_run(agent, links[agent.id], inner)
            made[agent.id] = structs.replace(run, depth=depth)
        return tuple(made[agent.id] for agent in below.get(None, ()))

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
        once = order_parents_first(unsorted)
        tree = build_tree(once, owners)
        growth = assign_branches(tree, join_fragments(tree), find_queued_prompts(once))
        torn, leaves = tree.problems, tree.leaves
        del tree  # which is large, as messages will be
        said = build_messages(once, growth.branch_of, self._loader, agents)
        spends = collect_message_usages(account, nodes, growth.branch_of, self._ledger)
        if agent is not None:
            spends = tuple(structs.replace(spend, agent_id=agent) for spend in spends)
        else:
            spends = (*spends, *self._usages_from_progress(nodes, growth.branch_of))
        return BuiltConversation(
            nodes=once,
            branches=build_branches(once, growth, said.messages, spends),
            hidden_records=(*copies, *said.hidden_records),
            problems=(*clashes, *torn, *said.problems),
            message_usages=spends,
            leaf_ids=leaves,
        )

    def _usages_from_progress(
        self, nodes: Sequence[RecordNode], branch: Mapping[RecordId, int]
    ) -> Iterable[MessageUsage]:
        """Yield what agents spent of which nothing is left but their progress."""
        answers = answers_from_progress(nodes)
        agents = {get_record_id(node): node.agent_id for node in answers}
        account = progress_account(self._records.id)
        for spend in collect_message_usages(account, answers, branch, self._ledger):
            yield structs.replace(spend, agent_id=agents[spend.record_id])

    def _build_agent_run(
        self, agent: AgentRecords, link: AgentLink, inner: tuple[AgentRun, ...]
    ) -> AgentRun:
        talk = self._build(agent.nodes, _index_by_call(inner), agent.id)
        facts = self._reports.results.get(agent.id, ())
        measured = next((f.duration_ms for f in reversed(facts) if f.duration_ms), None)
        started, ended = first_timestamp(talk.nodes), last_timestamp(talk.nodes)
        lasted = timedelta(milliseconds=measured) if measured else None
        if lasted is None and started is not None and ended is not None:
            lasted = ended - started
        calls = [
            c
            for b in talk.branches
            for t in b.own_turns
            for m in t.messages
            for c in m.tool_calls
        ]
        note = agent.sidecar
        call = self._reports.calls[link.call_ids[0]] if link.call_ids else None
        return AgentRun(
            id=agent.id,
            kind=agent_kind(agent),
            status=agent_status(agent, link, self._reports),
            linked_by=link.evidence,
            call_ids=link.call_ids,
            agent_type=(note.agent_type if note else None)
            or (call.agent_type if call else None),
            description=(note.description if note else None)
            or journal_label(agent.journal_nodes)
            or (call.label if call else None),
            workflow=agent.workflow,
            is_background=any(f.status == "async_launched" for f in facts),
            started_at=started,
            ended_at=ended,
            duration=lasted,
            tool_call_count=len(calls),
            usage=sum((spend.usage for spend in talk.message_usages), Usage()),
            live_branch=talk.branches[0],
            branches=talk.branches,
            agents=inner,
            problems=talk.problems,
            hidden_records=talk.hidden_records,
            source=agent.source,
            message_usages=talk.message_usages,
        )


def iter_agent_runs(runs: Sequence[AgentRun]) -> Iterable[AgentRun]:
    """Yield agents and those below them, callers before the called."""
    waiting = list(reversed(runs))
    while waiting:
        run = waiting.pop()
        yield run
        waiting.extend(reversed(run.agents))


def last_timestamp(nodes: Iterable[RecordNode]) -> datetime | None:
    """Return when the latest of some records was written."""
    return max(
        (node.timestamp for node in nodes if node.timestamp is not None), default=None
    )


def _sort_by_depth(
    below: Mapping[AgentId | None, Sequence[AgentRecords]],
) -> list[tuple[int, AgentRecords]]:
    """Return agents with their depth, callers before the called."""
    ordered = [(1, agent) for agent in below.get(None, ())]
    for depth, agent in ordered:
        ordered.extend((depth + 1, inner) for inner in below.get(agent.id, ()))
    return ordered


def _index_by_call(runs: Iterable[AgentRun]) -> dict[ToolUseId, list[AgentRun]]:
    found: dict[ToolUseId, list[AgentRun]] = {}
    for run in runs:
        for call in run.call_ids:
            found.setdefault(call, []).append(run)
    return found


class EarlierAgents:
    """The agents of older sessions, for younger ones that went on with them."""

    def __init__(self) -> None:
        self._by_id: dict[AgentId, AgentRun] = {}
        self._by_call: dict[ToolUseId, list[AgentRun]] = {}

    def add(self, runs: Sequence[AgentRun]) -> None:
        """Lend the agents of a session, and those below them."""
        for run in iter_agent_runs(runs):
            self._by_id.setdefault(run.id, run)
            for call in run.call_ids:
                self._by_call.setdefault(call, []).append(run)

    def find_by_call(
        self, nodes: Iterable[RecordNode]
    ) -> dict[ToolUseId, list[AgentRun]]:
        """Return the agents that the calls in some records started or went on with."""
        found: dict[ToolUseId, list[AgentRun]] = {}
        for node in nodes if self._by_id else ():
            for block in node.blocks:
                if block.id in self._by_call and block.name is not None:
                    found[block.id] = self._by_call[block.id]
            call, facts = answered_call_id(node), node.result
            run = self._by_id.get(facts.agent_id) if facts and facts.agent_id else None
            if call is not None and run is not None:
                found.setdefault(call, [run])
        return found


def _record_owners(records: SessionRecords) -> dict[RecordId, AgentId | None]:
    """Return where each record of a session is: its own, or the first agent with it.

    Agents that replay come last: what they hold is mostly not theirs.
    """
    found: dict[RecordId, AgentId | None] = {}
    runs = sorted(records.agents, key=lambda run: agent_kind(run) is AgentKind.REPLAY)
    for owner, nodes in ((None, records.nodes), *((run.id, run.nodes) for run in runs)):
        for node in nodes:
            if node.uuid is not None:
                found.setdefault(node.uuid, owner)
    return found
