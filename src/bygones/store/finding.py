"""Finding sessions, records and drift in an index by what a person knows of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from bygones.errors import Ambiguous, NotArchived
from bygones.model.ids import as_text
from bygones.model.listing import Listed
from bygones.store.connect import every, first
from bygones.store.derived import decode_listed as _decode
from bygones.store.index import Index
from bygones.store.numbers import id_number, id_range

if TYPE_CHECKING:
    from bygones.store.shelf import Knowing

__all__ = ["Finding", "RecordRow", "find_session"]

_LAST = "\U0010ffff"
_TOLD = 5
"""Names that an error mentions."""
_SIGNS = 50
"""Of a title that it mentions."""


def find_session(finding: Knowing, name: str) -> Listed:
    """Return a session's line by its id, or by a beginning that only it has."""
    found = finding.sessions_like(as_text(name), _TOLD) if name else []
    if len(found) > 1:
        told = [f"{one.id} ({one.title.text[:_SIGNS]})" for one in found]
        raise Ambiguous("session", name, told)
    if not found:
        from difflib import get_close_matches  # noqa: PLC0415 (only for those who err)

        beginnings = {id_[: len(name)]: id_ for id_ in finding.session_ids()}
        close = get_close_matches(name, beginnings, n=_TOLD)
        raise NotArchived("session", name, [beginnings[one] for one in close])
    return found[0]


class RecordRow(Struct, frozen=True):
    """A place where a record stands, by the numbers of an index."""

    session: int
    source: int
    offset: int
    length: int


class Finding:
    """Looks things up; changes nothing."""

    def __init__(self, index: Index) -> None:
        self._db = index.db

    def listed(self, number: int) -> Listed | None:
        """Return a session's line by its number."""
        sql = "SELECT listed FROM session WHERE number = ?"
        row = first(self._db, sql, (number,))
        return _decode(row[0]) if row else None

    def sessions_like(self, beginning: str, most: int) -> list[Listed]:
        """Return sessions whose id begins so; the one with exactly this id alone."""
        sql = "SELECT listed FROM session JOIN name USING (number) WHERE "
        exact = every(self._db, f"{sql} name.session = ?", (beginning,))
        rows = exact or every(
            self._db,
            f"{sql} name.session >= ? AND name.session < ? LIMIT ?",
            (beginning, beginning + _LAST, most),
        )
        return [_decode(row[0]) for row in rows]

    def numbered(self) -> Iterator[tuple[int, Listed]]:
        """Yield the line of every session, with its number."""
        for number, blob in self._db.execute("SELECT number, listed FROM session"):
            yield number, _decode(blob)

    def session_ids(self) -> list[str]:
        """Return the ids of all sessions."""
        sql = "SELECT name.session FROM session JOIN name USING (number)"
        return [row[0] for row in every(self._db, sql)]

    def records_like(self, beginning: str, most: int) -> list[RecordRow]:
        """Return where records stand whose id may begin so, the oldest session first.

        An index knows ids as numbers: whoever asks must look at the records. Rows of
        at most ``most`` ids are returned.
        """
        low = high = id_number(beginning)
        rows = self._between(low, high, most)
        bounds = id_range(beginning)
        if not rows and bounds is not None:
            rows = self._between(*bounds, most)
        return rows

    def _between(self, low: int, high: int, most: int) -> list[RecordRow]:
        rows = every(
            self._db,
            "SELECT r.session, r.source, r.offset, r.length FROM record AS r"
            " LEFT JOIN session AS s ON s.number = r.session"
            " WHERE r.uuid IN (SELECT DISTINCT uuid FROM record"
            "   WHERE uuid BETWEEN ? AND ? ORDER BY uuid LIMIT ?)"
            " ORDER BY s.started_ms IS NULL, s.started_ms, r.session, r.source,"
            " r.offset",
            (low, high, most),
        )
        return [RecordRow(*row) for row in rows]

    def drift(self) -> Iterator[tuple[str, str, str, int]]:
        """Yield what this version knows nothing of: kind, name, version, how often."""
        yield from self._db.execute(
            "SELECT what, name, version, sum(count) FROM drift"
            " GROUP BY what, name, version ORDER BY what, name, version"
        )
