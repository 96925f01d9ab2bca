"""Creates stores on real engines; tests of a missing engine are skipped.

``BYGONES_TEST_CLICKHOUSE`` is the URL of a server or cluster to use instead of the engine
in this process; databases called ``team…`` are created there, and dropped again.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from typing import TYPE_CHECKING

import pytest

from bygones.team.contract import BlobStore
from bygones.team.stores.base import TeamStore
from tests.session_end import SESSION_END
from tests.team.servers import Postgres, missing_postgres, postgres

if TYPE_CHECKING:
    from bygones.team.stores.clickhouse import ClickHouseStore

__all__ = ["ENGINES", "open_engine"]

ENGINES = ("postgresql", "clickhouse")
_NUMBERS = count()
_TEMPLATE = "prepared"
"""The database that new ones are copied from."""
_GIVEN = os.environ.get("BYGONES_TEST_CLICKHOUSE", "")
StoreAndBlobs = tuple[TeamStore, BlobStore]


@contextmanager
def open_engine(name: str) -> Iterator[Callable[[], StoreAndBlobs]]:
    """Yield a function that makes a new store; each test worker starts an engine once."""
    if name == "postgresql":
        if why := missing_postgres():
            pytest.skip(f"PostgreSQL is NOT tried: {why}")
        yield _make_postgres
    elif not _has("clickhouse_connect") or not (_GIVEN or _has("chdb")):
        pytest.skip(
            "ClickHouse is NOT tried: pip install chdb clickhouse-connect (555 MB)"
        )
    else:
        with _clickhouse() as make:
            yield make


def _has(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


@contextmanager
def _clickhouse() -> Iterator[Callable[[], StoreAndBlobs]]:
    from bygones.team.stores.clickhouse import ClickHouseStore

    def make() -> StoreAndBlobs:
        name = f"team{os.getpid()}_{next(_NUMBERS)}"
        more = "&" if "?" in _GIVEN else "?"
        address = f"{_GIVEN}{more}" if _GIVEN else f"chdb://{_folder()}?"
        store = ClickHouseStore(f"{address}database={name}")
        _drop_on_close(store)
        store.prepare()
        return store, store.database_blobs()

    yield make


def _drop_on_close(store: ClickHouseStore) -> None:
    """Drop the database when the store is closed, because it uses CPU in the background."""
    close = store.close

    def drop_and_close() -> None:
        store._db.execute(f"DROP DATABASE IF EXISTS {store._db.database} SYNC")
        close()

    store.close = drop_and_close  # type: ignore[method-assign]


@cache
def _folder() -> str:
    """Return the data folder: the in-process engine accepts only one per process."""
    folder = tempfile.mkdtemp(prefix="ch-")
    SESSION_END.callback(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def _server() -> Postgres:
    """Start the server that all tests of a test worker share."""
    from bygones.team.stores.postgres import PostgresStore

    server = SESSION_END.enter_context(postgres())
    _create_database(server, _TEMPLATE)
    store = PostgresStore(server.database(_TEMPLATE))
    store.prepare()
    store.close()
    return server


def _create_database(server: Postgres, name: str, *, template: str = "") -> None:
    import psycopg

    copied = f" TEMPLATE {template}" if template else ""
    with psycopg.connect(server.address, autocommit=True) as db:
        db.execute(f"CREATE DATABASE {name}{copied}".encode())


def _make_postgres() -> StoreAndBlobs:
    from bygones.team.stores.postgres import PostgresStore

    name = f"team{next(_NUMBERS)}"
    _create_database(_server(), name, template=_TEMPLATE)
    store = PostgresStore(_server().database(name))
    return store, store.database_blobs()
