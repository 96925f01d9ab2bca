"""Opening databases: the one place that does, with the settings each one needs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from errno import EINVAL, ENOTSUP
from pathlib import Path
from typing import Any, TypeGuard

import apsw

from bygones.errors import (
    ArchiveDamaged,
    ArchiveEmpty,
    ArchiveForeign,
    ArchiveInUse,
    ArchiveMissing,
    ArchiveTooNew,
    BygonesError,
    NotADatabase,
    NotAFolder,
    SystemRefused,
)
from bygones.store.lock import is_held

__all__ = [
    "APPLICATION",
    "NO_ROOM",
    "begin_reading",
    "check_folder",
    "copy_to",
    "damage_in",
    "end_reading",
    "every",
    "first",
    "has_room",
    "is_damage",
    "is_refusal",
    "make_folder",
    "open_archive",
    "open_index",
    "opening_error",
    "reading_of",
    "refusal",
    "remove_database",
    "sync_folder",
    "translated",
    "version_of",
]

_REFUSALS = (
    apsw.CantOpenError,
    apsw.FullError,
    apsw.IOError,
    apsw.NoMemError,
    apsw.PermissionsError,
    apsw.ReadOnlyError,
)
_DAMAGES = (apsw.CorruptError, apsw.NotADBError, apsw.SQLError)
_WAIT_MS = 10_000
_WRITER_KB, _READER_KB = 16_000, 4_000
"""Kilobytes of a database that are remembered: readers are many in a server, and the
system remembers for them."""
APPLICATION = int.from_bytes(b"Rcll", "big")
"""What the header of an archive says, by which other files are told from it."""
_NEVER_SYNCED = frozenset({EINVAL, ENOTSUP})
_ROOM = 1 << 20
NO_ROOM = "no space left on the disk"
_LOGS = ("-journal", "-wal", "-shm")
_PRIVATE_FILE = 0o600
_PRIVATE_FOLDER = 0o700


def make_folder(path: Path) -> None:
    """Make a folder that only its owner can look into, with those above it."""
    for folder in (*reversed(path.parents), path):
        check_folder(folder)
        if not folder.exists():
            folder.mkdir(mode=_PRIVATE_FOLDER, exist_ok=True)


def sync_folder(path: Path) -> None:
    """Have the disk keep the names in a folder: a file's own sync is of its bytes.

    Where folders cannot be synced, or not by us, there is nothing more to be done.
    """
    if os.name == "nt":
        return
    try:
        handle = os.open(path, os.O_RDONLY)
    except PermissionError:
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _NEVER_SYNCED:
            raise
    finally:
        os.close(handle)


def check_folder(path: Path) -> None:
    """Refuse a path at which something other than a folder is."""
    if path.exists() and not path.is_dir():
        raise NotAFolder(path)


def open_archive(
    path: Path, *, write: bool, known: int | None = None
) -> apsw.Connection:
    """Open ``archive.db``; what is acknowledged there survives a power cut.

    One of a version above the ``known`` is refused before anything of it is touched.
    """
    if path.exists() and not path.stat().st_size:
        raise ArchiveEmpty(path)
    db = _open(path, write=write, known=known)
    if write:
        db.pragma("synchronous", "FULL")
        db.pragma("secure_delete", "ON")
    return db


def open_index(path: Path, *, write: bool) -> apsw.Connection:
    """Open ``index.db``, which must not fall behind the words beside it.

    Rows are committed before their words. If a power cut took rows back and left the
    words, the next rows would get the same numbers, and be found by words of others.
    """
    db = _open(path, write=write)
    if write:
        db.pragma("synchronous", "FULL")
    return db


def _open(path: Path, *, write: bool, known: int | None = None) -> apsw.Connection:
    if write:
        _create(path)
    elif not path.exists():
        check_folder(path.parent)
        raise ArchiveMissing(path.parent)
    try:
        db = _connect(path, write=write)
        db.set_busy_timeout(_WAIT_MS)
        if known is not None:
            _check_owner(db, path, known)
        if write:
            db.pragma("journal_mode", "WAL")
            db.pragma("wal_autocheckpoint", 4000)
        db.pragma("foreign_keys", "OFF")
        db.pragma("trusted_schema", "OFF")
        db.pragma("cache_size", -_WRITER_KB if write else -_READER_KB)
    except apsw.Error as error:
        raise opening_error(error, path) from error
    return db


def _check_owner(db: apsw.Connection, path: Path, known: int) -> None:
    """Refuse what is another program's, or a later version's, before it is touched."""
    mark, found = (
        int(str(db.pragma(name))) for name in ("application_id", "user_version")
    )
    if mark != APPLICATION:
        names = {row[0] for row in every(db, "SELECT name FROM sqlite_schema")}
        # The first version had no mark; and a file in which nothing is can become one.
        is_ours = {"identity", "chunk"} <= names if found == 1 else not (found or names)
        if mark or not is_ours:
            db.close()
            raise ArchiveForeign(path)
    if found > known:
        db.close()
        raise ArchiveTooNew(path, found=found, known=known)


def opening_error(error: apsw.Error, path: Path) -> BygonesError:
    """Return our error for one of the engine's, met when a database was opened."""
    # A sound archive on a medium that is full, or lets nobody write, is not damaged.
    if isinstance(error, _REFUSALS):
        return refusal(error, path)
    if isinstance(error, apsw.NotADBError):
        return NotADatabase(path, str(error))
    return ArchiveDamaged(path, str(error))


def refusal(error: Exception, path: Path) -> SystemRefused:
    """Return our error for a system that refused something to do with a path."""
    is_full = isinstance(error, apsw.FullError) or not has_room(path)
    return SystemRefused(f"{path}: {NO_ROOM if is_full else error}")


def has_room(path: Path, room: int = _ROOM) -> bool:
    """Whether the disk that a path is on, or would be on, has some room left.

    The engines do not always say why they could not write.
    """
    from shutil import disk_usage  # noqa: PLC0415 (hardly ever)

    for place in (path, *path.absolute().parents):
        try:
            return disk_usage(place).free >= room
        except OSError:
            continue
    return True


def _connect(path: Path, *, write: bool) -> apsw.Connection:
    """Open a file; where a reader cannot leave a note, as one that does not change.

    On a full disk, or one that lets nobody write, there is no place for what readers
    and writers share; nobody writes there either.
    """
    if write:
        return apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        # While the last writer closes, the log is being taken away for a moment.
        db.set_busy_timeout(_WAIT_MS)
        first(db, "SELECT 1 FROM sqlite_schema")
    except _REFUSALS:
        log = path.with_name(f"{path.name}-wal")
        is_logged = log.exists() and log.stat().st_size
        # The lock is in the archive's folder, and an index is two folders below it.
        if is_logged or any(is_held(folder) for folder in list(path.parents)[:3]):
            raise
        from urllib.parse import quote  # noqa: PLC0415 (hardly ever)

        fixed = f"file:{quote(str(path))}?immutable=1"
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        return apsw.Connection(fixed, flags=flags)
    return db


def begin_reading(db: apsw.Connection) -> None:
    """Have all that is read from now on be of this moment."""
    db.execute("BEGIN")
    # The moment is that of the first read.
    first(db, "SELECT 1 FROM sqlite_schema")


def end_reading(db: apsw.Connection) -> None:
    """Have what is read from now on be of its own moment."""
    try:
        if db.in_transaction:  # no more, where what was read is damaged
            db.execute("COMMIT")
    except _DAMAGES:
        if db.in_transaction:  # it is told once more, of what was read already
            db.execute("ROLLBACK")
    # Many are open in a server, and each remembers much: the system does so as well.
    db.release_memory()


def version_of(db: apsw.Connection) -> int:
    """Return a number that is another once somebody else has written to a database.

    It means nothing to any other connection.
    """
    return int(str(db.pragma("data_version")))


def is_damage(error: BaseException | None) -> bool:
    """Whether SQLite says with an error that what it read cannot be."""
    return isinstance(error, _DAMAGES)


def is_refusal(error: BaseException | None) -> TypeGuard[apsw.Error]:
    """Whether SQLite says with an error that the system refused something."""
    return isinstance(error, _REFUSALS)


def damage_in(db: apsw.Connection) -> str:
    """Return what SQLite finds wrong with a database first; nothing if it is sound."""
    try:
        row = first(db, "PRAGMA quick_check(1)")
    except apsw.Error as error:
        return str(error)
    # Its first line may only say which database was looked at.
    told = str(row[0]).strip().splitlines()[-1] if row else ""
    return "" if told == "ok" else told


@contextmanager
def reading_of(path: Path) -> Iterator[None]:
    """Turn what SQLite finds wrong while a database is read into our error."""
    try:
        yield
    except (*_DAMAGES, ValueError) as error:
        # A value that cannot be is damage too: text that is none, a kind unheard of,
        # a table or a column of another name than the one it was made with.
        raise ArchiveDamaged(path, str(error)) from error


def translated(error: Exception) -> BygonesError | None:
    """Return our error for one of the engine's; ``None`` if it is not one."""
    if is_damage(error):
        return ArchiveDamaged(Path("the archive"), str(error))
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return ArchiveInUse(Path("the archive"))
    if isinstance(error, apsw.FullError):
        return SystemRefused(NO_ROOM)
    return SystemRefused(str(error)) if isinstance(error, apsw.Error) else None


def _create(path: Path) -> None:
    """Make the file before SQLite does, so that it is never readable by others."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _PRIVATE_FILE)
    os.close(handle)


def remove_database(path: Path, *, only_logs: bool = False) -> None:
    """Remove a database that may be there, with its logs."""
    for suffix in (*_LOGS, *(() if only_logs else ("",))):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def copy_to(db: apsw.Connection, path: Path) -> None:
    """Write a consistent copy of a database, also while it is being written to."""
    _create(path)
    target = apsw.Connection(str(path))
    try:
        with target.backup("main", db, "main") as backup:
            backup.step()
        # A copy is one file: without a log it can be read from anywhere.
        target.pragma("journal_mode", "DELETE")
    except _REFUSALS as error:
        raise refusal(error, path) from error
    finally:
        target.close()


def every(db: apsw.Connection, sql: str, values: Sequence[Any] = ()) -> list[Any]:
    """Return all rows of a query, as what the caller knows them to be."""
    return db.execute(sql, values).fetchall()


def first(db: apsw.Connection, sql: str, values: Sequence[Any] = ()) -> Any:  # noqa: ANN401 (as above)
    """Return the first row of a query, or ``None``."""
    return db.execute(sql, values).fetchone()
