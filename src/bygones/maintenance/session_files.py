"""Select the stored files of sessions and projects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from bygones.model.base import ProjectKey, SessionId, SourceKind
from bygones.model.summary import Project
from bygones.store.archive_db import ArchiveDB, StoredSource
from bygones.store.local_reader import load_sources
from bygones.store.protocols import Lookup, SessionReader, StoreReader

__all__ = [
    "files_of_sessions",
    "iter_sessionless_chunks",
    "related_sessions",
    "select_files",
    "sources_mentioning",
]


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
    """Yield the chunks of files without a session, in all generations."""
    for source in list(archive_db.sources()):
        if source.kind.is_transcript or source.session is not None:
            continue
        for generation in range(source.generation + 1):
            for _, raw in archive_db.read_chunks(source.number, generation):
                yield source, raw
