"""How many questions an engine is asked for one answer: each travels there and back.

The bounds are of kinds of questions, not of sizes: a store with more sessions is asked
as often.
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

Made = tuple[TeamStore, BlobStore]
NOW = datetime(2026, 11, 15, tzinfo=UTC)
EVERYBODY = AccessScope(person="dan", role=AccessRole.AUDITOR)
Asked = list[str]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Return a list in which every statement is noted."""
    told: Asked = []
    for engine in (PostgresConnection, ClickHouseConnection):
        plain = engine.rows

        def rows(
            self: object, sql: str, values: object, ask: Callable[..., Any] = plain
        ) -> object:
            told.append(sql)
            return ask(self, sql, values)

        monkeypatch.setattr(engine, "rows", rows)
    return told


@pytest.fixture
def archive(filled: Made) -> Iterator[Archive]:
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
    archive: Archive, asked: Asked, query: str, most: int
) -> None:
    archive.search(parse_query("warm", now=NOW, zone=UTC))
    asked.clear()

    found = archive.search(parse_query(query, now=NOW, zone=UTC))

    assert found.sessions
    assert len(asked) <= most, "\n".join(one[:70] for one in asked)


def test_repeated_search_uses_cached_counts(archive: Archive, asked: Asked) -> None:
    query = parse_query("hello", now=NOW, zone=UTC)
    first = archive.search(query)
    asked.clear()

    assert archive.search(query) == first
    assert len(asked) <= 3, "\n".join(asked)


def test_new_sessions_are_found_after_a_refresh(archive: Archive, asked: Asked) -> None:
    archive.search(parse_query("hello", now=NOW, zone=UTC))
    asked.clear()

    archive.refresh()

    assert len(asked) <= 2, "\n".join(asked)


def test_list_needs_one_statement(archive: Archive, asked: Asked) -> None:
    assert list(archive.sessions())
    assert len(asked) == 1, "\n".join(asked)


def test_showing_a_session_needs_few_statements(archive: Archive, asked: Asked) -> None:
    largest = max(archive.sessions(), key=lambda one: one.message_count)
    asked.clear()

    session = archive.session(largest.id)
    assert [message.blocks for message in session.live_branch.messages]

    assert len(asked) <= 10, "\n".join(one[:70] for one in asked)


@pytest.mark.parametrize("by", ["day", "session", "project", "model"])
def test_usage_needs_few_statements(archive: Archive, asked: Asked, by: str) -> None:
    assert archive.usage(by, now=NOW).rows
    assert len(asked) <= 7, "\n".join(asked)
