"""Verify an archive (hashes, gaps, index), and rebuild its index."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from bygones.errors import (
    ArchiveDamaged,
    ArchiveNotFound,
    BytesLost,
    IndexBusy,
    IndexDamaged,
    SessionsNotIndexed,
)
from bygones.ingest.indexer import fill_index, rebuild_index
from bygones.maintenance.damaged_parts import find_damaged_parts, find_recoverable
from bygones.maintenance.indexed_words import IndexedWords
from bygones.model.base import IngestReport, NullProgress, ProgressReporter
from bygones.model.reports import LastVerification
from bygones.store.archive_db import ARCHIVE_FILE, ArchiveDB, Chunk, StoredSource
from bygones.store.archive_dir import ArchiveDir, hash_tables
from bygones.store.archive_repair import (
    find_lost_generations,
    find_wrong_ranges,
    missing_fragment,
)
from bygones.store.connect import (
    find_corruption,
    is_locked,
    translate_read_errors,
    writer_lock,
)
from bygones.store.derived_tables import DerivedTables
from bygones.store.index_seal import find_damaged_files
from bygones.store.local_reader import load_readable_sources


class Damage(Struct, frozen=True):
    """Bytes of a source that are damaged."""

    source: str
    generation: int
    start: int
    stop: int
    reason: str
    accepted_at: datetime | None = None
    """When the user accepted that the bytes are lost."""


class VerificationResult(Struct, kw_only=True):
    """What a verification found."""

    sources: int = 0
    chunks: int = 0
    bytes: int = 0
    damages: list[Damage] = []
    gaps: list[Damage] = []
    """Ranges of a source that no chunk contains."""
    accepted: list[Damage] = []
    """What is damaged too, but the user accepted it as lost."""
    database: str = "ok"
    """The result of SQLite's own check."""
    has_index: bool = True
    """Whether there is an index without damaged pages."""
    is_index_current: bool = True
    """Whether the index covers the whole archive; the next import updates it."""
    is_index_compared: bool = False
    """Whether the index was compared with a rebuilt one."""
    is_busy: bool = False
    """Whether a writer prevented the comparison."""
    failure: SessionsNotIndexed | None = None
    """Which sessions prevented the comparison: they cannot be indexed."""
    index_damages: list[str] = []
    """Files of the index that are damaged or missing."""
    differences: list[str] = []
    """Parts of the index that are damaged, or differ from those of a rebuilt one."""
    recoverable_count: int = 0
    """Damaged parts that the original files still contain."""
    correctable_count: int = 0
    """Versions of files with wrong or missing offsets of intact bytes."""
    is_saved: bool = True
    """Whether the result could be saved, if requested."""

    @property
    def is_intact(self) -> bool:
        """Whether no problem was found, except accepted losses."""
        found = (*self.damages, *self.gaps, *self.differences)
        return not found and self.database == "ok"

    @property
    def intact_sources(self) -> int:
        """The number of sources without problems."""
        damages = (*self.damages, *self.gaps, *self.accepted)
        return self.sources - len({bad.source for bad in damages})


_VERIFICATION_FILE = "verified.json"
_MAX_FILE_BYTES = 64 * 1024


class _SavedVerification(Struct, frozen=True):
    inode: int
    """The inode of the archive file."""
    archive: str
    """The id of the archive: a file that is overwritten keeps its inode."""
    kept: int
    """The bytes it stored then; only a purge makes them fewer."""
    found: LastVerification


def save_verification(
    archive_db: ArchiveDB, result: VerificationResult, *, now: datetime
) -> bool:
    """Save the result of a verification; return whether that was possible."""
    folder = archive_db.path.parent
    summary = LastVerification(
        verified_at=now,
        is_intact=result.is_intact,
        is_deep=result.is_index_compared,
        source_count=result.sources,
        verified_bytes=result.bytes,
        damage_count=len(result.damages) + len(result.gaps) + len(result.differences),
        accepted_bytes=sum(one.stop - one.start for one in result.accepted),
    )
    temp_path = folder / f"{_VERIFICATION_FILE}.{os.getpid()}"
    try:
        note = _SavedVerification(
            _inode(folder),
            archive_db.archive_id,
            _total_stored_bytes(archive_db),
            summary,
        )
        handle = os.open(temp_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(msgspec.json.encode(note))
        temp_path.replace(folder / _VERIFICATION_FILE)
    except OSError:
        return False
    return True


def load_last_verification(
    folder: Path, archive_db: ArchiveDB
) -> LastVerification | None:
    """Return the last verification of this archive, if known."""
    path = folder / _VERIFICATION_FILE
    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            return None
        saved = msgspec.json.decode(path.read_bytes(), type=_SavedVerification)
        is_same = (saved.inode, saved.archive) == (
            _inode(folder),
            archive_db.archive_id,
        )
    except (OSError, ValueError):
        return None
    stored_bytes = archive_db.count_generations()[1]
    if not is_same or stored_bytes < saved.kept:
        return None
    known = saved.found.verified_bytes + saved.found.accepted_bytes
    unverified = max(stored_bytes - known, 0)
    return structs.replace(saved.found, unverified_bytes=unverified)


def remove_verification(folder: Path) -> None:
    """Delete the saved verification, because the archive is going to change."""
    (folder / _VERIFICATION_FILE).unlink(missing_ok=True)


def _total_stored_bytes(archive_db: ArchiveDB) -> int:
    try:
        return archive_db.count_generations()[1]
    except ArchiveDamaged:
        return 0


def _inode(folder: Path) -> int:
    return (folder / ARCHIVE_FILE).stat().st_ino


_COMPARE_ATTEMPTS, _RETRY_SECONDS = 50, 0.1
"""How often to check whether the index is current, and the pause between checks."""


def verify(
    folder: Path,
    *,
    deep: bool = False,
    progress: ProgressReporter | None = None,
    now: datetime | None = None,
) -> VerificationResult:
    """Check the hash of every chunk; with `deep`, compare the index with a rebuilt one.

    Continues after damage, so that the result lists everything that is damaged. If
    `now` is given, the result is saved in the archive's folder.
    """
    progress = progress or NullProgress()
    result = VerificationResult(damages=[], gaps=[], accepted=[], differences=[])
    with ArchiveDir(folder) as archive_dir:
        result.has_index = archive_dir.index is not None and not find_corruption(
            archive_dir.index.db
        )
        result.index_damages = _find_index_damages(archive_dir)
        result.database = archive_dir.byte_store.check_integrity()
        _check_sources(archive_dir, result, progress)
        if result.damages or result.gaps:
            parts = find_damaged_parts(archive_dir.byte_store)
            result.recoverable_count = find_recoverable(archive_dir.byte_store, parts)
        with archive_dir.read_transaction():
            result.is_index_current = is_index_current(archive_dir)
        result.is_busy = archive_dir.index is None and is_locked(folder)
        if deep and result.index_damages:
            result.differences = list(result.index_damages)
        elif deep and result.is_intact and archive_dir.index is not None:
            _compare_when_current(folder, result, progress)
        if now is not None:
            result.is_saved = save_verification(archive_dir.byte_store, result, now=now)
    return result


def _find_index_damages(archive_dir: ArchiveDir) -> list[str]:
    """Return what is wrong with the index without comparing it with another."""
    if archive_dir.index_damage:
        return [archive_dir.index_damage]
    if archive_dir.index_path is None or is_locked(archive_dir.folder):
        return []
    return list(find_damaged_files(archive_dir.index_path))


def _check_sources(
    archive_dir: ArchiveDir, result: VerificationResult, progress: ProgressReporter
) -> None:
    sources, lost = load_readable_sources(archive_dir.byte_store)
    for number in lost:
        result.sources += 1
        name = f"source {number}"
        result.damages.append(Damage(name, 0, 0, 0, "what it was cannot be read"))
    for number, generation in find_lost_generations(archive_dir.byte_store):
        gap = Damage(f"source {number}", generation, 0, 0, "its length is missing")
        result.gaps.append(gap)
        result.correctable_count += 1
    progress.begin("verifying", sum(source.stored_bytes for source in sources))
    for source in sources:
        result.sources += 1
        for generation in range(source.generation + 1):
            end = 0
            try:
                with archive_dir.byte_store.read_transaction():
                    for chunk, reason in archive_dir.byte_store.verify_chunks(
                        source.number, generation
                    ):
                        _check_chunk(result, source, chunk, end=end, reason=reason)
                        end = chunk.stop
                        progress.advance(chunk.stop - chunk.start)
                    expected = archive_dir.byte_store.generation_stored_bytes(
                        source.number, generation
                    )
                    if end != expected:
                        is_short = end < expected
                        reason = (
                            "the end is missing" if is_short else "the length is wrong"
                        )
                        ends = min(end, expected), max(end, expected)
                        result.gaps.append(Damage(source.id, generation, *ends, reason))
                    missing = missing_fragment(
                        archive_dir.byte_store, source.number, generation
                    )
                    if missing is not None:
                        reason = "the unfinished last line is missing"
                        gap = Damage(source.id, generation, *missing, reason)
                        result.gaps.append(gap)
                    archive_dir.byte_store.fragment(source.number, generation)
            except BytesLost as error:
                found = archive_dir.byte_store.fragment_range(source.number, generation)
                start, stop = found[:2] if found else (end, source.size)
                place = (source.id, generation, start, stop)
                result.accepted.append(_accepted_loss(place, error.accepted_ns))
            except ArchiveDamaged as error:
                bad = Damage(source.id, generation, end, source.size, error.detail)
                result.damages.append(bad)
            _check_ranges(archive_dir.byte_store, result, source, generation)
    progress.end()


def _check_ranges(
    archive_db: ArchiveDB,
    result: VerificationResult,
    source: StoredSource,
    generation: int,
) -> None:
    """Add what a repair corrects, unless it is reported as damage of other bytes."""
    try:
        # Chunks that an import replaces meanwhile are not wrong.
        with archive_db.read_transaction():
            updates = find_wrong_ranges(archive_db, source.number, generation)
    except ArchiveDamaged:
        return  # reported already
    if not updates:
        return
    result.correctable_count += 1
    place = (source.id, generation)
    if place not in {(bad.source, bad.generation) for bad in result.gaps}:
        reason = "a recorded offset is wrong"
        result.gaps.append(Damage(*place, 0, source.size, reason))


def _check_chunk(
    result: VerificationResult,
    stored_source: StoredSource,
    chunk: Chunk,
    *,
    end: int,
    reason: str,
) -> None:
    location = (stored_source.id, chunk.generation)
    if not chunk.lost_ns:
        result.chunks += 1
        result.bytes += chunk.stop - chunk.start
    if chunk.start != end:
        gap = Damage(*location, end, chunk.start, "no chunk holds these bytes")
        result.gaps.append(gap)
    if chunk.lost_ns:
        place = (*location, chunk.start, chunk.stop)
        result.accepted.append(_accepted_loss(place, chunk.lost_ns))
    elif reason:
        result.damages.append(Damage(*location, chunk.start, chunk.stop, reason))


def _accepted_loss(place: tuple[str, int, int, int], accepted_ns: int) -> Damage:
    accepted_at = datetime.fromtimestamp(accepted_ns // 10**9, UTC)
    return Damage(*place, "accepted as lost", accepted_at)


def is_index_current(archive_dir: ArchiveDir) -> bool:
    """Whether the index covers the whole archive, and no session is dirty."""
    index = archive_dir.index
    if index is None:
        return True
    try:
        with translate_read_errors(archive_dir.folder):
            indexed = index.load_indexed_sources()
            is_behind = (
                source.number not in indexed or indexed[source.number].is_behind(source)
                for source in archive_dir.byte_store.sources()
            )
            return not any(is_behind) and not DerivedTables(index).dirty_sessions()
    except ArchiveDamaged:
        return True  # the comparison reports it


def _compare_when_current(
    folder: Path, result: VerificationResult, progress: ProgressReporter
) -> None:
    """Compare the index once it is current, which may take several attempts.

    A writer commits to the archive first, then to the index, then to the text index.
    """
    idle = 0
    for _ in range(_COMPARE_ATTEMPTS):
        is_free = not is_locked(folder)
        try:
            with ArchiveDir(folder) as archive_dir:
                differences = _compare_with_rebuild(archive_dir, progress)
        except IndexBusy:
            break
        except SessionsNotIndexed as error:
            result.failure = error
            return
        result.is_index_current = result.is_index_compared = differences is not None
        if differences is not None:
            result.differences = differences
            return
        idle += is_free and not is_locked(folder)
        if idle > 1:  # no writer is going to update it
            return
        time.sleep(_RETRY_SECONDS)
    result.is_busy = True


def _compare_with_rebuild(
    archive_dir: ArchiveDir, progress: ProgressReporter
) -> list[str] | None:
    """Return the tables that differ from those of a rebuilt index.

    Returns `None` if the index is not current.

    :raises SessionsNotIndexed: if the index cannot be rebuilt completely.
    """
    # A reader of the copy may create a file while it is removed.
    with tempfile.TemporaryDirectory(
        prefix="bygones-", ignore_cleanup_errors=True
    ) as scratch:
        copy = Path(scratch) / "archive"
        copy.mkdir(mode=0o700)
        try:
            with (
                translate_read_errors(archive_dir.folder),
                archive_dir.consistent_read() as is_consistent,
            ):
                if not is_consistent or not is_index_current(archive_dir):
                    return None
                current = hash_tables(archive_dir)
                words = IndexedWords(archive_dir)
                archive_dir.byte_store.backup(copy / archive_dir.byte_store.path.name)
        except ArchiveDamaged:
            return ["everything"]
        except IndexDamaged as error:
            return [error.detail]
        with ArchiveDir(copy, write=True) as rebuilt:
            rebuilt.begin_index_build()
            report = IngestReport(problems=[])
            fill_index(rebuilt, report, progress)
            if report.failure is not None:
                raise report.failure
            expected = hash_tables(rebuilt)
            differences = words.differences(IndexedWords(rebuilt))
        shutil.rmtree(copy)
    differences += [one for one in sorted(current) if current[one] != expected[one]]
    return differences


def rebuild(
    folder: Path, *, progress: ProgressReporter | None = None, lock_timeout: float = 5.0
) -> IngestReport:
    """Build a new index and replace the old one; readers are not interrupted."""
    if not ArchiveDir.exists(folder):
        raise ArchiveNotFound(folder)
    ArchiveDB(folder).close()  # raises an error if the file isn't an archive
    with (
        writer_lock(folder, timeout=lock_timeout),
        ArchiveDir(folder, write=True) as archive_dir,
    ):
        return rebuild_index(archive_dir, progress or NullProgress())
