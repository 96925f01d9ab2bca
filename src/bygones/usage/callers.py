"""Which sessions called which tools."""

from __future__ import annotations

from bygones.model.ids import SessionId
from bygones.store.shelf import Shelf

__all__ = ["callers_of"]


def callers_of(shelf: Shelf) -> dict[str, frozenset[SessionId]]:
    """Return the sessions that called each tool, their agents included."""
    with shelf.at_once():
        names = {number: name for number, (name, _) in shelf.spending.names().items()}
        found: dict[str, set[SessionId]] = {}
        for number, tool in shelf.spending.tools():
            if number in names:
                found.setdefault(tool, set()).add(names[number])
    return {tool: frozenset(sessions) for tool, sessions in found.items()}
