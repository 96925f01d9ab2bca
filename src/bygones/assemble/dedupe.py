"""One record once, however often a session's files hold it."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from datetime import UTC, datetime

from msgspec import structs

from bygones.model.ids import RecordId, SourceId
from bygones.model.nodes import Node, QueueFacts, Transcript
from bygones.model.problems import Problem
from bygones.model.sessions import Hidden

__all__ = ["TREE_KINDS", "each_once", "in_order", "name_of"]

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
            nodes=tuple(sorted(transcript.nodes, key=lambda n: n.position.offset)),
        )
        for transcript in transcripts
    ]
    return tuple(sorted(ordered, key=_beginning))


def _beginning(transcript: Transcript) -> tuple[datetime, str]:
    times = (node.time for node in transcript.nodes if node.time is not None)
    return min(times, default=_NEVER), transcript.source.id


def name_of(node: Node) -> RecordId:
    """Return a record's id, or one made of its place where it has none."""
    return node.uuid or RecordId(f"@{node.position.source}:{node.position.offset}")


def each_once(
    nodes: Sequence[Node], elsewhere: Container[RecordId] = frozenset()
) -> tuple[list[Node], list[Hidden], list[Problem]]:
    """Return the nodes with every record once, at the place where it came first.

    What stands ``elsewhere`` is left out. Where compaction writes a record again below
    its digest, the record stays where it was said; only a parent that nobody knows
    gives way to that of a copy. Of two contents the longer is kept, and the clash is
    said. A history that was replayed under new ids is known by its times and
    contents; what hangs on the replay then hangs on the original. Records of the tree
    without an id get one made of their place, and hang on the record before them.
    """
    once = _Once(_repeated_times(nodes))
    last: RecordId | None = None
    for node in nodes:
        if node.uuid in elsewhere:
            once.hide(node)
            last = node.uuid
            continue
        if node.kind not in TREE_KINDS and node.uuid is None:
            once.note(node)
            continue
        if node.uuid is None:
            node = structs.replace(node, uuid=name_of(node), parent=last)  # noqa: PLW2901
        once.take(node, name_of(node))
        if node.kind in TREE_KINDS:
            last = node.uuid
    return once.settled(), once.hidden, once.problems


def _repeated_times(nodes: Iterable[Node]) -> frozenset[datetime]:
    """Return the times that more than one record tells: only those can be replays."""
    seen: set[datetime] = set()
    again = set()
    for node in nodes:
        time = node.time
        if time is None:
            continue
        if time in seen:
            again.add(time)
        else:
            seen.add(time)
    return frozenset(again)


class _Once:
    """Nodes by id and by content, in the order in which they came first."""

    def __init__(self, times: frozenset[datetime]) -> None:
        self._times = times
        self.nodes: list[Node] = []
        self.hidden: list[Hidden] = []
        self.problems: list[Problem] = []
        self._alias: dict[RecordId, RecordId] = {}
        self._others: dict[RecordId, RecordId] = {}
        self._places: dict[RecordId, int] = {}
        self._contents: dict[object, RecordId] = {}
        self._queues: dict[object, SourceId] = {}

    def take(self, node: Node, uuid: RecordId) -> None:
        """Keep a node unless it is a copy; of two versions keep the better."""
        at = self._places.get(uuid)
        if at is not None:
            kept, dropped, clash = _of_two(self.nodes[at], node)
            self.nodes[at] = kept
            self.hide(dropped)
            if node.parent is not None:
                self._others[uuid] = node.parent
            if clash:
                self.problems.append(Problem("clash", dropped.position, uuid))
            return
        signs = _signs(node) if node.time in self._times else ()
        if signs and all(sign in self._contents for sign in signs):
            self._alias[uuid] = self._contents[signs[-1]]
            self.hide(node)
            return
        self._contents.update(dict.fromkeys(signs, uuid))
        self._places[uuid] = len(self.nodes)
        self.nodes.append(node)

    def note(self, node: Node) -> None:
        """Keep a record beside the tree, but what was queued only from one file."""
        if isinstance(node.extra, QueueFacts) and node.time is not None:
            sign = (node.extra.operation, node.time, node.digest)
            source = self._queues.setdefault(sign, node.position.source)
            if source != node.position.source:
                self.hide(node)
                return
        self.nodes.append(node)

    def hide(self, node: Node) -> None:
        """Note a copy."""
        self.hidden.append(Hidden("copy", node.position, node.uuid))

    def settled(self) -> list[Node]:
        """Return the nodes, hung on records which are kept."""
        if not self._alias and not self._others:
            return self.nodes
        return [self._settled(node) for node in self.nodes]

    def _settled(self, node: Node) -> Node:
        parent, follows = node.parent, node.logical_parent
        if parent not in self._places and parent not in self._alias:
            parent = self._others.get(name_of(node), parent)
        parent = self._alias.get(parent, parent) if parent else parent
        follows = self._alias.get(follows, follows) if follows else follows
        if (parent, follows) == (node.parent, node.logical_parent):
            return node
        return structs.replace(node, parent=parent, logical_parent=follows)


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
    return structs.replace(kept, parent=first.parent), dropped, clash


def _content(node: Node) -> object:
    return node.kind, node.subtype, node.blocks, node.digest, node.head
