"""Reads are consistent if the engine supports snapshots."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bygones.archive import Archive
from bygones.errors import StoreError
from bygones.team.contract import AccessScope, BlobStore
from bygones.team.stores.base import TeamStore
from bygones.team.worker import derive_all
from tests.build import Home, prompt, reply, session_id, thread
from tests.team.homes import upload_homes

StoreAndBlobs = tuple[TeamStore, BlobStore]


def upload_prompt(stores: StoreAndBlobs, home: Home, number: int) -> None:
    lines = thread(prompt(f"walrus {number}"), reply("tusk"), start=number * 10)
    home.session(session_id(number), lines)
    upload_homes(*stores, "ann", [home.path])
    derive_all(*stores)


def test_uploads_during_a_read_transaction_are_seen_by_the_next(
    engine: Callable[[], StoreAndBlobs], tmp_path: Path
) -> None:
    stores = store, objects = engine()
    home = Home(tmp_path / "claude")
    upload_prompt(stores, home, 1)

    with Archive.from_store(
        store.open_reader(AccessScope(person="ann"), objects)
    ) as archive:
        with archive.read_transaction():
            before = [one.id for one in archive.sessions()]
            upload_prompt(stores, home, 2)
            with archive.read_transaction():
                meanwhile = [one.id for one in archive.sessions()]
        after = [one.id for one in archive.sessions()]

    assert len(before) == 1
    assert len(after) == 2
    if type(store).__name__ == "PostgresStore":
        assert meanwhile == before
    store.close()


def test_failed_statement_keeps_the_scope_of_the_reader(
    engine: Callable[[], StoreAndBlobs], tmp_path: Path
) -> None:
    stores = store, objects = engine()
    upload_prompt(stores, Home(tmp_path / "claude"), 1)
    reader = store.open_reader(AccessScope(person="zoe"), objects)

    with Archive.from_store(reader) as archive:
        with pytest.raises(StoreError), archive.read_transaction():
            reader.search_facts._database.db.rows(
                "SELECT nothing_of_this FROM session", {}
            )

        assert list(archive.sessions()) == []
        plain = "SELECT count(*) FROM session"
        assert reader.search_facts._database.db.rows(plain, {}) == [(0,)]
    store.close()
