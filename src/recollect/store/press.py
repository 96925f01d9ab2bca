"""Compressing and hashing bytes beside the interpreter's own work."""

from __future__ import annotations

import hashlib
import threading
from concurrent.futures import Future, ThreadPoolExecutor

import zstandard

__all__ = ["LEVEL", "Press", "Pressed", "digest", "press", "squeeze", "unpress"]

LEVEL = 3

Pressed = tuple[bytes, bytes]
"""The hash of some bytes, and the bytes compressed."""


def digest(raw: bytes) -> bytes:
    """Return the hash by which bytes are known to be what was stored."""
    return hashlib.sha256(raw).digest()


def press(raw: bytes) -> Pressed:
    """Return the hash of some bytes, and the bytes compressed."""
    return digest(raw), squeeze(raw)


def squeeze(raw: bytes) -> bytes:
    """Return bytes compressed."""
    return _TOOLS.compressor.compress(raw)


def unpress(frame: bytes, *, size: int = 0) -> bytes:
    """Return bytes as they were before they were compressed."""
    return _TOOLS.decompressor.decompress(frame, max_output_size=size)


class _Tools(threading.local):
    """Contexts that are costly to make and may be used by one thread only."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=LEVEL)
        self.decompressor = zstandard.ZstdDecompressor()


_TOOLS = _Tools()


class Press:
    """A thread that compresses while others go on; both leave the lock alone."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="press")

    def submit(self, raw: bytes) -> Future[Pressed]:
        """Begin to compress some bytes."""
        return self._pool.submit(press, raw)

    def close(self) -> None:
        """Wait for what was begun."""
        self._pool.shutdown()
