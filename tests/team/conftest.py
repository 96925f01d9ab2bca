"""Fixtures for team stores: one in memory, and one on each available engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bygones.team.contract import AccessScope, BlobStore
from bygones.team.stores.base import TeamStore
from tests.cases.make import CASES
from tests.team.engines import ENGINES, open_engine
from tests.team.homes import PEOPLE, People, upload_homes
from tests.team.memory import MemoryObjects, MemoryStore

StoreAndBlobs = tuple[TeamStore, BlobStore]


@pytest.fixture(scope="session", params=ENGINES)
def engine_name(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def engine(engine_name: str) -> Iterator[Callable[[], StoreAndBlobs]]:
    """Return a function that makes a new store on one of the engines."""
    with open_engine(engine_name) as make:
        yield make


@pytest.fixture(scope="session", params=("memory", *ENGINES))
def any_engine(request: pytest.FixtureRequest) -> Iterator[Callable[[], StoreAndBlobs]]:
    """Return a function that makes a new store, in memory or on an engine."""
    if request.param == "memory":
        yield lambda: (MemoryStore(), MemoryObjects())
        return
    with open_engine(request.param) as make:
        yield make


@pytest.fixture
def empty_store(any_engine: Callable[[], StoreAndBlobs]) -> Iterator[StoreAndBlobs]:
    """Return an empty store and its blob store."""
    store, objects = any_engine()
    store.prepare()
    yield store, objects
    store.close()


@pytest.fixture(scope="session")
def people(tmp_path_factory: pytest.TempPathFactory) -> People:
    """Return fictional people who share the homes of all cases."""
    return People(_homes(), tmp_path_factory.mktemp("people"))


def _homes() -> list[Path]:
    return sorted(path for path in CASES.glob("*/input") if path.is_dir())


@pytest.fixture(scope="session")
def filling(
    engine_name: str,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> People:
    """Return the people whose sessions are uploaded by `filled`.

    ClickHouse takes 0.1 s per case: in a short run it gets only some of them.
    """
    if engine_name == "clickhouse" and not request.config.getoption("--full"):
        return People(_homes()[::10], tmp_path_factory.mktemp("few"))
    people: People = request.getfixturevalue("people")
    return people


@pytest.fixture(scope="session")
def filled(
    engine: Callable[[], StoreAndBlobs], filling: People
) -> Iterator[StoreAndBlobs]:
    """Return a store with the derived sessions of all people."""
    from bygones.team.worker import derive_all

    store, objects = engine()
    store.prepare()
    for person in PEOPLE:
        upload_homes(store, objects, person, filling.homes[person])
    derive_all(store, objects)
    yield store, objects
    store.close()


@pytest.fixture
def scope() -> Callable[[str], AccessScope]:
    """Return a function that returns the access scope of one person."""
    return lambda person: AccessScope(person=person)


def corpus() -> list[Path]:
    """Return folders of real transcripts, if there are any."""
    folder = Path(__file__).resolve().parents[2] / ".." / "shared" / "corpus"
    return sorted(path for path in folder.glob("*") if path.is_dir())
