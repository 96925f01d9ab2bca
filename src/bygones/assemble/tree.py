"""The tree of a session's records, with missing links repaired."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from msgspec import Struct

from bygones.assemble.dedupe import TREE_KINDS, is_caveat_command
from bygones.model.base import Problem, RecordId
from bygones.model.nodes import CompactionFacts, Origin, RecordNode, TitleFacts


class RecordTree(Struct, frozen=True):
    """Records and their children, in file order.

    A *ghost* is a parent that is in no file: it has children but no record. A cycle of
    parents is broken at its first record, which becomes a root.
    """

    nodes: dict[RecordId, RecordNode]
    """By id, in file order."""
    children: dict[RecordId | None, tuple[RecordId, ...]]
    """Roots are the children of `None`."""
    parents: dict[RecordId, RecordId | None]
    ghosts: frozenset[RecordId]
    problems: tuple[Problem, ...]

    @property
    def leaves(self) -> tuple[RecordId, ...]:
        """Records without children."""
        return tuple(uuid for uuid in self.nodes if uuid not in self.children)


def order_parents_first(nodes: Sequence[RecordNode]) -> list[RecordNode]:
    """Return nodes in file order, but each after its parent.

    A record may be written late, after its children.
    """
    index: dict[RecordId | None, int] = {
        n.uuid: i for i, n in enumerate(nodes) if n.uuid is not None
    }
    if all(index.get(n.parent_uuid, -1) <= i for i, n in enumerate(nodes)):
        return list(nodes)
    parents = {n.uuid: n.parent_uuid for n in nodes if n.uuid is not None}
    roots = {*find_cycle_breaks(parents), *(u for u, p in parents.items() if u == p)}
    waiting: dict[RecordId | None, list[RecordNode]] = {}
    done: set[RecordId | None] = set()
    ordered: list[RecordNode] = []
    for node in nodes:
        parent = node.parent_uuid if node.uuid not in roots else None
        if parent in index and parent not in done:
            waiting.setdefault(parent, []).append(node)
            continue
        ready = [node]
        while ready:
            current = ready.pop()
            ordered.append(current)
            done.add(current.uuid)
            if current.uuid is not None:
                ready.extend(reversed(waiting.pop(current.uuid, [])))
    return ordered


def build_tree(
    nodes: Sequence[RecordNode], known_elsewhere: Container[RecordId] = ()
) -> RecordTree:
    """Return the tree of ordered nodes with distinct ids.

    A parent in `known_elsewhere` is not a ghost: an agent may continue from a record of
    its caller. A record of an unknown type is in the tree if it has a parent or children.
    """
    parent_ids = {node.parent_uuid for node in nodes}
    known = {
        n.uuid: n
        for n in nodes
        if n.uuid is not None
        and (n.kind in TREE_KINDS or n.parent_uuid is not None or n.uuid in parent_ids)
    }
    problems: list[Problem] = []
    parents: dict[RecordId, RecordId | None] = {}
    is_ordered = True
    for uuid, node in known.items():
        parent = node.parent_uuid
        if parent == uuid:
            parent = None
            problems.append(Problem("self-parent", node.position, uuid))
        elif parent not in parents and parent in known:
            is_ordered = False
        parents[uuid] = parent
    # A cycle contains a record that comes before its parent.
    for uuid in () if is_ordered else find_cycle_breaks(parents):
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
        children={parent: tuple(ids) for parent, ids in children.items()},
        parents=parents,
        ghosts=frozenset(ghosts),
        problems=tuple(problems),
    )


def find_cycle_breaks(parents: dict[RecordId, RecordId | None]) -> list[RecordId]:
    """Return the first record of each cycle of parents."""
    index = {uuid: i for i, uuid in enumerate(parents)}
    done: set[RecordId] = set()
    breaks = []
    for start in parents:
        path: list[RecordId] = []
        seen: set[RecordId] = set()
        uuid: RecordId | None = start
        while uuid in parents and uuid not in done and uuid not in seen:
            path.append(uuid)
            seen.add(uuid)
            uuid = parents[uuid]
        if uuid is not None and uuid in seen:
            cycle = path[path.index(uuid) :]
            breaks.append(min(cycle, key=index.__getitem__))
        done.update(path)
    return breaks


NIL_RECORD_ID = RecordId("00000000-0000-0000-0000-000000000000")


def find_restarts(nodes: Iterable[RecordNode]) -> frozenset[RecordId]:
    """Return the first prompt after each rewind that the client marked.

    The client writes the mark, a `last-prompt` record with the nil uuid, after the prompt.
    """
    restarts = []
    prompt: RecordId | None = None
    for node in nodes:
        facts = node.extra
        if node.kind == "user" and node.origin in _PROMPT_ORIGINS:
            prompt = node.uuid
        elif (
            prompt is not None
            and isinstance(facts, TitleFacts)
            and facts.is_explicit
            and facts.leaf_id == NIL_RECORD_ID
        ):
            restarts.append(prompt)
    return frozenset(restarts)


def find_current_leaf(nodes: Sequence[RecordNode], tree: RecordTree) -> RecordId | None:
    """Return the record from which the client would continue, if the file names it.

    That is the leaf of the last `last-prompt` record, unless a prompt elsewhere follows.
    """
    leaf, last_prompt = find_named_leaf(nodes, tree)
    if leaf is None or last_prompt is None:
        return leaf
    return leaf if leaf in _iter_ancestors(tree, last_prompt) else None


def find_named_leaf(
    nodes: Sequence[RecordNode], tree: RecordTree
) -> tuple[RecordId | None, RecordId | None]:
    """Return the leaf of the last `last-prompt` record, and the last prompt after it."""
    last_prompt: RecordId | None = None
    for node in reversed(nodes):
        facts = node.extra
        if node.kind == "user" and node.origin in _PROMPT_ORIGINS and node.uuid:
            last_prompt = last_prompt or node.uuid
        elif node.kind == "last-prompt" and isinstance(facts, TitleFacts):
            if facts.leaf_id == NIL_RECORD_ID:
                return None, None
            if facts.leaf_id in tree.nodes:
                return facts.leaf_id, last_prompt
    return None, None


def _iter_ancestors(tree: RecordTree, uuid: RecordId | None) -> Iterator[RecordId]:
    """Yield a record and its ancestors."""
    while uuid is not None:
        yield uuid
        uuid = tree.parents.get(uuid)


def join_fragments(
    tree: RecordTree, restarts: Container[RecordId] = ()
) -> dict[RecordId, RecordId | None]:
    """Return the parent of each record, with fragments joined in file order.

    A fragment whose parent is missing continues the record before it; a compaction
    continues the record that it names, or the one before it. Roots are the first record,
    and prompts with which the user started over, or the notice before such a prompt if
    the client marked it (`restarts`).
    """
    restart_roots = {
        root for root in _restart_roots(tree, restarts) if root is not None
    }
    detached = _detached_commands(tree)
    roots = _RootFinder(tree, detached)
    joined: dict[RecordId, RecordId | None] = {}
    index: dict[RecordId, int] = {}
    has_prompt = False
    last_compaction = -1
    last: RecordId | None = None
    for i, (uuid, node) in enumerate(tree.nodes.items()):
        parent = tree.parents[uuid]
        if parent in tree.nodes and uuid not in detached:
            joined[uuid] = parent
        elif has_prompt and (starts_new_root(tree, node) or uuid in restart_roots):
            joined[uuid] = None
        else:
            # A parent before an earlier compaction would skip that compaction.
            named = _named_parent(node, index, last)
            logical = (
                named if named and index.get(named, -1) > last_compaction else None
            )
            joined[uuid] = roots.attach(uuid, logical) or roots.attach(uuid, last)
        has_prompt = has_prompt or _is_continued_prompt(tree, node)
        index[uuid] = i
        last = uuid
        if isinstance(node.extra, CompactionFacts):
            last_compaction = i
    return joined


def _restart_roots(
    tree: RecordTree, restarts: Container[RecordId]
) -> Iterator[RecordId | None]:
    """Yield the root of each marked prompt that follows notices only."""
    for uuid in tree.nodes:
        if uuid not in restarts:
            continue
        root: RecordId | None = None
        for ancestor in _iter_ancestors(tree, uuid):
            node = tree.nodes.get(ancestor)
            if node is None or (ancestor != uuid and node.is_conversation):
                break
            root = ancestor
        else:
            yield root


def _named_parent(
    node: RecordNode, index: Mapping[RecordId, int], last: RecordId | None
) -> RecordId | None:
    """Return the record that a fragment without a parent names as the one before it.

    "Summarize from here" names the record before the summarized ones, and "Summarize up
    to here" the last summarized one, before those that it preserved. Both were said
    before the compaction.
    """
    facts = node.extra
    if not isinstance(facts, CompactionFacts):
        return node.logical_parent_uuid
    if facts.anchor_id is not None and facts.anchor_id == node.uuid:
        return last
    known = [record for record in facts.preserved_ids if record in index]
    if node.logical_parent_uuid is not None:
        known.append(node.logical_parent_uuid)
    return max(known, key=lambda record: index.get(record, -1), default=None)


def starts_new_root(tree: RecordTree, node: RecordNode) -> bool:
    """Whether a record is a prompt with children and without a parent."""
    is_root = node.parent_uuid is None and node.logical_parent_uuid is None
    return is_root and _is_continued_prompt(tree, node)


def _is_continued_prompt(tree: RecordTree, node: RecordNode) -> bool:
    is_prompt = node.kind == "user" and node.origin in _PROMPT_ORIGINS
    return is_prompt and node.uuid in tree.children


def _detached_commands(tree: RecordTree) -> frozenset[RecordId]:
    """Return the commands, also of the shell, whose parent is an old caveat.

    Versions 1.0.35 to 1.0.57 made the first caveat the parent of every later command.
    """
    detached = []
    last: RecordId | None = None
    for uuid, node in tree.nodes.items():
        parent_id = tree.parents[uuid]
        parent = tree.nodes.get(parent_id) if parent_id is not None else None
        if parent_id != last and parent is not None and is_caveat_command(node, parent):
            detached.append(uuid)
        last = uuid
    return frozenset(detached)


_PROMPT_ORIGINS = {Origin.PERSON, Origin.COMMAND, Origin.CALLER}


class _RootFinder:
    """Finds the root of a record, so that joining fragments never creates a cycle."""

    def __init__(self, tree: RecordTree, detached: frozenset[RecordId]) -> None:
        self._tree = tree
        self._detached = detached

    @cached_property
    def _parents(self) -> dict[RecordId, RecordId | None]:
        """The parent of each record; created on demand, most trees have no fragments."""
        nodes, detached = self._tree.nodes, self._detached
        return {
            uuid: parent if parent in nodes and uuid not in detached else None
            for uuid, parent in self._tree.parents.items()
        }

    def attach(self, uuid: RecordId, parent: RecordId | None) -> RecordId | None:
        """Make `parent` the parent of a root and return it, unless it is a descendant."""
        if parent is None or self._find_root(parent) == self._find_root(uuid):
            return None
        self._parents[uuid] = parent
        return parent

    def _find_root(self, uuid: RecordId) -> RecordId:
        path = []
        while (parent := self._parents[uuid]) is not None:
            path.append(uuid)
            uuid = parent
        for step in path:
            self._parents[step] = uuid
        return uuid
