"""Tables that drop an insert which equals an earlier one, as replicated ones do."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from bygones.team.contract import BlobStore
from bygones.team.stores.base import TeamStore

pytestmark = pytest.mark.parametrize("engine_name", ["clickhouse"], indirect=True)

StoreAndBlobs = tuple[TeamStore, BlobStore]


@pytest.fixture
def deduplicating(engine: Callable[[], StoreAndBlobs]) -> Iterator[StoreAndBlobs]:
    """Return a store whose tables remember inserts without Keeper."""
    store, objects = engine()
    from bygones.team.stores.clickhouse import ClickHouseStore

    assert isinstance(store, ClickHouseStore)
    store.prepare()
    sql = "SELECT name FROM system.tables WHERE database = currentDatabase()"
    for (table,) in store._db.rows(sql, {}):
        setting = "non_replicated_deduplication_window = 1000"
        store._db.execute(f"ALTER TABLE {table} MODIFY SETTING {setting}")
    yield store, objects
    store.close()


def test_removed_bytes_can_be_stored_again(deduplicating: StoreAndBlobs) -> None:
    _, objects = deduplicating
    address = objects.put(b"once more")
    objects.remove([address])

    objects.put(b"once more")

    assert objects.get(address) == b"once more"
