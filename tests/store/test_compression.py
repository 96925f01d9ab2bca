"""The compression queue: results are complete and in order, and few wait."""

from __future__ import annotations

from random import Random

import pytest
import zstandard

from bygones.store import compression
from bygones.store.compression import (
    CompressionQueue,
    HashedFrame,
    compress,
    decompress,
    sha256_digest,
)


def test_compressed_frames_are_delivered_in_order() -> None:
    random = Random(3)  # noqa: S311 (the same every time)
    raws = [random.randbytes(random.randrange(200_000)) for _ in range(60)]
    found: list[HashedFrame] = []

    with CompressionQueue() as thread:
        for raw in raws:
            thread.submit(raw, found.append)
        thread.drain()

    assert [decompress(frame) for _, frame in found] == raws
    assert [digest for digest, _ in found] == [sha256_digest(raw) for raw in raws]


def test_pending_bytes_are_limited() -> None:
    found: list[HashedFrame] = []

    with CompressionQueue() as thread:
        for number in range(1, 11):
            thread.submit(bytes(1024 * 1024), found.append)
            assert number - len(found) <= compression._MAX_PENDING_BYTES // (
                1024 * 1024
            )


def test_pending_frames_are_dropped_after_an_error() -> None:
    found: list[HashedFrame] = []

    with CompressionQueue() as thread:
        thread.submit(b"left", found.append)

    assert found == []


def test_frame_that_claims_too_much_is_refused() -> None:
    # Found by a fuzzer: after a bit flip, the header of a frame claims exabytes.
    raw = b"words of a line"
    frame = compress(raw)
    rotten = frame[:4] + b"\xe0" + b"\xff" * 7 + b"\x7f" + frame[5:]

    with pytest.raises(zstandard.ZstdError, match="claims to hold 9223372036854775807"):
        decompress(rotten)
    with pytest.raises(zstandard.ZstdError, match="claims"):
        decompress(frame, expected_size=len(raw) - 1)
    assert decompress(frame, expected_size=len(raw)) == raw


def test_frame_with_the_highest_ratio_is_accepted() -> None:
    raw = bytes(50_000_000)

    assert decompress(compress(raw)) == raw
