"""Making an index from the archive alone."""

from __future__ import annotations

from bygones.ingest.derive import derive
from bygones.ingest.indexing import Indexer
from bygones.ingest.readers import Readers
from bygones.ingest.report import Progress, Report
from bygones.store.vault import Vault

__all__ = ["fill", "rebuild_in"]


def rebuild_in(vault: Vault, progress: Progress) -> Report:
    """Build a new index beside the old one, and swap once it is whole."""
    report = Report(problems=[])
    vault.begin_index()
    fill(vault, report, progress)
    vault.finish_index()
    return report


def fill(vault: Vault, report: Report, progress: Progress) -> None:
    """Let an index see all of the archive, and derive every session."""
    with Readers() as readers:
        indexer = Indexer(vault, report, readers)
        indexer.prepare(progress)
        indexer.commit(last=True)
        derive(vault, indexer, report, progress)
