"""Locks, connections to SQLite, translation of its errors, and migrations."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from errno import EINVAL, ENOTSUP, EPERM
from pathlib import Path
from shutil import disk_usage
from typing import Any, TypeGuard
from urllib.parse import quote

import apsw

from bygones.errors import (
    ArchiveClosed,
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
    """Hold the lock of an archive's only writer.

    Waits up to `timeout` seconds if another process holds it, then raises
    `ArchiveInUse`. The operating system releases the lock when the process ends.

    Raises `PermissionError` if the folder belongs to another user.
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
    """Whether another process writes to an archive, as far as can be seen."""
    try:
        handle = os.open(folder / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not try_lock(handle)
    finally:
        os.close(handle)


def _check_folder_owner(folder: Path) -> None:
    """Refuse a folder whose owner could read or replace what is written there.

    Root can do that anyway. A folder that everybody may write to can contain files of
    other users, so its entries are checked too.
    """
    if sys.platform == "win32":  # pragma: no cover
        return
    for entry in (folder, *folder.iterdir()):
        with suppress(FileNotFoundError):  # deleted meanwhile
            if entry.lstat().st_uid not in {0, os.geteuid()}:
                raise PermissionError(EPERM, "it belongs to another user", str(entry))


def _acquire(handle: int, folder: Path, timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while not try_lock(handle):
        if time.monotonic() >= deadline:
            raise ArchiveInUse(folder)
        time.sleep(_LOCK_RETRY_SECONDS)


def lock_file(handle: int) -> None:
    """Lock an open file until it is closed, where the system supports it."""
    if sys.platform != "win32":
        with suppress(OSError):  # not every file system does
            fcntl.flock(handle, fcntl.LOCK_EX)


def try_lock(handle: int) -> bool:
    """Lock an open file; return whether no other process has locked it."""
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
_CLOSED_ERRORS = (apsw.ConnectionClosedError, apsw.CursorClosedError)
_CORRUPTION_ERRORS = (apsw.CorruptError, apsw.NotADBError, apsw.SQLError)
_BUSY_TIMEOUT_MS = 10_000
_WRITER_CACHE_KB, _READER_CACHE_KB = 8_000, 4_000
"""SQLite's page cache. A server has many readers, and the system caches pages for them.
A larger one for the writer holds chunks that are not read again; it takes no less time.
"""
_WRITER_STATEMENTS = 512
"""Prepared statements that a writer keeps. Every use of one takes the next place, so that
100 places lose statements that are run once per session.
"""
APPLICATION_ID = int.from_bytes(b"Rcll", "big")
"""The SQLite application id of an archive, which distinguishes it from other files."""
_FSYNC_UNSUPPORTED = frozenset({EINVAL, ENOTSUP})
_MIN_FREE_BYTES = 1 << 20
DISK_FULL = "no space left on the disk"
_JOURNAL_SUFFIXES = ("-journal", "-wal", "-shm")
_PRIVATE_FILE_MODE = 0o600
_PRIVATE_FOLDER_MODE = 0o700


def make_private_folder(path: Path) -> None:
    """Create a folder that only its owner can read, and those above it.

    Raises `ArchiveNotAFolder` if something else is in the way.
    """
    for folder in (*reversed(path.parents), path):
        check_is_folder(folder)
    create_folders(path)


def create_folders(path: Path) -> None:
    """Create a folder that only its owner can read, and those above it."""
    for folder in (*reversed(path.parents), path):
        if not folder.exists():
            folder.mkdir(mode=_PRIVATE_FOLDER_MODE, exist_ok=True)


def fsync_folder(path: Path) -> None:
    """Make the names in a folder durable; fsync of a file only covers its content.

    Does nothing where folders can't be synced.
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
    """Raise `ArchiveNotAFolder` if a path exists and isn't a folder."""
    if path.exists() and not path.is_dir():
        raise ArchiveNotAFolder(path)


_HEADER_BYTES = 100
"""The header of a database. SQLite takes a file of one byte for a new database."""


def open_archive_db(
    path: Path, *, write: bool, latest_version: int | None = None
) -> apsw.Connection:
    """Open `archive.db`, with committed data that survives a power failure.

    An archive with a newer version than `latest_version` is refused before it is
    changed.
    """
    if path.exists() and (size := path.stat().st_size) < _HEADER_BYTES:
        raise ArchiveEmpty(
            path, f"it has {size} bytes" if size else "the file is empty"
        )
    db = _open(path, write=write, latest_version=latest_version)
    if write:
        db.pragma("synchronous", "FULL")
        db.pragma("secure_delete", "ON")
    return db


def open_index_db(path: Path, *, write: bool) -> apsw.Connection:
    """Open `index.db`, which must not fall behind the text index.

    Rows are committed before their text. If a power failure lost rows but not their
    text, the next rows would get the same numbers and match the wrong text.
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
    """Refuse a database of another program or of a newer version."""
    application, version = (
        int(str(db.pragma(name))) for name in ("application_id", "user_version")
    )
    if application != APPLICATION_ID:
        names = {row[0] for row in fetch_all(db, "SELECT name FROM sqlite_schema")}
        # Version 1 had no application id; an empty file can become an archive.
        is_ours = (
            {"identity", "chunk"} <= names if version == 1 else not (version or names)
        )
        if application or not is_ours:
            db.close()
            raise ArchiveNotOwned(path)
    if version > latest_version:
        db.close()
        raise ArchiveTooNew(
            path, found_version=version, supported_version=latest_version
        )


def error_on_open(error: apsw.Error, path: Path) -> BygonesError:
    """Return the error to raise for an SQLite error while opening a database."""
    # An intact archive on a full or read-only disk is not damaged.
    if isinstance(error, _SYSTEM_ERRORS):
        return system_failure(error, path)
    if isinstance(error, apsw.NotADBError):
        return NotADatabase(path, str(error))
    return ArchiveDamaged(path, str(error))


def system_failure(error: Exception, path: Path) -> SystemFailure:
    """Return the error to raise if the system refused an operation on a path."""
    is_full = isinstance(error, apsw.FullError) or not has_free_space(path)
    return SystemFailure(f"{path}: {DISK_FULL if is_full else error}")


def has_free_space(path: Path, min_bytes: int = _MIN_FREE_BYTES) -> bool:
    """Whether the disk of a path has space left.

    SQLite and tantivy don't always report why they could not write.
    """
    for folder in (path, *path.absolute().parents):
        try:
            return disk_usage(folder).free >= min_bytes
        except OSError:
            continue
    return True


def _connect(path: Path, *, write: bool) -> apsw.Connection:
    """Open a file; as immutable where a reader can't create the shared memory file.

    That happens on full and on read-only disks, where nothing is written either.
    """
    if write:
        return apsw.Connection(
            str(path),
            flags=apsw.SQLITE_OPEN_READWRITE,
            statementcachesize=_WRITER_STATEMENTS,
        )
    try:
        db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        # While the last writer closes, the log is removed for a moment.
        db.set_busy_timeout(_BUSY_TIMEOUT_MS)
        fetch_one(db, "SELECT 1 FROM sqlite_schema")
    except _SYSTEM_ERRORS:
        wal = path.with_name(f"{path.name}-wal")
        has_wal = wal.exists() and wal.stat().st_size
        # The lock is in the archive's folder; an index is two levels below.
        if has_wal or any(is_locked(folder) for folder in list(path.parents)[:3]):
            raise
        uri = f"file:{quote(str(path))}?immutable=1"
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        return apsw.Connection(uri, flags=flags)
    return db


def is_immutable(db: apsw.Connection) -> bool:
    """Whether a connection would not see changes of its file."""
    return bool(db.open_flags & apsw.SQLITE_OPEN_URI)


def file_inode(path: Path) -> tuple[int, int] | None:
    """Return the device and inode of a file; None if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def begin_read(db: apsw.Connection) -> None:
    """Start a read transaction."""
    db.execute("BEGIN")
    # SQLite takes its snapshot at the first read.
    fetch_one(db, "SELECT 1 FROM sqlite_schema")


def end_read(db: apsw.Connection) -> None:
    """End a read transaction, also after damage was found."""
    try:
        if db.in_transaction:  # not after an error
            db.execute("COMMIT")
    except _CORRUPTION_ERRORS:
        if db.in_transaction:  # the damage was reported before
            db.execute("ROLLBACK")
    # A server has many connections, and the system caches pages for all of them.
    db.release_memory()


def get_data_version(db: apsw.Connection) -> int:
    """Return a number that changes when another connection writes to a database.

    It has no meaning for other connections.
    """
    return int(str(db.pragma("data_version")))


def is_corruption(error: BaseException | None) -> bool:
    """Whether an error of SQLite means that the database is damaged."""
    return isinstance(error, _CORRUPTION_ERRORS)


def is_system_error(error: BaseException | None) -> TypeGuard[apsw.Error]:
    """Whether an error of SQLite means that the system refused something."""
    return isinstance(error, _SYSTEM_ERRORS)


def find_corruption(db: apsw.Connection) -> str:
    """Return the first problem SQLite finds in a database; "" if it is intact."""
    try:
        row = fetch_one(db, "PRAGMA quick_check(1)")
    except apsw.Error as error:
        return str(error)
    # The first line may only name the database.
    message = str(row[0]).strip().splitlines()[-1] if row else ""
    return "" if message == "ok" else message


@contextmanager
def translate_read_errors(path: Path) -> Iterator[None]:
    """Raise `ArchiveDamaged` for what SQLite reports while reading."""
    try:
        yield
    except _CLOSED_ERRORS as error:
        raise ArchiveClosed(path) from error
    except (*_CORRUPTION_ERRORS, ValueError) as error:
        # Impossible values are damage too: text that isn't UTF-8, an unknown kind,
        # a table or column that doesn't exist.
        raise ArchiveDamaged(path, str(error)) from error


def translate_error(error: Exception) -> BygonesError | None:
    """Return the error to raise for an error of SQLite; `None` for others."""
    if is_corruption(error):
        return ArchiveDamaged(Path("the archive"), str(error))
    if isinstance(error, _CLOSED_ERRORS):
        return ArchiveClosed(Path("the archive"))
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return ArchiveInUse(Path("the archive"))
    if isinstance(error, apsw.FullError):
        return SystemFailure(DISK_FULL)
    return SystemFailure(str(error)) if isinstance(error, apsw.Error) else None


def _create_private_file(path: Path) -> None:
    """Create a file before SQLite does, so that others can never read it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _PRIVATE_FILE_MODE)
    os.close(handle)


def remove_database(path: Path, *, only_journals: bool = False) -> None:
    """Delete a database, if it exists, with its journals."""
    for suffix in (*_JOURNAL_SUFFIXES, *(() if only_journals else ("",))):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def copy_database(db: apsw.Connection, path: Path) -> None:
    """Write a consistent copy of a database, even while it is written to."""
    _create_private_file(path)
    target = apsw.Connection(str(path))
    try:
        with target.backup("main", db, "main") as backup:
            backup.step()
        # Without a WAL the copy is a single file.
        target.pragma("journal_mode", "DELETE")
    except _SYSTEM_ERRORS as error:
        raise system_failure(error, path) from error
    finally:
        target.close()


def fetch_all(db: apsw.Connection, sql: str, values: Sequence[Any] = ()) -> list[Any]:
    """Return all rows of a query, typed as the caller declares them."""
    return db.execute(sql, values).fetchall()


def fetch_one(db: apsw.Connection, sql: str, values: Sequence[Any] = ()) -> Any:  # noqa: ANN401 (as above)
    """Return the first row of a query, or ``None``."""
    return db.execute(sql, values).fetchone()


_MIGRATIONS_FOLDER = Path(__file__).with_name("migrations")


def migration_steps() -> Iterator[tuple[int, str]]:
    """Yield number and SQL of all migrations, in order."""
    for path in sorted(_MIGRATIONS_FOLDER.glob("*.sql")):
        yield int(path.name[:4]), path.read_text("utf-8")


LATEST_VERSION = max(
    int(p.name[:4]) for p in _MIGRATIONS_FOLDER.iterdir() if p.suffix == ".sql"
)


def migrate(db: apsw.Connection, path: Path) -> int:
    """Migrate a database to `LATEST_VERSION`; return the version it had.

    An archive with content is copied first.
    """
    version = int(str(db.pragma("user_version")))
    if version > LATEST_VERSION:
        raise ArchiveTooNew(
            path, found_version=version, supported_version=LATEST_VERSION
        )
    if 0 < version < LATEST_VERSION:
        copy_database(db, path.with_name(f"{path.name}.version-{version}"))
    for number, sql in migration_steps():
        if number > version:
            with db:
                db.execute(sql)
                db.pragma("user_version", number)
    return version
