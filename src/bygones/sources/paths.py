"""The homes that a user's environment names."""

from __future__ import annotations

import os
import re
import struct
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path

from bygones.model.base import ProjectKey


def find_homes(environ: Mapping[str, str], user_home: Path) -> tuple[Path, ...]:
    """Return the homes that exist, each once, in the order in which they count.

    ``CLAUDE_CONFIG_DIR`` replaces the usual places, as it does for Claude Code; it may
    name several folders parted by commas, and a ``projects`` folder stands for the
    home around it. Otherwise the homes are ``~/.claude`` and ``~/.config/claude``.
    """
    configured = environ.get("CLAUDE_CONFIG_DIR", "").strip()
    if configured:
        candidates = tuple(_homes_from_config(configured, user_home))
    else:
        candidates = (user_home / ".claude", user_home / ".config" / "claude")
    by_place: dict[str, Path] = {}
    for path in filter(_is_dir, candidates):
        by_place.setdefault(os.path.realpath(path), path)
    return tuple(by_place.values())


def resolve_home(path: Path) -> Path:
    """Return the home whose ``projects`` folder a path is, or else the path."""
    above = path.parent
    if not _is_projects_dir(path):
        return path
    from bygones.sources.layout import HOME_MARKERS, is_home

    signs = {sign for sign in HOME_MARKERS if os.path.lexists(above / sign)}
    return above if is_home(above.name, signs) else path


def symlinked_projects(home: Path) -> tuple[Path, ...]:
    """Return where a home's transcripts are, if a link puts them elsewhere."""
    projects = home / "projects"
    if not os.path.islink(projects) or not _is_dir(projects):  # noqa: PTH114 (no error)
        return ()
    return (Path(os.path.realpath(projects)),)


def _homes_from_config(value: str, user_home: Path) -> Iterator[Path]:
    # A folder may have a comma in its name, so the whole value is tried first.
    for part in (
        (value,) if _is_dir(_normalize_existing(value, user_home)) else value.split(",")
    ):
        if part.strip():
            path = _normalize_existing(part.strip(), user_home)
            yield path.parent if _is_projects_dir(path) else path


def _normalize_existing(text: str, user_home: Path) -> Path:
    """Return the path in the form Claude Code uses (NFC), or as given if only so."""
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


_PRIVATE_USE_BASE = 0xEF00
"""Byte ``0xNN`` (never below 0x80) is written as the character ``U+EFNN``."""

_NEEDS_ESCAPE = "[\udc80-\udcff\uef80-\uefff]"
_ESCAPED = "[\uef80-\uefff]"


def encode_path(path: str | os.PathLike[str]) -> str:
    """Return a path as text with forward slashes, fit for ids, JSON and databases."""
    native = os.fspath(path)
    if os.sep != "/":
        native = native.replace(os.sep, "/")
    if native.isascii():
        return native
    text = os.fsencode(native).decode("utf-8", "surrogateescape")
    return re.sub(_NEEDS_ESCAPE, lambda match: _escape(match[0]), text)


def decode_path(text: str) -> str:
    """Return the path to open for a text that :func:`path_text` made."""
    if text.isascii():
        return text
    hidden = re.sub(
        _ESCAPED, lambda found: chr(ord(found[0]) - _PRIVATE_USE_BASE + 0xDC00), text
    )
    try:
        return os.fsdecode(hidden.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        return text  # not made by path_text, so it names no file


def _escape(character: str) -> str:
    raw = character.encode("utf-8", "surrogateescape")
    return "".join(chr(_PRIVATE_USE_BASE + byte) for byte in raw)


_MAX_KEY_LENGTH = 200
_BASE36_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_NON_ALPHANUMERIC = re.compile("[^A-Za-z0-9]")
_LAST_BMP_CHARACTER = "\uffff"


def project_key(path: str) -> ProjectKey:
    """Return the name of the folder in which Claude Code keeps a path's sessions.

    ``path`` is the real path (links resolved) on the machine that wrote it; Windows
    paths work anywhere. Different paths may share a key, so there is no way back: a
    project's path comes from its records.
    """
    canonical = unicodedata.normalize("NFC", path)
    key = _NON_ALPHANUMERIC.sub(_to_dashes, canonical)
    if len(key) > _MAX_KEY_LENGTH:
        key = f"{key[:_MAX_KEY_LENGTH]}-{_to_base36(_rolling_hash(canonical))}"
    return ProjectKey(key)


def _to_dashes(match: re.Match[str]) -> str:
    # Claude Code counts UTF-16 units: a character beyond them is two.
    return "--" if match[0] > _LAST_BMP_CHARACTER else "-"


def _rolling_hash(text: str) -> int:
    """Return the absolute value of JavaScript's ``h = (h << 5) - h + unit | 0``."""
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
