"""Memory of this process: the garbage collector and the heaps of the C library."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_M_ARENA_MAX = -8
"""The number of `M_ARENA_MAX` in glibc's `malloc.h`."""
_MAX_ARENAS = 2


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause the garbage collector while many values are created and dropped.

    Our values form no reference cycles, so nothing leaks; the collector took a tenth of
    the time of an ingestion.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def trim_heap() -> None:
    """Return free memory to the system, where the C library can (glibc).

    Threads that allocate and free much leave their pages half empty, so that a long
    ingestion would seem to need ever more memory.
    """
    import ctypes

    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def limit_malloc_arenas() -> None:
    """Let threads share a few heaps, where the C library gives each its own (glibc).

    Each heap keeps free memory that other threads cannot use. Call it before any thread
    is started, in programs that run for long with many threads.
    """
    import ctypes

    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _MAX_ARENAS)
