"""Whether anything moved: one sign for all that a walk could meet.

A walk says what every file is; this only says whether another walk would find what
the last one did. It opens no file, and looks at more than a walk does rather than less.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from zlib import adler32, crc32

import msgspec

from recollect.sources.places import HOME_FOLDERS, HOME_HISTORY, Shelf, settle
from recollect.sources.walk import place_of

__all__ = ["feel", "is_still", "pulse"]

_Sign = tuple[bytes, int, int, int, int]
"""A file's name, size, times and place on the disk."""
_SETTLED_NS = 3_000_000_000
"""How old a folder's time must be to tell that nothing came or went since: clocks of
file systems tick as slowly as every two seconds."""


class _Felt(msgspec.Struct, array_like=True):
    """All that was felt, so that the next time only files need be looked at."""

    sign: str
    at_ns: int
    roots: list[bytes]
    folders: list[tuple[bytes, int, list[_Sign]]]


def pulse(paths: Iterable[Path]) -> str:
    """Return what changes when a file below the paths comes, goes or is written."""
    return feel(paths)[0]


def feel(paths: Iterable[Path]) -> tuple[str, bytes]:
    """Return the pulse, and all that was felt for :func:`is_still`."""
    at_ns = time.time_ns()
    signs: list[object] = []
    roots: list[bytes] = []
    folders_met: list[tuple[bytes, int, list[_Sign]]] = []
    for path in paths:
        # Names as the system has them: they need not be text, and it is faster.
        root = os.fsencode(path.absolute())
        roots.append(root)
        waiting = [root]
        while waiting:
            folder = waiting.pop()
            # Before it is listed: what comes in between makes the time a later one.
            met_ns = _time(folder) if folder is not root else 0
            files, folders, problem = _listed(folder)
            if folder is root:
                files, folders = _looked_at(path, files, folders)
            # What a disk lists first depends on more than the names.
            files.sort()
            folders.sort()
            signs.append((folder, problem, files))
            folders_met.append((folder, at_ns if problem else met_ns, files))
            waiting.extend(folders)
    # It keeps no secret: two checksums are enough, and load faster than a hash does.
    try:
        signed = msgspec.msgpack.encode(signs)
        sign = _sign(signed)
        return sign, msgspec.msgpack.encode(_Felt(sign, at_ns, roots, folders_met))
    except OverflowError:
        # A file of a year that no number here can hold: all is felt anew next time.
        return _sign(repr(signs).encode()), b""


def _sign(signed: bytes) -> str:
    return f"{crc32(signed):08x}{adler32(signed):08x}{len(signed):x}"


def is_still(felt: bytes, sign: str, paths: Sequence[Path]) -> bool:
    """Whether nothing moved since all was felt; ``False`` where that is not certain.

    Folders whose time is what it was are not listed again, which is half of the work.
    """
    try:
        before = msgspec.msgpack.decode(felt, type=_Felt)
    except msgspec.MsgspecError:
        return False
    roots = [os.fsencode(path.absolute()) for path in paths]
    if before.sign != sign or before.roots != roots:
        return False
    try:
        return all(_is_same(before, one, paths) for one in before.folders)
    except OSError:
        return False


def _is_same(
    before: _Felt, one: tuple[bytes, int, list[_Sign]], paths: Sequence[Path]
) -> bool:
    folder, met_ns, files = one
    if folder in before.roots:
        known = [folder for folder, _, _ in before.folders]
        return _is_same_root(paths[before.roots.index(folder)], files, known)
    if met_ns > before.at_ns - _SETTLED_NS:
        return False
    if os.stat(folder).st_mtime_ns != met_ns:  # noqa: PTH116 (bytes, as above)
        return False
    look = os.lstat
    for name, size, mtime_ns, ctime_ns, inode in files:
        found = look(b"%b/%b" % (folder, name))
        if (
            found.st_size != size
            or found.st_mtime_ns != mtime_ns
            or found.st_ctime_ns != ctime_ns
            or found.st_ino != inode
        ):
            return False
    return True


def _is_same_root(path: Path, before: list[_Sign], known: list[bytes]) -> bool:
    """Whether a home, in which much comes and goes, has what it had for us."""
    root = os.fsencode(path.absolute())
    files, folders, problem = _listed(root)
    files, folders = _looked_at(path, files, folders)
    sign = os.sep.encode()
    here = {one for one in known if one.rpartition(sign)[0] == root}
    return problem is None and sorted(files) == before and {*folders} == here


def _time(folder: bytes) -> int:
    try:
        return os.stat(folder).st_mtime_ns  # noqa: PTH116 (no path in bytes has that)
    except OSError:
        return 0


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
