"""ClickHouse over HTTP: killed during uploads, and migrated to another server.

The client is the one that is used with a real server. What a cluster does beyond this,
such as distributed tables, is not tested here.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from threading import Timer

import pytest

from bygones.archive import Archive
from bygones.errors import StoreError
from bygones.query.parser import parse_query
from bygones.team.access import migrate_store
from bygones.team.contract import AccessRole, AccessScope, SourceUpdate
from bygones.team.worker import derive_all
from tests.faults.sizes import reached, seeded, sized
from tests.team.homes import (
    PEOPLE,
    People,
    comparable_summaries,
    iter_uploads,
    upload_homes,
)
from tests.team.node import Node, node

if any(
    importlib.util.find_spec(name) is None for name in ("chdb", "clickhouse_connect")
):
    pytest.skip("ClickHouse is NOT tried: pip install chdb", allow_module_level=True)

from bygones.team.stores.clickhouse import ClickHouseStore
from bygones.team.stores.clickhouse_connection import ClickHouseConnection

pytestmark = pytest.mark.full

KILLS = sized(3, 25, 100)
NOW = datetime(2026, 11, 15, tzinfo=UTC)
EVERYBODY = AccessScope(person="dan", role=AccessRole.AUDITOR)
QUERIES = ("test", "hello", "fix the bug", '"hello there"')


@contextmanager
def kill_after_delay(one: Node, seconds: float) -> Iterator[None]:
    """Kill a server after a delay, and restart it."""
    timer = Timer(seconds, one.kill)
    timer.start()
    try:
        yield
    finally:
        timer.join()
        one.start()


def test_killed_server_has_everything_exactly_once(
    people: People, tmp_path: Path
) -> None:
    dice = Random(seeded(11))  # noqa: S311 (repeatable, not secret)
    batches = list(iter_uploads("ann", people.homes["ann"][:3]))
    with node() as one:
        store = ClickHouseStore(f"{one.address}/team")
        store.prepare()
        objects = store.database_blobs()
        for _ in range(KILLS):
            # What was acknowledged is stored; the rest is uploaded again.
            with (
                kill_after_delay(one, dice.uniform(0.0, 1.0)),
                pytest.raises(StoreError),
            ):
                upload_until_failure(store, batches)
        put_all(store, batches)
        derive_all(store, objects)

        assert store.verify().faults == ()
        reader = store.open_reader(AccessScope(person="ann"), objects)
        Archive.ingest(tmp_path / "archive", people.homes["ann"][:3])
        with (
            Archive.from_store(reader) as team,
            Archive.open(tmp_path / "archive") as folder,
        ):
            assert comparable_summaries(team.sessions(include_empty=True)) == list(
                folder.sessions(include_empty=True)
            )
            assert team.usage("model", now=NOW) == folder.usage("model", now=NOW)
    reached("kills of ClickHouse", KILLS)


def upload_until_failure(
    store: ClickHouseStore, batches: list[tuple[SourceUpdate, list[bytes]]]
) -> None:
    """Upload and derive until something fails."""
    while True:
        put_all(store, batches)
        derive_all(store, store.database_blobs())


def put_all(
    store: ClickHouseStore, batches: list[tuple[SourceUpdate, list[bytes]]]
) -> None:
    objects = store.database_blobs()
    for batch, raws in batches:
        for raw in raws:
            objects.put(raw)
        assert store.put(batch).stored_bytes == sum(span.length for span in batch.spans)


def test_migrated_server_gives_the_same_answers(people: People) -> None:
    with node() as one, node() as other:
        here = ClickHouseStore(f"{one.address}/team")
        there = ClickHouseStore(f"{other.address}/team")
        here.prepare()
        for person in PEOPLE:
            upload_homes(here, here.database_blobs(), person, people.homes[person][:1])
        derive_all(here, here.database_blobs())

        moved = migrate_store(here, there)

        assert moved.sources
        stranger = ClickHouseConnection(f"{other.address}/team")
        assert stranger.rows("SELECT count(*) > 0 FROM session", {}) == [(1,)]
        stranger.restrict_to([])
        assert stranger.rows("SELECT count(*) > 0 FROM session", {}) == [(0,)]
        shelves = [
            store.open_reader(EVERYBODY, store.database_blobs())
            for store in (here, there)
        ]
        before, after = map(Archive.from_store, shelves)
        assert list(after.sessions(include_empty=True)) == list(
            before.sessions(include_empty=True)
        )
        for query in QUERIES:
            parsed = parse_query(query, now=NOW, zone=UTC)
            theirs, ours = before.search(parsed), after.search(parsed)
            assert ours.session_count == theirs.session_count
            scores = [found.score for found in ours.sessions]
            assert scores == pytest.approx([found.score for found in theirs.sessions])
