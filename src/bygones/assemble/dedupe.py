"""One record once, however often a session's files hold it."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from datetime import UTC, datetime

from msgspec import structs

from bygones.model.base import Problem, RecordId, SourceId
from bygones.model.nodes import QueueFacts, RecordNode, Transcript
from bygones.model.summary import HiddenRecord

__all__ = ["TREE_KINDS", "deduplicate", "get_record_id", "sort_transcripts"]

TREE_KINDS = frozenset(
    {"user", "assistant", "system", "attachment", "progress", "saved_hook_context"}
)
"""The records that form the tree; others stand beside it."""

_MAX_TIME = datetime.max.replace(tzinfo=UTC)


def sort_transcripts(transcripts: Iterable[Transcript]) -> tuple[Transcript, ...]:
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
    return tuple(sorted(ordered, key=_sort_key))


def _sort_key(transcript: Transcript) -> tuple[datetime, str]:
    times = (node.timestamp for node in transcript.nodes if node.timestamp is not None)
    return min(times, default=_MAX_TIME), transcript.source.id


def get_record_id(node: RecordNode) -> RecordId:
    """Return a record's id, or one made of its place where it has none."""
    return node.uuid or RecordId(f"@{node.position.source_id}:{node.position.offset}")


def deduplicate(
    nodes: Sequence[RecordNode], excluded: Container[RecordId] = frozenset()
) -> tuple[list[RecordNode], list[HiddenRecord], list[Problem]]:
    """Return the nodes with every record once, at the place where it came first.

    What stands ``elsewhere`` is left out. Where compaction writes a record again below
    its digest, the record stays where it was said; only a parent that nobody knows
    gives way to that of a copy. Of two contents the longer is kept, and the clash is
    said. A history that was replayed under new ids is known by its times and
    contents; what hangs on the replay then hangs on the original. Records of the tree
    without an id get one made of their place, and hang on the record before them.
    """
    once = _Deduplicator(_repeated_times(nodes))
    last: RecordId | None = None
    for node in nodes:
        if node.uuid in excluded:
            once.hide(node)
            last = node.uuid
            continue
        if node.kind not in TREE_KINDS and node.uuid is None:
            once.add_metadata(node)
            continue
        if node.uuid is None:
            node = structs.replace(node, uuid=get_record_id(node), parent_uuid=last)  # noqa: PLW2901
        once.add(node, get_record_id(node))
        if node.kind in TREE_KINDS:
            last = node.uuid
    return once.resolved_nodes(), once.hidden, once.problems


def _repeated_times(nodes: Iterable[RecordNode]) -> frozenset[datetime]:
    """Return the times that more than one record tells: only those can be replays."""
    seen: set[datetime] = set()
    again = set()
    for node in nodes:
        time = node.timestamp
        if time is None:
            continue
        if time in seen:
            again.add(time)
        else:
            seen.add(time)
    return frozenset(again)


class _Deduplicator:
    """Nodes by id and by content, in the order in which they came first."""

    def __init__(self, times: frozenset[datetime]) -> None:
        self._repeated_times = times
        self.nodes: list[RecordNode] = []
        self.hidden: list[HiddenRecord] = []
        self.problems: list[Problem] = []
        self._original_ids: dict[RecordId, RecordId] = {}
        self._alternate_parents: dict[RecordId, RecordId] = {}
        self._index_by_id: dict[RecordId, int] = {}
        self._id_by_content: dict[object, RecordId] = {}
        self._queue_sources: dict[object, SourceId] = {}

    def add(self, node: RecordNode, uuid: RecordId) -> None:
        """Keep a node unless it is a copy; of two versions keep the better."""
        at = self._index_by_id.get(uuid)
        if at is not None:
            kept, dropped, clash = _choose_copy(self.nodes[at], node)
            self.nodes[at] = kept
            self.hide(dropped)
            if node.parent_uuid is not None:
                self._alternate_parents[uuid] = node.parent_uuid
            if clash:
                self.problems.append(Problem("clash", dropped.position, uuid))
            return
        signs = _content_keys(node) if node.timestamp in self._repeated_times else ()
        if signs and all(sign in self._id_by_content for sign in signs):
            self._original_ids[uuid] = self._id_by_content[signs[-1]]
            self.hide(node)
            return
        self._id_by_content.update(dict.fromkeys(signs, uuid))
        self._index_by_id[uuid] = len(self.nodes)
        self.nodes.append(node)

    def add_metadata(self, node: RecordNode) -> None:
        """Keep a record beside the tree, but what was queued only from one file."""
        if isinstance(node.extra, QueueFacts) and node.timestamp is not None:
            sign = (node.extra.operation, node.timestamp, node.digest)
            source = self._queue_sources.setdefault(sign, node.position.source_id)
            if source != node.position.source_id:
                self.hide(node)
                return
        self.nodes.append(node)

    def hide(self, node: RecordNode) -> None:
        """Note a copy."""
        self.hidden.append(HiddenRecord("copy", node.position, node.uuid))

    def resolved_nodes(self) -> list[RecordNode]:
        """Return the nodes, hung on records which are kept."""
        if not self._original_ids and not self._alternate_parents:
            return self.nodes
        return [self._resolve_parents(node) for node in self.nodes]

    def _resolve_parents(self, node: RecordNode) -> RecordNode:
        parent, follows = node.parent_uuid, node.logical_parent_uuid
        if parent not in self._index_by_id and parent not in self._original_ids:
            parent = self._alternate_parents.get(get_record_id(node), parent)
        parent = self._original_ids.get(parent, parent) if parent else parent
        follows = self._original_ids.get(follows, follows) if follows else follows
        if (parent, follows) == (node.parent_uuid, node.logical_parent_uuid):
            return node
        return structs.replace(node, parent_uuid=parent, logical_parent_uuid=follows)


def _content_keys(node: RecordNode) -> list[object]:
    """Return what only a copy of the record shares with it, block by block.

    A replay may part a prompt into one record a block; all keep the prompt's time.
    """
    if node.timestamp is None or not node.is_conversation:
        return []
    whose = (node.kind, node.timestamp, node.message_id, node.agent_id)
    return [(whose, b.kind, b.id, b.digest, b.size) for b in node.blocks]


def _choose_copy(
    first: RecordNode, second: RecordNode
) -> tuple[RecordNode, RecordNode, bool]:
    """Return the copy to keep, the one to drop, and whether they contradict."""
    clash = _comparable_content(first) != _comparable_content(second)
    keeps_first = not clash or first.position.length > second.position.length
    kept, dropped = (first, second) if keeps_first else (second, first)
    return structs.replace(kept, parent_uuid=first.parent_uuid), dropped, clash


def _comparable_content(node: RecordNode) -> object:
    return node.kind, node.subtype, node.blocks, node.digest, node.preview
