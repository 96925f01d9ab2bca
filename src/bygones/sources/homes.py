"""The homes that a user's environment names."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path

__all__ = ["home_around", "homes", "linked_projects"]


def homes(environ: Mapping[str, str], user_home: Path) -> tuple[Path, ...]:
    """Return the homes that exist, each once, in the order in which they count.

    ``CLAUDE_CONFIG_DIR`` replaces the usual places, as it does for Claude Code; it may
    name several folders parted by commas, and a ``projects`` folder stands for the
    home around it. Otherwise the homes are ``~/.claude`` and ``~/.config/claude``.
    """
    configured = environ.get("CLAUDE_CONFIG_DIR", "").strip()
    if configured:
        candidates = tuple(_configured(configured, user_home))
    else:
        candidates = (user_home / ".claude", user_home / ".config" / "claude")
    by_place: dict[str, Path] = {}
    for path in filter(_is_dir, candidates):
        by_place.setdefault(os.path.realpath(path), path)
    return tuple(by_place.values())


def home_around(path: Path) -> Path:
    """Return the home whose ``projects`` folder a path is, or else the path."""
    above = path.parent
    if not _is_projects(path):
        return path
    from bygones.sources.places import HOME_SIGNS, is_home  # noqa: PLC0415 (rare)

    signs = {sign for sign in HOME_SIGNS if os.path.lexists(above / sign)}
    return above if is_home(above.name, signs) else path


def linked_projects(home: Path) -> tuple[Path, ...]:
    """Return where a home's transcripts are, if a link puts them elsewhere."""
    projects = home / "projects"
    if not os.path.islink(projects) or not _is_dir(projects):  # noqa: PTH114 (no error)
        return ()
    return (Path(os.path.realpath(projects)),)


def _configured(value: str, user_home: Path) -> Iterator[Path]:
    # A folder may have a comma in its name, so the whole value is tried first.
    for part in (value,) if _is_dir(_existing(value, user_home)) else value.split(","):
        if part.strip():
            path = _existing(part.strip(), user_home)
            yield path.parent if _is_projects(path) else path


def _existing(text: str, user_home: Path) -> Path:
    """Return the path in the form Claude Code uses (NFC), or as given if only so."""
    composed = _expanded(unicodedata.normalize("NFC", text), user_home)
    given = _expanded(text, user_home)
    return given if not _is_dir(composed) and _is_dir(given) else composed


def _expanded(text: str, user_home: Path) -> Path:
    if text == "~" or text.startswith(("~/", "~\\")):
        return user_home / text[2:]
    return Path(text)


def _is_projects(path: Path) -> bool:
    return path.name == "projects" and not _is_dir(path / "projects")


def _is_dir(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False
