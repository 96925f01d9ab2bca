"""Errors about a row are distinguished from errors of PostgreSQL itself."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256

import pytest

from bygones.errors import (
    ReaderRoleMissing,
    StoreError,
    StoreMissing,
    StoreRightsMissing,
    StoreSignInRejected,
)
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


def test_errors_say_what_an_administrator_can_do(store: PostgresStore) -> None:
    for role in ("maker LOGIN CREATEROLE", "guest LOGIN"):
        store._db.execute(f"CREATE ROLE {role}")
    address = store._address
    database = address.rpartition("/")[2]
    store._db.execute(f"GRANT CREATE ON DATABASE {database} TO guest")

    with pytest.raises(StoreMissing, match='"nothing" does not exist'):
        PostgresStore(address.replace(database, "nothing"))
    with pytest.raises(StoreSignInRejected):
        PostgresStore(address.replace("//team@", "//stranger@"))
    for user in ("maker", "guest"):
        other = PostgresStore(address.replace("//team@", f"//{user}@"))
        with pytest.raises(StoreRightsMissing, match="permission denied"):
            other.prepare()
        other.close()


def test_user_who_may_not_use_the_role_of_readers_learns_the_statement(
    store: PostgresStore,
) -> None:
    store._db.execute("CREATE ROLE tenant LOGIN")
    store._db.execute("CREATE DATABASE rented OWNER tenant")
    address = store._address
    rented = f"{address.rpartition('/')[0]}/rented".replace("//team@", "//tenant@")
    other = PostgresStore(rented)
    with pytest.raises(ReaderRoleMissing) as failed:
        other.prepare()
    assert failed.value.statements == "GRANT bygones_reader TO tenant"

    store._db.execute(failed.value.statements)

    other.prepare()
    other.close()
    store._db.execute("DROP DATABASE rented")
