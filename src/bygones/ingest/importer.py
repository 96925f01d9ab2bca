"""Import the files that changed: store their bytes, index them, derive sessions."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from msgspec import structs

from bygones.errors import ArchiveDamaged
from bygones.ingest.changes import ChangeDetector, ChangedSource
from bygones.ingest.indexer import Indexer, derive_sessions, line_block
from bygones.ingest.scan_plan import ScanPlan
from bygones.ingest.workers import MIN_PARALLEL_BYTES, WorkerPool
from bygones.model.base import (
    IngestReport,
    Problem,
    ProgressReporter,
    SourceFile,
    decode_path,
    encode_path,
)
from bygones.runtime import limit_malloc_arenas, trim_heap
from bygones.sources.fingerprint import fingerprint_bytes
from bygones.sources.lines import LONG_LINE_BYTES, read_line_blocks
from bygones.sources.walk import discover_sources
from bygones.store.archive_db import CHUNK_SIZE, ArchiveDB, StoredSource
from bygones.store.archive_dir import ArchiveDir
from bygones.store.compression import CompressionQueue, HashedFrame, sha256_digest

COMMIT_BYTES = 256 * 1024 * 1024
"""Bytes after which everything is committed; limits memory and loss by a crash."""
COMMIT_INTERVAL = 10.0
"""Seconds after which everything is committed, so that an interrupted ingestion can
continue.
"""
_FINGERPRINT_BYTES = 4096


def import_changes(  # noqa: PLR0913 (half of them by name)
    archive_dir: ArchiveDir,
    paths: Sequence[Path],
    scan_plan: ScanPlan,
    *,
    report: IngestReport,
    progress: ProgressReporter,
    is_thorough: bool,
) -> None:
    """Find the files that changed, and bring archive and index up to date with them."""
    with CompressionQueue() as compression, WorkerPool() as workers:
        ImportRun(archive_dir, compression, workers, report, progress=progress).run(
            paths, scan_plan, is_thorough=is_thorough
        )


class ImportRun:
    """One import: its state, and what is not committed yet."""

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
        stored_sources = (
            list(self._archive_db.sources())
            if scan_plan.stored_sources is None
            else scan_plan.stored_sources
        )
        changes = ChangeDetector(
            self._archive_db, self._report, stored_sources, is_thorough=is_thorough
        )
        changed = self._find_changes(paths, scan_plan, changes)
        if changed or changes.has_other_changes:
            # The saved checksum is invalid until everything is derived.
            self._archive_dir.save_checksum("")
        total = sum(
            max(changed_source.source.size - changed_source.stored_bytes, 0)
            for changed_source in changed
        )
        if total >= MIN_PARALLEL_BYTES:
            limit_malloc_arenas(1)  # before the text index starts threads
        self._indexer = Indexer(self._archive_dir, self._report, self._workers)
        is_full_scan = scan_plan.stored_sources is None
        self._indexer.prepare(self._progress, stored_sources, is_complete=is_full_scan)
        del stored_sources  # there may be a hundred thousand
        self._progress.begin("reading", total)
        self._workers.start_if_worthwhile(total)
        self._archive_db.db.execute("BEGIN IMMEDIATE")
        try:
            changes.save_file_states()
            for source in changes.touched_sources:
                self._indexer.mark_touched(source)
            for source in changes.sources_of_moved_homes:
                self._indexer.reindex(source)
            changed.reverse()
            while changed:  # free one by one: there may be a hundred thousand
                self._ingest_source(changed.pop())
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
        """Return changed sources: by a full scan, or among modified files."""
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
        roots = {os.path.realpath(path) for path in paths}
        for path in paths:
            for source in discover_sources(path):
                if isinstance(source, Problem):
                    # A link to another scanned home doesn't lead outside.
                    target = decode_path(source.position.source_id)
                    if (
                        source.kind != "link-out"
                        or os.path.realpath(target) not in roots
                    ):
                        self._report.problems.append(source)
                else:
                    self._report.files += 1
                    yield source

    def _ingest_source(self, change: ChangedSource) -> None:
        """Import one source into the archive and the index."""
        blocks = _FirstBlock(change.source, change.stored_bytes)
        if change.stored_source is None and isinstance(blocks.first, Problem):
            # A file is only added once it can be read.
            self._report.problems.append(blocks.first)
            self._report.new -= 1
            return
        if self._has_lost_fragment(change, blocks):
            change = self._mark_rewritten(change)
            blocks = _FirstBlock(change.source, 0)
        stored = change.save_source(self._archive_db)
        self._store_blocks(change, stored, blocks)

    def _mark_rewritten(self, change: ChangedSource) -> ChangedSource:
        """Return the change of a file that was rewritten after it was compared."""
        self._report.rewritten += 1
        self._report.grown -= not change.is_moved
        return structs.replace(change, is_rewritten=True)

    def _store_blocks(
        self, change: ChangedSource, stored: StoredSource, blocks: _FirstBlock
    ) -> None:
        if change.is_moved and change.stored_source is not None:
            self._indexer.mark_related_dirty(change.stored_source)
            self._indexer.reindex(stored)
        source = change.source
        try:
            writer = _SourceWriter(self._archive_db, stored)
        except ArchiveDamaged:
            # The stored bytes are damaged, but the file exists: import it again.
            stored = self._archive_db.start_generation(stored)
            writer = _SourceWriter(self._archive_db, stored)
            blocks = _FirstBlock(change.source, 0)
        problem_count = len(self._report.problems)
        had_fragment = stored.has_fragment
        for block in blocks:
            if isinstance(block, Problem):
                self._report.problems.append(block)
            elif source.kind.is_transcript and not block[1].endswith(b"\n"):
                writer.fragment = block[1]
            else:
                self._store_bytes(stored, writer.append(*block))
                self._index_bytes(stored, *block)
            del block  # it may be a giant line
        if writer.pending:
            self._store_bytes(stored, [(writer.start, writer.pending)])
        if len(self._report.problems) > problem_count:
            writer.keep_fragment(self._archive_db)
        stored = writer.build_stored_source(source)
        if writer.fragment or had_fragment:
            self._archive_db.set_fragment(stored, stored.stored_bytes, writer.fragment)
            writer.fragment = b""
        self._archive_db.save_read_state(stored)
        self._indexer.finish_source(stored)
        if (
            self._uncommitted_bytes >= COMMIT_BYTES
            or time.monotonic() > self._commit_due
        ):
            self._commit()

    def _has_lost_fragment(self, change: ChangedSource, blocks: _FirstBlock) -> bool:
        """Whether what was read doesn't start with the stored unfinished line.

        The line was there when the file was compared, but the file may have been
        changed since. The line was acknowledged, so it stays in its generation.
        """
        stored = change.stored_source
        if stored is None or change.is_rewritten or not stored.has_fragment:
            return False
        key = (stored.number, stored.generation)
        try:
            _, stop, digest = self._archive_db.fragment_range(*key) or (0, 0, b"")
            length = stop - stored.stored_bytes
            if 0 < length <= len(blocks.data):
                return sha256_digest(memoryview(blocks.data)[:length]) != digest
            return not blocks.start_with(self._archive_db.fragment(*key))
        except ArchiveDamaged:
            return True

    def _store_bytes(
        self, stored_source: StoredSource, blocks: Iterable[tuple[int, bytes]]
    ) -> None:
        """Add bytes to the archive, a giant line in parts."""
        size = 8 * CHUNK_SIZE
        for start, data in blocks:
            for at in range(0, len(data), size):
                part = data[at : at + size] if len(data) > size else data
                place = (start + at, start + at + len(part))
                on_done = partial(self._add_chunk, stored_source, *place)
                self._compression.submit(part, on_done)
            self._uncommitted_bytes += len(data)

    def _add_chunk(
        self, stored_source: StoredSource, start: int, stop: int, frame: HashedFrame
    ) -> None:
        self._archive_db.add_chunk(stored_source, start, stop, frame)

    def _index_bytes(
        self, stored_source: StoredSource, start: int, data: bytes
    ) -> None:
        """Index bytes, and show the progress."""
        self._indexer.add_block(stored_source, line_block(stored_source, start, data))
        self._report.bytes += len(data)
        self._progress.advance(len(data))

    def _commit(self, *, is_last: bool = False) -> None:
        """Commit the archive first, then what was derived from it."""
        self._compression.drain()
        self._archive_db.db.execute("COMMIT")
        self._indexer.commit(is_last=is_last)
        if self._report.bytes >= MIN_PARALLEL_BYTES:
            trim_heap()
        self._uncommitted_bytes = 0
        self._commit_due = time.monotonic() + COMMIT_INTERVAL
        if not is_last:
            self._archive_db.db.execute("BEGIN IMMEDIATE")


class _FirstBlock:
    """A source whose first block has been read, to decide what to do with it."""

    def __init__(self, source: SourceFile, start: int) -> None:
        self._blocks = read_line_blocks(source, target_size=CHUNK_SIZE, start=start)
        self.first = next(self._blocks, None)
        self._second: tuple[int, bytes] | Problem | None = None

    @property
    def data(self) -> bytes:
        """The bytes of the first block, if it could be read."""
        return self.first[1] if isinstance(self.first, tuple) else b""

    def start_with(self, raw: bytes) -> bool:
        """Whether these bytes are read first, or can't be read because of a problem."""
        if self.first is None or isinstance(self.first, Problem):
            return self.first is not None
        data = self.data
        if len(data) < len(raw) and raw.startswith(data):
            self._second = next(self._blocks, None)
            return isinstance(self._second, Problem)
        return data.startswith(raw)

    def __iter__(self) -> Iterator[tuple[int, bytes] | Problem]:
        first, self.first = self.first, None
        if first is not None:
            yield first
        del first  # it may be a giant line
        if self._second is not None:
            yield self._second
        yield from self._blocks


class _SourceWriter:
    """Tracks the bytes of one source, and joins small chunks."""

    def __init__(self, archive_db: ArchiveDB, stored_source: StoredSource) -> None:
        self._stored_source = stored_source
        self.start, self.pending = stored_source.stored_bytes, b""
        self.fragment = b""
        self._end = stored_source.stored_bytes
        self._tail = self._head = b""
        if stored_source.stored_bytes:
            key = (stored_source.number, stored_source.generation)
            self._tail = archive_db.read_bytes(
                *key,
                max(stored_source.stored_bytes - _FINGERPRINT_BYTES, 0),
                _FINGERPRINT_BYTES,
            )
            self._head = archive_db.read_bytes(*key, 0, _FINGERPRINT_BYTES)
            self.start, self.pending = archive_db.pop_small_last_chunk(stored_source)

    def append(self, start: int, data: bytes) -> list[tuple[int, bytes]]:
        """Return the bytes to store, with their offsets."""
        if len(self._head) < _FINGERPRINT_BYTES:
            self._head = (self._head + data)[:_FINGERPRINT_BYTES]
        self._tail = (self._tail + data[-_FINGERPRINT_BYTES:])[-_FINGERPRINT_BYTES:]
        if not self.pending:
            stored = [(start, data)]
        elif len(data) < LONG_LINE_BYTES:
            stored = [(self.start, self.pending + data)]
        else:
            stored = [(self.start, self.pending), (start, data)]
        self.start = self._end = start + len(data)
        self.pending = b""
        return stored

    def keep_fragment(self, archive_db: ArchiveDB) -> None:
        """Keep the known unfinished line if it couldn't be read again."""
        if self._end == self._stored_source.stored_bytes:
            # What was read starts with a damaged one: its hash was compared.
            with suppress(ArchiveDamaged):
                stored_fragment = archive_db.fragment(
                    self._stored_source.number, self._stored_source.generation
                )
                self.fragment = max(stored_fragment, self.fragment, key=len)

    def build_stored_source(self, source: SourceFile) -> StoredSource:
        """Return the new state of the source."""
        fingerprint = fingerprint_bytes(
            head=self._head, tail=self._tail, unfinished=self.fragment, offset=self._end
        )
        return structs.replace(
            self._stored_source,
            stored_bytes=self._end,
            size=fingerprint.size,
            mtime_ns=source.mtime_ns,
            ctime_ns=source.ctime_ns,
            inode=source.inode,
            head=fingerprint.head_hash,
            tail=fingerprint.tail_hash,
            rest=fingerprint.unfinished_hash,
        )
