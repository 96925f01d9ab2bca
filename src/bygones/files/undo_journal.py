"""Apply an undo, and keep what it replaces in the archive.

The contents before and after are written to a journal before any file is changed, so that
an undo which was killed in the middle can be rolled back, and undoing can be undone.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from bygones.errors import FileModifiedConcurrently, NothingToUndo, PathUnusable
from bygones.files.undo import (
    PlannedUndo,
    UndoEntry,
    UndoRecord,
    plan_entries,
    read_mode,
    read_strictly,
    real_folder,
)
from bygones.model.base import DECODE_ERRORS, SessionId
from bygones.store.connect import fsync_folder, lock_file
from bygones.store.undo_files import UNDO_FOLDER, undo_file_name

_UNFINISHED = ".unfinished"
_TEMPORARY = ".tmp"
_LOCK = "lock"


class UndoTarget(Struct, frozen=True):
    """Which turn is undone; turns count from 0."""

    session_id: SessionId
    turn_number: int
    is_redo: bool = False
    """Whether an undo of it is taken back."""


class UndoStore:
    """What undo replaced, in a folder of the archive."""

    def __init__(self, archive_folder: Path) -> None:
        self._folder = archive_folder / UNDO_FOLDER

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Wait until no other process changes files."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        handle = os.open(self._folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            lock_file(handle)
            yield
        finally:
            os.close(handle)

    def apply(
        self, plans: Sequence[PlannedUndo], target: UndoTarget, now: datetime
    ) -> UndoRecord:
        """Store what is replaced, then change the files; all of them, or none.

        Raises `FileModifiedConcurrently` if a file changed since it was planned.
        """
        record = UndoRecord(
            id=f"{now:%Y%m%dT%H%M%S%f}-{secrets.token_hex(3)}",
            session_id=target.session_id,
            turn_number=target.turn_number,
            made_at=now,
            entries=tuple(
                UndoEntry(
                    path=plan.path,
                    before=plan.before,
                    after=plan.after,
                    real_folder=real_folder(plan.path),
                    mode=read_mode(plan.path) if plan.before is not None else plan.mode,
                )
                for plan in plans
                if plan.is_change
            ),
            is_redo=target.is_redo,
        )
        with self._locked():
            self._change(record)
        return record

    def _change(self, record: UndoRecord) -> None:
        self._save(record)
        done = 0
        try:
            for entry in record.entries:
                _replace(entry, entry.before, entry.after, record.id)
                done += 1
        except BaseException as error:
            # A file that another program changed was not changed by this.
            is_begun = not isinstance(error, FileModifiedConcurrently)
            is_restored = [
                _restore(entry, record.id)
                or (number >= done and not _has_content(entry.path, entry.after))
                for number, entry in enumerate(record.entries[: done + is_begun])
            ]
            self._close(record, is_needed=not all(is_restored))
            raise
        self._close(record, is_needed=True)

    def _path(self, record: UndoRecord, suffix: str = "") -> Path:
        name = undo_file_name(record.session_id, record.id)
        return self._folder / f"{name}{suffix}"

    def _save(self, record: UndoRecord) -> None:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        temporary = self._path(record, _TEMPORARY)
        _create_file(temporary, msgspec.msgpack.encode(record), 0o600)
        temporary.replace(self._path(record, _UNFINISHED))
        fsync_folder(self._folder)

    def _close(self, record: UndoRecord, *, is_needed: bool) -> None:
        """Mark an undo as finished, or delete it."""
        unfinished = self._path(record, _UNFINISHED)
        if is_needed:
            unfinished.replace(self._path(record))
        else:
            unfinished.unlink()
        fsync_folder(self._folder)

    def unfinished(self) -> list[UndoRecord]:
        """Return what was killed in the middle, newest first."""
        return self._load_records(_UNFINISHED)

    def records(self) -> list[UndoRecord]:
        """Return what was undone, newest first."""
        return self._load_records("")

    def _load_records(self, suffix: str) -> list[UndoRecord]:
        found = []
        for path in self._folder.iterdir() if self._folder.is_dir() else ():
            is_wanted = path.suffix == suffix if suffix else path.suffix not in _STATES
            if is_wanted and path.name != _LOCK:
                with suppress(OSError, *DECODE_ERRORS):
                    raw = path.read_bytes()
                    found.append(msgspec.msgpack.decode(raw, type=UndoRecord))
        return sorted(found, key=lambda record: record.id, reverse=True)

    def load(self, undo_id: str | None = None) -> UndoRecord:
        """Return what was undone last, or by its id. Raises `NothingToUndo`."""
        for record in self.records():
            if undo_id is None or record.id == undo_id:
                return record
        raise NothingToUndo("undo", undo_id or "last")

    def recover(self, record: UndoRecord) -> list[PlannedUndo]:
        """Restore files as they were before an undo that was killed in the middle.

        An undo is rolled back, and taking one back is finished. Returns what that
        did. A file that was changed since is left alone, and the contents are kept.
        """
        with self._locked():
            if not self._path(record, _UNFINISHED).exists():
                return []  # another process was still at work
            plans = plan_recovery(record)
            restored = [
                _restore(entry, record.id, is_forward=record.is_redo)
                for entry in record.entries
            ]
            self._close(record, is_needed=record.is_redo or not all(restored))
        return plans


_STATES = frozenset({_UNFINISHED, _TEMPORARY})


def plan_recovery(record: UndoRecord) -> list[PlannedUndo]:
    """Return what recovering from a killed undo does to files."""
    entries = record.entries
    if record.is_redo:
        entries = tuple(
            structs.replace(entry, before=entry.after, after=entry.before)
            for entry in entries
        )
    return plan_entries(entries)


def _restore(entry: UndoEntry, undo_id: str, *, is_forward: bool = False) -> bool:
    """Give a file the content before an undo; return whether it has it.

    With `is_forward` it gets the content after it.
    """
    wanted, other = entry.before, entry.after
    if is_forward:
        wanted, other = other, wanted
    path = Path(entry.path)
    if entry.real_folder and entry.real_folder != real_folder(entry.path):
        return False  # its folder was replaced by a link
    with suppress(OSError):
        _temporary_path(path, undo_id).unlink()
    try:
        disk = read_strictly(path)
        if disk == other != wanted:
            _replace(entry, other, wanted, undo_id)
            return True
    except (OSError, PathUnusable, FileModifiedConcurrently):
        return False
    return disk == wanted


def _has_content(path: str, content: bytes | None) -> bool:
    try:
        return read_strictly(Path(path)) == content
    except OSError:
        return False


def _temporary_path(path: Path, undo_id: str) -> Path:
    return path.with_name(f".{path.name[:100]}.{undo_id}.tmp")


def _replace(
    entry: UndoEntry, before: bytes | None, after: bytes | None, undo_id: str
) -> None:
    """Replace the content of a file by another one, atomically."""
    path = Path(entry.path)
    try:
        if read_strictly(path) != before:
            raise FileModifiedConcurrently(path)
        if after is None:
            path.unlink()
        else:
            mode = entry.mode if before is None else read_mode(entry.path)
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, after, undo_id, 0o644 if mode is None else mode)
        fsync_folder(path.parent)
    except OSError as error:
        raise PathUnusable(f"{path}: {error.strerror or error}") from error


def _write(path: Path, raw: bytes, undo_id: str, mode: int) -> None:
    temporary = _temporary_path(path, undo_id)
    try:
        _create_file(temporary, raw, mode)
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def _create_file(path: Path, raw: bytes, mode: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    with open(os.open(path, flags, 0o600), "wb") as file:  # noqa: PTH123 (a descriptor)
        file.write(raw)
        file.flush()
        os.fsync(file.fileno())
    path.chmod(mode)
