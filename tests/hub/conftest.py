"""One engine for all tests of the hub that don't kill processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from bygones.team.contract import BlobStore
from bygones.team.stores.base import TeamStore
from tests.team.engines import open_engine


@pytest.fixture(scope="session")
def make() -> Iterator[Callable[[], tuple[TeamStore, BlobStore]]]:
    """Return a function that makes an empty store on PostgreSQL."""
    with open_engine("postgresql") as make:
        yield make
