"""Names of files in transcripts, which come from other machines and are not trusted."""

from __future__ import annotations

import ntpath
import posixpath
import re
from functools import lru_cache

from bygones.model.path_case import ignores_case

_GIT_NAMES = frozenset({".git", "git~1"})
_WINDOWS = re.compile(r"[A-Za-z]:[\\/]|\\\\")


def is_windows_path(path: str) -> bool:
    """Whether a path has a drive letter, or is on a Windows share."""
    return _WINDOWS.match(path) is not None


def is_absolute(path: str) -> bool:
    """Whether a path is absolute on any system."""
    return path.startswith("/") or is_windows_path(path)


def join_path(directory: str, path: str) -> str:
    """Return a path below a directory, unless it is absolute itself."""
    if is_absolute(path) or not directory:
        return path
    separator = "\\" if is_windows_path(directory) and "/" not in directory else "/"
    return f"{directory.rstrip(separator)}{separator}{path}"


@lru_cache(4096)
def path_key(path: str, directory: str = "") -> str:
    """Return what identifies a file: its normalized absolute path.

    Paths of Windows and macOS are compared without case, and all with slashes.
    """
    whole = join_path(directory, path)
    key = _normalize(whole)
    return key.lower() if ignores_case(whole) else key


def _normalize(path: str) -> str:
    if is_windows_path(path):
        return ntpath.normpath(path).replace("\\", "/")
    return posixpath.normpath(path) if path else ""


def file_name(path: str) -> str:
    """Return the last part of a path."""
    return path.replace("\\", "/").rstrip("/").rpartition("/")[2]


def relative_to(path: str, directory: str) -> str | None:
    """Return a path relative to a directory, or none if it is not below it."""
    if not path_key(path).startswith(f"{path_key(directory).rstrip('/')}/"):
        return None
    return _normalize(path)[len(_normalize(directory).rstrip("/")) + 1 :]


def belongs_to_git(path: str) -> bool:
    """Whether a path is or contains `.git`, also as other file systems spell it.

    Git runs programs that the files there name. In a worktree, `.git` is a file.
    """
    parts = path.replace("\\", "/").split("/")
    return any(part.rstrip(". ").casefold() in _GIT_NAMES for part in parts)


def is_safe_relative(path: str) -> bool:
    """Whether a relative path stays below the folder that it is joined to."""
    parts = path.replace("\\", "/").split("/")
    return not (
        is_absolute(path)
        or any(part in {"", ".", ".."} for part in parts)
        or "\0" in path
        or ":" in parts[0]
    )
