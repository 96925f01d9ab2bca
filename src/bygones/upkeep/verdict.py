"""What a verification finds: damage, gaps, and where an index lies."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["Damage", "Verdict"]


class Damage(Struct, frozen=True):
    """Bytes of a source that are not what was stored."""

    source: str
    generation: int
    start: int
    stop: int
    reason: str


class Verdict(Struct, kw_only=True):
    """What a verification found."""

    sources: int = 0
    chunks: int = 0
    bytes: int = 0
    damages: list[Damage] = []
    gaps: list[Damage] = []
    """Stretches of a source that no chunk holds."""
    database: str = "ok"
    """What SQLite says about the file."""
    has_index: bool = True
    """Whether there is an index without damaged pages; another can be made."""
    is_level: bool = True
    """Whether the index has seen all of the archive; the next ingestion sees to it."""
    is_compared: bool = False
    """Whether the index was compared with a rebuild of it, which is to be asked for."""
    is_busy: bool = False
    """Whether it was not, or there is none, because somebody writes."""
    differences: list[str] = []
    """Tables in which the index is not what a rebuild gives."""
    is_noted: bool = True
    """Whether that could be written down, if it was to be."""

    @property
    def is_sound(self) -> bool:
        """Whether nothing was found."""
        found = (*self.damages, *self.gaps, *self.differences)
        return not found and self.database == "ok"

    @property
    def whole_sources(self) -> int:
        """How many sources have nothing wrong with them."""
        return self.sources - len({bad.source for bad in (*self.damages, *self.gaps)})
