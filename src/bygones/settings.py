"""What is set for this user: the archive, the homes to take in, what to hide.

Only faces read settings; everything below is told.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from bygones.errors import NoHome, PathMissing, SettingsUnreadable
from bygones.model.addresses import is_address
from bygones.sources.homes import home_around, homes, linked_projects

__all__ = [
    "ARCHIVE_VARIABLE",
    "CLEANUP_DAYS",
    "HOME_VARIABLE",
    "HOST_FILE",
    "PLACES",
    "PRICES_VARIABLE",
    "SETTINGS",
    "SETTINGS_VARIABLE",
    "TOKEN_VARIABLE",
    "HiddenByUser",
    "LocalZone",
    "PushedByUser",
    "Setting",
    "Settings",
    "archive_folder",
    "cleanup_days",
    "hidden_by_user",
    "prices_file",
    "pushed_by_user",
    "read_settings",
    "settings_file",
    "source_homes",
    "state_folder",
    "this_host",
]

ARCHIVE_VARIABLE = "BYGONES_ARCHIVE"
HOME_VARIABLE = "BYGONES_HOME"
HOST_FILE = Path("/etc/machine-id")
"""Where Linux keeps what tells a host from others."""
PRICES_VARIABLE = "BYGONES_PRICES"
SETTINGS_VARIABLE = "BYGONES_SETTINGS"
TOKEN_VARIABLE = "BYGONES_HUB_TOKEN"  # noqa: S105 (its name)
_NAME = "bygones"
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
    if given is None and not configured:
        configured = read_settings(environ, user_home, platform).archive or ""
    if is_address(str(given or configured)):
        # A team's store: an address that is no path in any folder.
        return given or Path(configured)
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
    given: Sequence[Path],
    environ: Mapping[str, str],
    user_home: Path,
    platform: str = sys.platform,
) -> tuple[Path, ...]:
    """Return the homes to take in, each whole: as given, as set, or those found.

    ``BYGONES_HOME`` may name several, parted as in ``PATH``. A home that was asked
    for and is not there is an error; so is having none at all. A ``projects`` folder
    stands for the home around it; where it is a link, what it leads to is taken in too.
    """
    configured = [
        Path(part.strip())
        for part in environ.get(HOME_VARIABLE, "").split(os.pathsep)
        if part.strip()
    ]
    if not given and not configured:
        told = read_settings(environ, user_home, platform).homes
        configured = [Path(one) for one in told]
    asked = [_whole(_expanded(path, user_home)) for path in given or configured]
    for path in asked:
        if not os.path.exists(path):  # noqa: PTH110 (Path.exists may raise)
            raise PathMissing(path)
    found = [home_around(one) for one in asked]
    found = found or [_whole(path) for path in homes(environ, user_home)]
    if not found:
        raise NoHome
    # A home may be asked for by its name and by a link to it, and lie in two places.
    by_place: dict[str, Path] = {}
    for path in chain(found, *map(linked_projects, found)):
        by_place.setdefault(os.path.realpath(path), path)
    return tuple(by_place.values())


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
    return read_settings(environ, user_home, platform).redact


class PushedByUser(NamedTuple):
    """Where a user's sessions go, and which: ``[push]`` in the settings."""

    hub: str = ""
    """The address of a hub."""
    token: str = ""
    """Who this is, to the hub; ``BYGONES_HUB_TOKEN`` is stronger."""
    projects: tuple[str, ...] = ()
    """Directories: what was begun in them or below may be sent, and nothing else."""


class Settings(NamedTuple):
    """What a user has set, in a file or by variables; ``None`` where nothing is."""

    archive: str | None = None
    homes: tuple[str, ...] = ()
    color: str | None = None
    iso: bool | None = None
    ingest: bool | None = None
    pager: str | None = None
    redact: HiddenByUser = HiddenByUser()
    push: PushedByUser = PushedByUser()


class Setting(NamedTuple):
    """A setting's name, what it is and what it does, and an example."""

    name: str
    kind: str
    meaning: str
    example: str

    @property
    def variable(self) -> str:
        """The variable that sets it as well, and is stronger than the file."""
        name = "HOME" if self.name == "homes" else self.name.upper()
        return "" if self.kind == "table" else f"BYGONES_{name}"


SETTINGS = (
    Setting("archive", "text", "the folder of the archive", '"~/bygones"'),
    Setting("homes", "list of texts", "the homes to take in", '["~/.claude"]'),
    Setting("color", "text", "`auto`, `always` or `never`", '"never"'),
    Setting("iso", "true or false", "whether to print times as such", "true"),
    Setting("ingest", "true or false", "whether to take in what is new first", "false"),
    Setting("pager", "text", "what long output goes through", '"less -S"'),
    Setting("redact", "table", "what exports hide besides", '{ names = ["Ada"] }'),
    Setting(
        "push",
        "table",
        "which projects go to a hub, and where that is",
        '{ hub = "https://hub.example.com", projects = ["~/work/shop"] }',
    ),
)
_COLOURS = ("auto", "always", "never")
_SWITCHES = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}
PLACES = {"archive", "homes"}
"""What is looked up where it is needed."""


def read_settings(
    environ: Mapping[str, str], user_home: Path, platform: str = sys.platform
) -> Settings:
    """Return what the user has set; a variable is stronger than the file.

    :raises SettingsUnreadable: if the file or a variable is not what it should be.
    :raises PathMissing: if the file was named and is not there.
    """
    path = settings_file(environ, user_home, platform)
    if environ.get(SETTINGS_VARIABLE, "").strip() and not os.path.exists(path):  # noqa: PTH110 (Path.exists may raise)
        raise PathMissing(path)
    try:
        told = _checked(_read_toml(path))
    except (ValueError, OSError) as error:
        raise SettingsUnreadable(path, " ".join(str(error).split())) from error
    return Settings(**told | _told_by_variables(environ))


def _told_by_variables(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return what variables set, each of its kind as in the file; empty means not set.

    Only that no pager is wanted can be said with nothing.
    """
    told: dict[str, Any] = {}
    for one in SETTINGS:
        value = environ.get(one.variable)
        if one.name in PLACES or value is None:
            continue
        value = value.strip()
        if value or one.name == "pager":
            is_switch = one.kind == "true or false"
            told[one.name] = _SWITCHES.get(value.lower(), value) if is_switch else value
            try:
                _check(one, told[one.name])
            except ValueError as error:
                raise SettingsUnreadable(one.variable, str(error)) from error
    return told


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    import tomllib  # noqa: PLC0415 (most have no such file)

    return tomllib.loads(text)


def _checked(found: dict[str, Any]) -> dict[str, Any]:
    """Return settings of which each is known, and is of its kind."""
    known = {one.name: one for one in SETTINGS}
    for name, value in found.items():
        if name not in known:
            raise ValueError(f"nothing is called {name!r}")
        _check(known[name], value)
    told = dict(found)
    if "homes" in told:
        told["homes"] = tuple(told["homes"])
    if "redact" in told:
        told["redact"] = _hidden(told["redact"])
    if "push" in told:
        told["push"] = _pushed(told["push"])
    return told


def _check(one: Setting, value: object) -> None:
    """Refuse a value that is not of its setting's kind."""
    fits = {
        "text": isinstance(value, str),
        "true or false": isinstance(value, bool),
        "list of texts": _is_texts(value),
        "table": isinstance(value, dict),
    }
    if one.name == "color" and value not in _COLOURS:
        raise ValueError("color has an odd value, not auto, always or never")
    if not fits[one.kind]:
        kind = one.kind if one.kind == "true or false" else f"a {one.kind}"
        raise ValueError(f"{one.name} has an odd value, not {kind}")


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _hidden(table: Mapping[str, Any]) -> HiddenByUser:
    strange = set(table) - {"names", "patterns"}
    if strange:
        raise ValueError(f"nothing is called {min(strange)!r}")
    names, patterns = table.get("names", []), table.get("patterns", {})
    texts = [*patterns.values()] if isinstance(patterns, dict) else [0]
    if not _is_texts(names) or not all(isinstance(text, str) for text in texts):
        raise ValueError("[redact] has odd values")
    return HiddenByUser(tuple(names), patterns)


def _pushed(table: Mapping[str, Any]) -> PushedByUser:
    strange = set(table) - set(PushedByUser._fields)
    if strange:
        raise ValueError(f"nothing is called {min(strange)!r}")
    projects = table.get("projects", [])
    texts = (table.get("hub", ""), table.get("token", ""))
    if not _is_texts(projects) or not all(isinstance(text, str) for text in texts):
        raise ValueError("[push] has odd values")
    return PushedByUser(*texts, tuple(projects))


def pushed_by_user(
    environ: Mapping[str, str], user_home: Path, platform: str = sys.platform
) -> PushedByUser:
    """Return where the user's settings have sessions go; nowhere unless they say.

    :raises SettingsUnreadable: if the file is not what it should be.
    """
    told = read_settings(environ, user_home, platform).push
    whole = (_whole(_expanded(Path(one), user_home)) for one in told.projects)
    token = environ.get(TOKEN_VARIABLE, "").strip() or told.token
    projects = tuple(str(path) for path in whole)
    return told._replace(token=token, projects=projects)


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


class LocalZone(tzinfo):
    """The clock of this machine, with its summers and winters."""

    def utcoffset(self, when: datetime | None, /) -> timedelta:
        """Return how far the clock is ahead when it shows this."""
        shown = when or datetime(1970, 1, 1)  # noqa: DTZ001 (a clock on the wall)
        return shown.replace(tzinfo=None).astimezone().utcoffset() or timedelta()

    def dst(self, _when: datetime | None, /) -> timedelta | None:
        """Return nothing: what the clock shows is all that counts."""
        return None

    def tzname(self, _when: datetime | None, /) -> str:
        """Return what to call it."""
        return str(self)

    def fromutc(self, when: datetime, /) -> datetime:
        """Return what the clock shows at a moment."""
        local = when.replace(tzinfo=UTC).astimezone()
        shown = local.replace(tzinfo=self)
        # An hour that the clock shows twice is the second one where the first is not.
        is_first = shown.utcoffset() == local.utcoffset()
        return shown if is_first else shown.replace(fold=1)

    def __str__(self) -> str:
        return "local time"


def this_host() -> str:
    """Return what tells this host from others, if anything does for good."""
    import uuid  # noqa: PLC0415 (for those who push)

    try:
        found = HOST_FILE.read_text("ascii", "replace").strip()
    except OSError:
        found = ""
    node = uuid.getnode() if not found else 0
    # Where no address of a network card is found, one is drawn, and marked as such.
    return found or ("" if node >> 40 & 1 else f"{node:012x}")
