"""Making the index anew from the archive alone."""

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
    """Build a new index beside the old one and swap; readers go on meanwhile."""
    if not ArchiveDir.exists(folder):
        raise ArchiveNotFound(folder)
    ArchiveDB(folder).close()  # which a file is not in which nothing was ever kept
    with (
        writer_lock(folder, timeout=lock_timeout),
        ArchiveDir(folder, write=True) as vault,
    ):
        return rebuild_index(vault, progress or NullProgress())
