"""What sessions changed and what was typed in them: rows of an index, read."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from bygones.model.finds import FoundEdit
from bygones.model.ids import AgentId, RecordId, SessionId
from bygones.store.connect import every
from bygones.store.index import Index

__all__ = ["Changes", "PromptRow", "Typed", "edit_of", "moment_of"]

_LAST = "\U0010ffff"


class PromptRow(NamedTuple):
    """A prompt by how it begins, and where it was typed."""

    session: SessionId
    record: RecordId
    time: datetime | None
    branch: int
    head: str


class Changes:
    """Which files calls changed."""

    _SQL = (
        "SELECT e.path, n.session, e.branch, e.agent, e.time_ms, e.added, e.removed,"
        " e.is_new FROM edit AS e JOIN name AS n ON n.number = e.session"
    )
    _ORDER = " ORDER BY e.time_ms, e.rowid"

    def __init__(self, index: Index) -> None:
        self._db = index.db

    def of(self, session: SessionId) -> list[FoundEdit]:
        """Return the changes of a session, oldest first."""
        sql = f"{self._SQL} WHERE n.session = ?{self._ORDER}"
        return [edit_of(row) for row in every(self._db, sql, (session,))]

    def at(self, path: str) -> list[FoundEdit]:
        """Return the changes of a file, or of all below a folder, oldest first."""
        folder = path.rstrip("/\\") + ("\\" if "\\" in path else "/")
        sql = f"{self._SQL} WHERE e.path = ? OR (e.path >= ? AND e.path < ?)"
        values = (path, folder, folder + _LAST)
        return [edit_of(row) for row in every(self._db, sql + self._ORDER, values)]

    def ending(self, path: str) -> list[FoundEdit]:
        """Return the changes of files whose path ends so, oldest first."""
        sql = (
            f"{self._SQL} WHERE e.path = ?1"
            " OR substr(replace(e.path, '\\', '/'), -length(?1) - 1) = '/' || ?1"
        )
        return [edit_of(row) for row in every(self._db, sql + self._ORDER, (path,))]

    def paths(self) -> list[str]:
        """Return the paths of all files that were changed."""
        return [row[0] for row in every(self._db, "SELECT DISTINCT path FROM edit")]


class Typed:
    """What a person typed, in all sessions."""

    def __init__(self, index: Index) -> None:
        self._db = index.db

    def newest_first(self) -> Iterator[PromptRow]:
        """Yield prompts; one that several sessions hold comes once, in the oldest."""
        rows = self._db.execute(
            "SELECT n.session, p.record, p.time_ms, p.branch, p.head FROM prompt AS p"
            " JOIN name AS n ON n.number = p.session"
            " JOIN session AS s ON s.number = p.session"
            " WHERE p.rowid = (SELECT q.rowid FROM prompt AS q"
            "   JOIN session AS t ON t.number = q.session"
            "   WHERE q.record = p.record AND q.session IN"
            "     (SELECT number FROM session WHERE family = s.family)"
            "   ORDER BY t.started_ms, q.session LIMIT 1)"
            " ORDER BY p.time_ms DESC, p.rowid DESC"
        )
        for session, record, time_ms, branch, head in rows:
            yield PromptRow(session, record, moment_of(time_ms), branch, head)


def edit_of(
    row: tuple[str, str, int, str | None, int | None, int, int, int],
) -> FoundEdit:
    """Return a change from its row, in whichever engine it lies."""
    path, session, branch, agent, time_ms, added, removed, is_new = row
    return FoundEdit(
        path=path,
        session=SessionId(session),
        branch=branch,
        agent=AgentId(agent) if agent is not None else None,
        time=moment_of(time_ms),
        added=added,
        removed=removed,
        is_new=bool(is_new),
    )


def moment_of(milliseconds: int | None) -> datetime | None:
    """Return the moment of a row's milliseconds since 1970."""
    if milliseconds is None:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
