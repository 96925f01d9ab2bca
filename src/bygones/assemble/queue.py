"""Text that a person typed while Claude worked: what became of it."""

from __future__ import annotations

from collections.abc import Sequence

from bygones.model.base import Position, RecordId
from bygones.model.nodes import Origin, QueueFacts, RecordNode

__all__ = ["find_queued_prompts", "find_steering"]


def find_queued_prompts(nodes: Sequence[RecordNode]) -> frozenset[RecordId]:
    """Return the prompts that waited in the queue before they were sent.

    A text that waited once counts for one prompt: the same words may be typed again.
    """
    waiting: list[RecordNode] = []
    found = set()
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
                found.add(node.uuid)
    return frozenset(found)


def find_steering(nodes: Sequence[RecordNode]) -> list[RecordNode]:
    """Return the queued texts that reached the model and are recorded nowhere else.

    Before about 2.1.97 a text that was delivered while Claude worked stands only in
    the queue: put in, and then removed. One that was taken back into the editor, or
    that became a record of its own, is not steering. What was said before a text was
    put in is not that text, and a record that follows stands for one of its words.
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
            taken = _match_waiting(waiting, node)
            waiting.remove(taken)
            if operation == "remove" and _is_typed(taken):
                removed[taken.position] = taken
    if not removed:
        return []
    missing: dict[int, list[RecordNode]] = {}
    for node in nodes:
        if node.position in removed:
            missing.setdefault(node.digest, []).append(node)
        elif _is_recorded(node) and missing.get(node.digest):
            del removed[missing[node.digest].pop(0).position]
    return list(removed.values())


def _match_waiting(waiting: list[RecordNode], node: RecordNode) -> RecordNode:
    """Return the text that an operation names, else the one that waits longest."""
    named = (text for text in waiting if node.digest and text.digest == node.digest)
    return next(named, waiting[0])


def _is_typed(text: RecordNode) -> bool:
    return text.origin is Origin.PERSON and bool(text.digest)


def _is_recorded(node: RecordNode) -> bool:
    return node.kind in {"user", "attachment"} and node.origin is Origin.PERSON


def _queue_operation(node: RecordNode) -> str | None:
    return node.extra.operation if isinstance(node.extra, QueueFacts) else None
