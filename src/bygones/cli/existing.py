"""Places that are there: those that were named, else the homes of this user."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bygones.cli.asked import homes_of
from bygones.errors import PathMissing

__all__ = ["existing"]


def existing(paths: Sequence[Path], homes: Sequence[Path] = ()) -> Sequence[Path]:
    """Return where to look; nothing is opened yet."""
    for path in paths:
        if _is_missing(path):
            raise PathMissing(path)
    return paths if paths and not homes else (*paths, *homes_of(homes))


def _is_missing(path: Path) -> bool:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return True
    except OSError:
        return False  # it is there and closed to us: the survey says why
    return False
