"""Row-level security is the second line of defense if a query lacks its filter."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bygones.errors import StoreError
from bygones.team.contract import BlobStore
from bygones.team.stores.base import TeamStore
from bygones.team.stores.postgres import PostgresStore
from bygones.team.stores.postgres_connection import PostgresConnection

pytestmark = pytest.mark.parametrize("engine_name", ["postgresql"], indirect=True)
StoreAndBlobs = tuple[TeamStore, BlobStore]
TABLES = (
    "session",
    "record",
    "text",
    "term",
    "session_word",
    "prompt",
    "usage",
    "source",
    "span",
)
POSITIONS = (
    "SELECT * FROM term_positions("
    "ARRAY['the', 'a'], 'the | a'::tsquery, %(sessions)s::bigint[], 1)"
)


@pytest.fixture
def reader(filled: StoreAndBlobs) -> Iterator[PostgresConnection]:
    store, _ = filled
    assert isinstance(store, PostgresStore)
    db = PostgresConnection(store._address)
    yield db
    db.close()


def owners(db: PostgresConnection, person: str) -> list[int]:
    sql = "SELECT owner FROM owner WHERE person = %(person)s"
    return [row[0] for row in db.rows(sql, {"person": person})]


def sessions(db: PostgresConnection) -> list[int]:
    return [row[0] for row in db.rows("SELECT number FROM session", {})]


def test_reader_without_scope_sees_no_rows(reader: PostgresConnection) -> None:
    numbers = sessions(reader)
    reader.restrict_to([])

    for table in TABLES:
        assert reader.rows(f"SELECT count(*) FROM {table}", {}) == [(0,)]  # noqa: S608 (our names)
    assert reader.rows("SELECT * FROM matching('hello'::tsquery)", {}) == []
    counts = "SELECT * FROM count_matching('hello'::tsquery)"
    assert reader.rows(counts, {}) == []
    assert reader.rows(POSITIONS, {"sessions": numbers}) == []


def test_positions_are_limited_to_the_scope(reader: PostgresConnection) -> None:
    numbers = sessions(reader)
    own = owners(reader, "ann")
    rows = reader.rows(
        "SELECT number FROM session WHERE owner = ANY(%(own)s)", {"own": own}
    )
    visible = {row[0] for row in rows}
    reader.restrict_to(own)

    found = {row[0] for row in reader.rows(POSITIONS, {"sessions": numbers})}

    assert found
    assert found <= visible < set(numbers)


def test_database_limits_rows_without_a_filter_in_the_statement(
    reader: PostgresConnection,
) -> None:
    own = owners(reader, "ann")
    reader.restrict_to(own)

    for table in TABLES:
        (found,) = reader.rows(f"SELECT array_agg(DISTINCT owner) FROM {table}", {})  # noqa: S608 (our names)
        assert found == (own,)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM note",
        "SELECT * FROM object",
        "SELECT * FROM tombstone",
        "DELETE FROM session",
        "INSERT INTO owner_stats VALUES (1, 1, 1)",
    ],
)
def test_reader_cannot_write_or_read_other_tables(
    reader: PostgresConnection, sql: str
) -> None:
    reader.restrict_to(owners(reader, "ann"))

    with pytest.raises(StoreError):
        reader.rows(sql, {})


def test_search_function_uses_the_index_despite_row_security(
    reader: PostgresConnection,
) -> None:
    sql = "SELECT number FROM text WHERE terms @@ 'hello'::tsquery"

    def plan() -> str:
        reader.execute("SET enable_seqscan = off")
        rows = reader.rows(f"EXPLAIN {sql}", {})
        return "\n".join(row[0] for row in rows)

    # The query of the function, and its plan if a reader executed it directly.
    assert "Bitmap Index Scan on text_terms" in plan()
    reader.restrict_to(owners(reader, "ann"))
    assert "text_terms" not in plan()


def test_reopened_connection_keeps_its_restriction(
    reader: PostgresConnection,
) -> None:
    own = owners(reader, "ann")
    reader.restrict_to(own)
    ((number,),) = reader.rows("SELECT pg_backend_pid()", {})
    other = PostgresConnection(reader._address)
    other.rows("SELECT pg_terminate_backend(%(number)s, 5000)", {"number": number})
    other.close()

    (found,) = reader.rows("SELECT array_agg(DISTINCT owner) FROM session", {})

    assert found == (own,)


def test_connection_broken_in_a_transaction_is_reopened_later(
    reader: PostgresConnection,
) -> None:
    own = owners(reader, "ann")
    reader.restrict_to(own)
    other = PostgresConnection(reader._address)
    cut = "SELECT pg_terminate_backend(%(number)s, 5000)"
    with reader.read_transaction():
        ((number,),) = reader.rows("SELECT pg_backend_pid()", {})
        other.rows(cut, {"number": number})
        with pytest.raises(StoreError):
            reader.rows("SELECT 1", {})
    other.close()

    with reader.read_transaction():
        (found,) = reader.rows("SELECT array_agg(DISTINCT owner) FROM session", {})

    assert found == (own,)
