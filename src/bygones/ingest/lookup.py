"""Finding a record by its id, wherever it stands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from bygones.errors import Ambiguous, NotArchived
from bygones.ingest.gist import decode
from bygones.model.finds import FoundRecord
from bygones.model.ids import Line, Position, RecordId, SessionId, as_text
from bygones.model.nodes import Node
from bygones.model.parts import Loader
from bygones.model.sessions import Session
from bygones.store.finding import RecordRow
from bygones.store.shelf import Knowing, Stock

__all__ = ["find_record"]

_TOLD = 5
"""Ids that an error mentions."""
_Open = Callable[[SessionId], Session]


def find_record(
    vault: Stock, finding: Knowing, loader: Loader, *, name: str, open_session: _Open
) -> FoundRecord:
    """Return a record by its uuid, or by a beginning that only it has."""
    found: dict[RecordId, list[tuple[int, Node]]] = {}
    for row in finding.records_like(as_text(name), _TOLD) if name else ():
        for node in _nodes_at(vault, loader, row):
            if node.uuid is not None and node.uuid.startswith(name):
                found.setdefault(node.uuid, []).append((row.session, node))
    exact = found.get(RecordId(name))
    if exact is None and len(found) > 1:
        raise Ambiguous("record", name, list(found))
    if not found:
        raise NotArchived("record", name)
    places = exact or next(iter(found.values()))
    listed = finding.listed(places[0][0])
    return _told(places, open_session(listed.id) if listed else None, loader)


def _nodes_at(vault: Stock, loader: Loader, row: RecordRow) -> Iterable[Node]:
    kept = vault.chunks.source(row.source)
    if kept is None:
        return ()
    place = Position(kept.id, kept.generation, row.offset, row.length)
    return decode([Line(place, loader.raw(place))])[1]


def _told(
    places: Sequence[tuple[int, Node]], session: Session | None, loader: Loader
) -> FoundRecord:
    (_, node), *copies = places
    uuid = node.uuid or RecordId("")
    agent = branch = None
    if session is not None:
        branch = session.branch(uuid)
        for run in session.all_agents if branch is None else ():
            if run.source and run.source.id == node.position.source:
                agent = run.id
    return FoundRecord(
        id=uuid,
        kind=node.kind,
        session=session.id if session else SessionId(""),
        agent=agent,
        branch=branch.number if branch else None,
        position=node.position,
        copies=tuple(copy.position for _, copy in copies),
        raw=loader.raw(node.position),
    )
