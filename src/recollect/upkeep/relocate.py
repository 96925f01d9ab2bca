"""Where restored files go, and how records follow their project to a new place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from recollect.sources import native_path, project_key
from recollect.store.chunks import Kept

__all__ = ["rewritten_cwd", "target_of", "whole_lines"]

_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_text = msgspec.json.Decoder(str).decode
_encode = msgspec.json.Encoder().encode
_LIKELY = b'"cwd"'


def target_of(kept: Kept, home: str, project: str | None = None) -> Path:
    """Return where a file belongs below a home.

    ``project`` is the directory that its project lies in now: it goes to the folder
    in which Claude Code looks for that.
    """
    parts = kept.path.split("/")
    if project is not None and kept.project in parts:
        parts[parts.index(kept.project)] = project_key(project)
    return Path(native_path("/".join((home.rstrip("/"), *parts))))


def rewritten_cwd(old: str, new: str) -> Callable[[bytes], bytes]:
    """Return a function that moves the working directory of a record's line.

    A directory outside of ``old`` stays as it is, and so does every other byte.
    """

    def rewrite(line: bytes) -> bytes:
        if _LIKELY not in line:
            return line
        try:
            fields = _decode(line)
            cwd = _text(fields["cwd"])
        except (KeyError, ValueError):
            return line
        moved = _moved(cwd, old, new)
        return line if moved is None else _with_cwd(line, fields, moved)

    return rewrite


def _moved(cwd: str, old: str, new: str) -> str | None:
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


def whole_lines(raws: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of bytes that come in pieces, with their newlines."""
    rest = b""
    for raw in raws:
        lines = (rest + raw).split(b"\n")
        rest = lines.pop()
        yield from (line + b"\n" for line in lines)
    if rest:
        yield rest
