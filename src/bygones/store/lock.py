"""One writer: a lock that the operating system lets go when the process ends."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EPERM
from pathlib import Path

from bygones.errors import ArchiveInUse

if sys.platform == "win32":  # pragma: no cover
    import msvcrt
else:
    import fcntl

__all__ = ["LOCK_FILE", "hold", "is_held", "is_let_go", "writing"]

LOCK_FILE = "writer.lock"
_STEP = 0.05


@contextmanager
def writing(folder: Path, *, wait: float = 5.0) -> Iterator[None]:
    """Hold the writer's lock of an archive; wait briefly if another has it.

    :raises PermissionError: if the folder is another user's.
    """
    _check_owner(folder)
    path = folder / LOCK_FILE
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _take(handle, folder, wait)
        yield
    finally:
        os.close(handle)


def is_held(folder: Path) -> bool:
    """Whether somebody writes to an archive at this moment, as far as can be seen."""
    try:
        handle = os.open(folder / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not is_let_go(handle)
    finally:
        os.close(handle)


def _check_owner(folder: Path) -> None:
    """Refuse a folder whose owner could read what is written there, or replace it.

    Root can do so in any case, and is therefore no other. In a folder that is open to
    all, whatever stands there already may be somebody's, and is looked at as well.
    """
    if sys.platform == "win32":  # pragma: no cover
        return
    for path in (folder, *folder.iterdir()):
        with suppress(FileNotFoundError):  # gone meanwhile
            if path.lstat().st_uid not in {0, os.geteuid()}:
                raise PermissionError(EPERM, "it belongs to another user", str(path))


def _take(handle: int, folder: Path, wait: float) -> None:
    until = time.monotonic() + wait
    while not is_let_go(handle):
        if time.monotonic() >= until:
            raise ArchiveInUse(folder)
        time.sleep(_STEP)


def hold(handle: int) -> None:
    """Hold an open file until it is closed, where the system knows how to."""
    if sys.platform != "win32":
        with suppress(OSError):  # not every file system does
            fcntl.flock(handle, fcntl.LOCK_EX)


def is_let_go(handle: int) -> bool:
    """Whether nobody else holds an open file; then it is held from now on."""
    try:
        if sys.platform == "win32":  # pragma: no cover
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
