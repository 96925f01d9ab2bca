"""Commands whose writes, syncs and renames are all recorded.

They are traced with strace, which includes SQLite, the text engine and Python.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.faults.disk import Act

__all__ = ["PROGRAM", "traced"]

_CALLS = (
    "open,openat,creat,write,pwrite64,writev,lseek,ftruncate,fsync,fdatasync,rename,"
    "renameat,renameat2,unlink,unlinkat,link,linkat,mkdir,mkdirat,rmdir,truncate,"
    "pwritev,pwritev2,fallocate,copy_file_range,sendfile,symlink,symlinkat,umask"
)
_LINE = re.compile(r"\d+ +(\w+)\((.*)\) += (\d+)(?:<([^>]*)>)?", re.DOTALL)
_STOPPED = re.compile(r"(\d+) +(.*) <unfinished \.\.\.>$")
_RESUMED = re.compile(r"(\d+) +<\.\.\. \w+ resumed>(.*)$")
_TEXT = re.compile(r'(?:<((?:\\x..)*)>, )?"((?:\\x..)*)"')
_HANDLE = re.compile(r"(\d+)<((?:\\x..)*)>")
_MODE = re.compile(r", 0([0-7]{3})$")
_UMASK = 0o022
_MEMORY = ("-shm", ".lock")
"""What is shared between programs, and is nothing once they are gone."""
PROGRAM = """
import sys
from bygones.cli.main import main
from tests.faults.mutations import MUTATIONS, patch
for name in sys.argv[1].split():
    MUTATIONS[name](patch)
sys.exit(main(sys.argv[2:]))
"""
"""The command, with faults of ours in it if there shall be any."""


class _Call(NamedTuple):
    name: str
    words: str
    result: int
    opened: str
    """The path of what was opened."""


def traced(
    words: Sequence[str],
    root: Path,
    env: Mapping[str, str],
    mutation: str = "",
    *,
    umask: int = _UMASK,
) -> list[Act]:
    """Run a command; return all that it did to files below a folder, in order.

    An act that makes a file or a folder has its rights where others have a place.
    """
    log = root.with_name("log")
    done = subprocess.run(
        [
            *("strace", "-f", "-qq", "-y", "-xx", "-s", "99999999", "-o", str(log)),
            *("-e", f"trace={_CALLS}", sys.executable, "-c", PROGRAM, mutation),
            *words,
        ],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **env},
        capture_output=True,
        text=True,
        check=False,
        umask=umask,
    )
    assert done.returncode == 0, done.stderr
    with log.open(encoding="ascii") as file:
        return list(_acts(_calls(file), str(root), umask))


def _calls(lines: Iterable[str]) -> Iterator[_Call]:
    """Yield calls that did something, in the order in which they ended."""
    waiting: dict[str, str] = {}
    for line in lines:
        if stopped := _STOPPED.match(line):
            waiting[stopped[1]] = stopped[2]
            continue
        if resumed := _RESUMED.match(line):
            line = f"{resumed[1]} {waiting.pop(resumed[1])}{resumed[2]}"  # noqa: PLW2901
        if found := _LINE.match(line):
            yield _Call(found[1], found[2], int(found[3]), _path(found[4] or ""))


def _raw(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


def _path(text: str) -> str:
    return os.fsdecode(_raw(text))


def _acts(calls: Iterable[_Call], root: str, umask: int) -> Iterator[Act]:
    """Yield what was done below a folder, each call as one act or several."""
    ends: dict[tuple[int, str], int] = {}
    """Where what is written next to an open file will stand."""
    for call in calls:
        if call.name == "umask":
            umask = int(call.words, 8)
            continue
        mode = _MODE.search(call.words)
        for act in _acts_of(call, ends):
            is_ours = f"{act.path}/".startswith(f"{root}/")
            if is_ours and not act.path.endswith(_MEMORY):
                is_made = act.task in {"create", "folder"}
                rights = int(mode[1], 8) & ~umask if mode and is_made else act.at
                yield act._replace(at=rights)


def _acts_of(call: _Call, ends: dict[tuple[int, str], int]) -> Iterator[Act]:
    texts = [(_path(folder), _raw(text)) for folder, text in _TEXT.findall(call.words)]
    found = _HANDLE.match(call.words)
    handle = (int(found[1]), _path(found[2])) if found else (0, "")
    path, end = handle[1], ends.get(handle, 0)
    match call.name:
        case "open" | "openat" | "creat":
            ends[call.result, call.opened] = 0
            if "O_CREAT" in call.words:
                yield Act("create", call.opened)
            if "O_TRUNC" in call.words:
                yield Act("truncate", call.opened)
        case "lseek":
            ends[handle] = call.result
        case "write" | "writev":
            raw = b"".join(text for _, text in texts)[: call.result]
            ends[handle] = end + len(raw)
            yield Act("write", path, end, raw)
        case "pwrite64":
            offset = int(call.words.rpartition(", ")[2])
            yield Act("write", path, offset, texts[-1][1][: call.result])
        case "ftruncate":
            yield Act("truncate", path, int(call.words.rpartition(", ")[2]))
        case "fsync" | "fdatasync":
            yield Act("sync", path)
        case _:
            names = [os.path.join(a, os.fsdecode(b)) for a, b in texts]  # noqa: PTH118
            yield from _named(call, names)


def _named(call: _Call, names: Sequence[str]) -> Iterator[Act]:
    match call.name:
        case "rename" | "renameat" | "renameat2":
            assert Path(names[0]).parent == Path(names[1]).parent, call
            yield Act("move", names[0], raw=os.fsencode(names[1]))
        case "link" | "linkat":
            assert Path(names[0]).parent == Path(names[1]).parent, call
            yield Act("link", names[0], raw=os.fsencode(names[1]))
        case "unlink" | "unlinkat" | "rmdir":
            yield Act("delete", names[0])
        case "mkdir" | "mkdirat":
            yield Act("folder", names[0])
        case _:  # unknown effect on files
            raise AssertionError(call)
