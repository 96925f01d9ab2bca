"""The engines on which stores can be made here; one that is missing says why."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

import pytest

from recollect.team.contract import Objects, TeamStore
from tests.team.servers import missing, postgres

__all__ = ["ENGINES", "opened"]

ENGINES = ("postgresql", "clickhouse")
Made = tuple[TeamStore, Objects]


@contextmanager
def opened(name: str) -> Iterator[Callable[[], Made]]:
    """Start an engine; yield a function that makes a new store on it."""
    if name == "postgresql":
        if why := missing():
            pytest.skip(f"PostgreSQL is NOT tried: {why}")
        with _postgres() as make:
            yield make
    elif not _has("chdb") or not _has("clickhouse_connect"):
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
    from recollect.team.clickhouse import ClickHouseStore  # noqa: PLC0415

    numbers = count()
    with tempfile.TemporaryDirectory(prefix="ch-") as folder:
        # The engine in this process takes one folder for as long as it lives.
        place = os.environ.setdefault("RECOLLECT_TEST_CHDB", folder)

        def make() -> Made:
            name = f"team{os.getpid()}_{next(numbers)}"
            store = ClickHouseStore(f"chdb://{place}?database={name}")
            store.prepare()
            return store, store.objects()

        yield make


@contextmanager
def _postgres() -> Iterator[Callable[[], Made]]:
    import psycopg  # noqa: PLC0415 (only where it is installed)

    from recollect.team.postgres import PostgresStore  # noqa: PLC0415

    numbers = count()
    with postgres() as server:

        def make() -> Made:
            name = f"team{next(numbers)}"
            with psycopg.connect(server.address, autocommit=True) as db:
                db.execute(f"CREATE DATABASE {name}".encode())
            store = PostgresStore(server.address.removesuffix("postgres") + name)
            store.prepare()
            return store, store.objects()

        yield make
