"""Which forks of the tree are rewinds, and which branch every record is on.

Trees fork without anybody going back: parallel calls fan out, results and notices
hang beside the path, answers are tried again, commands are noted in passing. Only a
person's prompt beside another way on is a rewind.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct, structs

from bygones.assemble.dedupe import get_record_id
from bygones.assemble.tree import RecordTree, starts_new_root
from bygones.assemble.usage import usage_by_message
from bygones.model.base import RecordId, ToolUseId
from bygones.model.nodes import Origin, RecordNode
from bygones.model.sessions import Branch, Message, Turn
from bygones.model.summary import MessageUsage, Role
from bygones.model.usage import Usage

_PROMPT_ORIGINS = {Origin.PERSON, Origin.CALLER}
_TYPED_ORIGINS = {*_PROMPT_ORIGINS, Origin.COMMAND}


class Fork(Struct, frozen=True):
    """A branch that was left, or that left another: where, and with which prompt."""

    number: int
    parent_number: int
    fork_point_id: RecordId | None
    """The last shared record; ``None`` if it begins anew from nothing."""
    first_record_id: RecordId


class BranchLayout(Struct, frozen=True):
    """The branch of every record: 0 is live, every other is a fork."""

    branch_of: dict[RecordId, int]
    forks: tuple[Fork, ...]


class _RewindContext(Struct, frozen=True):
    """What the question of a rewind needs to know."""

    tree: RecordTree
    message_keys: Mapping[RecordId, str]
    subtrees: Mapping[RecordId, _SubtreeFacts]
    queued_prompts: frozenset[RecordId]

    def first_node(self, path: list[RecordId]) -> RecordNode:
        """Return the first record of a way that is not merely structural."""
        return self.tree.nodes[self.subtrees[path[0]].first_record_id or path[0]]


class _SubtreeFacts(Struct, gc=False):
    """What is at and below a record."""

    latest_index: int
    """The order of the last prompt, answer or result in it."""
    has_prompt: bool
    has_answer: bool
    first_record_id: RecordId | None
    """The first record in it that is not merely structural."""


def assign_branches(
    tree: RecordTree,
    parents: Mapping[RecordId, RecordId | None],
    queued_prompts: frozenset[RecordId] = frozenset(),
) -> BranchLayout:
    """Return the branches of a tree whose torn parts have been joined.

    ``queued`` are prompts that waited in the queue: they hang where the session was
    when they were typed, and going on from there is no rewind.
    """
    children: dict[RecordId | None, list[RecordId]] = {}
    for uuid in tree.nodes:
        children.setdefault(parents[uuid], []).append(uuid)
    if not any(_possible_rewinds(tree, parents, children)):
        return BranchLayout(dict.fromkeys(tree.nodes, 0), ())
    keys = _message_keys(tree)
    view = _RewindContext(
        tree, keys, _summarize_subtrees(tree, children, keys), queued_prompts
    )
    branch: dict[RecordId, int] = {}
    places: list[tuple[int, RecordId | None]] = []
    waiting: list[RecordId | None] = [None]
    while waiting:
        at = waiting.pop()
        number = 0 if at is None else branch[at]
        some = children.get(at, [])
        left = _abandoned_paths(view, at, some)
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
    return BranchLayout(branch, tuple(forks))


def _possible_rewinds(
    tree: RecordTree,
    parents: Mapping[RecordId, RecordId | None],
    children: Mapping[RecordId | None, list[RecordId]],
) -> Iterator[bool]:
    """Yield whether what was typed may begin a way beside another, each time.

    It, or a record that is looked through on the way to it, hangs beside another.
    Most forks are calls made at once: all that follows is spared to them.
    """
    nodes = tree.nodes
    for uuid, node in nodes.items():
        if node.kind != "user" or node.origin not in _TYPED_ORIGINS:
            continue
        at: RecordId | None = uuid
        while at is not None:
            above = parents[at]
            if len(children[above]) > 1:
                yield True
            at = above if above and not _has_certain_key(nodes[above]) else None


def _has_certain_key(node: RecordNode) -> bool:
    """Whether a record certainly has a key."""
    is_typed = node.kind == "user" and node.origin in _TYPED_ORIGINS
    return node.kind == "assistant" or is_typed


def _message_keys(tree: RecordTree) -> dict[RecordId, str]:
    """Return what each record belongs to: its answer, or itself for a prompt.

    Records without a key are structural and are looked through.
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
    """Return what is below each record, leaves first and without recursion."""
    order = {uuid: at for at, uuid in enumerate(tree.nodes)}
    below: dict[RecordId, _SubtreeFacts] = {}
    for uuid in reversed(list(_iter_descendants(children))):
        node = tree.nodes[uuid]
        here = _SubtreeFacts(
            latest_index=order[uuid]
            if node.is_conversation and not node.is_meta
            else -1,
            has_prompt=node.kind == "user" and node.origin in _PROMPT_ORIGINS,
            has_answer=node.kind == "assistant" and not node.is_synthetic,
            first_record_id=uuid if uuid in keys else None,
        )
        heads = []
        for child in children.get(uuid, ()):
            there = below[child]
            here.latest_index = max(here.latest_index, there.latest_index)
            here.has_prompt |= there.has_prompt
            here.has_answer |= there.has_answer
            if there.first_record_id is not None:
                heads.append(there.first_record_id)
        if here.first_record_id is None and heads:
            here.first_record_id = min(heads, key=order.__getitem__)
        below[uuid] = here
    return below


def _iter_descendants(
    children: Mapping[RecordId | None, list[RecordId]],
) -> Iterator[RecordId]:
    waiting = list(children.get(None, ()))
    while waiting:
        uuid = waiting.pop()
        yield uuid
        waiting.extend(children.get(uuid, ()))


def _abandoned_paths(
    context: _RewindContext, parent: RecordId | None, siblings: list[RecordId]
) -> list[list[RecordId]]:
    """Return the groups of children that a rewind left behind, oldest first."""
    if len(siblings) < 2:  # noqa: PLR2004 (a fork)
        return []
    groups: dict[str, list[RecordId]] = {}
    for child in siblings:
        # Of the roots, the first and those with which a person began anew are ways.
        is_way = child == siblings[0] or starts_new_root(
            context.tree, context.tree.nodes[child]
        )
        head = context.subtrees[child].first_record_id
        if head is not None and (parent is not None or is_way):
            groups.setdefault(context.message_keys[head], []).append(child)
    ways = [way for way in groups.values() if _contains_prompt(context, way)]
    ways = _drop_retries(context, ways)
    typed = [
        number for number, way in enumerate(ways) if _starts_with_typed(context, way)
    ]
    # An answer that hangs beside later than every prompt was not gone back to.
    ways = ways[: max(typed, default=-1) + 1]
    if len(ways) < 2:  # noqa: PLR2004
        return []
    live = max(
        ways, key=lambda way: max(context.subtrees[child].latest_index for child in way)
    )
    return [way for way in ways if way is not live]


def _contains_prompt(context: _RewindContext, path: list[RecordId]) -> bool:
    """Whether leaving this way would leave something that a person typed."""
    return any(
        context.subtrees[child].has_prompt for child in path
    ) or _starts_with_typed(context, path)


def _starts_with_typed(context: _RewindContext, path: list[RecordId]) -> bool:
    """Whether a way begins with what a person typed there, not with an answer.

    A command that nothing answers is noted in passing and begins nothing.
    """
    head = context.first_node(path)
    if head.origin is Origin.COMMAND:
        below = [context.subtrees[child] for child in path]
        return any(some.has_answer or some.has_prompt for some in below)
    return head.origin in _PROMPT_ORIGINS and head.uuid not in context.queued_prompts


def _drop_retries(
    context: _RewindContext, paths: list[list[RecordId]]
) -> list[list[RecordId]]:
    """Drop ways that begin with the same prompt as a later one, and led nowhere.

    The same words at the same time are a compaction's replay; the same words after
    no answer are a second try.
    """
    kept = []
    later: dict[int, set[datetime | None]] = {}
    for way in reversed(paths):
        head = context.first_node(way)
        again = later.setdefault(head.digest, set())
        answered = any(context.subtrees[child].has_answer for child in way)
        if not (head.digest and again and (not answered or head.timestamp in again)):
            kept.append(way)
        again.add(head.timestamp)
    return kept[::-1]


def build_branches(
    nodes: Sequence[RecordNode],
    layout: BranchLayout,
    messages: Sequence[Message],
    message_usages: Sequence[MessageUsage],
) -> tuple[Branch, ...]:
    """Return the live branch and then the others, newest first.

    A branch also paid for answers that are hidden, because others replaced them.
    """
    forks = layout.forks
    order = {get_record_id(node): at for at, node in enumerate(nodes)} if forks else {}
    usages = usage_by_message(messages, message_usages)
    leaves = _branch_leaves(nodes, layout.branch_of)
    own: dict[int, list[Message]] = {}
    for message in messages:
        own.setdefault(message.branch_number, []).append(message)
    live = _build_branch((), (), own.get(0, ()), usages, id=leaves.get(0), number=0)
    paths = {0: live.turns}
    left = []
    for fork in forks:
        until = order[fork.fork_point_id] if fork.fork_point_id is not None else -1
        whole, opened = _shared_turns(paths[fork.parent_number], until, order)
        mine = own.get(fork.number, ())
        branch = _build_branch(
            whole, opened, mine, usages, id=leaves.get(fork.number), number=fork.number
        )
        paths[fork.number] = branch.turns
        left.append(
            structs.replace(
                branch,
                fork_id=fork.fork_point_id,
                first_prompt_id=fork.first_record_id,
                parent_number=fork.parent_number,
            )
        )
    left.sort(key=lambda branch: order[branch.id], reverse=True)
    spent: dict[int, Usage] = {}
    for spend in message_usages:
        spent[spend.branch_number] = (
            spent.get(spend.branch_number, Usage()) + spend.usage
        )
    return tuple(
        structs.replace(branch, usage=spent.get(branch.number, Usage()))
        for branch in (live, *left)
    )


def _branch_leaves(
    nodes: Sequence[RecordNode], branch: Mapping[RecordId, int]
) -> dict[int, RecordId]:
    """Return the last record of each branch: of what was said, if anything was."""
    leaves: dict[int, RecordId] = {}
    said: dict[int, RecordId] = {}
    for node in nodes:
        uuid = node.uuid
        number = branch.get(uuid) if uuid is not None else None
        if uuid is None or number is None:
            continue
        leaves[number] = uuid
        if node.is_conversation:
            said[number] = uuid
    return leaves | said


def _shared_turns(
    turns: Sequence[Turn], until: int, order: Mapping[RecordId, int]
) -> tuple[Sequence[Turn], Sequence[Message]]:
    """Return the turns before a fork that end before it, and the messages of the last.

    The turns themselves are shared: a session may be rewound at each of its turns.
    """
    count = bisect_right(turns, until, key=lambda turn: order[turn.messages[0].id])
    if not count:
        return (), ()
    last = turns[count - 1].messages
    shared = bisect_right(last, until, key=lambda message: order[message.id])
    return turns[: count - 1], last[:shared]


def _build_branch(  # noqa: PLR0913 (what is shared, what is its own, and two names)
    shared_turns: Sequence[Turn],
    shared_messages: Sequence[Message],
    own_messages: Sequence[Message],
    usages: Mapping[RecordId, Usage],
    *,
    id: RecordId | None,  # noqa: A002 (the field's name)
    number: int,
) -> Branch:
    rest = build_turns((*shared_messages, *own_messages), usages, len(shared_turns))
    first = own_messages[0].id if own_messages else None
    own = tuple(t for t in rest if any(m.branch_number == number for m in t.messages))
    if own and own[0].messages[0].id != first:
        # The fork is inside a turn: its own part begins behind the fork.
        own = build_turns(own_messages, usages, own[0].number)
    return Branch(
        id=id or RecordId(""),
        number=number,
        is_live=number == 0,
        turns=(*shared_turns, *rest),
        own_turns=own,
        usage=Usage(),
    )


def build_turns(
    messages: Sequence[Message], usages: Mapping[RecordId, Usage], start: int = 0
) -> tuple[Turn, ...]:
    """Return messages cut before each prompt, and each command that is answered.

    The first turn has the number ``start``.
    """
    cuts: list[list[Message]] = []
    for at, message in enumerate(messages):
        following = messages[at + 1] if at + 1 < len(messages) else None
        if not cuts or _starts_turn(message, following):
            cuts.append([])
        cuts[-1].append(message)
    return tuple(
        _build_turn(number, cut, usages) for number, cut in enumerate(cuts, start)
    )


def _starts_turn(message: Message, following: Message | None) -> bool:
    if message.is_steering:
        return False
    if message.origin is Origin.COMMAND:
        return following is not None and following.role is Role.ASSISTANT
    return message.is_prompt


def _build_turn(
    number: int, messages: Sequence[Message], usages: Mapping[RecordId, Usage]
) -> Turn:
    first = messages[0]
    following = messages[1] if len(messages) > 1 else None
    return Turn(
        number=number,
        prompt=first if _starts_turn(first, following) else None,
        messages=tuple(messages),
        usage=sum((usages.get(m.id, Usage()) for m in messages), Usage()),
        duration=_turn_duration(messages),
    )


def _turn_duration(messages: Sequence[Message]) -> timedelta | None:
    measured = [m.turn_duration_ms for m in messages if m.turn_duration_ms is not None]
    if measured:
        return timedelta(milliseconds=sum(measured))
    times: list[datetime] = [m.sent_at for m in messages if m.sent_at is not None]
    times += [c.completed_at for m in messages for c in m.tool_calls if c.completed_at]
    return max(times) - min(times) if times else None
