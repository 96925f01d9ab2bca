"""Process-wide settings: garbage collection, heaps of the C library, listening sockets."""

from __future__ import annotations

import gc
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from bygones.errors import AddressUnavailable

_M_ARENA_MAX = -8
"""The number of `M_ARENA_MAX` in glibc's `malloc.h`."""


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


def limit_malloc_arenas(count: int = 2) -> None:
    """Let threads share a few heaps, where the C library gives each its own (glibc).

    Each heap keeps free memory that other threads cannot use. Call it before any thread
    is started, in programs that run for long with many threads.
    """
    import ctypes

    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, count)


BACKLOG = 512
"""Connections that may wait to be accepted."""


def bind_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address; port 0 chooses a free one.

    Connections that arrive before the server accepts them wait in the backlog.

    Raises `AddressUnavailable` if the address cannot be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    # Accepted connections inherit this. With Nagle's algorithm, a short response waits
    # 40 ms for an acknowledgment.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        reason = (error.strerror or str(error)).lower()
        raise AddressUnavailable(host, port, reason) from error
    return listener
