"""Knowing a session again that was purged before."""

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
"""Signs of an id; longer than any that Claude Code gives."""


def find_purged(archive_db: ArchiveDB, id_or_prefix: str) -> SessionId | None:
    """Return the session that was purged under this id, or under one that begins so.

    Of what was purged only hashes are kept, so that a beginning is enough only while
    the purge is not done, or where a file of no session still names it.
    """
    signs = load_purged_hashes(archive_db.db)
    if not id_or_prefix or hash_of_session(SessionId(id_or_prefix)) in signs:
        return SessionId(id_or_prefix) or None
    found = {
        id_ for id_ in load_pending_purge(archive_db.db) if id_.startswith(id_or_prefix)
    }
    found |= {
        id_
        for id_ in _mentioned_ids(archive_db, id_or_prefix)
        if hash_of_session(id_) in signs
    }
    if len(found) > 1:
        raise AmbiguousSelector("session", id_or_prefix, sorted(found))
    return next(iter(found), None)


def _mentioned_ids(archive_db: ArchiveDB, prefix: str) -> Iterator[SessionId]:
    """Yield all strings that begin so in files of no session, such as the history."""
    start = re.escape(prefix.encode())
    pattern = re.compile(rb'"(' + start + rb'[^"\\]{0,%d})"' % _MAX_ID_LENGTH)
    for _, raw in iter_sessionless_chunks(archive_db):
        for match in pattern.finditer(raw):
            yield SessionId(match[1].decode("utf-8", "replace"))


class PurgeResult(Struct, kw_only=True):
    """What was erased."""

    sources: int = 0
    bytes: int = 0
    is_vacuumed: bool = True
    """Whether no trace is left; a reader may keep old pages for as long as it reads."""


def purge(
    folder: Path,
    sources: Iterable[StoredSource],
    *,
    sessions: Sequence[SessionId] = (),
    progress: ProgressReporter | None = None,
    lock_timeout: float = 5.0,
) -> PurgeResult:
    """Erase sources from the archive and make the index anew without them.

    Freed pages are overwritten, the database is packed and its log emptied. A file
    that was purged is refused when it is met again, and so is what belongs to one of
    the ``sessions``: what came to them since somebody looked goes as well. If this is
    stopped, the next purge finishes it, whatever it is of.
    """
    done = PurgeResult()
    with (
        writer_lock(folder, timeout=lock_timeout),
        ArchiveDir(folder, write=True) as vault,
    ):
        chunks = vault.byte_store
        gone = _select_sources(vault, sources, sessions)
        if gone:
            # First, so that neither tells of what is gone if this is stopped. A copy
            # from before a migration has the same bytes.
            for copy in folder.glob(f"{chunks.path.name}.version-*"):
                copy.unlink()
            remove_verification(folder)
            with chunks.db:  # so that who finds no index knows why
                begin_purge(chunks.db, ())
            vault.remove_all_indexes()
            with chunks.db:
                begin_purge(chunks.db, sessions)
                for kept in gone:
                    done.sources += 1
                    done.bytes += kept.stored_bytes
                    chunks.erase_source(kept)
        done.is_vacuumed = chunks.vacuum()
        if vault.index is None:
            rebuild_index(vault, progress or NullProgress())
        if done.is_vacuumed:
            done.is_vacuumed = _finish_purge(chunks)
    return done


def _select_sources(
    archive_dir: ArchiveDir,
    sources: Iterable[StoredSource],
    sessions: Sequence[SessionId],
) -> list[StoredSource]:
    """Return what is to be erased as it is now, by names.

    Others may have written since somebody looked: what is moved has another name, and
    what is erased has left its number to another file.
    """
    everything = list(archive_dir.byte_store.sources())
    names = {(kept.home, kept.path) for kept in sources}
    if sessions and archive_dir.index is not None:
        own = files_of_sessions(everything, DerivedTables(archive_dir.index), sessions)
        names.update((kept.home, kept.path) for kept in own)
    return [kept for kept in everything if (kept.home, kept.path) in names]


def _finish_purge(archive_db: ArchiveDB) -> bool:
    with archive_db.db:
        end_purge(archive_db.db)
    return archive_db.checkpoint_wal()
