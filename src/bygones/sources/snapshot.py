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

__all__ = [
    "ModifiedFile",
    "ModifiedFiles",
    "is_unchanged",
    "modified_since",
    "scan_tree",
    "tree_checksum",
]

_encode = msgspec.msgpack.Encoder().encode
_stat_facts = attrgetter("st_size", "st_mtime_ns", "st_ctime_ns", "st_ino")
_StatFacts = tuple[int, int, int, int]
"""A file's size, times and place on the disk."""
_FileStat = tuple[bytes, _StatFacts]
"""A file's name, and how it looks."""
_DirFiles = tuple[list[bytes], list[_StatFacts]]
"""The names of files, and how each looks: apart, to be compared all at once."""
_DirSnapshot = tuple[bytes, int, int, _DirFiles]
"""A folder, its times, and its files."""
_SEP = os.sep.encode()
_MTIME_GRANULARITY_NS = 3_000_000_000
"""How old a folder's time must be to tell that nothing came or went since: clocks of
file systems tick as slowly as every two seconds."""


class TreeSnapshot(msgspec.Struct, array_like=True):
    """All that was felt, so that the next time only files need be looked at."""

    checksum: str
    taken_at_ns: int
    roots: list[bytes]
    root_entries: list[list[bytes]]
    """All that is in each root, and not only what is looked at."""
    dirs: list[_DirSnapshot]


def tree_checksum(paths: Iterable[Path]) -> str:
    """Return what changes when a file below the paths comes, goes or is written."""
    return scan_tree(paths)[0]


def scan_tree(paths: Iterable[Path]) -> tuple[str, bytes]:
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
            times = _dir_times(folder) if folder is not root else (0, 0)
            files, folders, problem = _list_dir(folder)
            if folder is root:
                names.append(_entry_names(files, folders))
                files, folders = _relevant_entries(path, files, folders)
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
    sign = _checksum(_encode(signs))
    felt = (sign, at_ns, roots, names, folders_met)
    return sign, _encode(felt) if is_told else b""


def _checksum(data: bytes) -> str:
    return f"{crc32(data):08x}{adler32(data):08x}{len(data):x}"


def is_unchanged(snapshot: bytes, checksum: str, paths: Sequence[Path]) -> bool:
    """Whether nothing moved since all was felt; ``False`` where that is not certain."""
    before = _load_snapshot(snapshot, checksum, paths)
    try:
        return before is not None and next(_iter_modified(before, paths), None) is None
    except (OSError, _MaybeChanged):
        return False


class ModifiedFile(msgspec.Struct, frozen=True):
    """A file that was written, as it is now."""

    path: Path
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int


class ModifiedFiles(msgspec.Struct, frozen=True):
    """Files that were written since all was felt; nothing came or went."""

    files: list[ModifiedFile]
    checksum: str
    snapshot: bytes
    """All that is felt now."""


def modified_since(
    snapshot: bytes, checksum: str, paths: Sequence[Path]
) -> ModifiedFiles | None:
    """Return what was written since all was felt; ``None`` if more may have moved."""
    at_ns = time.time_ns()
    before = _load_snapshot(snapshot, checksum, paths)
    if before is None:
        return None
    files: list[ModifiedFile] = []
    try:
        for (folder, _, _, (names, known)), at, facts in list(
            _iter_modified(before, paths)
        ):
            known[at] = facts
            path = Path(os.fsdecode(b"%b/%b" % (folder, names[at])))
            files.append(ModifiedFile(path, *facts))
        signed = [(folder, None, files) for folder, _, _, files in before.dirs]
        checksum = _checksum(_encode(signed))
        now = TreeSnapshot(
            checksum, at_ns, before.roots, before.root_entries, before.dirs
        )
        return ModifiedFiles(files, checksum, _encode(now))
    except (OSError, OverflowError, _MaybeChanged):
        return None


def _load_snapshot(
    snapshot: bytes, checksum: str, paths: Sequence[Path]
) -> TreeSnapshot | None:
    """Return what was felt, if it was of these paths and has this sign."""
    try:
        before = msgspec.msgpack.decode(snapshot, type=TreeSnapshot)
    except msgspec.MsgspecError:
        return None
    roots = [os.fsencode(path.absolute()) for path in paths]
    return before if before.checksum == checksum and before.roots == roots else None


class _MaybeChanged(Exception):
    """Something came or went, or may have."""


def _iter_modified(
    before: TreeSnapshot, paths: Sequence[Path]
) -> Iterator[tuple[_DirSnapshot, int, _StatFacts]]:
    """Yield files that look different now: the folder, which of its files, how.

    Folders whose time is what it was are not listed again, which is half of the work.
    """
    known = {met[0] for met in before.dirs}
    for met in before.dirs:
        folder, mtime_ns, ctime_ns, (names, facts) = met
        if folder in before.roots:
            at = before.roots.index(folder)
            listed = _list_root(paths[at], before.root_entries[at], names, known)
            yield from _iter_differences(met, [facts for _, facts in listed])
            continue
        # Whoever copies a folder may set its first time back, but not the second.
        is_recent = mtime_ns > before.taken_at_ns - _MTIME_GRANULARITY_NS
        if is_recent or _dir_times(folder) != (mtime_ns, ctime_ns):
            raise _MaybeChanged
        # There may be a hundred thousand files: none of this is done one by one.
        places = map((folder + b"/").__add__, names)
        now = list(map(_stat_facts, map(os.lstat, places)))
        if now != facts:
            yield from _iter_differences(met, now)


def _iter_differences(
    directory: _DirSnapshot, now: list[_StatFacts]
) -> Iterator[tuple[_DirSnapshot, int, _StatFacts]]:
    for at, (old, new) in enumerate(zip(directory[3][1], now, strict=True)):
        if old != new:
            yield directory, at, new


def _list_root(
    path: Path,
    previous_entries: list[bytes],
    previous_files: list[bytes],
    known_dirs: set[bytes],
) -> list[_FileStat]:
    """Return the files of a home, where much comes and goes beside ours."""
    root = os.fsencode(path.absolute())
    files, folders, problem = _list_dir(root)
    if _entry_names(files, folders) == previous_entries:
        # The same of it count as then.
        files = [one for one in files if one[0] in previous_files]
        folders = [one for one in folders if one in known_dirs]
    else:
        files, folders = _relevant_entries(path, files, folders)
    here = {one for one in known_dirs if one.rpartition(_SEP)[0] == root}
    files.sort()
    is_same = [name for name, _ in files] == previous_files
    if problem is not None or {*folders} != here or not is_same:
        raise _MaybeChanged
    return files


def _entry_names(files: list[_FileStat], folders: list[bytes]) -> list[bytes]:
    """Return what is in a folder: the names of files, and of folders with a sign."""
    below = [one.rpartition(_SEP)[2] + _SEP for one in folders]
    return sorted([*(name for name, _ in files), *below])


def _dir_times(folder: bytes) -> tuple[int, int]:
    try:
        found = os.stat(folder)  # noqa: PTH116 (no path in bytes has that)
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_ctime_ns


def _list_dir(folder: bytes) -> tuple[list[_FileStat], list[bytes], int | None]:
    """Return the files and the folders in a folder, and what stopped us."""
    files: list[_FileStat] = []
    folders: list[bytes] = []
    try:
        with os.scandir(folder) as listing:
            for child in listing:
                if child.is_dir(follow_symlinks=False):
                    folders.append(child.path)
                    continue
                files.append(
                    (child.name, _stat_facts(child.stat(follow_symlinks=False)))
                )
    except NotADirectoryError:
        found = os.stat(folder)  # noqa: PTH116 (no path in bytes has that)
        return [(b"", _stat_facts(found))], [], None
    except OSError as error:
        return files, folders, error.errno
    return files, folders, None


def _relevant_entries(
    path: Path, files: list[_FileStat], folders: list[bytes]
) -> tuple[list[_FileStat], list[bytes]]:
    """Return what a walk looks at where it begins; of a home that is not everything."""
    # Whoever finds all as it was need not know what a home is.
    from bygones.sources.layout import (
        HISTORY_FILE,
        HOME_SOURCE_DIRS,
        DirKind,
        detect_home,
    )
    from bygones.sources.walk import locate_dir

    named = {os.fsdecode(folder).rpartition(os.sep)[2]: folder for folder in folders}
    names = {*named, *(os.fsdecode(sign[0]) for sign in files)}
    if detect_home(locate_dir(path), path.name, names).dir_kind is not DirKind.HOME:
        return files, folders
    history = HISTORY_FILE.encode()
    return (
        [sign for sign in files if sign[0] == history],
        [folder for name, folder in named.items() if name in HOME_SOURCE_DIRS],
    )
