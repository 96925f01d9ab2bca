"""Change annotations of sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from bygones.model.base import SessionId
from bygones.model.summary import Annotations
from bygones.store.archive_db import ArchiveDB, load_annotations, write_annotations
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
    """Change the annotations of sessions in one transaction; return the new ones."""
    changed = {}
    with writer_lock(folder, timeout=lock_timeout):
        archive_db = ArchiveDB(folder, write=True)
        try:
            with archive_db.db:
                known = load_annotations(archive_db.db)
                for session in sessions:
                    annotations = change(known.get(session, _NO_ANNOTATIONS))
                    write_annotations(archive_db.db, session, annotations)
                    changed[session] = annotations
        finally:
            archive_db.close()
    return changed
