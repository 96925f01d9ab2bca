"""Erasing: out of the engine, then out of the raw store, until nothing is left.

The engine refuses from its first step on what is erased, and names the objects that
nobody needs any more until they are gone: whoever was stopped goes on by asking again.
"""

from __future__ import annotations

from datetime import datetime

from bygones.team.contract import Receipt, Selector, TeamStore
from bygones.team.objects import RawObjects
from bygones.team.tokens import Tokens

__all__ = ["erase", "sweep"]


def erase(
    store: TeamStore, objects: RawObjects, selector: Selector, *, now: datetime
) -> Receipt:
    """Erase what fits, to the last byte; return what that was.

    Somebody who is erased whole has no token any more.
    """
    if selector.person and selector == Selector(person=selector.person):
        Tokens(store).revoke(selector.person, now)
    receipt = store.erase(selector, now=now)
    sweep(store, objects)
    return receipt


def sweep(store: TeamStore, objects: RawObjects) -> int:
    """Remove every object that belongs to no source; return how many there were.

    That is what erasures left, and what a hub had written that was killed before it
    could tell the engine. A source is in the engine before its first object is here:
    so what is looked at first, and whose source is not there then, is nobody's.
    """
    stray = list(store.stray())
    there = list(objects.addresses())
    used = {
        objects.below(batch.source.person, batch.source.id) for batch in store.batches()
    }
    left = [one for one in there if f"{one.rpartition('/')[0]}/" not in used]
    objects.remove({*stray, *left})
    store.forget_stray(stray)
    return len({*stray, *left})
