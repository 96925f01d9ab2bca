"""Groups transcripts into sessions, and finds out how the sessions are related."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime

from msgspec import Struct, structs

from bygones.assemble.agents import (
    AgentRecords,
    agent_kind,
    runs_from_progress,
    split_inline_agents,
)
from bygones.assemble.dedupe import file_id, first_timestamp
from bygones.assemble.usage import answers_from_progress, progress_account
from bygones.model.base import (
    UUID_PATTERN,
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
"""The records of each session in order, including copies."""


def find_families(nodes_by_session: NodesBySession) -> dict[SessionId, SessionId]:
    """Return a representative of the family of each session.

    A family is a group of sessions that share records or answers, directly or through
    others. A session is assembled the same way with its family alone as with all
    sessions.
    """
    parents = {session: session for session in nodes_by_session}
    if len(parents) == 1:
        return parents

    def find_root(session: SessionId) -> SessionId:
        while parents[session] != session:
            parents[session] = parents[parents[session]]
            session = parents[session]
        return session

    holders: dict[str, SessionId] = {}
    for session, nodes in nodes_by_session.items():
        for node in nodes:
            for shared in (node.uuid, node.message_id):
                if shared:
                    holder = holders.setdefault(shared, session)
                    parents[find_root(holder)] = find_root(session)
    return {session: find_root(session) for session in nodes_by_session}


def sort_by_age(nodes_by_session: NodesBySession) -> list[SessionId]:
    """Return sessions from the oldest to the newest.

    A copy starts at the same time as its original. Then a session that names its origin
    is newer than the origin, and so is one that starts in the middle; otherwise the
    original is the one whose first own record is older, or that has no record of its own,
    and of several such ones the shortest.
    """
    if len(nodes_by_session) == 1:
        return list(nodes_by_session)
    origins = _declared_origins(nodes_by_session)
    holders = Counter(
        uuid for nodes in nodes_by_session.values() for uuid in _record_ids(nodes)
    )

    def rank(session: SessionId) -> tuple[datetime, int, bool, datetime, int, str]:
        nodes = nodes_by_session[session]
        own = first_timestamp(
            node for node in nodes if holders[node.uuid or RecordId("")] == 1
        )
        depth = _origin_depth(session, origins)
        count = len(_record_ids(nodes)) if own is None else 0
        start = first_timestamp(nodes) or _MAX_TIME
        is_middle = _find_middle(nodes) is not None
        return start, depth, is_middle, own or _MIN_TIME, count, session

    return sorted(nodes_by_session, key=rank)


def _record_ids(nodes: Iterable[RecordNode]) -> dict[RecordId, None]:
    return dict.fromkeys(node.uuid for node in nodes if node.uuid is not None)


def _declared_origins(
    nodes_by_session: NodesBySession,
) -> dict[SessionId, set[SessionId]]:
    """Return the sessions of the family that the records of a session name as origin."""
    families = find_families(nodes_by_session)
    origins: dict[SessionId, set[SessionId]] = {
        session: set() for session in nodes_by_session
    }
    for session, nodes in nodes_by_session.items():
        for node in nodes:
            forked_from = node.forked_from.session_id if node.forked_from else None
            origins[session].update(filter(None, (forked_from, node.session_id)))
            successor = _continued_in(node)
            if successor in origins:
                origins[successor].add(session)
    return {
        session: {
            origin
            for origin in declared - {session}
            if families.get(origin) == families[session]
        }
        for session, declared in origins.items()
    }


def _continued_in(node: RecordNode) -> SessionId | None:
    """Return the session in which this one continues, if the record names it."""
    if node.kind == "continued-in" and isinstance(node.extra, LineageFacts):
        return node.extra.session_id
    return None


def _origin_depth(
    session: SessionId, origins: Mapping[SessionId, AbstractSet[SessionId]]
) -> int:
    """Return the number of generations between a session and its first origin."""
    depth = 0
    seen: set[SessionId] = {session}
    generation = origins[session] - seen
    while generation:
        depth += 1
        seen |= generation
        generation = {
            origin for member in generation for origin in origins[member]
        } - seen
    return depth


def find_lineages(
    nodes_by_session: NodesBySession,
) -> dict[SessionId, tuple[Lineage, ...]]:
    """Return how sessions are related: as their records say, and by shared records.

    The sessions must be sorted from the oldest to the newest. Each is related to the
    older one that it shares most records with. Old versions copied the whole history when
    a session was resumed, so a session with all records of another continues it. Since
    1.0.124 resuming appends to the same file, and a copy is a fork.
    """
    if len(nodes_by_session) == 1:
        return {
            session: tuple(_declared_lineages(session, nodes))
            for session, nodes in nodes_by_session.items()
        }
    holders: dict[RecordId, list[SessionId]] = {}
    record_counts: dict[SessionId, int] = {}
    continued: set[tuple[SessionId, SessionId]] = set()
    """Sessions that moved to the background, with their copies."""
    lineages = {}
    for session, nodes in nodes_by_session.items():
        ids = _record_ids(nodes)
        declared = list(_declared_lineages(session, nodes))
        known = {lineage.session_id for lineage in declared}
        shared = [
            lineage
            for lineage in _shared_lineages(ids, holders, record_counts)
            if lineage.session_id not in known
        ]
        if shared and _is_fork(session, nodes, holders):
            shared = [
                structs.replace(lineage, kind=LineageKind.FORKED_FROM)
                if (lineage.session_id, session) not in continued
                else lineage
                for lineage in shared
            ]
        lineages[session] = (*declared, *shared)
        continued.update(
            (session, lineage.session_id)
            for lineage in declared
            if lineage.kind is LineageKind.CONTINUED_IN
        )
        record_counts[session] = len(ids)
        for uuid in ids:
            holders.setdefault(uuid, []).append(session)
    return lineages


def _is_fork(
    session: SessionId,
    nodes: Iterable[RecordNode],
    holders: Mapping[RecordId, Sequence[SessionId]],
) -> bool:
    """Whether the records of a session were copied to start another one.

    That is the case if a version that resumes in the same file wrote the first own
    record, and the copies name the new session.
    """
    first: RecordNode | None = None
    for node in nodes:
        if node.uuid in holders:
            if node.session_id != session:
                return False
        elif first is None and node.uuid is not None and node.version:
            first = node
    if first is None:
        return False
    parts = [int(part) for part in re.findall(r"\d{1,9}", first.version or "")[:3]]
    return tuple(parts) >= _RESUMES_IN_PLACE


_RESUMES_IN_PLACE = (1, 0, 124)
"""The first version that appends to the same file when a session is resumed."""


def _shared_lineages(
    ids: Iterable[RecordId],
    holders: Mapping[RecordId, Sequence[SessionId]],
    record_counts: Mapping[SessionId, int],
) -> Iterator[Lineage]:
    """Yield the relations to older sessions that explain the shared records."""
    unexplained = [uuid for uuid in ids if uuid in holders]
    while unexplained:
        counts = Counter(holder for uuid in unexplained for holder in holders[uuid])
        # Holders are in order of age, so the oldest of equals comes first.
        nearest, _ = counts.most_common(1)[0]
        shared = [uuid for uuid in unexplained if nearest in holders[uuid]]
        is_complete = len(shared) == record_counts[nearest]
        kind = LineageKind.CONTINUES if is_complete else LineageKind.SAME_PREFIX
        yield Lineage(kind, nearest, shared[-1], len(shared))
        unexplained = [uuid for uuid in unexplained if nearest not in holders[uuid]]


def _declared_lineages(
    session: SessionId, nodes: Iterable[RecordNode]
) -> Iterator[Lineage]:
    """Yield the relations that the records of a session name."""
    forks: dict[SessionId, dict[RecordId | None, None]] = {}
    successors: dict[SessionId, None] = {}
    for node in nodes:
        facts = node.forked_from
        if facts is not None and facts.session_id and facts.session_id != session:
            forks.setdefault(facts.session_id, {})[facts.record_id] = None
        successor = _continued_in(node)
        if successor is not None and successor != session:
            successors[successor] = None
    for origin, records in forks.items():
        last = list(records)[-1]
        yield Lineage(LineageKind.FORKED_FROM, origin, last, len(records))
    for successor in successors:
        yield Lineage(LineageKind.CONTINUED_IN, successor)


_WORKFLOW_PATH = re.compile(r"/workflows/(wf_[^/]+)/")


class SessionRecords(Struct, frozen=True):
    """The records of one session, before it is assembled."""

    id: SessionId
    transcripts: tuple[Transcript, ...]
    nodes: tuple[RecordNode, ...]
    """Of the session itself, without agents, in order, including copies."""
    agents: tuple[AgentRecords, ...]


def has_session_id(source: SourceFile) -> bool:
    """Whether the path of a file contains a session id."""
    return bool(source.session_id and UUID_PATTERN.fullmatch(source.session_id))


def transcript_session_id(transcript: Transcript) -> SessionId:
    """Return the session that a file belongs to: by its name if that is an id.

    Otherwise it is the session that most records name. Records of other sessions in a
    file are copies, or come from resuming; they keep their own ids.
    """
    if transcript.source.kind is SourceKind.AGENT:
        return _agent_session_id(transcript)
    from_name = transcript.source.session_id
    if from_name is not None and UUID_PATTERN.fullmatch(from_name):
        return from_name
    counts = Counter(node.session_id for node in transcript.nodes if node.session_id)
    if counts:
        return counts.most_common(1)[0][0]
    return from_name or SessionId(file_id(transcript.source.id))


def group_by_session(transcripts: Sequence[Transcript]) -> list[SessionRecords]:
    """Return the records of each session, oldest session first."""
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
    records = {
        session: collect_records(session, own.get(session, []), agents.get(session, []))
        for session in dict.fromkeys((*own, *agents))
    }
    by_age = sort_by_age({session: r.nodes for session, r in records.items()})
    return [records[session] for session in by_age]


def join_predecessors(sessions: Sequence[SessionRecords]) -> list[SessionRecords]:
    """Add to a session that starts in the middle of an older one what came before.

    A file may start with copies of the last records of the session that it continues.
    The sessions must be sorted from the oldest to the newest.
    """
    if not any(_find_middle(records.nodes) for records in sessions):
        return list(sessions)
    joined: list[SessionRecords] = []
    places: dict[RecordId, tuple[int, int]] = {}
    """The first session that has a record, and where."""
    for records in sessions:
        nodes = records.nodes
        first = _find_middle(nodes)
        if first is not None and first.uuid in places and first.parent_uuid in places:
            older, index = places[first.uuid]
            before = (n for n in joined[older].nodes[:index] if n.uuid is not None)
            nodes = (*before, *nodes)
        for index, node in enumerate(nodes):
            if node.uuid is not None:
                places.setdefault(node.uuid, (len(joined), index))
        joined.append(structs.replace(records, nodes=nodes))
    return joined


def _find_middle(nodes: Iterable[RecordNode]) -> RecordNode | None:
    """Return the first record, if its parent is missing."""
    first = next((node for node in nodes if node.uuid is not None), None)
    if first is None or first.parent_uuid is None:
        return None
    has_parent = any(node.uuid == first.parent_uuid for node in nodes)
    return None if has_parent else first


def _agent_session_id(transcript: Transcript) -> SessionId:
    """Return the session that started an agent; a later one may continue it."""
    from_name = transcript.source.session_id
    if from_name is not None and "/subagents/" in transcript.source.relative_path:
        return from_name
    from_records = (node.session_id for node in transcript.nodes if node.session_id)
    return next(from_records, SessionId(file_id(transcript.source.id)))


def agent_id(source: SourceFile) -> AgentId:
    """Return the id of the agent that a file belongs to."""
    return source.agent_id or AgentId(file_id(source.id))


def collect_records(
    session: SessionId, own: Sequence[Transcript], agents: Sequence[Transcript]
) -> SessionRecords:
    nodes = [node for transcript in own for node in transcript.nodes]
    main, inline = split_inline_agents(nodes)
    runs = {run.id: run for run in inline}
    for transcript in agents:
        agent = agent_id(transcript.source)
        earlier = runs.get(agent) or AgentRecords(id=agent, nodes=())
        workflow = _WORKFLOW_PATH.search(transcript.source.relative_path)
        runs[agent] = AgentRecords(
            id=agent,
            nodes=(*earlier.nodes, *transcript.nodes),
            source=transcript.source,
            sidecar=transcript.sidecar or earlier.sidecar,
            journal_nodes=(*earlier.journal_nodes, *transcript.journal_nodes),
            workflow=workflow[1] if workflow else None,
        )
    for run in runs_from_progress(main):
        runs.setdefault(run.id, run)
    return SessionRecords(session, (*own, *agents), tuple(main), tuple(runs.values()))


def drop_repeated_runs(
    sessions: Sequence[SessionRecords], families: Mapping[SessionId, SessionId]
) -> list[SessionRecords]:
    """Drop agent runs that only copies of progress records give to a later session."""
    known: set[tuple[SessionId, AgentId]] = set()
    kept = []
    for records in sessions:
        family = families[records.id]
        agents = tuple(
            agent
            for agent in records.agents
            if not agent.is_from_progress or (family, agent.id) not in known
        )
        known.update((family, agent.id) for agent in agents)
        kept.append(structs.replace(records, agents=agents))
    return kept


def iter_accounts(
    sessions: Sequence[SessionRecords],
) -> Iterable[tuple[str, Sequence[RecordNode]]]:
    """Yield the accounts that answers may be booked to; the first one pays.

    Sessions come first, then agents, then replays. Answers that progress records repeat
    come last: usually the agent's own file contains them.
    """
    for records in sessions:
        yield records.id, records.nodes
    runs = [(records.id, agent) for records in sessions for agent in records.agents]
    runs.sort(key=lambda run: agent_kind(run[1]) is AgentKind.REPLAY)
    for session, agent in runs:
        yield f"{session}/{agent.id}", agent.nodes
    for records in sessions:
        yield progress_account(records.id), answers_from_progress(records.nodes)


def relate_sessions(
    sessions: Sequence[SessionRecords],
) -> dict[SessionId, tuple[Lineage, ...]]:
    """Return how sessions are related; they must be sorted from the oldest."""
    return find_lineages({records.id: records.nodes for records in sessions})


def mixed_session_problems(
    transcript: Transcript, session: SessionId
) -> Iterable[Problem]:
    """Yield a problem for each other session whose records the file contains."""
    others: dict[SessionId, RecordNode] = {}
    for node in transcript.nodes:
        if node.session_id is not None and node.session_id != session:
            others.setdefault(node.session_id, node)
    for other, node in others.items():
        yield Problem("mixed-sessions", node.position, other)
