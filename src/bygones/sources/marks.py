"""Where reading stopped, and whether it may go on there (F7)."""

from __future__ import annotations

import hashlib
import os
from enum import StrEnum

from msgspec import Struct

from bygones.model.ids import SourceId
from bygones.model.problems import Problem
from bygones.model.sources import Source
from bygones.sources.opening import (
    id_of,
    opened,
    problem_at,
    problem_of,
    read_window,
)

__all__ = ["Growth", "Mark", "check", "mark_from", "mark_of", "prefix_hash"]

_WINDOW = 4096
_BLOCK = 1 << 18


class Mark(Struct, frozen=True, kw_only=True):
    """How far a source was read, with fingerprints of what was read.

    ``offset`` is behind the last newline that was consumed: an unfinished last line is
    left for next time. ``size`` is how far was looked, the unfinished line included.
    """

    offset: int
    size: int
    head: bytes
    """Hash of the first 4 KiB before the offset."""
    tail: bytes
    """Hash of the last 4 KiB before the offset."""
    rest: bytes
    """Hash of the last 4 KiB of the unfinished line."""


class Growth(StrEnum):
    """What became of a source since its mark was made."""

    SAME = "same"
    """Nothing new was written."""
    GROWN = "grown"
    """What was read is still there: go on at the mark's offset."""
    ANEW = "anew"
    """Shrunk or rewritten: read from 0 as a new generation."""


def mark_of(
    source: Source | SourceId, offset: int, *, size: int | None = None
) -> Mark | Problem:
    """Return the mark of a source that was read up to ``offset``.

    ``size`` is the end of the unfinished line that was seen; without it nothing
    behind the offset counts as seen. The file is opened again: who wants a mark of
    exactly the bytes that were read, even if the file is replaced in between, keeps
    them and asks :func:`mark_from`.
    """
    name = id_of(source)
    seen = offset if size is None else size
    with opened(name) as found:
        if isinstance(found, Problem):
            return found
        if found[1] < seen:
            return problem_at("shrunk", name, f"{found[1]} bytes are left", offset=seen)
        try:
            return _mark(found[0], offset, seen)
        except OSError as error:
            return problem_of(error, name)


def mark_from(*, head: bytes, tail: bytes, rest: bytes, offset: int) -> Mark:
    """Return the mark of bytes at hand.

    ``head`` begins at 0, ``tail`` ends at ``offset``, ``rest`` is all of the
    unfinished line. Each may be longer than what the mark looks at; of ``head`` and
    ``tail`` 4 KiB are needed, or all there is before the offset.
    """
    return Mark(
        offset=offset,
        size=offset + len(rest),
        head=_hash(head[: min(_WINDOW, offset)]),
        tail=_hash(tail[-min(_WINDOW, offset) :] if offset else b""),
        rest=_hash(rest[-_WINDOW:]),
    )


def check(source: Source | SourceId, mark: Mark) -> Growth | Problem:
    """Return what became of a source since ``mark``; reads 12 KiB at most.

    Times and inodes are not asked, they lie. A rewrite in place is seen if it changes
    the length below the offset or one of the windows that the mark has hashed. A
    rewrite that changes only bytes between the first and the last 4 KiB, and leaves
    every later byte where it was, is not: compare :func:`prefix_hash` for that.
    """
    name = id_of(source)
    with opened(name) as found:
        if isinstance(found, Problem):
            return found
        descriptor, size = found
        if size < mark.offset:
            return Growth.ANEW
        try:
            now = _mark(descriptor, mark.offset, min(size, mark.size))
        except OSError as error:
            return problem_of(error, name)
    if (now.head, now.tail) != (mark.head, mark.tail):
        return Growth.ANEW
    return Growth.SAME if now == mark and size == mark.size else Growth.GROWN


def prefix_hash(source: Source | SourceId, upto: int) -> bytes | Problem:
    """Return the hash of the first ``upto`` bytes: the audit that misses nothing."""
    name = id_of(source)
    hashed = _hasher()
    left = upto
    with opened(name) as found:
        if isinstance(found, Problem):
            return found
        try:
            while left and (raw := os.read(found[0], min(_BLOCK, left))):
                hashed.update(raw)
                left -= len(raw)
        except OSError as error:
            return problem_of(error, name)
    if left:
        return problem_at("shrunk", name, f"{upto - left} bytes are left", offset=upto)
    return hashed.digest()


def _mark(descriptor: int, offset: int, size: int) -> Mark:
    return Mark(
        offset=offset,
        size=size,
        head=_hash(read_window(descriptor, 0, min(_WINDOW, offset))),
        tail=_hash(read_window(descriptor, max(0, offset - _WINDOW), offset)),
        rest=_hash(read_window(descriptor, max(offset, size - _WINDOW), size)),
    )


def _hasher() -> hashlib.blake2b:
    return hashlib.blake2b(digest_size=16)


def _hash(raw: bytes) -> bytes:
    hashed = _hasher()
    hashed.update(raw)
    return hashed.digest()
