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

__all__ = ["Press", "Pressed", "digest", "press", "squeeze", "unpress"]

Pressed = tuple[bytes, bytes]
"""The hash of some bytes, and the bytes compressed."""

_WAITING = 4 * 1024 * 1024
"""Bytes that may wait to be pressed; more would only take memory."""

_DENSEST = 32 * 1024
"""Bytes that a byte of a frame stands for at most: a block of 128 KiB takes four."""


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
    """Return bytes as they were before they were compressed.

    A frame that claims to hold more than ``size``, or than any frame of its length
    can hold, is refused before room is made for it: what it claims may have rotted.
    """
    claimed = _TOOLS.claimed(frame)
    if claimed > (size or len(frame) * _DENSEST):
        raise _TOOLS.refusal(f"a frame of {len(frame)} bytes claims to hold {claimed}")
    return _TOOLS.decompressor.decompress(frame, max_output_size=size)


class Press:
    """Presses bytes in a thread, and hands them on in the order in which they came.

    Neither hashing nor compressing holds the interpreter, so both go on while the
    caller reads what the bytes say.
    """

    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor | None = None
        self._waiting: deque[tuple[int, Future[Pressed], Callable[[Pressed], None]]]
        self._waiting = deque()
        self._weight = 0

    def add(self, raw: bytes, then: Callable[[Pressed], None]) -> None:
        """Have bytes pressed, and something done with them, soon."""
        if self._thread is None:
            from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 (see above)

            self._thread = ThreadPoolExecutor(1, "press")
        self._waiting.append((len(raw), self._thread.submit(press, raw), then))
        self._weight += len(raw)
        while self._weight > _WAITING:
            self._hand_on()

    def finish(self) -> None:
        """Hand on all that waits."""
        while self._waiting:
            self._hand_on()

    def _hand_on(self) -> None:
        weight, pressed, then = self._waiting.popleft()
        self._weight -= weight
        then(pressed.result())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self._waiting.clear()
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)


class _Tools(local):
    """Contexts that are costly to make and may be used by one thread only."""

    sha256: Callable[[bytes], _Hash]
    compressor: zstandard.ZstdCompressor
    decompressor: zstandard.ZstdDecompressor
    claimed: Callable[[bytes], int]
    refusal: type[Exception]

    def __getattr__(self, name: str) -> object:
        """Make all of them when the first is asked for."""
        import hashlib  # noqa: PLC0415 (see above)

        import zstandard  # noqa: PLC0415

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
        self.claimed = zstandard.frame_content_size
        self.refusal = zstandard.ZstdError
        return self.__dict__[name]


_TOOLS = _Tools()
