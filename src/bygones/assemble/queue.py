"""Matches the texts of the prompt queue with operations on it, and with their records."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from bygones.model.base import RecordId
from bygones.model.nodes import Origin, QueueFacts, RecordNode


class QueuedText(Struct, frozen=True, array_like=True):
    """A text in the queue."""

    digest: int
    is_typed: bool
    index: int = -1
    """Its record; -1 if that is before the records that are assembled."""


class QueueState(Struct, frozen=True, array_like=True):
    """Queued texts that later records may belong to."""

    waiting: tuple[QueuedText, ...] = ()
    """Those that are still in the queue."""
    unsent: tuple[QueuedText, ...] = ()
    """Those for which no prompt was found."""
    unrecorded: frozenset[int] = frozenset()
    """Digests of those that were sent, but have no record of their own."""


EMPTY_QUEUE = QueueState()


class _Queue:
    """Texts in order; the oldest one of a digest is found without a search."""

    def __init__(self, texts: Sequence[QueuedText]) -> None:
        self._texts: OrderedDict[int, QueuedText] = OrderedDict()
        self._numbers: dict[int, deque[int]] = {}
        self._count = 0
        for text in texts:
            self.add(text)

    def __iter__(self) -> Iterator[QueuedText]:
        return iter(self._texts.values())

    def add(self, text: QueuedText) -> None:
        self._texts[self._count] = text
        self._numbers.setdefault(text.digest, deque()).append(self._count)
        self._count += 1

    def clear(self) -> None:
        self._texts.clear()
        self._numbers.clear()

    def take_named(self, digest: int) -> QueuedText | None:
        """Take the oldest text with a digest."""
        numbers = self._numbers.get(digest) if digest else None
        return self._texts.pop(numbers.popleft()) if numbers else None

    def take(self, digest: int) -> QueuedText | None:
        """Take the text that an operation names, by default the oldest."""
        named = self.take_named(digest)
        if named is not None or not self._texts:
            return named
        _, oldest = self._texts.popitem(last=False)
        self._numbers[oldest.digest].popleft()
        return oldest


def find_queued_prompts(
    nodes: Sequence[RecordNode], earlier: QueueState = EMPTY_QUEUE
) -> frozenset[RecordId]:
    """Return the prompts that waited in the queue before they were sent.

    Each queued text matches one prompt: the same text may be typed again. Texts that
    were queued before these records are in `earlier`.
    """
    found, _ = _match_prompts(nodes, earlier)
    return found


def _match_prompts(
    nodes: Sequence[RecordNode], earlier: QueueState
) -> tuple[frozenset[RecordId], _Queue]:
    waiting = _Queue(earlier.unsent)
    queued = set()
    for node in nodes:
        operation = _queue_operation(node) if node.extra is not None else None
        if operation == "enqueue":
            waiting.add(QueuedText(node.digest, _is_typed(node)))
        elif operation == "popAll":
            waiting.clear()
        elif operation == "remove":
            waiting.take(node.digest)
        elif (
            node.kind == "user"
            and node.uuid is not None
            and waiting.take_named(node.digest) is not None
        ):
            queued.add(node.uuid)
    return frozenset(queued), waiting


def find_steering(
    nodes: Sequence[RecordNode], earlier: QueueState = EMPTY_QUEUE
) -> list[RecordNode]:
    """Return the queued texts that reached the model but have no record of their own.

    Before about 2.1.97 a text that was delivered while Claude worked is only in the
    queue: added, then removed. Texts that went back to the editor, or that have a record
    after they were queued, are not steering. Each record matches one queued text.
    """
    removed = _match_operations(nodes, earlier).removed
    recorded = _match_records(nodes, removed) if removed else {}
    return [nodes[text] for text in removed if text not in recorded]


class _Operations(NamedTuple):
    """What operations did to the queue."""

    waiting: _Queue
    removed: dict[int, int]
    """Typed texts that were removed, and the operations that did it, by index."""
    has_removed_earlier: bool
    """Whether a typed text was removed that was queued before these records."""


def _match_operations(nodes: Sequence[RecordNode], earlier: QueueState) -> _Operations:
    waiting = _Queue(earlier.waiting)
    removed: dict[int, int] = {}
    has_removed_earlier = False
    for index, node in enumerate(nodes):
        operation = _queue_operation(node) if node.extra is not None else None
        if operation == "enqueue":
            waiting.add(QueuedText(node.digest, _is_typed(node), index))
        elif operation == "popAll":
            waiting.clear()
        elif operation in {"dequeue", "remove"}:
            text = waiting.take(node.digest)
            if text is None or not text.is_typed or operation == "dequeue":
                continue
            if text.index < 0:
                has_removed_earlier = True
            else:
                removed[text.index] = index
    return _Operations(waiting, removed, has_removed_earlier)


def _match_records(
    nodes: Sequence[RecordNode], removed: dict[int, int]
) -> dict[int, int]:
    """Return removed texts that have a record, and the record, by index."""
    unrecorded: dict[int, deque[int]] = {}
    recorded: dict[int, int] = {}
    for index, node in enumerate(nodes):
        if index in removed:
            unrecorded.setdefault(node.digest, deque()).append(index)
        elif node.digest and _is_recorded(node):
            texts = unrecorded.get(node.digest)
            if texts:
                recorded[texts.popleft()] = index
    return recorded


def find_queue_references(nodes: Sequence[RecordNode]) -> dict[int, int]:
    """Return records that decide whether a text before them is shown, and the text.

    Both are indexes. Other operations change nothing before them.
    """
    removed = _match_operations(nodes, EMPTY_QUEUE).removed
    if not removed:
        return {}
    found = {operation: text for text, operation in removed.items()}
    recorded = _match_records(nodes, removed)
    return found | {record: text for text, record in recorded.items()}


def continue_queue(
    nodes: Sequence[RecordNode], earlier: QueueState
) -> QueueState | None:
    """Return the queue after some records; `None` if they change what is shown before."""
    operations = _match_operations(nodes, earlier)
    if operations.has_removed_earlier:
        return None
    if earlier.unrecorded and any(
        node.digest in earlier.unrecorded and _is_recorded(node) for node in nodes
    ):
        return None
    _, unsent = _match_prompts(nodes, earlier)
    steering = find_steering(nodes, earlier)
    return QueueState(
        waiting=tuple(map(_without_index, operations.waiting)),
        unsent=tuple(map(_without_index, unsent)),
        unrecorded=earlier.unrecorded | {text.digest for text in steering},
    )


def _without_index(text: QueuedText) -> QueuedText:
    return QueuedText(text.digest, text.is_typed)


def _is_typed(text: RecordNode) -> bool:
    return text.origin is Origin.PERSON and bool(text.digest)


def _is_recorded(node: RecordNode) -> bool:
    return node.kind in {"user", "attachment"} and node.origin is Origin.PERSON


def _queue_operation(node: RecordNode) -> str | None:
    return node.extra.operation if isinstance(node.extra, QueueFacts) else None
