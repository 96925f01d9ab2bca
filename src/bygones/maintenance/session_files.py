"""What belongs to a session or a project, of all that the archive keeps."""

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
    """Return the files of a shelf: all, or those of sessions or a project."""
    everything = load_sources(reader)
    if sessions is None and project is None:
        return everything
    keys = project.project_keys if project else ()
    chosen = (*(sessions or ()), *(project.session_ids if project else ()))
    return files_of_sessions(everything, reader.sessions, chosen, keys)


def files_of_sessions(
    sources: Iterable[StoredSource],
    session_reader: SessionReader,
    sessions: Sequence[SessionId],
    project_keys: Sequence[ProjectKey] = (),
) -> list[StoredSource]:
    """Return the files of sessions: transcripts, agents, and all that lies by them.

    That is sidecars, long outputs, workflows, backups of edited files, todos and
    tasks. Whose a transcript is, the index says; whose another file is, its place.
    ``keys`` adds what a project's folders hold for all their sessions.
    """
    everything = list(sources)
    numbers = [session_reader.session_number(session) for session in sessions]
    own = {
        source
        for number in numbers
        if number is not None
        for source in session_reader.session_sources(number)
    }
    stems = {
        kept.id.removesuffix(".jsonl") for kept in everything if kept.number in own
    }
    names, folders = set(sessions), set(project_keys)
    return [
        kept
        for kept in everything
        if kept.number in own
        or (not kept.kind.is_transcript and _belongs_to(kept, stems, names))
        or _is_project_sidecar(kept, folders)
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
    """Whether a file tells of a project's folder as a whole."""
    is_sidecar = (
        stored_source.kind is SourceKind.SIDECAR and stored_source.session is None
    )
    return (
        is_sidecar and stored_source.agent is None and stored_source.project in folders
    )


def related_sessions(
    session_reader: SessionReader, lookup: Lookup, sessions: Sequence[SessionId]
) -> set[SessionId]:
    """Return other sessions that hold records of these, or that these hold of."""
    chosen = set(sessions)
    related = set()
    for number in map(session_reader.session_number, chosen):
        for member in (
            session_reader.family_members(number) if number is not None else ()
        ):
            one = lookup.load_summary(member)
            others = {lineage.session_id for lineage in one.lineage} if one else set()
            if one and (one.id in chosen or others & chosen):
                related |= {one.id, *others}
    return related - chosen


def sources_mentioning(
    archive_db: ArchiveDB, sessions: Sequence[SessionId]
) -> list[StoredSource]:
    """Return files of no session that name one of these, such as the history."""
    names = [session.encode() for session in sessions]
    found = {
        kept.number: kept
        for kept, raw in iter_sessionless_chunks(archive_db)
        if any(name in raw for name in names)
    }
    return list(found.values())


def iter_sessionless_chunks(
    archive_db: ArchiveDB,
) -> Iterator[tuple[StoredSource, bytes]]:
    """Yield files of no session, piece by piece, also their older generations."""
    for kept in list(archive_db.sources()):
        if kept.kind.is_transcript or kept.session is not None:
            continue
        for generation in range(kept.generation + 1):
            for _, raw in archive_db.read_chunks(kept.number, generation):
                yield kept, raw
