"""One engine for all tests of a hub that kill no process."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from bygones.team.contract import BlobStore
from bygones.team.stores.base import TeamStore
from tests.team.engines import opened


@pytest.fixture(scope="session")
def make() -> Iterator[Callable[[], tuple[TeamStore, BlobStore]]]:
    """Return a function that makes an empty store on PostgreSQL."""
    with opened("postgresql") as make:
        yield make
