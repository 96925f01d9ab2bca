"""What an ingestion did, and how it tells of it while it runs."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

from msgspec import Struct, structs

from bygones.model.base import Problem, SessionId


class IngestReport(Struct, kw_only=True):
    """Counts of sources by what became of them, and what was odd."""

    files: int = 0
    new: int = 0
    grown: int = 0
    rewritten: int = 0
    """Shrunk or rewritten: taken as a new generation."""
    moved: int = 0
    gone: int = 0
    returned: int = 0
    unchanged: int = 0
    refused: int = 0
    """Purged before, and not taken in again."""
    bytes: int = 0
    records: int = 0
    derived_sessions: int = 0
    """Derived anew."""
    updated_sessions: list[SessionId] = []
    """Those of them of which something is new."""
    session_count: int = 0
    """Sessions that the archive has now, but for those below."""
    empty_count: int = 0
    """Sessions in which nothing was said."""
    problems: list[Problem] = []

    @property
    def changed(self) -> int:
        """Sources that brought something."""
        return self.new + self.grown + self.rewritten + self.moved

    def merge_interrupted(self, interrupted: IngestReport) -> IngestReport:
        """Return what this and one before it did, which was stopped on its way.

        What that had committed looks unchanged to this one.
        """
        counts = (
            "new",
            "grown",
            "rewritten",
            "moved",
            "gone",
            "returned",
            "bytes",
            "records",
        )
        most = {
            name: max(getattr(self, name), getattr(interrupted, name))
            for name in counts
        }
        changed = sum(most[name] for name in ("new", "grown", "rewritten", "moved"))
        unchanged = self.unchanged - (changed - self.changed)
        return structs.replace(self, **most, unchanged=unchanged)


class ProgressReporter(Protocol):
    """Is told how far an ingestion is."""

    def begin(self, stage: str, total: int) -> None:
        """Take note that a stage begins; its size is in bytes, or in sessions."""

    def advance(self, amount: int) -> None:
        """Take note that some of it is done."""

    def end(self) -> None:
        """Take note that the stage is over."""


class NullProgress:
    """Progress that nobody looks at."""

    def begin(self, stage: str, total: int) -> None:
        """Say nothing."""

    def advance(self, amount: int) -> None:
        """Say nothing."""

    def end(self) -> None:
        """Say nothing."""


_M_ARENA_MAX = -8
"""How the C library calls the number of its heaps."""
_MAX_ARENAS = 2


@contextmanager
def gc_paused() -> Iterator[None]:
    """Leave the collector off for as long as many values are made and dropped.

    Values here form no circles, so nothing stays behind; looking for some took a
    tenth of all ingestion.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def trim_heap() -> None:
    """Give memory that is free back to the system, where the C library can.

    Several threads that make and drop much leave the pages they used half empty; a
    long ingestion would seem to need ever more.
    """
    import ctypes

    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def limit_malloc_arenas() -> None:
    """Have threads share a few heaps, where the C library gives each its own.

    In each of them stays what was free when somebody else needed memory. For programs
    that go on for long, with many threads that take turns; called before there are any.
    """
    import ctypes

    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _MAX_ARENAS)
