"""Detects whether a source was appended to or rewritten since it was read."""

from __future__ import annotations

import hashlib
from enum import StrEnum

from msgspec import Struct

from bygones.model.base import Problem, SourceFile, SourceId
from bygones.sources.lines import (
    get_source_id,
    open_source,
    problem_from_error,
    read_range,
)

_HASHED_SIZE = 4096


class SourceFingerprint(Struct, frozen=True, kw_only=True):
    """How far a source was read, with hashes of what was read."""

    offset: int
    """The end of the last whole line; an unfinished line is read again next time."""
    size: int
    """The end of what was seen, including the unfinished line."""
    head_hash: bytes
    """Hash of the first 4 KiB before the offset."""
    tail_hash: bytes
    """Hash of the last 4 KiB before the offset."""
    unfinished_hash: bytes
    """Hash of the last 4 KiB of the unfinished line."""


class SourceChange(StrEnum):
    """How a source changed since its fingerprint was taken."""

    UNCHANGED = "unchanged"
    """Nothing was written."""
    APPENDED = "appended"
    """What was read is unchanged: continue at the offset of the fingerprint."""
    REWRITTEN = "rewritten"
    """Truncated or rewritten: read from 0 as a new generation."""


def fingerprint_bytes(
    *, head: bytes, tail: bytes, unfinished: bytes, offset: int
) -> SourceFingerprint:
    """Return the fingerprint of bytes that were read.

    `head` starts at 0, `tail` ends at `offset`; both need at least 4 KiB, or all bytes
    before the offset. `unfinished` is the whole unfinished line.
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
    """Return how a source changed since a fingerprint; reads at most 12 KiB.

    Times and inodes are not used because they are not reliable. A rewrite is detected if
    it truncates the file below the offset or changes one of the hashed ranges. A change
    in place between the first and the last 4 KiB is not detected.
    """
    source_id = get_source_id(source)
    with open_source(source_id) as opened:
        if isinstance(opened, Problem):
            return opened
        descriptor, size = opened
        if size < fingerprint.offset:
            return SourceChange.REWRITTEN
        try:
            current = _read_fingerprint(
                descriptor, fingerprint.offset, min(size, fingerprint.size)
            )
        except OSError as error:
            return problem_from_error(error, source_id)
    if (current.head_hash, current.tail_hash) != (
        fingerprint.head_hash,
        fingerprint.tail_hash,
    ):
        return SourceChange.REWRITTEN
    is_same = current == fingerprint and size == fingerprint.size
    return SourceChange.UNCHANGED if is_same else SourceChange.APPENDED


def _read_fingerprint(descriptor: int, offset: int, size: int) -> SourceFingerprint:
    return SourceFingerprint(
        offset=offset,
        size=size,
        head_hash=_hash(read_range(descriptor, 0, min(_HASHED_SIZE, offset))),
        tail_hash=_hash(read_range(descriptor, max(0, offset - _HASHED_SIZE), offset)),
        unfinished_hash=_hash(
            read_range(descriptor, max(offset, size - _HASHED_SIZE), size)
        ),
    )


def _hash(raw: bytes) -> bytes:
    return hashlib.blake2b(raw, digest_size=16).digest()
