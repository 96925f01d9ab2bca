"""Worker processes give the same results as this process."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from subprocess import Popen
from threading import Event
from typing import Any

import pytest

from bygones.ingest import workers
from bygones.ingest.index_batch import IndexBatch, LineBlock, index_block
from bygones.ingest.workers import INDEX_TASK, Worker, WorkerPool, WorkerTask
from bygones.maintenance.verify import rebuild
from bygones.model.base import SourceId
from tests.build import jsonl, prompt, reply, session_id, thread
from tests.cases.make import CASES, copied, stories
from tests.store.sandbox import Sandbox, differing_tables


def make_block(content: str, start: int = 0) -> LineBlock:
    raw = jsonl(thread(prompt(content), reply("so be it")))
    return LineBlock(SourceId("/h/a.jsonl"), 0, start, raw)


def run_task(
    pool: WorkerPool, block: LineBlock, callback: Callable[[IndexBatch], None]
) -> None:
    pool.submit(INDEX_TASK, block, callback, size=len(block.raw))


@pytest.fixture
def always_parallel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start workers however little there is to read."""
    monkeypatch.setattr(workers, "MIN_PARALLEL_BYTES", 0)
    monkeypatch.setattr(workers, "spare_cpu_count", lambda: 2)


@pytest.fixture
def single_worker() -> Iterator[Worker]:
    found = Worker()
    yield found
    found.close()


def test_worker_returns_the_same_result(single_worker: Worker) -> None:
    for block in (make_block("one"), make_block("two \u4e2d\u6587 \U0001f389", 99)):
        assert single_worker.call(INDEX_TASK, block) == index_block(block)
    assert isinstance(single_worker._child, Popen)
    assert not single_worker._is_unavailable


@pytest.mark.skipif(not hasattr(os, "getsid"), reason="there are no sessions there")
def test_worker_ignores_ctrl_c_and_shares_the_processor_of_this_session(
    single_worker: Worker,
) -> None:
    single_worker.call(INDEX_TASK, make_block("one"))

    child = single_worker._child
    assert child is not None
    assert os.getpgid(child.pid) != os.getpgid(0)
    assert os.getsid(child.pid) == os.getsid(0)


def test_dead_worker_is_replaced_by_a_local_call(single_worker: Worker) -> None:
    single_worker.call(INDEX_TASK, make_block("one"))
    assert single_worker._child is not None
    single_worker._child.kill()
    single_worker._child.wait()

    assert single_worker.call(INDEX_TASK, make_block("two")) == index_block(
        make_block("two")
    )
    assert single_worker.call(INDEX_TASK, make_block("three")) == index_block(
        make_block("three")
    )


def test_worker_that_cannot_start_is_replaced_by_a_local_call(
    single_worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "/nowhere/python")

    assert single_worker.call(INDEX_TASK, make_block("one")) == index_block(
        make_block("one")
    )


def test_worker_imports_nothing_from_the_current_folder(
    single_worker: Worker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap = tmp_path / "bygones"
    trap.mkdir()
    (trap / "__init__.py").write_text("import pathlib; pathlib.Path('sprung').touch()")
    (tmp_path / "msgspec.py").write_text(
        "import pathlib; pathlib.Path('sprung').touch()"
    )
    monkeypatch.chdir(tmp_path)

    single_worker.call(INDEX_TASK, make_block("one"))

    assert not (tmp_path / "sprung").exists()
    assert not single_worker._is_unavailable


def test_worker_ends_with_its_parent(single_worker: Worker) -> None:
    single_worker.call(INDEX_TASK, make_block("one"))
    child = single_worker._child
    assert child is not None
    single_worker.close()

    assert child.returncode == 0


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="nothing is stopped there")
def test_stopped_worker_is_killed_on_exit(
    single_worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    single_worker.call(INDEX_TASK, make_block("one"))
    child = single_worker._child
    assert child is not None
    child.send_signal(signal.SIGSTOP)
    monkeypatch.setattr(workers, "_EXIT_TIMEOUT", 0.01)
    single_worker.close()

    assert child.returncode == -signal.SIGKILL


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="nothing is stopped there")
@pytest.mark.usefixtures("always_parallel")
def test_interrupt_does_not_wait_for_a_stopped_worker() -> None:
    children: list[Popen[bytes]] = []

    def interrupted() -> None:
        with WorkerPool() as some:
            some.start_if_worthwhile(1)
            for worker in some._workers:
                worker.call(INDEX_TASK, make_block("one"))
                assert worker._child is not None
                children.append(worker._child)
            for child in children:
                child.send_signal(signal.SIGSTOP)
            for number in range(4):
                run_task(some, make_block(f"words {number}"), lambda _: None)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()

    assert {child.returncode for child in children} == {-signal.SIGKILL}


@pytest.mark.usefixtures("always_parallel")
def test_results_are_delivered_in_order() -> None:
    done: list[int] = []

    def then(number: int, gist: IndexBatch) -> None:
        assert gist == index_block(make_block(f"words {number}"))
        done.append(number)

    with WorkerPool() as some:
        some.start_if_worthwhile(1)
        for number in range(40):
            run_task(some, make_block(f"words {number}"), partial(then, number))
            some.call_in_order(partial(done.append, -number))
        some.drain()

    assert done == [text * number for number in range(40) for text in (1, -1)]


@pytest.mark.usefixtures("always_parallel")
def test_tasks_not_started_by_a_worker_run_locally(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = Event()

    def wait(_: Worker, __: WorkerTask[Any, Any], block: LineBlock) -> IndexBatch:
        # No worker returns until this process has done something itself.
        here.wait(timeout=60)
        return index_block(block)

    def read(block: LineBlock) -> IndexBatch:
        here.set()
        return index_block(block)

    monkeypatch.setattr(Worker, "call", wait)
    monkeypatch.setattr(INDEX_TASK, "func", read)
    done: list[IndexBatch] = []
    blocks = [make_block(f"words {number}") for number in range(10)]
    with WorkerPool() as some:
        some.start_if_worthwhile(1)
        for block in blocks:
            run_task(some, block, done.append)
        some.drain()

    assert here.is_set()
    assert done == [index_block(block) for block in blocks]


@pytest.mark.usefixtures("always_parallel")
def test_pending_results_have_no_reference_cycles() -> None:
    with WorkerPool() as some:
        some.start_if_worthwhile(1)
        gc.collect()
        gc.disable()
        try:
            for number in range(10):
                run_task(some, make_block(f"words {number}"), lambda _: None)
            some.drain()
            left = [
                value for value in gc.get_objects() if isinstance(value, IndexBatch)
            ]
        finally:
            gc.enable()

    assert left == []


@pytest.mark.usefixtures("always_parallel")
def test_switch_interval_is_restored() -> None:
    before = sys.getswitchinterval()
    with WorkerPool() as some:
        some.start_if_worthwhile(1)
        assert sys.getswitchinterval() < before

    assert sys.getswitchinterval() == before


@pytest.mark.usefixtures("always_parallel")
def test_error_in_a_result_callback_is_raised() -> None:
    def fail(_: IndexBatch) -> None:
        raise OSError("no room")

    with WorkerPool() as some:
        some.start_if_worthwhile(1)
        run_task(some, make_block("one"), fail)
        with pytest.raises(OSError, match="no room"):
            some.drain()


@pytest.mark.usefixtures("always_parallel")
def test_archive_built_with_workers_equals_one_built_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    homes = [copied(CASES / name, tmp_path / name) for name in sorted(stories())]
    many = Sandbox(tmp_path / "many")
    many.ingest(*homes)
    with monkeypatch.context() as alone:
        alone.setattr(workers, "spare_cpu_count", lambda: 0)
        single = Sandbox(tmp_path / "one")
        single.ingest(*homes)

    assert many.dump() == single.dump()
    before = many.dump()
    rebuild(many.archive)
    assert many.dump() == before


@pytest.mark.usefixtures("always_parallel")
def test_growing_session_with_workers_equals_one_without(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path)
    path = sandbox.home.session(session_id(1), thread(prompt("one"), reply("two")))
    sandbox.ingest()
    with path.open("ab") as file:
        file.write(jsonl(thread(prompt("three"), reply("four"))))
    sandbox.ingest()

    assert differing_tables(sandbox) == []
