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
    """Return the nodes with every record once, at the place where it came first.

    A copy that names another parent wins for the parent (compaction hangs kept
    records elsewhere); of two contents the longer is kept, and the clash is said.
    A history that was replayed under new ids is known by its times and contents; what
    hangs on the replay then hangs on the original. Records of the tree without an id
    get one made of their place, and hang on the record before them.
    """
    once = _Once()
    last: RecordId | None = None
    for node in nodes:
        if node.kind not in TREE_KINDS and node.uuid is None:
            once.nodes.append(node)
            continue
        if node.uuid is None:
            name = RecordId(f"@{node.position.source}:{node.position.offset}")
            node = structs.replace(node, uuid=name, parent=last)  # noqa: PLW2901
        once.take(node, node.uuid or RecordId(""))
        if node.kind in TREE_KINDS:
            last = node.uuid
    alias = once.alias
    kept = [
        structs.replace(node, parent=alias[node.parent])
        if node.parent in alias
        else node
        for node in once.nodes
    ]
    return kept, once.hidden, once.problems


class _Once:
    """Nodes by id and by content, in the order in which they came first."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.hidden: list[Hidden] = []
        self.problems: list[Problem] = []
        self.alias: dict[RecordId, RecordId] = {}
        self._places: dict[RecordId, int] = {}
        self._contents: dict[object, RecordId] = {}

    def take(self, node: Node, uuid: RecordId) -> None:
        """Keep a node unless it is a copy; of two versions keep the better."""
        at = self._places.get(uuid)
        if at is not None:
            kept, dropped, clash = _of_two(self.nodes[at], node)
            self.nodes[at] = kept
            self.hidden.append(Hidden("copy", dropped.position, uuid))
            if clash:
                self.problems.append(Problem("clash", dropped.position, uuid))
            return
        signs = _signs(node)
        if signs and all(sign in self._contents for sign in signs):
            self.alias[uuid] = self._contents[signs[-1]]
            self.hidden.append(Hidden("copy", node.position, uuid))
            return
        self._contents.update(dict.fromkeys(signs, uuid))
        self._places[uuid] = len(self.nodes)
        self.nodes.append(node)


def _signs(node: Node) -> list[object]:
    """Return what only a copy of the record shares with it, block by block.

    A replay may part a prompt into one record a block; all keep the prompt's time.
    """
    if node.time is None or not node.is_conversation:
        return []
    whose = (node.kind, node.time, node.message, node.agent)
    return [(whose, b.kind, b.id, b.digest, b.size) for b in node.blocks]


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
