"""Connection filters are the second line of defense if a query lacks its filter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from bygones.errors import StoreError
from bygones.team.contract import BlobStore
from bygones.team.stores.base import TeamStore

pytestmark = [
    pytest.mark.full,
    pytest.mark.parametrize("engine_name", ["clickhouse"], indirect=True),
]

if TYPE_CHECKING:
    from bygones.team.stores.clickhouse_connection import ClickHouseConnection

StoreAndBlobs = tuple[TeamStore, BlobStore]
TABLES = ("session", "record", "text", "posting", "prompt", "usage", "source", "span")


@pytest.fixture
def reader(filled: StoreAndBlobs) -> Iterator[ClickHouseConnection]:
    store, _ = filled
    from bygones.team.stores.clickhouse import ClickHouseStore
    from bygones.team.stores.clickhouse_connection import ClickHouseConnection

    assert isinstance(store, ClickHouseStore)
    db = ClickHouseConnection(store._address)
    yield db
    db.close()


def owners(db: ClickHouseConnection, person: str) -> list[int]:
    sql = "SELECT owner FROM owner FINAL WHERE person = %(person)s"
    return [row[0] for row in db.rows(sql, {"person": person})]


def test_reader_without_scope_sees_no_rows(reader: ClickHouseConnection) -> None:
    reader.restrict_to([])

    for table in TABLES:
        assert reader.rows(f"SELECT count(*) FROM {table}", {}) == [(0,)]  # noqa: S608 (our names)


def test_database_limits_rows_without_a_filter_in_the_statement(
    reader: ClickHouseConnection,
) -> None:
    own = owners(reader, "ann")
    reader.restrict_to(own)

    for table in TABLES:
        sql = f"SELECT groupUniqArray(owner) FROM (SELECT * FROM {table}) AS t"  # noqa: S608 (our names)
        assert reader.rows(sql, {}) == [(own,)]


@pytest.mark.parametrize(
    "sql",
    ["TRUNCATE TABLE session", "INSERT INTO dead VALUES (1)", "DROP TABLE posting"],
)
def test_reader_cannot_write(reader: ClickHouseConnection, sql: str) -> None:
    reader.restrict_to(owners(reader, "ann"))

    with pytest.raises(StoreError):
        reader.rows(sql, {})
