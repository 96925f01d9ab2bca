"""One ingestion: walk, take what is new, index it, derive what it touches."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from msgspec import structs

from bygones.errors import ArchiveDamaged, IndexDamaged
from bygones.ingest.changes import Change, Changes
from bygones.ingest.derive import derive
from bygones.ingest.filling import rebuild_in
from bygones.ingest.indexing import Indexer, stretch_of
from bygones.ingest.looks import Look, look_at
from bygones.ingest.pace import give_back, uncollected
from bygones.ingest.readers import Readers
from bygones.ingest.report import Progress, Report, Silence
from bygones.model.problems import Problem
from bygones.model.sources import Source
from bygones.sources import (
    discover,
    mark_from,
    native_path,
    path_text,
    read_stretches,
)
from bygones.store.chunks import CHUNK_SIZE, Chunks, Kept
from bygones.store.connect import make_folder
from bygones.store.lock import writing
from bygones.store.press import Press, Pressed
from bygones.store.vault import Vault

__all__ = ["ingest"]

BATCH = 256 * 1024 * 1024
"""Bytes after which everything is committed; what memory and a crash can cost."""
PATIENCE = 10.0
"""Seconds after which it is in any case: whoever is interrupted goes on from there."""
_WINDOW = 4096
_LASTING = frozenset({"link-out", "not-a-file"})
"""Problems that stay until somebody changes the file."""


def ingest(
    folder: Path,
    paths: Sequence[Path],
    *,
    progress: Progress | None = None,
    wait: float = 5.0,
    is_thorough: bool = False,
) -> Report:
    """Bring the archive in ``folder`` up to date with homes or other paths.

    Can be stopped at any moment: what was committed stays, and the next ingestion
    goes on from there. One that is thorough compares all that is kept of files that
    grew, however long they are.
    """
    make_folder(folder)
    report = Report(problems=[])
    bring_up = partial(
        _bring_up, folder, paths, progress or Silence(), is_thorough=is_thorough
    )
    with writing(folder, wait=wait), uncollected():
        try:
            bring_up(report=report)
        except IndexDamaged:
            # It has nothing that the archive has not: another is made, once.
            again = Report(problems=[])
            bring_up(report=again, anew=True)
            return again.after(report)
        return report


def _bring_up(  # noqa: PLR0913 (of one function, done twice if need be)
    folder: Path,
    paths: Sequence[Path],
    progress: Progress,
    *,
    is_thorough: bool,
    report: Report,
    anew: bool = False,
) -> None:
    with Vault(folder, write=True) as vault:
        if anew or (vault.index is None and not vault.chunks.is_empty):
            rebuild_in(vault, progress)
        look = look_at(vault, paths, is_thorough=is_thorough)
        with Press() as press, Readers() as readers:
            _Ingestion(vault, press, readers, report, progress=progress).run(
                paths, look, is_thorough=is_thorough
            )
        if vault.index is not None:
            report.shown, report.empty = vault.index.count_sessions()
        # What could not be read may be readable next time, and look the same.
        is_whole = all(problem.kind in _LASTING for problem in report.problems)
        vault.note_pulse(look.sign if is_whole else "", look.felt)
        if is_thorough and not (report.problems or report.refused):
            vault.note_settled(look.sign)


class _Ingestion:
    def __init__(
        self,
        vault: Vault,
        press: Press,
        readers: Readers,
        report: Report,
        *,
        progress: Progress,
    ) -> None:
        self._vault = vault
        self._press = press
        self._readers = readers
        self._chunks = vault.chunks
        self._progress = progress
        self._report = report
        self._weight = 0
        self._due = time.monotonic() + PATIENCE

    def run(self, paths: Sequence[Path], look: Look, *, is_thorough: bool) -> None:
        known = list(self._chunks.sources()) if look.known is None else look.known
        changes = Changes(self._chunks, self._report, known, is_thorough=is_thorough)
        found = self._look(paths, look, changes)
        if look.known == []:
            self._vault.check_words()
            return
        if found or changes.is_any:
            # Until all of it is derived, nobody may think that all is known.
            self._vault.note_pulse("")
        self._indexer = Indexer(self._vault, self._report, self._readers)
        is_walked = look.known is None
        self._indexer.prepare(self._progress, known, is_all=is_walked)
        del known  # there may be a hundred thousand
        total = sum(max(change.source.size - change.kept_bytes, 0) for change in found)
        self._progress.begin("reading", total)
        self._readers.expect(total)
        self._chunks.db.execute("BEGIN IMMEDIATE")
        try:
            changes.note()
            for kept in changes.touched:
                self._indexer.see_touched(kept)
            for kept in changes.carried:
                self._indexer.see_anew(kept)
            found.reverse()
            while found:  # let go one by one: there may be a hundred thousand
                self._take(found.pop())
            self._commit(last=True)
        except BaseException:
            if self._chunks.db.in_transaction:
                self._chunks.db.execute("ROLLBACK")
            raise
        self._progress.end()
        derive(self._vault, self._indexer, self._report, self._progress)

    def _look(
        self, paths: Sequence[Path], look: Look, changes: Changes
    ) -> list[Change]:
        """Return what changed: by a walk, or among the files that were written."""
        report = self._report
        if look.written is None:
            return changes.find(self._walk(paths), paths)
        found = changes.find((source for source, _ in look.written), ())
        report.files = self._chunks.count_present(
            path_text(p.absolute()) for p in paths
        )
        report.unchanged += report.files - len(look.written)
        return found

    def _walk(self, paths: Sequence[Path]) -> Iterable[Source]:
        walked = {os.path.realpath(path) for path in paths}
        for path in paths:
            for source in discover(path):
                if isinstance(source, Problem):
                    # A link to what is walked as well leads out of nothing.
                    place = native_path(source.position.source)
                    if (
                        source.kind != "link-out"
                        or os.path.realpath(place) not in walked
                    ):
                        self._report.problems.append(source)
                else:
                    self._report.files += 1
                    yield source

    def _take(self, change: Change) -> None:
        """Bring one source into the archive and the index."""
        begun = _Begun(change.source) if change.kept is None else None
        if begun and isinstance(begun.first, Problem):
            # It is no file that is kept until a byte of it was read, if it has any.
            self._report.problems.append(begun.first)
            self._report.new -= 1
            return
        kept = change.settle(self._chunks)
        if change.is_moved:
            self._indexer.see_anew(kept)
        source = change.source
        try:
            taking = _Taking(self._chunks, kept)
        except ArchiveDamaged:
            # The file is still there: what was kept of it is taken in once more.
            kept = self._chunks.begin_anew(kept)
            taking = _Taking(self._chunks, kept)
        problems = len(self._report.problems)
        for found in begun or read_stretches(source, size=CHUNK_SIZE, start=kept.kept):
            if isinstance(found, Problem):
                self._report.problems.append(found)
            elif source.kind.is_transcript and not found[1].endswith(b"\n"):
                taking.rest = found[1]
            else:
                self._store(kept, *taking.take(*found))
                self._index(kept, *found)
        if taking.before:
            self._store(kept, taking.start, taking.before)
        if len(self._report.problems) > problems:
            taking.keep_fragment(self._chunks)
        kept = taking.kept(source)
        self._chunks.set_fragment(kept, kept.kept, taking.rest)
        self._chunks.set_mark(kept)
        self._indexer.finish(kept)
        if self._weight >= BATCH or time.monotonic() > self._due:
            self._commit()

    def _store(self, kept: Kept, start: int, raw: bytes) -> None:
        """Give bytes to the archive, a giant line in parts."""
        step = 8 * CHUNK_SIZE
        for at in range(0, len(raw), step):
            part = raw[at : at + step] if len(raw) > step else raw
            begin = start + at
            then = partial(self._keep, kept, begin, begin + len(part))
            self._press.add(part, then)
        self._weight += len(raw)

    def _keep(self, kept: Kept, start: int, stop: int, pressed: Pressed) -> None:
        self._chunks.add_chunk(kept, start, stop, pressed)

    def _index(self, kept: Kept, start: int, raw: bytes) -> None:
        """Let the index see bytes; tell how far we are."""
        self._indexer.add(kept, stretch_of(kept, start, raw))
        self._report.bytes += len(raw)
        self._progress.advance(len(raw))

    def _commit(self, *, last: bool = False) -> None:
        """Commit the archive first, then what was derived from it."""
        self._press.finish()
        self._chunks.db.execute("COMMIT")
        self._indexer.commit(last=last)
        # What reading needed is free before deriving needs some.
        if max(self._weight, self._report.bytes if last else 0) >= BATCH:
            give_back()
        self._weight = 0
        self._due = time.monotonic() + PATIENCE
        if not last:
            self._chunks.db.execute("BEGIN IMMEDIATE")


class _Begun:
    """A source of which the first stretch has been read, to see whether it can be."""

    def __init__(self, source: Source) -> None:
        self._stretches = read_stretches(source, size=CHUNK_SIZE)
        self.first = next(self._stretches, None)

    def __iter__(self) -> Iterator[tuple[int, bytes] | Problem]:
        first, self.first = self.first, None
        if first is not None:
            yield first
        del first  # which may be a giant line
        yield from self._stretches


class _Taking:
    """Follows one source: joins what is small, remembers what marks it."""

    def __init__(self, chunks: Chunks, kept: Kept) -> None:
        self._kept = kept
        self.start, self.before = kept.kept, b""
        self.rest = b""
        self._upto = kept.kept
        self._tail = self._head = b""
        if kept.kept:
            place = (kept.number, kept.generation)
            self._tail = chunks.read(*place, max(kept.kept - _WINDOW, 0), _WINDOW)
            self._head = chunks.read(*place, 0, _WINDOW)
            self.start, self.before = chunks.take_last_chunk(kept)

    def take(self, start: int, raw: bytes) -> tuple[int, bytes]:
        """Return where the bytes to store begin, and the bytes."""
        if len(self._head) < _WINDOW:
            self._head = (self._head + raw)[:_WINDOW]
        self._tail = (self._tail + raw[-_WINDOW:])[-_WINDOW:]
        stored = self.start, self.before + raw if self.before else raw
        self.start = self._upto = start + len(raw)
        self.before = b""
        return stored

    def keep_fragment(self, chunks: Chunks) -> None:
        """Keep the unfinished line there was, if it could not be read once more."""
        if self._upto == self._kept.kept:
            known = chunks.fragment(self._kept.number, self._kept.generation)
            self.rest = max(known, self.rest, key=len)

    def kept(self, source: Source) -> Kept:
        """Return the source as it is kept now."""
        mark = mark_from(
            head=self._head, tail=self._tail, rest=self.rest, offset=self._upto
        )
        return structs.replace(
            self._kept,
            kept=self._upto,
            size=mark.size,
            mtime_ns=source.mtime_ns,
            ctime_ns=source.ctime_ns,
            inode=source.inode,
            head=mark.head,
            tail=mark.tail,
            rest=mark.rest,
        )
