"""Whether anything moved: one sign for all that a walk could meet.

A walk says what every file is; this only says whether another walk would find what
the last one did. It opens no file, and looks at more than a walk does rather than less.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from zlib import adler32, crc32

import msgspec

from recollect.sources.places import HOME_FOLDERS, HOME_HISTORY, Shelf, settle
from recollect.sources.walk import place_of

__all__ = ["pulse"]

_Sign = tuple[bytes, int, int, int, int]
"""A file's name, size, times and place on the disk."""


def pulse(paths: Iterable[Path]) -> str:
    """Return what changes when a file below the paths comes, goes or is written."""
    signs: list[object] = []
    for path in paths:
        # Names as the system has them: they need not be text, and it is faster.
        root = os.fsencode(path.absolute())
        waiting = [root]
        while waiting:
            folder = waiting.pop()
            files, folders, problem = _listed(folder)
            if folder is root:
                files, folders = _looked_at(path, files, folders)
            # What a disk lists first depends on more than the names.
            files.sort()
            folders.sort()
            signs.append((folder, problem, files))
            waiting.extend(folders)
    # It keeps no secret: two checksums are enough, and load faster than a hash does.
    signed = msgspec.msgpack.encode(signs)
    return f"{crc32(signed):08x}{adler32(signed):08x}{len(signed):x}"


def _listed(folder: bytes) -> tuple[list[_Sign], list[bytes], int | None]:
    """Return the files and the folders in a folder, and what stopped us."""
    files: list[_Sign] = []
    folders: list[bytes] = []
    try:
        with os.scandir(folder) as listing:
            for child in listing:
                if child.is_dir(follow_symlinks=False):
                    folders.append(child.path)
                    continue
                found = child.stat(follow_symlinks=False)
                times = (found.st_mtime_ns, found.st_ctime_ns)
                files.append((child.name, found.st_size, *times, found.st_ino))
    except NotADirectoryError:
        found = os.stat(folder)  # noqa: PTH116 (no path in bytes has that)
        times = (found.st_mtime_ns, found.st_ctime_ns)
        return [(b"", found.st_size, *times, found.st_ino)], [], None
    except OSError as error:
        return files, folders, error.errno
    return files, folders, None


def _looked_at(
    path: Path, files: list[_Sign], folders: list[bytes]
) -> tuple[list[_Sign], list[bytes]]:
    """Return what a walk looks at where it begins; of a home that is not everything."""
    named = {os.fsdecode(folder).rpartition(os.sep)[2]: folder for folder in folders}
    names = {*named, *(os.fsdecode(sign[0]) for sign in files)}
    if settle(place_of(path), path.name, names).shelf is not Shelf.HOME:
        return files, folders
    history = HOME_HISTORY.encode()
    return (
        [sign for sign in files if sign[0] == history],
        [folder for name, folder in named.items() if name in HOME_FOLDERS],
    )
