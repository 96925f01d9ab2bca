"""Where reading stopped, and whether it may go on there (F7)."""

from __future__ import annotations

import hashlib
import os
from enum import StrEnum

from msgspec import Struct

from bygones.model.base import Problem, SourceFile, SourceId
from bygones.sources.lines import (
    get_source_id,
    open_source,
    problem_from_error,
    read_range,
    source_problem,
)

__all__ = [
    "SourceChange",
    "SourceFingerprint",
    "detect_change",
    "fingerprint_bytes",
    "fingerprint_source",
    "hash_prefix",
]

_HASHED_SIZE = 4096
_READ_SIZE = 1 << 18


class SourceFingerprint(Struct, frozen=True, kw_only=True):
    """How far a source was read, with fingerprints of what was read.

    ``offset`` is behind the last newline that was consumed: an unfinished last line is
    left for next time. ``size`` is how far was looked, the unfinished line included.
    """

    offset: int
    size: int
    head_hash: bytes
    """Hash of the first 4 KiB before the offset."""
    tail_hash: bytes
    """Hash of the last 4 KiB before the offset."""
    unfinished_hash: bytes
    """Hash of the last 4 KiB of the unfinished line."""


class SourceChange(StrEnum):
    """What became of a source since its mark was made."""

    UNCHANGED = "same"
    """Nothing new was written."""
    APPENDED = "grown"
    """What was read is still there: go on at the mark's offset."""
    REWRITTEN = "anew"
    """Shrunk or rewritten: read from 0 as a new generation."""


def fingerprint_source(
    source: SourceFile | SourceId, offset: int, *, size: int | None = None
) -> SourceFingerprint | Problem:
    """Return the mark of a source that was read up to ``offset``.

    ``size`` is the end of the unfinished line that was seen; without it nothing
    behind the offset counts as seen. The file is opened again: who wants a mark of
    exactly the bytes that were read, even if the file is replaced in between, keeps
    them and asks :func:`mark_from`.
    """
    name = get_source_id(source)
    seen = offset if size is None else size
    with open_source(name) as found:
        if isinstance(found, Problem):
            return found
        if found[1] < seen:
            return source_problem(
                "shrunk", name, f"{found[1]} bytes are left", offset=seen
            )
        try:
            return _compute_fingerprint(found[0], offset, seen)
        except OSError as error:
            return problem_from_error(error, name)


def fingerprint_bytes(
    *, head: bytes, tail: bytes, unfinished: bytes, offset: int
) -> SourceFingerprint:
    """Return the mark of bytes at hand.

    ``head`` begins at 0, ``tail`` ends at ``offset``, ``rest`` is all of the
    unfinished line. Each may be longer than what the mark looks at; of ``head`` and
    ``tail`` 4 KiB are needed, or all there is before the offset.
    """
    return SourceFingerprint(
        offset=offset,
        size=offset + len(unfinished),
        head_hash=_hash(head[: min(_HASHED_SIZE, offset)]),
        tail_hash=_hash(tail[-min(_HASHED_SIZE, offset) :] if offset else b""),
        unfinished_hash=_hash(unfinished[-_HASHED_SIZE:]),
    )


def detect_change(
    source: SourceFile | SourceId, fingerprint: SourceFingerprint
) -> SourceChange | Problem:
    """Return what became of a source since ``mark``; reads 12 KiB at most.

    Times and inodes are not asked, they lie. A rewrite in place is seen if it changes
    the length below the offset or one of the windows that the mark has hashed. A
    rewrite that changes only bytes between the first and the last 4 KiB, and leaves
    every later byte where it was, is not: compare :func:`prefix_hash` for that.
    """
    name = get_source_id(source)
    with open_source(name) as found:
        if isinstance(found, Problem):
            return found
        descriptor, size = found
        if size < fingerprint.offset:
            return SourceChange.REWRITTEN
        try:
            now = _compute_fingerprint(
                descriptor, fingerprint.offset, min(size, fingerprint.size)
            )
        except OSError as error:
            return problem_from_error(error, name)
    if (now.head_hash, now.tail_hash) != (fingerprint.head_hash, fingerprint.tail_hash):
        return SourceChange.REWRITTEN
    return (
        SourceChange.UNCHANGED
        if now == fingerprint and size == fingerprint.size
        else SourceChange.APPENDED
    )


def hash_prefix(source: SourceFile | SourceId, length: int) -> bytes | Problem:
    """Return the hash of the first ``upto`` bytes: the audit that misses nothing."""
    name = get_source_id(source)
    hashed = _new_hasher()
    left = length
    with open_source(name) as found:
        if isinstance(found, Problem):
            return found
        try:
            while left and (raw := os.read(found[0], min(_READ_SIZE, left))):
                hashed.update(raw)
                left -= len(raw)
        except OSError as error:
            return problem_from_error(error, name)
    if left:
        return source_problem(
            "shrunk", name, f"{length - left} bytes are left", offset=length
        )
    return hashed.digest()


def _compute_fingerprint(descriptor: int, offset: int, size: int) -> SourceFingerprint:
    return SourceFingerprint(
        offset=offset,
        size=size,
        head_hash=_hash(read_range(descriptor, 0, min(_HASHED_SIZE, offset))),
        tail_hash=_hash(read_range(descriptor, max(0, offset - _HASHED_SIZE), offset)),
        unfinished_hash=_hash(
            read_range(descriptor, max(offset, size - _HASHED_SIZE), size)
        ),
    )


def _new_hasher() -> hashlib.blake2b:
    return hashlib.blake2b(digest_size=16)


def _hash(raw: bytes) -> bytes:
    hashed = _new_hasher()
    hashed.update(raw)
    return hashed.digest()
