"""How sessions are related: which is older, and what one has from another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime

from bygones.model.ids import RecordId, SessionId
from bygones.model.nodes import LineageFacts, Node
from bygones.model.sessions import Lineage, LineageKind

__all__ = ["by_age", "families", "lineages"]

_NEVER = datetime.max.replace(tzinfo=UTC)
_EVER = datetime.min.replace(tzinfo=UTC)

Talks = Mapping[SessionId, Sequence[Node]]
"""The records of sessions, in order, copies included."""


def families(talks: Talks) -> dict[SessionId, SessionId]:
    """Return for each session one that stands for all with which it has to do.

    Those are sessions that share records or answers with it, or with such a one. What
    it says of any other is only told: so a session comes out the same whether it is
    assembled with all others or with its family alone.
    """
    found = {session: session for session in talks}
    if len(found) == 1:
        return found

    def first(session: SessionId) -> SessionId:
        while found[session] != session:
            found[session] = found[found[session]]
            session = found[session]
        return session

    holders: dict[str, SessionId] = {}
    for session, nodes in talks.items():
        for node in nodes:
            for shared in (node.uuid, node.message):
                if shared:
                    found[first(holders.setdefault(shared, session))] = first(session)
    return {session: first(session) for session in talks}


def by_age(talks: Talks) -> list[SessionId]:
    """Return sessions from the oldest to the youngest.

    A copy begins when the original does. Then a session that says from which other it
    comes is younger than that one; else the original is the one that first said
    something of its own, or that says nothing which the other does not.
    """
    if len(talks) == 1:
        return list(talks)
    origins = _origins(talks)
    holders = Counter(uuid for nodes in talks.values() for uuid in _ids(nodes))

    def rank(session: SessionId) -> tuple[datetime, int, datetime, str]:
        nodes = talks[session]
        own = _first(node for node in nodes if holders[node.uuid or RecordId("")] == 1)
        depth = _depth(session, origins)
        return _first(nodes) or _NEVER, depth, own or _EVER, session

    return sorted(talks, key=rank)


def _ids(nodes: Iterable[Node]) -> dict[RecordId, None]:
    """Return the ids of records in order, each once."""
    return dict.fromkeys(node.uuid for node in nodes if node.uuid is not None)


def _first(nodes: Iterable[Node]) -> datetime | None:
    return min((node.time for node in nodes if node.time is not None), default=None)


def _origins(talks: Talks) -> dict[SessionId, set[SessionId]]:
    """Return the kin from which each session comes, by the word of any record."""
    kin = families(talks)
    found: dict[SessionId, set[SessionId]] = {session: set() for session in talks}
    for session, nodes in talks.items():
        for node in nodes:
            forked = node.forked_from.session if node.forked_from else None
            found[session].update(one for one in (forked, node.session) if one)
            follower = _follower(node)
            if follower in found:
                found[follower].add(session)
    return {
        one: {other for other in told - {one} if kin.get(other) == kin[one]}
        for one, told in found.items()
    }


def _follower(node: Node) -> SessionId | None:
    """Return the session in which a record says that the talk goes on."""
    if node.kind == "continued-in" and isinstance(node.extra, LineageFacts):
        return node.extra.session
    return None


def _depth(
    session: SessionId, origins: Mapping[SessionId, AbstractSet[SessionId]]
) -> int:
    """Return over how many others a session comes from its first origin."""
    depth = 0
    seen: set[SessionId] = {session}
    above = origins[session] - seen
    while above:
        depth += 1
        seen |= above
        above = {origin for one in above for origin in origins[one]} - seen
    return depth


def lineages(talks: Talks) -> dict[SessionId, tuple[Lineage, ...]]:
    """Return how sessions are related: by their own word, and by shared records.

    The sessions come from the oldest to the youngest. Each is related to the older
    one with which it shares most; if it holds that one whole, it continues it.
    """
    if len(talks) == 1:
        return {
            session: tuple(_told(session, nodes)) for session, nodes in talks.items()
        }
    holders: dict[RecordId, list[SessionId]] = {}
    whole: dict[SessionId, int] = {}
    found = {}
    for session, nodes in talks.items():
        ids = _ids(nodes)
        told = list(_told(session, nodes))
        known = {lineage.session for lineage in told}
        shared = [
            one for one in _shared(ids, holders, whole) if one.session not in known
        ]
        found[session] = (*told, *shared)
        whole[session] = len(ids)
        for uuid in ids:
            holders.setdefault(uuid, []).append(session)
    return found


def _shared(
    ids: Iterable[RecordId],
    holders: Mapping[RecordId, Sequence[SessionId]],
    whole: Mapping[SessionId, int],
) -> Iterator[Lineage]:
    """Yield the relations to older sessions that explain the shared records."""
    left = [uuid for uuid in ids if uuid in holders]
    while left:
        counts = Counter(holder for uuid in left for holder in holders[uuid])
        # Counted in the order of their age: of equals the oldest is the first.
        nearest, _ = counts.most_common(1)[0]
        theirs = [uuid for uuid in left if nearest in holders[uuid]]
        is_whole = len(theirs) == whole[nearest]
        kind = LineageKind.CONTINUES if is_whole else LineageKind.SAME_PREFIX
        yield Lineage(kind, nearest, theirs[-1], len(theirs))
        left = [uuid for uuid in left if nearest not in holders[uuid]]


def _told(session: SessionId, nodes: Iterable[Node]) -> Iterator[Lineage]:
    """Yield the relations that a session's own records tell of."""
    forks: dict[SessionId, dict[RecordId | None, None]] = {}
    followers: dict[SessionId, None] = {}
    for node in nodes:
        facts = node.forked_from
        if facts is not None and facts.session and facts.session != session:
            forks.setdefault(facts.session, {})[facts.record] = None
        follower = _follower(node)
        if follower is not None and follower != session:
            followers[follower] = None
    for origin, records in forks.items():
        last = list(records)[-1]
        yield Lineage(LineageKind.FORKED_FROM, origin, last, len(records))
    for follower in followers:
        yield Lineage(LineageKind.CONTINUED_IN, follower)
