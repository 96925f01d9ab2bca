"""Moving what a team has sent to another store: what was sent is sent again."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from msgspec import Struct
from msgspec.structs import replace

from bygones.team.contract import TeamStore
from bygones.team.deriving import derive
from bygones.team.opening import RAW_NOTE, objects_of

__all__ = ["Moved", "move"]


class Moved(Struct, frozen=True):
    """What was moved."""

    sources: int
    bytes: int
    sessions: int


def move(
    here: TeamStore, there: TeamStore, tell: Callable[[int], None] = lambda _: None
) -> Moved:
    """Bring one store level with another; can be stopped and run again.

    Bytes stay where they are, if they lie in a raw store of their own; those that lie
    in the engine are copied. What was erased is refused there as well, and notes and
    holds come along. ``tell`` is told how many bytes came.
    """
    there.prepare()
    there.refuse(here.tombstones())
    for selector, reason in here.holds():
        there.hold(selector, reason=reason)
    for kind in here.kinds():
        for key, value in here.notes(kind).items():
            there.set_note(kind, key, value)
    copied = _copier(here, there)
    sources = total = 0
    for batch in here.batches():
        spans = tuple(replace(s, address=copied(s.address)) for s in batch.spans)
        there.put(replace(batch, spans=spans))
        weight = sum(span.length for span in spans)
        sources, total = sources + 1, total + weight
        tell(weight)
    return Moved(sources, total, derive(there, objects_of(there)))


def _copier(here: TeamStore, there: TeamStore) -> Callable[[str], str]:
    if here.note(*RAW_NOTE) is not None:
        return lambda address: address
    before, after = here.objects(), there.objects()
    return cache(lambda address: after.put(before.bytes_of(address)))
