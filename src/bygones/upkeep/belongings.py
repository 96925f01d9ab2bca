"""What belongs to a session or a project, of all that the archive keeps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from bygones.model.ids import ProjectKey, SessionId
from bygones.model.parts import Project
from bygones.model.sources import SourceKind
from bygones.store.chunks import Chunks, Kept
from bygones.store.rescue import kept_on
from bygones.store.shelf import Deriving, Knowing, Shelf

__all__ = ["belongings", "kept_of", "kin", "mentions", "shared_raws"]


def kept_of(
    shelf: Shelf, sessions: Sequence[SessionId] | None, project: Project | None
) -> list[Kept]:
    """Return the files of a shelf: all, or those of sessions or a project."""
    everything = kept_on(shelf)
    if sessions is None and project is None:
        return everything
    keys = project.keys if project else ()
    chosen = (*(sessions or ()), *(project.sessions if project else ()))
    return belongings(everything, shelf.derived, chosen, keys)


def belongings(
    sources: Iterable[Kept],
    derived: Deriving,
    sessions: Sequence[SessionId],
    keys: Sequence[ProjectKey] = (),
) -> list[Kept]:
    """Return the files of sessions: transcripts, agents, and all that lies by them.

    That is sidecars, long outputs, workflows, backups of edited files, todos and
    tasks. Whose a transcript is, the index says; whose another file is, its place.
    ``keys`` adds what a project's folders hold for all their sessions.
    """
    everything = list(sources)
    numbers = [derived.number_of(session) for session in sessions]
    own = {
        source
        for number in numbers
        if number is not None
        for source in derived.sources_of(number)
    }
    stems = {
        kept.id.removesuffix(".jsonl") for kept in everything if kept.number in own
    }
    names, folders = set(sessions), set(keys)
    return [
        kept
        for kept in everything
        if kept.number in own
        or (not kept.kind.is_transcript and _lies_by(kept, stems, names))
        or _is_shared(kept, folders)
    ]


def _lies_by(kept: Kept, stems: set[str], names: set[SessionId]) -> bool:
    if kept.session in names or kept.id.removesuffix(".meta.json") in stems:
        return True
    above = str(kept.id)
    while "/" in above:
        above = above.rpartition("/")[0]
        if above in stems:
            return True
    return False


def _is_shared(kept: Kept, folders: set[ProjectKey]) -> bool:
    """Whether a file tells of a project's folder as a whole."""
    is_sidecar = kept.kind is SourceKind.SIDECAR and kept.session is None
    return is_sidecar and kept.agent is None and kept.project in folders


def kin(
    derived: Deriving, finding: Knowing, sessions: Sequence[SessionId]
) -> set[SessionId]:
    """Return other sessions that hold records of these, or that these hold of."""
    chosen = set(sessions)
    related = set()
    for number in map(derived.number_of, chosen):
        for member in derived.family_of(number) if number is not None else ():
            one = finding.listed(member)
            others = {lineage.session for lineage in one.lineage} if one else set()
            if one and (one.id in chosen or others & chosen):
                related |= {one.id, *others}
    return related - chosen


def mentions(chunks: Chunks, sessions: Sequence[SessionId]) -> list[Kept]:
    """Return files of no session that name one of these, such as the history."""
    names = [session.encode() for session in sessions]
    found = {
        kept.number: kept
        for kept, raw in shared_raws(chunks)
        if any(name in raw for name in names)
    }
    return list(found.values())


def shared_raws(chunks: Chunks) -> Iterator[tuple[Kept, bytes]]:
    """Yield files of no session, piece by piece, also their older generations."""
    for kept in list(chunks.sources()):
        if kept.kind.is_transcript or kept.session is not None:
            continue
        for generation in range(kept.generation + 1):
            for _, raw in chunks.chunks(kept.number, generation):
                yield kept, raw
