"""Repair an archive: read damaged bytes again from files that still contain them.

A chunk is only replaced by bytes with its hash. If its hash is lost too, it is read from a
file whose start, end and other chunks are those of the archive. If the database itself is
damaged, a new one is written with all rows that are left; the damaged file stays beside it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path

from msgspec import Struct, structs

from bygones.errors import (
    ArchiveDamaged,
    ArchiveEmpty,
    ArchiveNotFound,
    ArchiveNotOwned,
    NothingRecovered,
    SessionsNotIndexed,
)
from bygones.ingest.indexer import rebuild_index
from bygones.maintenance.damaged_parts import (
    DamagedPart,
    OtherCopies,
    find_damaged_parts,
)
from bygones.maintenance.salvaged_archive import SalvagedArchive, add_lost_generations
from bygones.maintenance.verify import remove_verification
from bygones.model.base import NullProgress, ProgressReporter
from bygones.store.archive_db import ARCHIVE_FILE, ArchiveDB
from bygones.store.archive_dir import ArchiveDir
from bygones.store.archive_repair import (
    accept_loss,
    correct_ranges,
    forget_fingerprint,
    replace_frame,
)
from bygones.store.compression import compress_and_hash
from bygones.store.connect import fsync_folder, remove_database, writer_lock
from bygones.store.local_reader import load_readable_sources

_REPAIRED_FOLDER = "repairing"
_DAMAGED_SUFFIX = ".damaged"
_WAL_SUFFIX = "-wal"


class RepairResult(Struct, kw_only=True):
    """What a repair did, and what is still damaged."""

    recovered: list[DamagedPart] = []
    lost: list[DamagedPart] = []
    """What is damaged, and was not found anywhere."""
    accepted: list[DamagedPart] = []
    """What the user accepted as lost, and was not found anywhere."""
    corrected_count: int = 0
    """Files with wrong or missing lengths or offsets of intact bytes."""
    damaged_copy: Path | None = None
    """The damaged database, if a new one was written."""
    source_count: int = 0
    is_index_rebuilt: bool = False
    failure: SessionsNotIndexed | None = None
    """Which sessions could not be indexed again."""

    @property
    def recovered_bytes(self) -> int:
        return count_bytes(self.recovered)

    @property
    def lost_bytes(self) -> int:
        return count_bytes(self.lost)


def count_bytes(parts: Iterable[DamagedPart]) -> int:
    """Return how many bytes some parts have."""
    return sum(part.stop - part.start for part in parts)


def repair_archive(
    folder: Path,
    *,
    others: Sequence[Path] = (),
    progress: ProgressReporter | None = None,
    lock_timeout: float = 5.0,
) -> RepairResult:
    """Repair the archive in a folder as far as possible.

    Damaged bytes are looked for in the original files, and in ``others``: backups, and
    folders with copies of the files.

    Raises `NothingRecovered` if the file contains nothing of an archive.
    """
    if not ArchiveDir.exists(folder):
        raise ArchiveNotFound(folder)
    result = RepairResult(recovered=[], lost=[], accepted=[])
    progress = progress or NullProgress()
    with writer_lock(folder, timeout=lock_timeout):
        if _is_database_damaged(folder):
            result.damaged_copy = _salvage(folder)
        with ArchiveDir(folder, write=True) as archive_dir:
            _recover_parts(archive_dir.byte_store, others, result)
            result.source_count = len(list(archive_dir.byte_store.sources()))
            is_changed = bool(
                result.recovered or result.damaged_copy or result.corrected_count
            )
            if is_changed or archive_dir.index is None:
                result.failure = rebuild_index(archive_dir, progress).failure
                result.is_index_rebuilt = True
            if result.lost:
                archive_dir.save_checksum("")  # the next ingestion looks at all files
        if is_changed or result.is_index_rebuilt:
            remove_verification(folder)
    return result


def accept_losses(
    folder: Path,
    parts: Iterable[DamagedPart],
    *,
    progress: ProgressReporter | None = None,
    lock_timeout: float = 5.0,
) -> RepairResult:
    """Mark damaged parts as lost; return those that are marked, with the time.

    Call it after `repair_archive`, with what is lost. Nothing is deleted, and a later
    repair recovers the bytes if it finds a copy.
    """
    chosen = {part.place for part in parts}
    with (
        writer_lock(folder, timeout=lock_timeout),
        ArchiveDir(folder, write=True) as archive_dir,
    ):
        archive_db = archive_dir.byte_store
        damaged = [
            part
            for part in find_damaged_parts(archive_db)
            if not part.lost_ns and part.place in chosen
        ]
        with archive_db.db:
            for part in damaged:
                accept_loss(archive_db, part.as_chunk())
        archive_db.clear_cache()
        remove_verification(folder)
        report = rebuild_index(archive_dir, progress or NullProgress())
        accepted = [
            part
            for part in find_damaged_parts(archive_db)
            if part.lost_ns and part.place in chosen
        ]
        return RepairResult(
            accepted=accepted, is_index_rebuilt=True, failure=report.failure
        )


def _recover_parts(
    archive_db: ArchiveDB, others: Sequence[Path], result: RepairResult
) -> None:
    with archive_db.db:
        result.corrected_count = add_lost_generations(archive_db)
        result.corrected_count += correct_ranges(archive_db)
    archive_db.clear_cache()
    parts = list(find_damaged_parts(archive_db))
    with closing(OtherCopies(archive_db, others)) as copies, archive_db.db:
        for part in parts:
            if _recover(archive_db, copies, part):
                result.recovered.append(part)
                continue
            if part.lost_ns:
                result.accepted.append(part)
                continue
            result.lost.append(part)
            if part.generation == part.source.generation:
                # If the file exists, the next ingestion reads all of it again.
                forget_fingerprint(archive_db, part.source)
    archive_db.clear_cache()


def _recover(archive_db: ArchiveDB, copies: OtherCopies, part: DamagedPart) -> bool:
    """Replace a damaged part if there is a copy of it."""
    number, generation = part.source.number, part.generation
    if not part.hash:
        chunks = copies.find_chunks(part)
        if chunks and part.chunk:  # a mark without a hash
            archive_db.delete_chunk(part.chunk)
        source = structs.replace(part.source, generation=generation)
        for start, frame, size in chunks:
            archive_db.add_chunk(source, start, start + size, frame)
        if chunks or part.start < archive_db.generation_stored_bytes(
            number, generation
        ):
            return bool(chunks)
        line = copies.find_last_line(part)
        if line:
            archive_db.set_fragment(source, part.start, line)
        return bool(line)
    raw = copies.find(part)
    if raw is not None:
        _, compressed = compress_and_hash(raw)
        replace_frame(archive_db, part.as_chunk(), compressed)
    return raw is not None


def _is_database_damaged(folder: Path) -> bool:
    """Whether SQLite can't read all of the database."""
    try:
        with closing(ArchiveDB(folder)) as archive_db:
            return bool(
                archive_db.check_integrity() != "ok"
                or load_readable_sources(archive_db)[1]
            )
    except ArchiveEmpty:
        raise
    except (ArchiveDamaged, ArchiveNotOwned):
        return True  # what identifies it may be damaged


def _salvage(folder: Path) -> Path:
    """Write a new database with what is left of the old one; return the old one."""
    path = folder / ARCHIVE_FILE
    temp_folder = folder / _REPAIRED_FOLDER
    temp_path = temp_folder / ARCHIVE_FILE
    remove_database(temp_path)
    with closing(ArchiveDB(temp_folder, write=True)) as target:
        salvaged = SalvagedArchive(target)
        salvaged.copy_from(path, _find_wal(path))
        target.checkpoint_wal()
    if not salvaged.row_count:
        remove_database(temp_path)
        temp_folder.rmdir()
        raise NothingRecovered(path, "it contains nothing of an archive")
    damaged = _free_name(path)
    os.link(path, damaged)
    wal = Path(f"{path}{_WAL_SUFFIX}")
    if wal.exists():
        os.link(wal, f"{damaged}{_WAL_SUFFIX}")
    fsync_folder(folder)
    # SQLite would apply the old log to the new file.
    remove_database(path, only_journals=True)
    remove_database(temp_path, only_journals=True)
    temp_path.replace(path)
    temp_folder.rmdir()
    fsync_folder(folder)
    return damaged


def _free_name(path: Path) -> Path:
    number = 1
    while (name := path.with_name(f"{path.name}{_DAMAGED_SUFFIX}-{number}")).exists():
        number += 1
    return name


def _find_wal(path: Path) -> Path | None:
    """Return the log of a database; an interrupted repair may have renamed it."""
    copies = path.parent.glob(f"{path.name}{_DAMAGED_SUFFIX}-?")
    for place in (path, *(copy for copy in copies if copy.samefile(path))):
        wal = Path(f"{place}{_WAL_SUFFIX}")
        if wal.exists():
            return wal
    return None
