"""Looking at JSON that is not decoded, without copying it: most of it is large."""

from __future__ import annotations

from msgspec import Raw

__all__ = ["head_of", "size_of", "tail_of"]


def size_of(raw: Raw) -> int:
    """Return how many bytes it has."""
    return memoryview(raw).nbytes


def head_of(raw: Raw, size: int) -> bytes:
    """Return its first bytes."""
    return bytes(memoryview(raw)[:size])


def tail_of(raw: Raw, size: int) -> bytes:
    """Return its last bytes."""
    return bytes(memoryview(raw)[-size:])
