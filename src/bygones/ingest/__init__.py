"""INGEST: where the stages meet; brings archive and index up to date with sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bygones.ingest.report import Progress, Report

if TYPE_CHECKING:
    from bygones.ingest.run import ingest

__all__ = ["Progress", "Report", "ingest"]


def __getattr__(name: str) -> object:
    """Import what takes things in when it is asked for: a search needs none of it."""
    if name != "ingest":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from bygones.ingest.run import ingest  # noqa: PLC0415 (as said above)

    return ingest
