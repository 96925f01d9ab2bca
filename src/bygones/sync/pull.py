"""Add to an archive what a peer has and it lacks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from pathlib import Path

import msgspec
from msgspec import Struct

from bygones.errors import ArchiveDamaged
from bygones.ingest.run import index_stored
from bygones.maintenance.restore import escapes_home
from bygones.maintenance.verify import is_index_current
from bygones.model.base import DECODE_ERRORS, NullProgress, ProgressReporter, SessionId
from bygones.model.machines import (
    MACHINE_ID,
    Machine,
    MachineHome,
    is_on_this_machine,
)
from bygones.store.annotations import (
    AnnotationRow,
    merge_annotation_rows,
    remove_unused_directories,
)
from bygones.store.archive_db import (
    ArchiveDB,
    hash_of_session,
    hashes_of_source,
    load_purged_hashes,
)
from bygones.store.archive_dir import ArchiveDir
from bygones.store.compression import sha256_digest
from bygones.store.connect import writer_lock
from bygones.store.derived_tables import DerivedTables
from bygones.store.exchange import (
    FRAGMENT_START,
    Addition,
    GenerationEntry,
    SourceEntry,
    StoredFrame,
    add_bytes,
    add_fragment,
    save_state,
)
from bygones.sync.peers import ChunkPlace, Peer, list_entries

_BATCH_BYTES = 16 * 1024 * 1024
"""Bytes that are read from the peer, and then written in one transaction."""
_LOCK_TIMEOUT = 60.0
_MAX_VARIANTS = 100


class PullReport(Struct, kw_only=True):
    """What was added to an archive, or would be."""

    session_ids: set[str] = set()
    """Sessions with new bytes."""
    files: int = 0
    bytes: int = 0
    annotations: int = 0
    """Sessions whose tags, notes or stars changed."""
    purged: int = 0
    """Files that were purged here and not added again."""
    damaged: int = 0
    """Files of which something is missing or damaged on either side."""
    refused: int = 0
    """Files whose names are not valid."""
    failure: str = ""
    """Which sessions could not be indexed, in words."""

    @property
    def has_changes(self) -> bool:
        return bool(self.files or self.annotations)


class _Local(Struct):
    """A source of this archive that an entry of the peer may continue."""

    home: str
    entry: SourceEntry


class _Task(Struct):
    """An entry of the peer, and which of its bytes to add to which source."""

    entry: SourceEntry
    local: _Local | None
    places: list[ChunkPlace]
    diverged: list[_Local] = []
    """Sources that the entry does not continue."""
    is_failed: bool = False
    has_added: bool = False
    is_saved: bool = False

    @property
    def size(self) -> int:
        return sum(self.size_of(place) for place in self.places)

    def size_of(self, place: ChunkPlace) -> int:
        generation = self.entry.generations[place.generation]
        if place.start == FRAGMENT_START:
            return generation.size - generation.kept
        stops = (c.stop - c.start for c in generation.chunks if c.start == place.start)
        return next(stops, 0)


class Puller:
    """Reads entries of a peer, finds what is missing, and adds it."""

    def __init__(
        self,
        folder: Path,
        machine: Machine,
        peer: Peer,
        progress: ProgressReporter | None = None,
    ) -> None:
        self._folder = folder
        self._machine = machine
        self._peer = peer
        self._progress = progress or NullProgress()
        self._local: dict[tuple[str, str, str], list[_Local]] = {}
        self._labels: dict[str, Machine] = {machine.id: machine}
        """Machines by id, with the names by which they are known here."""
        self.report = PullReport()

    def run(self, *, is_dry_run: bool = False) -> PullReport:
        """Add everything that is missing; with `is_dry_run` only count it.

        What was added stays if this is interrupted, and the next run continues.
        """
        archive_db = ArchiveDB(self._folder)
        try:
            tasks = self._plan(archive_db)
        finally:
            archive_db.close()
        if is_dry_run:
            for task in tasks:
                self._count(task, task.size)
            return self.report
        total = sum(task.size for task in tasks)
        self._peer.announce(total)
        self._progress.begin("receiving", total)
        while tasks:
            for batch in self._batches(tasks):
                self._add(batch)
            tasks = self._plan_again(tasks)
        self._progress.end()
        # An interrupted sync may have added bytes that are not indexed yet.
        if self.report.files or self._is_index_behind():
            failure = index_stored(
                self._folder, self._progress, lock_timeout=_LOCK_TIMEOUT
            ).failure
            self.report.failure = str(failure or "")
        self._merge_annotations(self._peer.annotations())
        return self.report

    def _is_index_behind(self) -> bool:
        with ArchiveDir(self._folder) as archive_dir:
            return archive_dir.index is None or not is_index_current(archive_dir)

    def _plan(self, archive_db: ArchiveDB) -> list[_Task]:
        for home, entry in list_entries(archive_db, self._machine):
            self._local.setdefault(entry.key, []).append(_Local(home, entry))
            known = Machine(entry.machine_name, entry.machine_id)
            self._labels.setdefault(entry.machine_id, known)
        purged = load_purged_hashes(archive_db.db)
        tasks = []
        for entry in self._peer.entries():
            if not _is_valid(entry):
                self.report.refused += 1
            elif purged and hashes_of_source(entry.with_home("")) & purged:
                self.report.purged += 1
            else:
                task = self._plan_entry(archive_db, entry, [])
                if task.places or task.local is None or self._is_touched(task):
                    tasks.append(task)
        return tasks

    def _plan_entry(
        self, archive_db: ArchiveDB, entry: SourceEntry, diverged: list[_Local]
    ) -> _Task:
        for local in self._local.get(entry.key, ()):
            if local in diverged:
                continue
            try:
                places = _find_missing(archive_db, local.entry, entry)
            except ArchiveDamaged:
                self.report.damaged += 1
                places = []
            if places is not None:
                return _Task(entry, local, places, diverged)
        return _Task(entry, None, list(_all_places(entry)), diverged)

    def _is_touched(self, task: _Task) -> bool:
        """Whether only the state of the file changed, as its own machine reports."""
        if task.local is None or task.entry.machine_id == self._machine.id:
            return False
        if task.entry.machine_id != self._peer.machine.id:
            return False
        theirs, ours = task.entry, task.local.entry
        return (
            theirs.gone_ns != ours.gone_ns
            or theirs.generations[-1].mtime_ns != ours.generations[-1].mtime_ns
        ) and len(theirs.generations) >= len(ours.generations)

    def _plan_again(self, tasks: Iterable[_Task]) -> list[_Task]:
        """Return tasks for entries that did not continue the source they seemed to."""
        archive_db = ArchiveDB(self._folder)
        try:
            return [
                self._plan_entry(archive_db, task.entry, task.diverged)
                for task in tasks
                if task.local is not None and task.local in task.diverged
            ]
        finally:
            archive_db.close()

    def _batches(
        self, tasks: Sequence[_Task]
    ) -> Iterator[list[tuple[_Task, list[tuple[ChunkPlace, StoredFrame | None]]]]]:
        """Yield tasks with bytes of the peer, some megabytes at a time."""
        batch: list[tuple[_Task, list[ChunkPlace]]] = []
        size = 0
        for task in tasks:
            batch.append((task, []))
            for place in task.places:
                batch[-1][1].append(place)
                size += task.size_of(place)
                if size >= _BATCH_BYTES:
                    yield self._read(batch)
                    batch, size = [(task, [])], 0
        yield self._read(batch)

    def _read(
        self, batch: list[tuple[_Task, list[ChunkPlace]]]
    ) -> list[tuple[_Task, list[tuple[ChunkPlace, StoredFrame | None]]]]:
        wanted = [place for _, places in batch for place in places]
        found = iter(list(self._peer.read(wanted)) if wanted else ())
        return [
            (task, [(place, next(found)) for place in places]) for task, places in batch
        ]

    def _add(
        self, batch: list[tuple[_Task, list[tuple[ChunkPlace, StoredFrame | None]]]]
    ) -> None:
        """Write one batch in one transaction."""
        with writer_lock(self._folder, timeout=_LOCK_TIMEOUT):
            archive_db = ArchiveDB(self._folder, write=True)
            try:
                with archive_db.db:
                    purged = load_purged_hashes(archive_db.db)
                    for task, found in batch:
                        if not self._is_purged(task, found, purged):
                            self._add_task(archive_db, task, found)
            finally:
                archive_db.close()

    def _is_purged(
        self,
        task: _Task,
        found: Sequence[tuple[ChunkPlace, StoredFrame | None]],
        purged: set[bytes],
    ) -> bool:
        """Whether a file was purged here: by its names, or by its first record."""
        if not purged:
            return False
        hashes = hashes_of_source(task.entry.with_home(""))
        session = None
        if task.entry.session is None and task.entry.kind.is_transcript:
            first = [frame for place, frame in found if place.start == 0 and frame]
            session = _first_session(first)
        if session is not None:
            hashes.add(hash_of_session(session))
        is_purged = bool(hashes & purged)
        if is_purged and not task.is_failed:
            task.is_failed = True
            self.report.purged += 1
        return is_purged

    def _add_task(
        self,
        archive_db: ArchiveDB,
        task: _Task,
        found: Sequence[tuple[ChunkPlace, StoredFrame | None]],
    ) -> None:
        if task.is_failed:
            return
        if task.local is None:
            task.local = self._add_source(archive_db, task.entry)
            task.has_added = True
        number = task.local.entry.number
        for place, stored in found:
            is_asked = stored is not None and _is_at(stored, place)
            raw = stored.decompress_verified() if stored and is_asked else None
            if stored is None or raw is None:
                self.report.damaged += 1
                task.is_failed = True
                break
            add = add_fragment if place.start == FRAGMENT_START else add_bytes
            try:
                added = add(archive_db, (number, place.generation), stored, raw)
            except ArchiveDamaged:
                self.report.damaged += 1
                task.is_failed = True
                break
            if added is Addition.DIVERGED:
                task.diverged.append(task.local)
                task.is_failed = True
                break
            self._progress.advance(len(raw))
            if added is Addition.ADDED:
                task.has_added = True
                self.report.bytes += len(raw)
        self._finish(archive_db, task, found)

    def _finish(
        self,
        archive_db: ArchiveDB,
        task: _Task,
        found: Sequence[tuple[ChunkPlace, StoredFrame | None]],
    ) -> None:
        if task.local is None:
            return
        if task.has_added:
            self._count(task, 0)
        is_complete = not task.places or (found and found[-1][0] == task.places[-1])
        is_own = is_on_this_machine(task.local.home)
        if is_complete and not task.is_failed and (task.has_added or not is_own):
            save_state(archive_db, task.local.entry.number, task.entry)

    def _count(self, task: _Task, size: int) -> None:
        if not task.is_saved:
            task.is_saved = True
            self.report.files += 1
            if task.entry.session is not None:
                self.report.session_ids.add(task.entry.session)
        self.report.bytes += size

    def _add_source(self, archive_db: ArchiveDB, entry: SourceEntry) -> _Local:
        """Add a source: of another machine, or of this one if it has lost it."""
        name = Machine(entry.machine_name, entry.machine_id)
        machine = self._labels.setdefault(entry.machine_id, name)
        homes = [
            str(MachineHome(machine, entry.home, variant))
            for variant in range(1, _MAX_VARIANTS)
        ]
        if entry.machine_id == self._machine.id:
            homes.insert(0, entry.home)
        home = next(
            home for home in homes if archive_db.find_source(home, entry.path) is None
        )
        number = archive_db.add_source(entry.with_home(home)).number
        empty = msgspec.structs.replace(entry, number=number, generations=())
        local = _Local(home, empty)
        self._local.setdefault(entry.key, []).append(local)
        return local

    def _merge_annotations(self, rows: Sequence[AnnotationRow]) -> None:
        with (
            writer_lock(self._folder, timeout=_LOCK_TIMEOUT),
            ArchiveDir(self._folder, write=True) as archive_dir,
        ):
            db = archive_dir.byte_store.db
            purged = load_purged_hashes(db)
            allowed = (
                row for row in rows if hash_of_session(row.session) not in purged
            )
            with db:
                changed = merge_annotation_rows(db, allowed)
            if purged and archive_dir.index is not None:
                # The names of purged projects do not come back either.
                projects = DerivedTables(archive_dir.index).projects()
                remove_unused_directories(db, projects)
        self.report.annotations = len(changed)


_MAX_NUMBER = (1 << 63) - 1
"""Of a time or a size, in SQLite."""


def _is_valid(entry: SourceEntry) -> bool:
    """Whether the names of an entry can be stored; a peer may be damaged."""
    return bool(
        MACHINE_ID.fullmatch(entry.machine_id)
        and entry.machine_name
        and ":" not in entry.machine_name
        and entry.generations
        and all(map(_is_contiguous, entry.generations))
        and abs(entry.gone_ns or 0) <= _MAX_NUMBER
        and not escapes_home(entry.path)
        and is_on_this_machine(entry.home)
    )


def _is_contiguous(generation: GenerationEntry) -> bool:
    stop = 0
    for chunk in generation.chunks:
        if chunk.start != stop or chunk.stop <= chunk.start:
            return False
        stop = chunk.stop
    is_complete = generation.kept == stop <= generation.size <= _MAX_NUMBER
    return is_complete and abs(generation.mtime_ns) <= _MAX_NUMBER


def _is_at(stored: StoredFrame, place: ChunkPlace) -> bool:
    """Whether bytes are those that were asked for; a chunk may have grown since."""
    chunk = stored.chunk
    is_there = place.start in {chunk.start, FRAGMENT_START}
    return is_there and 0 <= chunk.start < chunk.stop


def _all_places(entry: SourceEntry) -> Iterator[ChunkPlace]:
    for number, generation in enumerate(entry.generations):
        yield from _places_from(entry, number, generation, 0)


def _places_from(
    entry: SourceEntry, number: int, generation: GenerationEntry, first: int
) -> Iterator[ChunkPlace]:
    for chunk in generation.chunks[first:]:
        yield ChunkPlace(entry.number, number, chunk.start)
    if generation.fragment:
        yield ChunkPlace(entry.number, number, FRAGMENT_START)


def _find_missing(
    archive_db: ArchiveDB, ours: SourceEntry, theirs: SourceEntry
) -> list[ChunkPlace] | None:
    """Return which bytes of an entry a source lacks; none if it cannot be the same.

    Chunks are copied as they are, so equal files have equal chunks, except for the last
    one, which a longer one replaces.
    """
    missing: list[ChunkPlace] = []
    for number, generation in enumerate(theirs.generations):
        if number >= len(ours.generations):
            missing += _places_from(theirs, number, generation, 0)
            continue
        own = ours.generations[number]
        pairs = zip(own.chunks, generation.chunks, strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        for chunk in generation.chunks[same:]:
            if chunk.stop > own.kept:
                break
            raw = archive_db.read_bytes(
                ours.number, number, chunk.start, chunk.stop - chunk.start
            )
            if sha256_digest(raw) != chunk.hash:
                return None
            same += 1
        is_finished = number < len(theirs.generations) - 1
        if is_finished and own.kept > generation.kept:
            return None
        is_fragment_new = own.fragment != generation.fragment
        if same < len(generation.chunks) or (
            is_fragment_new and own.kept <= generation.kept
        ):
            missing += _places_from(theirs, number, generation, same)
        if missing and number < len(ours.generations) - 1:
            return None  # only the last generation of a source grows
    return missing


class _SessionField(Struct, frozen=True, rename={"session_id": "sessionId"}):
    session_id: str | None = None


def _first_session(frames: Iterable[StoredFrame]) -> SessionId | None:
    for frame in frames:
        for line in (frame.decompress_verified() or b"").splitlines():
            try:
                found = msgspec.json.decode(line, type=_SessionField).session_id
            except DECODE_ERRORS:
                continue
            if found:
                return SessionId(found)
    return None
