"""Detects index files that something else changed since the last writer closed them.

The writer leaves a seal: the size and times of every file. A reader compares them,
which takes one call per file. Files of the text index contain checksums, which are
compared if a file looks different or if there is no seal, as in a copy of the folder:
once per process, as long as the file looks the same.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from zlib import crc32

import msgspec
from msgspec import Struct

from bygones.errors import SystemFailure
from bygones.model.base import DECODE_ERRORS
from bygones.store.connect import fsync_folder

SEAL_FILE = "seal"
_DATABASE_FILES = ("index.db", "index.db-wal")
_TEXT_FOLDERS = ("text", "text/blocks")
_META_FILE = "meta.json"
_SEGMENT_SUFFIXES = ("idx", "pos", "term", "store", "fast", "fieldnorm")
_FOOTER_END_BYTES = 8
_FOOTER_MAGIC = 1337
_MAX_FOOTER_BYTES = 4096
_CRC_FIELD = re.compile(rb'"crc":(\d+)\}$')
_READ_BYTES = 1 << 20
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
_TIME_STEPS = (100, 1_000, 1_000_000, 10_000_000, 1_000_000_000, 2_000_000_000)
"""Nanoseconds to which file systems round times, at the latest when they are mounted."""


class FileState(Struct, frozen=True, array_like=True):
    """What a file looks like without reading it."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    checksum: int = 0
    """The checksum of a file that has none itself."""

    def is_same_file(self, other: FileState) -> bool:
        return (self.device, self.inode) == (other.device, other.inode)

    def has_same_content(self, now: FileState) -> bool:
        """Whether size and modification time are the same, as far as they are stored."""
        return self.size == now.size and (
            self.mtime_ns == now.mtime_ns
            or any(
                now.mtime_ns % step == 0 and abs(self.mtime_ns - now.mtime_ns) < step
                for step in _TIME_STEPS
            )
        )


_sound_files: dict[str, FileState] = {}
"""Files whose checksum matched, and how they looked before it was computed."""
_MAX_SOUND_FILES = 10_000


class _Seal(Struct):
    files: dict[str, FileState] = {}
    damage: str = ""
    """What a reader found wrong; the next writer builds a new index."""


def write_seal(index_path: Path) -> None:
    """Record the state of all files, after the last change."""
    names = [*_DATABASE_FILES, *_list_text_files(index_path)]
    files = {name: _file_state(str(index_path / name)) for name in names}
    _save(index_path, _Seal({name: state for name, state in files.items() if state}))


def remove_seal(index_path: Path) -> None:
    """Remove the seal before the first change."""
    path = index_path / SEAL_FILE
    try:
        path.unlink()
        fsync_folder(index_path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise SystemFailure(f"{path}: {error.strerror or error}") from error


def mark_damaged(index_path: Path, reason: str) -> None:
    """Let everyone who opens the index know that it is damaged."""
    with suppress(OSError):
        _save(index_path, _Seal(damage=reason))


def has_text_index(index_path: Path) -> bool:
    """Whether the folder of an index has a text index."""
    folders = (index_path / folder for folder in _TEXT_FOLDERS)
    return all((folder / _META_FILE).exists() for folder in folders)


def find_damage(index_path: Path) -> str:
    """Return what is wrong with the files of an index that no process writes; or ""."""
    before = _read_seal(index_path)
    seal = _decode(before)
    reason = _compare_with_seal(index_path, seal) if seal else ""
    if not seal:
        reason = next(find_damaged_files(index_path, _check_file_once), "")
    # A writer may have started meanwhile, or replaced the index.
    return reason if _read_seal(index_path) == before and index_path.exists() else ""


def find_damaged_files(
    index_path: Path, check: Callable[[Path], str] | None = None
) -> Iterator[str]:
    """Yield what is wrong with the files of the text index, by their checksums."""
    for folder in _TEXT_FOLDERS:
        try:
            raw = (index_path / folder / _META_FILE).read_bytes()
            names = list(_list_segment_files(raw))
        except FileNotFoundError:
            continue  # nothing was indexed yet
        except (OSError, ValueError, KeyError, TypeError) as error:
            _raise_if_exhausted(error)
            yield f"{folder}/{_META_FILE} cannot be read"
            continue
        for name in names:
            if reason := (check or _check_file)(index_path / folder / name):
                yield f"{folder}/{name} {reason}"


def _compare_with_seal(index_path: Path, seal: _Seal) -> str:
    if seal.damage:
        return seal.damage
    folder = f"{index_path}{os.sep}"
    for name, sealed in seal.files.items():
        path = f"{folder}{name}"
        now = _file_state(path)
        if now is None:
            return f"{name} is missing"
        if now == sealed:
            continue
        if name in _DATABASE_FILES:
            # A copy of the folder consists of other files.
            if sealed.is_same_file(now) and not sealed.has_same_content(now):
                return f"{name} was changed by another program"
        elif sealed.checksum:
            if sealed.checksum != now.checksum:
                return f"{name} has a different checksum"
        elif reason := _check_unless_sound(path, now):
            return f"{name} {reason}"
    return ""


def _check_file_once(path: Path) -> str:
    """Check a file unless it was checked before and looks the same."""
    state = _file_state(str(path))
    return _check_unless_sound(str(path), state) if state else _check_file(path)


def _check_unless_sound(path: str, state: FileState) -> str:
    if _sound_files.get(path) == state:
        return ""
    reason = _check_file(Path(path))
    if not reason:
        if len(_sound_files) >= _MAX_SOUND_FILES:
            _sound_files.clear()
        _sound_files[path] = state
    return reason


def _list_text_files(index_path: Path) -> Iterator[str]:
    for folder in _TEXT_FOLDERS:
        with suppress(OSError, ValueError, KeyError, TypeError):
            raw = (index_path / folder / _META_FILE).read_bytes()
            yield f"{folder}/{_META_FILE}"
            for name in _list_segment_files(raw):
                yield f"{folder}/{name}"


def _list_segment_files(meta: bytes) -> Iterator[str]:
    """Yield the names of all files that the metadata of a text index refers to."""
    for segment in msgspec.json.decode(meta)["segments"]:
        stem = str(segment["segment_id"]).replace("-", "")
        for suffix in _SEGMENT_SUFFIXES:
            yield f"{stem}.{suffix}"
        if segment["deletes"]:
            yield f"{stem}.{int(segment['deletes']['opstamp'])}.del"


def _file_state(path: str) -> FileState | None:
    """Return the state of a file; every request asks for all, so without `Path`."""
    try:
        status = os.stat(path)  # noqa: PTH116
        is_meta = path.endswith(_META_FILE)
        checksum = crc32(Path(path).read_bytes()) if is_meta else 0
    except OSError as error:
        _raise_if_exhausted(error)
        return None
    return FileState(
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
        checksum,
    )


def _check_file(path: Path) -> str:
    """Compare a file of the text index with the checksum at its end.

    The end is: the checksum as JSON, the length of the JSON, and a fixed number.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(size - _MAX_FOOTER_BYTES, 0))
            end = file.read()
            length = int.from_bytes(end[-8:-4], "little")
            magic = int.from_bytes(end[-4:], "little")
            footer_bytes = length + _FOOTER_END_BYTES
            found = _CRC_FIELD.search(end[-footer_bytes:-_FOOTER_END_BYTES])
            if magic != _FOOTER_MAGIC or footer_bytes > len(end) or not found:
                return "has no checksum"
            file.seek(0)
            checksum, left = 0, size - footer_bytes
            while left:
                raw = file.read(min(left, _READ_BYTES))
                if not raw:
                    break
                checksum = crc32(raw, checksum)
                left -= len(raw)
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        _raise_if_exhausted(error)
        return f"cannot be read: {error.strerror}"
    return "" if checksum == int(found[1]) else "has a different checksum"


def _raise_if_exhausted(error: Exception) -> None:
    """Raise `SystemFailure` if a file is sound but cannot be opened now."""
    if isinstance(error, OSError) and error.errno in _EXHAUSTED:
        raise SystemFailure(f"{error.filename}: {error.strerror}") from error


def _read_seal(index_path: Path) -> bytes:
    try:
        return (index_path / SEAL_FILE).read_bytes()
    except OSError:
        return b""


@lru_cache(maxsize=4)
def _decode(raw: bytes) -> _Seal | None:
    try:
        return msgspec.json.decode(raw, type=_Seal) if raw else None
    except DECODE_ERRORS:
        return None


def _save(index_path: Path, seal: _Seal) -> None:
    path = index_path / f"{SEAL_FILE}.{os.getpid()}"
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(msgspec.json.encode(seal))
    path.replace(index_path / SEAL_FILE)
