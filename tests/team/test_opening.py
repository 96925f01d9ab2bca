"""An address says which engine it is, who asks, and nothing else."""

from __future__ import annotations

import pytest

from bygones.errors import InvalidStoreURL
from bygones.team.access import _split_url, open_store, parse_scope
from bygones.team.contract import AccessRole, AccessScope


def test_what_is_ours_does_not_reach_the_engine() -> None:
    plain, ours = _split_url(
        "postgresql://a:b@c:5/d?person=ann&sslmode=require&teams=x"
    )

    assert plain == "postgresql://a:b@c:5/d?sslmode=require"
    assert ours == {"person": "ann", "teams": "x"}


@pytest.mark.parametrize(
    ("told", "address"),
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
def test_an_address_may_have_come_as_a_path(told: str, address: str) -> None:
    assert _split_url(told)[0] == address


def test_an_address_says_who_asks() -> None:
    assert parse_scope("postgresql://a/b?person=ann") == AccessScope(person="ann")
    assert parse_scope("postgresql://a/b?person=ann&teams=x,y") == AccessScope(
        person="ann", teams=("x", "y"), role=AccessRole.TEAM
    )
    assert (
        parse_scope("postgresql://a/b?person=ann&role=auditor").role
        is AccessRole.AUDITOR
    )


@pytest.mark.parametrize(
    "address", ["postgresql://a/b", "postgresql://a/b?person=a&role=king"]
)
def test_an_address_without_somebody_is_refused(address: str) -> None:
    with pytest.raises(InvalidStoreURL):
        parse_scope(address)


def test_an_engine_that_is_not_known_is_refused() -> None:
    with pytest.raises(InvalidStoreURL, match="mysql"):
        open_store("mysql://a/b")
