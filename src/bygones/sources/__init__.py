"""DISCOVER and READ: the only code that walks Claude's folders and opens its files.

What is odd on the way (a file that is gone, a link that leads out, a device with the
name of a transcript) comes back as a :class:`~bygones.model.problems.Problem`
between the results; no input raises.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from bygones.sources.homes import homes
from bygones.sources.names import native_path, path_text

if TYPE_CHECKING:
    from bygones.sources.keys import project_key
    from bygones.sources.lines import read_at, read_lines, read_stretches
    from bygones.sources.marks import (
        Growth,
        Mark,
        check,
        mark_from,
        mark_of,
        prefix_hash,
    )
    from bygones.sources.walk import discover, is_source

__all__ = [
    "Growth",
    "Mark",
    "check",
    "discover",
    "homes",
    "is_source",
    "mark_from",
    "mark_of",
    "native_path",
    "path_text",
    "prefix_hash",
    "project_key",
    "read_at",
    "read_lines",
    "read_stretches",
]

_LATER = {
    "keys": ("project_key",),
    "lines": ("read_at", "read_lines", "read_stretches"),
    "marks": ("Growth", "Mark", "check", "mark_from", "mark_of", "prefix_hash"),
    "walk": ("discover", "is_source"),
}
_MODULES = {name: module for module, names in _LATER.items() for name in names}


def __getattr__(name: str) -> object:
    """Import what reads and walks when it is asked for: a list needs none of it."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = found
    return found
