"""Signals that end a program, which has to clean up before."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def stopped_by_signals(stop: Callable[[], None], *names: str) -> Iterator[list[int]]:
    """Call `stop` at a signal, such as ``SIGTERM``; ignored ones (`nohup`) stay ignored.

    Yields a list to which the signals are added. Raise the first one again afterwards, so
    that the program ends as it would have.
    """
    received: list[int] = []

    def handle(number: int, _frame: object) -> None:
        received.append(number)
        if len(received) == 1:
            stop()

    numbers = [
        number
        for name in names
        if (number := getattr(signal, name, None)) is not None
        and signal.getsignal(number) is signal.SIG_DFL
    ]
    for number in numbers:
        signal.signal(number, handle)
    try:
        yield received
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)
