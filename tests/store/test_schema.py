"""The description of the index tables and the statements it generates."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from bygones.store.schema import (
    COMPARED_TABLES,
    INDEX_TABLES,
    META,
    RECORD,
    SESSION,
    SESSION_TABLES,
    TEAM_TABLES,
    USAGE,
    deferred_indexes,
    index_schema,
)


@pytest.fixture
def db() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(index_schema())
        yield db


def test_schema_creates_every_table_with_its_columns(db: sqlite3.Connection) -> None:
    for table in INDEX_TABLES:
        rows = db.execute(f"PRAGMA table_info({table.name})").fetchall()
        assert [row[1] for row in rows] == [column.name for column in table.columns]


def test_every_table_is_strict() -> None:
    assert all(" STRICT" in table.ddl for table in INDEX_TABLES)


def test_table_names_are_unique() -> None:
    names = [table.name for table in INDEX_TABLES]
    assert len(names) == len(set(names))


def test_deferred_indexes_can_be_created_later(db: sqlite3.Connection) -> None:
    db.executescript(deferred_indexes())

    rows = db.execute("SELECT name FROM sqlite_schema WHERE tbl_name = 'record'")
    assert {"record_key", "record_message_key"} <= {row[0] for row in rows}


def test_insert_has_a_value_for_each_column(db: sqlite3.Connection) -> None:
    db.execute(META.insert_sql(), ("key", "one"))
    db.execute(META.insert_sql("REPLACE"), ("key", "two"))

    assert db.execute("SELECT value FROM meta").fetchall() == [("two",)]


def test_every_derived_table_has_a_session() -> None:
    assert all(table.session_column for table in SESSION_TABLES)


def test_comparison_leaves_out_local_numbers(db: sqlite3.Connection) -> None:
    for table in COMPARED_TABLES:
        assert db.execute(table.comparison_sql).fetchall() == []

    assert "record.id" not in RECORD.comparison_sql
    assert "session.family" not in SESSION.comparison_sql
    assert "p.model" in USAGE.comparison_sql


def test_team_tables_have_no_columns_of_a_local_index() -> None:
    for table in TEAM_TABLES.values():
        assert table.team_columns
        assert not [column for column in table.team_columns if column.is_local]
