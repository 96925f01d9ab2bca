"""A store that an older version made takes what a newer one sends."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from bygones.team.contract import BlobStore, SourceFragment, SourceUpdate, TeamStore
from bygones.team.stores.base import BaseStore
from tests.team.test_contract import SENT, span

Made = tuple[TeamStore, BlobStore]


def test_a_store_from_before_unfinished_lines_keeps_what_it_has(
    engine: Callable[[], Made],
) -> None:
    store, objects = engine()
    store.prepare()
    batch = SourceUpdate(source=SENT, spans=(span(b"{}\n", 0, objects),))
    store.put(batch)
    assert isinstance(store, BaseStore)
    for column in ("mark", "fragment"):
        store._db.execute(f"ALTER TABLE source DROP COLUMN {column}")
    if type(store).__name__ == "PostgresStore":
        store._db.execute("UPDATE stamp SET value = '1' WHERE key = 'version'")

    store.prepare()

    assert [ack.stored_bytes for ack in store.upload_progress("ann", "laptop")] == [3]
    half = SourceFragment(offset=3, fingerprint=b"1", frame=b"frame")
    assert store.put(replace(batch, fragment=half)).fingerprint == b"1"
    assert store.fragments([SENT.number]) == {SENT.number: half}
    store.close()
