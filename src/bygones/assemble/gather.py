"""Gathering: which files, records and agents belong to one session."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

from msgspec import Struct

from bygones.assemble.agents import AgentPart, inline_agents, kind_of
from bygones.assemble.lineage import by_age, lineages
from bygones.assemble.usage import told_account, told_answers
from bygones.model.ids import AgentId, SessionId
from bygones.model.nodes import Node, Transcript
from bygones.model.problems import Problem
from bygones.model.sessions import AgentKind, Lineage
from bygones.model.sources import Source, SourceKind

__all__ = [
    "Gathered",
    "accounts",
    "first_time",
    "gather",
    "mixed",
    "relate",
    "session_of",
]

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_WORKFLOW = re.compile(r"/workflows/(wf_[^/]+)/")


class Gathered(Struct, frozen=True):
    """What belongs to one session, before it is assembled."""

    id: SessionId
    transcripts: tuple[Transcript, ...]
    nodes: tuple[Node, ...]
    """Of the session's own conversation, in order, copies included."""
    agents: tuple[AgentPart, ...]


def is_named(source: Source) -> bool:
    """Whether a file's place says for certain which session it is of."""
    return bool(source.session and _UUID.fullmatch(source.session))


def session_of(transcript: Transcript) -> SessionId:
    """Return the session that a file belongs to: by its name, if that is an id.

    Records of other sessions in it are copies, or come from a resume; they keep
    their own ids. An agent without a folder belongs to who started it.
    """
    if transcript.source.kind is SourceKind.AGENT:
        return _session_of_agent(transcript)
    named = transcript.source.session
    if named is not None and _UUID.fullmatch(named):
        return named
    said = Counter(node.session for node in transcript.nodes if node.session)
    most = said.most_common(1)
    return most[0][0] if most else named or SessionId(transcript.source.id)


def gather(ordered: Sequence[Transcript]) -> list[Gathered]:
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
            session = by_folder.get(folder) or session_of(transcript)
            agents.setdefault(session, []).append(transcript)
    names = [*own, *(name for name in agents if name not in own)]
    gathered = {
        name: _one(name, own.get(name, []), agents.get(name, [])) for name in names
    }
    ages = by_age({name: one.nodes for name, one in gathered.items()})
    return [gathered[name] for name in ages]


def _session_of_agent(transcript: Transcript) -> SessionId:
    """Return the session that started an agent; a later one may go on with it."""
    named = transcript.source.session
    if named is not None and "/subagents/" in transcript.source.path:
        return named
    said = (node.session for node in transcript.nodes if node.session)
    return next(said, SessionId(transcript.source.id))


def _one(
    session: SessionId, own: Sequence[Transcript], agents: Sequence[Transcript]
) -> Gathered:
    everything = [node for transcript in own for node in transcript.nodes]
    main, inline = inline_agents(everything)
    parts = {part.id: part for part in inline}
    for transcript in agents:
        agent = transcript.source.agent or AgentId(transcript.source.id)
        before = parts.get(agent)
        nodes = (*before.nodes, *transcript.nodes) if before else transcript.nodes
        run = _WORKFLOW.search(transcript.source.path)
        parts[agent] = AgentPart(
            id=agent,
            nodes=nodes,
            source=transcript.source,
            note=transcript.note or (before.note if before else None),
            steps=(*before.steps, *transcript.steps) if before else transcript.steps,
            workflow=run[1] if run else None,
        )
    return Gathered(session, (*own, *agents), tuple(main), tuple(parts.values()))


def first_time(nodes: Iterable[Node]) -> datetime | None:
    """Return when the earliest of some records was written."""
    return min((node.time for node in nodes if node.time is not None), default=None)


def accounts(gathered: Sequence[Gathered]) -> Iterable[tuple[str, Sequence[Node]]]:
    """Yield who may pay, in the order in which they do.

    Replays pay after those who did something, and what only progress records tell of
    comes last: mostly the agent's own file has it.
    """
    for one in gathered:
        yield one.id, one.nodes
    runs = [(one.id, agent) for one in gathered for agent in one.agents]
    for session, agent in sorted(
        runs, key=lambda run: kind_of(run[1]) is AgentKind.REPLAY
    ):
        yield f"{session}/{agent.id}", agent.nodes
    for one in gathered:
        yield told_account(one.id), told_answers(one.nodes)


def relate(gathered: Sequence[Gathered]) -> dict[SessionId, tuple[Lineage, ...]]:
    """Return how sessions are related; they come from the oldest to the youngest."""
    return lineages({one.id: one.nodes for one in gathered})


def mixed(transcript: Transcript, session: SessionId) -> Iterable[Problem]:
    """Yield a problem if a session's file holds records of other sessions."""
    others: dict[SessionId, Node] = {}
    for node in transcript.nodes:
        if node.session is not None and node.session != session:
            others.setdefault(node.session, node)
    for other, node in others.items():
        yield Problem("mixed-sessions", node.position, other)
