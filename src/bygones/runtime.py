"""Process-wide settings: garbage collection, heaps of the C library, listening sockets."""

from __future__ import annotations

import errno
import gc
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from bygones.errors import AddressUnavailable

with suppress(ImportError):  # on Windows
    import resource

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


_USUAL_FILE_LIMITS = (10_240, 4_096, 1_024)


def allow_open_files(count: int) -> int:
    """Raise the limit of open files to a number if possible; return how many may be open.

    Some systems allow a program only 256 of them by default.
    """
    with suppress(NameError, ValueError, OSError):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft == resource.RLIM_INFINITY or soft >= count:
            return count
        most = count if hard == resource.RLIM_INFINITY else min(count, hard)
        for raised in (most, *_USUAL_FILE_LIMITS):  # macOS may allow fewer than `hard`
            if soft < raised <= most:
                with suppress(ValueError, OSError):
                    resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
                    return raised
        return soft
    return count


BACKLOG = 512
"""Connections that may wait to be accepted."""


def bind_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address; port 0 chooses a free one.

    Connections that arrive before the server accepts them wait in the backlog.

    Raises `AddressUnavailable` if the address cannot be used.
    """
    try:
        return _listen(host, port)
    except OSError as error:
        raise _unavailable(host, port, error) from error


def bind_loopback(host: str, port: int) -> list[socket.socket]:
    """Return sockets that listen on one port of a host and of all `localhost` addresses.

    Browsers try `[::1]` before 127.0.0.1 for names below `localhost`, so another user
    who listens there would receive what is meant for this server. An address that the
    machine does not have is left out.

    Raises `AddressUnavailable` if the port, or every port that was tried, is in use.
    """
    if port == 0:
        for _ in range(_MAX_FREE_PORT_ATTEMPTS - 1):
            with suppress(AddressUnavailable):
                return _bind_loopback_once(host, 0)
    return _bind_loopback_once(host, port)


_MAX_FREE_PORT_ATTEMPTS = 32
"""A port that is free on one address may be in use on another."""
_LOCALHOST_ADDRESSES = ("127.0.0.1", "::1")
_MISSING_ADDRESS_ERRORS = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
"""The machine does not have the address, so no other user can listen there."""


def _bind_loopback_once(host: str, port: int) -> list[socket.socket]:
    listeners = [bind_socket(host, port)]
    own_address, port = listeners[0].getsockname()[:2]
    for address in _LOCALHOST_ADDRESSES:
        if address == own_address:
            continue
        try:
            listeners.append(_listen(address, port))
        except OSError as error:
            if error.errno in _MISSING_ADDRESS_ERRORS:
                continue
            for listener in listeners:
                listener.close()
            raise _unavailable(address, port, error) from error
    return listeners


def _unavailable(host: str, port: int, error: OSError) -> AddressUnavailable:
    return AddressUnavailable(host, port, (error.strerror or str(error)).lower())


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        # Accepted connections inherit this. With Nagle's algorithm, a short response
        # waits 40 ms for an acknowledgment.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener
