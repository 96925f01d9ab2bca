"""Open, migrate and erase from the stores of a hub."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from bygones.team.access import (
    BLOB_STORE_NOTE,
    TokenStore,
    open_blob_store_of,
    open_store,
)
from bygones.team.blobs import ExternalBlobStore, open_blob_store
from bygones.team.contract import ErasureReceipt, ErasureSelector
from bygones.team.stores.base import TeamStore
from bygones.team.worker import derive_all


@contextmanager
def open_hub_stores(
    store_url: str, blobs_url: str
) -> Iterator[tuple[TeamStore, ExternalBlobStore]]:
    """Open an engine, its schema brought up to date, and a blob store."""
    objects = open_blob_store(blobs_url)
    engine = open_store(store_url)
    try:
        engine.prepare()
        # Whoever reads the engine by its address finds the blob store by this.
        engine.set_note(*BLOB_STORE_NOTE, _absolute_url(blobs_url).encode())
        yield engine, objects
    finally:
        engine.close()


def _absolute_url(url: str) -> str:
    return url if "://" in url else str(Path(url).absolute())


class MigrationReport(Struct, frozen=True):
    """What was moved."""

    sources: int
    bytes: int
    sessions: int


def migrate_store(
    source: TeamStore,
    target: TeamStore,
    on_progress: Callable[[int], None] = lambda _: None,
) -> MigrationReport:
    """Bring one store level with another; can be stopped and run again.

    Bytes stay where they are, if they lie in a blob store of their own; those that lie
    in the engine are copied. What was erased is refused there as well, and notes and
    holds come along. ``on_progress`` is
    called with the number of bytes of each source.
    """
    target.prepare()
    target.add_tombstones(source.tombstones())
    for selector, reason in source.holds():
        target.hold(selector, reason=reason)
    for kind in source.note_kinds():
        for key, value in source.list_notes(kind).items():
            target.set_note(kind, key, value)
    copied = _blob_copier(source, target)
    sources = total = 0
    for batch in source.export_updates():
        spans = tuple(replace(s, address=copied(s.address)) for s in batch.spans)
        target.put(replace(batch, spans=spans))
        weight = sum(span.length for span in spans)
        sources, total = sources + 1, total + weight
        on_progress(weight)
    return MigrationReport(
        sources, total, derive_all(target, open_blob_store_of(target))
    )


def _blob_copier(source: TeamStore, target: TeamStore) -> Callable[[str], str]:
    if source.get_note(*BLOB_STORE_NOTE) is not None:
        return lambda address: address
    before, after = source.database_blobs(), target.database_blobs()
    return cache(lambda address: after.put(before.get(address)))


def erase(
    store: TeamStore,
    blobs: ExternalBlobStore,
    selector: ErasureSelector,
    *,
    now: datetime,
) -> ErasureReceipt:
    """Erase what fits, to the last byte; return what that was.

    Somebody who is erased whole has no token any more.
    """
    if selector.person and selector == ErasureSelector(person=selector.person):
        TokenStore(store).revoke(selector.person, now)
    receipt = store.erase(selector, now=now)
    remove_orphaned_blobs(store, blobs)
    return receipt


def remove_orphaned_blobs(store: TeamStore, blobs: ExternalBlobStore) -> int:
    """Remove every object that belongs to no source; return how many there were.

    That is what erasures left, and what a hub had written that was killed before it
    could tell the engine. A source is in the engine before its first object is here:
    so what is looked at first, and whose source is not there then, is nobody's.
    """
    stray = list(store.orphaned_blobs())
    there = list(blobs.addresses())
    used = {
        blobs.source_prefix(batch.source.person, batch.source.id)
        for batch in store.export_updates()
    }
    left = [one for one in there if f"{one.rpartition('/')[0]}/" not in used]
    blobs.remove({*stray, *left})
    store.forget_orphaned_blobs(stray)
    return len({*stray, *left})
