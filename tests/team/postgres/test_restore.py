"""A database that was restored from a backup is complete, or its hub does not start."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest

from bygones.archive import Archive
from bygones.errors import StoreError
from bygones.model.base import SessionId
from bygones.query.parser import parse_query
from bygones.team.access import TokenStore, check_blobs
from bygones.team.blobs import open_blob_store
from bygones.team.contract import AccessRole, AccessScope, ErasureSelector
from bygones.team.stores.postgres import PostgresStore
from bygones.team.worker import derive_all
from tests.cases.make import CASES
from tests.team.homes import PEOPLE, copy_homes, iter_uploads
from tests.team.servers import Postgres, missing_postgres, postgres

pytestmark = pytest.mark.skipif(
    missing_postgres() is not None, reason=str(missing_postgres())
)
NOW = datetime(2026, 11, 15, tzinfo=UTC)
BEN = AccessScope(person="ben", teams=("core",), role=AccessRole.TEAM)


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Postgres, Postgres]]:
    """Return two independent servers, which don't share roles either."""
    with postgres() as one, postgres() as other:
        yield one, other


def create(server: Postgres, name: str) -> str:
    with psycopg.connect(server.address, autocommit=True) as db:
        db.execute(f"CREATE DATABASE {name}".encode())
    return server.database(name)


def fill(store: PostgresStore, raw: Path, homes: Path, cases: int = 9) -> None:
    from msgspec.structs import replace

    blobs = open_blob_store(str(raw))
    paths = sorted(path for path in CASES.glob("*/input") if path.is_dir())[:cases]
    for person, own in copy_homes(paths, homes).items():
        for update, raws in iter_uploads(person, own):
            source_blobs = blobs.for_source(person, update.source.id)
            addresses = [source_blobs.put(one) for one in raws]
            named = zip(update.spans, addresses, strict=True)
            spans = tuple(replace(span, address=at) for span, at in named)
            store.put(replace(update, spans=spans))
    derive_all(store, blobs)


def visible_sessions(store: PostgresStore, raw: Path) -> tuple[list[SessionId], int]:
    reader = store.open_reader(BEN, open_blob_store(str(raw)))
    with Archive.from_store(reader) as archive:
        listed = [one.id for one in archive.sessions(include_empty=True)]
        found = archive.search(parse_query("the", now=NOW, zone=UTC))
        texts = sum(
            len(message.preview)
            for one in archive.sessions()
            for message in archive.session(one.id).live_branch.messages
        )
    assert listed
    assert texts
    return listed, found.session_count


@pytest.mark.req("ME3")
@pytest.mark.parametrize("has_role", [False, True])
def test_restored_database_shows_the_same_to_the_same_people(
    tmp_path: Path, has_role: bool
) -> None:
    with postgres() as one, postgres() as other:
        check_restore(one, other, tmp_path, has_role=has_role)


def check_restore(
    one: Postgres, other: Postgres, tmp_path: Path, *, has_role: bool
) -> None:
    if not one.has_tool("pg_dump"):
        pytest.skip("pg_dump is NOT tried: this PostgreSQL comes without it")
    store = PostgresStore(create(one, "live"))
    store.prepare()
    raw = tmp_path / "raw"
    fill(store, raw, tmp_path / "homes")
    secret, _ = TokenStore(store).issue("ben", teams=("core",), now=NOW)
    before = visible_sessions(store, raw)
    dump = tmp_path / "hub.dump"
    made = one.run_tool("pg_dump", "-Fc", "-f", str(dump), one.database("live"))
    assert made.returncode == 0, made.stderr
    store.close()

    there = create(other, "restored")
    options = ["--no-owner", "--no-acl"]
    if has_role:
        options.append("--exit-on-error")
        with psycopg.connect(there, autocommit=True) as db:
            db.execute("CREATE ROLE bygones_reader")
    restored = other.run_tool("pg_restore", *options, "-d", there, str(dump))
    # The role of readers belongs to a server, not to a database.
    assert (restored.returncode == 0) == has_role
    assert (b"bygones_reader" in restored.stderr) != has_role
    new = PostgresStore(there)
    new.prepare()

    assert visible_sessions(new, raw) == before
    assert not new.pending_sources()
    assert new.verify().faults == ()
    assert TokenStore(new).authenticate(secret) is not None
    assert check_blobs(new, open_blob_store(str(raw))) == ()
    new.close()


def test_missing_bytes_of_a_restored_hub_are_reported(
    servers: tuple[Postgres, Postgres], tmp_path: Path
) -> None:
    store = PostgresStore(create(servers[0], "bytes"))
    store.prepare()
    raw = tmp_path / "raw"
    fill(store, raw, tmp_path / "homes", cases=2)
    blobs = open_blob_store(str(raw))
    assert check_blobs(store, blobs) == ()
    lost = min(blobs.addresses())
    blobs.remove([lost])

    assert check_blobs(store, blobs) == (lost,)
    store.close()


def access_rules(address: str) -> list[tuple[object, ...]]:
    """Return the policies and the privileges on tables and functions."""
    with psycopg.connect(address) as db:
        return [
            *db.execute(
                "SELECT tablename, policyname, roles::text, qual FROM pg_policies"
                " WHERE schemaname = 'bygones' ORDER BY 1, 2"
            ),
            *db.execute(
                "SELECT relname, relrowsecurity,"
                " has_table_privilege('bygones_reader', oid, 'SELECT') FROM pg_class"
                " WHERE relnamespace = 'bygones'::regnamespace AND relkind = 'r'"
                " ORDER BY 1"
            ),
            *db.execute(
                "SELECT oid::regprocedure::text,"
                " has_function_privilege('bygones_reader', oid, 'EXECUTE'),"
                " coalesce(proacl::text LIKE '%{=X/%' OR proacl::text LIKE '%,=X/%',"
                " true) FROM pg_proc"
                " WHERE pronamespace = 'bygones'::regnamespace ORDER BY 1"
            ),
        ]


@pytest.mark.parametrize(
    "damage",
    [
        (
            "DROP POLICY seen ON bygones.text; CREATE POLICY seen ON bygones.text"
            " FOR SELECT TO bygones_reader USING (true)"
        ),
        "DROP TABLE bygones.session_word",
        *(
            pytest.param(damage, marks=pytest.mark.full)
            for damage in (
                "DROP POLICY seen ON bygones.session",
                "ALTER TABLE bygones.record DISABLE ROW LEVEL SECURITY",
                "REVOKE ALL ON ALL TABLES IN SCHEMA bygones FROM bygones_reader",
                "REVOKE USAGE ON SCHEMA bygones FROM bygones_reader",
                "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA bygones TO public",
                "DROP FUNCTION bygones.matching(tsquery, bigint[])",
            )
        ),
    ],
)
def test_damaged_access_rules_are_repaired_at_the_next_start(
    servers: tuple[Postgres, Postgres],
    tmp_path: Path,
    damage: str,
    request: pytest.FixtureRequest,
) -> None:
    name = f"damaged{abs(hash(request.node.name)) % 10**9}"
    address = create(servers[1], name)
    store = PostgresStore(address)
    store.prepare()
    fill(store, tmp_path / "raw", tmp_path / "homes")
    before, rules = visible_sessions(store, tmp_path / "raw"), access_rules(address)
    with psycopg.connect(address, autocommit=True) as db:
        db.execute(damage.encode())

    store.prepare()
    derive_all(store, open_blob_store(str(tmp_path / "raw")))

    assert access_rules(address) == rules
    assert visible_sessions(store, tmp_path / "raw") == before
    stranger = AccessScope(person="zoe", teams=("other",), role=AccessRole.TEAM)
    reader = store.open_reader(stranger, open_blob_store(str(tmp_path / "raw")))
    with Archive.from_store(reader) as archive:
        assert list(archive.sessions(include_empty=True)) == []
    store.close()


@pytest.mark.req("ME3")
@pytest.mark.parametrize("table", ["source", "span", "note", "tombstone"])
def test_hub_without_what_people_uploaded_does_not_start(
    servers: tuple[Postgres, Postgres], table: str
) -> None:
    address = create(servers[1], f"without_{table}")
    store = PostgresStore(address)
    store.prepare()
    with psycopg.connect(address, autocommit=True) as db:
        db.execute(f"DROP TABLE bygones.{table}".encode())

    with pytest.raises(StoreError, match=f"without the tables {table}"):
        store.prepare()
    store.close()


def test_connection_survives_a_restart_of_the_server(
    servers: tuple[Postgres, Postgres],
) -> None:
    server = servers[0]
    store = PostgresStore(create(server, "restarted"))
    store.prepare()
    store.set_note("kind", "key", b"before")
    reader = store.open_reader(AccessScope(person="ann"), store.database_blobs())
    archive = Archive.from_store(reader)
    assert list(archive.sessions()) == []

    server.stop()
    server.start()

    assert store.get_note("kind", "key") == b"before"
    store.hold(ErasureSelector(person="ann"), reason="again")
    assert list(archive.sessions()) == []
    archive.close()
    store.close()


def test_people_are_those_of_the_fixture() -> None:
    assert "core" in PEOPLE["ben"]
