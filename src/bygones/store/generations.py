"""Older generations: what was in a file before it was rewritten."""

from __future__ import annotations

from msgspec import structs

from bygones.store.chunks import Chunks, Kept
from bygones.store.connect import first

__all__ = ["older"]

_FIELDS = ("kept", "size", "mtime_ns", "ctime_ns", "inode", "head", "tail", "rest")


def older(chunks: Chunks, kept: Kept, steps: int) -> Kept | None:
    """Return a source as it was before it was begun anew so many times."""
    if steps == 0:
        return kept
    generation = kept.generation - steps
    if generation < 0:
        return None
    sql = f"SELECT {', '.join(_FIELDS)} FROM generation"  # noqa: S608 (our names)
    place = (kept.number, generation)
    row = first(chunks.db, f"{sql} WHERE source = ? AND generation = ?", place)
    if row is None:
        return None
    known = dict(zip(_FIELDS, row, strict=True))
    return structs.replace(kept, generation=generation, **known)
