"""Find out which sources changed, by a full scan or among modified files."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path

from msgspec import Struct, structs

from bygones.assemble.grouping import has_session_id
from bygones.errors import ArchiveDamaged
from bygones.ingest.index_batch import decode_lines
from bygones.model.base import (
    IngestReport,
    Position,
    Problem,
    SessionId,
    SourceFile,
    SourceId,
    SourceKind,
    decode_path,
    encode_path,
)
from bygones.model.machines import is_on_this_machine
from bygones.sources.fingerprint import SourceChange, SourceFingerprint, detect_change
from bygones.sources.lines import read_at, read_lines
from bygones.store.archive_db import (
    ArchiveDB,
    StoredSource,
    hash_of_session,
    hashes_of_source,
    load_purged_hashes,
)
from bygones.store.compression import sha256_digest

FULL_COMPARE_BYTES = 32 * 1024 * 1024
"""Files up to this size are compared completely when they grow, which takes at most a
tenth of a second. Of longer files only the ends are compared, except by a thorough
scan.
"""

_UNVERIFIED_CTIME = 0
"""Stored as the ctime of a long file that was not compared completely when it grew, so
that the next thorough scan does it.
"""
_HEAD_BYTES = 1 << 16
_HASHED_BYTES = 1 << 20


class ChangedSource(Struct, frozen=True, kw_only=True):
    """A source with something new for the archive."""

    source: SourceFile
    stored_source: StoredSource | None = None
    is_rewritten: bool = False
    is_moved: bool = False

    @property
    def stored_bytes(self) -> int:
        """How many bytes of the file are stored already."""
        return (
            self.stored_source.stored_bytes
            if self.stored_source and not self.is_rewritten
            else 0
        )

    def save_source(self, archive_db: ArchiveDB) -> StoredSource:
        """Insert or update the row of the source; return its stored state."""
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
    """Compares files with what the archive has."""

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
        self._stored_sources = {source.id: source for source in stored_sources}
        self._purged_hashes = load_purged_hashes(archive_db.db)
        self._gone: list[int] = []
        self._returned: list[int] = []
        self.touched_sources: list[StoredSource] = []
        """Sources whose files have new timestamps, but no other change."""
        self.sources_of_moved_homes: list[StoredSource] = []
        """Sources whose files were gone when their home moved, with their new home."""

    def find_changes(
        self, sources: Iterable[SourceFile], walked_paths: Iterable[Path]
    ) -> list[ChangedSource]:
        """Return the changed sources, in the order of the scan."""
        changes: list[ChangedSource] = []
        new_sources: list[SourceFile] = []
        refused: set[SourceId] = set()
        found_ids: set[SourceId] = set()
        for source in sources:
            if source.id in found_ids:
                continue
            found_ids.add(source.id)
            stored = self._stored_sources.get(source.id)
            if stored is not None:
                changes.extend(self._check_known(source, stored))
            elif self._purged_hashes and self._is_purged(source):
                refused.add(source.id)
            else:
                new_sources.append(source)
        accepted = [
            source
            for source in new_sources
            if _agent_transcript_path(source) not in refused
        ]
        self._report.refused += len(refused) + len(new_sources) - len(accepted)
        missing = _MissingSources(self._find_missing(found_ids, walked_paths))
        changes.extend([self._check_new(source, missing) for source in accepted])
        self.sources_of_moved_homes = list(
            self._find_in_moved_homes(changes, missing, found_ids)
        )
        self._gone = [source.number for source in missing if source.gone_ns is None]
        self._report.gone = len(self._gone)
        self._stored_sources = {}  # not needed any more, and may be large
        return changes

    @property
    def has_other_changes(self) -> bool:
        """Whether files disappeared, came back or were only touched."""
        return bool(self._gone or self._returned or self.touched_sources)

    def _is_purged(self, source: SourceFile) -> bool:
        """Whether a file was purged, or belongs to a purged session.

        The path doesn't always contain the session: an agent next to its session, or a
        file that isn't named by an id. Then the first record is read.
        """
        if hashes_of_source(source) & self._purged_hashes:
            return True
        is_named = source.session_id is not None
        if source.kind is SourceKind.SESSION:
            is_named = has_session_id(source)
        if is_named or not source.kind.is_transcript:
            return False
        session = _first_session(source)
        return session is not None and hash_of_session(session) in self._purged_hashes

    def save_file_states(self) -> None:
        """Record files that disappeared, came back or were only touched."""
        for source in self.touched_sources:
            self._archive_db.save_read_state(source)
        for source in self.sources_of_moved_homes:
            self._archive_db.set_home(source)
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
            # It was added while it was empty, without a session id.
            self._report.refused += 1
            return []
        if stored_source.gone_ns is not None:
            self._returned.append(stored_source.number)
            self._report.returned += 1
        elif _looks_same(source, stored_source, is_thorough=self._is_thorough):
            self._report.unchanged += 1
            return []
        change = self._classify_growth(source, stored_source)
        if isinstance(change, Problem):
            self._report.problems.append(change)
            return []
        if change is SourceChange.UNCHANGED:
            self._report.unchanged += 1
            self.touched_sources.append(_with_file_times(stored_source, source))
            return []
        is_rewritten = change is SourceChange.REWRITTEN
        self._report.rewritten += is_rewritten
        self._report.grown += not is_rewritten
        if not is_rewritten and not self._is_fully_compared(
            change, source, stored_source
        ):
            source = structs.replace(source, ctime_ns=_UNVERIFIED_CTIME)
        return [
            ChangedSource(
                source=source, stored_source=stored_source, is_rewritten=is_rewritten
            )
        ]

    def _classify_growth(
        self, source: SourceFile, stored_source: StoredSource
    ) -> SourceChange | Problem:
        """Return how a file changed, by its ends, and by all of it if in doubt.

        A touched file of the same length may have been changed in the middle, and so
        may a file that replaced another, or one that also grew. An unfinished line that
        was replaced must not be lost either.
        """
        change = detect_change(source, _read_mark(stored_source))
        if isinstance(change, Problem) or change is SourceChange.REWRITTEN:
            return change
        if self._is_fully_compared(
            change, source, stored_source
        ) and not self._has_stored_content(source, stored_source):
            return SourceChange.REWRITTEN
        if not self._has_stored_fragment(source, stored_source):
            return SourceChange.REWRITTEN
        if change is SourceChange.UNCHANGED and stored_source.has_fragment:
            # Only its hash was compared: store it again, it may be damaged.
            return SourceChange.APPENDED
        return change

    def _is_fully_compared(
        self, change: SourceChange, source: SourceFile, stored_source: StoredSource
    ) -> bool:
        """Whether all of a file is compared, not only its ends."""
        is_suspicious = (
            change is SourceChange.UNCHANGED or source.inode != stored_source.inode
        )
        return (
            is_suspicious
            or self._is_thorough
            or stored_source.stored_bytes <= FULL_COMPARE_BYTES
        )

    def _has_stored_content(
        self, source: SourceFile, stored_source: StoredSource
    ) -> bool:
        """Whether a file still starts with all stored lines."""
        return all(
            isinstance(raw := _read_range(source, start, stop), bytes)
            and sha256_digest(raw) == digest
            for start, stop, digest in self._archive_db.chunk_hashes(
                stored_source.number, stored_source.generation
            )
        )

    def _has_stored_fragment(
        self, source: SourceFile, stored_source: StoredSource
    ) -> bool:
        """Whether the stored unfinished line is still in the file."""
        if not stored_source.has_fragment:
            return True
        try:
            found = self._archive_db.fragment_range(
                stored_source.number, stored_source.generation
            )
        except ArchiveDamaged:
            return False
        if found is None:
            return True
        _, stop, digest = found
        return _hash_range(source, stored_source.stored_bytes, stop) == digest

    def _find_missing(
        self, found_ids: set[SourceId], walked_paths: Iterable[Path]
    ) -> Iterator[StoredSource]:
        """Yield the sources that a scan should have found but didn't.

        Files in folders that couldn't be read may still exist.
        """
        roots = {encode_path(path.absolute()) for path in walked_paths}
        is_searched: dict[str, bool] = {}
        unreadable = {
            problem.position.source_id
            for problem in self._report.problems
            if problem.kind == "unreadable"
        }
        unreadable_folders = tuple(f"{path}/" for path in unreadable)
        for id_, source in self._stored_sources.items():
            if source.home not in is_searched:
                is_gone = (
                    is_on_this_machine(source.home)
                    and not Path(decode_path(source.home)).exists()
                )
                is_searched[source.home] = source.home in roots or is_gone
            is_expected = is_searched[source.home] or id_ in roots
            may_exist = id_ in unreadable or id_.startswith(unreadable_folders)
            if id_ not in found_ids and is_expected and not may_exist:
                yield source

    def _find_in_moved_homes(
        self,
        changes: Iterable[ChangedSource],
        missing: Iterable[StoredSource],
        found_ids: set[SourceId],
    ) -> Iterator[StoredSource]:
        """Yield missing sources of homes that were moved, with their new home.

        Most files of the home must have moved: a single file found elsewhere may be a
        copy, while the disk with the others is not mounted.
        """
        moved = Counter(
            (change.stored_source.home, change.source.home)
            for change in changes
            if change.stored_source
            and change.is_moved
            and change.stored_source.path == change.source.relative_path
        )
        present = Counter(
            source.home
            for source in self._stored_sources.values()
            if source.gone_ns is None
        )
        homes = {
            old: new
            for (old, new), count in moved.items()
            if 2 * count > present[old] and not Path(decode_path(old)).exists()
        }
        for missing_source in missing:
            moved_source = structs.replace(
                missing_source, home=homes.get(missing_source.home, missing_source.home)
            )
            if (
                moved_source.id not in self._stored_sources
                and moved_source.id not in found_ids
            ):
                yield moved_source

    def _check_new(self, source: SourceFile, missing: _MissingSources) -> ChangedSource:
        """Return a file with a new path: moved, or new."""
        for candidate in missing.find_candidates(source):
            if self._is_moved(source, candidate):
                missing.remove(candidate)
                self._report.moved += 1
                return ChangedSource(
                    source=source, stored_source=candidate, is_moved=True
                )
        self._report.new += 1
        return ChangedSource(source=source)

    def _is_moved(self, source: SourceFile, stored_source: StoredSource) -> bool:
        change = detect_change(source, _read_mark(stored_source))
        is_same = change in {SourceChange.UNCHANGED, SourceChange.APPENDED}
        return (
            is_same
            and stored_source.stored_bytes > 0
            and self._has_stored_content(source, stored_source)
            and self._has_stored_fragment(source, stored_source)
        )


class _MissingSources:
    """Sources that were not found, by the name and inode of their files."""

    def __init__(self, sources: Iterable[StoredSource]) -> None:
        self._by_number = {source.number: source for source in sources}
        self._by_key: dict[str | int, dict[int, StoredSource]] = {}
        for number, source in self._by_number.items():
            for key in _match_keys(source.path, source.inode):
                self._by_key.setdefault(key, {})[number] = source

    def __iter__(self) -> Iterator[StoredSource]:
        return iter(self._by_number.values())

    def find_candidates(self, source: SourceFile) -> list[StoredSource]:
        """Return the sources that a file may be, by its name or inode."""
        found: dict[int, StoredSource] = {}
        for key in _match_keys(source.relative_path, source.inode):
            found.update(self._by_key.get(key, {}))
        return [
            candidate
            for candidate in found.values()
            if source.kind is candidate.kind
            and source.size >= candidate.size
            and _can_be_moved(source, candidate)
        ]

    def remove(self, stored_source: StoredSource) -> None:
        """Remove a source that was found again."""
        del self._by_number[stored_source.number]
        for key in _match_keys(stored_source.path, stored_source.inode):
            self._by_key[key].pop(stored_source.number, None)


def _match_keys(path: str, inode: int) -> tuple[str | int, ...]:
    name = path.rpartition("/")[2]
    return (inode, name) if inode else (name,)


def _can_be_moved(source: SourceFile, stored_source: StoredSource) -> bool:
    """Whether a file with the same content may be a moved source.

    Files of different sessions or agents often have the same content, such as a backup
    of an unchanged file or an empty task list, and may reuse an inode.
    """
    old = stored_source.source
    is_transcript = source.kind.is_transcript
    if (source.session_id, source.agent_id) == (old.session_id, old.agent_id):
        is_possible = is_transcript or _path_within_owner(source) == _path_within_owner(
            old
        )
    else:
        is_possible = is_transcript and not (
            has_session_id(source) and has_session_id(old)
        )
    is_same_file = (
        source.inode == stored_source.inode != 0 and stored_source.gone_ns is None
    )
    is_touched = source.mtime_ns != stored_source.mtime_ns
    return is_possible or (is_same_file and (is_transcript or not is_touched))


def _path_within_owner(source: SourceFile) -> str:
    """Return the path of a file below its session or agent."""
    owner = source.session_id or source.agent_id
    return source.relative_path.rpartition(owner)[2] if owner else source.relative_path


def _read_range(source: SourceFile, start: int, stop: int) -> bytes | Problem:
    return read_at(Position(source.id, 0, start, stop - start))


def _hash_range(source: SourceFile, start: int, stop: int) -> bytes:
    """Return the hash of a range of a file, which may be a giant line."""
    digest = sha256()
    for at in range(start, stop, _HASHED_BYTES):
        raw = _read_range(source, at, min(at + _HASHED_BYTES, stop))
        if isinstance(raw, Problem):
            return b""
        digest.update(raw)
    return digest.digest()


def _agent_transcript_path(source: SourceFile) -> str:
    """Return the path of the agent transcript that a sidecar describes."""
    return f"{source.id.removesuffix('.meta.json')}.jsonl"


def _first_session(source: SourceFile) -> SessionId | None:
    """Return the first session id in the records of a file."""
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
