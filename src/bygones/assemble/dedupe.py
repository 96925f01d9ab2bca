"""Sorts the transcripts of a session and removes copies of records."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from datetime import UTC, datetime
from zlib import crc32

from msgspec import structs

from bygones.model.base import Problem, RecordId, SourceId
from bygones.model.nodes import Origin, QueueFacts, RecordNode, Transcript
from bygones.model.summary import HiddenRecord

TREE_KINDS = frozenset(
    {"user", "assistant", "system", "attachment", "progress", "saved_hook_context"}
)
"""Types of records that form the tree; all others are metadata."""

_MAX_TIME = datetime.max.replace(tzinfo=UTC)


def sort_transcripts(transcripts: Iterable[Transcript]) -> tuple[Transcript, ...]:
    """Sort transcripts by their first timestamp, and the nodes of each by offset."""
    ordered = [
        structs.replace(
            transcript,
            nodes=tuple(sorted(transcript.nodes, key=lambda n: n.position.offset)),
        )
        for transcript in transcripts
    ]
    return tuple(sorted(ordered, key=_sort_key))


def _sort_key(transcript: Transcript) -> tuple[datetime, str]:
    return first_timestamp(transcript.nodes) or _MAX_TIME, transcript.source.id


def first_timestamp(nodes: Iterable[RecordNode]) -> datetime | None:
    return min(
        (node.timestamp for node in nodes if node.timestamp is not None), default=None
    )


def last_timestamp(nodes: Iterable[RecordNode]) -> datetime | None:
    return max(
        (node.timestamp for node in nodes if node.timestamp is not None), default=None
    )


def get_record_id(node: RecordNode) -> RecordId:
    """Return a record's id, or one made of its position if it has none."""
    return node.uuid or RecordId(f"@{node.position.source_id}:{node.position.offset}")


def file_id(source_id: SourceId) -> str:
    """Return an id for a file that has none: its name and a checksum of its path.

    Ids are exported, so they must not contain folders.
    """
    name = source_id.replace("\\", "/").rpartition("/")[2].removesuffix(".jsonl")
    return f"{name}-{crc32(source_id.encode('utf-8', 'surrogateescape')):08x}"


def is_caveat_command(node: RecordNode, parent: RecordNode) -> bool:
    """Whether a record is a command, also of the shell, or a caveat below a caveat.

    If other records are between the two, it follows those: versions 1.0.35 to 1.0.57
    made the first caveat the parent of every later command.
    """
    is_command = node.kind == "user" and node.origin in _AFTER_CAVEAT_ORIGINS
    is_harness = parent.kind == "user" and parent.origin is Origin.HARNESS
    is_caveat = is_harness and parent.is_meta and parent.source_call_id is None
    return is_command and is_caveat


_AFTER_CAVEAT_ORIGINS = {
    Origin.COMMAND,
    Origin.COMMAND_OUTPUT,
    Origin.SHELL,
    Origin.SHELL_OUTPUT,
    Origin.HARNESS,
}


def deduplicate(
    nodes: Sequence[RecordNode], excluded: Container[RecordId] = frozenset()
) -> tuple[list[RecordNode], list[HiddenRecord], list[Problem]]:
    """Return each record once, where it first appears, and what was removed.

    - Records in `excluded` are hidden.
    - A compaction may repeat records below its summary. The record stays at its first
      position; the parent of a copy is used only if the first parent is unknown.
    - If copies differ, the longer one is kept and a problem is reported.
    - A history that was replayed with new ids is recognized by its timestamps and
      contents, and prompts in one file also by their parents; children of the replay
      become children of the original.
    - Records of the tree without an id get one made of their position, and the record
      before them as parent.
    """
    deduplicator = _Deduplicator(_repeated_times(nodes))
    last: RecordId | None = None
    for node in nodes:
        if node.uuid in excluded:
            deduplicator.hide(node)
            last = node.uuid
            continue
        if node.kind not in TREE_KINDS and node.uuid is None:
            deduplicator.add_metadata(node)
            continue
        if node.uuid is None:
            node = structs.replace(node, uuid=get_record_id(node), parent_uuid=last)  # noqa: PLW2901
        deduplicator.add(node, get_record_id(node))
        if node.kind in TREE_KINDS:
            last = node.uuid
    return deduplicator.resolved_nodes(), deduplicator.hidden, deduplicator.problems


def _repeated_times(nodes: Iterable[RecordNode]) -> frozenset[datetime]:
    """Return the timestamps of several records: only those can be replays."""
    seen: set[datetime] = set()
    repeated = set()
    for node in nodes:
        time = node.timestamp
        if time is None:
            continue
        if time in seen:
            repeated.add(time)
        else:
            seen.add(time)
    return frozenset(repeated)


class _Deduplicator:
    """Collects nodes, and finds copies by id and by content."""

    def __init__(self, times: frozenset[datetime]) -> None:
        self._repeated_times = times
        self.nodes: list[RecordNode] = []
        self.hidden: list[HiddenRecord] = []
        self.problems: list[Problem] = []
        self._original_ids: dict[RecordId, RecordId] = {}
        self._alternate_parents: dict[RecordId, RecordId] = {}
        self._index_by_id: dict[RecordId, int] = {}
        self._id_by_content: dict[object, RecordId] = {}
        self._id_by_place: dict[tuple[object, RecordId | None], RecordId] = {}
        """By content and parent: several records may have one content and time."""
        self._actual_parents: dict[RecordId, RecordId | None] = {}
        self._last_message_id: RecordId | None = None
        self._queue_sources: dict[object, SourceId] = {}

    def add(self, node: RecordNode, uuid: RecordId) -> None:
        """Add a node unless it is a copy; of two versions keep the better one."""
        self._add(node, uuid, self._find_parent(node))
        if node.is_conversation:
            self._last_message_id = uuid

    def _add(
        self, node: RecordNode, uuid: RecordId, actual_parent: RecordId | None
    ) -> None:
        index = self._index_by_id.get(uuid)
        if index is not None:
            kept, dropped, clash = _choose_copy(self.nodes[index], node)
            self.nodes[index] = kept
            self.hide(dropped)
            if node.parent_uuid is not None:
                self._alternate_parents[uuid] = node.parent_uuid
            if clash:
                self.problems.append(Problem("clash", dropped.position, uuid))
            return
        keys = _content_keys(node) if node.timestamp in self._repeated_times else ()
        if keys and all(key in self._id_by_content for key in keys):
            place = keys[-1], actual_parent
            original = self._id_by_place.get(place, self._id_by_content[keys[-1]])
            if self._may_be_copy(node, actual_parent, original):
                self._original_ids[uuid] = original
                self.hide(node)
                return
        self._id_by_content.update(dict.fromkeys(keys, uuid))
        if keys:
            self._id_by_place[keys[-1], actual_parent] = uuid
        if actual_parent != node.parent_uuid:
            self._actual_parents[uuid] = actual_parent
        self._index_by_id[uuid] = len(self.nodes)
        self.nodes.append(node)

    def _find_parent(self, node: RecordNode) -> RecordId | None:
        """Return a record's parent; of a command below an old caveat the last message."""
        parent = self._original(node.parent_uuid)
        index = self._index_by_id.get(parent) if parent is not None else None
        if index is not None and is_caveat_command(node, self.nodes[index]):
            return self._original(self._last_message_id)
        return parent

    def _may_be_copy(
        self, node: RecordNode, parent: RecordId | None, original_id: RecordId
    ) -> bool:
        """Whether a record with the content and the time of another is a copy of it.

        It is if the API gave the content an id: a replay joins parallel calls in another
        order, so that its parents differ. Old versions gave all copied records of a
        resumed file the same time, so that its interruptions differ by their parents
        only. A block of a split prompt follows the block before it, and the first record
        that a compaction repeats follows the summary.
        """
        if node.message_id is not None or any(block.id for block in node.blocks):
            return True
        original = self.nodes[self._index_by_id[original_id]]
        if original.position.source_id != node.position.source_id:
            return True
        original_parent = self._actual_parents.get(original_id, original.parent_uuid)
        if parent in {self._original(original_parent), original_id}:
            return True
        index = self._index_by_id.get(parent) if parent is not None else None
        return index is not None and self.nodes[index].origin is Origin.COMPACTION

    def _original(self, uuid: RecordId | None) -> RecordId | None:
        return self._original_ids.get(uuid, uuid) if uuid is not None else None

    def add_metadata(self, node: RecordNode) -> None:
        """Add a record outside the tree; queue operations from one file only."""
        if isinstance(node.extra, QueueFacts) and node.timestamp is not None:
            key = (node.extra.operation, node.timestamp, node.digest)
            source = self._queue_sources.setdefault(key, node.position.source_id)
            if source != node.position.source_id:
                self.hide(node)
                return
        self.nodes.append(node)

    def hide(self, node: RecordNode) -> None:
        self.hidden.append(HiddenRecord("copy", node.position, node.uuid))

    def resolved_nodes(self) -> list[RecordNode]:
        """Return the nodes, with parents that are copies replaced by the originals."""
        if not self._original_ids and not self._alternate_parents:
            return self.nodes
        return [self._resolve_parents(node) for node in self.nodes]

    def _resolve_parents(self, node: RecordNode) -> RecordNode:
        parent, logical = node.parent_uuid, node.logical_parent_uuid
        if parent not in self._index_by_id and parent not in self._original_ids:
            parent = self._alternate_parents.get(get_record_id(node), parent)
        parent, logical = self._original(parent), self._original(logical)
        if (parent, logical) == (node.parent_uuid, node.logical_parent_uuid):
            return node
        return structs.replace(node, parent_uuid=parent, logical_parent_uuid=logical)


def _content_keys(node: RecordNode) -> list[object]:
    """Return one key per block that only copies of the record share.

    A replay may split a prompt into one record per block, all with the prompt's time.
    """
    if node.timestamp is None or not node.is_conversation:
        return []
    record = (node.kind, node.timestamp, node.message_id, node.agent_id)
    return [(record, b.kind, b.id, b.digest, b.size) for b in node.blocks]


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
