"""The cache of decompressed blobs is limited for all readers together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bygones.archive import Archive
from bygones.team.contract import AccessScope, BlobStore
from bygones.team.reader import BlobCache
from bygones.team.stores.base import TeamStore
from bygones.team.worker import derive_all
from tests.build import Home, prompt, reply, session_id, thread
from tests.team.homes import upload_homes

StoreAndBlobs = tuple[TeamStore, BlobStore]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 40))), st.integers(1, 50))
def test_blob_cache_is_limited_but_holds_the_last_blob(
    blobs: list[tuple[int, int]], max_bytes: int
) -> None:
    cache = BlobCache(max_bytes)
    sizes: dict[str, int] = {}

    for name, size in blobs:
        sizes.setdefault(str(name), size)
        cache.put(str(name), bytes(sizes[str(name)]))

        found = {one: raw for one in sizes if (raw := cache.get(one)) is not None}
        assert all(len(raw) == sizes[one] for one, raw in found.items())
        assert sum(map(len, found.values())) <= max_bytes or len(found) == 1


def test_blob_cache_evicts_least_recently_used() -> None:
    cache = BlobCache(2)
    for name in ("a", "b"):
        cache.put(name, b"1")

    cache.get("a")
    cache.put("c", b"1")

    assert cache.get("a")
    assert cache.get("b") is None
    cache.shrink_to(0)
    assert cache.get("c") is None


@pytest.fixture
def uploaded(
    engine: Callable[[], StoreAndBlobs], tmp_path: Path
) -> Iterator[StoreAndBlobs]:
    store, objects = engine()
    store.prepare()
    home = Home(tmp_path / "home")
    records = thread(prompt("a question"), reply("an answer"))
    home.session(session_id(0), records)
    upload_homes(store, objects, "ann", [home.path])
    derive_all(store, objects)
    yield store, objects
    store.close()


class CountingBlobs:
    """A blob store that counts fetched blobs."""

    def __init__(self, objects: BlobStore) -> None:
        self._objects = objects
        self.fetched = 0

    def get_many(self, addresses: Sequence[str]) -> dict[str, bytes]:
        self.fetched += len(addresses)
        return self._objects.get_many(addresses)


def test_readers_of_a_store_share_the_blob_cache(uploaded: StoreAndBlobs) -> None:
    store, objects = uploaded
    counted = CountingBlobs(objects)

    contents = []
    for _ in range(2):
        reader = store.open_reader(AccessScope(person="ann"), counted)  # type: ignore[arg-type]
        with Archive.from_store(reader) as archive:
            live = archive.session(session_id(0)).live_branch
            contents.append([message.blocks for message in live.messages])

    assert contents[0] == contents[1]
    assert counted.fetched == 1
