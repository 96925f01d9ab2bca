"""Memory while much is taken in: nothing looked for in vain, nothing kept in vain."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress

__all__ = ["give_back", "share_heaps", "uncollected"]

_ARENA_MAX = -8
"""How the C library calls the number of its heaps."""
_HEAPS = 2


@contextmanager
def uncollected() -> Iterator[None]:
    """Leave the collector off for as long as many values are made and dropped.

    Values here form no circles, so nothing stays behind; looking for some took a
    tenth of all ingestion.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def give_back() -> None:
    """Give memory that is free back to the system, where the C library can.

    Several threads that make and drop much leave the pages they used half empty; a
    long ingestion would seem to need ever more.
    """
    import ctypes  # noqa: PLC0415 (what takes in nothing needs none)

    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def share_heaps() -> None:
    """Have threads share a few heaps, where the C library gives each its own.

    In each of them stays what was free when somebody else needed memory. For programs
    that go on for long, with many threads that take turns; called before there are any.
    """
    import ctypes  # noqa: PLC0415 (as above)

    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(_ARENA_MAX, _HEAPS)
