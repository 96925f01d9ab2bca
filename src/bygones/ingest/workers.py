"""Worker processes for the parts of an ingestion that are pure functions."""

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
from msgspec import structs

from bygones.errors.base import UNEXPECTED_ERRORS
from bygones.ingest.derive import DerivedSession, derive_family
from bygones.ingest.index_batch import IndexBatch, LineBlock, index_block
from bygones.ingest.loading import SessionFamily
from bygones.runtime import gc_paused

TaskArgument = TypeVar("TaskArgument")
TaskResult = TypeVar("TaskResult")
_encode = msgspec.msgpack.Encoder().encode


class WorkerTask(Generic[TaskArgument, TaskResult]):
    """A function whose argument and result can be encoded."""

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

    def encode_argument(self, argument: TaskArgument) -> tuple[bytes, bytes]:
        """Return an argument as MessagePack, and the bytes of a block beside it.

        A block is half a megabyte, and would be copied twice.
        """
        if isinstance(argument, LineBlock):
            return _encode(structs.replace(argument, raw=b"")), argument.raw
        return _encode(argument), b""

    def run_encoded(self, encoded: bytes, raw: bytes) -> bytes:
        argument = self._argument_decoder.decode(encoded)
        if isinstance(argument, LineBlock):
            argument = structs.replace(argument, raw=raw)
        return _encode(self.func(argument))

    def decode_result(self, encoded: bytes) -> TaskResult:
        return self._result_decoder.decode(encoded)


def _derive_family(family: SessionFamily) -> list[DerivedSession]:
    return derive_family(*family.decode(), family.agent_states)


INDEX_TASK: WorkerTask[LineBlock, IndexBatch] = WorkerTask(
    index_block, LineBlock, IndexBatch
)
DERIVE_TASK: WorkerTask[SessionFamily, list[DerivedSession]] = WorkerTask(
    _derive_family, SessionFamily, list[DerivedSession]
)
TASKS: tuple[WorkerTask[Any, Any], ...] = (INDEX_TASK, DERIVE_TASK)


MIN_PARALLEL_BYTES = 32 * 1024 * 1024
"""Bytes to read from which on starting other processes pays off."""
_MAX_WORKERS = 3
_MAX_PENDING_BYTES = 4 * 1024 * 1024
"""Bytes that may wait for a worker; more would only take memory."""
_SWITCH_INTERVAL = 0.0005
"""The interpreter's switch interval while workers run.

A worker is idle until the thread with its result runs; the default is ten times as
long.
"""
_MAX_REMOTE_BYTES = 8 * 1024 * 1024
"""Larger arguments are giant lines or sessions, and are not copied to a worker."""


class _OrderedCall:
    """A call that runs after all results before it."""

    size = 0

    def __init__(self, func: Callable[[], None]) -> None:
        self.run = func

    def is_ready(self) -> bool:
        return True

    def run_locally(self) -> bool:
        """Run a task that no worker has started; return whether there was one."""
        return False


class _PendingResult:
    """A result that a worker computes."""

    def __init__(
        self,
        future: Future[Any],
        *,
        fallback: Callable[[], Any],
        on_result: Callable[[Any], None],
        on_error: Callable[[Exception], None] | None,
        size: int,
    ) -> None:
        self.size = size
        self._future = future
        self._fallback = fallback
        self._on_result = on_result
        self._on_error = on_error

    def run(self) -> None:
        _deliver(self._future.result, self._on_result, self._on_error)

    def is_ready(self) -> bool:
        return self._future.done()

    def run_locally(self) -> bool:
        if self._future.done() or not self._future.cancel():
            return False
        self._future = Future()
        try:
            self._future.set_result(self._fallback())
        except UNEXPECTED_ERRORS as error:
            self._future.set_exception(error)
        return True


def _deliver(
    compute: Callable[[], TaskResult],
    on_result: Callable[[TaskResult], None],
    on_error: Callable[[Exception], None] | None,
) -> None:
    """Pass a result on, or an unexpected error of the task."""
    try:
        result = compute()
    except UNEXPECTED_ERRORS as error:
        if on_error is None:
            raise
        on_error(error)
    else:
        on_result(result)


class WorkerPool:
    """Runs tasks, in other processes if there is much to do and there are idle CPUs.

    Results are delivered in the order in which the tasks were submitted.
    """

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None
        self._idle: SimpleQueue[Worker] = SimpleQueue()
        self._workers: list[Worker] = []
        self._pending: deque[_OrderedCall | _PendingResult] = deque()
        self._pending_bytes = 0
        self._old_switch_interval = sys.getswitchinterval()

    def start_if_worthwhile(self, total_bytes: int) -> None:
        """Start other processes if there are so many bytes that it pays off."""
        count = min(spare_cpu_count(), _MAX_WORKERS)
        if self._executor is not None or total_bytes < MIN_PARALLEL_BYTES or count < 1:
            return
        self._workers = [Worker() for _ in range(count)]
        for worker in self._workers:
            self._idle.put(worker)
        self._executor = ThreadPoolExecutor(count, "worker")
        sys.setswitchinterval(_SWITCH_INTERVAL)

    def submit(
        self,
        task: WorkerTask[TaskArgument, TaskResult],
        argument: TaskArgument,
        on_result: Callable[[TaskResult], None],
        *,
        size: int,
        on_error: Callable[[Exception], None] | None = None,
    ) -> None:
        """Run a task, then call `on_result` with its result.

        An unexpected error is raised, or passed to `on_error`.
        """
        if self._executor is None or size > _MAX_REMOTE_BYTES:
            self.drain()
            _deliver(partial(task.func, argument), on_result, on_error)
            return
        future = self._executor.submit(self._call_worker, task, argument)
        fallback = partial(task.func, argument)
        self._pending.append(
            _PendingResult(
                future,
                fallback=fallback,
                on_result=on_result,
                on_error=on_error,
                size=size,
            )
        )
        self._pending_bytes += size
        while self._pending_bytes > _MAX_PENDING_BYTES:
            self._deliver_next()

    def call_in_order(self, func: Callable[[], None]) -> None:
        """Call a function after all results before it are delivered."""
        if self._pending:
            self._pending.append(_OrderedCall(func))
        else:
            func()

    def drain(self) -> None:
        """Deliver all pending results."""
        while self._pending:
            self._deliver_next()

    def _deliver_next(self) -> None:
        """Deliver the first result; run tasks that no worker has started meanwhile."""
        first = self._pending[0]
        while not first.is_ready() and any(
            call.run_locally() for call in self._pending
        ):
            pass
        self._pending.popleft()
        self._pending_bytes -= first.size
        first.run()

    def _call_worker(
        self, task: WorkerTask[TaskArgument, TaskResult], argument: TaskArgument
    ) -> TaskResult:
        worker = self._idle.get()
        try:
            return worker.call(task, argument)
        finally:
            self._idle.put(worker)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, failure: object, *_: object) -> None:
        self._pending.clear()
        if failure is not None:
            # Their results are not needed, and one may have been stopped.
            for worker in self._workers:
                worker.kill()
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)
            sys.setswitchinterval(self._old_switch_interval)
        for worker in self._workers:
            worker.close()


_HEADER = Struct("<BQQ")
"""The number of the task, and how many bytes follow: MessagePack, then a block."""
_PIPE_BYTES = 1 << 20
"""The size of pipes, where the system supports it: enough for a block of lines."""
_EXIT_TIMEOUT = 5.0
"""Seconds that a worker gets to end by itself."""
_WORKER_ERRORS = (OSError, EOFError, ValueError, msgspec.MsgspecError)
"""Raised if the worker doesn't run or couldn't execute a task."""


def spare_cpu_count() -> int:
    """Return how many processes can run beside this one."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) - 1
    return (os.cpu_count() or 1) - 1


class Worker:
    """Another process that runs tasks; if it can't, this process does."""

    def __init__(self) -> None:
        self._child: Popen[bytes] | None = None
        self._is_unavailable = not sys.executable
        self._is_killed = False
        """Whether results are not needed any more."""

    def call(
        self, task: WorkerTask[TaskArgument, TaskResult], argument: TaskArgument
    ) -> TaskResult:
        """Return the result of a task."""
        if not self._is_unavailable:
            try:
                encoded = task.encode_argument(argument)
                return task.decode_result(self._request(TASKS.index(task), *encoded))
            except _WORKER_ERRORS:
                self._is_unavailable = True
        if self._is_killed:
            raise EOFError
        return task.func(argument)

    def _request(self, task: int, payload: bytes, raw: bytes) -> bytes:
        if self._child is None:
            self._child = _spawn_worker()
        requests, responses = self._child.stdin, self._child.stdout
        if requests is None or responses is None:
            raise EOFError
        _send(requests, task, payload, raw)
        return _receive(responses)[1]

    def kill(self) -> None:
        """End the process, and with it all waiting calls."""
        self._is_killed = True
        if self._child is not None:
            self._child.kill()

    def close(self) -> None:
        """Let the process end; kill it if it doesn't."""
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
    # In its own process group, so that Ctrl-C only interrupts us. Not in its own
    # session: Linux divides the processor evenly among sessions, so workers would get as
    # much of it as all other programs of the terminal. With -P nothing is imported
    # from the current folder, which may belong to another user.
    return Popen(  # noqa: S603 (our own interpreter)
        [sys.executable, "-P", "-m", __name__],
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        process_group=0,
        pipesize=_PIPE_BYTES,
    )


def _send(pipe: IO[bytes], task: int, payload: bytes, raw: bytes = b"") -> None:
    pipe.write(_HEADER.pack(task, len(payload), len(raw)))
    pipe.write(payload)
    pipe.write(raw)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> tuple[int, bytes, bytes]:
    header = pipe.read(_HEADER.size)
    if len(header) < _HEADER.size:
        raise EOFError
    task, *lengths = _HEADER.unpack(header)
    payload, raw = (pipe.read(length) for length in lengths)
    if [len(payload), len(raw)] != lengths:
        raise EOFError
    return task, payload, raw


def _serve(requests: IO[bytes], responses: IO[bytes]) -> None:
    with gc_paused():
        while True:
            task, *argument = _receive(requests)
            _send(responses, task, TASKS[task].run_encoded(*argument))


if __name__ == "__main__":
    try:
        _serve(sys.stdin.buffer, sys.stdout.buffer)
    except (*_WORKER_ERRORS, KeyboardInterrupt):
        # The parent has ended, or will run the task itself.
        os._exit(0)
