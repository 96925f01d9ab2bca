"""The status line: what was worked out a moment ago, printed in no time.

Claude Code asks for the line several times a second. So the line is read from a small
file, and if that is old, a program that nobody waits for makes it anew. This module
imports next to nothing: starting Python is most of what a line costs.
"""

from __future__ import annotations

import os
import sys
import time
from binascii import crc32

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["StatusLineCache", "clear_statusline_cache", "read_stdin", "spawn_detached"]

_MAX_INPUT_BYTES = 65_536
_MAX_AGE = 30.0
"""Seconds for which a line is good."""
_FILE_PREFIX = "line-"
_QUOTE = 0x22
_BACKSLASH = 0x5C


class StatusLineCache:
    """A line for whoever asks, by the directory and the session that are asked from."""

    def __init__(self, input_json: bytes, environ: Mapping[str, str]) -> None:
        directory = _json_string(input_json, b'"current_dir"') or _json_string(
            input_json, b'"cwd"'
        )
        session = _json_string(input_json, b'"session_id"')
        self.context_json = b'{"cwd":"%s","session_id":"%s"}' % (directory, session)
        archive = environ.get("BYGONES_ARCHIVE", "").encode()
        self.path = os.path.join(  # noqa: PTH118 (pathlib takes longer than all else)
            _cache_dir(environ),
            f"{_FILE_PREFIX}{crc32(self.context_json):08x}{crc32(archive):08x}",
        )

    def load(self) -> tuple[str, bool]:
        """Return the line as it was last made, and whether it is still good."""
        try:
            with open(self.path, encoding="utf-8") as file:  # noqa: PTH123 (as above)
                age = time.time() - os.fstat(file.fileno()).st_mtime
                return file.read(), 0 <= age < _MAX_AGE
        except (OSError, ValueError):
            return "", False

    def save(self, line: str) -> None:
        """Write the line down for the next one who asks."""
        os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)  # noqa: PTH103, PTH120
        draft = f"{self.path}.{os.getpid()}"
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(handle, "w", encoding="utf-8") as file:  # noqa: PTH123 (a number)
            file.write(line)
        os.replace(draft, self.path)  # noqa: PTH105 (as above)


def clear_statusline_cache(environ: Mapping[str, str]) -> None:
    """Remove all lines: one may name a session that is to be forgotten."""
    folder = _cache_dir(environ)
    names = os.listdir(folder) if os.path.isdir(folder) else []  # noqa: PTH112, PTH208 (as above)
    for name in names:
        if name.startswith(_FILE_PREFIX):
            os.unlink(os.path.join(folder, name))  # noqa: PTH108, PTH118 (as above)


def read_stdin() -> bytes:
    """Return what Claude Code says about the session, if it says anything."""
    if sys.stdin is None or sys.stdin.isatty():
        return b""
    return sys.stdin.buffer.read(_MAX_INPUT_BYTES)


def _json_string(input_json: bytes, name: bytes) -> bytes:
    """Return a text in JSON as it is written there, its escapes untouched."""
    at = input_json.find(name)
    start = input_json.find(b'"', at + len(name)) + 1
    if at < 0 or start <= 0 or input_json[at + len(name) : start - 1].strip() != b":":
        return b""
    end = start
    while end < len(input_json) and input_json[end] != _QUOTE:
        end += 2 if input_json[end] == _BACKSLASH else 1
    return input_json[start:end]


def _cache_dir(environ: Mapping[str, str]) -> str:
    """Return where this system keeps what can be made again."""
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        if environ.get(name):
            return os.path.join(environ[name], "bygones")  # noqa: PTH118 (as above)
    return os.path.join(os.path.expanduser("~"), ".cache", "bygones")  # noqa: PTH111, PTH118


def spawn_detached(command: Sequence[str]) -> None:
    """Start a program that outlives us, says nothing, and is not waited for.

    Where the system has no room for one more, nothing is started.
    """
    if not hasattr(os, "posix_spawn"):
        _spawn_with_subprocess(command)
        return
    nothing = [
        (os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)
    ]
    try:
        os.posix_spawn(
            command[0], list(command), os.environ, file_actions=nothing, setsid=True
        )
    except (OSError, ValueError):
        return  # whoever asks next tries again


def _spawn_with_subprocess(command: Sequence[str]) -> None:
    import subprocess

    nothing = subprocess.DEVNULL
    subprocess.Popen(  # noqa: S603 (our own command)
        command,
        stdin=nothing,
        stdout=nothing,
        stderr=nothing,
        creationflags=getattr(subprocess, "DETACHED_PROCESS", 0),
    )
