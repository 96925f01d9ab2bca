"""The engines on which stores can be made here; one that is missing says why.

``BYGONES_TEST_CLICKHOUSE`` names a server or a cluster to ask instead of the engine
in this process; databases called ``team…`` are made there, and dropped again.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count

import pytest

from bygones.team.contract import BlobStore
from bygones.team.stores.base import TeamStore
from tests.team.servers import missing, postgres

__all__ = ["ENGINES", "opened"]

ENGINES = ("postgresql", "clickhouse")
_NUMBERS = count()
_GIVEN = os.environ.get("BYGONES_TEST_CLICKHOUSE", "")
Made = tuple[TeamStore, BlobStore]


@contextmanager
def opened(name: str) -> Iterator[Callable[[], Made]]:
    """Start an engine; yield a function that makes a new store on it."""
    if name == "postgresql":
        if why := missing():
            pytest.skip(f"PostgreSQL is NOT tried: {why}")
        with _postgres() as make:
            yield make
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
def _clickhouse() -> Iterator[Callable[[], Made]]:
    from bygones.team.stores.clickhouse import ClickHouseStore

    made: list[ClickHouseStore] = []

    def make() -> Made:
        name = f"team{os.getpid()}_{next(_NUMBERS)}"
        more = "&" if "?" in _GIVEN else "?"
        address = f"{_GIVEN}{more}" if _GIVEN else f"chdb://{_folder()}?"
        store = ClickHouseStore(f"{address}database={name}")
        made.append(store)
        store.prepare()
        return store, store.database_blobs()

    yield make
    for store in made if _GIVEN else ():
        store._db.execute(f"DROP DATABASE IF EXISTS {store._db.database}")


@cache
def _folder() -> str:
    """Return the one folder that the engine in this process takes, while it lives."""
    folder = tempfile.mkdtemp(prefix="ch-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@contextmanager
def _postgres() -> Iterator[Callable[[], Made]]:
    import psycopg

    from bygones.team.stores.postgres import PostgresStore

    numbers = count()
    with postgres() as server:

        def make() -> Made:
            name = f"team{next(numbers)}"
            with psycopg.connect(server.address, autocommit=True) as db:
                db.execute(f"CREATE DATABASE {name}".encode())
            store = PostgresStore(server.address.removesuffix("postgres") + name)
            store.prepare()
            return store, store.database_blobs()

        yield make
