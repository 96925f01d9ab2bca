"""Where the parts meet: transcripts in, sessions out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from msgspec import Struct, structs

from recollect.assemble.agents import (
    AgentPart,
    Link,
    inline_agents,
    kind_of,
    link,
    status_of,
)
from recollect.assemble.branches import part
from recollect.assemble.dedupe import each_once, in_order, lineages
from recollect.assemble.edits import edits_of
from recollect.assemble.messages import say
from recollect.assemble.projects import project_of
from recollect.assemble.queue import queued_prompts
from recollect.assemble.titles import Summaries, summaries_of, tags_of, title_of
from recollect.assemble.tree import grow, join
from recollect.assemble.turns import branches_of
from recollect.assemble.usage import Ledger, settle, spends_of, usages_of
from recollect.model.ids import AgentId, RecordId, SessionId, ToolUseId
from recollect.model.nodes import BlockFact, LineageFacts, Node, Transcript
from recollect.model.problems import Problem
from recollect.model.sessions import (
    AgentKind,
    AgentRun,
    Branch,
    Hidden,
    Lineage,
    LineageKind,
    Loader,
    Session,
    Spend,
)
from recollect.model.sources import SourceKind
from recollect.model.usage import Usage

__all__ = ["assemble", "session_of"]

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_WORKFLOW = re.compile(r"/workflows/(wf_[^/]+)/")
_NEVER = datetime.max.replace(tzinfo=UTC)


class Gathered(Struct, frozen=True):
    """What belongs to one session, before it is assembled."""

    id: SessionId
    transcripts: tuple[Transcript, ...]
    nodes: tuple[Node, ...]
    """Of the session's own conversation, in order, copies included."""
    agents: tuple[AgentPart, ...]


class _Talk(Struct, frozen=True):
    """One assembled conversation: a session's, or an agent run's."""

    nodes: list[Node]
    branches: tuple[Branch, ...]
    hidden: tuple[Hidden, ...]
    problems: tuple[Problem, ...]
    spends: tuple[Spend, ...]
    leaves: tuple[RecordId, ...]


def assemble(transcripts: Iterable[Transcript], loader: Loader) -> tuple[Session, ...]:
    """Return the sessions of transcripts, oldest first.

    Give it all files of a project: summaries, copies and agents of one session may
    stand in another's file.
    """
    ordered = in_order(transcripts)
    gathered = _gather(ordered)
    summaries = summaries_of(ordered)
    ledger = settle(_accounts(gathered))
    related = _lineages(gathered)
    return tuple(
        _session(one, summaries, ledger, related.get(one.id, ()), loader)
        for one in gathered
    )


def session_of(transcript: Transcript) -> SessionId:
    """Return the session that a file holds: by its name, if that is an id.

    Records of other sessions in it are copies, or come from a resume; they keep
    their own ids.
    """
    named = transcript.source.session
    if named is not None and _UUID.fullmatch(named):
        return named
    said = Counter(node.session for node in transcript.nodes if node.session)
    most = said.most_common(1)
    return most[0][0] if most else named or SessionId(transcript.source.id)


def _gather(ordered: Sequence[Transcript]) -> list[Gathered]:
    """Return the pieces of each session, oldest session first."""
    own: dict[SessionId, list[Transcript]] = {}
    by_folder: dict[str, SessionId] = {}
    for transcript in ordered:
        if transcript.source.kind is SourceKind.SESSION:
            session = session_of(transcript)
            own.setdefault(session, []).append(transcript)
            by_folder[transcript.source.id.removesuffix(".jsonl")] = session
    agents: dict[SessionId, list[Transcript]] = {}
    for transcript in ordered:
        if transcript.source.kind is SourceKind.AGENT:
            folder = transcript.source.id.partition("/subagents/")[0]
            session = by_folder.get(folder) or _session_of_agent(transcript)
            agents.setdefault(session, []).append(transcript)
    names = [*own, *(name for name in agents if name not in own)]
    gathered = [_one(name, own.get(name, []), agents.get(name, [])) for name in names]
    return sorted(gathered, key=lambda one: (_start(one.nodes) or _NEVER, one.id))


def _session_of_agent(transcript: Transcript) -> SessionId:
    named = transcript.source.session
    if named is not None and "/subagents/" in transcript.source.path:
        return named
    said = Counter(node.session for node in transcript.nodes if node.session)
    most = said.most_common(1)
    return most[0][0] if most else SessionId(transcript.source.id)


def _one(
    session: SessionId, own: Sequence[Transcript], agents: Sequence[Transcript]
) -> Gathered:
    everything = [node for transcript in own for node in transcript.nodes]
    main, inline = inline_agents(everything)
    parts = {part.id: part for part in inline}
    for transcript in agents:
        agent = _agent_id(transcript)
        before = parts.get(agent)
        nodes = (*before.nodes, *transcript.nodes) if before else transcript.nodes
        run = _WORKFLOW.search(transcript.source.path)
        parts[agent] = AgentPart(
            id=agent,
            nodes=nodes,
            source=transcript.source,
            note=transcript.note or (before.note if before else None),
            workflow=run[1] if run else None,
        )
    return Gathered(session, (*own, *agents), tuple(main), tuple(parts.values()))


def _agent_id(transcript: Transcript) -> AgentId:
    if transcript.source.agent is not None:
        return transcript.source.agent
    named = (node.agent for node in transcript.nodes if node.agent)
    return next(named, AgentId(transcript.source.id))


def _start(nodes: Iterable[Node]) -> datetime | None:
    return min((node.time for node in nodes if node.time is not None), default=None)


def _end(nodes: Iterable[Node]) -> datetime | None:
    return max((node.time for node in nodes if node.time is not None), default=None)


def _accounts(gathered: Sequence[Gathered]) -> Iterable[tuple[str, Sequence[Node]]]:
    """Yield who may pay, in the order in which they do: replays pay last."""
    for one in gathered:
        yield one.id, one.nodes
    runs = [(one.id, agent) for one in gathered for agent in one.agents]
    replays = [run for run in runs if kind_of(run[1]) is AgentKind.REPLAY]
    for run in (*(run for run in runs if run not in replays), *replays):
        yield f"{run[0]}/{run[1].id}", run[1].nodes


def _lineages(gathered: Sequence[Gathered]) -> dict[SessionId, tuple[Lineage, ...]]:
    order = {
        one.id: list(dict.fromkeys(n.uuid for n in one.nodes if n.uuid is not None))
        for one in gathered
    }
    starts = {one.id: _start(one.nodes) for one in gathered}
    return lineages(order, starts, {one.id: _told_lineage(one) for one in gathered})


def _told_lineage(one: Gathered) -> list[Lineage]:
    """Return the relations that a session's own records tell of."""
    found: dict[tuple[LineageKind, SessionId], Lineage] = {}
    for node in one.nodes:
        if node.forked_from is not None and node.forked_from.session:
            kind, facts = LineageKind.FORKED_FROM, node.forked_from
        elif node.kind == "continued-in" and isinstance(node.extra, LineageFacts):
            kind, facts = LineageKind.CONTINUED_IN, node.extra
        else:
            continue
        if facts.session is not None and facts.session != one.id:
            key = (kind, facts.session)
            shared = found[key].shared + 1 if key in found else 1
            found[key] = Lineage(kind, facts.session, facts.record, shared)
    return list(found.values())


def _talk(
    nodes: Sequence[Node],
    account: str,
    ledger: Ledger,
    loader: Loader,
    agents: Mapping[ToolUseId, AgentRun],
    agent: AgentId | None = None,
) -> _Talk:
    once, copies, clashes = each_once(nodes)
    tree = grow(once)
    growth = part(tree, join(tree), queued_prompts(once))
    said = say(once, growth.branch, loader, agents)
    spends = spends_of(account, nodes, growth.branch, ledger, agent)
    usages = usages_of(said.messages, spends)
    branches = branches_of(once, growth.branch, growth.forks, said.messages, usages)
    return _Talk(
        nodes=once,
        branches=branches,
        hidden=(*copies, *said.hidden),
        problems=(*clashes, *tree.problems, *said.problems),
        spends=spends,
        leaves=tree.leaves,
    )


def _session(
    one: Gathered,
    summaries: Summaries,
    ledger: Ledger,
    lineage: tuple[Lineage, ...],
    loader: Loader,
) -> Session:
    runs, by_call = _agents(one, ledger, loader)
    talk = _talk(one.nodes, one.id, ledger, loader, by_call)
    branches = tuple(_titled(branch, summaries) for branch in talk.branches)
    nodes = talk.nodes
    named = [n.uuid for n in nodes if n.uuid and n.uuid in summaries.texts]
    edits = list(edits_of(branches))
    for run in _flat(runs):
        edits.extend(edits_of(run.branches, run.id))
    return Session(
        id=one.id,
        title=title_of(one.id, nodes, summaries),
        project=project_of(nodes) or project_of([n for a in one.agents for n in a.nodes]),
        keys=_distinct(t.source.project for t in one.transcripts),
        directories=_distinct(node.cwd for node in nodes),
        git_branches=_distinct(node.git_branch for node in nodes),
        versions=_distinct(node.version for node in nodes),
        entrypoints=_distinct(node.entrypoint for node in nodes),
        models=_distinct(spend.model for spend in talk.spends),
        slug=next((node.slug for node in reversed(nodes) if node.slug), None),
        tags=tags_of(nodes),
        started=_start(nodes),
        ended=_end(nodes),
        live=branches[0],
        branches=branches,
        agents=runs,
        endpoints=_distinct((*talk.leaves, *named)),
        edits=tuple(edits),
        usage=sum((spend.usage for spend in talk.spends), Usage()),
        spends=(*talk.spends, *(s for run in _flat(runs) for s in run.spends)),
        snapshots=tuple(n.position for n in nodes if n.kind.startswith("file-history")),
        lineage=lineage,
        problems=(*(p for t in one.transcripts for p in t.problems), *talk.problems),
        hidden=talk.hidden,
        sources=tuple(t.source for t in one.transcripts),
        is_empty=not any(branch.turns for branch in branches),
    )


def _distinct(values: Iterable[str | None]) -> tuple:  # type: ignore[type-arg]
    return tuple(dict.fromkeys(value for value in values if value))


def _titled(branch: Branch, summaries: Summaries) -> Branch:
    """Give a branch the title that a summary gave to its latest record."""
    title = None
    for turn in branch.own:
        for message in turn.messages:
            for piece in message.pieces:
                title = summaries.texts.get(piece.record, title)
    return structs.replace(branch, title=title) if title else branch


def _flat(runs: Sequence[AgentRun]) -> Iterable[AgentRun]:
    waiting = list(reversed(runs))
    while waiting:
        run = waiting.pop()
        yield run
        waiting.extend(reversed(run.agents))


def _agents(
    one: Gathered, ledger: Ledger, loader: Loader
) -> tuple[tuple[AgentRun, ...], dict[ToolUseId, AgentRun]]:
    """Return the agents at the session's own level, and those by their call.

    Those below others are made first, so that each call finds its agent.
    """
    links = link(one.nodes, one.agents)
    below: dict[AgentId | None, list[AgentPart]] = {}
    for agent in one.agents:
        below.setdefault(links[agent.id].parent, []).append(agent)
    everything = [*one.nodes, *(node for agent in one.agents for node in agent.nodes)]
    made: dict[AgentId, AgentRun] = {}
    for depth, agent in reversed(_by_depth(below)):
        inner = tuple(made[a.id] for a in below.get(agent.id, ()))
        run = _run(one.id, agent, links[agent.id], everything, inner, ledger, loader)
        made[agent.id] = structs.replace(run, depth=depth)
    top = tuple(made[agent.id] for agent in below.get(None, ()))
    return top, _by_call(top)


def _by_depth(
    below: Mapping[AgentId | None, Sequence[AgentPart]],
) -> list[tuple[int, AgentPart]]:
    """Return agents with their depth, callers before the called."""
    ordered = [(1, agent) for agent in below.get(None, ())]
    for depth, agent in ordered:
        ordered.extend((depth + 1, inner) for inner in below.get(agent.id, ()))
    return ordered


def _by_call(runs: Iterable[AgentRun]) -> dict[ToolUseId, AgentRun]:
    return {call: run for run in runs for call in run.calls}


def _run(
    session: SessionId,
    agent: AgentPart,
    found: Link,
    everything: Sequence[Node],
    inner: tuple[AgentRun, ...],
    ledger: Ledger,
    loader: Loader,
) -> AgentRun:
    account = f"{session}/{agent.id}"
    talk = _talk(agent.nodes, account, ledger, loader, _by_call(inner), agent.id)
    facts = [n.result for n in everything if n.result and n.result.agent == agent.id]
    measured = next((f.duration_ms for f in reversed(facts) if f.duration_ms), None)
    started, ended = _start(talk.nodes), _end(talk.nodes)
    lasted = timedelta(milliseconds=measured) if measured else None
    if lasted is None and started is not None and ended is not None:
        lasted = ended - started
    calls = [c for b in talk.branches for t in b.own for m in t.messages for c in m.calls]
    note = agent.note
    call = _launching(found, everything)
    return AgentRun(
        id=agent.id,
        kind=kind_of(agent),
        status=status_of(agent, found, everything),
        link=found.by,
        calls=found.calls,
        type=(note.type if note else None) or (call.agent_type if call else None),
        description=(note.description if note else None) or (call.note if call else None),
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


def _launching(found: Link, everything: Iterable[Node]) -> BlockFact | None:
    """Return the call that started an agent run."""
    wanted = found.calls[0] if found.calls else None
    blocks = (block for node in everything for block in node.blocks)
    return next((b for b in blocks if b.name is not None and b.id == wanted), None)
