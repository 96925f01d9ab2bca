"""What is set for this user: the archive, the homes to take in, what to hide.

Only faces read settings; everything below is told.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from bygones.errors import HomeNotFound, InvalidSettings, PathNotFound
from bygones.sources.paths import find_homes, resolve_home, symlinked_projects

ARCHIVE_ENV = "BYGONES_ARCHIVE"
HOME_ENV = "BYGONES_HOME"
MACHINE_ID_FILE = Path("/etc/machine-id")
"""Where Linux keeps what tells a host from others."""
PRICES_ENV = "BYGONES_PRICES"
SETTINGS_ENV = "BYGONES_SETTINGS"
TOKEN_ENV = "BYGONES_HUB_TOKEN"  # noqa: S105 (its name)
_APP_NAME = "bygones"
DEFAULT_CLEANUP_DAYS = 30
"""After how many days Claude Code deletes what it wrote, unless it is told."""


def resolve_archive_location(
    override: Path | None,
    environ: Mapping[str, str],
    user_home: Path,
    platform: str = sys.platform,
) -> Path:
    """Return the archive's folder: as given, as set, or where this system puts it."""
    configured = environ.get(ARCHIVE_ENV, "").strip()
    if override is None and not configured:
        configured = load_settings(environ, user_home, platform).archive or ""
    if is_store_url(str(override or configured)):
        # A team's store: an address that is no path in any folder.
        return override or Path(configured)
    if override is not None or configured:
        return _absolute(_expand_user(override or Path(configured), user_home))
    return _default_data_dir(environ, user_home, platform) / _APP_NAME


def _default_data_dir(
    environ: Mapping[str, str], user_home: Path, platform: str
) -> Path:
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


def find_prices_file(
    environ: Mapping[str, str], user_home: Path, platform: str = sys.platform
) -> Path:
    """Return where a user's own prices are, if there are any: as set, or as usual.

    A file that was set and is not there is an error.
    """
    configured = environ.get(PRICES_ENV, "").strip()
    if configured:
        path = _absolute(_expand_user(Path(configured), user_home))
        if not os.path.exists(path):  # noqa: PTH110 (Path.exists may raise)
            raise PathNotFound(path)
        return path
    return _config_dir(environ, user_home, platform) / "prices.toml"


def _config_dir(environ: Mapping[str, str], user_home: Path, platform: str) -> Path:
    roaming = environ.get("APPDATA", "").strip() if platform == "win32" else ""
    config = roaming or environ.get("XDG_CONFIG_HOME", "").strip()
    is_set = bool(config) and Path(config).is_absolute()
    folder = Path(config) if is_set else user_home / ".config"
    return folder / _APP_NAME


def find_state_dir(
    environ: Mapping[str, str], user_home: Path, platform: str = sys.platform
) -> Path:
    """Return where this system puts what a program remembers and may forget."""
    state = environ.get("XDG_STATE_HOME", "").strip()
    if state and Path(state).is_absolute():
        return Path(state) / _APP_NAME
    if platform in {"win32", "darwin"}:
        return _default_data_dir(environ, user_home, platform) / f"{_APP_NAME}-state"
    return user_home / ".local" / "state" / _APP_NAME


def resolve_homes(
    overrides: Sequence[Path],
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
        for part in environ.get(HOME_ENV, "").split(os.pathsep)
        if part.strip()
    ]
    if not overrides and not configured:
        told = load_settings(environ, user_home, platform).homes
        configured = [Path(one) for one in told]
    asked = [
        _absolute(_expand_user(path, user_home)) for path in overrides or configured
    ]
    for path in asked:
        if not os.path.exists(path):  # noqa: PTH110 (Path.exists may raise)
            raise PathNotFound(path)
    found = [resolve_home(one) for one in asked]
    found = found or [_absolute(path) for path in find_homes(environ, user_home)]
    if not found:
        raise HomeNotFound
    # A home may be asked for by its name and by a link to it, and lie in two places.
    by_place: dict[str, Path] = {}
    for path in chain(found, *map(symlinked_projects, found)):
        by_place.setdefault(os.path.realpath(path), path)
    return tuple(by_place.values())


class RedactSettings(NamedTuple):
    """What a user wants hidden besides what is always: ``[redact]`` in the settings."""

    names: tuple[str, ...] = ()
    """Names of people, customers, machines: hidden where they stand alone."""
    patterns: Mapping[str, str] = {}
    """RE2 expressions by the name that is shown instead of what they find."""


def load_redact_settings(
    environ: Mapping[str, str], user_home: Path, platform: str = sys.platform
) -> RedactSettings:
    """Return what the user's settings want hidden; nothing where there are none.

    :raises SettingsUnreadable: if the file is not what it should be.
    """
    return load_settings(environ, user_home, platform).redact


class PushSettings(NamedTuple):
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
    redact: RedactSettings = RedactSettings()
    push: PushSettings = PushSettings()


class SettingSpec(NamedTuple):
    """A setting's name, what it is and what it does, and an example."""

    name: str
    kind: str
    meaning: str
    example: str

    @property
    def env_variable(self) -> str:
        """The variable that sets it as well, and is stronger than the file."""
        name = "HOME" if self.name == "homes" else self.name.upper()
        return "" if self.kind == "table" else f"BYGONES_{name}"


SETTINGS = (
    SettingSpec("archive", "text", "the folder of the archive", '"~/bygones"'),
    SettingSpec("homes", "list of texts", "the homes to take in", '["~/.claude"]'),
    SettingSpec("color", "text", "`auto`, `always` or `never`", '"never"'),
    SettingSpec("iso", "true or false", "whether to print times as such", "true"),
    SettingSpec(
        "ingest", "true or false", "whether to take in what is new first", "false"
    ),
    SettingSpec("pager", "text", "what long output goes through", '"less -S"'),
    SettingSpec("redact", "table", "what exports hide besides", '{ names = ["Ada"] }'),
    SettingSpec(
        "push",
        "table",
        "which projects go to a hub, and where that is",
        '{ hub = "https://hub.example.com", projects = ["~/work/shop"] }',
    ),
)
_COLORS = ("auto", "always", "never")
_BOOLEANS = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}
PATH_SETTINGS = {"archive", "homes"}
"""What is looked up where it is needed."""


def load_settings(
    environ: Mapping[str, str], user_home: Path, platform: str = sys.platform
) -> Settings:
    """Return what the user has set; a variable is stronger than the file.

    :raises SettingsUnreadable: if the file or a variable is not what it should be.
    :raises PathMissing: if the file was named and is not there.
    """
    path = find_settings_file(environ, user_home, platform)
    if environ.get(SETTINGS_ENV, "").strip() and not os.path.exists(path):  # noqa: PTH110 (Path.exists may raise)
        raise PathNotFound(path)
    try:
        told = _validated(_read_toml(path))
    except (ValueError, OSError) as error:
        raise InvalidSettings(path, " ".join(str(error).split())) from error
    return Settings(**told | _settings_from_env(environ))


def _settings_from_env(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return what variables set, each of its kind as in the file; empty means not set.

    Only that no pager is wanted can be said with nothing.
    """
    told: dict[str, Any] = {}
    for one in SETTINGS:
        value = environ.get(one.env_variable)
        if one.name in PATH_SETTINGS or value is None:
            continue
        value = value.strip()
        if value or one.name == "pager":
            is_switch = one.kind == "true or false"
            told[one.name] = _BOOLEANS.get(value.lower(), value) if is_switch else value
            try:
                _check_value(one, told[one.name])
            except ValueError as error:
                raise InvalidSettings(one.env_variable, str(error)) from error
    return told


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    import tomllib

    return tomllib.loads(text)


def _validated(values: dict[str, Any]) -> dict[str, Any]:
    """Return settings of which each is known, and is of its kind."""
    known = {one.name: one for one in SETTINGS}
    for name, value in values.items():
        if name not in known:
            raise ValueError(f"nothing is called {name!r}")
        _check_value(known[name], value)
    told = dict(values)
    if "homes" in told:
        told["homes"] = tuple(told["homes"])
    if "redact" in told:
        told["redact"] = _parse_redact(told["redact"])
    if "push" in told:
        told["push"] = _parse_push(told["push"])
    return told


def _check_value(spec: SettingSpec, value: object) -> None:
    """Refuse a value that is not of its setting's kind."""
    fits = {
        "text": isinstance(value, str),
        "true or false": isinstance(value, bool),
        "list of texts": _is_string_list(value),
        "table": isinstance(value, dict),
    }
    if spec.name == "color" and value not in _COLORS:
        raise ValueError("color has an odd value, not auto, always or never")
    if not fits[spec.kind]:
        kind = spec.kind if spec.kind == "true or false" else f"a {spec.kind}"
        raise ValueError(f"{spec.name} has an odd value, not {kind}")


def _is_string_list(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _parse_redact(table: Mapping[str, Any]) -> RedactSettings:
    strange = set(table) - {"names", "patterns"}
    if strange:
        raise ValueError(f"nothing is called {min(strange)!r}")
    names, patterns = table.get("names", []), table.get("patterns", {})
    texts = [*patterns.values()] if isinstance(patterns, dict) else [0]
    if not _is_string_list(names) or not all(isinstance(text, str) for text in texts):
        raise ValueError("[redact] has odd values")
    return RedactSettings(tuple(names), patterns)


def _parse_push(table: Mapping[str, Any]) -> PushSettings:
    strange = set(table) - set(PushSettings._fields)
    if strange:
        raise ValueError(f"nothing is called {min(strange)!r}")
    projects = table.get("projects", [])
    texts = (table.get("hub", ""), table.get("token", ""))
    if not _is_string_list(projects) or not all(
        isinstance(text, str) for text in texts
    ):
        raise ValueError("[push] has odd values")
    return PushSettings(*texts, tuple(projects))


def load_push_settings(
    environ: Mapping[str, str], user_home: Path, platform: str = sys.platform
) -> PushSettings:
    """Return where the user's settings have sessions go; nowhere unless they say.

    :raises SettingsUnreadable: if the file is not what it should be.
    """
    told = load_settings(environ, user_home, platform).push
    whole = (_absolute(_expand_user(Path(one), user_home)) for one in told.projects)
    token = environ.get(TOKEN_ENV, "").strip() or told.token
    projects = tuple(str(path) for path in whole)
    return told._replace(token=token, projects=projects)


def find_settings_file(
    environ: Mapping[str, str], user_home: Path, platform: str = sys.platform
) -> Path:
    """Return where the user's settings are: as set, or where this system puts them."""
    configured = environ.get(SETTINGS_ENV, "").strip()
    if configured:
        return _absolute(_expand_user(Path(configured), user_home))
    return _config_dir(environ, user_home, platform) / "settings.toml"


def read_cleanup_days(home: Path) -> int | None:
    """Return after how many days a home's own settings have Claude Code delete.

    Only this one number is taken from Claude Code's settings, and nothing is written.
    """
    import msgspec

    class Told(msgspec.Struct):
        days: int | None = msgspec.field(name="cleanupPeriodDays", default=None)

    try:
        raw = (home / "settings.json").read_bytes()
        return msgspec.json.decode(raw, type=Told).days
    except (OSError, msgspec.MsgspecError):
        return None


def _expand_user(path: Path, user_home: Path) -> Path:
    return user_home.joinpath(*path.parts[1:]) if path.parts[:1] == ("~",) else path


def _absolute(path: Path) -> Path:
    # "a/../b" is "b" only where "a" is no link.
    return Path(os.path.realpath(path)) if ".." in path.parts else path.absolute()


class LocalTimezone(tzinfo):
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


def get_machine_id() -> str:
    """Return what tells this host from others, if anything does for good."""
    import uuid

    try:
        found = MACHINE_ID_FILE.read_text("ascii", "replace").strip()
    except OSError:
        found = ""
    node = uuid.getnode() if not found else 0
    # Where no address of a network card is found, one is drawn, and marked as such.
    return found or ("" if node >> 40 & 1 else f"{node:012x}")


_STORE_SCHEMES = ("postgres:/", "postgresql:/", "clickhouse:/", "chdb:/")
"""One slash is enough: a path keeps no more of them."""
_PASSWORD_PATTERN = r"(?<=:/)(/?[^/:@?]*):[^/@?]*@"  # noqa: S105 (where one stands)


def is_store_url(location: str) -> bool:
    """Whether a name is that of a team's store."""
    return location.startswith(_STORE_SCHEMES)


def strip_password(location: str) -> str:
    """Return an address as it can be shown; what is no address, as it is."""
    return (
        re.sub(_PASSWORD_PATTERN, r"\1@", location, count=1)
        if is_store_url(location)
        else location
    )
