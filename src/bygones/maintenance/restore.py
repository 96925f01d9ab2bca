"""Putting files where they belong: each whole, and over nothing unasked."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from enum import StrEnum
from errno import EDQUOT, ENOSPC, EROFS
from filecmp import cmp
from itertools import chain, count
from pathlib import Path
from secrets import token_hex

from msgspec import Struct, structs

from bygones.errors import ArchiveDamaged
from bygones.maintenance.relocate import (
    escapes_home,
    iter_lines,
    name_home_folders,
    target_path,
)
from bygones.model.base import SourceId
from bygones.model.progress import NullProgress, ProgressReporter
from bygones.sources.layout import REPLACED_FILE_SUFFIX, TEMP_FILE_PREFIX
from bygones.store.archive_db import ArchiveDB, StoredSource
from bygones.store.archive_dir import ArchiveDir
from bygones.store.connect import fetch_one, fsync_folder, lock_file, try_lock
from bygones.store.local_reader import LocalReader
from bygones.store.protocols import StoreReader

_PRIVATE_FOLDER = 0o700
_TEMP_NAME = re.compile(rf"{re.escape(TEMP_FILE_PREFIX)}[0-9a-f]{{16}}")
_NEW_FILE_FLAGS = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


class TargetState(StrEnum):
    """What stands at the place of a file that is to be restored."""

    NEW = "new"
    """Nothing."""
    SAME = "same"
    """The very same bytes."""
    DIFFERS = "differs"
    """Something else."""
    DAMAGED = "damaged"
    """Something with which the archive's own bytes, being damaged, do not compare."""
    TAKEN = "taken"
    """Another file that is restored with it, and goes there first."""
    OUTSIDE = "outside"
    """Whatever it is: the name leads out of the home, and nothing goes there."""


class WriteResult(Struct, frozen=True, kw_only=True):
    """What became of a file that was to be put into its place."""

    target_state: TargetState
    """What stood there in the end, however it was when that was planned."""
    size: int
    backup_copy: Path | None = None
    """Where that was put, if it had to give way."""

    @property
    def is_written(self) -> bool:
        """Whether the file is there by our doing."""
        return self.target_state is TargetState.NEW or self.backup_copy is not None


def write_file(
    path: Path,
    parts: Iterable[bytes],
    mtime_ns: int,
    written: set[tuple[int, int]],
    *,
    overwrite: bool,
) -> WriteResult:
    """Write a file beside its place, and move it there when it is whole.

    Whoever else does the same at this moment has a file of their own, and what they
    put there is looked at again: never is anything replaced that is not known, nor,
    even with ``overwrite``, what is among ``mine``, the files put before it.
    """
    _make_folder(path.parent)
    beside, handle = _create_temp_file(path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            size = sum(file.write(raw) for raw in parts)
            file.flush()
            os.fsync(file.fileno())
            os.utime(beside, ns=(mtime_ns, mtime_ns))
            identity = _identity(os.fstat(file.fileno()))
            if os.name == "nt":  # pragma: no cover (an open file cannot be moved there)
                file.close()
            found, copy = _move_into_place(beside, path, written, overwrite=overwrite)
    finally:
        with suppress(OSError):  # what is left is swept up next time
            beside.unlink(missing_ok=True)
    put = WriteResult(target_state=found, size=size, backup_copy=copy)
    if put.is_written:
        written.add(identity)
    return put


def remove_leftovers(folder: Path) -> None:
    """Remove what those who were killed have left beside files in a folder."""
    if os.name == "nt":  # pragma: no cover (there, nothing tells it from one in use)
        return
    with suppress(OSError), os.scandir(folder) as found:
        for one in found:
            if _TEMP_NAME.fullmatch(one.name) and one.is_file(follow_symlinks=False):
                _remove_leftover(Path(one.path))


def _remove_leftover(path: Path) -> None:
    with suppress(OSError):
        handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        try:
            if try_lock(handle):
                path.unlink()
        finally:
            os.close(handle)


def _make_folder(folder: Path) -> None:
    for above in (*reversed(folder.parents), folder):
        if not above.exists():
            above.mkdir(mode=_PRIVATE_FOLDER, exist_ok=True)


def _create_temp_file(folder: Path) -> tuple[Path, int]:
    """Make a file that nobody else writes to, and that is held as long as it is open.

    Its name is of a length that any folder takes, whatever the file's own is.
    """
    while True:
        path = folder / f"{TEMP_FILE_PREFIX}{token_hex(8)}"
        handle = os.open(path, _NEW_FILE_FLAGS, 0o600)
        lock_file(handle)
        if path.exists():
            return path, handle
        os.close(handle)  # somebody swept it up before it was held


def _move_into_place(
    temp_path: Path, path: Path, written: set[tuple[int, int]], *, overwrite: bool
) -> tuple[TargetState, Path | None]:
    if _link_if_free(temp_path, path):
        return TargetState.NEW, None
    if _identity(path.lstat()) in written:
        return TargetState.SAME if _is_equal(
            path, temp_path
        ) else TargetState.TAKEN, None
    if not overwrite:
        return TargetState.SAME if _is_equal(
            path, temp_path
        ) else TargetState.DIFFERS, None
    copy = _backup_copy(path)
    if _is_equal(copy, temp_path):
        copy.unlink()
        return TargetState.SAME, None
    temp_path.replace(path)
    return TargetState.DIFFERS, copy


def _link_if_free(temp_path: Path, path: Path) -> bool:
    """Give a file its name unless something has it, be it since a moment ago."""
    try:
        os.link(temp_path, path)
    except FileExistsError:
        return False
    except OSError:  # not every file system knows links
        if os.path.lexists(path):
            return False
        temp_path.replace(path)
    return True


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _is_equal(path: Path, other: Path) -> bool:
    return path.is_file() and cmp(path, other, shallow=False)


def _backup_copy(path: Path) -> Path:
    """Give a file that stands in the way a second name, which nothing else has."""
    for number in count():
        copy = path.with_name(
            f"{path.name}{REPLACED_FILE_SUFFIX}{f'-{number}' if number else ''}"
        )
        if os.path.lexists(copy):
            continue
        try:
            os.link(path, copy, follow_symlinks=False)
        except FileExistsError:
            continue
        except OSError:  # not every file system knows links
            shutil.copy2(path, copy, follow_symlinks=False)
        return copy
    raise AssertionError


_GENERATION_COLUMNS = (
    "kept",
    "size",
    "mtime_ns",
    "ctime_ns",
    "inode",
    "head",
    "tail",
    "rest",
)


def older_generation(
    archive_db: ArchiveDB, stored_source: StoredSource, generations_back: int
) -> StoredSource | None:
    """Return a source as it was before it was begun anew so many times."""
    if generations_back == 0:
        return stored_source
    generation = stored_source.generation - generations_back
    if generation < 0:
        return None
    sql = f"SELECT {', '.join(_GENERATION_COLUMNS)} FROM generation"  # noqa: S608 (our names)
    place = (stored_source.number, generation)
    row = fetch_one(archive_db.db, f"{sql} WHERE source = ? AND generation = ?", place)
    if row is None:
        return None
    known = dict(zip(_GENERATION_COLUMNS, row, strict=True))
    stored_bytes = known.pop("kept")
    return structs.replace(
        stored_source, generation=generation, stored_bytes=stored_bytes, **known
    )


LineRewriter = Callable[[bytes], bytes]
"""Returns a line of a transcript as it shall be written."""

_FATAL_ERRNOS = frozenset({ENOSPC, EDQUOT, EROFS})
"""What the next file will meet with too."""


class PlannedFile(Struct, frozen=True, kw_only=True):
    """A file that would be written, and what stands in the way."""

    number: int
    generation: int
    generations_back: int = 0
    """How many generations before the newest."""
    path: str
    size: int
    state: TargetState


class RestoreResult(Struct, kw_only=True):
    """What a restore wrote."""

    written: int = 0
    same: int = 0
    skipped: list[str] = []
    """Files that differ and were left alone."""
    damaged: list[str] = []
    """Files that could not be written: their bytes in the archive are damaged."""
    refused: list[tuple[str, str]] = []
    """Files that were not written, and why: the system said so, or another was."""
    bytes: int = 0
    copies: list[str] = []
    """Where files that stood in the way were put."""


def plan_restore(  # noqa: PLR0913 (all but two by name and optional)
    archive_dir: ArchiveDir,
    sources: Iterable[StoredSource],
    *,
    target: Path | None = None,
    project: str | None = None,
    rewrite: LineRewriter | None = None,
    generations_back: int = 0,
) -> list[PlannedFile]:
    """Return what a restore would do: to the old places, or below ``to``.

    ``project`` is the directory that the project lies in now: its transcripts go to
    the folder in which Claude Code looks for it. Files of several homes get a folder
    each below ``to``. With ``steps``, files are written as they were before they were
    rewritten so many times, and those that were not are left out. Of files that would
    go to one place, the newest does.
    """
    found = (
        older_generation(archive_dir.byte_store, kept, generations_back)
        for kept in sources
    )
    chosen = [kept for kept in found if kept is not None]
    several = len({kept.home for kept in chosen}) > 1
    folders = (
        name_home_folders(archive_dir.byte_store.homes()) if target and several else {}
    )
    plans = []
    taken: set[Path] = set()
    # Where two copies would meet in one folder, the newest has the better claim.
    for kept in sorted(chosen, key=lambda kept: -kept.mtime_ns):
        home = str(target / folders.get(kept.home, "")) if target else None
        if escapes_home(kept.path):
            plans.append(
                _plan_file(kept, kept.path, TargetState.OUTSIDE, generations_back)
            )
            continue
        path = target_path(kept, home, project)
        if path in taken:
            path = target_path(kept, home)
        state = _target_state(
            archive_dir, kept, path, rewrite=rewrite, generations_back=generations_back
        )
        if path in taken:
            state = TargetState.TAKEN
        taken.add(path)
        plans.append(_plan_file(kept, str(path), state, generations_back))
    # Whichever goes to a place first stays before those that would follow it.
    return sorted(plans, key=lambda plan: plan.path)


def _plan_file(
    stored_source: StoredSource, path: str, state: TargetState, generations_back: int
) -> PlannedFile:
    return PlannedFile(
        number=stored_source.number,
        generation=stored_source.generation,
        generations_back=generations_back,
        path=path,
        size=stored_source.size,
        state=state,
    )


def _target_state(
    archive_dir: ArchiveDir,
    stored_source: StoredSource,
    path: Path,
    *,
    rewrite: LineRewriter | None,
    generations_back: int,
) -> TargetState:
    if not os.path.lexists(path):
        return TargetState.NEW
    if not path.is_file():
        return TargetState.DIFFERS
    try:
        # Of one moment: a small chunk gives way to a longer one while others write.
        with archive_dir.byte_store.read_transaction():
            now = archive_dir.byte_store.source(stored_source.number) or stored_source
            now = (
                older_generation(archive_dir.byte_store, now, generations_back)
                or stored_source
            )
            if rewrite is None and path.stat().st_size != now.size:
                return TargetState.DIFFERS
            return _compare_file(path, _bytes_to_write(archive_dir, now, rewrite))
    except ArchiveDamaged:
        return TargetState.DAMAGED


def _compare_file(path: Path, parts: Iterable[bytes]) -> TargetState:
    with path.open("rb") as file:
        for raw in parts:
            if file.read(len(raw)) != raw:
                return TargetState.DIFFERS
        return TargetState.DIFFERS if file.read(1) else TargetState.SAME


def restore(
    archive_dir: ArchiveDir,
    plans: Sequence[PlannedFile],
    *,
    overwrite: bool = False,
    rewrite: LineRewriter | None = None,
    progress: ProgressReporter | None = None,
) -> RestoreResult:
    """Carry out a plan; what differs is left alone unless told, and then copied.

    A file is written whole beside its place and then moved there, so that nobody
    ever sees half of it; one whose bytes are damaged is not written at all. What the
    system refuses is told, and the rest is written. A file that was written is not
    replaced by another of the same plan.
    """
    done = RestoreResult()
    folders: set[Path] = set()
    mine: set[tuple[int, int]] = set()
    progress = progress or NullProgress()
    plans = _without_escaping(plans, done)
    progress.begin("restoring", sum(plan.size for plan in plans))
    for folder in {Path(plan.path).parent for plan in plans}:
        remove_leftovers(folder)
    for plan in plans:
        kept = archive_dir.byte_store.source(plan.number)
        if kept is None:
            continue
        if plan.state is TargetState.SAME:
            done.same += 1
        elif plan.state is TargetState.DIFFERS and not overwrite:
            done.skipped.append(plan.path)
        else:
            try:
                with archive_dir.byte_store.read_transaction():
                    now = archive_dir.byte_store.source(plan.number) or kept
                    now = (
                        older_generation(
                            archive_dir.byte_store, now, plan.generations_back
                        )
                        or now
                    )
                    put = write_file(
                        Path(plan.path),
                        _bytes_to_write(archive_dir, now, rewrite),
                        now.mtime_ns,
                        mine,
                        overwrite=overwrite and plan.state is not TargetState.TAKEN,
                    )
                folders.add(Path(plan.path).parent)
                _record_outcome(done, plan, put)
            except ArchiveDamaged:
                done.damaged.append(plan.path)
            except OSError as error:
                if error.errno in _FATAL_ERRNOS:
                    raise
                done.refused.append((plan.path, error.strerror or str(error)))
        progress.advance(plan.size)
    for folder in folders:
        fsync_folder(folder)
    progress.end()
    return done


def _without_escaping(
    plans: Iterable[PlannedFile], result: RestoreResult
) -> list[PlannedFile]:
    """Return what has a place in its home; the rest is refused."""
    found = []
    for plan in plans:
        if plan.state is TargetState.OUTSIDE:
            result.refused.append((plan.path, "the name leads out of the home"))
        else:
            found.append(plan)
    return found


def _record_outcome(
    result: RestoreResult, plan: PlannedFile, outcome: WriteResult
) -> None:
    if outcome.is_written:
        result.written += 1
        result.bytes += outcome.size
        result.copies += [str(outcome.backup_copy)] if outcome.backup_copy else []
    elif outcome.target_state is TargetState.SAME:
        result.same += 1
    elif TargetState.TAKEN in (outcome.target_state, plan.state):
        result.refused.append((plan.path, "another copy of it goes there"))
    else:
        result.skipped.append(plan.path)


def _bytes_to_write(
    archive_dir: ArchiveDir, stored_source: StoredSource, rewrite: LineRewriter | None
) -> Iterator[bytes]:
    """Yield the bytes to write: those archived, unless somebody wants them changed."""
    raws = read_stored_bytes(archive_dir, stored_source)
    if rewrite is None or not stored_source.kind.is_transcript:
        return raws
    return map(rewrite, iter_lines(raws))


def read_stored_bytes(
    archive_dir: ArchiveDir, stored_source: StoredSource
) -> Iterator[bytes]:
    """Yield all that is kept of a source, its unfinished last line too."""
    for _, raw in archive_dir.byte_store.read_chunks(
        stored_source.number, stored_source.generation
    ):
        yield raw
    fragment = archive_dir.byte_store.fragment(
        stored_source.number, stored_source.generation
    )
    if fragment:
        yield fragment


def read_source(reader: StoreReader, source: SourceId) -> Iterator[bytes]:
    """Yield all that is kept of a source; of a team's, what is whole of it."""
    kept = reader.byte_store.source_by_id(source)
    if kept is None:
        return iter(())
    if isinstance(reader, LocalReader):
        return read_stored_bytes(reader.archive_dir, kept)
    found = reader.byte_store.try_read_chunks(kept.number, kept.generation)
    behind = reader.byte_store.fragment(kept.number, kept.generation)
    return chain((raw for _, raw in found if raw is not None), [behind])
