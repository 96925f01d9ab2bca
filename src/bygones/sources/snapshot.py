"""Detects that nothing changed below a home since the last ingest, without a walk.

A snapshot contains the stat data of all files that a walk could find, or more. If it
still matches, another walk would find the same as the last one. No file is opened.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from zlib import adler32, crc32

import msgspec

_encode = msgspec.msgpack.Encoder().encode
_stat_facts = attrgetter("st_size", "st_mtime_ns", "st_ctime_ns", "st_ino")
_StatFacts = tuple[int, int, int, int]
"""Size, mtime, ctime and inode of a file."""
_FileStat = tuple[bytes, _StatFacts]
"""Name and stat data of a file."""
_DirFiles = tuple[list[bytes], list[_StatFacts]]
"""Names and stat data of files, in two lists that can be compared at once."""
_DirSnapshot = tuple[bytes, int, int, _DirFiles]
"""Path, mtime and ctime of a folder, and its files."""
_SEP = os.sep.encode()
_MTIME_GRANULARITY_NS = 3_000_000_000
"""Some file systems store times with a granularity of two seconds. A folder that was
modified less than this before the snapshot may have changed since without a new mtime."""


class TreeSnapshot(msgspec.Struct, array_like=True):
    """Stat data of all files, so that the next check does not list the folders."""

    checksum: str
    taken_at_ns: int
    roots: list[bytes]
    root_entries: list[list[bytes]]
    """Names of all entries of each root, including ignored ones."""
    dirs: list[_DirSnapshot]


def scan_tree(paths: Iterable[Path]) -> tuple[str, bytes]:
    """Return a checksum of all stat data below the paths, and the encoded snapshot.

    The checksum changes when a file is created, removed or written. The snapshot is
    empty if the tree cannot be encoded; then the next check scans again.
    """
    taken_at_ns = time.time_ns()
    checksummed: list[object] = []
    roots: list[bytes] = []
    root_entries: list[list[bytes]] = []
    dirs: list[tuple[bytes, int, int, msgspec.Raw]] = []
    is_encodable = True
    for path in paths:
        # Names as bytes: they need not be valid text, and it is faster.
        root = os.fsencode(path.absolute())
        roots.append(root)
        pending = [root]
        while pending:
            folder = pending.pop()
            # Before listing: a file that is added in between then changes the time.
            times = _dir_times(folder) if folder is not root else (0, 0)
            files, folders, problem = _list_dir(folder)
            if folder is root:
                root_entries.append(_entry_names(files, folders))
                files, folders = _relevant_entries(path, files, folders)
            # The order of a listing depends on the file system.
            files.sort()
            folders.sort()
            # Encoded once for both uses: there may be a hundred thousand files.
            columns = [name for name, _ in files], [facts for _, facts in files]
            try:
                packed = msgspec.Raw(_encode(columns))
            except OverflowError:
                # A timestamp that needs more than 64 bits.
                packed, is_encodable = msgspec.Raw(_encode(repr(columns))), False
            checksummed.append((folder, problem, packed))
            times = (taken_at_ns, taken_at_ns) if problem else times
            dirs.append((folder, *times, packed))
            pending.extend(folders)
    checksum = _checksum(_encode(checksummed))
    # The fields of a TreeSnapshot in order.
    snapshot = (checksum, taken_at_ns, roots, root_entries, dirs)
    return checksum, _encode(snapshot) if is_encodable else b""


def _checksum(data: bytes) -> str:
    # Not a security measure: two checksums are enough, and need no import of hashlib.
    return f"{crc32(data):08x}{adler32(data):08x}{len(data):x}"


def is_unchanged(snapshot: bytes, checksum: str, paths: Sequence[Path]) -> bool:
    """Whether nothing changed since the snapshot; `False` if that is not certain."""
    previous = _load_snapshot(snapshot, checksum, paths)
    if previous is None:
        return False
    try:
        return next(_iter_modified(previous, paths), None) is None
    except (OSError, _MaybeChanged):
        return False


class ModifiedFile(msgspec.Struct, frozen=True):
    """A file that was written, with its current stat data."""

    path: Path
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int


class ModifiedFiles(msgspec.Struct, frozen=True):
    """The files written since a snapshot, if no file was added or removed."""

    files: list[ModifiedFile]
    checksum: str
    snapshot: bytes
    """The current snapshot."""


def modified_since(
    snapshot: bytes, checksum: str, paths: Sequence[Path]
) -> ModifiedFiles | None:
    """Return the files written since the snapshot; `None` if more may have changed."""
    taken_at_ns = time.time_ns()
    previous = _load_snapshot(snapshot, checksum, paths)
    if previous is None:
        return None
    modified: list[ModifiedFile] = []
    try:
        for (folder, _, _, (names, known_facts)), index, facts in list(
            _iter_modified(previous, paths)
        ):
            known_facts[index] = facts
            path = Path(os.fsdecode(b"%b/%b" % (folder, names[index])))
            modified.append(ModifiedFile(path, *facts))
        checksummed = [(folder, None, files) for folder, _, _, files in previous.dirs]
        checksum = _checksum(_encode(checksummed))
        current = TreeSnapshot(
            checksum, taken_at_ns, previous.roots, previous.root_entries, previous.dirs
        )
        return ModifiedFiles(modified, checksum, _encode(current))
    except (OSError, OverflowError, _MaybeChanged):
        return None


def _load_snapshot(
    snapshot: bytes, checksum: str, paths: Sequence[Path]
) -> TreeSnapshot | None:
    """Decode a snapshot if it is of these paths and has this checksum."""
    try:
        previous = msgspec.msgpack.decode(snapshot, type=TreeSnapshot)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    roots = [os.fsencode(path.absolute()) for path in paths]
    is_valid = previous.checksum == checksum and previous.roots == roots
    return previous if is_valid else None


class _MaybeChanged(Exception):
    """A file was added or removed, or may have been."""


def _iter_modified(
    previous: TreeSnapshot, paths: Sequence[Path]
) -> Iterator[tuple[_DirSnapshot, int, _StatFacts]]:
    """Yield the modified files: folder, index of the file in it, new stat data.

    Folders with unchanged times are not listed again, which saves half of the work.
    """
    known_dirs = {directory[0] for directory in previous.dirs}
    for directory in previous.dirs:
        folder, mtime_ns, ctime_ns, (names, facts) = directory
        if folder in previous.roots:
            index = previous.roots.index(folder)
            entries = previous.root_entries[index]
            files = _list_root(paths[index], entries, names, known_dirs)
            yield from _iter_differences(directory, [facts for _, facts in files])
            continue
        # Copying a folder may set its mtime back, but never its ctime.
        is_recent = mtime_ns > previous.taken_at_ns - _MTIME_GRANULARITY_NS
        if is_recent or _dir_times(folder) != (mtime_ns, ctime_ns):
            raise _MaybeChanged
        # No Python loop: there may be a hundred thousand files.
        file_paths = map((folder + b"/").__add__, names)
        current = list(map(_stat_facts, map(os.lstat, file_paths)))
        if current != facts:
            yield from _iter_differences(directory, current)


def _iter_differences(
    directory: _DirSnapshot, current: list[_StatFacts]
) -> Iterator[tuple[_DirSnapshot, int, _StatFacts]]:
    for index, (old, new) in enumerate(zip(directory[3][1], current, strict=True)):
        if old != new:
            yield directory, index, new


def _list_root(
    path: Path,
    previous_entries: list[bytes],
    previous_files: list[bytes],
    known_dirs: set[bytes],
) -> list[_FileStat]:
    """Return the files of a home, in which other files come and go all the time."""
    root = os.fsencode(path.absolute())
    files, folders, problem = _list_dir(root)
    if _entry_names(files, folders) == previous_entries:
        files = [file for file in files if file[0] in previous_files]
        folders = [folder for folder in folders if folder in known_dirs]
    else:
        files, folders = _relevant_entries(path, files, folders)
    known_subdirs = {path for path in known_dirs if path.rpartition(_SEP)[0] == root}
    files.sort()
    is_same = [name for name, _ in files] == previous_files
    if problem is not None or {*folders} != known_subdirs or not is_same:
        raise _MaybeChanged
    return files


def _entry_names(files: list[_FileStat], folders: list[bytes]) -> list[bytes]:
    """Return the names in a folder; those of folders end with a separator."""
    subdirs = [folder.rpartition(_SEP)[2] + _SEP for folder in folders]
    return sorted([*(name for name, _ in files), *subdirs])


def _dir_times(folder: bytes) -> tuple[int, int]:
    try:
        status = os.stat(folder)  # noqa: PTH116 (the path is bytes)
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_ctime_ns


def _list_dir(folder: bytes) -> tuple[list[_FileStat], list[bytes], int | None]:
    """Return the files and folders in a folder, and the errno of a failure."""
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
        status = os.stat(folder)  # noqa: PTH116 (the path is bytes)
        return [(b"", _stat_facts(status))], [], None
    except OSError as error:
        return files, folders, error.errno
    return files, folders, None


def _relevant_entries(
    path: Path, files: list[_FileStat], folders: list[bytes]
) -> tuple[list[_FileStat], list[bytes]]:
    """Return the entries of a root that a walk looks at; in a home not all of them."""
    # Not needed if the entries are the same as before.
    from bygones.sources.layout import (
        HISTORY_FILE,
        HOME_SOURCE_DIRS,
        DirKind,
        detect_home,
    )
    from bygones.sources.walk import locate_dir

    by_name = {os.fsdecode(folder).rpartition(os.sep)[2]: folder for folder in folders}
    names = {*by_name, *(os.fsdecode(name) for name, _ in files)}
    if detect_home(locate_dir(path), path.name, names).dir_kind is not DirKind.HOME:
        return files, folders
    history = HISTORY_FILE.encode()
    return (
        [file for file in files if file[0] == history],
        [folder for name, folder in by_name.items() if name in HOME_SOURCE_DIRS],
    )
