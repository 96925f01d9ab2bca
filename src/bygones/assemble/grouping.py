"""How sessions are related: which is older, and what one has from another."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime

from msgspec import Struct

from bygones.assemble.agents import AgentRecords, agent_kind, split_inline_agents
from bygones.assemble.usage import answers_from_progress, progress_account
from bygones.model.base import (
    AgentId,
    Problem,
    RecordId,
    SessionId,
    SourceFile,
    SourceKind,
)
from bygones.model.nodes import LineageFacts, RecordNode, Transcript
from bygones.model.summary import AgentKind, Lineage, LineageKind

_MAX_TIME = datetime.max.replace(tzinfo=UTC)
_MIN_TIME = datetime.min.replace(tzinfo=UTC)

NodesBySession = Mapping[SessionId, Sequence[RecordNode]]
"""The records of sessions, in order, copies included."""


def find_families(nodes_by_session: NodesBySession) -> dict[SessionId, SessionId]:
    """Return for each session one that stands for all with which it has to do.

    Those are sessions that share records or answers with it, or with such a one. What
    it says of any other is only told: so a session comes out the same whether it is
    assembled with all others or with its family alone.
    """
    found = {session: session for session in nodes_by_session}
    if len(found) == 1:
        return found

    def first(session: SessionId) -> SessionId:
        while found[session] != session:
            found[session] = found[found[session]]
            session = found[session]
        return session

    holders: dict[str, SessionId] = {}
    for session, nodes in nodes_by_session.items():
        for node in nodes:
            for shared in (node.uuid, node.message_id):
                if shared:
                    found[first(holders.setdefault(shared, session))] = first(session)
    return {session: first(session) for session in nodes_by_session}


def sort_by_age(nodes_by_session: NodesBySession) -> list[SessionId]:
    """Return sessions from the oldest to the youngest.

    A copy begins when the original does. Then a session that says from which other it
    comes is younger than that one; else the original is the one that first said
    something of its own, or that says nothing which the other does not.
    """
    if len(nodes_by_session) == 1:
        return list(nodes_by_session)
    origins = _declared_origins(nodes_by_session)
    holders = Counter(
        uuid for nodes in nodes_by_session.values() for uuid in _record_ids(nodes)
    )

    def rank(session: SessionId) -> tuple[datetime, int, datetime, str]:
        nodes = nodes_by_session[session]
        own = _earliest_time(
            node for node in nodes if holders[node.uuid or RecordId("")] == 1
        )
        depth = _origin_depth(session, origins)
        return _earliest_time(nodes) or _MAX_TIME, depth, own or _MIN_TIME, session

    return sorted(nodes_by_session, key=rank)


def _record_ids(nodes: Iterable[RecordNode]) -> dict[RecordId, None]:
    """Return the ids of records in order, each once."""
    return dict.fromkeys(node.uuid for node in nodes if node.uuid is not None)


def _earliest_time(nodes: Iterable[RecordNode]) -> datetime | None:
    return min(
        (node.timestamp for node in nodes if node.timestamp is not None), default=None
    )


def _declared_origins(
    nodes_by_session: NodesBySession,
) -> dict[SessionId, set[SessionId]]:
    """Return the kin from which each session comes, by the word of any record."""
    kin = find_families(nodes_by_session)
    found: dict[SessionId, set[SessionId]] = {
        session: set() for session in nodes_by_session
    }
    for session, nodes in nodes_by_session.items():
        for node in nodes:
            forked = node.forked_from.session_id if node.forked_from else None
            found[session].update(one for one in (forked, node.session_id) if one)
            follower = _continued_in(node)
            if follower in found:
                found[follower].add(session)
    return {
        one: {other for other in told - {one} if kin.get(other) == kin[one]}
        for one, told in found.items()
    }


def _continued_in(node: RecordNode) -> SessionId | None:
    """Return the session in which a record says that the talk goes on."""
    if node.kind == "continued-in" and isinstance(node.extra, LineageFacts):
        return node.extra.session_id
    return None


def _origin_depth(
    session: SessionId, origins: Mapping[SessionId, AbstractSet[SessionId]]
) -> int:
    """Return over how many others a session comes from its first origin."""
    depth = 0
    seen: set[SessionId] = {session}
    above = origins[session] - seen
    while above:
        depth += 1
        seen |= above
        above = {origin for one in above for origin in origins[one]} - seen
    return depth


def find_lineages(
    nodes_by_session: NodesBySession,
) -> dict[SessionId, tuple[Lineage, ...]]:
    """Return how sessions are related: by their own word, and by shared records.

    The sessions come from the oldest to the youngest. Each is related to the older
    one with which it shares most; if it holds that one whole, it continues it.
    """
    if len(nodes_by_session) == 1:
        return {
            session: tuple(_declared_lineages(session, nodes))
            for session, nodes in nodes_by_session.items()
        }
    holders: dict[RecordId, list[SessionId]] = {}
    whole: dict[SessionId, int] = {}
    found = {}
    for session, nodes in nodes_by_session.items():
        ids = _record_ids(nodes)
        told = list(_declared_lineages(session, nodes))
        known = {lineage.session_id for lineage in told}
        shared = [
            one
            for one in _shared_lineages(ids, holders, whole)
            if one.session_id not in known
        ]
        found[session] = (*told, *shared)
        whole[session] = len(ids)
        for uuid in ids:
            holders.setdefault(uuid, []).append(session)
    return found


def _shared_lineages(
    ids: Iterable[RecordId],
    holders: Mapping[RecordId, Sequence[SessionId]],
    record_counts: Mapping[SessionId, int],
) -> Iterator[Lineage]:
    """Yield the relations to older sessions that explain the shared records."""
    left = [uuid for uuid in ids if uuid in holders]
    while left:
        counts = Counter(holder for uuid in left for holder in holders[uuid])
        # Counted in the order of their age: of equals the oldest is the first.
        nearest, _ = counts.most_common(1)[0]
        theirs = [uuid for uuid in left if nearest in holders[uuid]]
        is_whole = len(theirs) == record_counts[nearest]
        kind = LineageKind.CONTINUES if is_whole else LineageKind.SAME_PREFIX
        yield Lineage(kind, nearest, theirs[-1], len(theirs))
        left = [uuid for uuid in left if nearest not in holders[uuid]]


def _declared_lineages(
    session: SessionId, nodes: Iterable[RecordNode]
) -> Iterator[Lineage]:
    """Yield the relations that a session's own records tell of."""
    forks: dict[SessionId, dict[RecordId | None, None]] = {}
    followers: dict[SessionId, None] = {}
    for node in nodes:
        facts = node.forked_from
        if facts is not None and facts.session_id and facts.session_id != session:
            forks.setdefault(facts.session_id, {})[facts.record_id] = None
        follower = _continued_in(node)
        if follower is not None and follower != session:
            followers[follower] = None
    for origin, records in forks.items():
        last = list(records)[-1]
        yield Lineage(LineageKind.FORKED_FROM, origin, last, len(records))
    for follower in followers:
        yield Lineage(LineageKind.CONTINUED_IN, follower)


_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_WORKFLOW_PATH = re.compile(r"/workflows/(wf_[^/]+)/")


class SessionRecords(Struct, frozen=True):
    """What belongs to one session, before it is assembled."""

    id: SessionId
    transcripts: tuple[Transcript, ...]
    nodes: tuple[RecordNode, ...]
    """Of the session's own conversation, in order, copies included."""
    agents: tuple[AgentRecords, ...]


def has_session_id(source: SourceFile) -> bool:
    """Whether a file's place says for certain which session it is of."""
    return bool(source.session_id and _UUID.fullmatch(source.session_id))


def transcript_session_id(transcript: Transcript) -> SessionId:
    """Return the session that a file belongs to: by its name, if that is an id.

    Records of other sessions in it are copies, or come from a resume; they keep
    their own ids. An agent without a folder belongs to who started it.
    """
    if transcript.source.kind is SourceKind.AGENT:
        return _agent_session_id(transcript)
    named = transcript.source.session_id
    if named is not None and _UUID.fullmatch(named):
        return named
    said = Counter(node.session_id for node in transcript.nodes if node.session_id)
    most = said.most_common(1)
    return most[0][0] if most else named or SessionId(transcript.source.id)


def group_by_session(transcripts: Sequence[Transcript]) -> list[SessionRecords]:
    """Return the pieces of each session, oldest session first."""
    own: dict[SessionId, list[Transcript]] = {}
    by_folder: dict[str, SessionId] = {}
    for transcript in transcripts:
        if transcript.source.kind is SourceKind.SESSION:
            session = transcript_session_id(transcript)
            own.setdefault(session, []).append(transcript)
            by_folder[transcript.source.id.removesuffix(".jsonl")] = session
    agents: dict[SessionId, list[Transcript]] = {}
    for transcript in transcripts:
        if transcript.source.kind is SourceKind.AGENT:
            folder = transcript.source.id.partition("/subagents/")[0]
            session = by_folder.get(folder) or transcript_session_id(transcript)
            agents.setdefault(session, []).append(transcript)
    names = [*own, *(name for name in agents if name not in own)]
    gathered = {
        name: _collect_records(name, own.get(name, []), agents.get(name, []))
        for name in names
    }
    ages = sort_by_age({name: one.nodes for name, one in gathered.items()})
    return [gathered[name] for name in ages]


def _agent_session_id(transcript: Transcript) -> SessionId:
    """Return the session that started an agent; a later one may go on with it."""
    named = transcript.source.session_id
    if named is not None and "/subagents/" in transcript.source.relative_path:
        return named
    said = (node.session_id for node in transcript.nodes if node.session_id)
    return next(said, SessionId(transcript.source.id))


def _collect_records(
    session: SessionId, own: Sequence[Transcript], agents: Sequence[Transcript]
) -> SessionRecords:
    everything = [node for transcript in own for node in transcript.nodes]
    main, inline = split_inline_agents(everything)
    parts = {part.id: part for part in inline}
    for transcript in agents:
        agent = transcript.source.agent_id or AgentId(transcript.source.id)
        before = parts.get(agent)
        nodes = (*before.nodes, *transcript.nodes) if before else transcript.nodes
        run = _WORKFLOW_PATH.search(transcript.source.relative_path)
        parts[agent] = AgentRecords(
            id=agent,
            nodes=nodes,
            source=transcript.source,
            sidecar=transcript.sidecar or (before.sidecar if before else None),
            journal_nodes=(*before.journal_nodes, *transcript.journal_nodes)
            if before
            else transcript.journal_nodes,
            workflow=run[1] if run else None,
        )
    return SessionRecords(session, (*own, *agents), tuple(main), tuple(parts.values()))


def first_timestamp(nodes: Iterable[RecordNode]) -> datetime | None:
    """Return when the earliest of some records was written."""
    return min(
        (node.timestamp for node in nodes if node.timestamp is not None), default=None
    )


def iter_accounts(
    sessions: Sequence[SessionRecords],
) -> Iterable[tuple[str, Sequence[RecordNode]]]:
    """Yield who may pay, in the order in which they do.

    Replays pay after those who did something, and what only progress records tell of
    comes last: mostly the agent's own file has it.
    """
    for one in sessions:
        yield one.id, one.nodes
    runs = [(one.id, agent) for one in sessions for agent in one.agents]
    for session, agent in sorted(
        runs, key=lambda run: agent_kind(run[1]) is AgentKind.REPLAY
    ):
        yield f"{session}/{agent.id}", agent.nodes
    for one in sessions:
        yield progress_account(one.id), answers_from_progress(one.nodes)


def relate_sessions(
    sessions: Sequence[SessionRecords],
) -> dict[SessionId, tuple[Lineage, ...]]:
    """Return how sessions are related; they come from the oldest to the youngest."""
    return find_lineages({one.id: one.nodes for one in sessions})


def mixed_session_problems(
    transcript: Transcript, session: SessionId
) -> Iterable[Problem]:
    """Yield a problem if a session's file holds records of other sessions."""
    others: dict[SessionId, RecordNode] = {}
    for node in transcript.nodes:
        if node.session_id is not None and node.session_id != session:
            others.setdefault(node.session_id, node)
    for other, node in others.items():
        yield Problem("mixed-sessions", node.position, other)
