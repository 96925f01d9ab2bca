"""Whether anything moved: one sign for all that a walk could meet.

A walk says what every file is; this only says whether another walk would find what
the last one did. It opens no file, and looks at more than a walk does rather than less.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from zlib import adler32, crc32

import msgspec

from recollect.sources.places import HOME_FOLDERS, HOME_HISTORY, Shelf, settle
from recollect.sources.walk import place_of

__all__ = ["Stir", "Written", "feel", "is_still", "pulse", "stir"]

_encode = msgspec.msgpack.Encoder().encode
_Sign = tuple[bytes, int, int, int, int]
"""A file's name, size, times and place on the disk."""
_Met = tuple[bytes, int, int, list[_Sign]]
"""A folder, its times, and its files."""
_SETTLED_NS = 3_000_000_000
"""How old a folder's time must be to tell that nothing came or went since: clocks of
file systems tick as slowly as every two seconds."""


class _Felt(msgspec.Struct, array_like=True):
    """All that was felt, so that the next time only files need be looked at."""

    sign: str
    at_ns: int
    roots: list[bytes]
    folders: list[_Met]


def pulse(paths: Iterable[Path]) -> str:
    """Return what changes when a file below the paths comes, goes or is written."""
    return feel(paths)[0]


def feel(paths: Iterable[Path]) -> tuple[str, bytes]:
    """Return the pulse, and all that was felt for :func:`is_still`."""
    at_ns = time.time_ns()
    signs: list[object] = []
    roots: list[bytes] = []
    folders_met: list[tuple[bytes, int, int, msgspec.Raw]] = []
    is_told = True
    for path in paths:
        # Names as the system has them: they need not be text, and it is faster.
        root = os.fsencode(path.absolute())
        roots.append(root)
        waiting = [root]
        while waiting:
            folder = waiting.pop()
            # Before it is listed: what comes in between makes the time a later one.
            times = _times(folder) if folder is not root else (0, 0)
            files, folders, problem = _listed(folder)
            if folder is root:
                files, folders = _looked_at(path, files, folders)
            # What a disk lists first depends on more than the names.
            files.sort()
            folders.sort()
            # As bytes at once: there may be a hundred thousand files.
            try:
                packed = msgspec.Raw(_encode(files))
            except OverflowError:
                # A year that no number here can hold: all is felt anew next time.
                packed, is_told = msgspec.Raw(_encode(repr(files))), False
            signs.append((folder, problem, packed))
            times = (at_ns, at_ns) if problem else times
            folders_met.append((folder, *times, packed))
            waiting.extend(folders)
    # It keeps no secret: two checksums are enough, and load faster than a hash does.
    sign = _sign(_encode(signs))
    return sign, _encode((sign, at_ns, roots, folders_met)) if is_told else b""


def _signed(name: bytes, found: os.stat_result) -> _Sign:
    times = (found.st_mtime_ns, found.st_ctime_ns)
    return name, found.st_size, *times, found.st_ino


def _sign(signed: bytes) -> str:
    return f"{crc32(signed):08x}{adler32(signed):08x}{len(signed):x}"


def is_still(felt: bytes, sign: str, paths: Sequence[Path]) -> bool:
    """Whether nothing moved since all was felt; ``False`` where that is not certain."""
    before = _remembered(felt, sign, paths)
    try:
        return before is not None and next(_writings(before, paths), None) is None
    except (OSError, _Unsure):
        return False


class Written(msgspec.Struct, frozen=True):
    """A file that was written, as it is now."""

    path: Path
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int


class Stir(msgspec.Struct, frozen=True):
    """Files that were written since all was felt; nothing came or went."""

    files: list[Written]
    sign: str
    felt: bytes
    """All that is felt now."""


def stir(felt: bytes, sign: str, paths: Sequence[Path]) -> Stir | None:
    """Return what was written since all was felt; ``None`` if more may have moved."""
    at_ns = time.time_ns()
    before = _remembered(felt, sign, paths)
    if before is None:
        return None
    files: list[Written] = []
    try:
        for (folder, _, _, signs), at, new in list(_writings(before, paths)):
            name, *facts = signs[at] = new
            files.append(Written(Path(os.fsdecode(b"%b/%b" % (folder, name))), *facts))
        signed = [(folder, None, files) for folder, _, _, files in before.folders]
        sign = _sign(_encode(signed))
        now = _Felt(sign, at_ns, before.roots, before.folders)
        return Stir(files, sign, _encode(now))
    except (OSError, OverflowError, _Unsure):
        return None


def _remembered(felt: bytes, sign: str, paths: Sequence[Path]) -> _Felt | None:
    """Return what was felt, if it was of these paths and has this sign."""
    try:
        before = msgspec.msgpack.decode(felt, type=_Felt)
    except msgspec.MsgspecError:
        return None
    roots = [os.fsencode(path.absolute()) for path in paths]
    return before if before.sign == sign and before.roots == roots else None


class _Unsure(Exception):
    """Something came or went, or may have."""


def _writings(
    before: _Felt, paths: Sequence[Path]
) -> Iterator[tuple[_Met, int, _Sign]]:
    """Yield files that look different now: the folder, which of its files, how.

    Folders whose time is what it was are not listed again, which is half of the work.
    """
    known = {met[0] for met in before.folders}
    for met in before.folders:
        folder, mtime_ns, ctime_ns, files = met
        if folder in before.roots:
            path = paths[before.roots.index(folder)]
            yield from ((met, *found) for found in _root_writings(path, files, known))
            continue
        # Whoever copies a folder may set its first time back, but not the second.
        is_recent = mtime_ns > before.at_ns - _SETTLED_NS
        if is_recent or _times(folder) != (mtime_ns, ctime_ns):
            raise _Unsure
        look = os.lstat
        for at, (name, size, mtime_ns, ctime_ns, inode) in enumerate(files):
            found = look(b"%b/%b" % (folder, name))
            if (
                found.st_size != size
                or found.st_mtime_ns != mtime_ns
                or found.st_ctime_ns != ctime_ns
                or found.st_ino != inode
            ):
                yield met, at, _signed(name, found)


def _root_writings(
    path: Path, before: list[_Sign], known: set[bytes]
) -> Iterator[tuple[int, _Sign]]:
    """Yield what looks different in a home, where much comes and goes beside ours."""
    root = os.fsencode(path.absolute())
    files, folders, problem = _listed(root)
    files, folders = _looked_at(path, files, folders)
    sign = os.sep.encode()
    here = {one for one in known if one.rpartition(sign)[0] == root}
    files.sort()
    is_same = [one[0] for one in files] == [one[0] for one in before]
    if problem is not None or {*folders} != here or not is_same:
        raise _Unsure
    for at, one in enumerate(files):
        if one != before[at]:
            yield at, one


def _times(folder: bytes) -> tuple[int, int]:
    try:
        found = os.stat(folder)  # noqa: PTH116 (no path in bytes has that)
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_ctime_ns


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
                files.append(_signed(child.name, child.stat(follow_symlinks=False)))
    except NotADirectoryError:
        found = os.stat(folder)  # noqa: PTH116 (no path in bytes has that)
        return [_signed(b"", found)], [], None
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
