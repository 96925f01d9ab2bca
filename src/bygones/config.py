"""Locations and user settings, from the settings file and environment variables.

Only interfaces (command line, web, MCP, hub) read settings; they pass values on.
"""

from __future__ import annotations

import os
import re
import sys
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bygones.errors import (
    HomeNotFound,
    InvalidSettings,
    InvalidStoreURL,
    PathNotFound,
)
from bygones.sources.layout import find_homes, resolve_home, symlinked_projects

if TYPE_CHECKING:  # slow to import, and few commands redact
    from bygones.redact.engine import Redactor

ARCHIVE_ENV = "BYGONES_ARCHIVE"
HOME_ENV = "BYGONES_HOME"
MACHINE_ID_FILE = Path("/etc/machine-id")
"""Contains a unique id on Linux."""
PRICES_ENV = "BYGONES_PRICES"
SETTINGS_ENV = "BYGONES_SETTINGS"
TOKEN_ENV = "BYGONES_HUB_TOKEN"  # noqa: S105 (its name)
_APP_NAME = "bygones"


def resolve_archive_location(
    override: Path | None,
    environ: Mapping[str, str],
    user_home: Path,
    platform: str = sys.platform,
) -> Path:
    """Return the archive's location: the override, the setting, or the default."""
    configured = environ.get(ARCHIVE_ENV, "").strip()
    if override is None and not configured:
        configured = load_settings(environ, user_home, platform).archive or ""
    if is_store_url(str(override or configured)):
        # The URL of a team's store is not a path.
        return override or Path(configured)
    _reject_other_url(str(override or configured))
    if override is not None or configured:
        return _absolute(_expand_user(override or Path(configured), user_home))
    return _default_data_dir(environ, user_home, platform) / _APP_NAME


def _reject_other_url(location: str) -> None:
    # A path collapses two slashes; a folder called "http:" is never meant.
    if re.match("[A-Za-z][A-Za-z0-9+.-]+:/", location):
        raise InvalidStoreURL(
            "an archive is a folder, a hub (https://…) or the database of a hub"
        )


def _default_data_dir(
    environ: Mapping[str, str], user_home: Path, platform: str
) -> Path:
    if platform == "win32":
        local = environ.get("LOCALAPPDATA", "").strip()
        return Path(local) if local else user_home / "AppData" / "Local"
    # Respected on every system if it is set.
    share = environ.get("XDG_DATA_HOME", "").strip()
    if share and Path(share).is_absolute():
        return Path(share)
    if platform == "darwin":
        return user_home / "Library" / "Application Support"
    return user_home / ".local" / "share"


DEFAULT_ARCHIVE_LABEL = {
    "darwin": f"~/Library/Application Support/{_APP_NAME}",
    "win32": rf"%LOCALAPPDATA%\{_APP_NAME}",
}.get(sys.platform, f"~/.local/share/{_APP_NAME}")
"""Where the archive is unless an environment variable says otherwise, for help pages."""


def find_prices_file(
    environ: Mapping[str, str], user_home: Path, platform: str = sys.platform
) -> Path:
    """Return the path of the user's price file; the default one need not exist."""
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


def find_searches_file(
    environ: Mapping[str, str], user_home: Path, platform: str = sys.platform
) -> Path:
    """Return the path of the searches that the user saved in the web interface."""
    return _config_dir(environ, user_home, platform) / "searches.json"


def find_state_dir(
    environ: Mapping[str, str], user_home: Path, platform: str = sys.platform
) -> Path:
    """Return the folder for state that can be deleted at any time."""
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
    """Return the homes to import: the overrides, the setting, or the default ones.

    `BYGONES_HOME` may name several, separated as in `PATH`. Raises `PathNotFound` for a
    missing home, and `HomeNotFound` if there is none at all. For a `projects` folder the
    home is its parent. If `projects` is a symbolic link, its target is imported too.
    """
    configured = [
        Path(part.strip())
        for part in environ.get(HOME_ENV, "").split(os.pathsep)
        if part.strip()
    ]
    if not overrides and not configured:
        settings = load_settings(environ, user_home, platform)
        configured = [Path(home) for home in settings.homes]
    requested = [
        _absolute(_expand_user(path, user_home)) for path in overrides or configured
    ]
    for path in requested:
        if not os.path.exists(path):  # noqa: PTH110 (Path.exists may raise)
            raise PathNotFound(path)
    homes = [resolve_home(path) for path in requested]
    homes = homes or [_absolute(path) for path in find_homes(environ, user_home)]
    if not homes:
        raise HomeNotFound
    # The same home may be given by its name and by a symbolic link.
    by_real_path: dict[str, Path] = {}
    for path in chain(homes, *map(symlinked_projects, homes)):
        by_real_path.setdefault(os.path.realpath(path), path)
    return tuple(by_real_path.values())


class RedactSettings(NamedTuple):
    """What exports hide in addition: `[redact]` in the settings."""

    names: tuple[str, ...] = ()
    """Names of people, customers or machines, hidden as whole words."""
    patterns: Mapping[str, str] = {}
    """RE2 expressions, by the name that replaces a match."""


def load_redact_settings(
    environ: Mapping[str, str], user_home: Path, platform: str = sys.platform
) -> RedactSettings:
    """Return the `[redact]` settings. Raises `InvalidSettings`."""
    return load_settings(environ, user_home, platform).redact


def load_redactor(environ: Mapping[str, str], user_home: Path) -> Redactor:
    """Return the redactor for the user's login, names and own patterns.

    Raises `InvalidSettings`.
    """
    import getpass

    from bygones.redact.engine import Redactor

    settings = load_redact_settings(environ, user_home)
    try:
        login = getpass.getuser()
    except (OSError, KeyError, ImportError):
        login = user_home.name
    return Redactor(
        names=settings.names,
        accounts=(login, user_home.name),
        homes=(str(user_home),),
        patterns=settings.patterns.items(),
    )


class PushSettings(NamedTuple):
    """Which sessions to push to a hub: `[push]` in the settings."""

    hub: str = ""
    """The URL of the hub."""
    token: str = ""
    """Authenticates the user; `BYGONES_HUB_TOKEN` takes precedence."""
    projects: tuple[str, ...] = ()
    """Directories: only sessions that started in or below them are pushed."""


class Settings(NamedTuple):
    """User settings; `None` means not set."""

    archive: str | None = None
    homes: tuple[str, ...] = ()
    color: str | None = None
    iso: bool | None = None
    ingest: bool | None = None
    pager: str | None = None
    keys: str | None = None
    redact: RedactSettings = RedactSettings()
    push: PushSettings = PushSettings()


class SettingSpec(NamedTuple):
    """Name, type, description and example of a setting."""

    name: str
    kind: str
    meaning: str
    example: str

    @property
    def env_variable(self) -> str:
        """The environment variable that overrides the file."""
        name = "HOME" if self.name == "homes" else self.name.upper()
        return "" if self.kind == "table" else f"BYGONES_{name}"


SETTINGS = (
    SettingSpec("archive", "text", "the folder of the archive", '"~/bygones"'),
    SettingSpec("homes", "list of texts", "the homes to import", '["~/.claude"]'),
    SettingSpec("color", "text", "`auto`, `always` or `never`", '"never"'),
    SettingSpec("iso", "true or false", "whether to print times as ISO 8601", "true"),
    SettingSpec(
        "ingest", "true or false", "whether to import new records first", "false"
    ),
    SettingSpec("pager", "text", "program that shows long output", '"less -S"'),
    SettingSpec("keys", "text", "keys of the picker: `emacs` or `vi`", '"vi"'),
    SettingSpec("redact", "table", "what else exports redact", '{ names = ["Ada"] }'),
    SettingSpec(
        "push",
        "table",
        "projects to push, and the hub to push to",
        '{ hub = "https://hub.example.com", projects = ["~/work/shop"] }',
    ),
)
_COLORS = ("auto", "always", "never")
_KEYS = ("emacs", "vi")
_BOOLEANS = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}
PATH_SETTINGS = {"archive", "homes"}
"""Settings that have functions of their own."""


def load_settings(
    environ: Mapping[str, str], user_home: Path, platform: str = sys.platform
) -> Settings:
    """Return the user settings; environment variables override the file.

    Raises `InvalidSettings`, or `PathNotFound` if `BYGONES_SETTINGS` names a missing file.
    """
    path = find_settings_file(environ, user_home, platform)
    if environ.get(SETTINGS_ENV, "").strip() and not os.path.exists(path):  # noqa: PTH110 (Path.exists may raise)
        raise PathNotFound(path)
    try:
        values = _validated(_read_toml(path))
    except (ValueError, OSError) as error:
        raise InvalidSettings(path, " ".join(str(error).split())) from error
    return Settings(**values | _settings_from_env(environ))


def _settings_from_env(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings in environment variables, with the types of the file.

    Empty means not set, except that an empty pager means no pager.
    """
    values: dict[str, Any] = {}
    for spec in SETTINGS:
        text = environ.get(spec.env_variable)
        if spec.name in PATH_SETTINGS or text is None:
            continue
        text = text.strip()
        if not text and spec.name != "pager":
            continue
        is_boolean = spec.kind == "true or false"
        value = _BOOLEANS.get(text.lower(), text) if is_boolean else text
        try:
            _check_value(spec, value)
        except ValueError as error:
            raise InvalidSettings(spec.env_variable, str(error)) from error
        values[spec.name] = value
    return values


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    import tomllib

    return tomllib.loads(text)


def _validated(values: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of `Settings`; raises `ValueError` for invalid values."""
    specs = {spec.name: spec for spec in SETTINGS}
    for name, value in values.items():
        if name not in specs:
            raise ValueError(f"there is no setting {name!r}")
        _check_value(specs[name], value)
    fields = dict(values)
    if "homes" in fields:
        fields["homes"] = tuple(fields["homes"])
    if "redact" in fields:
        fields["redact"] = _parse_redact(fields["redact"])
    if "push" in fields:
        fields["push"] = _parse_push(fields["push"])
    return fields


def _check_value(spec: SettingSpec, value: object) -> None:
    is_valid = {
        "text": isinstance(value, str),
        "true or false": isinstance(value, bool),
        "list of texts": _is_string_list(value),
        "table": isinstance(value, dict),
    }
    if spec.name == "color" and value not in _COLORS:
        raise ValueError("color must be auto, always or never")
    if spec.name == "keys" and value not in _KEYS:
        raise ValueError("keys must be emacs or vi")
    if not is_valid[spec.kind]:
        kind = spec.kind if spec.kind == "true or false" else f"a {spec.kind}"
        raise ValueError(f"{spec.name} must be {kind}")


def _is_string_list(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _parse_redact(table: Mapping[str, Any]) -> RedactSettings:
    unknown = set(table) - {"names", "patterns"}
    if unknown:
        raise ValueError(f"[redact] has no setting {min(unknown)!r}")
    names, patterns = table.get("names", []), table.get("patterns", {})
    texts = [*patterns.values()] if isinstance(patterns, dict) else [0]
    if not _is_string_list(names) or not all(isinstance(text, str) for text in texts):
        raise ValueError("[redact] needs names = [texts] and patterns = {name = text}")
    return RedactSettings(tuple(names), patterns)


def _parse_push(table: Mapping[str, Any]) -> PushSettings:
    unknown = set(table) - set(PushSettings._fields)
    if unknown:
        raise ValueError(f"[push] has no setting {min(unknown)!r}")
    projects = table.get("projects", [])
    texts = (table.get("hub", ""), table.get("token", ""))
    if not _is_string_list(projects) or not all(
        isinstance(text, str) for text in texts
    ):
        raise ValueError("[push] needs projects = [texts], and texts as hub and token")
    return PushSettings(*texts, tuple(projects))


def load_push_settings(
    environ: Mapping[str, str], user_home: Path, platform: str = sys.platform
) -> PushSettings:
    """Return the `[push]` settings with absolute paths. Raises `InvalidSettings`."""
    push = load_settings(environ, user_home, platform).push
    token = environ.get(TOKEN_ENV, "").strip() or push.token
    projects = (_absolute(_expand_user(Path(p), user_home)) for p in push.projects)
    return push._replace(token=token, projects=tuple(map(str, projects)))


def find_settings_file(
    environ: Mapping[str, str], user_home: Path, platform: str = sys.platform
) -> Path:
    """Return the path of the settings file, which need not exist."""
    configured = environ.get(SETTINGS_ENV, "").strip()
    if configured:
        return _absolute(_expand_user(Path(configured), user_home))
    return _config_dir(environ, user_home, platform) / "settings.toml"


def _expand_user(path: Path, user_home: Path) -> Path:
    return user_home.joinpath(*path.parts[1:]) if path.parts[:1] == ("~",) else path


def _absolute(path: Path) -> Path:
    # "a/../b" is "b" only if "a" is not a symbolic link.
    return Path(os.path.realpath(path)) if ".." in path.parts else path.absolute()


class LocalTimezone(tzinfo):
    """The time zone of this machine, with daylight saving time."""

    def utcoffset(self, when: datetime | None, /) -> timedelta:
        local = when or datetime(1970, 1, 1)  # noqa: DTZ001 (local time)
        return local.replace(tzinfo=None).astimezone().utcoffset() or timedelta()

    def dst(self, _when: datetime | None, /) -> timedelta | None:
        return None

    def tzname(self, _when: datetime | None, /) -> str:
        return str(self)

    def fromutc(self, when: datetime, /) -> datetime:
        local = when.replace(tzinfo=UTC).astimezone()
        result = local.replace(tzinfo=self)
        # At the end of daylight saving time an hour is repeated: fold=1 is the second.
        is_first = result.utcoffset() == local.utcoffset()
        return result if is_first else result.replace(fold=1)

    def __str__(self) -> str:
        return "local time"


def get_machine_id() -> str:
    """Return a stable id of this machine, empty if there is none."""
    try:
        machine_id = MACHINE_ID_FILE.read_text("ascii", "replace").strip()
    except OSError:
        machine_id = ""
    if machine_id:
        return machine_id
    node = uuid.getnode()
    # Without a MAC address, getnode returns a random number with the multicast bit set.
    return "" if node >> 40 & 1 else f"{node:012x}"


_HUB_SCHEMES = ("https:/", "http:/")
_STORE_SCHEMES = ("postgres:/", "postgresql:/", "clickhouse:/", "chdb:/", *_HUB_SCHEMES)
"""With one slash: `Path` collapses several."""
_PASSWORD_PATTERN = r"(?<=:/)(/?[^/:@?]*):[^/@?]*@"  # noqa: S105 (a pattern)


def is_store_url(location: str) -> bool:
    """Whether a location is the URL of a team's store."""
    return location.startswith(_STORE_SCHEMES)


def is_hub_url(location: str) -> bool:
    """Whether a location is the URL of a hub."""
    return location.startswith(_HUB_SCHEMES)


def restore_slashes(location: str) -> str:
    """Return the URL of a hub that was passed as a path, which has only one slash."""
    scheme, _, rest = location.partition(":/")
    return f"{scheme}://{rest.lstrip('/')}"


def strip_password(location: str) -> str:
    """Return a location without the password, if it is a URL."""
    return (
        re.sub(_PASSWORD_PATTERN, r"\1@", location, count=1)
        if is_store_url(location)
        else location
    )
