"""An address of a team's store is not taken for a folder, nor a folder for one."""

from __future__ import annotations

from pathlib import Path

import pytest

from bygones.config import is_store_url, strip_password


@pytest.mark.parametrize("name", ["postgresql://a/b", "postgres://a", "clickhouse://a"])
def test_an_address_is_known_even_as_a_path(name: str) -> None:
    assert is_store_url(name)
    assert is_store_url(str(Path(name)))


@pytest.mark.parametrize("name", ["/home/a", "postgresql", "./clickhouse", "C:/a"])
def test_a_folder_is_no_address(name: str) -> None:
    assert not is_store_url(name)


@pytest.mark.parametrize("slashes", ["//", "/"])
def test_a_password_is_not_shown(slashes: str) -> None:
    shown = strip_password(f"postgresql:{slashes}ann:secret@server:5/db?person=ann")

    assert shown == f"postgresql:{slashes}ann@server:5/db?person=ann"


@pytest.mark.parametrize(
    "name", ["/home/a:b@c", "postgresql://server:5432/db", "clickhouse://ann@server/x"]
)
def test_what_has_no_password_stays(name: str) -> None:
    assert strip_password(name) == name
