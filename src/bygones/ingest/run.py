"""One ingestion: walk, take what is new, index it, derive what it touches."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from msgspec import structs

from bygones.errors import ArchiveDamaged, IndexDamaged
from bygones.ingest.changes import ChangeDetector, ChangedSource, ScanPlan, plan_scan
from bygones.ingest.indexer import Indexer, derive_sessions, line_block, rebuild_index
from bygones.ingest.workers import WorkerPool
from bygones.memory import gc_paused, trim_heap
from bygones.model.base import Problem, SourceFile
from bygones.model.path_text import decode_path, encode_path
from bygones.model.progress import IngestReport, NullProgress, ProgressReporter
from bygones.sources.fingerprint import fingerprint_bytes
from bygones.sources.lines import read_line_blocks
from bygones.sources.walk import discover_sources
from bygones.store.archive_db import CHUNK_SIZE, ArchiveDB, StoredSource
from bygones.store.archive_dir import ArchiveDir
from bygones.store.compression import CompressionQueue, HashedFrame
from bygones.store.connect import make_private_folder, writer_lock

__all__ = ["ingest"]

COMMIT_BYTES = 256 * 1024 * 1024
"""Bytes after which everything is committed; what memory and a crash can cost."""
COMMIT_INTERVAL = 10.0
"""Seconds after which it is in any case: whoever is interrupted goes on from there."""
_FINGERPRINT_BYTES = 4096
_PERSISTENT_PROBLEMS = frozenset({"link-out", "not-a-file"})
"""Problems that stay until somebody changes the file."""


def ingest(
    folder: Path,
    paths: Sequence[Path],
    *,
    progress: ProgressReporter | None = None,
    lock_timeout: float = 5.0,
    is_thorough: bool = False,
) -> IngestReport:
    """Bring the archive in ``folder`` up to date with homes or other paths.

    Can be stopped at any moment: what was committed stays, and the next ingestion
    goes on from there. One that is thorough compares all that is kept of files that
    grew, however long they are.
    """
    make_private_folder(folder)
    report = IngestReport(problems=[])
    bring_up = partial(
        _run_once, folder, paths, progress or NullProgress(), is_thorough=is_thorough
    )
    with writer_lock(folder, timeout=lock_timeout), gc_paused():
        try:
            bring_up(report=report)
        except IndexDamaged:
            # It has nothing that the archive has not: another is made, once.
            again = IngestReport(problems=[])
            bring_up(report=again, rebuild=True)
            return again.merge_interrupted(report)
        return report


def _run_once(  # noqa: PLR0913 (of one function, done twice if need be)
    folder: Path,
    paths: Sequence[Path],
    progress: ProgressReporter,
    *,
    is_thorough: bool,
    report: IngestReport,
    rebuild: bool = False,
) -> None:
    with ArchiveDir(folder, write=True) as vault:
        if rebuild or (vault.index is None and not vault.byte_store.is_empty):
            rebuild_index(vault, progress)
        look = plan_scan(vault, paths, is_thorough=is_thorough)
        with CompressionQueue() as press, WorkerPool() as readers:
            _IngestRun(vault, press, readers, report, progress=progress).run(
                paths, look, is_thorough=is_thorough
            )
        if vault.index is not None:
            report.session_count, report.empty_count = vault.index.count_sessions()
        # What could not be read may be readable next time, and look the same.
        is_whole = all(
            problem.kind in _PERSISTENT_PROBLEMS for problem in report.problems
        )
        vault.save_checksum(look.checksum if is_whole else "", look.snapshot)
        if is_thorough and not (report.problems or report.refused):
            vault.mark_fully_scanned(look.checksum)


class _IngestRun:
    def __init__(
        self,
        archive_dir: ArchiveDir,
        compression: CompressionQueue,
        workers: WorkerPool,
        report: IngestReport,
        *,
        progress: ProgressReporter,
    ) -> None:
        self._archive_dir = archive_dir
        self._compression = compression
        self._workers = workers
        self._archive_db = archive_dir.byte_store
        self._progress = progress
        self._report = report
        self._uncommitted_bytes = 0
        self._commit_due = time.monotonic() + COMMIT_INTERVAL

    def run(
        self, paths: Sequence[Path], scan_plan: ScanPlan, *, is_thorough: bool
    ) -> None:
        known = (
            list(self._archive_db.sources())
            if scan_plan.stored_sources is None
            else scan_plan.stored_sources
        )
        changes = ChangeDetector(
            self._archive_db, self._report, known, is_thorough=is_thorough
        )
        found = self._find_changes(paths, scan_plan, changes)
        if scan_plan.stored_sources == []:
            self._archive_dir.check_text_index()
            return
        if found or changes.has_other_changes:
            # Until all of it is derived, nobody may think that all is known.
            self._archive_dir.save_checksum("")
        self._indexer = Indexer(self._archive_dir, self._report, self._workers)
        is_walked = scan_plan.stored_sources is None
        self._indexer.prepare(self._progress, known, is_complete=is_walked)
        del known  # there may be a hundred thousand
        total = sum(
            max(change.source.size - change.stored_bytes, 0) for change in found
        )
        self._progress.begin("reading", total)
        self._workers.start_if_worthwhile(total)
        self._archive_db.db.execute("BEGIN IMMEDIATE")
        try:
            changes.save_file_states()
            for kept in changes.touched_sources:
                self._indexer.mark_touched(kept)
            for kept in changes.sources_of_moved_homes:
                self._indexer.reindex(kept)
            found.reverse()
            while found:  # let go one by one: there may be a hundred thousand
                self._ingest_source(found.pop())
            self._commit(is_last=True)
        except BaseException:
            if self._archive_db.db.in_transaction:
                self._archive_db.db.execute("ROLLBACK")
            raise
        self._progress.end()
        derive_sessions(self._archive_dir, self._indexer, self._report, self._progress)

    def _find_changes(
        self, paths: Sequence[Path], scan_plan: ScanPlan, changes: ChangeDetector
    ) -> list[ChangedSource]:
        """Return what changed: by a walk, or among the files that were written."""
        report = self._report
        if scan_plan.modified_sources is None:
            return changes.find_changes(self._walk_homes(paths), paths)
        found = changes.find_changes(
            (source for source, _ in scan_plan.modified_sources), ()
        )
        report.files = self._archive_db.count_present(
            encode_path(p.absolute()) for p in paths
        )
        report.unchanged += report.files - len(scan_plan.modified_sources)
        return found

    def _walk_homes(self, paths: Sequence[Path]) -> Iterable[SourceFile]:
        walked = {os.path.realpath(path) for path in paths}
        for path in paths:
            for source in discover_sources(path):
                if isinstance(source, Problem):
                    # A link to what is walked as well leads out of nothing.
                    place = decode_path(source.position.source_id)
                    if (
                        source.kind != "link-out"
                        or os.path.realpath(place) not in walked
                    ):
                        self._report.problems.append(source)
                else:
                    self._report.files += 1
                    yield source

    def _ingest_source(self, change: ChangedSource) -> None:
        """Bring one source into the archive and the index."""
        begun = _FirstBlock(change.source) if change.stored_source is None else None
        if begun and isinstance(begun.first, Problem):
            # It is no file that is kept until a byte of it was read, if it has any.
            self._report.problems.append(begun.first)
            self._report.new -= 1
            return
        kept = change.save_source(self._archive_db)
        if change.is_moved:
            self._indexer.reindex(kept)
        source = change.source
        try:
            taking = _SourceWriter(self._archive_db, kept)
        except ArchiveDamaged:
            # The file is still there: what was kept of it is taken in once more.
            kept = self._archive_db.start_generation(kept)
            taking = _SourceWriter(self._archive_db, kept)
        problems = len(self._report.problems)
        for found in begun or read_line_blocks(
            source, target_size=CHUNK_SIZE, start=kept.stored_bytes
        ):
            if isinstance(found, Problem):
                self._report.problems.append(found)
            elif source.kind.is_transcript and not found[1].endswith(b"\n"):
                taking.fragment = found[1]
            else:
                self._store_bytes(kept, *taking.append(*found))
                self._index_bytes(kept, *found)
        if taking.pending:
            self._store_bytes(kept, taking.start, taking.pending)
        if len(self._report.problems) > problems:
            taking.keep_fragment(self._archive_db)
        kept = taking.build_stored_source(source)
        self._archive_db.set_fragment(kept, kept.stored_bytes, taking.fragment)
        self._archive_db.save_read_state(kept)
        self._indexer.finish_source(kept)
        if (
            self._uncommitted_bytes >= COMMIT_BYTES
            or time.monotonic() > self._commit_due
        ):
            self._commit()

    def _store_bytes(
        self, stored_source: StoredSource, start: int, data: bytes
    ) -> None:
        """Give bytes to the archive, a giant line in parts."""
        step = 8 * CHUNK_SIZE
        for at in range(0, len(data), step):
            part = data[at : at + step] if len(data) > step else data
            begin = start + at
            then = partial(self._add_chunk, stored_source, begin, begin + len(part))
            self._compression.submit(part, then)
        self._uncommitted_bytes += len(data)

    def _add_chunk(
        self, stored_source: StoredSource, start: int, stop: int, frame: HashedFrame
    ) -> None:
        self._archive_db.add_chunk(stored_source, start, stop, frame)

    def _index_bytes(
        self, stored_source: StoredSource, start: int, data: bytes
    ) -> None:
        """Let the index see bytes; tell how far we are."""
        self._indexer.add_block(stored_source, line_block(stored_source, start, data))
        self._report.bytes += len(data)
        self._progress.advance(len(data))

    def _commit(self, *, is_last: bool = False) -> None:
        """Commit the archive first, then what was derived from it."""
        self._compression.drain()
        self._archive_db.db.execute("COMMIT")
        self._indexer.commit(is_last=is_last)
        # What reading needed is free before deriving needs some.
        if (
            max(self._uncommitted_bytes, self._report.bytes if is_last else 0)
            >= COMMIT_BYTES
        ):
            trim_heap()
        self._uncommitted_bytes = 0
        self._commit_due = time.monotonic() + COMMIT_INTERVAL
        if not is_last:
            self._archive_db.db.execute("BEGIN IMMEDIATE")


class _FirstBlock:
    """A source of which the first stretch has been read, to see whether it can be."""

    def __init__(self, source: SourceFile) -> None:
        self._blocks = read_line_blocks(source, target_size=CHUNK_SIZE)
        self.first = next(self._blocks, None)

    def __iter__(self) -> Iterator[tuple[int, bytes] | Problem]:
        first, self.first = self.first, None
        if first is not None:
            yield first
        del first  # which may be a giant line
        yield from self._blocks


class _SourceWriter:
    """Follows one source: joins what is small, remembers what marks it."""

    def __init__(self, archive_db: ArchiveDB, stored_source: StoredSource) -> None:
        self._stored_source = stored_source
        self.start, self.pending = stored_source.stored_bytes, b""
        self.fragment = b""
        self._end = stored_source.stored_bytes
        self._tail = self._head = b""
        if stored_source.stored_bytes:
            place = (stored_source.number, stored_source.generation)
            self._tail = archive_db.read_bytes(
                *place,
                max(stored_source.stored_bytes - _FINGERPRINT_BYTES, 0),
                _FINGERPRINT_BYTES,
            )
            self._head = archive_db.read_bytes(*place, 0, _FINGERPRINT_BYTES)
            self.start, self.pending = archive_db.pop_small_last_chunk(stored_source)

    def append(self, start: int, data: bytes) -> tuple[int, bytes]:
        """Return where the bytes to store begin, and the bytes."""
        if len(self._head) < _FINGERPRINT_BYTES:
            self._head = (self._head + data)[:_FINGERPRINT_BYTES]
        self._tail = (self._tail + data[-_FINGERPRINT_BYTES:])[-_FINGERPRINT_BYTES:]
        stored = self.start, self.pending + data if self.pending else data
        self.start = self._end = start + len(data)
        self.pending = b""
        return stored

    def keep_fragment(self, archive_db: ArchiveDB) -> None:
        """Keep the unfinished line there was, if it could not be read once more."""
        if self._end == self._stored_source.stored_bytes:
            known = archive_db.fragment(
                self._stored_source.number, self._stored_source.generation
            )
            self.fragment = max(known, self.fragment, key=len)

    def build_stored_source(self, source: SourceFile) -> StoredSource:
        """Return the source as it is kept now."""
        mark = fingerprint_bytes(
            head=self._head, tail=self._tail, unfinished=self.fragment, offset=self._end
        )
        return structs.replace(
            self._stored_source,
            stored_bytes=self._end,
            size=mark.size,
            mtime_ns=source.mtime_ns,
            ctime_ns=source.ctime_ns,
            inode=source.inode,
            head=mark.head_hash,
            tail=mark.tail_hash,
            rest=mark.unfinished_hash,
        )
