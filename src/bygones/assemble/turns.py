"""Turns and branches: messages laid out along the paths of the tree."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import structs

from bygones.assemble.branches import Growth
from bygones.assemble.dedupe import name_of
from bygones.assemble.usage import usages_of
from bygones.model.ids import RecordId
from bygones.model.nodes import Node
from bygones.model.sessions import Branch, Message, Role, Spend, Turn
from bygones.model.texts import Origin
from bygones.model.usage import Usage

__all__ = ["branches_of", "turns_of"]


def branches_of(
    nodes: Sequence[Node],
    growth: Growth,
    messages: Sequence[Message],
    spends: Sequence[Spend],
) -> tuple[Branch, ...]:
    """Return the live branch and then the others, newest first.

    A branch also paid for answers that are hidden, because others replaced them.
    """
    forks = growth.forks
    order = {name_of(node): at for at, node in enumerate(nodes)} if forks else {}
    usages = usages_of(messages, spends)
    leaves = _leaves(nodes, growth.branch)
    own: dict[int, list[Message]] = {}
    for message in messages:
        own.setdefault(message.branch, []).append(message)
    live = _branch((), (), own.get(0, ()), usages, id=leaves.get(0), number=0)
    paths = {0: live.turns}
    left = []
    for fork in forks:
        until = order[fork.at] if fork.at is not None else -1
        whole, opened = _shared(paths[fork.parent], until, order)
        mine = own.get(fork.number, ())
        branch = _branch(
            whole, opened, mine, usages, id=leaves.get(fork.number), number=fork.number
        )
        paths[fork.number] = branch.turns
        left.append(
            structs.replace(branch, fork=fork.at, head=fork.head, parent=fork.parent)
        )
    left.sort(key=lambda branch: order[branch.id], reverse=True)
    spent: dict[int, Usage] = {}
    for spend in spends:
        spent[spend.branch] = spent.get(spend.branch, Usage()) + spend.usage
    return tuple(
        structs.replace(branch, usage=spent.get(branch.number, Usage()))
        for branch in (live, *left)
    )


def _leaves(
    nodes: Sequence[Node], branch: Mapping[RecordId, int]
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


def _shared(
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


def _branch(  # noqa: PLR0913 (what is shared, what is its own, and two names)
    whole: Sequence[Turn],
    opened: Sequence[Message],
    mine: Sequence[Message],
    usages: Mapping[RecordId, Usage],
    *,
    id: RecordId | None,  # noqa: A002 (the field's name)
    number: int,
) -> Branch:
    rest = turns_of((*opened, *mine), usages, len(whole))
    first = mine[0].id if mine else None
    own = tuple(t for t in rest if any(m.branch == number for m in t.messages))
    if own and own[0].messages[0].id != first:
        # The fork is inside a turn: its own part begins behind the fork.
        own = turns_of(mine, usages, own[0].number)
    return Branch(
        id=id or RecordId(""),
        number=number,
        is_live=number == 0,
        turns=(*whole, *rest),
        own=own,
        usage=Usage(),
    )


def turns_of(
    messages: Sequence[Message], usages: Mapping[RecordId, Usage], start: int = 0
) -> tuple[Turn, ...]:
    """Return messages cut before each prompt, and each command that is answered.

    The first turn has the number ``start``.
    """
    cuts: list[list[Message]] = []
    for at, message in enumerate(messages):
        following = messages[at + 1] if at + 1 < len(messages) else None
        if not cuts or _begins(message, following):
            cuts.append([])
        cuts[-1].append(message)
    return tuple(_turn(number, cut, usages) for number, cut in enumerate(cuts, start))


def _begins(message: Message, following: Message | None) -> bool:
    if message.is_steering:
        return False
    if message.origin is Origin.COMMAND:
        return following is not None and following.role is Role.ASSISTANT
    return message.is_prompt


def _turn(
    number: int, messages: Sequence[Message], usages: Mapping[RecordId, Usage]
) -> Turn:
    first = messages[0]
    following = messages[1] if len(messages) > 1 else None
    return Turn(
        number=number,
        prompt=first if _begins(first, following) else None,
        messages=tuple(messages),
        usage=sum((usages.get(m.id, Usage()) for m in messages), Usage()),
        duration=_duration(messages),
    )


def _duration(messages: Sequence[Message]) -> timedelta | None:
    measured = [m.turn_ms for m in messages if m.turn_ms is not None]
    if measured:
        return timedelta(milliseconds=sum(measured))
    times: list[datetime] = [m.time for m in messages if m.time is not None]
    times += [c.answer_time for m in messages for c in m.calls if c.answer_time]
    return max(times) - min(times) if times else None
