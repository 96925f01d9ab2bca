"""What an ingestion did, and how it tells of it while it runs."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct, structs

from bygones.model.ids import SessionId
from bygones.model.problems import Problem

__all__ = ["Progress", "Report", "Silence"]


class Report(Struct, kw_only=True):
    """Counts of sources by what became of them, and what was odd."""

    files: int = 0
    new: int = 0
    grown: int = 0
    anew: int = 0
    """Shrunk or rewritten: taken as a new generation."""
    moved: int = 0
    gone: int = 0
    back: int = 0
    unchanged: int = 0
    refused: int = 0
    """Purged before, and not taken in again."""
    bytes: int = 0
    records: int = 0
    sessions: int = 0
    """Derived anew."""
    touched: list[SessionId] = []
    """Those of them of which something is new."""
    shown: int = 0
    """Sessions that the archive has now, but for those below."""
    empty: int = 0
    """Sessions in which nothing was said."""
    problems: list[Problem] = []

    @property
    def changed(self) -> int:
        """Sources that brought something."""
        return self.new + self.grown + self.anew + self.moved

    def after(self, stopped: Report) -> Report:
        """Return what this and one before it did, which was stopped on its way.

        What that had committed looks unchanged to this one.
        """
        counts = ("new", "grown", "anew", "moved", "gone", "back", "bytes", "records")
        most = {
            name: max(getattr(self, name), getattr(stopped, name)) for name in counts
        }
        changed = sum(most[name] for name in ("new", "grown", "anew", "moved"))
        unchanged = self.unchanged - (changed - self.changed)
        return structs.replace(self, **most, unchanged=unchanged)


class Progress(Protocol):
    """Is told how far an ingestion is."""

    def begin(self, what: str, total: int) -> None:
        """Take note that a stage begins; its size is in bytes, or in sessions."""

    def advance(self, amount: int) -> None:
        """Take note that some of it is done."""

    def end(self) -> None:
        """Take note that the stage is over."""


class Silence:
    """Progress that nobody looks at."""

    def begin(self, what: str, total: int) -> None:
        """Say nothing."""

    def advance(self, amount: int) -> None:
        """Say nothing."""

    def end(self) -> None:
        """Say nothing."""
