"""Errors about a row are distinguished from errors of PostgreSQL itself."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256

import pytest

from bygones.errors import StoreError
from bygones.team.stores.postgres import PostgresStore
from tests.team.engines import open_engine

LONG = "".join(sha256(b"%d" % number).hexdigest() for number in range(250))


@pytest.fixture(scope="module")
def store() -> Iterator[PostgresStore]:
    with open_engine("postgresql") as make:
        made, _ = make()
        assert isinstance(made, PostgresStore)
        yield made
        made.close()


@pytest.mark.parametrize(
    ("sql", "value", "is_of_row"),
    [
        ("INSERT INTO schema_version VALUES (%(value)s, '')", LONG, True),
        ("INSERT INTO schema_version VALUES (%(value)s, '')", "\ud800", True),
        ("INSERT INTO schema_version VALUES ('n', %(value)s::bigint)", "9" * 30, True),
        ("INSERT INTO nowhere VALUES (%(value)s)", "x", False),
        ("SELECT pg_terminate_backend(pg_backend_pid()), %(value)s", "x", False),
    ],
    ids=["too long", "no text", "no number", "no table", "away"],
)
def test_only_errors_about_rows_are_permanent(
    store: PostgresStore, sql: str, value: str, *, is_of_row: bool
) -> None:
    with pytest.raises(StoreError) as failed:
        store._db.execute(sql, {"value": value})

    assert failed.value.is_permanent is is_of_row
