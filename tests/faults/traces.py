"""Looks for bytes in all that a folder holds, also where they are compressed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import zstandard

__all__ = ["traces"]

_MAGIC = b"\x28\xb5\x2f\xfd"


def traces(folder: Path, canary: bytes) -> list[str]:
    """Return the files that hold some bytes, as they are or within a zstd frame."""
    return [
        path.name
        for path in folder.rglob("*")
        if path.is_file()
        and canary in (raw := path.read_bytes()) + b"".join(_frames(raw))
    ]


def _frames(raw: bytes) -> Iterator[bytes]:
    """Yield what the zstd frames hold that begin anywhere in some bytes."""
    at = raw.find(_MAGIC)
    while at >= 0:
        with suppress(zstandard.ZstdError):
            opened = zstandard.ZstdDecompressor().decompressobj()
            yield opened.decompress(raw[at:])
        at = raw.find(_MAGIC, at + 1)
