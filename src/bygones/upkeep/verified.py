"""The note on the last verification, in a file of its own beside the archive.

Whoever verifies only reads the archive, and may do so where another writes. So the
note is no row of it. It is of one file and one archive: where ``archive.db`` was put
back, copied over or erased from since, nothing is known of what lies there now.
"""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from bygones.errors import ArchiveDamaged
from bygones.model.verified import Verified
from bygones.store.chunks import ARCHIVE_FILE, Chunks
from bygones.upkeep.verdict import Verdict

__all__ = ["forget_verified", "last_verified", "note_verified"]

_FILE = "verified.json"
_LARGEST = 64 * 1024


class _Note(Struct, frozen=True):
    inode: int
    """Of the archive's file that was verified."""
    archive: str
    """The archive's own name: a file that is copied over another keeps its inode."""
    kept: int
    """Bytes that it kept then; it never keeps fewer, but for a purge."""
    found: Verified


def note_verified(chunks: Chunks, verdict: Verdict, *, now: datetime) -> bool:
    """Note what a verification found; return whether that could be written."""
    folder = chunks.path.parent
    found = Verified(
        time=now,
        is_sound=verdict.is_sound,
        is_deep=verdict.is_compared,
        sources=verdict.sources,
        bytes=verdict.bytes,
        damages=len(verdict.damages) + len(verdict.gaps) + len(verdict.differences),
    )
    beside = folder / f"{_FILE}.{os.getpid()}"
    try:
        note = _Note(_inode(folder), chunks.identity, _kept(chunks), found)
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(msgspec.json.encode(note))
        beside.replace(folder / _FILE)
    except OSError:
        return False
    return True


def last_verified(folder: Path, chunks: Chunks) -> Verified | None:
    """Return what is known of the last verification of this very archive."""
    path = folder / _FILE
    try:
        if path.stat().st_size > _LARGEST:
            return None
        note = msgspec.json.decode(path.read_bytes(), type=_Note)
        is_same = (note.inode, note.archive) == (_inode(folder), chunks.identity)
    except (OSError, ValueError):
        return None
    kept = chunks.kept_size()
    if not is_same or kept < note.kept:
        return None
    since = max(kept - note.found.bytes, 0)
    return structs.replace(note.found, since=since)


def forget_verified(folder: Path) -> None:
    """Remove the note: the archive is about to be another."""
    (folder / _FILE).unlink(missing_ok=True)


def _kept(chunks: Chunks) -> int:
    try:
        return chunks.kept_size()
    except ArchiveDamaged:
        return 0  # which is what is noted


def _inode(folder: Path) -> int:
    return (folder / ARCHIVE_FILE).stat().st_ino
