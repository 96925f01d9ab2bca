"""Working in a process of its own: asked through a pipe, told through one.

Ends when the pipe does, whatever became of who asked.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from struct import Struct
from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired
from typing import IO, TypeVar

import msgspec

from bygones.ingest.pace import uncollected
from bygones.ingest.tasks import TASKS, Task

__all__ = ["Reader", "spare_cores"]

Asked = TypeVar("Asked")
Told = TypeVar("Told")
_HEAD = Struct("<BQ")
"""Which task it is, and how many bytes follow."""
_PIPE = 1 << 20
"""Bytes in a pipe, where the system lets us choose: a stretch fits in."""
_PARTING = 5.0
"""Seconds that a process which nobody asks any more gets to end by itself."""
_AWAY = (OSError, EOFError, ValueError, msgspec.MsgspecError)
"""What is raised if the other process is not there, or could not do a task."""


def spare_cores() -> int:
    """Return how many processes can work beside this one."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) - 1
    return (os.cpu_count() or 1) - 1


class Reader:
    """Another process that works for this one; where it cannot, this one does."""

    def __init__(self) -> None:
        self._child: Popen[bytes] | None = None
        self._is_away = not sys.executable
        self._is_left = False
        """Whether nobody wants an answer any more."""

    def ask(self, task: Task[Asked, Told], asked: Asked) -> Told:
        """Return what a task makes of a value."""
        if not self._is_away:
            try:
                return task.told(self._answer(TASKS.index(task), task.question(asked)))
            except _AWAY:
                self._is_away = True
        if self._is_left:
            raise EOFError
        return task.deed(asked)

    def _answer(self, task: int, question: bytes) -> bytes:
        if self._child is None:
            self._child = _start()
        asked, told = self._child.stdin, self._child.stdout
        if asked is None or told is None:
            raise EOFError
        _send(asked, task, question)
        return _receive(told)[1]

    def leave(self) -> None:
        """Have whoever waits for the other process wait no longer; it is ended."""
        self._is_left = True
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
            self._child.wait(_PARTING)
        except TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._child = None


def _start() -> Popen[bytes]:
    # Not in the terminal's group: who interrupts us, interrupts us alone. And nothing
    # is imported from the folder that we are called in: it is anybody's.
    return Popen(  # noqa: S603 (ourselves)
        [sys.executable, "-P", "-m", __name__],
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        start_new_session=True,
        pipesize=_PIPE,
    )


def _send(pipe: IO[bytes], task: int, raw: bytes) -> None:
    pipe.write(_HEAD.pack(task, len(raw)))
    pipe.write(raw)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> tuple[int, bytes]:
    head = pipe.read(_HEAD.size)
    if len(head) < _HEAD.size:
        raise EOFError
    task, length = _HEAD.unpack(head)
    raw = pipe.read(length)
    if len(raw) < length:
        raise EOFError
    return task, raw


def _work(asked: IO[bytes], told: IO[bytes]) -> None:
    with uncollected():
        while True:
            task, question = _receive(asked)
            _send(told, task, TASKS[task].answer(question))


if __name__ == "__main__":
    try:
        _work(sys.stdin.buffer, sys.stdout.buffer)
    except (*_AWAY, KeyboardInterrupt):
        # Nobody asks any more; or who asks will do this without us.
        os._exit(0)
