"""Tasks done beside other work, and what comes of them handed on in order."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from typing import Any, Self, TypeVar

from bygones.ingest.reader import Reader, spare_cores
from bygones.ingest.tasks import Task

__all__ = ["Readers"]

Asked = TypeVar("Asked")
Told = TypeVar("Told")

WORTH = 32 * 1024 * 1024
"""Bytes to be read for which it pays to start other processes."""
_MOST = 3
_WAITING = 4 * 1024 * 1024
"""Bytes that may wait to be read; more would only take memory."""
_SOON = 0.0005
"""Seconds after which a thread with an answer may go on: a process that waits for the
next question stands still until then, which is ten times as long if nobody says so."""
_LARGE = 8 * 1024 * 1024
"""What is larger is a giant line or session, and is not copied to and fro."""


class _Turn:
    """Something to be done in its turn."""

    weight = 0

    def __init__(self, deed: Callable[[], None]) -> None:
        self.come = deed
        """Do it: its turn has come."""

    def is_ready(self) -> bool:
        """Whether it waits for nothing but its turn."""
        return True

    def take_back(self) -> bool:
        """Do here what another process has not begun; say whether there was that."""
        return False


class _Asking:
    """A turn that waits for what another process tells."""

    def __init__(
        self,
        asked: Future[Any],
        *,
        instead: Callable[[], Any],
        then: Callable[[Any], None],
        weight: int,
    ) -> None:
        self.weight = weight
        self._told = asked
        self._instead = instead
        self._then = then

    def come(self) -> None:
        self._then(self._told.result())

    def is_ready(self) -> bool:
        return self._told.done()

    def take_back(self) -> bool:
        if self._told.done() or not self._told.cancel():
            return False
        self._told = Future()
        self._told.set_result(self._instead())
        return True


class Readers:
    """Does tasks, in other processes if there is much to do and room for them.

    Whatever comes of them is handed on in the order in which they were asked for.
    """

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._idle: SimpleQueue[Reader] = SimpleQueue()
        self._readers: list[Reader] = []
        self._waiting: deque[_Turn | _Asking] = deque()
        self._weight = 0
        self._interval = sys.getswitchinterval()

    def expect(self, weight: int) -> None:
        """Take on other processes if so many bytes are worth it."""
        count = min(spare_cores(), _MOST)
        if self._threads is not None or weight < WORTH or count < 1:
            return
        self._readers = [Reader() for _ in range(count)]
        for reader in self._readers:
            self._idle.put(reader)
        self._threads = ThreadPoolExecutor(count, "reader")
        sys.setswitchinterval(_SOON)

    def add(
        self,
        task: Task[Asked, Told],
        asked: Asked,
        then: Callable[[Told], None],
        *,
        weight: int,
    ) -> None:
        """Have a task done, and something with what comes of it, soon."""
        if self._threads is None or weight > _LARGE:
            self.finish()
            then(task.deed(asked))
            return
        told = self._threads.submit(self._ask, task, asked)
        instead = partial(task.deed, asked)
        self._waiting.append(_Asking(told, instead=instead, then=then, weight=weight))
        self._weight += weight
        while self._weight > _WAITING:
            self._hand_on()

    def then(self, deed: Callable[[], None]) -> None:
        """Have something done once all before it is."""
        if self._waiting:
            self._waiting.append(_Turn(deed))
        else:
            deed()

    def finish(self) -> None:
        """Hand on all that waits."""
        while self._waiting:
            self._hand_on()

    def _hand_on(self) -> None:
        """Hand on the first; while it is not ready, do here what nobody has begun."""
        first = self._waiting[0]
        while not first.is_ready() and any(one.take_back() for one in self._waiting):
            pass
        self._waiting.popleft()
        self._weight -= first.weight
        first.come()

    def _ask(self, task: Task[Asked, Told], asked: Asked) -> Told:
        reader = self._idle.get()
        try:
            return reader.ask(task, asked)
        finally:
            self._idle.put(reader)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, failure: object, *_: object) -> None:
        self._waiting.clear()
        if failure is not None:
            # Nobody wants what they are at, and one may have been stopped.
            for reader in self._readers:
                reader.leave()
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
            sys.setswitchinterval(self._interval)
        for reader in self._readers:
            reader.close()
