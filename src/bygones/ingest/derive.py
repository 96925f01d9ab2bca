"""Deriving sessions: families that something touched are assembled and written."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from bygones.ingest.indexing import Indexer
from bygones.ingest.loading import gather_family
from bygones.ingest.report import Progress, Report
from bygones.ingest.tasks import DERIVING
from bygones.model.ids import SessionId
from bygones.store.derived import Derived
from bygones.store.sheets import Sheet
from bygones.store.vault import Vault

__all__ = ["derive"]

_Tell = Callable[[int, SessionId], None]

_BATCH = 500
_OPENED = 8
"""How much larger nodes are than the pages that they are kept in, about."""


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
    tell = partial(_tell, report, frozenset(dirty))
    progress.begin("sessions", len(families))
    for start in range(0, len(families), _BATCH):
        with index.db:
            for family in families[start : start + _BATCH]:
                gathered = gather_family(vault, derived, family, pages=index.frames)
                then = partial(_write, derived, family, tell)
                weight = gathered.weight * _OPENED
                indexer.readers.add(DERIVING, gathered, then, weight=weight)
                progress.advance(1)
            indexer.readers.finish()
    progress.end()


def _write(
    derived: Derived, family: list[int], tell: _Tell, sheets: list[Sheet]
) -> None:
    """Write the rows of a family; tell of its sessions."""
    for number in family:
        derived.remove(number)
    for sheet in sheets:
        number = derived.index.number(sheet.session)
        if number not in family:
            derived.remove(number)
        derived.write(number, family[0], sheet)
        tell(number, sheet.session)


def _tell(
    report: Report, touched: frozenset[int], number: int, session: SessionId
) -> None:
    """Count a session, and name it if it grew: others of its family may not have."""
    report.sessions += 1
    if number in touched:
        report.touched.append(session)
