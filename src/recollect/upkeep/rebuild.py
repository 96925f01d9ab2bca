"""Making the index anew from the archive alone."""

from __future__ import annotations

from pathlib import Path

from recollect.ingest.derive import derive
from recollect.ingest.indexing import Indexer
from recollect.ingest.report import Progress, Report, Silence
from recollect.store.lock import writing
from recollect.store.vault import Vault

__all__ = ["rebuild", "rebuild_in"]


def rebuild(
    folder: Path, *, progress: Progress | None = None, wait: float = 5.0
) -> Report:
    """Build a new index beside the old one and swap; readers go on meanwhile."""
    with writing(folder, wait=wait), Vault(folder, write=True) as vault:
        return rebuild_in(vault, progress or Silence())


def rebuild_in(vault: Vault, progress: Progress) -> Report:
    """Rebuild the index of a vault that is open for writing."""
    report = Report(problems=[])
    vault.begin_index()
    fill(vault, report, progress)
    vault.finish_index()
    return report


def fill(vault: Vault, report: Report, progress: Progress) -> None:
    """Let an index see all of the archive, and derive every session."""
    indexer = Indexer(vault, report)
    indexer.prepare(progress)
    indexer.commit(last=True)
    derive(vault, indexer, report, progress)
