"""Rebuild the index from the archive."""

from __future__ import annotations

from pathlib import Path

from bygones.errors import ArchiveNotFound
from bygones.ingest.indexer import rebuild_index
from bygones.model.progress import IngestReport, NullProgress, ProgressReporter
from bygones.store.archive_db import ArchiveDB
from bygones.store.archive_dir import ArchiveDir
from bygones.store.connect import writer_lock

__all__ = ["rebuild"]


def rebuild(
    folder: Path, *, progress: ProgressReporter | None = None, lock_timeout: float = 5.0
) -> IngestReport:
    """Build a new index and replace the old one; readers are not interrupted."""
    if not ArchiveDir.exists(folder):
        raise ArchiveNotFound(folder)
    ArchiveDB(folder).close()  # raises an error if the file isn't an archive
    with (
        writer_lock(folder, timeout=lock_timeout),
        ArchiveDir(folder, write=True) as archive_dir,
    ):
        return rebuild_index(archive_dir, progress or NullProgress())
