"""What a verification finds: damage, gaps, and where an index lies."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from bygones.errors import ArchiveDamaged, IndexBusy
from bygones.ingest.indexer import fill_index
from bygones.model.progress import IngestReport, NullProgress, ProgressReporter
from bygones.model.reports import LastVerification
from bygones.store.archive_db import ARCHIVE_FILE, ArchiveDB, Chunk, StoredSource
from bygones.store.archive_dir import ArchiveDir
from bygones.store.compare import hash_tables
from bygones.store.connect import find_corruption, is_locked, translate_read_errors
from bygones.store.derived_tables import DerivedTables
from bygones.store.local_reader import load_readable_sources


class Damage(Struct, frozen=True):
    """Bytes of a source that are not what was stored."""

    source: str
    generation: int
    start: int
    stop: int
    reason: str


class VerificationResult(Struct, kw_only=True):
    """What a verification found."""

    sources: int = 0
    chunks: int = 0
    bytes: int = 0
    damages: list[Damage] = []
    gaps: list[Damage] = []
    """Stretches of a source that no chunk holds."""
    database: str = "ok"
    """What SQLite says about the file."""
    has_index: bool = True
    """Whether there is an index without damaged pages; another can be made."""
    is_index_current: bool = True
    """Whether the index has seen all of the archive; the next ingestion sees to it."""
    is_index_compared: bool = False
    """Whether the index was compared with a rebuild of it, which is to be asked for."""
    is_busy: bool = False
    """Whether it was not, or there is none, because somebody writes."""
    differences: list[str] = []
    """Tables in which the index is not what a rebuild gives."""
    is_saved: bool = True
    """Whether that could be written down, if it was to be."""

    @property
    def is_sound(self) -> bool:
        """Whether nothing was found."""
        found = (*self.damages, *self.gaps, *self.differences)
        return not found and self.database == "ok"

    @property
    def intact_sources(self) -> int:
        """How many sources have nothing wrong with them."""
        return self.sources - len({bad.source for bad in (*self.damages, *self.gaps)})


_VERIFICATION_FILE = "verified.json"
_MAX_FILE_BYTES = 64 * 1024


class _SavedVerification(Struct, frozen=True):
    inode: int
    """Of the archive's file that was verified."""
    archive: str
    """The archive's own name: a file that is copied over another keeps its inode."""
    kept: int
    """Bytes that it kept then; it never keeps fewer, but for a purge."""
    found: LastVerification


def save_verification(
    archive_db: ArchiveDB, result: VerificationResult, *, now: datetime
) -> bool:
    """Note what a verification found; return whether that could be written."""
    folder = archive_db.path.parent
    found = LastVerification(
        verified_at=now,
        is_sound=result.is_sound,
        is_deep=result.is_index_compared,
        source_count=result.sources,
        verified_bytes=result.bytes,
        damage_count=len(result.damages) + len(result.gaps) + len(result.differences),
    )
    beside = folder / f"{_VERIFICATION_FILE}.{os.getpid()}"
    try:
        note = _SavedVerification(
            _inode(folder),
            archive_db.archive_id,
            _total_stored_bytes(archive_db),
            found,
        )
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(msgspec.json.encode(note))
        beside.replace(folder / _VERIFICATION_FILE)
    except OSError:
        return False
    return True


def load_last_verification(
    folder: Path, archive_db: ArchiveDB
) -> LastVerification | None:
    """Return what is known of the last verification of this very archive."""
    path = folder / _VERIFICATION_FILE
    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            return None
        note = msgspec.json.decode(path.read_bytes(), type=_SavedVerification)
        is_same = (note.inode, note.archive) == (_inode(folder), archive_db.archive_id)
    except (OSError, ValueError):
        return None
    kept = archive_db.total_stored_bytes()
    if not is_same or kept < note.kept:
        return None
    since = max(kept - note.found.verified_bytes, 0)
    return structs.replace(note.found, unverified_bytes=since)


def remove_verification(folder: Path) -> None:
    """Remove the note: the archive is about to be another."""
    (folder / _VERIFICATION_FILE).unlink(missing_ok=True)


def _total_stored_bytes(archive_db: ArchiveDB) -> int:
    try:
        return archive_db.total_stored_bytes()
    except ArchiveDamaged:
        return 0  # which is what is noted


def _inode(folder: Path) -> int:
    return (folder / ARCHIVE_FILE).stat().st_ino


_COMPARE_ATTEMPTS, _RETRY_SECONDS = 50, 0.1
"""How often it is looked whether all is level, and seconds from one to the next."""


def verify(
    folder: Path,
    *,
    deep: bool = False,
    progress: ProgressReporter | None = None,
    now: datetime | None = None,
) -> VerificationResult:
    """Check the hash of every chunk; with ``deep`` also the index against a rebuild.

    Damage does not end it: all that is whole is told from all that is not. Whoever
    says what time it is ``now`` has it noted beside the archive.
    """
    progress = progress or NullProgress()
    verdict = VerificationResult(damages=[], gaps=[], differences=[])
    with ArchiveDir(folder) as vault:
        verdict.has_index = vault.index is not None and not find_corruption(
            vault.index.db
        )
        verdict.database = vault.byte_store.check_integrity()
        _check_sources(vault, verdict, progress)
        with vault.read_transaction():
            verdict.is_index_current = _is_index_current(vault)
        verdict.is_busy = vault.index is None and is_locked(folder)
        if deep and verdict.is_sound and vault.index is not None:
            _compare_when_current(folder, verdict, progress)
        if now is not None:
            verdict.is_saved = save_verification(vault.byte_store, verdict, now=now)
    return verdict


def _check_sources(
    archive_dir: ArchiveDir, result: VerificationResult, progress: ProgressReporter
) -> None:
    sources, lost = load_readable_sources(archive_dir.byte_store)
    for number in lost:
        result.sources += 1
        place = f"source {number}"
        result.damages.append(Damage(place, 0, 0, 0, "what it was cannot be read"))
    progress.begin("verifying", sum(kept.stored_bytes for kept in sources))
    for kept in sources:
        result.sources += 1
        for generation in range(kept.generation + 1):
            end = 0
            try:
                with archive_dir.byte_store.read_transaction():
                    for chunk, reason in archive_dir.byte_store.verify_chunks(
                        kept.number, generation
                    ):
                        _check_chunk(result, kept, chunk, end=end, reason=reason)
                        end = chunk.stop
                        progress.advance(chunk.stop - chunk.start)
                    expected = archive_dir.byte_store.generation_stored_bytes(
                        kept.number, generation
                    )
                    if end != expected:
                        gap = Damage(
                            kept.id, generation, end, expected, "the end is missing"
                        )
                        result.gaps.append(gap)
                    archive_dir.byte_store.fragment(kept.number, generation)
            except ArchiveDamaged as error:
                bad = Damage(kept.id, generation, end, kept.size, error.detail)
                result.damages.append(bad)
    progress.end()


def _check_chunk(
    result: VerificationResult,
    stored_source: StoredSource,
    chunk: Chunk,
    *,
    end: int,
    reason: str,
) -> None:
    result.chunks += 1
    result.bytes += chunk.stop - chunk.start
    place = (stored_source.id, chunk.generation)
    if chunk.start != end:
        gap = Damage(*place, end, chunk.start, "no chunk holds these bytes")
        result.gaps.append(gap)
    if reason:
        result.damages.append(Damage(*place, chunk.start, chunk.stop, reason))


def _is_index_current(archive_dir: ArchiveDir) -> bool:
    """Whether no ingestion was stopped before it came to the index."""
    index = archive_dir.index
    if index is None:
        return True
    try:
        with translate_read_errors(archive_dir.folder):
            seen = index.load_indexed_sources()
            behind = (
                kept.number not in seen or seen[kept.number].is_behind(kept)
                for kept in archive_dir.byte_store.sources()
            )
            return not any(behind) and not DerivedTables(index).dirty_sessions()
    except ArchiveDamaged:
        return True  # which a comparison tells better


def _compare_when_current(
    folder: Path, result: VerificationResult, progress: ProgressReporter
) -> None:
    """Compare the index as it is when it has seen all; that may take some looks.

    Who writes does so to the archive first, to the index then and to the words last.
    """
    idle = 0
    for _ in range(_COMPARE_ATTEMPTS):
        is_free = not is_locked(folder)
        try:
            with ArchiveDir(folder) as vault:
                found = _compare_with_rebuild(vault, progress)
        except IndexBusy:
            break
        result.is_index_current = result.is_index_compared = found is not None
        if found is not None:
            result.differences = found
            return
        idle += is_free and not is_locked(folder)
        if idle > 1:  # nobody is about to see to it
            return
        time.sleep(_RETRY_SECONDS)
    result.is_busy = True


def _compare_with_rebuild(
    archive_dir: ArchiveDir, progress: ProgressReporter
) -> list[str] | None:
    """Return the tables in which the index is not what a rebuild of it gives.

    Nothing is returned where it has not seen all of the archive.
    """
    # A reader of the copy may look for news once more while it is removed.
    with tempfile.TemporaryDirectory(
        prefix="bygones-", ignore_cleanup_errors=True
    ) as scratch:
        copy = Path(scratch) / "archive"
        copy.mkdir(mode=0o700)
        try:
            with (
                translate_read_errors(archive_dir.folder),
                archive_dir.consistent_read() as is_level,
            ):
                if not is_level or not _is_index_current(archive_dir):
                    return None
                mine = hash_tables(archive_dir)
                archive_dir.byte_store.backup(copy / archive_dir.byte_store.path.name)
        except ArchiveDamaged:
            return ["everything"]
        with ArchiveDir(copy, write=True) as other:
            other.begin_index_build()
            fill_index(other, IngestReport(problems=[]), progress)
            theirs = hash_tables(other)
        shutil.rmtree(copy)
    return [table for table in sorted(mine) if mine[table] != theirs[table]]
