"""Erase sessions from an archive, and select the stored files that belong to them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from shutil import rmtree

from msgspec import Struct

from bygones.errors import AmbiguousSelector, SessionsNotIndexed
from bygones.ingest.indexer import rebuild_index
from bygones.maintenance.verify import remove_verification
from bygones.model.base import (
    NullProgress,
    ProgressReporter,
    ProjectKey,
    SessionId,
    SourceKind,
)
from bygones.model.summary import Project
from bygones.store.annotations import remove_unused_directories
from bygones.store.archive_db import (
    ArchiveDB,
    StoredSource,
    begin_purge,
    end_purge,
    hash_of_session,
    load_pending_purge,
    load_purged_hashes,
)
from bygones.store.archive_dir import RECALL_FOLDER, ArchiveDir
from bygones.store.compression import UNKNOWN_HASH
from bygones.store.connect import writer_lock
from bygones.store.derived_tables import DerivedTables
from bygones.store.hub_sessions import erase_hub_sessions
from bygones.store.local_reader import load_sources
from bygones.store.protocols import Lookup, SessionReader, StoreReader
from bygones.store.undo_files import erase_undo_files

_COPY_KINDS = ("version", "damaged")
"""Copies of the database that migrations and repairs leave."""


def select_files(
    reader: StoreReader, sessions: Sequence[SessionId] | None, project: Project | None
) -> list[StoredSource]:
    """Return the files of a store: all, or those of sessions or a project."""
    sources = load_sources(reader)
    if sessions is None and project is None:
        return sources
    keys = project.project_keys if project else ()
    session_ids = (*(sessions or ()), *(project.session_ids if project else ()))
    return files_of_sessions(sources, reader.sessions, session_ids, keys)


def files_of_sessions(
    sources: Iterable[StoredSource],
    session_reader: SessionReader,
    sessions: Sequence[SessionId],
    project_keys: Sequence[ProjectKey] = (),
) -> list[StoredSource]:
    """Return the files of sessions: transcripts, agents and files next to them.

    That includes sidecars, long outputs, workflows, backups of edited files, todos and
    tasks. The index knows the session of a transcript; other files are assigned by
    their path. `project_keys` adds files that belong to a project as a whole.
    """
    all_sources = list(sources)
    numbers = [session_reader.session_number(session) for session in sessions]
    session_sources = {
        source
        for number in numbers
        if number is not None
        for source in session_reader.session_sources(number)
    }
    stems = {
        stored_source.id.removesuffix(".jsonl")
        for stored_source in all_sources
        if stored_source.number in session_sources
    }
    session_ids, folders = set(sessions), set(project_keys)
    return [
        stored_source
        for stored_source in all_sources
        if stored_source.number in session_sources
        or (
            not stored_source.kind.is_transcript
            and _belongs_to(stored_source, stems, session_ids)
        )
        or _is_project_sidecar(stored_source, folders)
    ]


def find_unindexed(reader: StoreReader, id_or_prefix: str) -> SessionId | None:
    """Return the session with an id, or a prefix, in the names of stored transcripts.

    So sessions are found that could not be indexed.
    """
    found = {
        source.session
        for source in load_sources(reader)
        if source.kind is SourceKind.SESSION
        and source.session is not None
        and source.session.startswith(id_or_prefix)
        and _has_sources(reader.sessions, source.session)
    }
    if len(found) > 1 and id_or_prefix not in found:
        raise AmbiguousSelector("session", id_or_prefix, sorted(found))
    return min(found, default=None)


def _has_sources(session_reader: SessionReader, session: SessionId) -> bool:
    number = session_reader.session_number(session)
    return number is not None and bool(session_reader.session_sources(number))


def _belongs_to(
    stored_source: StoredSource, stems: set[str], session_ids: set[SessionId]
) -> bool:
    if (
        stored_source.session in session_ids
        or stored_source.id.removesuffix(".meta.json") in stems
    ):
        return True
    above = str(stored_source.id)
    while "/" in above:
        above = above.rpartition("/")[0]
        if above in stems:
            return True
    return False


def _is_project_sidecar(stored_source: StoredSource, folders: set[ProjectKey]) -> bool:
    """Whether a file describes a project as a whole."""
    is_sidecar = (
        stored_source.kind is SourceKind.SIDECAR and stored_source.session is None
    )
    return (
        is_sidecar and stored_source.agent is None and stored_source.project in folders
    )


def related_sessions(
    session_reader: SessionReader, lookup: Lookup, sessions: Sequence[SessionId]
) -> set[SessionId]:
    """Return other sessions that share records with these."""
    chosen = set(sessions)
    related = set()
    for number in map(session_reader.session_number, chosen):
        for member in (
            session_reader.family_members(number) if number is not None else ()
        ):
            summary = lookup.load_summary(member)
            others = (
                {lineage.session_id for lineage in summary.lineage}
                if summary
                else set()
            )
            if summary and (summary.id in chosen or others & chosen):
                related |= {summary.id, *others}
    return related - chosen


def sources_mentioning(
    archive_db: ArchiveDB, sessions: Sequence[SessionId]
) -> list[StoredSource]:
    """Return files without a session that contain one of these ids."""
    names = [session.encode() for session in sessions]
    found = {
        source.number: source
        for source, raw in iter_sessionless_chunks(archive_db)
        if any(name in raw for name in names)
    }
    return list(found.values())


def iter_sessionless_chunks(
    archive_db: ArchiveDB,
) -> Iterator[tuple[StoredSource, bytes]]:
    """Yield the chunks of files without a session, in all generations.

    Raises `ArchiveDamaged` for damaged chunks, which may still contain an id. Those
    whose rows are missing are gone.
    """
    for source in list(archive_db.sources()):
        if source.kind.is_transcript or source.session is not None:
            continue
        for generation in range(source.generation + 1):
            place = (source.number, generation)
            for chunk, raw in archive_db.try_read_chunks(*place):
                if raw is None and chunk.lost_ns and chunk.hash == UNKNOWN_HASH:
                    continue  # accepted as lost: there are no bytes
                if raw is None:
                    archive_db.read_bytes(*place, chunk.start, 1)  # says what is wrong
                else:
                    yield source, raw


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
    failure: SessionsNotIndexed | None = None
    """Which other sessions could not be indexed again."""


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
        erase_undo_files(folder, sessions)
        erase_hub_sessions(folder, sessions)
        _erase_recall(folder)
        purged = _select_sources(archive_dir, sources, sessions)
        if purged:
            # First, so that neither outlives an interrupted purge. A copy from before
            # a migration has the same bytes.
            for kind in _COPY_KINDS:
                for copy in folder.glob(f"{archive_db.path.name}.{kind}-*"):
                    copy.unlink()
            rmtree(folder / "repairing", ignore_errors=True)
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
            report = rebuild_index(archive_dir, progress or NullProgress())
            result.failure = report.failure
        if archive_dir.index is not None:
            projects = DerivedTables(archive_dir.index).projects()
            remove_unused_directories(archive_db.db, projects)
        if result.is_vacuumed:
            result.is_vacuumed = _finish_purge(archive_db)
    return result


def _erase_recall(folder: Path) -> None:
    """Erase the quotations for hooks; the next hook writes them again."""
    recall = folder / RECALL_FOLDER
    if recall.is_dir():
        rmtree(recall)
        recall.mkdir(mode=0o700)


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
