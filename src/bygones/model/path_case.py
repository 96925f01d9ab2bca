"""Paths whose case does not matter, because of the system that they come from."""

from __future__ import annotations

import re

_CASELESS = re.compile(r"[A-Za-z]:[\\/]|\\\\|/Users/|/Volumes/")


def ignores_case(path: str) -> bool:
    """Whether a path is of a system on which case does not distinguish files.

    That is Windows, and macOS unless a volume was formatted otherwise. Nothing else in
    a transcript names the system.
    """
    return _CASELESS.match(path) is not None


def path_ends_with(path: str, suffix: str) -> bool:
    """Whether a path is a suffix, or ends with it after a separator."""
    whole, end = f"/{path}".replace("\\", "/"), f"/{suffix}"
    if ignores_case(path):
        whole, end = whole.lower(), end.lower()
    return path == suffix or whole.endswith(end)
