"""Erasing: out of the engine, then out of the raw store, until nothing is left.

The engine refuses from its first step on what is erased, and names the objects that
nobody needs any more until they are gone: whoever was stopped goes on by asking again.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from recollect.team.contract import Receipt, Selector, TeamStore
from recollect.team.objects import RawObjects
from recollect.team.tokens import Tokens

__all__ = ["erase", "orphans", "sweep"]

_GRACE = timedelta(hours=1)
"""How long bytes may lie in the raw store before their spans are in the engine."""


def erase(
    store: TeamStore, objects: RawObjects, selector: Selector, *, now: datetime
) -> Receipt:
    """Erase what fits, to the last byte; return what that was.

    Somebody who is erased whole has no token any more.
    """
    if selector == Selector(person=selector.person) and selector.person:
        Tokens(store).revoke(selector.person, now)
    receipt = store.erase(selector, now=now)
    # A hub that was killed between two steps may have left more of the same sources.
    sources = {address.rpartition("/")[0] for address in receipt.addresses}
    sweep(store, objects)
    used = _used(store) if sources else set()
    for source in sources:
        found = [address for address, _ in objects.addresses(f"{source}/")]
        objects.remove(address for address in found if address not in used)
    objects.remove(orphans(store, objects, now=now))
    return receipt


def sweep(store: TeamStore, objects: RawObjects) -> int:
    """Remove the objects that an erasure left; return how many there were."""
    left = list(store.stray())
    objects.remove(left)
    store.forget_stray(left)
    return len(left)


def orphans(store: TeamStore, objects: RawObjects, *, now: datetime) -> Iterator[str]:
    """Yield the objects that no span names, and that nobody can be about to name."""
    last = (now - _GRACE).timestamp()
    old = [address for address, written in objects.addresses() if written < last]
    used = _used(store) if old else set()
    yield from (address for address in old if address not in used)


def _used(store: TeamStore) -> set[str]:
    return {span.address for batch in store.batches() for span in batch.spans}
