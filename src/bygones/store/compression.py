"""Compressing and hashing bytes, and doing so beside other work."""

from __future__ import annotations

from _thread import _local as local  # as threading has it, which loads much more
from collections import deque
from typing import TYPE_CHECKING, Self

# Whoever lists sessions neither hashes nor unpacks, and need not load what does.
if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future, ThreadPoolExecutor
    from hashlib import _Hash

    import zstandard

__all__ = [
    "CompressionQueue",
    "HashedFrame",
    "compress",
    "compress_and_hash",
    "decompress",
    "sha256_digest",
]

HashedFrame = tuple[bytes, bytes]
"""The hash of some bytes, and the bytes compressed."""

_MAX_PENDING_BYTES = 4 * 1024 * 1024
"""Bytes that may wait to be pressed; more would only take memory."""

_MAX_RATIO = 32 * 1024
"""Bytes that a byte of a frame stands for at most: a block of 128 KiB takes four."""


def sha256_digest(data: bytes) -> bytes:
    """Return the hash by which bytes are known to be what was stored."""
    return _CODECS.sha256(data).digest()


def compress_and_hash(data: bytes) -> HashedFrame:
    """Return the hash of some bytes, and the bytes compressed."""
    return sha256_digest(data), compress(data)


def compress(data: bytes) -> bytes:
    """Return bytes compressed."""
    return _CODECS.compressor.compress(data)


def decompress(frame: bytes, *, expected_size: int = 0) -> bytes:
    """Return bytes as they were before they were compressed.

    A frame that claims to hold more than ``size``, or than any frame of its length
    can hold, is refused before room is made for it: what it claims may have rotted.
    """
    claimed = _CODECS.content_size(frame)
    if claimed > (expected_size or len(frame) * _MAX_RATIO):
        raise _CODECS.error_type(
            f"a frame of {len(frame)} bytes claims to hold {claimed}"
        )
    return _CODECS.decompressor.decompress(frame, max_output_size=expected_size)


class CompressionQueue:
    """Presses bytes in a thread, and hands them on in the order in which they came.

    Neither hashing nor compressing holds the interpreter, so both go on while the
    caller reads what the bytes say.
    """

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None
        self._pending: deque[
            tuple[int, Future[HashedFrame], Callable[[HashedFrame], None]]
        ]
        self._pending = deque()
        self._pending_bytes = 0

    def submit(self, data: bytes, on_done: Callable[[HashedFrame], None]) -> None:
        """Have bytes pressed, and something done with them, soon."""
        if self._executor is None:
            from concurrent.futures import ThreadPoolExecutor

            self._executor = ThreadPoolExecutor(1, "press")
        self._pending.append(
            (len(data), self._executor.submit(compress_and_hash, data), on_done)
        )
        self._pending_bytes += len(data)
        while self._pending_bytes > _MAX_PENDING_BYTES:
            self._deliver_next()

    def drain(self) -> None:
        """Hand on all that waits."""
        while self._pending:
            self._deliver_next()

    def _deliver_next(self) -> None:
        weight, pressed, then = self._pending.popleft()
        self._pending_bytes -= weight
        then(pressed.result())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self._pending.clear()
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)


class _Codecs(local):
    """Contexts that are costly to make and may be used by one thread only."""

    sha256: Callable[[bytes], _Hash]
    compressor: zstandard.ZstdCompressor
    decompressor: zstandard.ZstdDecompressor
    content_size: Callable[[bytes], int]
    error_type: type[Exception]

    def __getattr__(self, name: str) -> object:
        """Make all of them when the first is asked for."""
        import hashlib

        import zstandard

        # Between levels 1 and 3: of all that were tried on transcripts, no faster
        # setting takes less room, and none that takes less room is faster.
        settings = zstandard.ZstdCompressionParameters(
            window_log=19,
            hash_log=15,
            chain_log=15,
            search_log=1,
            min_match=6,
            strategy=zstandard.STRATEGY_DFAST,
            write_content_size=1,
        )
        self.sha256 = hashlib.sha256
        self.compressor = zstandard.ZstdCompressor(compression_params=settings)
        self.decompressor = zstandard.ZstdDecompressor()
        self.content_size = zstandard.frame_content_size
        self.error_type = zstandard.ZstdError
        return self.__dict__[name]


_CODECS = _Codecs()
