"""Assigns every record to a branch, and builds branches and turns.

Not every fork of the tree is a rewind: parallel calls fan out, results and notices have
no children, answers are retried, commands are recorded in passing. Only a typed prompt
that is a sibling of another continuation is a rewind.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from itertools import accumulate, zip_longest
from typing import NamedTuple

from msgspec import Struct, structs

from bygones.assemble.dedupe import get_record_id
from bygones.assemble.durations import TurnTimes, find_copy_times, measure_turn
from bygones.assemble.tree import RecordTree, starts_new_root
from bygones.assemble.usage import usage_by_message
from bygones.model.base import RecordId, SessionId, ToolUseId
from bygones.model.nodes import Origin, RecordNode
from bygones.model.sessions import Branch, CutTurn, Message, Turn, TurnPath
from bygones.model.summary import MessageUsage, Role
from bygones.model.usage import Usage

_PROMPT_ORIGINS = {Origin.PERSON, Origin.CALLER}
_TYPED_ORIGINS = {*_PROMPT_ORIGINS, Origin.COMMAND}


class Fork(Struct, frozen=True):
    """Where a branch starts, and with which record."""

    number: int
    parent_number: int
    fork_point_id: RecordId | None
    """The last shared record; `None` if the branch has its own root."""
    first_record_id: RecordId
    session_id: SessionId | None = None
    """The session of a root that shares none of its records with this one."""


class BranchLayout(Struct, frozen=True):
    """The branch of every record; 0 is the live one."""

    branch_of: dict[RecordId, int]
    forks: tuple[Fork, ...]


class _RewindContext(Struct, frozen=True):
    """What is needed to recognize rewinds."""

    tree: RecordTree
    message_keys: Mapping[RecordId, str]
    subtrees: Mapping[RecordId, _SubtreeFacts]
    queued_prompts: frozenset[RecordId]
    current_path: frozenset[RecordId]
    """The record from which the client would continue, and its ancestors."""
    session_id: SessionId | None

    def first_node(self, path: list[RecordId]) -> RecordNode:
        """Return the first record of a path that belongs to a message."""
        return self.tree.nodes[self.subtrees[path[0]].first_record_id or path[0]]


class _SubtreeFacts(Struct, gc=False):
    """Facts about a record and its descendants."""

    latest_index: int
    """Index of the last prompt, answer or result."""
    has_prompt: bool
    has_answer: bool
    first_record_id: RecordId | None
    """The first record that belongs to a message."""


def assign_branches(
    tree: RecordTree,
    parents: Mapping[RecordId, RecordId | None],
    queued_prompts: frozenset[RecordId] = frozenset(),
    current_leaf: RecordId | None = None,
    *,
    session_id: SessionId | None = None,
) -> BranchLayout:
    """Assign branches, given the parents from `join_fragments`.

    The parent of a queued prompt is the record at the time of typing, so a sibling of
    such a prompt does not mean a rewind. The live branch contains `current_leaf`, or the
    latest message if that is not known. A root of another session than `session_id` is a
    branch of that session.
    """
    children: dict[RecordId | None, list[RecordId]] = {}
    for uuid in tree.nodes:
        children.setdefault(parents[uuid], []).append(uuid)
    if not any(_possible_rewinds(tree, parents, children)):
        return BranchLayout(dict.fromkeys(tree.nodes, 0), ())
    keys = _message_keys(tree)
    context = _RewindContext(
        tree,
        keys,
        _summarize_subtrees(tree, children, keys),
        queued_prompts,
        frozenset(iter_path(parents, current_leaf)),
        session_id,
    )
    branch_of: dict[RecordId, int] = {}
    fork_points: list[tuple[int, RecordId | None]] = []
    stack: list[RecordId | None] = [None]
    while stack:
        parent = stack.pop()
        number = 0 if parent is None else branch_of[parent]
        siblings = children.get(parent, [])
        for child in siblings:
            branch_of[child] = number
        for path in _abandoned_paths(context, parent, siblings):
            fork_points.append((number, parent))
            for child in path:
                branch_of[child] = len(fork_points)
        stack.extend(reversed(siblings))
    # The first record is known only now: it may belong to a branch of the branch.
    first_records: dict[int, RecordId] = {}
    for record_id in tree.nodes:
        if record_id in keys:
            first_records.setdefault(branch_of[record_id], record_id)
    others = _other_sessions(tree, branch_of, session_id)
    forks = (
        Fork(
            number,
            parent_number,
            fork_point,
            first_records[number],
            others.get(number) if fork_point is None else None,
        )
        for number, (parent_number, fork_point) in enumerate(fork_points, 1)
    )
    return BranchLayout(branch_of, tuple(forks))


def _other_sessions(
    tree: RecordTree,
    branch_of: Mapping[RecordId, int],
    session_id: SessionId | None,
) -> dict[int, SessionId]:
    """Return the session of each branch whose records all name one other session.

    A resumed file also has copies that name its predecessor, but on the live branch.
    """
    sessions: dict[int, set[SessionId]] = {}
    for uuid, node in tree.nodes.items():
        if node.session_id is not None:
            sessions.setdefault(branch_of[uuid], set()).add(node.session_id)
    of_session = {*sessions.get(0, ()), session_id}
    return {
        number: next(iter(names))
        for number, names in sessions.items()
        if session_id is not None and len(names) == 1 and names.isdisjoint(of_session)
    }


def find_open_forks(
    tree: RecordTree, parents: Mapping[RecordId, RecordId | None], last: RecordId
) -> tuple[bool, bool]:
    """Return whether a later prompt, or a later answer, could make a fork a rewind.

    That is so at a fork before `last` if no prompt, or no answer, follows it on the
    path to `last`. Parallel calls of one answer are not a fork.
    """
    children: dict[RecordId | None, list[RecordId]] = {}
    for record_id in tree.nodes:
        children.setdefault(parents[record_id], []).append(record_id)
    keys: Mapping[RecordId, str] | None = None
    order: Mapping[RecordId, int] = {}
    has_prompt = has_answer = needs_prompt = needs_answer = False
    uuid: RecordId | None = last
    while uuid is not None and not (has_prompt and has_answer):
        node = tree.nodes[uuid]
        has_prompt |= node.kind == "user" and node.origin in _PROMPT_ORIGINS
        has_answer |= node.kind == "assistant" and not node.is_synthetic
        siblings = children[parents[uuid]]
        if len(siblings) > 1:
            if keys is None:
                keys = _message_keys(tree)
                order = {record_id: i for i, record_id in enumerate(tree.nodes)}
            found = {_first_key(one, order, children, keys) for one in siblings}
            if len(found - {None}) > 1:
                needs_prompt |= not has_prompt
                needs_answer |= not has_answer
        uuid = parents[uuid]
    return needs_prompt, needs_answer


def _first_key(
    uuid: RecordId,
    order: Mapping[RecordId, int],
    children: Mapping[RecordId | None, list[RecordId]],
    keys: Mapping[RecordId, str],
) -> str | None:
    """Return the key of the first message in a subtree, in file order."""
    found: list[RecordId] = []
    stack = [uuid]
    while stack:
        record_id = stack.pop()
        if record_id in keys:
            found.append(record_id)
        else:
            stack.extend(children.get(record_id, ()))
    if not found:
        return None
    return keys[min(found, key=order.__getitem__)]


def iter_path(
    parents: Mapping[RecordId, RecordId | None], uuid: RecordId | None
) -> Iterator[RecordId]:
    """Yield a record and its ancestors."""
    while uuid is not None:
        yield uuid
        uuid = parents[uuid]


def _possible_rewinds(
    tree: RecordTree,
    parents: Mapping[RecordId, RecordId | None],
    children: Mapping[RecordId | None, list[RecordId]],
) -> Iterator[bool]:
    """Yield `True` for each typed record that may start a branch.

    That is one with siblings, or whose ancestors up to the next message have siblings.
    Most sessions have none, and need no further analysis.
    """
    nodes = tree.nodes
    for start, node in nodes.items():
        if node.kind != "user" or node.origin not in _TYPED_ORIGINS:
            continue
        uuid: RecordId | None = start
        while uuid is not None:
            parent = parents[uuid]
            if len(children[parent]) > 1:
                yield True
            uuid = parent if parent and not _has_certain_key(nodes[parent]) else None


def _has_certain_key(node: RecordNode) -> bool:
    """Whether `_message_keys` always returns a key for a record."""
    is_typed = node.kind == "user" and node.origin in _TYPED_ORIGINS
    return node.kind == "assistant" or is_typed


def _message_keys(tree: RecordTree) -> dict[RecordId, str]:
    """Return a key of the message that each record belongs to.

    Records without a key only link others, and are skipped.
    """
    answers: dict[ToolUseId, str] = {}
    keys: dict[RecordId, str] = {}
    for uuid, node in tree.nodes.items():
        if node.kind == "assistant":
            keys[uuid] = f"m:{node.message_id or uuid}"
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
        elif node.origin in _TYPED_ORIGINS:
            keys[uuid] = f"u:{uuid}"
    return keys


def _summarize_subtrees(
    tree: RecordTree,
    children: Mapping[RecordId | None, list[RecordId]],
    keys: Mapping[RecordId, str],
) -> dict[RecordId, _SubtreeFacts]:
    """Return facts about each subtree, computed from the leaves up."""
    index = {uuid: i for i, uuid in enumerate(tree.nodes)}
    subtrees: dict[RecordId, _SubtreeFacts] = {}
    for uuid in reversed(list(_iter_descendants(children))):
        node = tree.nodes[uuid]
        facts = _SubtreeFacts(
            latest_index=index[uuid]
            if node.is_conversation and not node.is_meta
            else -1,
            has_prompt=node.kind == "user" and node.origin in _PROMPT_ORIGINS,
            has_answer=node.kind == "assistant" and not node.is_synthetic,
            first_record_id=uuid if uuid in keys else None,
        )
        first_records = []
        for child_id in children.get(uuid, ()):
            child = subtrees[child_id]
            facts.latest_index = max(facts.latest_index, child.latest_index)
            facts.has_prompt |= child.has_prompt
            facts.has_answer |= child.has_answer
            if child.first_record_id is not None:
                first_records.append(child.first_record_id)
        if facts.first_record_id is None and first_records:
            facts.first_record_id = min(first_records, key=index.__getitem__)
        subtrees[uuid] = facts
    return subtrees


def _iter_descendants(
    children: Mapping[RecordId | None, list[RecordId]],
) -> Iterator[RecordId]:
    stack = list(children.get(None, ()))
    while stack:
        uuid = stack.pop()
        yield uuid
        stack.extend(children.get(uuid, ()))


def _abandoned_paths(
    context: _RewindContext, parent: RecordId | None, siblings: list[RecordId]
) -> list[list[RecordId]]:
    """Return the groups of children that a rewind abandoned, oldest first."""
    if len(siblings) < 2:  # noqa: PLR2004 (a fork)
        return []
    by_message: dict[str, list[RecordId]] = {}
    for child in siblings:
        # Among roots, only the first and those that start over are continuations.
        is_path = child == siblings[0] or _is_new_root(context, child)
        first = context.subtrees[child].first_record_id
        if first is not None and (parent is not None or is_path):
            by_message.setdefault(context.message_keys[first], []).append(child)
    paths = [path for path in by_message.values() if _contains_prompt(context, path)]
    paths = _drop_retries(context, paths)
    typed = [
        index for index, path in enumerate(paths) if _starts_with_typed(context, path)
    ]
    # An answer after the last typed sibling does not mean a rewind to it.
    paths = paths[: max(typed, default=-1) + 1]
    if len(paths) < 2:  # noqa: PLR2004
        return []
    live = max(
        paths,
        key=lambda path: (
            not context.current_path.isdisjoint(path),
            parent is None
            and context.session_id is not None
            and context.first_node(path).session_id == context.session_id,
            max(context.subtrees[child].latest_index for child in path),
        ),
    )
    return [path for path in paths if path is not live]


def _is_new_root(context: _RewindContext, child: RecordId) -> bool:
    """Whether a root was started by the user, with a prompt or a notice before it."""
    node = context.tree.nodes[child]
    if starts_new_root(context.tree, node):
        return True
    is_notice = node.parent_uuid is None and not node.is_conversation
    return is_notice and context.subtrees[child].has_prompt


def _contains_prompt(context: _RewindContext, path: list[RecordId]) -> bool:
    """Whether a path contains something that the user typed."""
    return any(
        context.subtrees[child].has_prompt for child in path
    ) or _starts_with_typed(context, path)


def _starts_with_typed(context: _RewindContext, path: list[RecordId]) -> bool:
    """Whether a path starts with what the user typed there, not with an answer.

    A command without an answer was recorded in passing, and starts nothing.
    """
    first = context.first_node(path)
    if first.origin is Origin.COMMAND:
        subtrees = [context.subtrees[child] for child in path]
        return any(facts.has_answer or facts.has_prompt for facts in subtrees)
    return first.origin in _PROMPT_ORIGINS and first.uuid not in context.queued_prompts


def _drop_retries(
    context: _RewindContext, paths: list[list[RecordId]]
) -> list[list[RecordId]]:
    """Drop paths that start with the same prompt as a later one.

    The same prompt at the same time is a replay of a compaction; the same prompt after
    no answer is a retry.
    """
    kept = []
    later_times: dict[int, set[datetime | None]] = {}
    for path in reversed(paths):
        first = context.first_node(path)
        times = later_times.setdefault(first.digest, set())
        is_answered = any(context.subtrees[child].has_answer for child in path)
        is_repeated = bool(first.digest and times)
        if not is_repeated or (is_answered and first.timestamp not in times):
            kept.append(path)
        times.add(first.timestamp)
    return kept[::-1]


def build_branches(
    nodes: Sequence[RecordNode],
    layout: BranchLayout,
    messages: Sequence[Message],
    message_usages: Sequence[MessageUsage],
) -> tuple[Branch, ...]:
    """Return the live branch, then the others, newest first.

    The usage of a branch includes answers that are hidden because others replaced them.
    """
    forks = layout.forks
    index = {get_record_id(node): i for i, node in enumerate(nodes)} if forks else {}
    usages = usage_by_message(messages, message_usages)
    leaves = _branch_leaves(nodes, layout.branch_of)
    own: dict[int, list[Message]] = {}
    for message in messages:
        own.setdefault(message.branch_number, []).append(message)
    context = _PathContext(index, usages, find_copy_times(nodes))
    root = _SharedTurns(TurnTimes())
    live = _build_branch(root, own.get(0, ()), context, id=leaves.get(0), number=0)
    paths = {0: _ForkedPath(live.path, root, context)}
    abandoned = []
    for fork in forks:
        end = index[fork.fork_point_id] if fork.fork_point_id is not None else -1
        own_messages = own.get(fork.number, [])
        following = own_messages[0] if own_messages else None
        shared = paths[fork.parent_number].turns_until(end, following)
        branch = _build_branch(
            *(shared, own_messages, context),
            id=leaves.get(fork.number),
            number=fork.number,
        )
        paths[fork.number] = _ForkedPath(branch.path, shared, context)
        abandoned.append(
            structs.replace(
                branch,
                fork_id=fork.fork_point_id,
                first_prompt_id=fork.first_record_id,
                parent_number=fork.parent_number,
                session_id=fork.session_id,
            )
        )
    abandoned.sort(key=lambda branch: index[branch.id], reverse=True)
    totals: dict[int, Usage] = {}
    for spent in message_usages:
        total = totals.get(spent.branch_number, Usage())
        totals[spent.branch_number] = total + spent.usage
    return tuple(
        structs.replace(branch, usage=totals.get(branch.number, Usage()))
        for branch in (live, *abandoned)
    )


def _branch_leaves(
    nodes: Sequence[RecordNode], branch: Mapping[RecordId, int]
) -> dict[int, RecordId]:
    """Return the last record of each branch, a message if it has any."""
    leaves: dict[int, RecordId] = {}
    last_messages: dict[int, RecordId] = {}
    for node in nodes:
        uuid = node.uuid
        number = branch.get(uuid) if uuid is not None else None
        if uuid is None or number is None:
            continue
        leaves[number] = uuid
        if node.is_conversation:
            last_messages[number] = uuid
    return leaves | last_messages


class _SharedTurns(Struct, frozen=True):
    """What a branch has from its parent."""

    times: TurnTimes
    """The times of the messages of the turn at the fork."""
    path: TurnPath | None = None
    """The path of the complete turns before the fork."""
    turn_count: int = 0
    message_count: int = 0
    """The number of messages in these turns."""
    cut: CutTurn | None = None
    """The messages of the turn at the fork."""
    command: tuple[Message, ...] = ()
    """The last message before the fork if only this branch answers it: a command."""
    fork: _ForkInTurn | None = None


class _PathContext(Struct, frozen=True):
    """What the turns of all branches are built from."""

    index: Mapping[RecordId, int]
    usages: Mapping[RecordId, Usage]
    copied: Sequence[datetime]


class _ForkInTurn(NamedTuple):
    """A fork after `message_count` of the messages of a path's own turn."""

    path: _ForkedPath
    turn: int
    message_count: int


class _ForkedPath:
    """A path that other branches may leave."""

    def __init__(
        self, path: TurnPath, shared: _SharedTurns, context: _PathContext
    ) -> None:
        self._path = path
        self._shared = shared
        self._context = context
        self._totals: dict[int, list[tuple[Usage, TurnTimes]]] = {}

    @cached_property
    def _message_counts(self) -> list[int]:
        """The number of messages before each own turn."""
        counts = (len(turn.messages) for turn in self._path.own)
        return [*accumulate(counts, initial=self._path.own_message_start)]

    def turns_until(self, end: int, following: Message | None) -> _SharedTurns:
        """Return what a branch shares that leaves the path at a record of its own.

        Turns are shared, not copied: a session may be rewound at every turn.
        """
        if end < 0:
            return _SharedTurns(TurnTimes())
        own, index = self._path.own, self._context.index
        count = bisect_right(own, end, key=lambda turn: index[turn.messages[0].id])
        if count:
            messages = own[count - 1].messages
            shared = bisect_right(messages, end, key=lambda message: index[message.id])
            fork = _ForkInTurn(self, count - 1, shared)
        elif self._shared.fork is not None:
            fork = self._shared.fork
        else:
            return _SharedTurns(TurnTimes())
        return fork.path.share(fork, following)

    def share(self, fork: _ForkInTurn, following: Message | None) -> _SharedTurns:
        """Return what a branch shares that leaves one of the path's own turns."""
        path, turn = self._path, self._path.own[fork.turn]
        count, before, has_prompt = fork.message_count, 0, turn.prompt is not None
        cut = path.cut if fork.turn == 0 else None
        if cut is not None and cut.is_continued:
            before, has_prompt = cut.message_count, cut.has_prompt
        else:
            cut = None
        last = turn.messages[count - 1]
        command: tuple[Message, ...] = ()
        if before + count > 1 and _starts_turn(last, following):
            command, count = (last,), count - 1
            last = (
                turn.messages[count - 1] if count or cut is None else cut.last_message
            )
        if before + count == 1:
            has_prompt = _starts_turn(last, None)
        turn_count = path.own_turn_start + fork.turn
        owner: TurnPath | None = path
        while owner is not None and turn_count <= owner.shared_turn_count:
            owner = owner.shared
        usage, times = self._totals_of(fork.turn)[count]
        shared = CutTurn(
            path=path,
            message_count=before + count,
            last_message=last,
            has_prompt=has_prompt,
            usage=usage,
        )
        message_count = self._message_counts[fork.turn] - before
        return _SharedTurns(
            times, owner, turn_count, message_count, shared, command, fork
        )

    def _totals_of(self, turn: int) -> list[tuple[Usage, TurnTimes]]:
        """Return usage and times of a turn up to each of its messages."""
        if turn not in self._totals:
            usages, cut = self._context.usages, self._path.cut
            usage, times = Usage(), TurnTimes()
            is_rest = turn == 0 and cut is not None and cut.is_continued
            if is_rest:
                usage = self._shared.cut.usage if self._shared.cut else usage
                times = self._shared.times
            totals = [(usage, times)]
            for message in self._path.own[turn].messages:
                usage += usages.get(message.id, Usage())
                times += measure_turn([message], is_rest=is_rest)
                is_rest = True
                totals.append((usage, times))
            self._totals[turn] = totals
        return self._totals[turn]


def _build_branch(
    shared: _SharedTurns,
    own_messages: Sequence[Message],
    context: _PathContext,
    *,
    id: RecordId | None,  # noqa: A002 (the field's name)
    number: int,
) -> Branch:
    usages, copied = context.usages, context.copied
    messages = (*shared.command, *own_messages)
    following = messages[1] if len(messages) > 1 else None
    cut = shared.cut
    is_continued = bool(cut and messages and not _starts_turn(messages[0], following))
    start = shared.turn_count + (cut is not None and not is_continued)
    own = own_turns = build_turns(messages, usages, start, copied)
    if shared.command:
        # The fork is inside a turn: only the part after the fork is its own.
        own_turns = build_turns(own_messages, usages, start, copied)
    if cut is not None:
        cut = _continue_turn(cut, shared.times, own[0] if is_continued else None)
    path = TurnPath(own, shared.path, shared.turn_count, shared.message_count, cut)
    if cut is not None and copied:
        duration = measure_turn(path.rest[0].messages, copied).duration
        path = structs.replace(path, cut=structs.replace(cut, duration=duration))
    return Branch(
        id=id or RecordId(""),
        number=number,
        is_live=number == 0,
        path=path,
        own_turns=own_turns,
        usage=Usage(),
    )


def _continue_turn(cut: CutTurn, times: TurnTimes, rest: Turn | None) -> CutTurn:
    """Return a turn at a fork, with the rest of it after the fork."""
    if rest is None:
        return structs.replace(cut, duration=times.duration)
    is_first = cut.message_count == 1
    return structs.replace(
        cut,
        has_prompt=_starts_turn(cut.last_message, rest.messages[0])
        if is_first
        else cut.has_prompt,
        usage=cut.usage + rest.usage,
        duration=(times + measure_turn(rest.messages, is_rest=True)).duration,
        is_continued=True,
    )


def build_turns(
    messages: Sequence[Message],
    usages: Mapping[RecordId, Usage],
    start: int = 0,
    copied: Sequence[datetime] = (),
) -> tuple[Turn, ...]:
    """Split messages before each prompt and each command that is answered.

    The first turn has the number `start`. For `copied` see `find_copy_times`.
    """
    groups: list[list[Message]] = []
    for message, following in zip_longest(messages, messages[1:]):
        if not groups or _starts_turn(message, following):
            groups.append([])
        groups[-1].append(message)
    return tuple(
        _build_turn(number, group, usages, copied)
        for number, group in enumerate(groups, start)
    )


def _starts_turn(message: Message, following: Message | None) -> bool:
    if message.is_steering:
        return False
    if message.origin is Origin.COMMAND:
        return following is not None and following.role is Role.ASSISTANT
    return message.is_prompt


def _build_turn(
    number: int,
    messages: Sequence[Message],
    usages: Mapping[RecordId, Usage],
    copied: Sequence[datetime],
) -> Turn:
    first = messages[0]
    following = messages[1] if len(messages) > 1 else None
    return Turn(
        number=number,
        prompt=first if _starts_turn(first, following) else None,
        messages=tuple(messages),
        usage=sum((usages.get(m.id, Usage()) for m in messages), Usage()),
        duration=measure_turn(messages, copied).duration,
    )
