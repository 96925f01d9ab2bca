"""The tree of a session: records by parent, made whole where it is torn."""

from __future__ import annotations

from collections.abc import Container, Sequence
from functools import cached_property

from msgspec import Struct

from bygones.assemble.dedupe import TREE_KINDS
from bygones.model.base import Problem, RecordId
from bygones.model.nodes import CompactionFacts, Origin, RecordNode

__all__ = [
    "RecordTree",
    "build_tree",
    "join_fragments",
    "order_parents_first",
    "starts_new_root",
]


class RecordTree(Struct, frozen=True):
    """Records and their children, in the order of the file.

    A parent that no file holds is a *ghost*: it has children but no record. A circle
    of parents is opened at its first record, which then counts as a root.
    """

    nodes: dict[RecordId, RecordNode]
    """By id, in the order of the file."""
    children: dict[RecordId | None, tuple[RecordId, ...]]
    """Roots are the children of ``None``."""
    parents: dict[RecordId, RecordId | None]
    ghosts: frozenset[RecordId]
    problems: tuple[Problem, ...]

    @property
    def leaves(self) -> tuple[RecordId, ...]:
        """Records that no other names as parent."""
        return tuple(uuid for uuid in self.nodes if uuid not in self.children)


def order_parents_first(nodes: Sequence[RecordNode]) -> list[RecordNode]:
    """Return nodes in the order of the file, but none before its parent.

    What is written late was still said before what follows it.
    """
    order: dict[RecordId | None, int] = {
        n.uuid: at for at, n in enumerate(nodes) if n.uuid is not None
    }
    if all(order.get(n.parent_uuid, -1) <= at for at, n in enumerate(nodes)):
        return list(nodes)
    parents = {n.uuid: n.parent_uuid for n in nodes if n.uuid is not None}
    opened = {*_cycle_breaks(parents), *(u for u, p in parents.items() if u == p)}
    waiting: dict[RecordId | None, list[RecordNode]] = {}
    done: set[RecordId | None] = set()
    sequence: list[RecordNode] = []
    for node in nodes:
        above = node.parent_uuid if node.uuid not in opened else None
        if above in order and above not in done:
            waiting.setdefault(above, []).append(node)
            continue
        ready = [node]
        while ready:
            at = ready.pop()
            sequence.append(at)
            done.add(at.uuid)
            if at.uuid is not None:
                ready.extend(reversed(waiting.pop(at.uuid, [])))
    return sequence


def build_tree(
    nodes: Sequence[RecordNode], known_elsewhere: Container[RecordId] = ()
) -> RecordTree:
    """Return the tree of nodes that are in order and have every id once.

    A parent that is ``elsewhere`` (a fork goes on from its caller's) is no ghost. A
    record of an unknown type is in the tree if it hangs there, or something on it.
    """
    named = {node.parent_uuid for node in nodes}
    known = {
        n.uuid: n
        for n in nodes
        if n.uuid is not None
        and (n.kind in TREE_KINDS or n.parent_uuid is not None or n.uuid in named)
    }
    problems: list[Problem] = []
    parents: dict[RecordId, RecordId | None] = {}
    is_sound = True
    for uuid, node in known.items():
        parent = node.parent_uuid
        if parent == uuid:
            parent = None
            problems.append(Problem("self-parent", node.position, uuid))
        elif parent not in parents and parent in known:
            is_sound = False
        parents[uuid] = parent
    # A circle needs a record that stands before its parent.
    for uuid in () if is_sound else _cycle_breaks(parents):
        parents[uuid] = None
        problems.append(Problem("cycle", known[uuid].position, uuid))
    children: dict[RecordId | None, list[RecordId]] = {}
    ghosts: dict[RecordId, RecordId] = {}
    for uuid, parent in parents.items():
        children.setdefault(parent, []).append(uuid)
        if parent is not None and parent not in known and parent not in known_elsewhere:
            ghosts.setdefault(parent, uuid)
    problems += [Problem("ghost", known[c].position, g) for g, c in ghosts.items()]
    return RecordTree(
        nodes=known,
        children={parent: tuple(some) for parent, some in children.items()},
        parents=parents,
        ghosts=frozenset(ghosts),
        problems=tuple(problems),
    )


def _cycle_breaks(parents: dict[RecordId, RecordId | None]) -> list[RecordId]:
    """Return one record of each circle of parents: the first in the order."""
    order = {uuid: at for at, uuid in enumerate(parents)}
    done: set[RecordId] = set()
    openings = []
    for start in parents:
        path: list[RecordId] = []
        seen: set[RecordId] = set()
        at: RecordId | None = start
        while at is not None and at in parents and at not in done and at not in seen:
            path.append(at)
            seen.add(at)
            at = parents[at]
        if at is not None and at in seen:
            circle = path[path.index(at) :]
            openings.append(min(circle, key=order.__getitem__))
        done.update(path)
    return openings


def join_fragments(tree: RecordTree) -> dict[RecordId, RecordId | None]:
    """Return the parents with what is torn joined by the order of the file.

    A segment whose parent is missing hangs on the record before it; a compaction on
    the record it says it follows, or else on the one before it. What stays a root is
    the first record, and prompts with which a person began anew from nothing.
    """
    detached = _detached_commands(tree)
    roots = _RootFinder(tree, detached)
    joined: dict[RecordId, RecordId | None] = {}
    order: dict[RecordId, int] = {}
    begun = False
    boundary = -1
    last: RecordId | None = None
    for at, (uuid, node) in enumerate(tree.nodes.items()):
        parent = tree.parents[uuid]
        if parent in tree.nodes and uuid not in detached:
            joined[uuid] = parent
        elif begun and starts_new_root(tree, node):
            joined[uuid] = None
        else:
            # A compaction that points behind an earlier one is no way back.
            told = node.logical_parent_uuid
            follows = told if told and order.get(told, -1) > boundary else None
            joined[uuid] = roots.attach(uuid, follows) or roots.attach(uuid, last)
        begun = begun or _is_continued_prompt(tree, node)
        order[uuid] = at
        last = uuid
        if isinstance(node.extra, CompactionFacts):
            boundary = at
    return joined


def starts_new_root(tree: RecordTree, node: RecordNode) -> bool:
    """Whether a prompt has nothing before it, and something hanging on it."""
    is_root = node.parent_uuid is None and node.logical_parent_uuid is None
    return is_root and _is_continued_prompt(tree, node)


def _is_continued_prompt(tree: RecordTree, node: RecordNode) -> bool:
    is_prompt = node.kind == "user" and node.origin in _PROMPT_ORIGINS
    return is_prompt and node.uuid in tree.children


def _detached_commands(tree: RecordTree) -> frozenset[RecordId]:
    """Return the commands that hang on a caveat long past.

    Versions 1.0.35 to 1.0.57 hung every later command on the first caveat.
    """
    found = []
    last: RecordId | None = None
    for uuid, node in tree.nodes.items():
        parent = tree.parents[uuid]
        above = tree.nodes.get(parent) if parent is not None else None
        is_past = above is not None and parent != last and _is_caveat(above)
        if is_past and node.kind == "user" and node.origin in _AFTER_CAVEAT_ORIGINS:
            found.append(uuid)
        last = uuid
    return frozenset(found)


_PROMPT_ORIGINS = {Origin.PERSON, Origin.COMMAND, Origin.CALLER}
_AFTER_CAVEAT_ORIGINS = {Origin.COMMAND, Origin.COMMAND_OUTPUT, Origin.HARNESS}


def _is_caveat(node: RecordNode) -> bool:
    is_machine = node.kind == "user" and node.origin is Origin.HARNESS
    return is_machine and node.is_meta and node.source_call_id is None


class _RootFinder:
    """Finds the root of a record quickly, so that joining never closes a circle."""

    def __init__(self, tree: RecordTree, detached: frozenset[RecordId]) -> None:
        self._tree = tree
        self._detached = detached

    @cached_property
    def _parents(self) -> dict[RecordId, RecordId | None]:
        """The parent of each record; most trees are never asked for it."""
        nodes, detached = self._tree.nodes, self._detached
        return {
            uuid: parent if parent in nodes and uuid not in detached else None
            for uuid, parent in self._tree.parents.items()
        }

    def attach(self, uuid: RecordId, parent: RecordId | None) -> RecordId | None:
        """Hang a root on ``parent`` unless that is below it; return what it got."""
        if parent is None or self._find_root(parent) == self._find_root(uuid):
            return None
        self._parents[uuid] = parent
        return parent

    def _find_root(self, uuid: RecordId) -> RecordId:
        path = []
        at = uuid
        while (above := self._parents[at]) is not None:
            path.append(at)
            at = above
        for step in path:
            self._parents[step] = at
        return at
