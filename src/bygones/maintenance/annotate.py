"""Adding annotations: one writer at a time, a whole change or none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from bygones.model.base import SessionId
from bygones.model.summary import Annotations
from bygones.store.archive_db import ArchiveDB
from bygones.store.archive_tables import load_annotations, write_annotations
from bygones.store.connect import writer_lock

__all__ = ["annotate"]

_NO_ANNOTATIONS = Annotations()


def annotate(
    folder: Path,
    sessions: Iterable[SessionId],
    change: Callable[[Annotations], Annotations],
    *,
    lock_timeout: float = 5.0,
) -> dict[SessionId, Annotations]:
    """Change the annotations of sessions; return what they are now."""
    changed = {}
    with writer_lock(folder, timeout=lock_timeout):
        chunks = ArchiveDB(folder, write=True)
        try:
            with chunks.db:
                known = load_annotations(chunks.db)
                for session in sessions:
                    told = change(known.get(session, _NO_ANNOTATIONS))
                    write_annotations(chunks.db, session, told)
                    changed[session] = told
        finally:
            chunks.close()
    return changed
