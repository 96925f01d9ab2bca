"""URLs of a team's store."""

from __future__ import annotations

from pathlib import Path

import pytest

from bygones.config import is_store_url, strip_password


@pytest.mark.parametrize("name", ["postgresql://a/b", "postgres://a", "clickhouse://a"])
def test_store_url_is_recognized_even_as_a_path(name: str) -> None:
    assert is_store_url(name)
    assert is_store_url(str(Path(name)))


@pytest.mark.parametrize("name", ["/home/a", "postgresql", "./clickhouse", "C:/a"])
def test_folder_is_not_a_store_url(name: str) -> None:
    assert not is_store_url(name)


@pytest.mark.parametrize("slashes", ["//", "/"])
def test_password_is_removed(slashes: str) -> None:
    url = strip_password(f"postgresql:{slashes}ann:secret@server:5/db?person=ann")

    assert url == f"postgresql:{slashes}ann@server:5/db?person=ann"


@pytest.mark.parametrize(
    "name", ["/home/a:b@c", "postgresql://server:5432/db", "clickhouse://ann@server/x"]
)
def test_location_without_password_is_unchanged(name: str) -> None:
    assert strip_password(name) == name
