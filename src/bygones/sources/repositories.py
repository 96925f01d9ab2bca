"""Find out which repository a directory belongs to, by reading files of git.

No program is run, so nothing that a repository configures is executed.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from bygones.model.projects import RepositoryFacts, name_remote

_MAX_BYTES = 256 * 1024
_MAX_CLONES = 4
"""Clones of clones on this machine that are followed."""
_SECTION = re.compile(r'\[\s*remote\s+"((?:[^"\\]|\\.)*)"\s*\]', re.IGNORECASE)
_URL = re.compile(r"url\s*=\s*(.*)", re.IGNORECASE)
_FIRST_COMMIT = re.compile(r"0{40,64} ([0-9a-f]{40,64}) .*\tcommit \(initial\)")


def read_directory(directory: str) -> RepositoryFacts | None:
    """Return the repository of a directory; none if the directory does not exist."""
    path = Path(directory)
    try:
        if not path.is_dir():
            return None
        return _read_facts(path, _MAX_CLONES) or RepositoryFacts()
    except (OSError, ValueError):
        return RepositoryFacts()


def _read_facts(path: Path, depth: int) -> RepositoryFacts | None:
    for root in (path, *path.parents):
        git = root / ".git"
        if not os.path.lexists(git):
            continue
        folder, is_worktree = _find_git_folder(git)
        if folder is None:
            return None
        url = next(_read_remotes(folder), "")
        below = path.relative_to(root).as_posix()
        return RepositoryFacts(
            repository=_name_repository(url, folder, depth),
            path="" if below == "." else below,
            is_worktree=is_worktree,
            root_commit=_read_root_commit(folder),
        )
    return None


def _find_git_folder(git: Path) -> tuple[Path | None, bool]:
    """Return the folder with the configuration, and whether this is a worktree."""
    if git.is_dir():
        return git, False
    text = _read_text(git)
    if not text.startswith("gitdir:"):
        return None, False
    folder = git.parent / text.removeprefix("gitdir:").strip()
    common = _read_text(folder / "commondir").strip()
    return (folder / common, True) if common else (folder, False)


def _read_remotes(folder: Path) -> Iterator[str]:
    """Yield the addresses of remotes, that of origin first."""
    name: str | None = None
    found: dict[str, str] = {}
    for line in _read_text(folder / "config").splitlines():
        text = line.strip()
        if text.startswith("["):
            match = _SECTION.match(text)
            name = match[1] if match else None
        elif name is not None and (match := _URL.match(text)):
            found.setdefault(name, match[1].strip().strip('"'))
    if "origin" in found:
        yield found["origin"]
    yield from found.values()


def _name_repository(url: str, folder: Path, depth: int) -> str:
    """Return a name that all clones of a repository share."""
    if name := name_remote(url):
        return name
    source = Path(url.removeprefix("file://")) if url and depth else None
    if source is not None:
        # A clone of a directory on this machine; a relative one starts at the tree.
        place = folder.parent / source.expanduser()
        known = _read_facts(place, depth - 1) if place.is_dir() else None
        if known is not None:
            return known.repository
        return f"file:{os.path.realpath(place)}"
    return f"file:{os.path.realpath(folder).removesuffix('/.git')}"


def _read_root_commit(folder: Path) -> str:
    """Return the first commit, if this repository was not cloned: from its reflog."""
    line = _read_text(folder / "logs" / "HEAD").partition("\n")[0]
    match = _FIRST_COMMIT.match(line)
    return match[1] if match else ""


def _read_text(path: Path) -> str:
    """Return the start of a file; "" if it is not a regular one."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return ""
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return ""
        return file.read(_MAX_BYTES).decode("utf-8", "replace")
