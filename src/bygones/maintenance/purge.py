"""Erase sources from the archive, and recognize what was purged."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from bygones.errors import AmbiguousSelector
from bygones.ingest.indexer import rebuild_index
from bygones.maintenance.session_files import files_of_sessions, iter_sessionless_chunks
from bygones.maintenance.verify import remove_verification
from bygones.model.base import SessionId
from bygones.model.progress import NullProgress, ProgressReporter
from bygones.store.archive_db import ArchiveDB, StoredSource
from bygones.store.archive_dir import ArchiveDir
from bygones.store.archive_tables import (
    begin_purge,
    end_purge,
    hash_of_session,
    load_pending_purge,
    load_purged_hashes,
)
from bygones.store.connect import writer_lock
from bygones.store.derived_tables import DerivedTables

_MAX_ID_LENGTH = 100
"""Characters of a session id; more than any that Claude Code uses."""


def find_purged(archive_db: ArchiveDB, id_or_prefix: str) -> SessionId | None:
    """Return the purged session with an id, or with an id that has a prefix.

    Only hashes of purged ids are kept, so a prefix only works while the purge is
    unfinished, or if a file without a session (such as the history) still contains the
    id.
    """
    hashes = load_purged_hashes(archive_db.db)
    if not id_or_prefix or hash_of_session(SessionId(id_or_prefix)) in hashes:
        return SessionId(id_or_prefix) or None
    found = {
        id_ for id_ in load_pending_purge(archive_db.db) if id_.startswith(id_or_prefix)
    }
    found |= {
        id_
        for id_ in _mentioned_ids(archive_db, id_or_prefix)
        if hash_of_session(id_) in hashes
    }
    if len(found) > 1:
        raise AmbiguousSelector("session", id_or_prefix, sorted(found))
    return next(iter(found), None)


def _mentioned_ids(archive_db: ArchiveDB, prefix: str) -> Iterator[SessionId]:
    """Yield all strings with a prefix in files without a session."""
    escaped = re.escape(prefix.encode())
    pattern = re.compile(rb'"(' + escaped + rb'[^"\\]{0,%d})"' % _MAX_ID_LENGTH)
    for _, raw in iter_sessionless_chunks(archive_db):
        for match in pattern.finditer(raw):
            yield SessionId(match[1].decode("utf-8", "replace"))


class PurgeResult(Struct, kw_only=True):
    """What was erased."""

    sources: int = 0
    bytes: int = 0
    is_vacuumed: bool = True
    """Whether no trace is left; a reader keeps old pages while it reads."""


def purge(
    folder: Path,
    sources: Iterable[StoredSource],
    *,
    sessions: Sequence[SessionId] = (),
    progress: ProgressReporter | None = None,
    lock_timeout: float = 5.0,
) -> PurgeResult:
    """Erase sources from the archive, and rebuild the index without them.

    Freed pages are overwritten, the database is vacuumed and its log truncated. Purged
    files are refused when they are found again, and so is everything that belongs to
    one of the `sessions`, including what was added since the sources were selected. An
    interrupted purge is finished by the next one.
    """
    result = PurgeResult()
    with (
        writer_lock(folder, timeout=lock_timeout),
        ArchiveDir(folder, write=True) as archive_dir,
    ):
        archive_db = archive_dir.byte_store
        purged = _select_sources(archive_dir, sources, sessions)
        if purged:
            # First, so that neither outlives an interrupted purge. A copy from before
            # a migration has the same bytes.
            for copy in folder.glob(f"{archive_db.path.name}.version-*"):
                copy.unlink()
            remove_verification(folder)
            with archive_db.db:  # so that readers know why there is no index
                begin_purge(archive_db.db, ())
            archive_dir.remove_all_indexes()
            with archive_db.db:
                begin_purge(archive_db.db, sessions)
                for source in purged:
                    result.sources += 1
                    result.bytes += source.stored_bytes
                    archive_db.erase_source(source)
        result.is_vacuumed = archive_db.vacuum()
        if archive_dir.index is None:
            rebuild_index(archive_dir, progress or NullProgress())
        if result.is_vacuumed:
            result.is_vacuumed = _finish_purge(archive_db)
    return result


def _select_sources(
    archive_dir: ArchiveDir,
    sources: Iterable[StoredSource],
    sessions: Sequence[SessionId],
) -> list[StoredSource]:
    """Return the current state of the sources to erase, by path.

    Others may have written since they were selected: a moved source has another path,
    and the number of a purged one may be used again.
    """
    everything = list(archive_dir.byte_store.sources())
    paths = {(source.home, source.path) for source in sources}
    if sessions and archive_dir.index is not None:
        own = files_of_sessions(everything, DerivedTables(archive_dir.index), sessions)
        paths.update((source.home, source.path) for source in own)
    return [source for source in everything if (source.home, source.path) in paths]


def _finish_purge(archive_db: ArchiveDB) -> bool:
    with archive_db.db:
        end_purge(archive_db.db)
    return archive_db.checkpoint_wal()
