"""Forked readers and read-only media: the archive can be read."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copytree, ignore_patterns

import pytest

from bygones.archive import Archive
from bygones.errors import BygonesError, SystemFailure
from bygones.ingest.run import ingest
from bygones.maintenance.verify import verify
from bygones.model.query import Query, Words
from bygones.model.records import TextBlock
from tests.build import prompt, reply, session_id, thread
from tests.faults.mutations import MUTATIONS
from tests.faults.sizes import reached, sized
from tests.store.sandbox import Sandbox

CHILDREN = sized(4, 100, 1_000)
FORK_PROGRAM = """
import os, sys
from bygones.archive import Archive
from bygones.model.query import Query, Words
from tests.faults.mutations import MUTATIONS, patch

if sys.argv[3]:
    MUTATIONS[sys.argv[3]](patch)

def ask():
    with Archive.open(sys.argv[1]) as archive:
        found = archive.search(Query(Words(("words",)))).session_count
        return len(list(archive.sessions())), found

with Archive.open(sys.argv[1]) as mine:
    before = len(list(mine.sessions()))
    for _ in range(int(sys.argv[2])):
        child = os.fork()
        if not child:
            os._exit(ask() != (3, 3))
        _, status = os.waitpid(child, 0)
        assert not status, status
        assert len(list(mine.sessions())) == before == 3
"""

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="it forks, and mounts"
)


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    sandbox = Sandbox(tmp_path)
    for number in range(1, 4):
        records = thread(prompt(f"words {number}"), reply("an answer"))
        sandbox.home.session(session_id(number), records)
    sandbox.ingest()
    return sandbox


@contextmanager
def mount_read_only(archive: Path) -> Iterator[Path]:
    """Mount an archive read-only, and yield its path."""
    mount_point = archive.parent / "fixed"
    mount_point.mkdir()
    command = ["mount", "--bind", str(archive), str(mount_point)]
    if (
        os.geteuid()
        or subprocess.run(command, capture_output=True, check=False).returncode
    ):
        pytest.skip("only root can mount")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(mount_point)], check=True)
        with pytest.raises(OSError, match="Read-only"):
            (mount_point / "anything").touch()
        yield mount_point
    finally:
        subprocess.run(["umount", "--lazy", str(mount_point)], check=True)


def read_in_forks(sandbox: Sandbox, children: int, mutation: str = "") -> str:
    """Read in forks of a reader; return the error output."""
    command = [sys.executable, "-c", FORK_PROGRAM, str(sandbox.archive), str(children)]
    process = subprocess.run(
        [*command, mutation], capture_output=True, text=True, check=False
    )
    return process.stderr if process.returncode else ""


def test_children_of_a_reader_read_for_themselves(sandbox: Sandbox) -> None:
    assert read_in_forks(sandbox, CHILDREN) == ""

    sandbox.home.session(session_id(4), thread(prompt("words 4"), reply("more")))
    assert sandbox.ingest().new == 1
    reached("forked readers", CHILDREN)


def test_readers_that_keep_their_children_out_are_caught(sandbox: Sandbox) -> None:
    assert "ArchiveInUse" in read_in_forks(sandbox, 1, "lock_for_readers")


def read_all(folder: Path, count: int) -> None:
    """List, search and show an archive with this many sessions."""
    with Archive.open(folder) as archive:
        assert len(list(archive.sessions())) == count
        assert archive.search(Query(Words(("words",)))).session_count == count
        for number in range(1, count + 1):
            (block,) = (
                archive.session(session_id(number)).live_branch.messages[0].blocks
            )
            assert block == TextBlock(text=f"words {number}")


def test_a_read_only_archive_can_be_read(sandbox: Sandbox) -> None:
    with mount_read_only(sandbox.archive) as read_only:
        read_all(read_only, 3)
        assert verify(read_only).is_intact
        with pytest.raises(OSError, match="Read-only"):
            ingest(read_only, [sandbox.home.path])
    reached("read-only archives, read", 1)


def test_an_unmerged_log_is_reported(sandbox: Sandbox) -> None:
    """Read what a killed writer left on a read-only medium."""
    sandbox.home.session(session_id(4), thread(prompt("words 4"), reply("more")))
    with sandbox.open_dir():
        sandbox.ingest()
        left = sandbox.folder / "left"
        copytree(sandbox.archive, left, ignore=ignore_patterns("*-shm"))
    assert (left / "archive.db-wal").stat().st_size

    with mount_read_only(left) as read_only, pytest.raises(SystemFailure):
        read_all(read_only, 4)

    read_all(left, 4)
    reached("read-only archives with an unmerged log, reported", 1)


@pytest.mark.parametrize(
    "mutation", ["require_writable_database", "require_writable_text_index"]
)
def test_readers_that_have_to_write_are_caught(
    mutation: str, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    MUTATIONS[mutation](monkeypatch.setattr)

    with (
        mount_read_only(sandbox.archive) as read_only,
        pytest.raises((BygonesError, ValueError)),
    ):
        read_all(read_only, 3)
