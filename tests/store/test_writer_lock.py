"""The lock of the only writer."""

from __future__ import annotations

import multiprocessing
import threading
import time
from pathlib import Path

import pytest

from bygones.errors import ArchiveInUse
from bygones.ingest.run import ingest
from bygones.maintenance.verify import rebuild
from bygones.store.connect import writer_lock
from tests.build import session, session_id
from tests.store.sandbox import Sandbox


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    sandbox = Sandbox(tmp_path)
    sandbox.home.session(session_id(1), session("a"))
    sandbox.ingest()
    return sandbox


def test_second_writer_gets_an_error(sandbox: Sandbox) -> None:
    with writer_lock(sandbox.archive):
        with pytest.raises(ArchiveInUse):
            ingest(sandbox.archive, [sandbox.home.path], lock_timeout=0.1)
        with pytest.raises(ArchiveInUse):
            rebuild(sandbox.archive, lock_timeout=0)

    assert sandbox.ingest().unchanged == 1


def test_a_second_writer_waits_for_the_first(sandbox: Sandbox) -> None:
    done = threading.Event()

    def write() -> None:
        with writer_lock(sandbox.archive):
            time.sleep(0.3)
            done.set()

    first = threading.Thread(target=write)
    first.start()
    time.sleep(0.1)
    with writer_lock(sandbox.archive, timeout=10):
        assert done.is_set()
    first.join()


def test_readers_are_not_blocked_by_a_writer(sandbox: Sandbox) -> None:
    before = sandbox.dump()

    with writer_lock(sandbox.archive), sandbox.open_dir(write=True) as writer:
        writer.byte_store.db.execute("BEGIN IMMEDIATE")
        writer.byte_store.db.execute("DELETE FROM chunk")
        assert writer.index is not None
        writer.index.db.execute("BEGIN IMMEDIATE")
        writer.index.db.execute("DELETE FROM record")

        assert sandbox.dump() == before


def test_lock_is_released_when_its_process_dies(sandbox: Sandbox) -> None:
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    holder = context.Process(target=hold, args=(sandbox.archive, ready))
    holder.start()
    assert ready.wait(30)
    with pytest.raises(ArchiveInUse):
        ingest(sandbox.archive, [sandbox.home.path], lock_timeout=0)

    holder.kill()
    holder.join()

    assert ingest(sandbox.archive, [sandbox.home.path], lock_timeout=5).unchanged == 1


def hold(folder: Path, ready: threading.Event) -> None:
    """Hold the lock forever."""
    with writer_lock(folder):
        ready.set()
        time.sleep(600)
