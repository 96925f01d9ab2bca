"""Compressing and hashing bytes, where they are at hand.

A thread of its own for this brought no gain that could be measured.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

# Whoever lists sessions neither hashes nor unpacks, and need not load what does.
if TYPE_CHECKING:
    from collections.abc import Callable
    from hashlib import _Hash

    import zstandard

__all__ = ["LEVEL", "Pressed", "digest", "press", "squeeze", "unpress"]

LEVEL = 3

Pressed = tuple[bytes, bytes]
"""The hash of some bytes, and the bytes compressed."""


def digest(raw: bytes) -> bytes:
    """Return the hash by which bytes are known to be what was stored."""
    return _TOOLS.sha256(raw).digest()


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

    sha256: Callable[[bytes], _Hash]
    compressor: zstandard.ZstdCompressor
    decompressor: zstandard.ZstdDecompressor

    def __getattr__(self, name: str) -> object:
        """Make all of them when the first is asked for."""
        import hashlib  # noqa: PLC0415 (see above)

        import zstandard  # noqa: PLC0415

        self.sha256 = hashlib.sha256
        self.compressor = zstandard.ZstdCompressor(level=LEVEL)
        self.decompressor = zstandard.ZstdDecompressor()
        return self.__dict__[name]


_TOOLS = _Tools()
