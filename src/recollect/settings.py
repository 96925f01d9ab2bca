"""Where things are for this user: the archive, and the homes to take in.

Only faces read settings; everything below is told.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from recollect.errors import NothingFound, PathMissing
from recollect.sources.homes import homes

__all__ = [
    "ARCHIVE_VARIABLE",
    "HOME_VARIABLE",
    "PRICES_VARIABLE",
    "archive_folder",
    "prices_file",
    "source_homes",
    "state_folder",
]

ARCHIVE_VARIABLE = "RECOLLECT_ARCHIVE"
HOME_VARIABLE = "RECOLLECT_HOME"
PRICES_VARIABLE = "RECOLLECT_PRICES"
_NAME = "recollect"


def archive_folder(
    given: Path | None,
    environ: Mapping[str, str],
    user_home: Path,
    platform: str = sys.platform,
) -> Path:
    """Return the archive's folder: as given, as set, or where this system puts it."""
    configured = environ.get(ARCHIVE_VARIABLE, "").strip()
    if given is not None or configured:
        return _whole(_expanded(given or Path(configured), user_home))
    return _usual_place(environ, user_home, platform) / _NAME


def _usual_place(environ: Mapping[str, str], user_home: Path, platform: str) -> Path:
    if platform == "win32":
        local = environ.get("LOCALAPPDATA", "").strip()
        return Path(local) if local else user_home / "AppData" / "Local"
    # Whoever sets the variable means it, on whatever system.
    share = environ.get("XDG_DATA_HOME", "").strip()
    if share and Path(share).is_absolute():
        return Path(share)
    if platform == "darwin":
        return user_home / "Library" / "Application Support"
    return user_home / ".local" / "share"


def prices_file(
    environ: Mapping[str, str], user_home: Path, platform: str = sys.platform
) -> Path:
    """Return where a user's own prices are, if there are any: as set, or as usual.

    A file that was set and is not there is an error.
    """
    configured = environ.get(PRICES_VARIABLE, "").strip()
    if configured:
        path = _whole(_expanded(Path(configured), user_home))
        if not os.path.exists(path):  # noqa: PTH110 (Path.exists may raise)
            raise PathMissing(path)
        return path
    roaming = environ.get("APPDATA", "").strip() if platform == "win32" else ""
    config = roaming or environ.get("XDG_CONFIG_HOME", "").strip()
    is_set = bool(config) and Path(config).is_absolute()
    folder = Path(config) if is_set else user_home / ".config"
    return folder / _NAME / "prices.toml"


def state_folder(
    environ: Mapping[str, str], user_home: Path, platform: str = sys.platform
) -> Path:
    """Return where this system puts what a program remembers and may forget."""
    state = environ.get("XDG_STATE_HOME", "").strip()
    if state and Path(state).is_absolute():
        return Path(state) / _NAME
    if platform in {"win32", "darwin"}:
        return _usual_place(environ, user_home, platform) / f"{_NAME}-state"
    return user_home / ".local" / "state" / _NAME


def source_homes(
    given: Sequence[Path], environ: Mapping[str, str], user_home: Path
) -> tuple[Path, ...]:
    """Return the homes to take in, each whole: as given, as set, or those found.

    ``RECOLLECT_HOME`` may name several, parted as in ``PATH``. A home that was asked
    for and is not there is an error; so is having none at all.
    """
    configured = [
        Path(part.strip())
        for part in environ.get(HOME_VARIABLE, "").split(os.pathsep)
        if part.strip()
    ]
    asked = [_whole(_expanded(path, user_home)) for path in given or configured]
    for path in asked:
        if not os.path.exists(path):  # noqa: PTH110 (Path.exists may raise)
            raise PathMissing(path)
    found = asked or [_whole(path) for path in homes(environ, user_home)]
    if not found:
        raise NothingFound
    return tuple(dict.fromkeys(found))


def _expanded(path: Path, user_home: Path) -> Path:
    return user_home.joinpath(*path.parts[1:]) if path.parts[:1] == ("~",) else path


def _whole(path: Path) -> Path:
    # "a/../b" is "b" only where "a" is no link.
    return Path(os.path.realpath(path)) if ".." in path.parts else path.absolute()
