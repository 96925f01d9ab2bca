"""Claude Code homes, project keys, and paths as text."""

from __future__ import annotations

import os
import re
import struct
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path

from bygones.model.base import ProjectKey


def find_homes(environ: Mapping[str, str], user_home: Path) -> tuple[Path, ...]:
    """Return the existing homes, each once, in order of precedence.

    By default these are `~/.claude` and `~/.config/claude`. As in Claude Code,
    `CLAUDE_CONFIG_DIR` replaces them; it may name several folders separated by commas,
    and for a `projects` folder the home is its parent.
    """
    configured = environ.get("CLAUDE_CONFIG_DIR", "").strip()
    if configured:
        candidates = tuple(_homes_from_config(configured, user_home))
    else:
        candidates = (user_home / ".claude", user_home / ".config" / "claude")
    by_real_path: dict[str, Path] = {}
    for path in filter(_is_dir, candidates):
        by_real_path.setdefault(os.path.realpath(path), path)
    return tuple(by_real_path.values())


def resolve_home(path: Path) -> Path:
    """Return the parent if `path` is the `projects` folder of a home, else `path`."""
    parent = path.parent
    if not _is_projects_dir(path):
        return path
    # Imported late: most commands do not need it, and it takes 2 ms.
    from bygones.sources.layout import HOME_MARKERS, is_home

    markers = {name for name in HOME_MARKERS if os.path.lexists(parent / name)}
    return parent if is_home(parent.name, markers) else path


def symlinked_projects(home: Path) -> tuple[Path, ...]:
    """Return the target of a home's `projects` folder if that is a symbolic link."""
    projects = home / "projects"
    if not os.path.islink(projects) or not _is_dir(projects):  # noqa: PTH114 (no error)
        return ()
    return (Path(os.path.realpath(projects)),)


def _homes_from_config(value: str, user_home: Path) -> Iterator[Path]:
    # A folder name may contain a comma, so try the whole value first.
    for part in (
        (value,) if _is_dir(_normalize_existing(value, user_home)) else value.split(",")
    ):
        if part.strip():
            path = _normalize_existing(part.strip(), user_home)
            yield path.parent if _is_projects_dir(path) else path


def _normalize_existing(text: str, user_home: Path) -> Path:
    """Return the path normalized to NFC, as Claude Code does, unless only `text` exists."""
    composed = _expand_user(unicodedata.normalize("NFC", text), user_home)
    given = _expand_user(text, user_home)
    return given if not _is_dir(composed) and _is_dir(given) else composed


def _expand_user(text: str, user_home: Path) -> Path:
    if text == "~" or text.startswith(("~/", "~\\")):
        return user_home / text[2:]
    return Path(text)


def _is_projects_dir(path: Path) -> bool:
    return path.name == "projects" and not _is_dir(path / "projects")


def _is_dir(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


_MAX_KEY_LENGTH = 200
_BASE36_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_NON_ALPHANUMERIC = re.compile("[^A-Za-z0-9]")
_LAST_BMP_CHARACTER = "\uffff"


def project_key(path: str) -> ProjectKey:
    """Return the name of the folder in which Claude Code stores a project's sessions.

    `path` must have its symbolic links resolved. Windows paths work on any system.
    Different paths may have the same key, so a key cannot be decoded.
    """
    canonical = unicodedata.normalize("NFC", path)
    key = _NON_ALPHANUMERIC.sub(_to_dashes, canonical)
    if len(key) > _MAX_KEY_LENGTH:
        key = f"{key[:_MAX_KEY_LENGTH]}-{_to_base36(_rolling_hash(canonical))}"
    return ProjectKey(key)


def _to_dashes(match: re.Match[str]) -> str:
    # Claude Code replaces UTF-16 code units: other characters are two of them.
    return "--" if match[0] > _LAST_BMP_CHARACTER else "-"


def _rolling_hash(text: str) -> int:
    """Return the absolute value of `h = (h << 5) - h + unit | 0` in JavaScript."""
    value = 0
    for (unit,) in struct.iter_unpack("<H", text.encode("utf-16-le", "surrogatepass")):
        value = (31 * value + unit) & 0xFFFFFFFF
    return min(value, 0x100000000 - value)


def _to_base36(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = _BASE36_DIGITS[digit] + digits
    return digits or "0"
