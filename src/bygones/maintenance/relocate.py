"""Where restored files go, and how records follow their project to a new place."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
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
    "iter_lines",
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
"""What lies in the home itself and in no project's folder."""


def name_home_folders(homes: Iterable[str]) -> dict[str, str]:
    """Return a folder's name for each home, which no other of them has.

    Names that differ in capitals only are one where disks do not tell these apart.
    """
    keys = {home: project_key(home) for home in homes}
    counted = Counter(key.casefold() for key in keys.values())
    return {
        home: key if counted[key.casefold()] == 1 else f"{key}.{_short_hash(home)}"
        for home, key in keys.items()
    }


def _short_hash(home: str) -> str:
    return sha256(home.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def escapes_home(path: str) -> bool:
    """Whether a path below a home leads elsewhere.

    No walk gives such a one, but an archive may have come from somebody else.
    """
    parts = path.split("/")
    return "\0" in path or any(part in {"", ".", ".."} for part in parts)


def target_path(
    stored_source: StoredSource, home: str | None = None, project: str | None = None
) -> Path:
    """Return where a file belongs: below its own home, or below another.

    ``project`` is the directory that its project lies in now: it goes to the folder
    in which Claude Code looks for that. What lay in no project's folder gets one in
    another home only.
    """
    above = (stored_source.home if home is None else home).rstrip("/").split("/")
    parts = stored_source.path.split("/")
    if project is not None:
        key = project_key(project)
        if stored_source.project in parts:
            parts[parts.index(stored_source.project)] = key
        elif home is None and stored_source.project in above:
            above[_last_index(above, stored_source.project)] = key
        elif home is not None and stored_source.kind not in _HOME_LEVEL_KINDS:
            parts = ["projects", key, *_path_below_project(stored_source, parts)]
    return Path(decode_path("/".join((*above, *parts))))


def _last_index(parts: list[str], name: str) -> int:
    return len(parts) - 1 - parts[::-1].index(name)


def _path_below_project(stored_source: StoredSource, parts: list[str]) -> list[str]:
    """Return what of a path is a session's own: its file, or all in its folder."""
    return parts[
        parts.index(stored_source.session) if stored_source.session in parts else -1 :
    ]


def cwd_rewriter(old: str, new: str) -> Callable[[bytes], bytes]:
    """Return a function that moves the working directory of a record's line.

    A directory outside of ``old`` stays as it is, and so does every other byte.
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
    beginning = old.rstrip("/\\")
    rest = cwd[len(beginning) :]
    if not cwd.startswith(beginning) or (rest and rest[0] not in "/\\"):
        return None
    return new.rstrip("/\\") + rest


def _with_cwd(line: bytes, fields: Mapping[str, msgspec.Raw], cwd: str) -> bytes:
    """Return the line with another value for its own ``cwd``, no deeper one."""
    before, value = bytes(fields["cwd"]), _encode(cwd)
    at = 0
    for found in re.finditer(rb'"cwd"\s*:\s*', line):
        if line.startswith(before, found.end()):
            at = found.end()
            changed = line[:at] + value + line[at + len(before) :]
            if bytes(_decode(changed)["cwd"]) == value:
                return changed
    return line


def iter_lines(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of bytes that come in pieces, with their newlines."""
    rest = b""
    for raw in parts:
        lines = (rest + raw).split(b"\n")
        rest = lines.pop()
        yield from (line + b"\n" for line in lines)
    if rest:
        yield rest
