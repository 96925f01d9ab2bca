"""Reading in other processes comes to what reading in this one does."""

from __future__ import annotations

import gc
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
from bygones.maintenance.rebuild import rebuild
from bygones.model.base import SourceId
from tests.build import jsonl, prompt, reply, session_id, thread
from tests.cases.make import CASES, copied, stories
from tests.store.keeping import Keeping, unlike_rebuilt


def stretch(words: str, start: int = 0) -> LineBlock:
    raw = jsonl(thread(prompt(words), reply("so be it")))
    return LineBlock(SourceId("/h/a.jsonl"), 0, start, raw)


def ask(some: WorkerPool, asked: LineBlock, then: Callable[[IndexBatch], None]) -> None:
    some.submit(INDEX_TASK, asked, then, size=len(asked.raw))


@pytest.fixture
def beside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other processes are worth it however little there is to read."""
    monkeypatch.setattr(workers, "MIN_PARALLEL_BYTES", 0)
    monkeypatch.setattr(workers, "spare_cpu_count", lambda: 2)


@pytest.fixture
def one() -> Iterator[Worker]:
    found = Worker()
    yield found
    found.close()


def test_worker_returns_the_same_result(one: Worker) -> None:
    for asked in (stretch("one"), stretch("two \u4e2d\u6587 \U0001f389", 99)):
        assert one.call(INDEX_TASK, asked) == index_block(asked)
    assert isinstance(one._child, Popen)
    assert not one._is_unavailable


def test_dead_worker_is_replaced_by_a_local_call(one: Worker) -> None:
    one.call(INDEX_TASK, stretch("one"))
    assert one._child is not None
    one._child.kill()
    one._child.wait()

    assert one.call(INDEX_TASK, stretch("two")) == index_block(stretch("two"))
    assert one.call(INDEX_TASK, stretch("three")) == index_block(stretch("three"))


def test_worker_that_cannot_start_is_replaced_by_a_local_call(
    one: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "/nowhere/python")

    assert one.call(INDEX_TASK, stretch("one")) == index_block(stretch("one"))


def test_worker_imports_nothing_from_the_current_folder(
    one: Worker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap = tmp_path / "bygones"
    trap.mkdir()
    (trap / "__init__.py").write_text("import pathlib; pathlib.Path('sprung').touch()")
    (tmp_path / "msgspec.py").write_text(
        "import pathlib; pathlib.Path('sprung').touch()"
    )
    monkeypatch.chdir(tmp_path)

    one.call(INDEX_TASK, stretch("one"))

    assert not (tmp_path / "sprung").exists()
    assert not one._is_unavailable


def test_worker_ends_with_its_parent(one: Worker) -> None:
    one.call(INDEX_TASK, stretch("one"))
    child = one._child
    assert child is not None
    one.close()

    assert child.returncode == 0


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="nothing is stopped there")
def test_stopped_worker_is_killed_on_exit(
    one: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    one.call(INDEX_TASK, stretch("one"))
    child = one._child
    assert child is not None
    child.send_signal(signal.SIGSTOP)
    monkeypatch.setattr(workers, "_EXIT_TIMEOUT", 0.01)
    one.close()

    assert child.returncode == -signal.SIGKILL


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="nothing is stopped there")
@pytest.mark.usefixtures("beside")
def test_interrupt_does_not_wait_for_a_stopped_worker() -> None:
    children: list[Popen[bytes]] = []

    def interrupted() -> None:
        with WorkerPool() as some:
            some.start_if_worthwhile(1)
            for one in some._workers:
                one.call(INDEX_TASK, stretch("one"))
                assert one._child is not None
                children.append(one._child)
            for child in children:
                child.send_signal(signal.SIGSTOP)
            for number in range(4):
                ask(some, stretch(f"words {number}"), lambda _: None)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()

    assert {child.returncode for child in children} == {-signal.SIGKILL}


@pytest.mark.usefixtures("beside")
def test_results_are_delivered_in_order() -> None:
    done: list[int] = []

    def then(number: int, gist: IndexBatch) -> None:
        assert gist == index_block(stretch(f"words {number}"))
        done.append(number)

    with WorkerPool() as some:
        some.start_if_worthwhile(1)
        for number in range(40):
            ask(some, stretch(f"words {number}"), partial(then, number))
            some.call_in_order(partial(done.append, -number))
        some.drain()

    assert done == [sign * number for number in range(40) for sign in (1, -1)]


@pytest.mark.usefixtures("beside")
def test_tasks_not_started_by_a_worker_run_locally(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = Event()

    def wait(_: Worker, __: WorkerTask[Any, Any], asked: LineBlock) -> IndexBatch:
        # Nobody answers until this process has done something itself.
        here.wait(timeout=60)
        return index_block(asked)

    def read(asked: LineBlock) -> IndexBatch:
        here.set()
        return index_block(asked)

    monkeypatch.setattr(Worker, "call", wait)
    monkeypatch.setattr(INDEX_TASK, "func", read)
    done: list[IndexBatch] = []
    asked = [stretch(f"words {number}") for number in range(10)]
    with WorkerPool() as some:
        some.start_if_worthwhile(1)
        for one in asked:
            ask(some, one, done.append)
        some.drain()

    assert here.is_set()
    assert done == [index_block(one) for one in asked]


@pytest.mark.usefixtures("beside")
def test_pending_results_have_no_reference_cycles() -> None:
    with WorkerPool() as some:
        some.start_if_worthwhile(1)
        gc.collect()
        gc.disable()
        try:
            for number in range(10):
                ask(some, stretch(f"words {number}"), lambda _: None)
            some.drain()
            left = [one for one in gc.get_objects() if isinstance(one, IndexBatch)]
        finally:
            gc.enable()

    assert left == []


@pytest.mark.usefixtures("beside")
def test_switch_interval_is_restored() -> None:
    before = sys.getswitchinterval()
    with WorkerPool() as some:
        some.start_if_worthwhile(1)
        assert sys.getswitchinterval() < before

    assert sys.getswitchinterval() == before


@pytest.mark.usefixtures("beside")
def test_error_in_a_result_callback_is_raised() -> None:
    def fail(_: IndexBatch) -> None:
        raise OSError("no room")

    with WorkerPool() as some:
        some.start_if_worthwhile(1)
        ask(some, stretch("one"), fail)
        with pytest.raises(OSError, match="no room"):
            some.drain()


@pytest.mark.usefixtures("beside")
def test_archive_built_with_workers_equals_one_built_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    homes = [copied(CASES / name, tmp_path / name) for name in sorted(stories())]
    many = Keeping(tmp_path / "many")
    many.ingest(*homes)
    with monkeypatch.context() as alone:
        alone.setattr(workers, "spare_cpu_count", lambda: 0)
        one = Keeping(tmp_path / "one")
        one.ingest(*homes)

    assert many.dump() == one.dump()
    before = many.dump()
    rebuild(many.archive)
    assert many.dump() == before


@pytest.mark.usefixtures("beside")
def test_growing_session_with_workers_equals_one_without(tmp_path: Path) -> None:
    keeping = Keeping(tmp_path)
    path = keeping.home.session(session_id(1), thread(prompt("one"), reply("two")))
    keeping.ingest()
    with path.open("ab") as file:
        file.write(jsonl(thread(prompt("three"), reply("four"))))
    keeping.ingest()

    assert unlike_rebuilt(keeping) == []
