"""The look at homes before anything is read: all of them, or what was written since."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct, structs

from bygones.assemble.grouping import has_session_id
from bygones.errors import ArchiveDamaged
from bygones.ingest.index_batch import decode_lines
from bygones.model.base import (
    Position,
    Problem,
    SessionId,
    SourceFile,
    SourceId,
    SourceKind,
)
from bygones.model.path_text import decode_path, encode_path
from bygones.model.progress import IngestReport
from bygones.sources.fingerprint import SourceChange, SourceFingerprint, detect_change
from bygones.sources.lines import read_at, read_lines
from bygones.sources.snapshot import (
    ModifiedFile,
    ModifiedFiles,
    modified_since,
    scan_tree,
)
from bygones.store.archive_db import ArchiveDB, StoredSource
from bygones.store.archive_dir import ArchiveDir
from bygones.store.archive_tables import (
    hash_of_session,
    hashes_of_source,
    load_purged_hashes,
)
from bygones.store.compression import sha256_digest


class ScanPlan(Struct, frozen=True):
    """What was felt, and the only files that were written since the last time."""

    checksum: str
    snapshot: bytes
    modified_sources: list[tuple[SourceFile, StoredSource]] | None = None
    """``None`` where a walk must find out."""

    @property
    def stored_sources(self) -> list[StoredSource] | None:
        """What is kept of the files that were written."""
        return (
            None
            if self.modified_sources is None
            else [kept for _, kept in self.modified_sources]
        )


def plan_scan(
    archive_dir: ArchiveDir, paths: Sequence[Path], *, is_thorough: bool
) -> ScanPlan:
    """Return what is to be looked at; feels the homes before anything is read.

    What is written after that makes the next ingestion look again. Who looks
    thoroughly lists all folders once more; if all is then as it was left by one who
    did the same, and had nothing to tell of it, there is nothing to look at.
    """
    stirred = None if is_thorough else _find_modified_files(archive_dir, paths)
    if stirred is not None:
        homes = [encode_path(path.absolute()) for path in paths]
        written = [
            _match_stored(archive_dir.byte_store, homes, one) for one in stirred.files
        ]
        known = [pair for pair in written if pair is not None]
        if len(known) == len(written):
            return ScanPlan(stirred.checksum, stirred.snapshot, known)
    sign, felt = scan_tree(paths)
    is_known = (
        archive_dir.is_fully_scanned(sign)
        if is_thorough
        else sign == archive_dir.saved_checksum
    )
    if not is_known or not _do_other_homes_exist(archive_dir, paths):
        return ScanPlan(sign, felt)
    if not is_thorough:
        archive_dir.save_snapshot(felt)  # the next one need not list all folders again
    return ScanPlan(sign, felt, [])


def _do_other_homes_exist(archive_dir: ArchiveDir, paths: Sequence[Path]) -> bool:
    """Whether no home has vanished that is not looked at: a walk would tell."""
    looked_at = {encode_path(path.absolute()) for path in paths}
    others = {*archive_dir.byte_store.homes()} - looked_at
    return all(Path(decode_path(home)).exists() for home in others)


def _find_modified_files(
    archive_dir: ArchiveDir, paths: Sequence[Path]
) -> ModifiedFiles | None:
    sign, felt = archive_dir.saved_checksum, archive_dir.load_snapshot()
    return modified_since(felt, sign, paths) if sign and felt else None


def _match_stored(
    archive_db: ArchiveDB, homes: Sequence[str], modified: ModifiedFile
) -> tuple[SourceFile, StoredSource] | None:
    """Return a file as it is now and as it is kept, if it is one of ours."""
    name = encode_path(modified.path)
    for home in homes:
        path = name.removeprefix(f"{home}/")
        kept = archive_db.find_source(home, path) if path != name else None
        if kept is None or kept.gone_ns is not None:
            continue
        now = structs.replace(
            kept.source,
            size=modified.size,
            mtime_ns=modified.mtime_ns,
            ctime_ns=modified.ctime_ns,
            inode=modified.inode,
        )
        return now, kept
    return None


FULL_COMPARE_BYTES = 32 * 1024 * 1024
"""Bytes of a file that are read and compared as soon as it grows: a tenth of a second
at most. Of longer files the ends are, until somebody looks thoroughly."""

_UNVERIFIED_CTIME = 0
"""Stands for the time of a long file of which only the ends were compared when it grew:
whoever looks thoroughly compares all of it, though it look the same."""
_HEAD_BYTES = 1 << 16


class ChangedSource(Struct, frozen=True, kw_only=True):
    """A source that has something new for the archive."""

    source: SourceFile
    stored_source: StoredSource | None = None
    is_rewritten: bool = False
    is_moved: bool = False

    @property
    def stored_bytes(self) -> int:
        """How much of the file the archive has already."""
        return (
            self.stored_source.stored_bytes
            if self.stored_source and not self.is_rewritten
            else 0
        )

    def save_source(self, archive_db: ArchiveDB) -> StoredSource:
        """Give the source its row and its generation; return what is kept of it."""
        if self.stored_source is None:
            return archive_db.add_source(self.source)
        if self.is_moved:
            archive_db.move_source(self.stored_source, self.source)
        elif self.stored_source.gone_ns is not None:
            archive_db.set_gone([self.stored_source.number], None)
        if self.is_rewritten:
            return archive_db.start_generation(self.stored_source)
        return archive_db.source(self.stored_source.number) or self.stored_source


class ChangeDetector:
    """Compares a walk with what the archive knows."""

    def __init__(
        self,
        archive_db: ArchiveDB,
        report: IngestReport,
        stored_sources: Iterable[StoredSource],
        *,
        is_thorough: bool = False,
    ) -> None:
        self._archive_db = archive_db
        self._report = report
        self._is_thorough = is_thorough
        self._stored_sources = {kept.id: kept for kept in stored_sources}
        self._purged_hashes = load_purged_hashes(archive_db.db)
        self._gone: list[int] = []
        self._returned: list[int] = []
        self.touched_sources: list[StoredSource] = []
        """Sources whose files have other times, and nothing else that is new."""
        self.sources_of_moved_homes: list[StoredSource] = []
        """Sources that were gone when their home moved, with the home they have now."""

    def find_changes(
        self, sources: Iterable[SourceFile], walked_paths: Iterable[Path]
    ) -> list[ChangedSource]:
        """Return the changed sources, in the order of the walk."""
        changes: list[ChangedSource] = []
        fresh: list[SourceFile] = []
        refused: set[SourceId] = set()
        met: set[SourceId] = set()
        for source in sources:
            if source.id in met:
                continue
            met.add(source.id)
            kept = self._stored_sources.get(source.id)
            if kept is not None:
                changes.extend(self._check_known(source, kept))
            elif self._purged_hashes and self._is_purged(source):
                refused.add(source.id)
            else:
                fresh.append(source)
        taken = [
            source for source in fresh if _agent_transcript_path(source) not in refused
        ]
        self._report.refused += len(refused) + len(fresh) - len(taken)
        missing = _MissingSources(self._find_missing(met, walked_paths))
        changes.extend([self._check_new(source, missing) for source in taken])
        self.sources_of_moved_homes = list(
            self._find_in_moved_homes(changes, missing, met)
        )
        self._gone = [k.number for k in missing if k.gone_ns is None]
        self._report.gone = len(self._gone)
        self._stored_sources = {}  # whoever goes on needs it no more, and it may be large
        return changes

    @property
    def has_other_changes(self) -> bool:
        """Whether files are gone or back, or were merely touched."""
        return bool(self._gone or self._returned or self.touched_sources)

    def _is_purged(self, source: SourceFile) -> bool:
        """Whether a file was erased, or is of a session that was.

        The place of an agent that lies beside its session does not say whose it is,
        nor does a name that is no id; the first record does.
        """
        if hashes_of_source(source) & self._purged_hashes:
            return True
        is_told = source.session_id is not None
        if source.kind is SourceKind.SESSION:
            is_told = has_session_id(source)
        if is_told or not source.kind.is_transcript:
            return False
        starter = _first_session(source)
        return starter is not None and hash_of_session(starter) in self._purged_hashes

    def save_file_states(self) -> None:
        """Mark files that are gone, that are back, or that were merely touched."""
        for kept in self.touched_sources:
            self._archive_db.save_read_state(kept)
        for kept in self.sources_of_moved_homes:
            self._archive_db.set_home(kept)
        self._archive_db.set_gone(self._gone, time.time_ns())
        self._archive_db.set_gone(self._returned, None)

    def _check_known(
        self, source: SourceFile, stored_source: StoredSource
    ) -> list[ChangedSource]:
        if (
            self._purged_hashes
            and not stored_source.stored_bytes
            and self._is_purged(source)
        ):
            # It was there before anything in it said whose it is.
            self._report.refused += 1
            return []
        if stored_source.gone_ns is not None:
            self._returned.append(stored_source.number)
            self._report.returned += 1
        elif _looks_same(source, stored_source, is_thorough=self._is_thorough):
            self._report.unchanged += 1
            return []
        growth = self._classify_growth(source, stored_source)
        if isinstance(growth, Problem):
            self._report.problems.append(growth)
            return []
        if growth is SourceChange.UNCHANGED:
            self._report.unchanged += 1
            self.touched_sources.append(_with_file_times(stored_source, source))
            return []
        is_anew = growth is SourceChange.REWRITTEN
        self._report.rewritten += is_anew
        self._report.grown += not is_anew
        if not is_anew and not self._is_fully_compared(growth, source, stored_source):
            source = structs.replace(source, ctime_ns=_UNVERIFIED_CTIME)
        return [
            ChangedSource(
                source=source, stored_source=stored_source, is_rewritten=is_anew
            )
        ]

    def _classify_growth(
        self, source: SourceFile, stored_source: StoredSource
    ) -> SourceChange | Problem:
        """Return what became of a file, by its ends, and by all of it if in doubt.

        A file that was touched and has its old length may have been rewritten in its
        middle, and so may one that took the place of another, or that grew besides.
        An unfinished line that did not go on, but became another, must not be lost
        either.
        """
        growth = detect_change(source, _read_mark(stored_source))
        if isinstance(growth, Problem) or growth is SourceChange.REWRITTEN:
            return growth
        if self._is_fully_compared(
            growth, source, stored_source
        ) and not self._has_stored_content(source, stored_source):
            return SourceChange.REWRITTEN
        return (
            growth
            if self._has_stored_fragment(source, stored_source)
            else SourceChange.REWRITTEN
        )

    def _is_fully_compared(
        self, growth: SourceChange, source: SourceFile, stored_source: StoredSource
    ) -> bool:
        """Whether all of a file is compared, and not its ends alone."""
        is_odd = growth is SourceChange.UNCHANGED or source.inode != stored_source.inode
        return (
            is_odd
            or self._is_thorough
            or stored_source.stored_bytes <= FULL_COMPARE_BYTES
        )

    def _has_stored_content(
        self, source: SourceFile, stored_source: StoredSource
    ) -> bool:
        """Whether a file still begins with all whole lines that are kept of it."""
        return all(
            isinstance(raw := _read_range(source, start, stop), bytes)
            and sha256_digest(raw) == sign
            for start, stop, sign in self._archive_db.chunk_hashes(
                stored_source.number, stored_source.generation
            )
        )

    def _has_stored_fragment(
        self, source: SourceFile, stored_source: StoredSource
    ) -> bool:
        """Whether the unfinished line that is kept of a file is still there."""
        if stored_source.size == stored_source.stored_bytes:
            return True
        try:
            fragment = self._archive_db.fragment(
                stored_source.number, stored_source.generation
            )
        except ArchiveDamaged:
            return False
        return (
            _read_range(
                source,
                stored_source.stored_bytes,
                stored_source.stored_bytes + len(fragment),
            )
            == fragment
        )

    def _find_missing(
        self, found_ids: set[SourceId], walked_paths: Iterable[Path]
    ) -> Iterator[StoredSource]:
        """Yield the sources that a walk should have met and did not.

        What could not be looked at may still be there, and so may what lies in it.
        """
        roots = {encode_path(path.absolute()) for path in walked_paths}
        homes: dict[str, bool] = {}
        unseen = {
            problem.position.source_id
            for problem in self._report.problems
            if problem.kind == "unreadable"
        }
        above = tuple(f"{one}/" for one in unseen)
        for id_, kept in self._stored_sources.items():
            if kept.home not in homes:
                is_there = Path(decode_path(kept.home)).exists()
                homes[kept.home] = kept.home in roots or not is_there
            is_looked_for = homes[kept.home] or id_ in roots
            is_unseen = id_ in unseen or id_.startswith(above)
            if id_ not in found_ids and is_looked_for and not is_unseen:
                yield kept

    def _find_in_moved_homes(
        self,
        changes: Iterable[ChangedSource],
        missing: Iterable[StoredSource],
        found_ids: set[SourceId],
    ) -> Iterator[StoredSource]:
        """Yield what lies in a home that is gone as such, while its files moved.

        Most of those that were there must have: one that is found elsewhere may be a
        copy, and the disk with the others may be away.
        """
        moved = Counter(
            (change.stored_source.home, change.source.home)
            for change in changes
            if change.stored_source
            and change.is_moved
            and change.stored_source.path == change.source.relative_path
        )
        there = Counter(
            k.home for k in self._stored_sources.values() if k.gone_ns is None
        )
        homes = {
            old: new
            for (old, new), count in moved.items()
            if 2 * count > there[old] and not Path(decode_path(old)).exists()
        }
        for kept in missing:
            carried = structs.replace(kept, home=homes.get(kept.home, kept.home))
            if carried.id not in self._stored_sources and carried.id not in found_ids:
                yield carried

    def _check_new(self, source: SourceFile, missing: _MissingSources) -> ChangedSource:
        """Return a source under a new path: moved there, or new."""
        for kept in missing.find_candidates(source):
            if self._is_moved(source, kept):
                missing.remove(kept)
                self._report.moved += 1
                return ChangedSource(source=source, stored_source=kept, is_moved=True)
        self._report.new += 1
        return ChangedSource(source=source)

    def _is_moved(self, source: SourceFile, stored_source: StoredSource) -> bool:
        growth = detect_change(source, _read_mark(stored_source))
        is_same = growth in {SourceChange.UNCHANGED, SourceChange.APPENDED}
        return (
            is_same
            and stored_source.stored_bytes > 0
            and self._has_stored_content(source, stored_source)
            and self._has_stored_fragment(source, stored_source)
        )


class _MissingSources:
    """Sources that were not met, by what a file that was moved has in common."""

    def __init__(self, sources: Iterable[StoredSource]) -> None:
        self._by_number = {kept.number: kept for kept in sources}
        self._by_key: dict[str | int, dict[int, StoredSource]] = {}
        for number, kept in self._by_number.items():
            for sign in _match_keys(kept.path, kept.inode):
                self._by_key.setdefault(sign, {})[number] = kept

    def __iter__(self) -> Iterator[StoredSource]:
        return iter(self._by_number.values())

    def find_candidates(self, source: SourceFile) -> list[StoredSource]:
        """Return those that a file may be: by its name, or its place on the disk."""
        found: dict[int, StoredSource] = {}
        for sign in _match_keys(source.relative_path, source.inode):
            found.update(self._by_key.get(sign, {}))
        return [
            kept
            for kept in found.values()
            if source.kind is kept.kind
            and source.size >= kept.size
            and _can_be_moved(source, kept)
        ]

    def remove(self, stored_source: StoredSource) -> None:
        """Take out one that was found again."""
        del self._by_number[stored_source.number]
        for sign in _match_keys(stored_source.path, stored_source.inode):
            self._by_key[sign].pop(stored_source.number, None)


def _match_keys(path: str, inode: int) -> tuple[str | int, ...]:
    name = path.rpartition("/")[2]
    return (inode, name) if inode else (name,)


def _can_be_moved(source: SourceFile, stored_source: StoredSource) -> bool:
    """Whether a file can be one that stood elsewhere, if it says the same.

    What is said of two sessions or agents is often the same to the byte: a backup of a
    file that neither changed, a list without tasks. Those of one may have been gone for
    long when the other's come, or have left their places on the disk to them.
    """
    old = stored_source.source
    is_transcript = source.kind.is_transcript
    if (source.session_id, source.agent_id) == (old.session_id, old.agent_id):
        may_be = is_transcript or _path_within_owner(source) == _path_within_owner(old)
    else:
        may_be = is_transcript and not (has_session_id(source) and has_session_id(old))
    is_there = (
        source.inode == stored_source.inode != 0 and stored_source.gone_ns is None
    )
    is_touched = source.mtime_ns != stored_source.mtime_ns
    return may_be or (is_there and (is_transcript or not is_touched))


def _path_within_owner(source: SourceFile) -> str:
    """Return where a file stands beside what it belongs to, whatever holds that."""
    owner = source.session_id or source.agent_id
    return source.relative_path.rpartition(owner)[2] if owner else source.relative_path


def _read_range(source: SourceFile, start: int, stop: int) -> bytes | Problem:
    return read_at(Position(source.id, 0, start, stop - start))


def _agent_transcript_path(source: SourceFile) -> str:
    """Return where the agent is that a sidecar would tell of."""
    return f"{source.id.removesuffix('.meta.json')}.jsonl"


def _first_session(source: SourceFile) -> SessionId | None:
    """Return the session that an agent's records name first."""
    for line in read_lines(source, buffer_size=_HEAD_BYTES):
        if isinstance(line, Problem):
            break
        for node in decode_lines([line])[1]:
            if node.session_id:
                return node.session_id
    return None


def _looks_same(
    source: SourceFile, stored_source: StoredSource, *, is_thorough: bool
) -> bool:
    is_unproven = stored_source.ctime_ns == _UNVERIFIED_CTIME and not is_thorough
    return (
        source.size == stored_source.size
        and source.mtime_ns == stored_source.mtime_ns
        and (source.ctime_ns == stored_source.ctime_ns or is_unproven)
        and source.inode == stored_source.inode
    )


def _read_mark(stored_source: StoredSource) -> SourceFingerprint:
    return SourceFingerprint(
        offset=stored_source.stored_bytes,
        size=stored_source.size,
        head_hash=stored_source.head,
        tail_hash=stored_source.tail,
        unfinished_hash=stored_source.rest,
    )


def _with_file_times(stored_source: StoredSource, source: SourceFile) -> StoredSource:
    return structs.replace(
        stored_source,
        mtime_ns=source.mtime_ns,
        ctime_ns=source.ctime_ns,
        inode=source.inode,
    )
