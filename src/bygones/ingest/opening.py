"""Opening records from the archive's chunks."""

from __future__ import annotations

from bygones.errors import ArchiveDamaged
from bygones.model.ids import Position
from bygones.parse import RecordLoader
from bygones.store.chunks import Kept
from bygones.store.shelf import Stock

__all__ = ["ChunkLoader"]

_STORED_LIMIT = 16 * 1024 * 1024
_AHEAD = 64 * 1024
"""Bytes that are read at once where records are small; what is kept never changes."""


class ChunkLoader(RecordLoader):
    """Opens records from the archive's chunks."""

    def __init__(self, vault: Stock) -> None:
        super().__init__()
        self._chunks = vault.chunks
        self._known: dict[str, Kept] = {}
        self._ahead = ("", 0, 0, b"")
        """Some bytes of a source's generation: records are read in order."""

    def forget(self) -> None:
        """Let go of what was read and decoded: nobody asks any more."""
        super().forget()
        self._known.clear()
        self._ahead = ("", 0, 0, b"")

    def know(self, kept: Kept) -> None:
        """Remember a source that somebody has looked up."""
        self._known[kept.id] = kept

    def raw(self, position: Position) -> bytes:
        """Return the bytes at a position; none where they are damaged or missing."""
        source, generation, start, ahead = self._ahead
        at = position.offset - start
        if (
            0 <= at <= len(ahead) - position.length
            and source == position.source
            and generation == position.generation
        ):
            return ahead[at : at + position.length]
        try:
            # Of one moment: a line that is finished meanwhile moves into a chunk.
            with self._chunks.at_once():
                return self._raw(position)
        except ArchiveDamaged:
            return b""

    def _raw(self, position: Position) -> bytes:
        kept = self._kept(position.source, position.offset)
        if kept is None:
            return b""
        place = (kept.number, position.generation)
        if position.offset >= kept.kept and position.generation == kept.generation:
            # An unfinished last line may be a whole record all the same.
            start = position.offset - kept.kept
            return self._chunks.fragment(*place)[start : start + position.length]
        if position.length >= _AHEAD:
            return self._chunks.read(*place, position.offset, position.length)
        found = self._chunks.read(*place, position.offset, _AHEAD)
        self._ahead = (position.source, position.generation, position.offset, found)
        return found[: position.length]

    def stored(self, position: Position, path: str) -> str | None:
        """Return a long output that was archived with its session.

        Only the name of the file is taken from the transcript.
        """
        session = position.source.partition("/subagents/")[0].removesuffix(".jsonl")
        name = path.replace("\\", "/").rpartition("/")[2]
        if not name or name.startswith("."):
            return None
        kept = self._kept(f"{session}/tool-results/{name}")
        if kept is None:
            return None
        size = min(kept.kept, _STORED_LIMIT)
        try:
            raw = self._chunks.read(kept.number, kept.generation, 0, size)
        except ArchiveDamaged:
            return None
        return raw.decode("utf-8", "replace").removesuffix("\n")

    def _kept(self, source: str, offset: int = 0) -> Kept | None:
        """Return a source, looked up anew where it may have grown since."""
        known = self._known.get(source)
        if known is not None and offset < known.kept:
            return known
        try:
            found = self._chunks.named(source)
        except UnicodeEncodeError:
            return None  # a name that is no text was never kept
        if found is not None:
            self._known[source] = found
        return found
