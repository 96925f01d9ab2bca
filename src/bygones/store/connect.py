"""One writer: a lock that the operating system lets go when the process ends."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from errno import EINVAL, ENOTSUP, EPERM
from pathlib import Path
from typing import Any, TypeGuard

import apsw

from bygones.errors import (
    ArchiveDamaged,
    ArchiveEmpty,
    ArchiveInUse,
    ArchiveNotAFolder,
    ArchiveNotFound,
    ArchiveNotOwned,
    ArchiveTooNew,
    BygonesError,
    NotADatabase,
    SystemFailure,
)

if sys.platform == "win32":  # pragma: no cover
    import msvcrt
else:
    import fcntl


LOCK_FILE = "writer.lock"
_LOCK_RETRY_SECONDS = 0.05


@contextmanager
def writer_lock(folder: Path, *, timeout: float = 5.0) -> Iterator[None]:
    """Hold the writer's lock of an archive; wait briefly if another has it.

    :raises PermissionError: if the folder is another user's.
    """
    _check_folder_owner(folder)
    path = folder / LOCK_FILE
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _acquire(handle, folder, timeout)
        yield
    finally:
        os.close(handle)


def is_locked(folder: Path) -> bool:
    """Whether somebody writes to an archive at this moment, as far as can be seen."""
    try:
        handle = os.open(folder / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not try_lock(handle)
    finally:
        os.close(handle)


def _check_folder_owner(folder: Path) -> None:
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


def _acquire(handle: int, folder: Path, timeout: float) -> None:
    until = time.monotonic() + timeout
    while not try_lock(handle):
        if time.monotonic() >= until:
            raise ArchiveInUse(folder)
        time.sleep(_LOCK_RETRY_SECONDS)


def lock_file(handle: int) -> None:
    """Hold an open file until it is closed, where the system knows how to."""
    if sys.platform != "win32":
        with suppress(OSError):  # not every file system does
            fcntl.flock(handle, fcntl.LOCK_EX)


def try_lock(handle: int) -> bool:
    """Whether nobody else holds an open file; then it is held from now on."""
    try:
        if sys.platform == "win32":  # pragma: no cover
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


_SYSTEM_ERRORS = (
    apsw.CantOpenError,
    apsw.FullError,
    apsw.IOError,
    apsw.NoMemError,
    apsw.PermissionsError,
    apsw.ReadOnlyError,
)
_CORRUPTION_ERRORS = (apsw.CorruptError, apsw.NotADBError, apsw.SQLError)
_BUSY_TIMEOUT_MS = 10_000
_WRITER_CACHE_KB, _READER_CACHE_KB = 16_000, 4_000
"""Kilobytes of a database that are remembered: readers are many in a server, and the
system remembers for them."""
APPLICATION_ID = int.from_bytes(b"Rcll", "big")
"""What the header of an archive says, by which other files are told from it."""
_FSYNC_UNSUPPORTED = frozenset({EINVAL, ENOTSUP})
_MIN_FREE_BYTES = 1 << 20
DISK_FULL = "no space left on the disk"
_JOURNAL_SUFFIXES = ("-journal", "-wal", "-shm")
_PRIVATE_FILE_MODE = 0o600
_PRIVATE_FOLDER_MODE = 0o700


def make_private_folder(path: Path) -> None:
    """Make a folder that only its owner can look into, with those above it."""
    for folder in (*reversed(path.parents), path):
        check_is_folder(folder)
        if not folder.exists():
            folder.mkdir(mode=_PRIVATE_FOLDER_MODE, exist_ok=True)


def fsync_folder(path: Path) -> None:
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
        if error.errno not in _FSYNC_UNSUPPORTED:
            raise
    finally:
        os.close(handle)


def check_is_folder(path: Path) -> None:
    """Refuse a path at which something other than a folder is."""
    if path.exists() and not path.is_dir():
        raise ArchiveNotAFolder(path)


def open_archive_db(
    path: Path, *, write: bool, latest_version: int | None = None
) -> apsw.Connection:
    """Open ``archive.db``; what is acknowledged there survives a power cut.

    One of a version above the ``known`` is refused before anything of it is touched.
    """
    if path.exists() and not path.stat().st_size:
        raise ArchiveEmpty(path)
    db = _open(path, write=write, latest_version=latest_version)
    if write:
        db.pragma("synchronous", "FULL")
        db.pragma("secure_delete", "ON")
    return db


def open_index_db(path: Path, *, write: bool) -> apsw.Connection:
    """Open ``index.db``, which must not fall behind the words beside it.

    Rows are committed before their words. If a power cut took rows back and left the
    words, the next rows would get the same numbers, and be found by words of others.
    """
    db = _open(path, write=write)
    if write:
        db.pragma("synchronous", "FULL")
    return db


def _open(
    path: Path, *, write: bool, latest_version: int | None = None
) -> apsw.Connection:
    if write:
        _create_private_file(path)
    elif not path.exists():
        check_is_folder(path.parent)
        raise ArchiveNotFound(path.parent)
    try:
        db = _connect(path, write=write)
        db.set_busy_timeout(_BUSY_TIMEOUT_MS)
        if latest_version is not None:
            _check_application(db, path, latest_version)
        if write:
            db.pragma("journal_mode", "WAL")
            db.pragma("wal_autocheckpoint", 4000)
        db.pragma("foreign_keys", "OFF")
        db.pragma("trusted_schema", "OFF")
        db.pragma("cache_size", -_WRITER_CACHE_KB if write else -_READER_CACHE_KB)
    except apsw.Error as error:
        raise error_on_open(error, path) from error
    return db


def _check_application(db: apsw.Connection, path: Path, latest_version: int) -> None:
    """Refuse what is another program's, or a later version's, before it is touched."""
    mark, found = (
        int(str(db.pragma(name))) for name in ("application_id", "user_version")
    )
    if mark != APPLICATION_ID:
        names = {row[0] for row in fetch_all(db, "SELECT name FROM sqlite_schema")}
        # The first version had no mark; and a file in which nothing is can become one.
        is_ours = {"identity", "chunk"} <= names if found == 1 else not (found or names)
        if mark or not is_ours:
            db.close()
            raise ArchiveNotOwned(path)
    if found > latest_version:
        db.close()
        raise ArchiveTooNew(path, found_version=found, supported_version=latest_version)


def error_on_open(error: apsw.Error, path: Path) -> BygonesError:
    """Return our error for one of the engine's, met when a database was opened."""
    # A sound archive on a medium that is full, or lets nobody write, is not damaged.
    if isinstance(error, _SYSTEM_ERRORS):
        return system_failure(error, path)
    if isinstance(error, apsw.NotADBError):
        return NotADatabase(path, str(error))
    return ArchiveDamaged(path, str(error))


def system_failure(error: Exception, path: Path) -> SystemFailure:
    """Return our error for a system that refused something to do with a path."""
    is_full = isinstance(error, apsw.FullError) or not has_free_space(path)
    return SystemFailure(f"{path}: {DISK_FULL if is_full else error}")


def has_free_space(path: Path, min_bytes: int = _MIN_FREE_BYTES) -> bool:
    """Whether the disk that a path is on, or would be on, has some room left.

    The engines do not always say why they could not write.
    """
    from shutil import disk_usage

    for place in (path, *path.absolute().parents):
        try:
            return disk_usage(place).free >= min_bytes
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
        db.set_busy_timeout(_BUSY_TIMEOUT_MS)
        fetch_one(db, "SELECT 1 FROM sqlite_schema")
    except _SYSTEM_ERRORS:
        log = path.with_name(f"{path.name}-wal")
        is_logged = log.exists() and log.stat().st_size
        # The lock is in the archive's folder, and an index is two folders below it.
        if is_logged or any(is_locked(folder) for folder in list(path.parents)[:3]):
            raise
        from urllib.parse import quote

        fixed = f"file:{quote(str(path))}?immutable=1"
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        return apsw.Connection(fixed, flags=flags)
    return db


def begin_read(db: apsw.Connection) -> None:
    """Have all that is read from now on be of this moment."""
    db.execute("BEGIN")
    # The moment is that of the first read.
    fetch_one(db, "SELECT 1 FROM sqlite_schema")


def end_read(db: apsw.Connection) -> None:
    """Have what is read from now on be of its own moment."""
    try:
        if db.in_transaction:  # no more, where what was read is damaged
            db.execute("COMMIT")
    except _CORRUPTION_ERRORS:
        if db.in_transaction:  # it is told once more, of what was read already
            db.execute("ROLLBACK")
    # Many are open in a server, and each remembers much: the system does so as well.
    db.release_memory()


def get_data_version(db: apsw.Connection) -> int:
    """Return a number that is another once somebody else has written to a database.

    It means nothing to any other connection.
    """
    return int(str(db.pragma("data_version")))


def is_corruption(error: BaseException | None) -> bool:
    """Whether SQLite says with an error that what it read cannot be."""
    return isinstance(error, _CORRUPTION_ERRORS)


def is_system_error(error: BaseException | None) -> TypeGuard[apsw.Error]:
    """Whether SQLite says with an error that the system refused something."""
    return isinstance(error, _SYSTEM_ERRORS)


def find_corruption(db: apsw.Connection) -> str:
    """Return what SQLite finds wrong with a database first; nothing if it is sound."""
    try:
        row = fetch_one(db, "PRAGMA quick_check(1)")
    except apsw.Error as error:
        return str(error)
    # Its first line may only say which database was looked at.
    told = str(row[0]).strip().splitlines()[-1] if row else ""
    return "" if told == "ok" else told


@contextmanager
def translate_read_errors(path: Path) -> Iterator[None]:
    """Turn what SQLite finds wrong while a database is read into our error."""
    try:
        yield
    except (*_CORRUPTION_ERRORS, ValueError) as error:
        # A value that cannot be is damage too: text that is none, a kind unheard of,
        # a table or a column of another name than the one it was made with.
        raise ArchiveDamaged(path, str(error)) from error


def translate_error(error: Exception) -> BygonesError | None:
    """Return our error for one of the engine's; ``None`` if it is not one."""
    if is_corruption(error):
        return ArchiveDamaged(Path("the archive"), str(error))
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return ArchiveInUse(Path("the archive"))
    if isinstance(error, apsw.FullError):
        return SystemFailure(DISK_FULL)
    return SystemFailure(str(error)) if isinstance(error, apsw.Error) else None


def _create_private_file(path: Path) -> None:
    """Make the file before SQLite does, so that it is never readable by others."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _PRIVATE_FILE_MODE)
    os.close(handle)


def remove_database(path: Path, *, only_journals: bool = False) -> None:
    """Remove a database that may be there, with its logs."""
    for suffix in (*_JOURNAL_SUFFIXES, *(() if only_journals else ("",))):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def copy_database(db: apsw.Connection, path: Path) -> None:
    """Write a consistent copy of a database, also while it is being written to."""
    _create_private_file(path)
    target = apsw.Connection(str(path))
    try:
        with target.backup("main", db, "main") as backup:
            backup.step()
        # A copy is one file: without a log it can be read from anywhere.
        target.pragma("journal_mode", "DELETE")
    except _SYSTEM_ERRORS as error:
        raise system_failure(error, path) from error
    finally:
        target.close()


def fetch_all(db: apsw.Connection, sql: str, values: Sequence[Any] = ()) -> list[Any]:
    """Return all rows of a query, as what the caller knows them to be."""
    return db.execute(sql, values).fetchall()


def fetch_one(db: apsw.Connection, sql: str, values: Sequence[Any] = ()) -> Any:  # noqa: ANN401 (as above)
    """Return the first row of a query, or ``None``."""
    return db.execute(sql, values).fetchone()


_MIGRATIONS_FOLDER = Path(__file__).with_name("migrations")


def migration_steps() -> Iterator[tuple[int, str]]:
    """Yield the numbers and texts of all steps, in order."""
    for path in sorted(_MIGRATIONS_FOLDER.glob("*.sql")):
        yield int(path.name[:4]), path.read_text("utf-8")


LATEST_VERSION = max(
    int(p.name[:4]) for p in _MIGRATIONS_FOLDER.iterdir() if p.suffix == ".sql"
)


def migrate(db: apsw.Connection, path: Path) -> int:
    """Bring ``db`` to :data:`LATEST` and return the version it had before.

    A copy is made before an archive that holds something is changed.
    """
    found = int(str(db.pragma("user_version")))
    if found > LATEST_VERSION:
        raise ArchiveTooNew(path, found_version=found, supported_version=LATEST_VERSION)
    if 0 < found < LATEST_VERSION:
        copy_database(db, path.with_name(f"{path.name}.version-{found}"))
    for number, sql in migration_steps():
        if number > found:
            with db:
                db.execute(sql)
                db.pragma("user_version", number)
    return found
