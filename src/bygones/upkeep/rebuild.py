"""Making the index anew from the archive alone."""

from __future__ import annotations

from pathlib import Path

from bygones.errors import ArchiveMissing
from bygones.ingest.filling import rebuild_in
from bygones.ingest.report import Progress, Report, Silence
from bygones.store.chunks import Chunks
from bygones.store.lock import writing
from bygones.store.vault import Vault

__all__ = ["rebuild"]


def rebuild(
    folder: Path, *, progress: Progress | None = None, wait: float = 5.0
) -> Report:
    """Build a new index beside the old one and swap; readers go on meanwhile."""
    if not Vault.exists(folder):
        raise ArchiveMissing(folder)
    Chunks(folder).close()  # which a file is not in which nothing was ever kept
    with writing(folder, wait=wait), Vault(folder, write=True) as vault:
        return rebuild_in(vault, progress or Silence())
