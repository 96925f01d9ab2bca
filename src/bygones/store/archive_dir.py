"""The folder of an archive: the archive, the lock, and its index.

The index is in `index/<fingerprint>-<n>`. A reader opens the highest number with the
fingerprint of its version. A rebuild fills another folder and renames it when it is
complete.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Self

from bygones.errors import (
    ArchiveDamaged,
    ArchiveError,
    IndexBusy,
    IndexDamaged,
    IndexNotFound,
    PurgeUnfinished,
    SystemFailure,
)
from bygones.store.archive_db import (
    ARCHIVE_FILE,
    ArchiveDB,
    has_purged,
    is_purge_pending,
)
from bygones.store.connect import (
    begin_read,
    check_is_folder,
    end_read,
    fetch_all,
    file_inode,
    find_corruption,
    fsync_folder,
    get_data_version,
    is_corruption,
    is_immutable,
    is_locked,
    is_system_error,
    make_private_folder,
    system_failure,
    translate_read_errors,
)
from bygones.store.index_db import INDEX_FILE, IndexDB, compute_index_fingerprint
from bygones.store.index_seal import (
    find_damage,
    has_text_index,
    mark_damaged,
    remove_seal,
    write_seal,
)
from bygones.store.schema import COMPARED_TABLES

if TYPE_CHECKING:  # importing tantivy takes longer than listing sessions
    from bygones.store.text_index import TextIndex

__all__ = ["RECALL_FOLDER", "ArchiveDir", "remove_indexes"]

RECALL_FOLDER = "recall"
"""Quotations of sessions for hooks of Claude Code, if they were added."""
_BUILD_FOLDER = "building"
_CHECKSUM_KEY = "tree_checksum"
_FULL_SCAN_KEY = "fully_scanned"
_SNAPSHOT_FILE = "homes"
_INDEX_WAIT_SECONDS = 5.0
"""Seconds that a reader waits for the index while a purge rebuilds it."""
_POLL_SECONDS = 0.05
_REMOVE_ATTEMPTS = 3
"""How often to delete an index: a process that opens it may add a file."""


_CHECK_SECONDS = 0.05
"""For how long an index whose files were as expected is not looked at again."""
_sound_indexes: dict[tuple[Path, tuple[int, int] | None], float] = {}
"""The index that was checked last, and when."""


class ArchiveDir:
    """An open archive: always its bytes, and index and text index if they exist."""

    def __init__(self, folder: Path, *, write: bool = False) -> None:
        self.folder = folder
        self.write = write
        self._is_in_transaction = False
        self.byte_store = ArchiveDB(folder, write=write)
        self.index_fingerprint = compute_index_fingerprint(self.byte_store.archive_id)
        if not write:
            self._open_newest_index()
            return
        newest = self._find_newest_index()
        # The process that was building it was stopped: only we write now.
        _remove_tree(folder / "index" / _BUILD_FOLDER)
        if newest is not None:
            self._remove_other_indexes(newest)
        self._open_index(newest)

    @staticmethod
    def exists(folder: Path) -> bool:
        """Whether a folder contains an archive."""
        check_is_folder(folder)
        return (folder / ARCHIVE_FILE).exists()

    def _open_newest_index(self) -> None:
        """Open the newest index; try again if it is replaced meanwhile.

        While a purge runs there is no index, and the next one is waited for.
        """
        deadline = time.monotonic() + _INDEX_WAIT_SECONDS
        while True:
            path = self._find_newest_index()
            try:
                self._open_index(path)
            except SystemFailure:
                if self._find_newest_index() == path:
                    raise
            else:
                is_awaited = path is None and self._is_purge_running()
                if self._find_newest_index() == path and not is_awaited:
                    return
            if time.monotonic() > deadline:
                return
            self._close_index()
            time.sleep(_POLL_SECONDS)

    def _is_purge_running(self) -> bool:
        return is_purge_pending(self.byte_store.db) and is_locked(self.folder)

    def index_missing_error(self) -> ArchiveError:
        """Return the error to raise if there is no index, or none yet."""
        if is_locked(self.folder) or self._find_newest_index() != self._requested_path:
            return IndexBusy(
                self.folder, is_purging=is_purge_pending(self.byte_store.db)
            )
        if is_purge_pending(self.byte_store.db):
            return PurgeUnfinished(self.folder)
        if self.index_damage:
            return IndexDamaged(self.folder, self.index_damage)
        return IndexNotFound(self.folder)

    def _open_index(self, index_path: Path | None) -> None:
        self._text_index: TextIndex | None = None
        self.index = None
        self._requested_path = index_path
        self.index_damage = self._find_index_damage(index_path)
        """Why there is an index that cannot be used; "" if there is none."""
        if self.index_damage:
            index_path = None  # a new one can be built
        try:
            if index_path is not None:
                if self.write:
                    remove_seal(index_path)
                with translate_read_errors(index_path):
                    self.index = IndexDB(
                        index_path,
                        write=self.write,
                        is_new=index_path.name == _BUILD_FOLDER,
                        fingerprint=self.index_fingerprint,
                    )
        except ArchiveError as error:
            # An index that can't be opened is ignored: a new one can be built.
            index_path = None
            self.index_damage = str(error)
        self.index_path = index_path
        self.index_inode = _index_inode(index_path)
        """Identifies the open index; its name may be used again."""
        if self._is_in_transaction and self.index is not None:
            begin_read(self.index.db)

    def _find_index_damage(self, index_path: Path | None) -> str:
        """Return what is wrong with the files of an index, unless they are changing."""
        if index_path is None or not (self.write or not is_locked(self.folder)):
            return ""
        return find_damage(index_path)

    def check_index_files(self) -> None:
        """Raise `IndexDamaged` if something else changed the files of the open index.

        One check is enough for the transactions of one request.
        """
        path = self.index_path
        if path is None or self.write or self._is_in_transaction:
            return
        state = (path, self.index_inode)
        now = time.monotonic()
        if now - _sound_indexes.get(state, -_CHECK_SECONDS) < _CHECK_SECONDS:
            return
        reason = self._find_index_damage(path)
        if reason and self.is_newest_index():
            raise IndexDamaged(self.folder, reason)
        _sound_indexes.clear()
        _sound_indexes[state] = now

    @property
    def is_in_transaction(self) -> bool:
        """Whether reads see the state at the start of a transaction."""
        return self._is_in_transaction

    @contextmanager
    def read_transaction(self) -> Iterator[None]:
        """Let all reads see the same state, even while others write.

        Without it, a second query could miss what was derived again since the first.
        The index starts first, so that all it refers to is in the archive.
        """
        if self._is_in_transaction or self.write:
            yield
            return
        self._is_in_transaction = True
        try:
            if self.index is not None:
                begin_read(self.index.db)
            begin_read(self.byte_store.db)
            yield
        finally:
            self._end_transaction()

    @contextmanager
    def consistent_read(self) -> Iterator[bool]:
        """Let all reads, including the text index, see the same state.

        Yields whether they are in sync, which they aren't between the commits of a
        writer.
        """
        before = self._read_text_meta()
        self.text_index.pin_snapshot()
        with self.read_transaction():
            is_level = self.index is not None and self.index.is_text_index_current()
            yield is_level and self._read_text_meta() == before

    def _read_text_meta(self) -> bytes:
        """Return the metadata of the text index, which changes with every commit."""
        if self.index_path is None:
            return b""
        folder = self.index_path / "text"
        try:
            return b"".join(
                (part / "meta.json").read_bytes()
                for part in (folder, folder / "blocks")
            )
        except OSError:
            return b""

    def _end_transaction(self) -> None:
        if self._is_in_transaction:
            self._is_in_transaction = False
            end_read(self.byte_store.db)
            self.byte_store.clear_cache()
            if self.index is not None:
                end_read(self.index.db)

    @property
    def text_index(self) -> TextIndex:
        """The text index, opened at the first access."""
        if self._text_index is None:
            self._text_index = self._open_text_index()
        return self._text_index

    def check_text_index(self) -> None:
        """Raise `IndexDamaged` if the text index is missing.

        Its files were compared with the seal when the index was opened.
        """
        if (
            self.index_path is not None
            and self.index is not None
            and self.index.last_text_record()
            and not has_text_index(self.index_path)
        ):
            # tantivy would create an empty one, and nothing would be found.
            raise IndexDamaged(self.folder, "the text index is missing")

    def _open_text_index(self) -> TextIndex:
        from bygones.store.text_index import TextIndex

        while self.index_path is not None and self.index is not None:
            if self.write:
                self.check_text_index()
            try:
                return TextIndex(self.index_path / "text", write=self.write)
            except IndexDamaged as error:
                if self.write or self._find_newest_index() == self.index_path:
                    mark_damaged(self.index_path, error.detail)
                    raise
            # The open index was replaced by another, with its own text index.
            self._close_index()
            self._open_newest_index()
        raise self.index_missing_error()

    @property
    def data_version(self) -> int:
        """A number that changes when another process writes to the open index."""
        return get_data_version(self.index.db) if self.index is not None else 0

    def is_newest_index(self) -> bool:
        """Whether the open index was not replaced."""
        return _index_inode(self._find_newest_index()) == self.index_inode

    def reopen_text_index(self) -> bool:
        """Let the next search see what was imported; return whether that is enough.

        The databases show it by themselves, unless their files were replaced.
        """
        if self._is_in_transaction or self.index is None:
            return False
        if is_immutable(self.index.db) or not self.is_newest_index():
            return False
        if not self.byte_store.shows_changes():
            return False
        if self._text_index is not None:
            self._text_index.close()
            self._text_index = None
        return True

    def _find_newest_index(self) -> Path | None:
        """Return the newest complete index with the fingerprint of this version."""
        found = [path for path, _ in self._list_indexes()]
        return found[-1] if found else None

    def _list_indexes(self) -> list[tuple[Path, int]]:
        root = self.folder / "index"
        names = [p.name for p in root.iterdir()] if root.is_dir() else []
        parts = [
            (name, *name.partition(f"{self.index_fingerprint}-")[::2]) for name in names
        ]
        found = [
            (root / name, int(number))
            for name, before, number in parts
            if not before and number.isdecimal()
        ]
        return sorted(found, key=lambda pair: pair[1])

    def begin_index_build(self) -> None:
        """Create and open an empty index, which readers don't see yet."""
        self._close_index()
        root = self.folder / "index"
        make_private_folder(root)
        building = root / _BUILD_FOLDER
        _remove_tree(building)
        make_private_folder(building)
        self._open_index(building)
        if self.index is None:
            raise SystemFailure(f"{building}: {self.index_damage}")

    def publish_index(self) -> None:
        """Rename the new index so that readers find it, and delete the old ones."""
        self._close_index()
        root = self.folder / "index"
        numbers = [number for _, number in self._list_indexes()]
        name = f"{self.index_fingerprint}-{max(numbers, default=0) + 1}"
        (root / _BUILD_FOLDER).rename(root / name)
        fsync_folder(root)
        self._remove_other_indexes(root / name)
        self._open_index(root / name)

    def _remove_other_indexes(self, newest: Path) -> None:
        """Delete replaced indexes; their readers have the files open."""
        for path in newest.parent.iterdir():
            if path.name != newest.name:
                _remove_tree(path)

    @property
    def saved_checksum(self) -> str | None:
        """The tree checksum of the homes when they were last imported.

        Unknown if the content of the archive changed since: a backup may have been
        restored.
        """
        saved = self.index.get_meta(_CHECKSUM_KEY) if self.index is not None else None
        checksum, _, content = (saved or "").partition(" ")
        return (
            checksum
            if checksum and content == self.byte_store.content_fingerprint()
            else None
        )

    def save_checksum(self, checksum: str, snapshot: bytes = b"") -> None:
        """Save the tree checksum and the snapshot of the homes after an import."""
        if self.index is not None and (self.saved_checksum or "") != checksum:
            with self.index.db:
                value = (
                    f"{checksum} {self.byte_store.content_fingerprint()}"
                    if checksum
                    else ""
                )
                self.index.set_meta(_CHECKSUM_KEY, value)
            if snapshot:
                self.save_snapshot(snapshot)

    def is_fully_scanned(self, checksum: str) -> bool:
        """Whether homes with this checksum were scanned thoroughly, without problems."""
        index = self.index
        return bool(checksum) and checksum == self.saved_checksum == (
            index and index.get_meta(_FULL_SCAN_KEY)
        )

    def mark_fully_scanned(self, checksum: str) -> None:
        """Remember that homes with this checksum were scanned thoroughly."""
        if self.index is not None and not self.is_fully_scanned(checksum):
            with self.index.db:
                self.index.set_meta(_FULL_SCAN_KEY, checksum)

    def load_snapshot(self) -> bytes | None:
        """Return the saved snapshot of the homes, if there is one."""
        try:
            return (
                (self.index_path / _SNAPSHOT_FILE).read_bytes()
                if self.index_path
                else None
            )
        except OSError:
            return None

    def save_snapshot(self, snapshot: bytes) -> None:
        """Save a snapshot of the homes, if the folder is writable.

        Not if anything was purged: the snapshot would contain the names of purged
        files.
        """
        if self.index_path is None or has_purged(self.byte_store.db):
            return
        path = self.index_path / f"{_SNAPSHOT_FILE}.{os.getpid()}"
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(snapshot)
            path.replace(self.index_path / _SNAPSHOT_FILE)
        except OSError:
            path.unlink(missing_ok=True)

    def remove_all_indexes(self) -> None:
        """Delete every index, because it may contain purged data.

        Raises `SystemFailure` if something is left.
        """
        self._close_index()
        root = self.folder / "index"
        remove_indexes(self.folder)
        self._open_index(None)
        if root.exists():
            raise SystemFailure(f"{root}: it could not be removed")

    def _close_index(self) -> None:
        if self._text_index is not None:
            self._text_index.close()
        if self.index is not None:
            self.index.close()
            if self.write and self.index_path is not None:
                with suppress(OSError):  # the folder may be gone
                    write_seal(self.index_path)
        self._text_index = self.index = None

    def close(self) -> None:
        self._end_transaction()
        self._close_index()
        self.byte_store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, *_trace: object) -> None:
        """Close it; errors of SQLite are raised as ours."""
        try:
            self.raise_translated(error)
        finally:
            self.close()

    def raise_translated(self, error: BaseException | None) -> None:
        """Raise our error for an error of SQLite: damage, or a full disk.

        SQLite doesn't report which of the two databases is damaged. The index is
        checked, because it is smaller.
        """
        if is_system_error(error):
            raise system_failure(error, self.folder) from error
        if not is_corruption(error):
            return
        if self.index is not None and (reason := find_corruption(self.index.db)):
            raise IndexDamaged(self.folder, reason) from error
        raise ArchiveDamaged(self.byte_store.path, str(error)) from error


def remove_indexes(folder: Path) -> None:
    """Delete every index of an archive; a reader never finds a part of one.

    Each is first renamed to the folder of unfinished builds, which the next writer
    deletes anyway.
    """
    root = folder / "index"
    for path in list(root.iterdir()) if root.is_dir() else []:
        if path.name != _BUILD_FOLDER:
            _remove_tree(root / _BUILD_FOLDER)
            path.rename(root / _BUILD_FOLDER)
            fsync_folder(root)
    for _ in range(_REMOVE_ATTEMPTS):
        _remove_tree(root)


def _index_inode(index_path: Path | None) -> tuple[int, int] | None:
    return file_inode(index_path / INDEX_FILE) if index_path is not None else None


def _remove_tree(folder: Path) -> None:
    rmtree(folder, ignore_errors=True)


_FAMILIES = (
    "SELECT a.id, b.id FROM session AS x JOIN session AS y ON x.family = y.family"
    " JOIN session_id AS a ON a.number = x.number"
    " JOIN session_id AS b ON b.number = y.number"
)


def hash_tables(archive_dir: ArchiveDir) -> dict[str, str]:
    """Return a hash of each table, of the families, the nodes and the text index."""
    index = archive_dir.index
    if index is None:
        return {}
    queries = {table.name: table.comparison_sql for table in COMPARED_TABLES}
    queries["family"] = _FAMILIES
    hashes = {
        table: _hash_rows(sorted(map(repr, index.db.execute(sql))))
        for table, sql in queries.items()
    }
    sources = fetch_all(index.db, "SELECT source FROM source_state ORDER BY source")
    hashes["node"] = _hash_rows(repr(index.nodes(source)) for (source,) in sources)
    hashes["text"] = _hash_texts(archive_dir, index)
    return hashes


def load_session_ids(index: IndexDB) -> dict[int, str]:
    return dict(fetch_all(index.db, "SELECT number, id FROM session_id"))


def load_locations(index: IndexDB) -> dict[int, tuple[int, int, str]]:
    """Return source, offset and session of each record, by its number."""
    session_ids = load_session_ids(index)
    rows = fetch_all(index.db, "SELECT id, source, start, session FROM record")
    return {
        record: (source, start, session_ids[session])
        for record, source, start, session in rows
    }


def _hash_texts(archive_dir: ArchiveDir, index: IndexDB) -> str:
    session_ids = load_session_ids(index)
    locations = load_locations(index)
    texts = (
        repr((locations.get(record), session_ids.get(session), kind, digest))
        for record, session, kind, digest in archive_dir.text_index.iter_documents()
    )
    return _hash_rows(sorted(texts))


def _hash_rows(rows: Iterable[str]) -> str:
    from hashlib import sha256  # only backups need it: 8 ms at start-up

    hashed = sha256()
    for row in rows:
        hashed.update(row.encode("utf-8", "surrogatepass"))
        hashed.update(b"\n")
    return hashed.hexdigest()
