"""SEARCH: where the engine, the language and the archive's bytes meet."""

from __future__ import annotations

from bygones.search.finding import Searching, Sort, Standing

__all__ = ["Searching", "Sort", "Standing"]
