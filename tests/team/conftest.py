"""Stores to ask the same of: one in memory, and each engine that can be had here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bygones.team.contract import AccessScope, BlobStore
from bygones.team.stores.base import TeamStore
from tests.cases.make import CASES
from tests.team.engines import ENGINES, opened
from tests.team.homes import PEOPLE, People, send
from tests.team.memory import MemoryObjects, MemoryStore

Made = tuple[TeamStore, BlobStore]


@pytest.fixture(scope="session", params=ENGINES)
def engine_name(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def engine(engine_name: str) -> Iterator[Callable[[], Made]]:
    """Return a function that makes a new store on one of the engines."""
    with opened(engine_name) as make:
        yield make


@pytest.fixture(scope="session", params=("memory", *ENGINES))
def any_engine(request: pytest.FixtureRequest) -> Iterator[Callable[[], Made]]:
    """Return the same, for the store in memory as well."""
    if request.param == "memory":
        yield lambda: (MemoryStore(), MemoryObjects())
        return
    with opened(request.param) as make:
        yield make


@pytest.fixture
def made(any_engine: Callable[[], Made]) -> Iterator[Made]:
    """Return an empty store and its objects."""
    store, objects = any_engine()
    store.prepare()
    yield store, objects
    store.close()


@pytest.fixture(scope="session")
def people(tmp_path_factory: pytest.TempPathFactory) -> People:
    """Return invented people, among whom all cases are dealt."""
    return People(_homes(), tmp_path_factory.mktemp("people"))


def _homes() -> list[Path]:
    return sorted(path for path in CASES.glob("*/input") if path.is_dir())


@pytest.fixture(scope="session")
def filling(
    engine_name: str,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> People:
    """Return the people whose sessions are in a filled store.

    ClickHouse takes 0.1 s per case: in a short run it gets only some of them.
    """
    if engine_name == "clickhouse" and not request.config.getoption("--full"):
        return People(_homes()[::10], tmp_path_factory.mktemp("few"))
    people: People = request.getfixturevalue("people")
    return people


@pytest.fixture(scope="session")
def filled(engine: Callable[[], Made], filling: People) -> Iterator[Made]:
    """Return a store to which all of them have sent everything."""
    from bygones.team.worker import derive_all

    store, objects = engine()
    store.prepare()
    for person in PEOPLE:
        send(store, objects, person, filling.homes[person])
    derive_all(store, objects)
    yield store, objects
    store.close()


@pytest.fixture
def scope() -> Callable[[str], AccessScope]:
    """Return a function that gives the scope of a person alone."""
    return lambda person: AccessScope(person=person)


def corpus() -> list[Path]:
    """Return folders of real transcripts, where there are any."""
    folder = Path(__file__).resolve().parents[2] / ".." / "shared" / "corpus"
    return sorted(path for path in folder.glob("*") if path.is_dir())
