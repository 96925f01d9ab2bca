"""What readers keep unpacked has a bound, however many there are."""

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
from tests.team.homes import send

Made = tuple[TeamStore, BlobStore]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 40))), st.integers(1, 50))
def test_blob_cache_is_limited_but_holds_the_last_blob(
    kept: list[tuple[int, int]], room: int
) -> None:
    unpacked = BlobCache(room)
    sizes: dict[str, int] = {}

    for name, size in kept:
        sizes.setdefault(str(name), size)
        unpacked.put(str(name), bytes(sizes[str(name)]))

        found = {one: raw for one in sizes if (raw := unpacked.get(one)) is not None}
        assert all(len(raw) == sizes[one] for one, raw in found.items())
        assert sum(map(len, found.values())) <= room or len(found) == 1


def test_blob_cache_evicts_least_recently_used() -> None:
    unpacked = BlobCache(2)
    for name in ("a", "b"):
        unpacked.put(name, b"1")

    unpacked.get("a")
    unpacked.put("c", b"1")

    assert unpacked.get("a")
    assert unpacked.get("b") is None
    unpacked.shrink_to(0)
    assert unpacked.get("c") is None


@pytest.fixture
def sent(engine: Callable[[], Made], tmp_path: Path) -> Iterator[Made]:
    store, objects = engine()
    store.prepare()
    home = Home(tmp_path / "home")
    records = thread(prompt("a question"), reply("an answer"))
    home.session(session_id(0), records)
    send(store, objects, "ann", [home.path])
    derive_all(store, objects)
    yield store, objects
    store.close()


class Counted:
    """Objects that count how often they are fetched."""

    def __init__(self, objects: BlobStore) -> None:
        self._objects = objects
        self.fetched = 0

    def get_many(self, addresses: Sequence[str]) -> dict[str, bytes]:
        self.fetched += len(addresses)
        return self._objects.get_many(addresses)


def test_readers_of_a_store_share_the_blob_cache(sent: Made) -> None:
    store, objects = sent
    counted = Counted(objects)

    said = []
    for _ in range(2):
        shelf = store.open_reader(AccessScope(person="ann"), counted)  # type: ignore[arg-type]
        with Archive.from_store(shelf) as archive:
            live = archive.session(session_id(0)).live_branch
            said.append([message.blocks for message in live.messages])

    assert said[0] == said[1]
    assert counted.fetched == 1
