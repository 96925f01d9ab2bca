"""Compressing and hashing bytes, where they are at hand.

A thread of its own for this brought no gain that could be measured.
"""

from __future__ import annotations

import hashlib
import threading

import zstandard

__all__ = ["LEVEL", "Pressed", "digest", "press", "squeeze", "unpress"]

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
