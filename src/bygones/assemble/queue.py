"""Prompts that were typed while Claude worked and waited in the queue."""

from __future__ import annotations

from collections.abc import Sequence

from bygones.model.base import Position, RecordId
from bygones.model.nodes import Origin, QueueFacts, RecordNode


def find_queued_prompts(nodes: Sequence[RecordNode]) -> frozenset[RecordId]:
    """Return the prompts that waited in the queue before they were sent.

    Each queued text matches one prompt: the same text may be typed again.
    """
    waiting: list[RecordNode] = []
    queued = set()
    for node in nodes:
        operation = _queue_operation(node) if node.extra is not None else None
        if operation == "enqueue":
            waiting.append(node)
        elif operation == "popAll":
            waiting.clear()
        elif operation == "remove" and waiting:
            waiting.remove(_match_waiting(waiting, node))
        elif waiting and node.kind == "user" and node.digest and node.uuid is not None:
            same = [text for text in waiting if text.digest == node.digest]
            if same:
                waiting.remove(same[0])
                queued.add(node.uuid)
    return frozenset(queued)


def find_steering(nodes: Sequence[RecordNode]) -> list[RecordNode]:
    """Return the queued texts that reached the model but have no record of their own.

    Before about 2.1.97 a text that was delivered while Claude worked is only in the
    queue: added, then removed. Texts that went back to the editor, or that have a record
    after they were queued, are not steering. Each record matches one queued text.
    """
    nodes = [node for node in nodes if node.digest or node.extra is not None]
    waiting: list[RecordNode] = []
    removed: dict[Position, RecordNode] = {}
    for node in nodes:
        operation = _queue_operation(node)
        if operation == "enqueue":
            waiting.append(node)
        elif operation == "popAll":
            waiting.clear()
        elif operation in {"dequeue", "remove"} and waiting:
            text = _match_waiting(waiting, node)
            waiting.remove(text)
            if operation == "remove" and _is_typed(text):
                removed[text.position] = text
    if not removed:
        return []
    unrecorded: dict[int, list[RecordNode]] = {}
    for node in nodes:
        if node.position in removed:
            unrecorded.setdefault(node.digest, []).append(node)
        elif _is_recorded(node) and unrecorded.get(node.digest):
            del removed[unrecorded[node.digest].pop(0).position]
    return list(removed.values())


def _match_waiting(waiting: list[RecordNode], node: RecordNode) -> RecordNode:
    """Return the text that an operation names, by default the oldest."""
    named = (text for text in waiting if node.digest and text.digest == node.digest)
    return next(named, waiting[0])


def _is_typed(text: RecordNode) -> bool:
    return text.origin is Origin.PERSON and bool(text.digest)


def _is_recorded(node: RecordNode) -> bool:
    return node.kind in {"user", "attachment"} and node.origin is Origin.PERSON


def _queue_operation(node: RecordNode) -> str | None:
    return node.extra.operation if isinstance(node.extra, QueueFacts) else None
