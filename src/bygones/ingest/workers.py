"""What another process can do for an ingestion: pure functions of plain values."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from struct import Struct
from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired
from typing import IO, Any, Generic, Self, TypeVar

import msgspec

from bygones.assemble.summary import summarize_session
from bygones.ingest.index_batch import IndexBatch, LineBlock, index_block
from bygones.ingest.loading import SessionFamily
from bygones.memory import gc_paused
from bygones.model.sessions import count_messages
from bygones.model.summary import Loader
from bygones.store.derived_rows import DerivedRows, derive_rows

TaskArgument = TypeVar("TaskArgument")
TaskResult = TypeVar("TaskResult")
MIN_STORED_MESSAGES = 192
"""Messages of a family from which on they are written down as they were assembled."""
_encode = msgspec.msgpack.Encoder().encode


class WorkerTask(Generic[TaskArgument, TaskResult]):
    """A function, with its argument and its result as bytes."""

    def __init__(
        self,
        func: Callable[[TaskArgument], TaskResult],
        argument_type: type[TaskArgument],
        result_type: type[TaskResult],
    ) -> None:
        self.func = func
        self._argument_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(
            argument_type
        )
        self._result_decoder: msgspec.msgpack.Decoder[TaskResult] = (
            msgspec.msgpack.Decoder(result_type)
        )

    def encode_argument(self, argument: TaskArgument) -> bytes:
        """Return what is asked for as bytes."""
        return _encode(argument)

    def run_encoded(self, encoded: bytes) -> bytes:
        """Return the answer to a question."""
        return _encode(self.func(self._argument_decoder.decode(encoded)))

    def decode_result(self, encoded: bytes) -> TaskResult:
        """Return what an answer says."""
        return self._result_decoder.decode(encoded)


def _derive_family(family: SessionFamily) -> list[DerivedRows]:
    sessions = family.assemble_sessions(Loader())
    # What is small is assembled in a moment, if all that it is related to is small.
    is_long = sum(map(count_messages, sessions)) >= MIN_STORED_MESSAGES
    return [
        derive_rows(one, summarize_session(one), store_messages=is_long)
        for one in sessions
    ]


INDEX_TASK: WorkerTask[LineBlock, IndexBatch] = WorkerTask(
    index_block, LineBlock, IndexBatch
)
DERIVE_TASK: WorkerTask[SessionFamily, list[DerivedRows]] = WorkerTask(
    _derive_family, SessionFamily, list[DerivedRows]
)
TASKS: tuple[WorkerTask[Any, Any], ...] = (INDEX_TASK, DERIVE_TASK)


PoolArgument = TypeVar("PoolArgument")
PoolResult = TypeVar("PoolResult")

MIN_PARALLEL_BYTES = 32 * 1024 * 1024
"""Bytes to be read for which it pays to start other processes."""
_MAX_WORKERS = 3
_MAX_PENDING_BYTES = 4 * 1024 * 1024
"""Bytes that may wait to be read; more would only take memory."""
_SWITCH_INTERVAL = 0.0005
"""Seconds after which a thread with an answer may go on: a process that waits for the
next question stands still until then, which is ten times as long if nobody says so."""
_MAX_REMOTE_BYTES = 8 * 1024 * 1024
"""What is larger is a giant line or session, and is not copied to and fro."""


class _OrderedCall:
    """Something to be done in its turn."""

    size = 0

    def __init__(self, func: Callable[[], None]) -> None:
        self.run = func
        """Do it: its turn has come."""

    def is_ready(self) -> bool:
        """Whether it waits for nothing but its turn."""
        return True

    def run_locally(self) -> bool:
        """Do here what another process has not begun; say whether there was that."""
        return False


class _PendingResult:
    """A turn that waits for what another process tells."""

    def __init__(
        self,
        future: Future[Any],
        *,
        fallback: Callable[[], Any],
        on_result: Callable[[Any], None],
        size: int,
    ) -> None:
        self.size = size
        self._future = future
        self._fallback = fallback
        self._on_result = on_result

    def run(self) -> None:
        self._on_result(self._future.result())

    def is_ready(self) -> bool:
        return self._future.done()

    def run_locally(self) -> bool:
        if self._future.done() or not self._future.cancel():
            return False
        self._future = Future()
        self._future.set_result(self._fallback())
        return True


class WorkerPool:
    """Does tasks, in other processes if there is much to do and room for them.

    Whatever comes of them is handed on in the order in which they were asked for.
    """

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None
        self._idle: SimpleQueue[Worker] = SimpleQueue()
        self._workers: list[Worker] = []
        self._pending: deque[_OrderedCall | _PendingResult] = deque()
        self._pending_bytes = 0
        self._old_switch_interval = sys.getswitchinterval()

    def start_if_worthwhile(self, total_bytes: int) -> None:
        """Take on other processes if so many bytes are worth it."""
        count = min(spare_cpu_count(), _MAX_WORKERS)
        if self._executor is not None or total_bytes < MIN_PARALLEL_BYTES or count < 1:
            return
        self._workers = [Worker() for _ in range(count)]
        for reader in self._workers:
            self._idle.put(reader)
        self._executor = ThreadPoolExecutor(count, "reader")
        sys.setswitchinterval(_SWITCH_INTERVAL)

    def submit(
        self,
        task: WorkerTask[PoolArgument, PoolResult],
        argument: PoolArgument,
        on_result: Callable[[PoolResult], None],
        *,
        size: int,
    ) -> None:
        """Have a task done, and something with what comes of it, soon."""
        if self._executor is None or size > _MAX_REMOTE_BYTES:
            self.drain()
            on_result(task.func(argument))
            return
        told = self._executor.submit(self._call_worker, task, argument)
        instead = partial(task.func, argument)
        self._pending.append(
            _PendingResult(told, fallback=instead, on_result=on_result, size=size)
        )
        self._pending_bytes += size
        while self._pending_bytes > _MAX_PENDING_BYTES:
            self._deliver_next()

    def call_in_order(self, func: Callable[[], None]) -> None:
        """Have something done once all before it is."""
        if self._pending:
            self._pending.append(_OrderedCall(func))
        else:
            func()

    def drain(self) -> None:
        """Hand on all that waits."""
        while self._pending:
            self._deliver_next()

    def _deliver_next(self) -> None:
        """Hand on the first; while it is not ready, do here what nobody has begun."""
        first = self._pending[0]
        while not first.is_ready() and any(one.run_locally() for one in self._pending):
            pass
        self._pending.popleft()
        self._pending_bytes -= first.size
        first.run()

    def _call_worker(
        self, task: WorkerTask[PoolArgument, PoolResult], argument: PoolArgument
    ) -> PoolResult:
        reader = self._idle.get()
        try:
            return reader.call(task, argument)
        finally:
            self._idle.put(reader)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, failure: object, *_: object) -> None:
        self._pending.clear()
        if failure is not None:
            # Nobody wants what they are at, and one may have been stopped.
            for reader in self._workers:
                reader.kill()
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)
            sys.setswitchinterval(self._old_switch_interval)
        for reader in self._workers:
            reader.close()


WorkerArgument = TypeVar("WorkerArgument")
WorkerResult = TypeVar("WorkerResult")
_HEADER = Struct("<BQ")
"""Which task it is, and how many bytes follow."""
_PIPE_BYTES = 1 << 20
"""Bytes in a pipe, where the system lets us choose: a stretch fits in."""
_EXIT_TIMEOUT = 5.0
"""Seconds that a process which nobody asks any more gets to end by itself."""
_WORKER_ERRORS = (OSError, EOFError, ValueError, msgspec.MsgspecError)
"""What is raised if the other process is not there, or could not do a task."""


def spare_cpu_count() -> int:
    """Return how many processes can work beside this one."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) - 1
    return (os.cpu_count() or 1) - 1


class Worker:
    """Another process that works for this one; where it cannot, this one does."""

    def __init__(self) -> None:
        self._child: Popen[bytes] | None = None
        self._is_unavailable = not sys.executable
        self._is_killed = False
        """Whether nobody wants an answer any more."""

    def call(
        self, task: WorkerTask[WorkerArgument, WorkerResult], argument: WorkerArgument
    ) -> WorkerResult:
        """Return what a task makes of a value."""
        if not self._is_unavailable:
            try:
                return task.decode_result(
                    self._request(TASKS.index(task), task.encode_argument(argument))
                )
            except _WORKER_ERRORS:
                self._is_unavailable = True
        if self._is_killed:
            raise EOFError
        return task.func(argument)

    def _request(self, task: int, payload: bytes) -> bytes:
        if self._child is None:
            self._child = _spawn_worker()
        asked, told = self._child.stdin, self._child.stdout
        if asked is None or told is None:
            raise EOFError
        _send(asked, task, payload)
        return _receive(told)[1]

    def kill(self) -> None:
        """Have whoever waits for the other process wait no longer; it is ended."""
        self._is_killed = True
        if self._child is not None:
            self._child.kill()

    def close(self) -> None:
        """Let the other process end; one that does not, as it was stopped, is ended."""
        if self._child is None:
            return
        for pipe in (self._child.stdin, self._child.stdout):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()
        try:
            self._child.wait(_EXIT_TIMEOUT)
        except TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._child = None


def _spawn_worker() -> Popen[bytes]:
    # Not in the terminal's group: who interrupts us, interrupts us alone. And nothing
    # is imported from the folder that we are called in: it is anybody's.
    return Popen(  # noqa: S603 (ourselves)
        [sys.executable, "-P", "-m", __name__],
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        start_new_session=True,
        pipesize=_PIPE_BYTES,
    )


def _send(pipe: IO[bytes], task: int, payload: bytes) -> None:
    pipe.write(_HEADER.pack(task, len(payload)))
    pipe.write(payload)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> tuple[int, bytes]:
    head = pipe.read(_HEADER.size)
    if len(head) < _HEADER.size:
        raise EOFError
    task, length = _HEADER.unpack(head)
    raw = pipe.read(length)
    if len(raw) < length:
        raise EOFError
    return task, raw


def _serve(requests: IO[bytes], responses: IO[bytes]) -> None:
    with gc_paused():
        while True:
            task, question = _receive(requests)
            _send(responses, task, TASKS[task].run_encoded(question))


if __name__ == "__main__":
    try:
        _serve(sys.stdin.buffer, sys.stdout.buffer)
    except (*_WORKER_ERRORS, KeyboardInterrupt):
        # Nobody asks any more; or who asks will do this without us.
        os._exit(0)
