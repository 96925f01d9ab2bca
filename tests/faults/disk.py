"""A file system below SQLite that reports every write, and a disk that loses data.

A listener may record writes, raise an error, or end the program. The databases of the
product are opened through it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple

import apsw

__all__ = ["Disk", "FileOperation", "FileState", "intercept_writes", "write_files"]

_SECTOR = 512
_LOG_SUFFIXES = ("-wal", "-journal")


class FileOperation(NamedTuple):
    """An operation on a file: ``write``, ``truncate``, ``sync`` or ``delete``.

    A ``move`` renames a folder and removes everything beside it; without a new name, it
    removes the folder as well. A ``rename`` renames a file, and is synced.
    """

    kind: str
    path: str
    offset: int = 0
    data: bytes = b""


class _ReportingFile(apsw.VFSFile):
    def __init__(
        self, callback: Callable[[FileOperation], None], name: str, flags: list[int]
    ) -> None:
        self._callback = callback
        self._name = name
        super().__init__(_REAL_VFS, name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 (SQLite's names)
        self._callback(FileOperation("write", self._name, offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._callback(FileOperation("truncate", self._name, newsize))
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        super().xSync(flags)
        self._callback(FileOperation("sync", self._name))

    def xLock(self, level: int) -> None:  # noqa: N802
        try:
            super().xLock(level)
        except apsw.IOError as error:
            # A reader without write access cannot lock a file to close it, which does not matter.
            raise apsw.BusyError from error


class _ReportingVFS(apsw.VFS):
    def __init__(self, callback: Callable[[FileOperation], None]) -> None:
        self._callback = callback
        super().__init__("reporting", _REAL_VFS, makedefault=True)

    def xOpen(self, name: object, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        if name is None:
            return apsw.VFSFile(_REAL_VFS, None, flags)
        if isinstance(name, apsw.URIFilename):
            name = name.filename()
        return _ReportingFile(self._callback, str(name), flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        self._callback(FileOperation("delete", filename))
        super().xDelete(filename, syncdir)


_REAL_VFS = "unix"


@contextmanager
def intercept_writes(callback: Callable[[FileOperation], None]) -> Iterator[None]:
    """Call a function with each of SQLite's file operations, before it is done.

    Syncs are reported when they are done.
    """
    vfs = _ReportingVFS(callback)
    try:
        yield
    finally:
        vfs.unregister()


class FileState(NamedTuple):
    """A file: its synced content, and operations that are not synced."""

    synced: bytearray
    """What survives a power cut."""
    unsynced: list[FileOperation]
    """Operations since the last sync; any part of them may be lost."""

    def sync(self) -> None:
        """Make all operations durable."""
        for operation in self.unsynced:
            _apply(self.synced, operation)
        self.unsynced.clear()

    def after_power_cut(self, random: Random) -> bytes | None:
        """Return what a file may contain after a power cut, or None if it may be lost."""
        raw = bytearray(self.synced)
        chance = random.choice([0.0, 1.0, 0.5, 0.9, random.random()])
        exists = bool(raw)
        for operation in self.unsynced:
            for part in (
                _sectors(operation) if operation.kind == "write" else [operation]
            ):
                if random.random() < chance:
                    _apply(raw, part)
                    exists = True
        return bytes(raw) if exists else None


class Disk:
    """What would be on the disk after a power cut now.

    A write is durable once its file is synced. Of later writes, each sector may have
    been written or not, in any order.
    """

    def __init__(self) -> None:
        self._files: dict[str, FileState] = {}
        self._deleted: dict[str, FileState] = {}
        """Files that may reappear, because their folder was not synced since."""
        self._synced_logs: set[str] = set()
        """Logs that were synced; the first sync of a log also syncs its folder."""

    def record(self, operation: FileOperation) -> None:
        """Apply an operation."""
        if operation.kind == "move":
            self._move(operation.path, operation.data.decode())
            return
        if operation.kind == "rename":
            self._files[operation.data.decode()] = self._files.pop(operation.path)
            self._sync_folder(operation.path)
            return
        state = self._files.setdefault(operation.path, FileState(bytearray(), []))
        if operation.kind == "delete":
            self._deleted[operation.path] = self._files.pop(operation.path)
            self._synced_logs.discard(operation.path)
        elif operation.kind == "sync":
            state.sync()
            if (
                operation.path.endswith(_LOG_SUFFIXES)
                and operation.path not in self._synced_logs
            ):
                self._synced_logs.add(operation.path)
                self._sync_folder(operation.path)
        else:
            state.unsynced.append(operation)

    def _move(self, folder: str, name: str) -> None:
        root = str(Path(folder).parent)
        inside = {
            path: state
            for path, state in self._files.items()
            if path.startswith(f"{root}/")
        }
        for path, state in inside.items():
            del self._files[path]
            if path.startswith(f"{folder}/"):
                self._files[name + path.removeprefix(folder)] = state
        for path in [path for path in self._deleted if path.startswith(f"{root}/")]:
            del self._deleted[path]

    def _sync_folder(self, path: str) -> None:
        for name in list(self._deleted):
            if Path(name).parent == Path(path).parent:
                del self._deleted[name]

    def after_power_cut(self, random: Random) -> dict[str, bytes]:
        """Return the files that may be found after a power cut."""
        files = {}
        for path in self._files | self._deleted:
            is_restored = path in self._deleted and random.random() < 0.5
            state = (self._deleted if is_restored else self._files).get(path)
            data = state.after_power_cut(random) if state else None
            if data is not None:
                files[path] = data
        return files


def _sectors(operation: FileOperation) -> Sequence[FileOperation]:
    """Split a write into sectors, each of which is written completely or not at all."""
    cuts = [
        operation.offset,
        *range(
            operation.offset - operation.offset % _SECTOR + _SECTOR,
            _end(operation),
            _SECTOR,
        ),
    ]
    return [
        FileOperation(
            "write",
            operation.path,
            at,
            operation.data[at - operation.offset : stop - operation.offset],
        )
        for at, stop in zip(cuts, [*cuts[1:], _end(operation)], strict=True)
    ]


def _end(operation: FileOperation) -> int:
    return operation.offset + len(operation.data)


def _apply(raw: bytearray, operation: FileOperation) -> None:
    if operation.kind == "truncate":
        del raw[operation.offset :]
        raw.extend(bytes(operation.offset - len(raw)))
    else:
        raw.extend(bytes(max(_end(operation) - len(raw), 0)))
        raw[operation.offset : _end(operation)] = operation.data


def write_files(files: dict[str, bytes], old_root: Path, new_root: Path) -> None:
    """Write files from one folder into another."""
    for name, raw in files.items():
        path = new_root / Path(name).relative_to(old_root)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw)
