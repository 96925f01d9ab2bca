"""A cache for the status line.

Claude Code asks for the line several times a second. Therefore it is read from a small
file, and an outdated file is renewed by a detached process. This module imports next to
nothing, as the start of Python is most of the cost.
"""

from __future__ import annotations

import os
import sys
import time
from binascii import crc32

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MAX_INPUT_BYTES = 65_536
_MAX_AGE = 30.0
"""Seconds for which a line is current."""
_FILE_PREFIX = "line-"
_QUOTE = 0x22
_BACKSLASH = 0x5C


class StatusLineCache:
    """The cached line of a directory and a session."""

    def __init__(self, input_json: bytes, environ: Mapping[str, str]) -> None:
        directory = _json_string(input_json, b'"current_dir"') or _json_string(
            input_json, b'"cwd"'
        )
        session = _json_string(input_json, b'"session_id"')
        self.context_json = b'{"cwd":"%s","session_id":"%s"}' % (directory, session)
        archive = environ.get("BYGONES_ARCHIVE", "").encode()
        self.path = os.path.join(  # noqa: PTH118 (importing pathlib is slow)
            _cache_dir(environ),
            f"{_FILE_PREFIX}{crc32(self.context_json):08x}{crc32(archive):08x}",
        )

    def load(self) -> tuple[str, bool]:
        """Return the line, and whether it is current."""
        try:
            with open(self.path, encoding="utf-8") as file:  # noqa: PTH123 (as above)
                age = time.time() - os.fstat(file.fileno()).st_mtime
                return file.read(), 0 <= age < _MAX_AGE
        except (OSError, ValueError):
            return "", False

    def save(self, line: str) -> None:
        os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)  # noqa: PTH103, PTH120
        draft = f"{self.path}.{os.getpid()}"
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(handle, "w", encoding="utf-8") as file:  # noqa: PTH123 (a number)
            file.write(line)
        os.replace(draft, self.path)  # noqa: PTH105 (as above)


def clear_statusline_cache(environ: Mapping[str, str]) -> None:
    """Delete all lines, as one may name a session that is purged."""
    folder = _cache_dir(environ)
    names = os.listdir(folder) if os.path.isdir(folder) else []  # noqa: PTH112, PTH208 (as above)
    for name in names:
        if name.startswith(_FILE_PREFIX):
            os.unlink(os.path.join(folder, name))  # noqa: PTH108, PTH118 (as above)


def read_stdin() -> bytes:
    """Return the JSON that Claude Code passes; empty on a terminal."""
    if sys.stdin is None or sys.stdin.isatty():
        return b""
    return sys.stdin.buffer.read(_MAX_INPUT_BYTES)


def _json_string(input_json: bytes, name: bytes) -> bytes:
    """Return the value of a JSON string without decoding its escapes."""
    at = input_json.find(name)
    start = input_json.find(b'"', at + len(name)) + 1
    if at < 0 or start <= 0 or input_json[at + len(name) : start - 1].strip() != b":":
        return b""
    end = start
    while end < len(input_json) and input_json[end] != _QUOTE:
        end += 2 if input_json[end] == _BACKSLASH else 1
    return input_json[start:end]


def _cache_dir(environ: Mapping[str, str]) -> str:
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        if environ.get(name):
            return os.path.join(environ[name], "bygones")  # noqa: PTH118 (as above)
    return os.path.join(os.path.expanduser("~"), ".cache", "bygones")  # noqa: PTH111, PTH118


def spawn_detached(command: Sequence[str]) -> None:
    """Start a process that continues after this one, without output.

    Errors are ignored.
    """
    if not hasattr(os, "posix_spawn"):
        _spawn_with_subprocess(command)
        return
    to_devnull = [
        (os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)
    ]
    try:
        os.posix_spawn(
            command[0], list(command), os.environ, file_actions=to_devnull, setsid=True
        )
    except (OSError, ValueError):
        return  # the next call tries again


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


def print_status_line() -> int:
    """Print the cached line, and refresh it in the background if it is old."""
    cache = StatusLineCache(read_stdin(), os.environ)
    line, is_fresh = cache.load()
    sys.stdout.write(f"{line}\n")
    if not is_fresh:
        context = os.fsdecode(cache.context_json)
        command = [sys.executable, "-m", "bygones", "statusline", "--now", context]
        spawn_detached(command)
    return 0
