"""A store URL selects the engine and the person, and accepts nothing else."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from bygones.errors import HubVersionDiffers, InvalidStoreURL, StoreWithoutTables
from bygones.team.access import (
    _split_url,
    open_hub_stores,
    open_store,
    parse_scope,
)
from bygones.team.contract import AccessRole, AccessScope
from tests.team.engines import ENGINES, open_engine


def test_own_url_parameters_are_not_passed_to_the_database() -> None:
    plain, ours = _split_url(
        "postgresql://a:b@c:5/d?person=ann&sslmode=require&teams=x"
    )

    assert plain == "postgresql://a:b@c:5/d?sslmode=require"
    assert ours == {"person": "ann", "teams": "x"}


@pytest.mark.parametrize(
    ("argument", "address"),
    [
        ("postgresql:/a/b?person=ann", "postgresql://a/b"),
        ("postgresql://a/b", "postgresql://a/b"),
        ("postgresql:///b?person=ann", "postgresql:///b"),
        ("postgresql:/b?person=ann", "postgresql:///b"),
        ("postgres:///b", "postgres:///b"),
        ("postgresql://?host=/run/pg", "postgresql://?host=%2Frun%2Fpg"),
        ("postgresql:/?host=/run/pg", "postgresql://?host=%2Frun%2Fpg"),
        ("chdb:///srv/a?database=b", "chdb:///srv/a?database=b"),
        ("chdb:/srv/a", "chdb:///srv/a"),
        ("clickhouse:/a:8123/b", "clickhouse://a:8123/b"),
    ],
)
def test_url_passed_as_a_path_is_restored(argument: str, address: str) -> None:
    assert _split_url(argument)[0] == address


def test_url_names_the_scope() -> None:
    own = parse_scope("postgresql://a/b?person=ann&role=own")
    assert own == AccessScope(person="ann")
    assert parse_scope("postgresql://a/b?person=ann&teams=x,y") == AccessScope(
        person="ann", teams=("x", "y"), role=AccessRole.TEAM
    )
    assert (
        parse_scope("postgresql://a/b?person=ann&role=auditor").role
        is AccessRole.AUDITOR
    )


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://a/b",
        "postgresql://a/b?person=a&role=king",
        "postgresql://a/b?person=ann",
        "postgresql://a/b?person=ann&role=team",
        "postgresql://a/b?person=ann&role=own&teams=x",
        "postgresql://a/b?person=Ann%20B&role=own",
        "postgresql://a/b?person=ann&person=ben&role=own",
    ],
)
def test_url_with_an_incomplete_or_unclear_scope_is_rejected(address: str) -> None:
    with pytest.raises(InvalidStoreURL):
        parse_scope(address)


def test_unknown_database_is_rejected() -> None:
    with pytest.raises(InvalidStoreURL, match="mysql"):
        open_store("mysql://a/b")
    with pytest.raises(InvalidStoreURL, match="'/srv/a' does not start with"):
        open_store("/srv/a")


@pytest.mark.parametrize("engine", ENGINES)
def test_database_without_tables_is_named_and_not_created(engine: str) -> None:
    with open_engine(engine) as make:
        store, _ = make()
        address: str = store._address  # type: ignore[attr-defined]
        if engine == "clickhouse":
            other = f"{address.rpartition('=')[0]}=nothing"
        else:
            other = f"{address.rpartition('/')[0]}/postgres"
        for _ in range(2):
            with (
                closing(open_store(other)) as empty,
                pytest.raises(StoreWithoutTables, match=r"note|no database 'nothing'"),
            ):
                empty.list_notes("token")
        store.close()


@pytest.mark.parametrize("engine", ENGINES)
def test_commands_of_another_version_do_not_drop_the_index_of_a_hub(
    engine: str, tmp_path: Path
) -> None:
    with open_engine(engine) as make:
        store, _ = make()
        address: str = store._address  # type: ignore[attr-defined]
        assert not store.has_other_index()
        database = store._db  # type: ignore[attr-defined]
        if engine == "clickhouse":
            database.execute(
                "INSERT INTO schema_version SELECT 'derived', 'old',"
                " toUnixTimestamp(now())"
            )
        else:
            database.execute(
                "UPDATE schema_version SET value = 'old' WHERE key = 'derived'"
            )

        with (
            pytest.raises(HubVersionDiffers),
            open_hub_stores(address, str(tmp_path)),
        ):
            pass
        assert store.has_other_index()
        with open_hub_stores(address, str(tmp_path), replaces_index=True) as (own, _):
            assert not own.has_other_index()
        store.close()
