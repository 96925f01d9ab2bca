"""What can still be read of an archive in which some rows have rotted."""

from __future__ import annotations

from contextlib import suppress

from bygones.errors import ArchiveDamaged
from bygones.store.chunks import Chunks, Kept
from bygones.store.connect import reading_of
from bygones.store.shelf import Shelf

__all__ = ["kept_on", "readable"]


def kept_on(shelf: Shelf) -> list[Kept]:
    """Return the sources of a shelf, in a folder as far as they can be read."""
    if isinstance(shelf.chunks, Chunks):
        return readable(shelf.chunks)[0]
    return list(shelf.chunks.sources())


def readable(chunks: Chunks) -> tuple[list[Kept], list[int]]:
    """Return the sources whose rows can be read, and the numbers of the others."""
    try:
        return list(chunks.sources()), []
    except ArchiveDamaged:
        numbers = _numbers(chunks)
    found, lost = [], []
    for number in numbers:
        try:
            kept = chunks.source(number)
        except ArchiveDamaged:
            kept = None
        if kept is None:
            lost.append(number)
        else:
            found.append(kept)
    return found, lost


def _numbers(chunks: Chunks) -> list[int]:
    """Return the numbers of all sources that any sound page tells of."""
    found: set[int] = set()
    for table in ("generation", "chunk", "fragment"):
        sql = f"SELECT DISTINCT source FROM {table}"  # noqa: S608 (our names)
        with suppress(ArchiveDamaged), reading_of(chunks.path):
            found.update(row[0] for row in chunks.db.execute(sql))
    return sorted(found)
