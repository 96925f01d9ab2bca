"""Which forks of the tree are rewinds, and which branch every record is on.

Trees fork without anybody going back: parallel calls fan out, results and notices
hang beside the path, answers are tried again, commands are noted in passing. Only a
person's prompt beside another way on is a rewind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from msgspec import Struct

from bygones.assemble.tree import Tree, begins_anew
from bygones.model.ids import RecordId, ToolUseId
from bygones.model.nodes import Node
from bygones.model.texts import Origin

__all__ = ["Fork", "Growth", "part"]

_PROMPTS = {Origin.PERSON, Origin.CALLER}
_TYPED = {*_PROMPTS, Origin.COMMAND}


class Fork(Struct, frozen=True):
    """A branch that was left, or that left another: where, and with which prompt."""

    number: int
    parent: int
    at: RecordId | None
    """The last shared record; ``None`` if it begins anew from nothing."""
    head: RecordId


class Growth(Struct, frozen=True):
    """The branch of every record: 0 is live, every other is a fork."""

    branch: dict[RecordId, int]
    forks: tuple[Fork, ...]


class _View(Struct, frozen=True):
    """What the question of a rewind needs to know."""

    tree: Tree
    keys: Mapping[RecordId, str]
    below: Mapping[RecordId, _Below]
    queued: frozenset[RecordId]

    def head(self, way: list[RecordId]) -> Node:
        """Return the first record of a way that is not merely structural."""
        return self.tree.nodes[self.below[way[0]].head or way[0]]


class _Below(Struct, gc=False):
    """What is at and below a record."""

    latest: int
    """The order of the last prompt, answer or result in it."""
    has_prompt: bool
    has_answer: bool
    head: RecordId | None
    """The first record in it that is not merely structural."""


def part(
    tree: Tree,
    joined: Mapping[RecordId, RecordId | None],
    queued: frozenset[RecordId] = frozenset(),
) -> Growth:
    """Return the branches of a tree whose torn parts have been joined.

    ``queued`` are prompts that waited in the queue: they hang where the session was
    when they were typed, and going on from there is no rewind.
    """
    children: dict[RecordId | None, list[RecordId]] = {}
    for uuid in tree.nodes:
        children.setdefault(joined[uuid], []).append(uuid)
    if not any(_may_leave(tree, joined, children)):
        return Growth(dict.fromkeys(tree.nodes, 0), ())
    keys = _keys(tree)
    view = _View(tree, keys, _survey(tree, children, keys), queued)
    branch: dict[RecordId, int] = {}
    places: list[tuple[int, RecordId | None]] = []
    waiting: list[RecordId | None] = [None]
    while waiting:
        at = waiting.pop()
        number = 0 if at is None else branch[at]
        some = children.get(at, [])
        left = _left(view, at, some)
        for child in some:
            branch[child] = number
        for group in left:
            places.append((number, at))
            for child in group:
                branch[child] = len(places)
        waiting.extend(reversed(some))
    # What a branch begins with is known when those that left it in turn are.
    heads: dict[int, RecordId] = {}
    for uuid in tree.nodes:
        if uuid in keys:
            heads.setdefault(branch[uuid], uuid)
    forks = (
        Fork(number, parent, at, heads[number])
        for number, (parent, at) in enumerate(places, 1)
    )
    return Growth(branch, tuple(forks))


def _may_leave(
    tree: Tree,
    joined: Mapping[RecordId, RecordId | None],
    children: Mapping[RecordId | None, list[RecordId]],
) -> Iterator[bool]:
    """Yield whether what was typed may begin a way beside another, each time.

    It, or a record that is looked through on the way to it, hangs beside another.
    Most forks are calls made at once: all that follows is spared to them.
    """
    nodes = tree.nodes
    for uuid, node in nodes.items():
        if node.kind != "user" or node.origin not in _TYPED:
            continue
        at: RecordId | None = uuid
        while at is not None:
            above = joined[at]
            if len(children[above]) > 1:
                yield True
            at = above if above and not _is_said(nodes[above]) else None


def _is_said(node: Node) -> bool:
    """Whether a record certainly has a key."""
    is_typed = node.kind == "user" and node.origin in _TYPED
    return node.kind == "assistant" or is_typed


def _keys(tree: Tree) -> dict[RecordId, str]:
    """Return what each record belongs to: its answer, or itself for a prompt.

    Records without a key are structural and are looked through.
    """
    answers: dict[ToolUseId, str] = {}
    keys: dict[RecordId, str] = {}
    for uuid, node in tree.nodes.items():
        if node.kind == "assistant":
            keys[uuid] = f"m:{node.message or uuid}"
            for block in node.blocks:
                if block.name is not None and block.id is not None:
                    answers.setdefault(block.id, keys[uuid])
    for uuid, node in tree.nodes.items():
        if node.kind != "user":
            continue
        if node.origin is Origin.TOOL:
            ids = (block.id for block in node.blocks if block.id in answers)
            call = next(ids, None)
            if call is not None:
                keys[uuid] = answers[call]
        elif node.origin in _TYPED:
            keys[uuid] = f"u:{uuid}"
    return keys


def _survey(
    tree: Tree,
    children: Mapping[RecordId | None, list[RecordId]],
    keys: Mapping[RecordId, str],
) -> dict[RecordId, _Below]:
    """Return what is below each record, leaves first and without recursion."""
    order = {uuid: at for at, uuid in enumerate(tree.nodes)}
    below: dict[RecordId, _Below] = {}
    for uuid in reversed(list(_downwards(children))):
        node = tree.nodes[uuid]
        here = _Below(
            latest=order[uuid] if node.is_conversation and not node.is_meta else -1,
            has_prompt=node.kind == "user" and node.origin in _PROMPTS,
            has_answer=node.kind == "assistant" and not node.is_synthetic,
            head=uuid if uuid in keys else None,
        )
        heads = []
        for child in children.get(uuid, ()):
            there = below[child]
            here.latest = max(here.latest, there.latest)
            here.has_prompt |= there.has_prompt
            here.has_answer |= there.has_answer
            if there.head is not None:
                heads.append(there.head)
        if here.head is None and heads:
            here.head = min(heads, key=order.__getitem__)
        below[uuid] = here
    return below


def _downwards(
    children: Mapping[RecordId | None, list[RecordId]],
) -> Iterator[RecordId]:
    waiting = list(children.get(None, ()))
    while waiting:
        uuid = waiting.pop()
        yield uuid
        waiting.extend(children.get(uuid, ()))


def _left(
    view: _View, at: RecordId | None, some: list[RecordId]
) -> list[list[RecordId]]:
    """Return the groups of children that a rewind left behind, oldest first."""
    if len(some) < 2:  # noqa: PLR2004 (a fork)
        return []
    groups: dict[str, list[RecordId]] = {}
    for child in some:
        # Of the roots, the first and those with which a person began anew are ways.
        is_way = child == some[0] or begins_anew(view.tree, view.tree.nodes[child])
        head = view.below[child].head
        if head is not None and (at is not None or is_way):
            groups.setdefault(view.keys[head], []).append(child)
    ways = [way for way in groups.values() if _leads_on(view, way)]
    ways = _without_retries(view, ways)
    typed = [number for number, way in enumerate(ways) if _is_typed(view, way)]
    # An answer that hangs beside later than every prompt was not gone back to.
    ways = ways[: max(typed, default=-1) + 1]
    if len(ways) < 2:  # noqa: PLR2004
        return []
    live = max(ways, key=lambda way: max(view.below[child].latest for child in way))
    return [way for way in ways if way is not live]


def _leads_on(view: _View, way: list[RecordId]) -> bool:
    """Whether leaving this way would leave something that a person typed."""
    return any(view.below[child].has_prompt for child in way) or _is_typed(view, way)


def _is_typed(view: _View, way: list[RecordId]) -> bool:
    """Whether a way begins with what a person typed there, not with an answer.

    A command that nothing answers is noted in passing and begins nothing.
    """
    head = view.head(way)
    if head.origin is Origin.COMMAND:
        below = [view.below[child] for child in way]
        return any(some.has_answer or some.has_prompt for some in below)
    return head.origin in _PROMPTS and head.uuid not in view.queued


def _without_retries(view: _View, ways: list[list[RecordId]]) -> list[list[RecordId]]:
    """Drop ways that begin with the same prompt as a later one, and led nowhere.

    The same words at the same time are a compaction's replay; the same words after
    no answer are a second try.
    """
    kept = []
    later: dict[int, set[datetime | None]] = {}
    for way in reversed(ways):
        head = view.head(way)
        again = later.setdefault(head.digest, set())
        answered = any(view.below[child].has_answer for child in way)
        if not (head.digest and again and (not answered or head.time in again)):
            kept.append(way)
        again.add(head.time)
    return kept[::-1]
