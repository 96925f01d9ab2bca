"""Reading stretches beside other work, and handing on what they hold in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Self

from recollect.ingest.gist import Gist, Stretch, gist_of
from recollect.ingest.reader import Reader, spare_cores

__all__ = ["Readers"]

WORTH = 32 * 1024 * 1024
"""Bytes to be read for which it pays to start other processes."""
_MOST = 3
_WAITING = 4 * 1024 * 1024
"""Bytes that may wait to be read; more would only take memory."""
_LARGE = 8 * 1024 * 1024
"""A stretch of more is one giant line, and is not copied to and fro."""


class Readers:
    """Reads stretches, in other processes if there is much to read and room for them.

    Whatever is asked for is done in the order in which it was asked.
    """

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._idle: SimpleQueue[Reader] = SimpleQueue()
        self._readers: list[Reader] = []
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self._weight = 0

    def expect(self, weight: int) -> None:
        """Take on other processes if so many bytes are worth it."""
        count = min(spare_cores(), _MOST)
        if self._threads is not None or weight < WORTH or count < 1:
            return
        self._readers = [Reader() for _ in range(count)]
        for reader in self._readers:
            self._idle.put(reader)
        self._threads = ThreadPoolExecutor(count, "reader")

    def add(self, stretch: Stretch, then: Callable[[Gist], None]) -> None:
        """Have a stretch read, and something done with its gist, soon."""
        weight = len(stretch.raw)
        if self._threads is None or weight > _LARGE:
            self.finish()
            then(gist_of(stretch))
            return
        told = self._threads.submit(self._read, stretch)
        self._waiting.append((weight, lambda: then(told.result())))
        self._weight += weight
        while self._weight > _WAITING:
            self._hand_on()

    def then(self, deed: Callable[[], None]) -> None:
        """Have something done once all before it is."""
        if self._waiting:
            self._waiting.append((0, deed))
        else:
            deed()

    def finish(self) -> None:
        """Hand on all that waits."""
        while self._waiting:
            self._hand_on()

    def _hand_on(self) -> None:
        weight, deed = self._waiting.popleft()
        self._weight -= weight
        deed()

    def _read(self, stretch: Stretch) -> Gist:
        reader = self._idle.get()
        try:
            return reader.read(stretch)
        finally:
            self._idle.put(reader)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self._waiting.clear()
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
        for reader in self._readers:
            reader.close()
