"""The saved result of the last verification."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import apsw
import pytest

from bygones.archive import Archive
from bygones.maintenance.purge import purge
from bygones.store.archive_db import ARCHIVE_FILE
from tests.build import SESSION, prompt, reply, session_id, thread
from tests.store.sandbox import Sandbox

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOTE = "verified.json"


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    sandbox = Sandbox(tmp_path)
    sandbox.home.session(SESSION, thread(prompt("Mend the pump"), reply("Done.")))
    sandbox.ingest()
    return sandbox


def test_saved_verification_is_private(sandbox: Sandbox) -> None:
    verdict = Archive.verify(sandbox.archive, deep=True, now=NOW)

    with Archive.open(sandbox.archive) as archive:
        found = archive.last_verification
    assert found is not None
    assert (found.verified_at, found.is_intact, found.is_deep) == (NOW, True, True)
    assert (found.source_count, found.verified_bytes, found.unverified_bytes) == (
        1,
        verdict.bytes,
        0,
    )
    assert (sandbox.archive / NOTE).stat().st_mode & 0o777 == 0o600
    assert list(sandbox.archive.glob(f"{NOTE}.*")) == []


def test_verification_without_a_time_is_not_saved(sandbox: Sandbox) -> None:
    Archive.verify(sandbox.archive)

    with Archive.open(sandbox.archive) as archive:
        assert archive.last_verification is None


def test_bytes_since_the_last_verification_are_reported(sandbox: Sandbox) -> None:
    path = sandbox.home.session(SESSION, thread(prompt("Mend the pump"), reply("Ok.")))
    sandbox.ingest()
    Archive.verify(sandbox.archive, now=NOW)
    with path.open("ab") as file:
        file.write(b'{"type":"later"}\n')
    sandbox.ingest()

    with Archive.open(sandbox.archive) as archive:
        found = archive.last_verification
    assert found is not None
    assert found.unverified_bytes == len(b'{"type":"later"}\n')


def test_damage_is_saved(sandbox: Sandbox) -> None:
    db = apsw.Connection(str(sandbox.archive / ARCHIVE_FILE))
    with db:
        db.execute("UPDATE chunk SET frame = zeroblob(9)")
    db.close()

    Archive.verify(sandbox.archive, now=NOW)

    with Archive.open(sandbox.archive) as archive:
        found = archive.last_verification
    assert found is not None
    assert not found.is_intact
    assert found.damage_count == 1


def test_verification_is_unknown_after_restoring_a_backup(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    Archive.verify(sandbox.archive, now=NOW)
    copy = tmp_path / "copy.db"
    shutil.copy(sandbox.archive / ARCHIVE_FILE, copy)
    copy.replace(sandbox.archive / ARCHIVE_FILE)

    with Archive.open(sandbox.archive) as archive:
        assert archive.last_verification is None


def test_verification_is_unknown_after_copying_another_archive(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    other = Sandbox(tmp_path / "other")
    other.home.session(SESSION, thread(prompt("Mend the pump"), reply("Done. " * 99)))
    other.ingest()
    Archive.verify(sandbox.archive, now=NOW)

    _copy_over(other.archive, sandbox.archive)

    with Archive.open(sandbox.archive) as archive:
        assert archive.last_verification is None


def test_verification_is_unknown_after_copying_an_earlier_state(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    second = tmp_path / "second"
    with Archive.open(sandbox.archive) as archive:
        archive.backup(second)
    sandbox.home.session(session_id(7), thread(prompt("And the hose"), reply("Done.")))
    sandbox.ingest()
    Archive.verify(sandbox.archive, now=NOW)

    _copy_over(second, sandbox.archive)

    with Archive.open(sandbox.archive) as archive:
        assert archive.last_verification is None


def _copy_over(source: Path, target: Path) -> None:
    """Copy an archive file as `cp` does, which keeps the inode of the target."""
    inode = (target / ARCHIVE_FILE).stat().st_ino
    for temp_path in target.glob(f"{ARCHIVE_FILE}-*"):
        temp_path.unlink()
    shutil.copyfile(source / ARCHIVE_FILE, target / ARCHIVE_FILE)
    assert (target / ARCHIVE_FILE).stat().st_ino == inode


def test_purge_deletes_the_saved_verification(sandbox: Sandbox) -> None:
    Archive.verify(sandbox.archive, now=NOW)
    with Archive.open(sandbox.archive) as archive:
        sources = archive.sources()

    purge(sandbox.archive, sources)

    assert not (sandbox.archive / NOTE).exists()


def test_backup_has_no_saved_verification(sandbox: Sandbox, tmp_path: Path) -> None:
    Archive.verify(sandbox.archive, now=NOW)
    second = tmp_path / "second"
    with Archive.open(sandbox.archive) as archive:
        archive.backup(second)
        assert not (second / NOTE).exists()
        Archive.verify(second, now=NOW)
        assert (second / NOTE).exists()
        archive.backup(second)

    assert not (second / NOTE).exists()


@pytest.mark.parametrize("note", [b"", b"{}", b"[1]", b"\xff" * 9, b"0" * 100_000])
def test_invalid_saved_verification_is_ignored(sandbox: Sandbox, note: bytes) -> None:
    (sandbox.archive / NOTE).write_bytes(note)

    with Archive.open(sandbox.archive) as archive:
        assert archive.last_verification is None


def test_read_only_archive_can_be_verified(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise PermissionError

    monkeypatch.setattr("bygones.maintenance.verify.os.open", refuse)

    verdict = Archive.verify(sandbox.archive, now=NOW)

    assert verdict.is_intact
    assert not verdict.is_saved
