"""Deriving sessions: families that something touched are assembled and written."""

from __future__ import annotations

from recollect.assemble import listed
from recollect.ingest.indexing import Indexer
from recollect.ingest.loading import load_family
from recollect.ingest.report import Progress, Report
from recollect.model.parts import Loader
from recollect.store.derived import Derived
from recollect.store.vault import Vault

__all__ = ["derive"]

_BATCH = 500


def derive(vault: Vault, indexer: Indexer, report: Report, progress: Progress) -> None:
    """Bring the rows of sessions up to date with the nodes; commits as it goes."""
    index = vault.index
    if index is None:
        return
    derived = Derived(index)
    with index.db:
        derived.finish_schema()
        indexer.reassign(derived.dirty_sources())
        derived.spread_titles()
    dirty = derived.dirty()
    families = derived.families(dirty)
    progress.begin("sessions", len(families))
    for start in range(0, len(families), _BATCH):
        with index.db:
            for family in families[start : start + _BATCH]:
                _derive(vault, derived, family, report)
                progress.advance(1)
    progress.end()


def _derive(vault: Vault, derived: Derived, family: list[int], report: Report) -> None:
    index = derived.index
    for number in family:
        derived.remove(number)
    for session in load_family(vault, derived, family, Loader()):
        number = index.number(session.id)
        derived.write(number, family[0], session, listed(session))
        report.sessions += 1
