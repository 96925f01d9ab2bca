"""Putting files where they belong: each whole, and over nothing unasked."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from contextlib import suppress
from enum import StrEnum
from filecmp import cmp
from itertools import count
from pathlib import Path
from secrets import token_hex

from msgspec import Struct

from bygones.sources.places import BESIDE, COPY
from bygones.store.lock import hold, is_let_go

__all__ = ["Put", "Standing", "put_file", "sweep"]

_PRIVATE_FOLDER = 0o700
_OWN = re.compile(rf"{re.escape(BESIDE)}[0-9a-f]{{16}}")
_NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


class Standing(StrEnum):
    """What stands at the place of a file that is to be restored."""

    NEW = "new"
    """Nothing."""
    SAME = "same"
    """The very same bytes."""
    DIFFERS = "differs"
    """Something else."""
    DAMAGED = "damaged"
    """Something with which the archive's own bytes, being damaged, do not compare."""
    TAKEN = "taken"
    """Another file that is restored with it, and goes there first."""
    OUTSIDE = "outside"
    """Whatever it is: the name leads out of the home, and nothing goes there."""


class Put(Struct, frozen=True, kw_only=True):
    """What became of a file that was to be put into its place."""

    found: Standing
    """What stood there in the end, however it was when that was planned."""
    size: int
    copy: Path | None = None
    """Where that was put, if it had to give way."""

    @property
    def is_written(self) -> bool:
        """Whether the file is there by our doing."""
        return self.found is Standing.NEW or self.copy is not None


def put_file(
    path: Path,
    raws: Iterable[bytes],
    mtime_ns: int,
    mine: set[tuple[int, int]],
    *,
    overwrite: bool,
) -> Put:
    """Write a file beside its place, and move it there when it is whole.

    Whoever else does the same at this moment has a file of their own, and what they
    put there is looked at again: never is anything replaced that is not known, nor,
    even with ``overwrite``, what is among ``mine``, the files put before it.
    """
    _make_folder(path.parent)
    beside, handle = _own_file(path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            size = sum(file.write(raw) for raw in raws)
            file.flush()
            os.fsync(file.fileno())
            os.utime(beside, ns=(mtime_ns, mtime_ns))
            identity = _identity(os.fstat(file.fileno()))
            if os.name == "nt":  # pragma: no cover (an open file cannot be moved there)
                file.close()
            found, copy = _move(beside, path, mine, overwrite=overwrite)
    finally:
        with suppress(OSError):  # what is left is swept up next time
            beside.unlink(missing_ok=True)
    put = Put(found=found, size=size, copy=copy)
    if put.is_written:
        mine.add(identity)
    return put


def sweep(folder: Path) -> None:
    """Remove what those who were killed have left beside files in a folder."""
    if os.name == "nt":  # pragma: no cover (there, nothing tells it from one in use)
        return
    with suppress(OSError), os.scandir(folder) as found:
        for one in found:
            if _OWN.fullmatch(one.name) and one.is_file(follow_symlinks=False):
                _remove_left(Path(one.path))


def _remove_left(path: Path) -> None:
    with suppress(OSError):
        handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        try:
            if is_let_go(handle):
                path.unlink()
        finally:
            os.close(handle)


def _make_folder(folder: Path) -> None:
    for above in (*reversed(folder.parents), folder):
        if not above.exists():
            above.mkdir(mode=_PRIVATE_FOLDER, exist_ok=True)


def _own_file(folder: Path) -> tuple[Path, int]:
    """Make a file that nobody else writes to, and that is held as long as it is open.

    Its name is of a length that any folder takes, whatever the file's own is.
    """
    while True:
        path = folder / f"{BESIDE}{token_hex(8)}"
        handle = os.open(path, _NEW_FILE, 0o600)
        hold(handle)
        if path.exists():
            return path, handle
        os.close(handle)  # somebody swept it up before it was held


def _move(
    beside: Path, path: Path, mine: set[tuple[int, int]], *, overwrite: bool
) -> tuple[Standing, Path | None]:
    if _is_moved(beside, path):
        return Standing.NEW, None
    if _identity(path.lstat()) in mine:
        return Standing.SAME if _is_equal(path, beside) else Standing.TAKEN, None
    if not overwrite:
        return Standing.SAME if _is_equal(path, beside) else Standing.DIFFERS, None
    copy = _kept_copy(path)
    if _is_equal(copy, beside):
        copy.unlink()
        return Standing.SAME, None
    beside.replace(path)
    return Standing.DIFFERS, copy


def _is_moved(beside: Path, path: Path) -> bool:
    """Give a file its name unless something has it, be it since a moment ago."""
    try:
        os.link(beside, path)
    except FileExistsError:
        return False
    except OSError:  # not every file system knows links
        if os.path.lexists(path):
            return False
        beside.replace(path)
    return True


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _is_equal(path: Path, beside: Path) -> bool:
    return path.is_file() and cmp(path, beside, shallow=False)


def _kept_copy(path: Path) -> Path:
    """Give a file that stands in the way a second name, which nothing else has."""
    for number in count():
        copy = path.with_name(f"{path.name}{COPY}{f'-{number}' if number else ''}")
        if os.path.lexists(copy):
            continue
        try:
            os.link(path, copy, follow_symlinks=False)
        except FileExistsError:
            continue
        except OSError:  # not every file system knows links
            shutil.copy2(path, copy, follow_symlinks=False)
        return copy
    raise AssertionError
