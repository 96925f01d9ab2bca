"""Places that are there: those that were named, else the homes of this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from recollect.errors import NothingFound, PathMissing
from recollect.sources import homes

__all__ = ["existing"]


def existing(paths: Sequence[Path]) -> Sequence[Path]:
    """Return where to look; nothing is opened yet."""
    for path in paths:
        if _is_missing(path):
            raise PathMissing(path)
    found = paths or homes(os.environ, Path.home())
    if not found:
        raise NothingFound
    return found


def _is_missing(path: Path) -> bool:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return True
    except OSError:
        return False  # it is there and closed to us: the survey says why
    return False
