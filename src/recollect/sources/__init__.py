"""DISCOVER and READ: the only code that walks Claude's folders and opens its files.

What is odd on the way (a file that is gone, a link that leads out, a device with the
name of a transcript) comes back as a :class:`~recollect.model.problems.Problem`
between the results; no input raises.
"""

from __future__ import annotations

from recollect.sources.homes import homes
from recollect.sources.keys import project_key
from recollect.sources.lines import read_at, read_lines
from recollect.sources.marks import (
    Growth,
    Mark,
    check,
    mark_from,
    mark_of,
    prefix_hash,
)
from recollect.sources.names import native_path, path_text
from recollect.sources.walk import discover, is_source

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
]
