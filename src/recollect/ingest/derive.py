"""Deriving sessions: families that something touched are assembled and written."""

from __future__ import annotations

from collections.abc import Iterator

from recollect.assemble import listed
from recollect.ingest.indexing import Indexer
from recollect.ingest.loading import load_family
from recollect.ingest.report import Progress, Report
from recollect.model.ids import SessionId
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
    touched = frozenset(dirty)
    progress.begin("sessions", len(families))
    for start in range(0, len(families), _BATCH):
        with index.db:
            for family in families[start : start + _BATCH]:
                for session in _derive(vault, derived, family):
                    report.sessions += 1
                    if index.number(session) in touched:
                        report.touched.append(session)
                progress.advance(1)
    progress.end()


def _derive(vault: Vault, derived: Derived, family: list[int]) -> Iterator[SessionId]:
    """Write the rows of a family; yield its sessions, also those that did not grow."""
    index = derived.index
    for number in family:
        derived.remove(number)
    for session in load_family(vault, derived, family, Loader()):
        number = index.number(session.id)
        if number not in family:
            derived.remove(number)
        derived.write(number, family[0], session, listed(session))
        yield session.id
