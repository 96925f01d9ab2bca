"""What one scope may read of a team's store: the rows of sessions and records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime

from bygones.model.finds import FoundEdit
from bygones.model.ids import RecordId, SessionId
from bygones.model.listing import Listed
from bygones.store.derived import decode_listed, in_turn
from bygones.store.finding import RecordRow
from bygones.store.numbers import id_number, id_range
from bygones.store.records import PromptRow, edit_of, moment_of
from bygones.team.database import Sight

__all__ = ["TeamChanges", "TeamDerived", "TeamFinding", "TeamTyped"]

_LAST = "\U0010ffff"
_AT_ONCE = 5000


class TeamDerived:
    """The rows of sessions."""

    def __init__(self, sight: Sight, opening: Callable[[Iterable[int]], None]) -> None:
        self._sight = sight
        self._opening = opening
        """Is told which sources will be read."""
        self._booked: dict[int, list[int]] = {}
        """The sources of the family that was asked for last."""

    def listed(self, *, empty: bool = False) -> Iterator[Listed]:
        """Yield sessions for a list, newest first."""
        sql = "SELECT ended_ms, listed FROM {session} AS s"
        if not empty:
            sql += " WHERE is_empty = 0"
        order = " ORDER BY ended_ms DESC NULLS LAST, number"
        return in_turn(self._sight.rows(sql + order))

    def number_of(self, session: SessionId) -> int | None:
        """Return the number of a session that is known."""
        sql = "SELECT number FROM {session} AS s WHERE session = %(session)s"
        row = self._sight.first(f"{sql} ORDER BY number LIMIT 1", session=session)
        return row[0] if row else None

    def family_of(self, number: int) -> list[int]:
        """Return a session and those it shares records with."""
        rows = self._sight.rows(
            "SELECT s.number, b.source FROM {session} AS s JOIN {booked} AS b"
            " ON b.number = s.number WHERE s.family IN"
            " (SELECT family FROM {session} AS t WHERE number = %(number)s)"
            " ORDER BY s.number, b.source",
            number=number,
        )
        self._booked = {}
        for member, source in rows:
            self._booked.setdefault(member, []).append(source)
        self._opening({source for _, source in rows})
        return list(self._booked)

    def sources_of(self, session: int) -> list[int]:
        """Return the numbers of a session's sources."""
        if session in self._booked:
            return self._booked[session]
        sql = "SELECT source FROM {booked} AS b WHERE number = %(number)s"
        rows = self._sight.rows(f"{sql} ORDER BY source", number=session)
        return [row[0] for row in rows]

    def summaries(self, sessions: Iterable[int]) -> list[tuple[RecordId, str, int]]:
        """Return what files call the records of sessions, and which file does."""
        among = self._sight.db.among("number", "numbers")
        return self._sight.rows(
            "SELECT t.record, t.text, t.source FROM {summary} AS t WHERE t.leaf IN"  # noqa: S608 (our names)
            f" (SELECT uuid FROM {{record}} AS r WHERE {among})"
            " ORDER BY t.source, t.start",
            numbers=list(sessions),
        )


class TeamFinding:
    """Sessions and records by what a person knows of them."""

    def __init__(self, sight: Sight) -> None:
        self._sight = sight

    def listed(self, number: int) -> Listed | None:
        """Return a session's line by its number."""
        return _listed(self._sight, number)

    def sessions_like(self, beginning: str, most: int) -> list[Listed]:
        """Return sessions whose id begins so; the one with exactly this id alone."""
        sql = "SELECT session, listed FROM {session} AS s WHERE session "
        exact = self._sight.rows(f"{sql} = %(name)s ORDER BY number", name=beginning)
        rows = exact or self._sight.rows(
            f"{sql} >= %(name)s AND session < %(last)s ORDER BY number LIMIT %(most)s",
            name=beginning,
            last=beginning + _LAST,
            most=most,
        )
        # Two people may have the same session: it is one, the first that came.
        return [decode_listed(blob) for blob in dict(reversed(rows)).values()][::-1]

    def numbered(self) -> Iterator[tuple[int, Listed]]:
        """Yield the line of every session, with its number."""
        return _numbered(self._sight)

    def session_ids(self) -> list[str]:
        """Return the ids of all sessions."""
        return [row[0] for row in self._sight.rows("SELECT session FROM {session} s")]

    def records_like(self, beginning: str, most: int) -> list[RecordRow]:
        """Return where records stand whose id may begin so, the oldest first."""
        low = high = id_number(beginning)
        rows = self._between(low, high, most)
        bounds = id_range(beginning)
        if not rows and bounds is not None:
            rows = self._between(*bounds, most)
        return rows

    def _between(self, low: int, high: int, most: int) -> list[RecordRow]:
        rows = self._sight.rows(
            "SELECT r.number, r.source, r.start, r.length FROM {record} AS r"
            " JOIN {session} AS s ON s.number = r.number"
            " WHERE r.uuid IN (SELECT DISTINCT uuid FROM {record} AS q"
            " WHERE uuid >= %(low)s AND uuid <= %(high)s ORDER BY uuid LIMIT %(most)s)"
            " ORDER BY s.started_ms ASC NULLS LAST, r.number, r.source, r.start",
            low=low,
            high=high,
            most=most,
        )
        return [RecordRow(*row) for row in rows]

    def drift(self) -> Iterator[tuple[str, str, str, int]]:
        """Yield what this version knows nothing of: kind, name, version, how often."""
        rows = self._sight.rows(
            "SELECT what, name, version, CAST(sum(count) AS bigint) FROM {drift} AS d"
            " GROUP BY what, name, version ORDER BY what, name, version"
        )
        yield from (tuple(row) for row in rows)


class TeamChanges:
    """Which files calls changed."""

    _SQL = (
        "SELECT e.path, s.session, e.branch, e.agent, e.time_ms, e.added, e.removed,"
        " e.is_new FROM {edit} AS e JOIN {session} AS s ON s.number = e.number WHERE "
    )
    _ORDER = " ORDER BY e.time_ms ASC NULLS FIRST, e.number, e.place"

    def __init__(self, sight: Sight) -> None:
        self._sight = sight

    def of(self, session: SessionId) -> list[FoundEdit]:
        """Return the changes of a session, oldest first."""
        sql = f"{self._SQL} s.session = %(session)s{self._ORDER}"
        return [edit_of(row) for row in self._sight.rows(sql, session=session)]

    def at(self, path: str) -> list[FoundEdit]:
        """Return the changes of a file, or of all below a folder, oldest first."""
        folder = path.rstrip("/\\") + ("\\" if "\\" in path else "/")
        sql = (
            f"{self._SQL} (e.path = %(path)s OR (e.path >= %(folder)s"
            f" AND e.path < %(last)s)){self._ORDER}"
        )
        rows = self._sight.rows(sql, path=path, folder=folder, last=folder + _LAST)
        return [edit_of(row) for row in rows]

    def ending(self, path: str) -> list[FoundEdit]:
        """Return the changes of files whose path ends so, oldest first."""
        # The ending is compared here: engines differ in how they count characters.
        rows = self._sight.rows("SELECT DISTINCT path FROM {edit} AS e")
        paths = [row[0] for row in rows if _ends(row[0], path)]
        among = self._sight.db.among("e.path", "paths")
        found: list[FoundEdit] = []
        for start in range(0, len(paths), _AT_ONCE):
            some = paths[start : start + _AT_ONCE]
            sql = f"{self._SQL} {among}{self._ORDER}"
            found += [edit_of(row) for row in self._sight.rows(sql, paths=some)]
        return found


class TeamTyped:
    """What a person typed, in all sessions."""

    def __init__(self, sight: Sight) -> None:
        self._sight = sight

    def newest_first(self) -> Iterator[PromptRow]:
        """Yield prompts; one that several sessions hold comes once, in the oldest."""
        rows = self._sight.rows(
            "SELECT s.family, p.record, s.session, p.time_ms, p.branch, p.head"
            " FROM {prompt} AS p JOIN {session} AS s ON s.number = p.number"
            " ORDER BY s.started_ms ASC NULLS FIRST, p.number, p.place"
        )
        first: dict[tuple[int, str], PromptRow] = {}
        for family, record, session, time_ms, branch, head in rows:
            row = PromptRow(session, record, moment_of(time_ms), branch, head)
            first.setdefault((family, record), row)
        oldest = datetime.min.replace(tzinfo=UTC)
        found = sorted(first.values(), key=lambda row: row.time or oldest)
        yield from reversed(found)


def _listed(sight: Sight, number: int) -> Listed | None:
    sql = "SELECT listed FROM {session} AS s WHERE number = %(number)s"
    row = sight.first(sql, number=number)
    return decode_listed(row[0]) if row else None


def _numbered(sight: Sight) -> Iterator[tuple[int, Listed]]:
    for number, blob in sight.rows("SELECT number, listed FROM {session} AS s"):
        yield number, decode_listed(blob)


def _ends(path: str, wanted: str) -> bool:
    return path == wanted or path.replace("\\", "/").endswith(f"/{wanted}")
