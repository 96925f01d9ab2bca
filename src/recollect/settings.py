"""What is set for this user: the archive, the homes to take in, what to hide.

Only faces read settings; everything below is told.
"""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from recollect.errors import NothingFound, PathMissing, SettingsUnreadable
from recollect.sources.homes import homes

__all__ = [
    "ARCHIVE_VARIABLE",
    "CLEANUP_DAYS",
    "HOME_VARIABLE",
    "PRICES_VARIABLE",
    "SETTINGS_VARIABLE",
    "HiddenByUser",
    "archive_folder",
    "cleanup_days",
    "hidden_by_user",
    "prices_file",
    "settings_file",
    "source_homes",
    "state_folder",
]

ARCHIVE_VARIABLE = "RECOLLECT_ARCHIVE"
HOME_VARIABLE = "RECOLLECT_HOME"
PRICES_VARIABLE = "RECOLLECT_PRICES"
SETTINGS_VARIABLE = "RECOLLECT_SETTINGS"
_NAME = "recollect"
CLEANUP_DAYS = 30
"""After how many days Claude Code deletes what it wrote, unless it is told."""


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
    return _config_folder(environ, user_home, platform) / "prices.toml"


def _config_folder(environ: Mapping[str, str], user_home: Path, platform: str) -> Path:
    roaming = environ.get("APPDATA", "").strip() if platform == "win32" else ""
    config = roaming or environ.get("XDG_CONFIG_HOME", "").strip()
    is_set = bool(config) and Path(config).is_absolute()
    folder = Path(config) if is_set else user_home / ".config"
    return folder / _NAME


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


class HiddenByUser(NamedTuple):
    """What a user wants hidden besides what is always: ``[redact]`` in the settings."""

    names: tuple[str, ...] = ()
    """Names of people, customers, machines: hidden where they stand alone."""
    patterns: Mapping[str, str] = {}
    """RE2 expressions by the name that is shown instead of what they find."""


def hidden_by_user(
    environ: Mapping[str, str], user_home: Path, platform: str = sys.platform
) -> HiddenByUser:
    """Return what the user's settings want hidden; nothing where there are none.

    :raises SettingsUnreadable: if the file is not what it should be.
    """
    path = settings_file(environ, user_home, platform)
    try:
        return _hidden(tomllib.loads(path.read_text("utf-8")))
    except FileNotFoundError:
        return HiddenByUser()
    except (ValueError, OSError) as error:
        raise SettingsUnreadable(path, " ".join(str(error).split())) from error


def _hidden(settings: Mapping[str, object]) -> HiddenByUser:
    table = settings.get("redact", {})
    strange = set(settings) - {"redact"}
    if isinstance(table, dict):
        strange |= set(table) - {"names", "patterns"}
        names, patterns = table.get("names", []), table.get("patterns", {})
        texts = [*names, *patterns.values()] if isinstance(patterns, dict) else [0]
        if not strange and all(isinstance(text, str) for text in texts):
            return HiddenByUser(tuple(names), patterns)
    told = (
        f"nothing is called {min(strange)!r}" if strange else "[redact] has odd values"
    )
    raise ValueError(told)


def settings_file(
    environ: Mapping[str, str], user_home: Path, platform: str = sys.platform
) -> Path:
    """Return where the user's settings are: as set, or where this system puts them."""
    configured = environ.get(SETTINGS_VARIABLE, "").strip()
    if configured:
        return _whole(_expanded(Path(configured), user_home))
    return _config_folder(environ, user_home, platform) / "settings.toml"


def cleanup_days(home: Path) -> int | None:
    """Return after how many days a home's own settings have Claude Code delete.

    Only this one number is taken from Claude Code's settings, and nothing is written.
    """
    import msgspec  # noqa: PLC0415 (only for doctor)

    class Told(msgspec.Struct):
        days: int | None = msgspec.field(name="cleanupPeriodDays", default=None)

    try:
        raw = (home / "settings.json").read_bytes()
        return msgspec.json.decode(raw, type=Told).days
    except (OSError, msgspec.MsgspecError):
        return None


def _expanded(path: Path, user_home: Path) -> Path:
    return user_home.joinpath(*path.parts[1:]) if path.parts[:1] == ("~",) else path


def _whole(path: Path) -> Path:
    # "a/../b" is "b" only where "a" is no link.
    return Path(os.path.realpath(path)) if ".." in path.parts else path.absolute()
