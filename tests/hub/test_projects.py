"""Clones of a repository are one project on a hub, and a project can be limited."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from msgspec.structs import replace

from bygones.archive import Archive
from bygones.cli.commands.hub_projects import _parse_name
from bygones.errors import BygonesError, UploadRejected
from bygones.hub.client import push
from bygones.hub.uploads import parse_request
from bygones.model.base import SessionId
from bygones.model.summary import ProjectIdentity
from bygones.redact.engine import Redactor
from bygones.sources.layout import project_key
from bygones.team.contract import (
    AccessRole,
    AccessScope,
    BlobStore,
    ProjectRule,
    UploadRequest,
    UploadResponse,
    encode_message,
    repository_key,
)
from bygones.team.stores.base import TeamStore
from bygones.team.worker import derive_all
from tests.build import Home, prompt, reply, session_id, thread
from tests.hub.sending import MemoryHub
from tests.team.engines import ENGINES, open_engine
from tests.team.memory import MemoryStore

SHOP = "https://github.com/ann/Shop.git"
CORE = ("core",)


@pytest.fixture(scope="module", params=ENGINES)
def make(
    request: pytest.FixtureRequest,
) -> Iterator[Callable[[], tuple[TeamStore, BlobStore]]]:
    with open_engine(request.param) as make:
        yield make


class OlderClient:
    """A client of an earlier version, which does not send the project."""

    address = "memory"

    def __init__(self, hub: MemoryHub) -> None:
        self._hub = hub

    def fetch_state(self, machine: str) -> UploadResponse:
        return self._hub.fetch_state(machine)

    def send(self, request: UploadRequest) -> UploadResponse:
        chunks = tuple(replace(one, identity=None) for one in request.chunks)
        return self._hub.send(replace(request, chunks=chunks))


class Team:
    """A hub, and people who push to it."""

    def __init__(self, store: TeamStore, folder: Path) -> None:
        self.store, self.folder = store, folder
        self.hub = MemoryHub(folder / "raw")
        self.hub.use_store(store)
        self.transport: MemoryHub | OlderClient = self.hub
        self._sessions = iter(range(1, 100))

    def work(self, person: str, name: str, remote: str = "") -> SessionId:
        """Write a session in a directory of a person, and return its id."""
        directory = self.folder / person / name
        (directory / ".git").mkdir(parents=True)
        if remote:
            config = f'[remote "origin"]\n\turl = {remote}\n'
            (directory / ".git" / "config").write_text(config)
        number = next(self._sessions)
        id_ = SessionId(session_id(number))
        records = thread(
            prompt(f"hello from {person}", uuid=f"p{number}"),
            reply("yes", uuid=f"r{number}", message_id=f"m{number}"),
        )
        rows = [{**record, "cwd": str(directory)} for record in records]
        home = Home(self.folder / person / ".claude")
        home.session(id_, rows, project=project_key(str(directory)))
        return id_

    def push(self, person: str, teams: tuple[str, ...] = CORE) -> None:
        """Push everything of a person; the home directory is redacted to `~`."""
        self.hub.token = replace(self.hub.token, person=person, teams=teams)
        home = self.folder / person
        Archive.ingest(home / "archive", [home / ".claude"])
        redactor = Redactor().with_accounts([person], [str(home)])
        transport = self.transport
        push(home / "archive", [str(home)], redactor=redactor, transport=transport)
        derive_all(self.store, self.hub.objects)

    def open(
        self, person: str, *teams: str, role: AccessRole = AccessRole.TEAM
    ) -> Archive:
        scope = AccessScope(person=person, teams=teams, role=role)
        return Archive.from_store(self.store.open_reader(scope, self.hub.objects))

    def limit(self, name: str, rule: ProjectRule | None) -> int:
        hidden = self.store.limit_project(name, rule)
        derive_all(self.store, self.hub.objects)
        return hidden


@pytest.fixture
def team(
    make: Callable[[], tuple[TeamStore, BlobStore]], tmp_path: Path
) -> Iterator[Team]:
    store, _ = make()
    yield Team(store, tmp_path)
    store.close()


@pytest.mark.full_on_clickhouse
@pytest.mark.req("GO2")
def test_clones_of_several_people_are_one_project(team: Team) -> None:
    """The account in the name is redacted by its owner only."""
    first = team.work("ann", "work/shop", SHOP)
    second = team.work("ben", "code/store", "git@github.com:ann/shop.git")
    third = team.work("ben", "work/shop", "https://github.com/ben/other")
    for person in ("ann", "ben"):
        team.push(person)

    with team.open("cem", "core") as archive:
        projects = {frozenset(one.session_ids): one for one in archive.projects()}
        assert set(projects) == {frozenset({first, second}), frozenset({third})}
        shop = projects[frozenset({first, second})]
        assert {shop.path, *shop.other_paths} >= {"~/work/shop", "~/code/store"}
        listed = {one.id for one in archive.sessions("project:store")}
        assert listed == {first, second}
        found = archive.search("hello project:store").sessions
        assert {one.summary.id for one in found} == listed
        assert archive.session_summary(first).project_path == shop.path
        rows = {row.key: row for row in archive.usage("project").rows}
        assert set(rows) == {one.path for one in projects.values()}


@pytest.mark.full_on_clickhouse
def test_first_commit_identifies_a_repository_without_a_remote(team: Team) -> None:
    ids = {team.work("ann", "work/shop"), team.work("ben", "code/store")}
    for folder in ("ann/work/shop", "ben/code/store"):
        logs = team.folder / folder / ".git" / "logs"
        logs.mkdir()
        entry = f"{'0' * 40} {'a1' * 20} Ann <a@b.c> 1700000000 +0000\tcommit (initial): x\n"
        (logs / "HEAD").write_text(entry)
    for person in ("ann", "ben"):
        team.push(person)

    with team.open("cem", "core") as archive:
        (project,) = archive.projects()
        assert set(project.session_ids) == ids
        assert {project.path, *project.other_paths} == {"~/work/shop", "~/code/store"}
    assert set(team.store.count_sessions_by_project()) == {
        "~/work/shop",
        "~/code/store",
    }


@pytest.mark.full_on_clickhouse
def test_two_repositories_at_the_same_path_are_two_projects(team: Team) -> None:
    team.work("ann", "work/app", "https://example.com/one/app")
    team.work("ben", "work/app", "https://example.com/two/app")
    team.work("cem", "work/app")
    for person in ("ann", "ben", "cem"):
        team.push(person)

    with team.open("dan", "core") as archive:
        names = {one.path: len(one.session_ids) for one in archive.projects()}

    assert names == {
        "example.com/one/app": 1,
        "example.com/two/app": 1,
        "~/work/app": 1,
    }


@pytest.mark.full_on_clickhouse
def test_older_uploads_learn_their_project_once(team: Team) -> None:
    """An older client did not name it; the next push does, without sending bytes."""
    first = team.work("ann", "one", SHOP)
    second = team.work("ann", "two", SHOP)
    team.transport = OlderClient(team.hub)
    team.push("ann")
    with team.open("ann") as archive:
        assert len(archive.projects()) == 2
    team.transport = team.hub
    team.hub.requests.clear()

    team.push("ann")

    assert sum(chunk.length for one in team.hub.requests for chunk in one.chunks) == 0
    with team.open("ann") as archive:
        (project,) = archive.projects()
        assert set(project.session_ids) == {first, second}
    team.hub.requests.clear()
    team.push("ann")
    assert team.hub.requests == []


_DOWNGRADES = {
    "PostgresStore": (
        "UPDATE schema_version SET value = '1' WHERE key = 'version'",
        "UPDATE schema_version SET value = '' WHERE key = 'derived'",
        "ALTER TABLE source DROP COLUMN identity",
        "ALTER TABLE owner DROP COLUMN projects",
        "ALTER TABLE owner ADD UNIQUE (person, teams)",
    ),
    "ClickHouseStore": (
        "ALTER TABLE schema_version DELETE WHERE 1 SETTINGS mutations_sync = 2",
        "ALTER TABLE source DROP COLUMN identity SETTINGS mutations_sync = 2",
        "ALTER TABLE owner DROP COLUMN projects SETTINGS mutations_sync = 2",
    ),
}


@pytest.mark.full_on_clickhouse
def test_hub_of_an_earlier_version_is_migrated_at_start(team: Team) -> None:
    ids = {team.work("ann", "one", SHOP), team.work("ann", "two", SHOP)}
    team.transport = OlderClient(team.hub)
    team.push("ann")
    for sql in _DOWNGRADES[type(team.store).__name__]:
        team.store._db.execute(sql)  # type: ignore[attr-defined]

    team.store.prepare()
    derive_all(team.store, team.hub.objects)

    with team.open("ben", "core") as archive:
        assert {one.id for one in archive.sessions()} == ids
    team.transport = team.hub
    team.push("ann")
    with team.open("ben", "core") as archive:
        (project,) = archive.projects()
        assert set(project.session_ids) == ids


SEEN = {
    # Reader, teams, role, and which of ann's two projects they see.
    ("ann", (), AccessRole.OWN): {"pay", "blog"},
    ("ann", ("web",), AccessRole.TEAM): {"pay", "blog"},
    ("ben", ("core",), AccessRole.TEAM): {"blog"},
    ("ben", ("core", "payments"), AccessRole.TEAM): {"pay", "blog"},
    ("ben", ("payments",), AccessRole.TEAM): set(),
    ("ben", ("core", "payments"), AccessRole.OWN): set(),
    ("cem", ("core",), AccessRole.TEAM): {"pay", "blog"},
    ("cem", ("web",), AccessRole.TEAM): set(),
    ("cem", ("core",), AccessRole.OWN): set(),
    ("dan", (), AccessRole.AUDITOR): {"pay", "blog"},
}


@pytest.mark.req("ME2")
@pytest.mark.parametrize(
    ("name", "is_first"),
    [
        ("example.com/acme/pay", False),
        pytest.param("~/pay", True, marks=pytest.mark.full_on_clickhouse),
        pytest.param("example.com/acme/pay", True, marks=pytest.mark.full),
        pytest.param("~/pay", False, marks=pytest.mark.full),
    ],
)
def test_limited_project_is_seen_by_those_who_are_named(
    team: Team, name: str, *, is_first: bool
) -> None:
    rule = ProjectRule(people=("cem",), teams=("payments",))
    ids = {"pay": team.work("ann", "pay", "https://example.com/acme/pay")}
    ids["blog"] = team.work("ann", "blog")
    if is_first:
        team.limit(name, rule)
    team.push("ann")
    if not is_first:
        assert team.limit(name, rule) == 1

    for (person, teams, role), seen in SEEN.items():
        with team.open(person, *teams, role=role) as archive:
            listed = {one.id for one in archive.sessions(include_empty=True)}
            assert listed == {ids[one] for one in seen}, (person, teams, role)
            found = {one.summary.id for one in archive.search("hello").sessions}
            assert found == listed
            assert {s for p in archive.projects() for s in p.session_ids} == listed
            assert archive.usage("day").total.tokens == 0 or listed
            assert {one.session for one in archive.sources()} == listed
            for hidden in set(ids.values()) - listed:
                with pytest.raises(BygonesError):
                    archive.session(hidden)

    assert team.limit(name, None) == 0
    with team.open("ben", "core") as archive:
        assert {one.id for one in archive.sessions()} == set(ids.values())


@pytest.mark.full_on_clickhouse
def test_limit_of_a_project_applies_to_what_comes_later(team: Team) -> None:
    team.work("ann", "pay", "https://example.com/acme/pay")
    team.push("ann")
    team.limit("example.com/acme/pay", ProjectRule())
    team.work("ann", "clone", "https://example.com/acme/pay")
    team.push("ann")

    with team.open("ben", "core") as archive:
        assert list(archive.sessions()) == []
        assert list(archive.sources()) == []
    with team.open("ann") as archive:
        assert len(list(archive.sessions())) == 2
    assert team.store.verify().faults == ()


@pytest.mark.parametrize(
    "identity",
    [
        ProjectIdentity(directory="~/a\x1b[31m"),
        ProjectIdentity(key="zz"),
        ProjectIdentity(key=repository_key("a"), name="a" * 5000),
    ],
)
def test_invalid_identity_is_rejected(
    tmp_path: Path, identity: ProjectIdentity
) -> None:
    team = Team(MemoryStore(), tmp_path)
    team.work("ann", "pay")
    team.push("ann")
    request = team.hub.requests[-1]
    (chunk,) = request.chunks
    assert chunk.identity is not None

    spoiled = replace(request, chunks=(replace(chunk, identity=identity),))

    with pytest.raises(UploadRejected):
        parse_request(encode_message(spoiled))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("https://ann:x@GitHub.com/acme/pay.git", "github.com/acme/pay"),
        ("git@github.com:acme/pay.git", "github.com/acme/pay"),
        ("github.com/acme/pay", "github.com/acme/pay"),
        (f"{Path.home()}/work", "~/work"),
        ("~/work", "~/work"),
    ],
)
def test_project_is_named_by_address_or_directory(name: str, expected: str) -> None:
    assert _parse_name(name) == expected


@pytest.mark.parametrize("name", ["", "pay", "a/\n", "a/\x1b[31m"])
def test_invalid_project_name_is_rejected(name: str) -> None:
    with pytest.raises(click.BadParameter):
        _parse_name(name)
