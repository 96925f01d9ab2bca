"""The progress of a long operation, and the report of an ingestion."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct, structs

from bygones.model.base import Problem, SessionId


class ProgressReporter(Protocol):
    """Receives the progress of an operation, stage by stage."""

    def begin(self, stage: str, total: int) -> None:
        """Start a stage; `total` is in bytes or in sessions."""

    def advance(self, amount: int) -> None:
        """Add to what is done of the current stage."""

    def end(self) -> None:
        """End the current stage."""


class NullProgress:
    """A `ProgressReporter` that ignores everything."""

    def begin(self, stage: str, total: int) -> None:
        pass

    def advance(self, amount: int) -> None:
        pass

    def end(self) -> None:
        pass


class IngestReport(Struct, kw_only=True):
    """How many sources an ingestion found new, changed or gone, and its problems."""

    files: int = 0
    new: int = 0
    grown: int = 0
    rewritten: int = 0
    """Shrunk or rewritten: stored as a new generation."""
    moved: int = 0
    gone: int = 0
    returned: int = 0
    unchanged: int = 0
    refused: int = 0
    """Purged earlier, therefore not imported again."""
    bytes: int = 0
    records: int = 0
    derived_sessions: int = 0
    updated_sessions: list[SessionId] = []
    """The derived sessions that have changed."""
    session_count: int = 0
    """Sessions in the archive, without empty ones."""
    empty_count: int = 0
    """Sessions without a message."""
    problems: list[Problem] = []

    @property
    def changed(self) -> int:
        """Sources with new content or a new place."""
        return self.new + self.grown + self.rewritten + self.moved

    def merge_interrupted(self, interrupted: IngestReport) -> IngestReport:
        """Return the report of this run and of an interrupted run before it.

        What the interrupted run had committed is unchanged to this one.
        """
        names = (
            "new",
            "grown",
            "rewritten",
            "moved",
            "gone",
            "returned",
            "bytes",
            "records",
        )
        counts = {
            name: max(getattr(self, name), getattr(interrupted, name)) for name in names
        }
        changed = sum(counts[name] for name in ("new", "grown", "rewritten", "moved"))
        unchanged = self.unchanged - (changed - self.changed)
        return structs.replace(self, **counts, unchanged=unchanged)
