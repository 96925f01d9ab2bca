"""One record once: copies within a session, and owners across sessions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from msgspec import structs

from recollect.model.ids import RecordId, SessionId
from recollect.model.nodes import Node, Transcript
from recollect.model.problems import Problem
from recollect.model.sessions import Hidden, Lineage, LineageKind

__all__ = ["TREE_KINDS", "each_once", "in_order", "lineages"]

TREE_KINDS = frozenset(
    {"user", "assistant", "system", "attachment", "progress", "saved_hook_context"}
)
"""The records that form the tree; others stand beside it."""

_NEVER = datetime.max.replace(tzinfo=UTC)


def in_order(transcripts: Iterable[Transcript]) -> tuple[Transcript, ...]:
    """Return transcripts by when they begin, each with its nodes by offset.

    Time orders files; within a file only the position does.
    """
    ordered = [
        structs.replace(
            transcript,
            nodes=tuple(sorted(transcript.nodes, key=lambda node: node.position)),
        )
        for transcript in transcripts
    ]
    return tuple(sorted(ordered, key=_beginning))


def _beginning(transcript: Transcript) -> tuple[datetime, str]:
    times = (node.time for node in transcript.nodes if node.time is not None)
    return min(times, default=_NEVER), transcript.source.id


def each_once(
    nodes: Sequence[Node],
) -> tuple[list[Node], list[Hidden], list[Problem]]:
    """Return the nodes with every id once, at the place where it came first.

    A copy that names another parent wins for the parent (compaction hangs kept
    records elsewhere); of two contents the longer is kept, and the clash is said.
    Records of the tree without an id get one made of their place, and hang on the
    record before them.
    """
    places: dict[RecordId, int] = {}
    once: list[Node] = []
    hidden: list[Hidden] = []
    problems: list[Problem] = []
    last: RecordId | None = None
    for node in nodes:
        if node.kind not in TREE_KINDS and node.uuid is None:
            once.append(node)
            continue
        if node.uuid is None:
            name = RecordId(f"@{node.position.source}:{node.position.offset}")
            node = structs.replace(node, uuid=name, parent=last)  # noqa: PLW2901
        uuid = node.uuid or RecordId("")
        at = places.get(uuid)
        if at is None:
            places[uuid] = len(once)
            once.append(node)
        else:
            kept, dropped, clash = _of_two(once[at], node)
            once[at] = kept
            hidden.append(Hidden("copy", dropped.position, uuid))
            if clash:
                problems.append(Problem("clash", dropped.position, uuid))
        if node.kind in TREE_KINDS:
            last = uuid
    return once, hidden, problems


def _of_two(first: Node, second: Node) -> tuple[Node, Node, bool]:
    """Return the copy to keep, the one to drop, and whether they contradict."""
    clash = _content(first) != _content(second)
    keeps_first = not clash or first.position.length > second.position.length
    kept, dropped = (first, second) if keeps_first else (second, first)
    parent = second.parent if second.parent is not None else first.parent
    return structs.replace(kept, parent=parent), dropped, clash


def _content(node: Node) -> object:
    return node.kind, node.subtype, node.blocks, node.digest, node.head


def lineages(
    order: Mapping[SessionId, Sequence[RecordId]],
    starts: Mapping[SessionId, datetime | None],
    links: Mapping[SessionId, Iterable[Lineage]],
) -> dict[SessionId, tuple[Lineage, ...]]:
    """Return how sessions are related: by their own word, and by shared records.

    ``order`` holds the tree records of each session as they stand in its files. A
    session that begins with records of an older one continues it.
    """
    older: dict[RecordId, SessionId] = {}
    found = {session: list(links.get(session, ())) for session in order}
    for session in sorted(order, key=lambda s: (starts.get(s) or _NEVER, s)):
        records = order[session]
        shared: dict[SessionId, list[RecordId]] = {}
        for record in records:
            owner = older.setdefault(record, session)
            if owner != session:
                shared.setdefault(owner, []).append(record)
        told = {lineage.session for lineage in found[session]}
        for owner, common in shared.items():
            if owner in told:
                continue
            whole = list(order[owner]) == common
            kind = LineageKind.CONTINUES if whole else LineageKind.SAME_PREFIX
            found[session].append(Lineage(kind, owner, common[-1], len(common)))
    return {session: tuple(edges) for session, edges in found.items()}
