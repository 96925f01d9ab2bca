"""Adding annotations: one writer at a time, a whole change or none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from bygones.model.annotations import Annotations
from bygones.model.ids import SessionId
from bygones.store.annotations import all_annotations, write_annotations
from bygones.store.chunks import Chunks
from bygones.store.lock import writing

__all__ = ["annotate"]

_NONE = Annotations()


def annotate(
    folder: Path,
    sessions: Iterable[SessionId],
    change: Callable[[Annotations], Annotations],
    *,
    wait: float = 5.0,
) -> dict[SessionId, Annotations]:
    """Change the annotations of sessions; return what they are now."""
    changed = {}
    with writing(folder, wait=wait):
        chunks = Chunks(folder, write=True)
        try:
            with chunks.db:
                known = all_annotations(chunks.db)
                for session in sessions:
                    told = change(known.get(session, _NONE))
                    write_annotations(chunks.db, session, told)
                    changed[session] = told
        finally:
            chunks.close()
    return changed
