"""Open the stores of a hub, migrate them, and erase from them."""

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
    """Open a team store, migrating its schema, and a blob store."""
    blobs = open_blob_store(blobs_url)
    store = open_store(store_url)
    try:
        store.prepare()
        # With this note, readers need only the URL of the store.
        store.set_note(*BLOB_STORE_NOTE, _absolute_url(blobs_url).encode())
        yield store, blobs
    finally:
        store.close()


def _absolute_url(url: str) -> str:
    return url if "://" in url else str(Path(url).absolute())


class MigrationReport(Struct, frozen=True):
    """What a migration copied."""

    sources: int
    bytes: int
    sessions: int


def migrate_store(
    source: TeamStore,
    target: TeamStore,
    on_progress: Callable[[int], None] = lambda _: None,
) -> MigrationReport:
    """Copy what is missing from one store to another; can be interrupted and repeated.

    Blobs are copied only if they are in the database. Tombstones, notes and holds are
    copied too. ``on_progress`` is called with the number of bytes of each source.
    """
    target.prepare()
    target.add_tombstones(source.tombstones())
    for selector, reason in source.holds():
        target.hold(selector, reason=reason)
    for kind in source.note_kinds():
        for key, value in source.list_notes(kind).items():
            target.set_note(kind, key, value)
    copy_blob = _blob_copier(source, target)
    sources = total = 0
    for update in source.export_updates():
        spans = tuple(replace(s, address=copy_blob(s.address)) for s in update.spans)
        target.put(replace(update, spans=spans))
        size = sum(span.length for span in spans)
        sources, total = sources + 1, total + size
        on_progress(size)
    sessions = derive_all(target, open_blob_store_of(target))
    return MigrationReport(sources, total, sessions)


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
    """Erase matching sessions with all their rows and blobs; return a receipt.

    If everything of a person is erased, their tokens are revoked.
    """
    if selector.person and selector == ErasureSelector(person=selector.person):
        TokenStore(store).revoke(selector.person, now)
    receipt = store.erase(selector, now=now)
    remove_orphaned_blobs(store, blobs)
    return receipt


def remove_orphaned_blobs(store: TeamStore, blobs: ExternalBlobStore) -> int:
    """Remove all blobs that belong to no source; return how many there were.

    These are left by erasures, and by hubs that were killed before the store knew about
    their blobs. A source is added to the store before its first blob is written. So a
    blob is unused if it was listed before the sources, and its source isn't among them.
    """
    orphaned = list(store.orphaned_blobs())
    addresses = list(blobs.addresses())
    used = {
        blobs.source_prefix(update.source.person, update.source.id)
        for update in store.export_updates()
    }
    unused = [one for one in addresses if f"{one.rpartition('/')[0]}/" not in used]
    removed = {*orphaned, *unused}
    blobs.remove(removed)
    store.forget_orphaned_blobs(orphaned)
    return len(removed)
