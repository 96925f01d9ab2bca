"""Compression and hashing of bytes, also in the background."""

from __future__ import annotations

from _thread import _local as local  # threading.local, without importing threading
from collections import deque
from io import BytesIO
from struct import Struct as BinaryFormat
from typing import TYPE_CHECKING, Self

# `list` neither hashes nor decompresses, and must start fast.
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future, ThreadPoolExecutor
    from hashlib import _Hash

    import zstandard
    from apsw import Blob

__all__ = [
    "MARK_SIZE",
    "UNKNOWN_HASH",
    "ChunkHead",
    "CompressionQueue",
    "HashedFrame",
    "compress",
    "compress_and_hash",
    "compress_in_parts",
    "decompress",
    "decompress_blob",
    "load_accepted_ns",
    "mark_as_lost",
    "sha256_digest",
]

HashedFrame = tuple[bytes, bytes]
"""The SHA-256 of some bytes, and the bytes compressed."""

_MAX_PENDING_BYTES = 4 * 1024 * 1024
"""Bytes that may wait to be compressed; more would only take memory."""

_MAX_RATIO = 32 * 1024
"""Bytes per compressed byte at most: a block of 128 KiB takes four."""

_MAX_HEADER_BYTES = 18
"""The longest header of a frame."""

_PART_BYTES = 512 * 1024


def sha256_digest(data: bytes | memoryview) -> bytes:
    return _CODECS.sha256(data).digest()


def compress_and_hash(data: bytes) -> HashedFrame:
    return sha256_digest(data), compress(data)


def compress(data: bytes) -> bytes:
    return _CODECS.compressor.compress(data)


def decompress(
    frame: bytes, *, expected_size: int = 0, is_foreign: bool = False
) -> bytes:
    """Return the bytes of a compressed frame.

    A frame that claims to contain more than `expected_size`, or than any frame of its
    length can, is refused before memory is allocated: the claim may be damaged. After a
    foreign frame there must be nothing, because its hash would not cover that.
    """
    claimed = _CODECS.content_size(frame)
    if claimed > (expected_size or len(frame) * _MAX_RATIO):
        raise _CODECS.error_type(
            f"a frame of {len(frame)} bytes claims to hold {claimed}"
        )
    return _CODECS.decompressor.decompress(
        frame, max_output_size=expected_size, allow_extra_data=not is_foreign
    )


def compress_in_parts(data: bytes) -> Iterator[bytes]:
    """Yield the parts of a frame, which may be as large as the data."""
    frame = _CODECS.compressor.compressobj(size=len(data))
    view = memoryview(data)
    for start in range(0, len(data), _PART_BYTES):
        yield frame.compress(view[start : start + _PART_BYTES])
    yield frame.flush()


def decompress_blob(blob: Blob) -> bytes:
    """Return the bytes of a frame in a database, which is read in parts.

    Bytes may be wrong if it is damaged: compare a checksum.
    """
    claimed = _CODECS.content_size(blob.read(_MAX_HEADER_BYTES))
    if not 0 <= claimed <= blob.length() * _MAX_RATIO:
        raise _CODECS.error_type(
            f"a frame of {blob.length()} bytes claims to hold {claimed}"
        )
    blob.seek(0)
    frame, raw = _CODECS.decompressor.decompressobj(), BytesIO()
    while part := blob.read(_PART_BYTES):
        raw.write(frame.decompress(part))
    if not frame.eof or frame.unused_data or raw.tell() != claimed:
        raise _CODECS.error_type("a frame does not end where it should")
    return raw.getvalue()


class ChunkHead:
    """A frame that is decompressed as far as bytes of it were read."""

    def __init__(self, frame: bytes) -> None:
        self._stream = _CODECS.decompressor.stream_reader(frame)
        self._head = b""

    def read(self, offset: int, length: int) -> bytes:
        """Return bytes from an offset; fewer if there are fewer."""
        missing = offset + length - len(self._head)
        if missing > 0:
            self._head += self._stream.read(missing)
        return self._head[offset : offset + length]


class CompressionQueue:
    """Compresses and hashes bytes in a thread, and delivers results in order.

    Both release the GIL, so the caller can parse the bytes meanwhile.
    """

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None
        self._pending: deque[
            tuple[int, Future[HashedFrame], Callable[[HashedFrame], None]]
        ]
        self._pending = deque()
        self._pending_bytes = 0

    def submit(self, data: bytes, on_done: Callable[[HashedFrame], None]) -> None:
        """Compress bytes in the background, then call `on_done` with the result."""
        if self._executor is None:
            from concurrent.futures import ThreadPoolExecutor

            self._executor = ThreadPoolExecutor(1, "compress")
        self._pending.append(
            (len(data), self._executor.submit(compress_and_hash, data), on_done)
        )
        self._pending_bytes += len(data)
        while self._pending_bytes > _MAX_PENDING_BYTES:
            self._deliver_next()

    def drain(self) -> None:
        """Deliver all pending results."""
        while self._pending:
            self._deliver_next()

    def _deliver_next(self) -> None:
        size, result, on_done = self._pending.popleft()
        self._pending_bytes -= size
        on_done(result.result())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self._pending.clear()
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)


class _Codecs(local):
    """Contexts that are expensive to create and usable by one thread only."""

    sha256: Callable[[bytes | memoryview], _Hash]
    compressor: zstandard.ZstdCompressor
    decompressor: zstandard.ZstdDecompressor
    content_size: Callable[[bytes], int]
    error_type: type[Exception]

    def __getattr__(self, name: str) -> object:
        """Create all of them when the first is needed."""
        import hashlib

        import zstandard

        # Level 3 with smaller tables: as small within half a percent, and a tenth
        # faster. The window is as large as the largest part of a line that is stored.
        settings = zstandard.ZstdCompressionParameters(
            window_log=22,
            hash_log=16,
            chain_log=15,
            search_log=1,
            min_match=5,
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


_MARK = BinaryFormat("<IIq")
"""Starts the frame of bytes that are lost, if the user has accepted that: a skippable
frame of zstd, with its magic number, its size, and the time in nanoseconds.

The damaged bytes follow, so that nothing is deleted. If the bytes turn up, their frame
replaces this one, and the mark with it.
"""
_MAGIC, _TIME_BYTES = 0x184D2A5B, 8

MARK_SIZE = _MARK.size

UNKNOWN_HASH = bytes(32)
"""Takes the place of the hash of lost bytes, if it is lost too."""


def mark_as_lost(frame: bytes, accepted_ns: int) -> bytes:
    """Return a damaged frame with the time at which the user accepted the loss."""
    return _MARK.pack(_MAGIC, _TIME_BYTES, accepted_ns) + frame


def load_accepted_ns(frame: bytes) -> int:
    """Return when the loss of a frame's bytes was accepted; 0 if it was not."""
    if len(frame) < _MARK.size:
        return 0
    magic, size, accepted_ns = _MARK.unpack_from(frame)
    is_marked = (magic, size) == (_MAGIC, _TIME_BYTES)
    return max(int(accepted_ns), 0) if is_marked else 0
