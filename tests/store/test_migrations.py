"""Migrations of an archive: complete or not at all."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path

import apsw
import pytest

from bygones.errors import ArchiveTooNew
from bygones.ingest.run import ingest
from bygones.store import connect as migrating
from bygones.store.archive_db import ArchiveDB
from bygones.store.connect import (
    APPLICATION_ID,
    LATEST_VERSION,
    migrate,
    migration_steps,
    open_archive_db,
)
from tests.build import session, session_id
from tests.faults.test_lasting import VERSIONS
from tests.store.sandbox import Sandbox


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    sandbox = Sandbox(tmp_path)
    sandbox.home.session(session_id(1), session("a"))
    sandbox.ingest()
    return sandbox


def add_migration(monkeypatch: pytest.MonkeyPatch, sql: str) -> None:
    """Add one more migration."""
    more = [*migration_steps(), (LATEST_VERSION + 1, sql)]
    monkeypatch.setattr(migrating, "migration_steps", lambda: iter(more))
    monkeypatch.setattr(migrating, "LATEST_VERSION", LATEST_VERSION + 1)


def tables(db: apsw.Connection) -> set[object]:
    return {name for (name,) in db.execute("SELECT name FROM sqlite_schema")}


def test_migrations_are_numbered_without_gaps() -> None:
    assert [number for number, _ in migration_steps()] == list(
        range(1, LATEST_VERSION + 1)
    )


def test_migration_starts_with_a_comment() -> None:
    assert all(sql.startswith("-- ") for _, sql in migration_steps())


def test_every_table_is_strict() -> None:
    for _, sql in migration_steps():
        assert sql.count("CREATE TABLE") == sql.count(") STRICT")


def test_migrate_returns_the_previous_version(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_migration(monkeypatch, "CREATE TABLE more (id INTEGER) STRICT;")
    path = sandbox.archive / "archive.db"

    db = open_archive_db(path, write=True)

    assert migrate(db, path) == LATEST_VERSION
    assert db.pragma("user_version") == LATEST_VERSION + 1
    assert "more" in tables(db)
    assert migrate(db, path) == LATEST_VERSION + 1


def test_failed_migration_is_rolled_back(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_migration(
        monkeypatch, "CREATE TABLE more (id INTEGER) STRICT; SELECT no_such();"
    )
    path = sandbox.archive / "archive.db"
    db = open_archive_db(path, write=True)
    before = tables(db)

    with pytest.raises(apsw.SQLError):
        migrate(db, path)

    assert db.pragma("user_version") == LATEST_VERSION
    assert tables(db) == before


def test_archive_is_copied_before_a_migration(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_migration(monkeypatch, "DROP TABLE chunk;")
    path = sandbox.archive / "archive.db"
    db = open_archive_db(path, write=True)

    migrate(db, path)

    copy = path.with_name(f"archive.db.version-{LATEST_VERSION}")
    assert "chunk" not in tables(db)
    assert "chunk" in tables(apsw.Connection(str(copy)))
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600


def test_new_archive_is_not_copied(tmp_path: Path) -> None:
    ArchiveDB(tmp_path / "archive", write=True).close()

    assert not list((tmp_path / "archive").glob("*version*"))


def test_newer_archive_is_refused_and_left_unchanged(sandbox: Sandbox) -> None:
    path = sandbox.archive / "archive.db"
    db = apsw.Connection(str(path))
    db.pragma("user_version", LATEST_VERSION + 7)
    db.close()
    before = path.read_bytes()

    for attempt in (
        lambda: ArchiveDB(sandbox.archive),
        lambda: ArchiveDB(sandbox.archive, write=True),
        lambda: ingest(sandbox.archive, [sandbox.home.path]),
    ):
        with pytest.raises(
            ArchiveTooNew, match=f"{LATEST_VERSION + 7}.*{LATEST_VERSION}"
        ):
            attempt()

    assert path.read_bytes() == before


def test_application_id_is_added_to_archives_of_version_1(
    tmp_path: Path,
) -> None:
    old = tmp_path / "old"
    old.mkdir()
    shutil.copy(VERSIONS / "0001.archive.db", old / "archive.db")
    ArchiveDB(old).close()  # can be read as it is

    for folder in (old, tmp_path / "new"):
        chunks = ArchiveDB(folder, write=True)
        assert chunks.db.pragma("application_id") == APPLICATION_ID
        chunks.close()
