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

from tests.faults.disk import FileOperation

__all__ = ["PROGRAM", "trace_command"]

_CALLS = (
    "open,openat,creat,write,pwrite64,writev,lseek,ftruncate,fsync,fdatasync,rename,"
    "renameat,renameat2,unlink,unlinkat,link,linkat,mkdir,mkdirat,rmdir,truncate,"
    "pwritev,pwritev2,fallocate,copy_file_range,sendfile,symlink,symlinkat,umask"
)
_LINE = re.compile(r"\d+ +(\w+)\((.*)\) += (\d+)(?:<([^>]*)>)?", re.DOTALL)
_UNFINISHED = re.compile(r"(\d+) +(.*) <unfinished \.\.\.>$")
_RESUMED = re.compile(r"(\d+) +<\.\.\. \w+ resumed>(.*)$")
_TEXT = re.compile(r'(?:<((?:\\x..)*)>, )?"((?:\\x..)*)"')
_HANDLE = re.compile(r"(\d+)<((?:\\x..)*)>")
_MODE = re.compile(r", 0([0-7]{3})$")
_UMASK = 0o022
_SHARED_SUFFIXES = ("-shm", ".lock")
"""Files that processes share, and that are not needed once they ended."""
PROGRAM = """
import sys
from bygones.cli.main import main
from tests.faults.mutations import MUTATIONS, patch
for name in sys.argv[1].split():
    MUTATIONS[name](patch)
sys.exit(main(sys.argv[2:]))
"""
"""Runs the command with the given mutations."""


class _Call(NamedTuple):
    name: str
    arguments: str
    result: int
    path: str
    """The path of the file that was opened."""


def trace_command(
    arguments: Sequence[str],
    root: Path,
    env: Mapping[str, str],
    mutation: str = "",
    *,
    umask: int = _UMASK,
) -> list[FileOperation]:
    """Run a command; return all its file operations below a folder, in order.

    An operation that creates a file or folder has its mode in place of the offset.
    """
    log = root.with_name("log")
    process = subprocess.run(
        [
            *("strace", "-f", "-qq", "-y", "-xx", "-s", "99999999", "-o", str(log)),
            *("-e", f"trace={_CALLS}", sys.executable, "-c", PROGRAM, mutation),
            *arguments,
        ],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **env},
        capture_output=True,
        text=True,
        check=False,
        umask=umask,
    )
    assert process.returncode == 0, process.stderr
    with log.open(encoding="ascii") as file:
        return list(_operations(_calls(file), str(root), umask))


def _calls(lines: Iterable[str]) -> Iterator[_Call]:
    """Yield successful calls, in the order in which they ended."""
    unfinished: dict[str, str] = {}
    for line in lines:
        if started := _UNFINISHED.match(line):
            unfinished[started[1]] = started[2]
            continue
        if resumed := _RESUMED.match(line):
            line = f"{resumed[1]} {unfinished.pop(resumed[1])}{resumed[2]}"  # noqa: PLW2901
        if call := _LINE.match(line):
            yield _Call(call[1], call[2], int(call[3]), _path(call[4] or ""))


def _raw(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


def _path(text: str) -> str:
    return os.fsdecode(_raw(text))


def _operations(
    calls: Iterable[_Call], root: str, umask: int
) -> Iterator[FileOperation]:
    """Yield the operations below a folder; a call is one operation or several."""
    offsets: dict[tuple[int, str], int] = {}
    """The current offset of each open file."""
    for call in calls:
        if call.name == "umask":
            umask = int(call.arguments, 8)
            continue
        mode = _MODE.search(call.arguments)
        for operation in _operations_of(call, offsets):
            is_below_root = f"{operation.path}/".startswith(f"{root}/")
            if is_below_root and not operation.path.endswith(_SHARED_SUFFIXES):
                is_created = operation.kind in {"create", "folder"}
                mode_or_offset = (
                    int(mode[1], 8) & ~umask
                    if mode and is_created
                    else operation.offset
                )
                yield operation._replace(offset=mode_or_offset)


def _operations_of(
    call: _Call, offsets: dict[tuple[int, str], int]
) -> Iterator[FileOperation]:
    texts = [
        (_path(folder), _raw(text)) for folder, text in _TEXT.findall(call.arguments)
    ]
    handle_match = _HANDLE.match(call.arguments)
    handle = (int(handle_match[1]), _path(handle_match[2])) if handle_match else (0, "")
    path, current = handle[1], offsets.get(handle, 0)
    match call.name:
        case "open" | "openat" | "creat":
            offsets[call.result, call.path] = 0
            if "O_CREAT" in call.arguments:
                yield FileOperation("create", call.path)
            if "O_TRUNC" in call.arguments:
                yield FileOperation("truncate", call.path)
        case "lseek":
            offsets[handle] = call.result
        case "write" | "writev":
            raw = b"".join(text for _, text in texts)[: call.result]
            offsets[handle] = current + len(raw)
            yield FileOperation("write", path, current, raw)
        case "pwrite64":
            offset = int(call.arguments.rpartition(", ")[2])
            yield FileOperation("write", path, offset, texts[-1][1][: call.result])
        case "ftruncate":
            yield FileOperation(
                "truncate", path, int(call.arguments.rpartition(", ")[2])
            )
        case "fsync" | "fdatasync":
            yield FileOperation("sync", path)
        case _:
            names = [os.path.join(folder, os.fsdecode(name)) for folder, name in texts]  # noqa: PTH118
            yield from _name_operations(call, names)


def _name_operations(call: _Call, names: Sequence[str]) -> Iterator[FileOperation]:
    match call.name:
        case "rename" | "renameat" | "renameat2":
            assert Path(names[0]).parent == Path(names[1]).parent, call
            yield FileOperation("move", names[0], data=os.fsencode(names[1]))
        case "link" | "linkat":
            assert Path(names[0]).parent == Path(names[1]).parent, call
            yield FileOperation("link", names[0], data=os.fsencode(names[1]))
        case "unlink" | "unlinkat" | "rmdir":
            yield FileOperation("delete", names[0])
        case "mkdir" | "mkdirat":
            yield FileOperation("folder", names[0])
        case _:  # unknown effect on files
            raise AssertionError(call)
