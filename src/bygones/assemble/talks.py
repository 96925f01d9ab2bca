"""One conversation from its records: a session's own, or an agent run's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain

from msgspec import Struct, structs

from bygones.assemble.agents import (
    AgentPart,
    Link,
    answered_call,
    kind_of,
    link,
    reports_of,
    status_of,
)
from bygones.assemble.branches import part
from bygones.assemble.dedupe import each_once, name_of
from bygones.assemble.gather import Gathered, first_time
from bygones.assemble.journals import label_in
from bygones.assemble.messages import say
from bygones.assemble.queue import queued_prompts
from bygones.assemble.tree import grow, in_sequence, join
from bygones.assemble.turns import branches_of
from bygones.assemble.usage import (
    Ledger,
    spends_of,
    told_account,
    told_answers,
)
from bygones.model.ids import AgentId, RecordId, ToolUseId
from bygones.model.nodes import Node
from bygones.model.problems import Problem
from bygones.model.sessions import (
    AgentKind,
    AgentRun,
    Branch,
    Hidden,
    Loader,
    Spend,
)
from bygones.model.usage import Usage

__all__ = ["Lent", "Talk", "Talks", "flat", "last_time"]


class Talk(Struct, frozen=True):
    """One assembled conversation."""

    nodes: list[Node]
    branches: tuple[Branch, ...]
    hidden: tuple[Hidden, ...]
    problems: tuple[Problem, ...]
    spends: tuple[Spend, ...]
    leaves: tuple[RecordId, ...]


class Talks:
    """Assembles the conversations of one session: its own and its agents'."""

    def __init__(self, one: Gathered, ledger: Ledger, loader: Loader) -> None:
        self._one = one
        self._ledger = ledger
        self._loader = loader
        inner = (node for agent in one.agents for node in agent.nodes)
        told = chain(one.nodes, inner) if one.agents else ()
        self._reports = reports_of(told)
        self._owners = _owners(one)

    def own(self, runs: Sequence[AgentRun], lent: Lent) -> Talk:
        """Return the session's own conversation, given the agents it started.

        Calls that went on with another session's agent, or that were copied from
        there, find it among those ``lent``.
        """
        by_call = lent.by_call(self._one.nodes) | _by_call(runs)
        return self._talk(self._one.nodes, by_call, None)

    def agents(self) -> tuple[AgentRun, ...]:
        """Return the agents at the session's own level, with those below them.

        Those below others are made first, so that each call finds its agent.
        """
        if not self._one.agents:
            return ()
        links = link(self._one.nodes, self._one.agents)
        below: dict[AgentId | None, list[AgentPart]] = {}
        for agent in self._one.agents:
            below.setdefault(links[agent.id].parent, []).append(agent)
        made: dict[AgentId, AgentRun] = {}
        for depth, agent in reversed(_by_depth(below)):
            inner = tuple(made[a.id] for a in below.get(agent.id, ()))
            run = self._run(agent, links[agent.id], inner)
            made[agent.id] = structs.replace(run, depth=depth)
        return tuple(made[agent.id] for agent in below.get(None, ()))

    def _talk(
        self,
        nodes: Sequence[Node],
        agents: Mapping[ToolUseId, Sequence[AgentRun]],
        agent: AgentId | None,
    ) -> Talk:
        account = self._one.id if agent is None else f"{self._one.id}/{agent}"
        owners = self._owners
        foreign = (
            {n.uuid for n in nodes if n.uuid and owners[n.uuid] != agent}
            if self._one.agents
            else frozenset[RecordId]()
        )
        unsorted, copies, clashes = each_once(nodes, foreign)
        once = in_sequence(unsorted)
        tree = grow(once, owners)
        growth = part(tree, join(tree), queued_prompts(once))
        torn, leaves = tree.problems, tree.leaves
        del tree  # which is large, as messages will be
        said = say(once, growth.branch, self._loader, agents)
        spends = spends_of(account, nodes, growth.branch, self._ledger)
        if agent is not None:
            spends = tuple(structs.replace(spend, agent=agent) for spend in spends)
        else:
            spends = (*spends, *self._told(nodes, growth.branch))
        return Talk(
            nodes=once,
            branches=branches_of(once, growth, said.messages, spends),
            hidden=(*copies, *said.hidden),
            problems=(*clashes, *torn, *said.problems),
            spends=spends,
            leaves=leaves,
        )

    def _told(
        self, nodes: Sequence[Node], branch: Mapping[RecordId, int]
    ) -> Iterable[Spend]:
        """Yield what agents spent of which nothing is left but their progress."""
        answers = told_answers(nodes)
        agents = {name_of(node): node.agent for node in answers}
        account = told_account(self._one.id)
        for spend in spends_of(account, answers, branch, self._ledger):
            yield structs.replace(spend, agent=agents[spend.record])

    def _run(
        self, agent: AgentPart, found: Link, inner: tuple[AgentRun, ...]
    ) -> AgentRun:
        talk = self._talk(agent.nodes, _by_call(inner), agent.id)
        facts = self._reports.results.get(agent.id, ())
        measured = next((f.duration_ms for f in reversed(facts) if f.duration_ms), None)
        started, ended = first_time(talk.nodes), last_time(talk.nodes)
        lasted = timedelta(milliseconds=measured) if measured else None
        if lasted is None and started is not None and ended is not None:
            lasted = ended - started
        calls = [
            c for b in talk.branches for t in b.own for m in t.messages for c in m.calls
        ]
        note = agent.note
        call = self._reports.calls[found.calls[0]] if found.calls else None
        return AgentRun(
            id=agent.id,
            kind=kind_of(agent),
            status=status_of(agent, found, self._reports),
            link=found.by,
            calls=found.calls,
            type=(note.type if note else None) or (call.agent_type if call else None),
            description=(note.description if note else None)
            or label_in(agent.steps)
            or (call.note if call else None),
            workflow=agent.workflow,
            is_background=any(f.status == "async_launched" for f in facts),
            started=started,
            ended=ended,
            duration=lasted,
            tool_count=len(calls),
            usage=sum((spend.usage for spend in talk.spends), Usage()),
            live=talk.branches[0],
            branches=talk.branches,
            agents=inner,
            problems=talk.problems,
            hidden=talk.hidden,
            source=agent.source,
            spends=talk.spends,
        )


def flat(runs: Sequence[AgentRun]) -> Iterable[AgentRun]:
    """Yield agents and those below them, callers before the called."""
    waiting = list(reversed(runs))
    while waiting:
        run = waiting.pop()
        yield run
        waiting.extend(reversed(run.agents))


def last_time(nodes: Iterable[Node]) -> datetime | None:
    """Return when the latest of some records was written."""
    return max((node.time for node in nodes if node.time is not None), default=None)


def _by_depth(
    below: Mapping[AgentId | None, Sequence[AgentPart]],
) -> list[tuple[int, AgentPart]]:
    """Return agents with their depth, callers before the called."""
    ordered = [(1, agent) for agent in below.get(None, ())]
    for depth, agent in ordered:
        ordered.extend((depth + 1, inner) for inner in below.get(agent.id, ()))
    return ordered


def _by_call(runs: Iterable[AgentRun]) -> dict[ToolUseId, list[AgentRun]]:
    found: dict[ToolUseId, list[AgentRun]] = {}
    for run in runs:
        for call in run.calls:
            found.setdefault(call, []).append(run)
    return found


class Lent:
    """The agents of older sessions, for younger ones that went on with them."""

    def __init__(self) -> None:
        self._by_id: dict[AgentId, AgentRun] = {}
        self._by_call: dict[ToolUseId, list[AgentRun]] = {}

    def add(self, runs: Sequence[AgentRun]) -> None:
        """Lend the agents of a session, and those below them."""
        for run in flat(runs):
            self._by_id.setdefault(run.id, run)
            for call in run.calls:
                self._by_call.setdefault(call, []).append(run)

    def by_call(self, nodes: Iterable[Node]) -> dict[ToolUseId, list[AgentRun]]:
        """Return the agents that the calls in some records started or went on with."""
        found: dict[ToolUseId, list[AgentRun]] = {}
        for node in nodes if self._by_id else ():
            for block in node.blocks:
                if block.id in self._by_call and block.name is not None:
                    found[block.id] = self._by_call[block.id]
            call, facts = answered_call(node), node.result
            run = self._by_id.get(facts.agent) if facts and facts.agent else None
            if call is not None and run is not None:
                found.setdefault(call, [run])
        return found


def _owners(one: Gathered) -> dict[RecordId, AgentId | None]:
    """Return where each record of a session is: its own, or the first agent with it.

    Agents that replay come last: what they hold is mostly not theirs.
    """
    found: dict[RecordId, AgentId | None] = {}
    runs = sorted(one.agents, key=lambda run: kind_of(run) is AgentKind.REPLAY)
    for owner, nodes in ((None, one.nodes), *((run.id, run.nodes) for run in runs)):
        for node in nodes:
            if node.uuid is not None:
                found.setdefault(node.uuid, owner)
    return found
