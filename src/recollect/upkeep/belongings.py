"""What belongs to a session or a project, of all that the archive keeps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from recollect.model.ids import ProjectKey, SessionId
from recollect.model.sources import SourceKind
from recollect.store.chunks import Kept
from recollect.store.shelf import Deriving

__all__ = ["belongings"]


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
