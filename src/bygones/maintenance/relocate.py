"""Paths of restored files, and records whose project has moved."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from pathlib import Path

import msgspec

from bygones.model.base import SourceKind
from bygones.model.path_text import decode_path
from bygones.sources.paths import project_key
from bygones.store.archive_db import StoredSource

__all__ = [
    "cwd_rewriter",
    "escapes_home",
    "name_home_folders",
    "target_path",
]

_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_text = msgspec.json.Decoder(str).decode
_encode = msgspec.json.Encoder().encode
_CWD_KEY = b'"cwd"'
_HOME_LEVEL_KINDS = frozenset(
    {
        SourceKind.FILE_HISTORY,
        SourceKind.HISTORY,
        SourceKind.PLAN,
        SourceKind.TASK,
        SourceKind.TODO,
    }
)
"""Files in the home itself, not in the folder of a project."""


def name_home_folders(homes: Iterable[str]) -> dict[str, str]:
    """Return a unique folder name for each home.

    Names are compared without case, because some file systems ignore it.
    """
    keys = {home: project_key(home) for home in homes}
    counts = Counter(key.casefold() for key in keys.values())
    return {
        home: key if counts[key.casefold()] == 1 else f"{key}.{_short_hash(home)}"
        for home, key in keys.items()
    }


def _short_hash(home: str) -> str:
    return sha256(home.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def escapes_home(path: str) -> bool:
    """Whether a path leads out of its home.

    A scan never finds such a path, but the archive may come from another user.
    """
    parts = path.split("/")
    return "\0" in path or any(part in {"", ".", ".."} for part in parts)


def target_path(
    stored_source: StoredSource, home: str | None = None, project: str | None = None
) -> Path:
    """Return where a file belongs: below its own home, or below another.

    `project` is the current directory of its project; the file goes to the folder where
    Claude Code looks for it. Files outside project folders are only moved into one in
    another home.
    """
    home_parts = (stored_source.home if home is None else home).rstrip("/").split("/")
    parts = stored_source.path.split("/")
    if project is not None:
        key = project_key(project)
        if stored_source.project in parts:
            parts[parts.index(stored_source.project)] = key
        elif home is None and stored_source.project in home_parts:
            home_parts[_last_index(home_parts, stored_source.project)] = key
        elif home is not None and stored_source.kind not in _HOME_LEVEL_KINDS:
            parts = ["projects", key, *_path_below_project(stored_source, parts)]
    return Path(decode_path("/".join((*home_parts, *parts))))


def _last_index(parts: list[str], name: str) -> int:
    return len(parts) - 1 - parts[::-1].index(name)


def _path_below_project(stored_source: StoredSource, parts: list[str]) -> list[str]:
    """Return the part of a path that belongs to the session: its file or folder."""
    return parts[
        parts.index(stored_source.session) if stored_source.session in parts else -1 :
    ]


def cwd_rewriter(old: str, new: str) -> Callable[[bytes], bytes]:
    """Return a function that changes the working directory in a line.

    A directory outside `old` stays unchanged, and so does every other byte.
    """

    def rewrite(line: bytes) -> bytes:
        if _CWD_KEY not in line:
            return line
        try:
            fields = _decode(line)
            cwd = _text(fields["cwd"])
        except (KeyError, ValueError):
            return line
        moved = _moved_cwd(cwd, old, new)
        return line if moved is None else _with_cwd(line, fields, moved)

    return rewrite


def _moved_cwd(cwd: str, old: str, new: str) -> str | None:
    prefix = old.rstrip("/\\")
    rest = cwd[len(prefix) :]
    if not cwd.startswith(prefix) or (rest and rest[0] not in "/\\"):
        return None
    return new.rstrip("/\\") + rest


def _with_cwd(line: bytes, fields: Mapping[str, msgspec.Raw], cwd: str) -> bytes:
    """Return a line with another value of its top-level `cwd`."""
    old_value, value = bytes(fields["cwd"]), _encode(cwd)
    start = 0
    for match in re.finditer(rb'"cwd"\s*:\s*', line):
        if line.startswith(old_value, match.end()):
            start = match.end()
            changed = line[:start] + value + line[start + len(old_value) :]
            if bytes(_decode(changed)["cwd"]) == value:
                return changed
    return line
