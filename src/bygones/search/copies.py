"""Sessions that found the same records: they are told of once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

__all__ = ["folded", "shared"]

_LOOKED_AT = 50
"""Sessions among which copies are looked for, the best ones."""


def shared(sessions: Sequence[int], families: Mapping[int, int]) -> list[int]:
    """Return those of the best sessions that may share records with another of them."""
    return [one for group in _groups(sessions, families) for one in group]


def _groups(sessions: Sequence[int], families: Mapping[int, int]) -> list[list[int]]:
    groups: dict[int, list[int]] = {}
    for session in sessions[:_LOOKED_AT]:
        if session in families:
            groups.setdefault(families[session], []).append(session)
    return [group for group in groups.values() if len(group) > 1]


def folded(
    sessions: Sequence[int],
    families: Mapping[int, int],
    records: Callable[[int], frozenset[int]],
) -> tuple[list[int], dict[int, tuple[int, ...]]]:
    """Return sessions without those that only repeat another one, and where these went.

    ``families`` names those that may share records. Of two with the same records the
    older one stays; a session with fewer goes into one that has all of them. Whoever
    stays is where the best of them was.
    """
    into: dict[int, int] = {}
    for group in _groups(sessions, families):
        into |= _repeated({session: records(session) for session in group})
    order: dict[int, None] = {}
    for session in sessions:
        order[into.get(session, session)] = None
    gone: dict[int, tuple[int, ...]] = {}
    for session in sorted(into):
        kept = into[session]
        gone[kept] = (*gone.get(kept, ()), session)
    return list(order), gone


def _repeated(found: Mapping[int, frozenset[int]]) -> dict[int, int]:
    """Return which sessions have nothing that another one has not."""
    into: dict[int, int] = {}
    kept: list[int] = []
    # Numbers are given in order: the lower one was met first.
    for session in sorted(found, key=lambda one: (-len(found[one]), one)):
        for other in kept:
            if found[session] and found[session] <= found[other]:
                into[session] = other
                break
        else:
            kept.append(session)
    return into
