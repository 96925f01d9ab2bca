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

__all__ = ["Act", "Disk", "Held", "lay", "listening"]

_SECTOR = 512
_LOGS = ("-wal", "-journal")


class Act(NamedTuple):
    """What was done to a file: ``write``, ``truncate``, ``sync`` or ``delete``.

    A ``move`` gives a folder another name, in place of all that lay beside it; where
    it gives none, all that is gone. A ``rename`` gives a file another name for certain.
    """

    task: str
    path: str
    at: int = 0
    raw: bytes = b""


class _File(apsw.VFSFile):
    def __init__(
        self, told: Callable[[Act], None], name: str, flags: list[int]
    ) -> None:
        self._told = told
        self._name = name
        super().__init__(_REAL, name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 (SQLite's names)
        self._told(Act("write", self._name, offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._told(Act("truncate", self._name, newsize))
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        super().xSync(flags)
        self._told(Act("sync", self._name))

    def xLock(self, level: int) -> None:  # noqa: N802
        try:
            super().xLock(level)
        except apsw.IOError as error:
            # A reader without write access cannot lock a file to close it, which does not matter.
            raise apsw.BusyError from error


class _Files(apsw.VFS):
    def __init__(self, told: Callable[[Act], None]) -> None:
        self._told = told
        super().__init__("listening", _REAL, makedefault=True)

    def xOpen(self, name: object, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        if name is None:
            return apsw.VFSFile(_REAL, None, flags)
        if isinstance(name, apsw.URIFilename):
            name = name.filename()
        return _File(self._told, str(name), flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        self._told(Act("delete", filename))
        super().xDelete(filename, syncdir)


_REAL = "unix"


@contextmanager
def listening(told: Callable[[Act], None]) -> Iterator[None]:
    """Have a function hear of all that SQLite does to files, before it is done.

    Of a sync it hears when that is over.
    """
    files = _Files(told)
    try:
        yield
    finally:
        files.unregister()


class Held(NamedTuple):
    """A file: what is certain of it, and what is not."""

    sure: bytearray
    """What the disk has for certain."""
    loose: list[Act]
    """What was done since the last sync; any part of it may be lost."""

    def sync(self) -> None:
        """Make certain all that was done."""
        for act in self.loose:
            _apply(self.sure, act)
        self.loose.clear()

    def left(self, random: Random) -> bytes | None:
        """Return what may be left of a file without power; perhaps there is none."""
        raw = bytearray(self.sure)
        chance = random.choice([0.0, 1.0, 0.5, 0.9, random.random()])
        is_there = bool(raw)
        for act in self.loose:
            for part in _sectors(act) if act.task == "write" else [act]:
                if random.random() < chance:
                    _apply(raw, part)
                    is_there = True
        return bytes(raw) if is_there else None


class Disk:
    """What would be on the disk if the power went now.

    A write is certain once its file was synced. Of those that came after, each sector
    may have arrived or not, in any order.
    """

    def __init__(self) -> None:
        self._files: dict[str, Held] = {}
        self._deleted: dict[str, Held] = {}
        """What may reappear: the folder was not synced since."""
        self._known: set[str] = set()
        """Logs that were synced, and with the first sync the folder they are in."""

    def hear(self, act: Act) -> None:
        """Follow what is done."""
        if act.task == "move":
            self._move(act.path, act.raw.decode())
            return
        if act.task == "rename":
            self._files[act.raw.decode()] = self._files.pop(act.path)
            self._sync_folder(act.path)
            return
        held = self._files.setdefault(act.path, Held(bytearray(), []))
        if act.task == "delete":
            self._deleted[act.path] = self._files.pop(act.path)
            self._known.discard(act.path)
        elif act.task == "sync":
            held.sync()
            if act.path.endswith(_LOGS) and act.path not in self._known:
                self._known.add(act.path)
                self._sync_folder(act.path)
        else:
            held.loose.append(act)

    def _move(self, folder: str, name: str) -> None:
        root = str(Path(folder).parent)
        inside = {p: h for p, h in self._files.items() if p.startswith(f"{root}/")}
        for path, held in inside.items():
            del self._files[path]
            if path.startswith(f"{folder}/"):
                self._files[name + path.removeprefix(folder)] = held
        for path in [p for p in self._deleted if p.startswith(f"{root}/")]:
            del self._deleted[path]

    def _sync_folder(self, path: str) -> None:
        for name in list(self._deleted):
            if Path(name).parent == Path(path).parent:
                del self._deleted[name]

    def without_power(self, random: Random) -> dict[str, bytes]:
        """Return the files as they may be found afterwards."""
        found = {}
        for path in self._files | self._deleted:
            is_back = path in self._deleted and random.random() < 0.5
            held = (self._deleted if is_back else self._files).get(path)
            left = held.left(random) if held else None
            if left is not None:
                found[path] = left
        return found


def _sectors(act: Act) -> Sequence[Act]:
    """Return a write as the disk does it: a sector is whole or not there."""
    cuts = [act.at, *range(act.at - act.at % _SECTOR + _SECTOR, _end(act), _SECTOR)]
    return [
        Act("write", act.path, at, act.raw[at - act.at : stop - act.at])
        for at, stop in zip(cuts, [*cuts[1:], _end(act)], strict=True)
    ]


def _end(act: Act) -> int:
    return act.at + len(act.raw)


def _apply(raw: bytearray, act: Act) -> None:
    if act.task == "truncate":
        del raw[act.at :]
        raw.extend(bytes(act.at - len(raw)))
    else:
        raw.extend(bytes(max(_end(act) - len(raw), 0)))
        raw[act.at : _end(act)] = act.raw


def lay(files: dict[str, bytes], was: Path, becomes: Path) -> None:
    """Write files that were found below one folder below another."""
    for name, raw in files.items():
        path = becomes / Path(name).relative_to(was)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw)
