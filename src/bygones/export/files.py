"""Writing files whole or not at all."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path

__all__ = ["encoded", "file_name", "write_changed", "write_whole"]

_PRIVATE = 0o600
_SHARED = 0o666
"""As far as the user's umask lets it."""
_PIECE = 128 * 1024
"""Signs that are written at once."""
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,80}\Z")


def write_whole(path: Path, pieces: Iterable[bytes], *, private: bool = False) -> int:
    """Write a file beside its place and move it there; return its size.

    Whoever reads the old one goes on with it. If making the pieces fails, nothing
    has changed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.exporting")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)
    try:
        mode = _PRIVATE if private else _SHARED
        with os.fdopen(os.open(beside, flags, mode), "wb") as file:
            size = sum(file.write(piece) for piece in pieces)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    return size


def write_changed(path: Path, raw: bytes, *, private: bool = False) -> bool:
    """Write a file unless it holds the same already; return whether it was written."""
    if path.is_file() and path.stat().st_size == len(raw) and path.read_bytes() == raw:
        return False
    write_whole(path, [raw], private=private)
    return True


def encoded(texts: Iterable[str]) -> Iterator[bytes]:
    """Yield texts as bytes, many small ones at once."""
    waiting: list[str] = []
    size = 0
    for text in texts:
        waiting.append(text)
        size += len(text)
        if size > _PIECE:
            yield "".join(waiting).encode("utf-8", "replace")
            waiting, size = [], 0
    yield "".join(waiting).encode("utf-8", "replace")


def file_name(id_: str) -> str:
    """Return a name for a session's file; an odd id gives way to its hash."""
    if _PLAIN.match(id_):
        return id_
    return sha256(id_.encode("utf-8", "surrogatepass")).hexdigest()[:32]
