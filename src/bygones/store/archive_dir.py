"""An archive's folder: the archive, the lock, and the index that belongs to it.

The index lies in ``index/<stamp>-<n>``. A reader takes the highest number with the
stamp it understands; a rebuild fills a folder beside it and then gives it a name.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

from bygones.errors import (
    ArchiveDamaged,
    ArchiveError,
    IndexBusy,
    IndexDamaged,
    IndexNotFound,
    SystemFailure,
)
from bygones.store.archive_db import ARCHIVE_FILE, ArchiveDB
from bygones.store.archive_tables import has_purged, is_purge_pending
from bygones.store.connect import (
    begin_read,
    check_is_folder,
    end_read,
    find_corruption,
    fsync_folder,
    get_data_version,
    is_corruption,
    is_locked,
    is_system_error,
    make_private_folder,
    system_failure,
    translate_read_errors,
)
from bygones.store.index_db import INDEX_FILE, IndexDB, compute_index_fingerprint

if TYPE_CHECKING:  # the engine takes longer to load than a list takes to print
    from bygones.store.text_index import TextIndex

__all__ = ["ArchiveDir", "remove_indexes"]

_BUILD_FOLDER = "building"
_CHECKSUM_KEY = "pulse"
_FULL_SCAN_KEY = "settled"
_SNAPSHOT_FILE = "homes"
_INDEX_WAIT_SECONDS = 5.0
"""Seconds that a reader waits for the index while a purge makes it anew."""
_POLL_SECONDS = 0.05
_REMOVE_ATTEMPTS = 3
"""How often an index is removed: who is just opening it may leave a file there."""


class ArchiveDir:
    """What is open of an archive: chunks always, index and text where there are any."""

    def __init__(self, folder: Path, *, write: bool = False) -> None:
        self.folder = folder
        self.write = write
        self._is_in_transaction = False
        """Whether one moment is being looked at."""
        self.byte_store = ArchiveDB(folder, write=write)
        self.index_fingerprint = compute_index_fingerprint(self.byte_store.archive_id)
        if not write:
            self._open_newest_index()
            return
        newest = self._find_newest_index()
        # Whoever was building it was stopped: nobody else writes now.
        _remove_tree(folder / "index" / _BUILD_FOLDER)
        if newest is not None:  # or whoever was about to remove the others
            self._remove_other_indexes(newest)
        self._open_index(newest)

    @staticmethod
    def exists(folder: Path) -> bool:
        """Whether there is an archive in a folder."""
        check_is_folder(folder)
        return (folder / ARCHIVE_FILE).exists()

    def _open_newest_index(self) -> None:
        """Open the newest index; if that gives way meanwhile, the next.

        While a purge makes it anew there is none, and that is waited for.
        """
        until = time.monotonic() + _INDEX_WAIT_SECONDS
        while True:
            place = self._find_newest_index()
            try:
                self._open_index(place)
            except SystemFailure:
                if self._find_newest_index() == place:
                    raise
            else:
                is_awaited = place is None and self._is_purge_running()
                if self._find_newest_index() == place and not is_awaited:
                    return
            if time.monotonic() > until:
                return
            self._close_index()
            time.sleep(_POLL_SECONDS)

    def _is_purge_running(self) -> bool:
        """Whether somebody is erasing at this moment."""
        return is_purge_pending(self.byte_store.db) and is_locked(self.folder)

    def index_missing_error(self) -> ArchiveError:
        """Return why there is no index: none was made, or one is being made."""
        if is_locked(self.folder) or self._find_newest_index() != self._requested_path:
            return IndexBusy(
                self.folder, is_purging=is_purge_pending(self.byte_store.db)
            )
        return IndexNotFound(self.folder)

    def _open_index(self, index_path: Path | None) -> None:
        self._text_index: TextIndex | None = None
        self.index = None
        self._requested_path = index_path
        try:
            if index_path is not None:
                with translate_read_errors(index_path):
                    self.index = IndexDB(
                        index_path, write=self.write, fingerprint=self.index_fingerprint
                    )
        except ArchiveError:
            # An index that cannot be opened is no index: a new one can be made.
            index_path = None
        self.index_path = index_path
        self.index_inode = _index_inode(index_path)
        """Which index is open: a name may be given twice, and this is not."""
        if self._is_in_transaction and self.index is not None:
            begin_read(self.index.db)

    @contextmanager
    def read_transaction(self) -> Iterator[None]:
        """Have all reads see one moment, whoever writes meanwhile.

        Who finds in one statement and looks up in the next would miss what was derived
        anew between them. The index comes first: what it names is in the archive then.
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
        """Have all reads and the words see one moment; say whether they are level.

        They are not while somebody is about to write to one after the other.
        """
        before = self._read_text_meta()
        self.text_index.pin_snapshot()
        with self.read_transaction():
            is_level = self.index is not None and self.index.is_text_index_current()
            yield is_level and self._read_text_meta() == before

    def _read_text_meta(self) -> bytes:
        """Return what the words say of themselves: something else once they change."""
        try:
            return (
                (self.index_path / "text" / "meta.json").read_bytes()
                if self.index_path
                else b""
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
        """The text index, opened when it is first asked for."""
        if self._text_index is None:
            self._text_index = self._open_text_index()
        return self._text_index

    def check_text_index(self) -> None:
        """Open the text index, though nobody needs it: one that cannot be is told.

        :raises IndexDamaged: if its words are gone, or are none.
        """
        if self.index is not None:
            self._text_index = self.text_index

    def _open_text_index(self) -> TextIndex:
        from bygones.store.text_index import TextIndex

        while self.index_path is not None and self.index is not None:
            if (
                self.write
                and self.index.last_text_record()
                and not TextIndex.exists(self.index_path)
            ):
                # The engine would begin an empty one, and nothing would be found.
                raise IndexDamaged(self.folder, "its words are gone")
            try:
                return TextIndex(self.index_path / "text", write=self.write)
            except ValueError as error:
                if self.write or self._find_newest_index() == self.index_path:
                    raise IndexDamaged(self.folder, str(error)) from error
            # The index that was open has given way to another, with words of its own.
            self._close_index()
            self._open_newest_index()
        raise self.index_missing_error()

    @property
    def data_version(self) -> int:
        """Another number once somebody has written to the index that is open."""
        return get_data_version(self.index.db) if self.index is not None else 0

    def is_newest_index(self) -> bool:
        """Whether the index that is open has not given way to another."""
        return _index_inode(self._find_newest_index()) == self.index_inode

    def _find_newest_index(self) -> Path | None:
        """Return the newest whole index that this version understands."""
        found = [path for path, _ in self._list_indexes()]
        return found[-1] if found else None

    def _list_indexes(self) -> list[tuple[Path, int]]:
        root = self.folder / "index"
        names = [p.name for p in root.iterdir()] if root.is_dir() else []
        parted = [
            (name, *name.partition(f"{self.index_fingerprint}-")[::2]) for name in names
        ]
        found = [
            (root / name, int(number))
            for name, before, number in parted
            if not before and number.isdecimal()
        ]
        return sorted(found, key=lambda pair: pair[1])

    def begin_index_build(self) -> None:
        """Go on with an empty index, in a folder that has no name yet."""
        self._close_index()
        root = self.folder / "index"
        make_private_folder(root)
        building = root / _BUILD_FOLDER
        _remove_tree(building)
        make_private_folder(building)
        self._open_index(building)

    def publish_index(self) -> None:
        """Give the new index its name; readers find it, and the old ones go."""
        self._close_index()
        root = self.folder / "index"
        numbers = [number for _, number in self._list_indexes()]
        name = f"{self.index_fingerprint}-{max(numbers, default=0) + 1}"
        (root / _BUILD_FOLDER).rename(root / name)
        fsync_folder(root)
        self._remove_other_indexes(root / name)
        self._open_index(root / name)

    def _remove_other_indexes(self, newest: Path) -> None:
        """Remove indexes that have given way; who reads one has it open."""
        for path in newest.parent.iterdir():
            if path.name != newest.name:
                _remove_tree(path)

    @property
    def saved_checksum(self) -> str | None:
        """What the homes looked like when they were last taken in.

        Unknown where the archive is another one than it was then: a backup may have
        been put into its place.
        """
        noted = self.index.get_meta(_CHECKSUM_KEY) if self.index is not None else None
        sign, _, reach = (noted or "").partition(" ")
        return sign if sign and reach == self.byte_store.content_fingerprint() else None

    def save_checksum(self, checksum: str, snapshot: bytes = b"") -> None:
        """Remember what the homes look like, now that they are taken in."""
        if self.index is not None and (self.saved_checksum or "") != checksum:
            with self.index.db:
                noted = (
                    f"{checksum} {self.byte_store.content_fingerprint()}"
                    if checksum
                    else ""
                )
                self.index.set_meta(_CHECKSUM_KEY, noted)
            if snapshot:
                self.save_snapshot(snapshot)

    def is_fully_scanned(self, checksum: str) -> bool:
        """Whether homes that look so were looked at thoroughly, with nothing odd."""
        index = self.index
        return bool(checksum) and checksum == self.saved_checksum == (
            index and index.get_meta(_FULL_SCAN_KEY)
        )

    def mark_fully_scanned(self, checksum: str) -> None:
        """Remember that homes that look so were looked at thoroughly."""
        if self.index is not None and not self.is_fully_scanned(checksum):
            with self.index.db:
                self.index.set_meta(_FULL_SCAN_KEY, checksum)

    def load_snapshot(self) -> bytes | None:
        """Return what the homes looked like in full, if somebody noted that."""
        try:
            return (
                (self.index_path / _SNAPSHOT_FILE).read_bytes()
                if self.index_path
                else None
            )
        except OSError:
            return None

    def save_snapshot(self, snapshot: bytes) -> None:
        """Note what the homes look like in full; where nobody can write, do not.

        Nor where something was purged: its file may still be there, and its name shall
        not stand here.
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
        """Remove every index: what was purged must not live on in one.

        :raises SystemRefused: if something of it stays.
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
        self._text_index = self.index = None

    def close(self) -> None:
        """Let go of everything."""
        self._end_transaction()
        self._close_index()
        self.byte_store.close()

    def __enter__(self) -> Self:
        """Use it as a context."""
        return self

    def __exit__(self, _: object, error: BaseException | None, *_trace: object) -> None:
        """Close it; damage that was met is told by what it is in."""
        try:
            self.raise_translated(error)
        finally:
            self.close()

    def raise_translated(self, error: BaseException | None) -> None:
        """Raise our error for what the engine met with: damage, or a full disk.

        It does not say in which of the two databases damage is: the index is looked
        through, as it is the smaller one.
        """
        if is_system_error(error):
            raise system_failure(error, self.folder) from error
        if not is_corruption(error):
            return
        if self.index is not None and (told := find_corruption(self.index.db)):
            raise IndexDamaged(self.folder, told) from error
        raise ArchiveDamaged(self.byte_store.path, str(error)) from error


def remove_indexes(folder: Path) -> None:
    """Remove every index of an archive, so that nobody ever finds half of one.

    Each is first given the name of one that is being built, which whoever writes next
    removes in any case.
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
    try:
        told = (index_path / INDEX_FILE).stat() if index_path is not None else None
    except OSError:
        return None
    return (told.st_dev, told.st_ino) if told is not None else None


def _remove_tree(folder: Path) -> None:
    from shutil import rmtree

    rmtree(folder, ignore_errors=True)
