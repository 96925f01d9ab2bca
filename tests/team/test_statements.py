"""The number of SQL statements per request: each one is a network round trip.

The limits depend on the kind of request, not on the number of sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from bygones.archive import Archive
from bygones.query.parser import parse_query
from bygones.team.contract import AccessRole, AccessScope, BlobStore
from bygones.team.stores.base import TeamStore
from bygones.team.stores.clickhouse_connection import ClickHouseConnection
from bygones.team.stores.postgres_connection import PostgresConnection

StoreAndBlobs = tuple[TeamStore, BlobStore]
NOW = datetime(2026, 11, 15, tzinfo=UTC)
EVERYBODY = AccessScope(person="dan", role=AccessRole.AUDITOR)
Statements = list[str]


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> Statements:
    """Return a list that records every statement."""
    recorded: Statements = []
    for engine in (PostgresConnection, ClickHouseConnection):
        method = engine.rows

        def rows(
            self: object,
            sql: str,
            values: object,
            original: Callable[..., Any] = method,
        ) -> object:
            recorded.append(sql)
            return original(self, sql, values)

        monkeypatch.setattr(engine, "rows", rows)
    return recorded


@pytest.fixture
def archive(filled: StoreAndBlobs) -> Iterator[Archive]:
    store, objects = filled
    with Archive.from_store(store.open_reader(EVERYBODY, objects)) as team:
        yield team


@pytest.mark.parametrize(
    ("query", "most"),
    [
        ("hello", 12),
        ("hello world", 12),
        ("fix the bug in the first file", 12),
        ('"hello there"', 14),
        ("hellp", 13),
        ("hel*", 13),
    ],
)
def test_search_needs_few_statements(
    archive: Archive, statements: Statements, query: str, most: int
) -> None:
    archive.search(parse_query("warm", now=NOW, zone=UTC))
    statements.clear()

    found = archive.search(parse_query(query, now=NOW, zone=UTC))

    assert found.sessions
    assert len(statements) <= most, "\n".join(one[:70] for one in statements)


def test_repeated_search_uses_cached_counts(
    archive: Archive, statements: Statements
) -> None:
    query = parse_query("hello", now=NOW, zone=UTC)
    first = archive.search(query)
    statements.clear()

    assert archive.search(query) == first
    assert len(statements) <= 3, "\n".join(statements)


def test_new_sessions_are_found_after_a_refresh(
    archive: Archive, statements: Statements
) -> None:
    archive.search(parse_query("hello", now=NOW, zone=UTC))
    statements.clear()

    archive.refresh()

    assert len(statements) <= 2, "\n".join(statements)


def test_list_needs_one_statement(archive: Archive, statements: Statements) -> None:
    assert list(archive.sessions())
    assert len(statements) == 1, "\n".join(statements)


def test_showing_a_session_needs_few_statements(
    archive: Archive, statements: Statements
) -> None:
    largest = max(archive.sessions(), key=lambda one: one.message_count)
    statements.clear()

    session = archive.session(largest.id)
    assert [message.blocks for message in session.live_branch.messages]

    assert len(statements) <= 10, "\n".join(one[:70] for one in statements)


@pytest.mark.parametrize("by", ["day", "session", "project", "model"])
def test_usage_needs_few_statements(
    archive: Archive, statements: Statements, by: str
) -> None:
    assert archive.usage(by, now=NOW).rows
    assert len(statements) <= 7, "\n".join(statements)
