"""Whether anything moved: one sign for all that a walk could meet.

A walk says what every file is; this only says whether another walk would find what
the last one did. It opens no file, and looks at more than a walk does rather than less.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from zlib import adler32, crc32

import msgspec

__all__ = ["Stir", "Written", "feel", "is_still", "pulse", "stir"]

_encode = msgspec.msgpack.Encoder().encode
_facts = attrgetter("st_size", "st_mtime_ns", "st_ctime_ns", "st_ino")
_Facts = tuple[int, int, int, int]
"""A file's size, times and place on the disk."""
_Sign = tuple[bytes, _Facts]
"""A file's name, and how it looks."""
_Files = tuple[list[bytes], list[_Facts]]
"""The names of files, and how each looks: apart, to be compared all at once."""
_Met = tuple[bytes, int, int, _Files]
"""A folder, its times, and its files."""
_SEP = os.sep.encode()
_SETTLED_NS = 3_000_000_000
"""How old a folder's time must be to tell that nothing came or went since: clocks of
file systems tick as slowly as every two seconds."""


class _Felt(msgspec.Struct, array_like=True):
    """All that was felt, so that the next time only files need be looked at."""

    sign: str
    at_ns: int
    roots: list[bytes]
    names: list[list[bytes]]
    """All that is in each root, and not only what is looked at."""
    folders: list[_Met]


def pulse(paths: Iterable[Path]) -> str:
    """Return what changes when a file below the paths comes, goes or is written."""
    return feel(paths)[0]


def feel(paths: Iterable[Path]) -> tuple[str, bytes]:
    """Return the pulse, and all that was felt for :func:`is_still`."""
    at_ns = time.time_ns()
    signs: list[object] = []
    roots: list[bytes] = []
    names: list[list[bytes]] = []
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
                names.append(_names(files, folders))
                files, folders = _looked_at(path, files, folders)
            # What a disk lists first depends on more than the names.
            files.sort()
            folders.sort()
            # As bytes at once: there may be a hundred thousand files.
            parted = [name for name, _ in files], [facts for _, facts in files]
            try:
                packed = msgspec.Raw(_encode(parted))
            except OverflowError:
                # A year that no number here can hold: all is felt anew next time.
                packed, is_told = msgspec.Raw(_encode(repr(parted))), False
            signs.append((folder, problem, packed))
            times = (at_ns, at_ns) if problem else times
            folders_met.append((folder, *times, packed))
            waiting.extend(folders)
    # It keeps no secret: two checksums are enough, and load faster than a hash does.
    sign = _sign(_encode(signs))
    felt = (sign, at_ns, roots, names, folders_met)
    return sign, _encode(felt) if is_told else b""


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
        for (folder, _, _, (names, known)), at, facts in list(_writings(before, paths)):
            known[at] = facts
            path = Path(os.fsdecode(b"%b/%b" % (folder, names[at])))
            files.append(Written(path, *facts))
        signed = [(folder, None, files) for folder, _, _, files in before.folders]
        sign = _sign(_encode(signed))
        now = _Felt(sign, at_ns, before.roots, before.names, before.folders)
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
) -> Iterator[tuple[_Met, int, _Facts]]:
    """Yield files that look different now: the folder, which of its files, how.

    Folders whose time is what it was are not listed again, which is half of the work.
    """
    known = {met[0] for met in before.folders}
    for met in before.folders:
        folder, mtime_ns, ctime_ns, (names, facts) = met
        if folder in before.roots:
            at = before.roots.index(folder)
            listed = _root_listed(paths[at], before.names[at], names, known)
            yield from _differing(met, [facts for _, facts in listed])
            continue
        # Whoever copies a folder may set its first time back, but not the second.
        is_recent = mtime_ns > before.at_ns - _SETTLED_NS
        if is_recent or _times(folder) != (mtime_ns, ctime_ns):
            raise _Unsure
        # There may be a hundred thousand files: none of this is done one by one.
        places = map((folder + b"/").__add__, names)
        now = list(map(_facts, map(os.lstat, places)))
        if now != facts:
            yield from _differing(met, now)


def _differing(met: _Met, now: list[_Facts]) -> Iterator[tuple[_Met, int, _Facts]]:
    for at, (old, new) in enumerate(zip(met[3][1], now, strict=True)):
        if old != new:
            yield met, at, new


def _root_listed(
    path: Path, listing: list[bytes], before: list[bytes], known: set[bytes]
) -> list[_Sign]:
    """Return the files of a home, where much comes and goes beside ours."""
    root = os.fsencode(path.absolute())
    files, folders, problem = _listed(root)
    if _names(files, folders) == listing:
        # The same of it count as then.
        files = [one for one in files if one[0] in before]
        folders = [one for one in folders if one in known]
    else:
        files, folders = _looked_at(path, files, folders)
    here = {one for one in known if one.rpartition(_SEP)[0] == root}
    files.sort()
    is_same = [name for name, _ in files] == before
    if problem is not None or {*folders} != here or not is_same:
        raise _Unsure
    return files


def _names(files: list[_Sign], folders: list[bytes]) -> list[bytes]:
    """Return what is in a folder: the names of files, and of folders with a sign."""
    below = [one.rpartition(_SEP)[2] + _SEP for one in folders]
    return sorted([*(name for name, _ in files), *below])


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
                files.append((child.name, _facts(child.stat(follow_symlinks=False))))
    except NotADirectoryError:
        found = os.stat(folder)  # noqa: PTH116 (no path in bytes has that)
        return [(b"", _facts(found))], [], None
    except OSError as error:
        return files, folders, error.errno
    return files, folders, None


def _looked_at(
    path: Path, files: list[_Sign], folders: list[bytes]
) -> tuple[list[_Sign], list[bytes]]:
    """Return what a walk looks at where it begins; of a home that is not everything."""
    # Whoever finds all as it was need not know what a home is.
    from bygones.sources.places import (  # noqa: PLC0415
        HOME_FOLDERS,
        HOME_HISTORY,
        Shelf,
        settle,
    )
    from bygones.sources.walk import place_of  # noqa: PLC0415

    named = {os.fsdecode(folder).rpartition(os.sep)[2]: folder for folder in folders}
    names = {*named, *(os.fsdecode(sign[0]) for sign in files)}
    if settle(place_of(path), path.name, names).shelf is not Shelf.HOME:
        return files, folders
    history = HOME_HISTORY.encode()
    return (
        [sign for sign in files if sign[0] == history],
        [folder for name, folder in named.items() if name in HOME_FOLDERS],
    )
