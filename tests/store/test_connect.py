"""Opening databases on full disks, with a log, and while another process writes."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
import pytest

from bygones.cli.main import main
from bygones.errors import ExitCode, SystemFailure
from bygones.store import text_index as texts
from bygones.store.archive_db import ArchiveDB
from bygones.store.connect import (
    DISK_FULL,
    copy_database,
    fsync_folder,
    has_free_space,
    system_failure,
    translate_error,
    writer_lock,
)
from tests.build import prompt, session_id, thread
from tests.store.sandbox import Sandbox

if sys.platform != "win32":
    import resource

pytestmark = pytest.mark.skipif(os.name == "nt", reason="has no such limits")


@contextmanager
def full_disk() -> Iterator[None]:
    """Prevent files from growing, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    monkeypatch.setenv("HOME", str(tmp_path))
    sandbox = Sandbox(tmp_path)
    sandbox.home.session(session_id(1), thread(prompt("a full disk can be read")))
    sandbox.ingest()
    assert not list(sandbox.archive.glob("archive.db-*"))
    return sandbox


@pytest.mark.parametrize(
    "arguments", [["list"], ["show", "last"], ["search", "disk"], ["verify"]]
)
def test_archive_on_a_full_disk_can_be_read(
    arguments: list[str], sandbox: Sandbox, capsys: pytest.CaptureFixture[str]
) -> None:
    fixed = [] if arguments == ["verify"] else ["--no-ingest"]

    with full_disk():
        code = main([*arguments, *fixed, "--archive", str(sandbox.archive)])

    message = capsys.readouterr()
    assert code == ExitCode.SUCCESS, message.err
    assert "can be read" in message.out or "intact: 1 file" in message.out


def test_sessions_on_a_full_disk_can_be_shown(
    sandbox: Sandbox, capsys: pytest.CaptureFixture[str]
) -> None:
    sandbox.home.session(session_id(2), thread(prompt("there is no room for this")))
    home = str(sandbox.home.path)

    with full_disk():
        code = main(["list", "--home", home, "--archive", str(sandbox.archive), "-v"])

    captured = capsys.readouterr()
    assert code == ExitCode.SUCCESS, captured.err
    assert "full disk" in captured.out
    assert "the archive is not up to date: " in captured.err


def test_locked_archive_is_not_opened_as_immutable(
    sandbox: Sandbox,
) -> None:
    with writer_lock(sandbox.archive), full_disk(), pytest.raises(SystemFailure):
        ArchiveDB(sandbox.archive)


def test_archive_opened_on_a_full_disk_is_opened_again_to_see_changes(
    sandbox: Sandbox,
) -> None:
    with closing(ArchiveDB(sandbox.archive)) as usual:
        assert usual.shows_changes()
    with full_disk(), closing(ArchiveDB(sandbox.archive)) as immutable:
        assert not immutable.shows_changes()


def test_archive_with_a_log_is_not_opened_as_immutable(sandbox: Sandbox) -> None:
    (sandbox.archive / "archive.db-wal").write_bytes(b"not yet in the database")

    with full_disk(), pytest.raises(SystemFailure):
        ArchiveDB(sandbox.archive)


def test_full_disk_is_reported_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "not" / "yet"
    message = [system_failure(apsw.FullError("not an error"), folder)]
    message.append(SystemFailure(str(translate_error(apsw.FullError("not an error")))))
    assert has_free_space(folder)
    assert DISK_FULL not in str(system_failure(apsw.IOError("disk I/O error"), folder))

    free = shutil.disk_usage(tmp_path)._replace(free=4096)
    monkeypatch.setattr("bygones.store.connect.disk_usage", lambda _: free)
    message.append(system_failure(apsw.IOError("disk I/O error"), folder))
    message.append(
        texts._system_failure(ValueError("Worker thread failed"), folder)
        or SystemFailure("")
    )

    assert all(DISK_FULL in str(error) for error in message), message


def test_failure_to_start_a_thread_is_not_reported_as_damage(
    tmp_path: Path,
) -> None:
    error_text = "System error.'Failed to spawn segment merging thread'"

    message = texts._system_failure(ValueError(error_text), tmp_path)

    assert isinstance(message, SystemFailure)
    assert message.reason == "the text index: no thread could be started"


def test_copy_without_enough_space_names_the_path(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = shutil.disk_usage(sandbox.folder)._replace(free=0)
    monkeypatch.setattr("bygones.store.connect.disk_usage", lambda _: free)
    chunks = ArchiveDB(sandbox.archive)

    with full_disk(), pytest.raises(SystemFailure, match=f"copy.db: {DISK_FULL}"):
        copy_database(chunks.db, sandbox.folder / "copy.db")

    chunks.close()


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP])
def test_unsupported_folder_fsync_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: refuse(number))

    fsync_folder(tmp_path)


def test_failed_folder_fsync_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: refuse(errno.EIO))

    with pytest.raises(OSError, match="number 5"):
        fsync_folder(tmp_path)


def refuse(number: int) -> None:
    raise OSError(number, f"number {number}")
