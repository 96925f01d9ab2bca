"""What is derived of sessions: rows for lists, usage and edits; families."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import groupby
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from bygones.model.ids import RecordId, SessionId
from bygones.model.listing import Listed
from bygones.store.connect import every, first
from bygones.store.index import Index
from bygones.store.lengths import Lengths

if TYPE_CHECKING:  # whoever reads lines needs no more than that
    from bygones.store.openings import Openings
    from bygones.store.reels import Reels
    from bygones.store.sheets import Sheet
    from bygones.store.spending import Spending

__all__ = ["Derived", "decode_listed", "in_turn"]

decode_listed = msgspec.msgpack.Decoder(Listed).decode
_when = itemgetter(0)
_MANY = 200
"""Dirty sessions above which one look at all records is cheaper than many."""


def in_turn(rows: Iterable[tuple[int | None, bytes]]) -> Iterator[Listed]:
    """Yield the lines of sessions, given by the time of their end.

    What ended at one moment comes by its id: numbers are others after a rebuild.
    """
    for _, ended in groupby(rows, _when):
        yield from sorted(
            (decode_listed(line) for _, line in ended), key=attrgetter("id")
        )


class Derived:
    """The rows of sessions, read and written."""

    def __init__(self, index: Index) -> None:
        self._db = index.db
        self.index = index
        self._told: dict[int, list[tuple[RecordId, str, int]]] | None = None
        """What all files call the records of each session, once many are asked for."""

    @cached_property
    def _spending(self) -> Spending:
        from bygones.store.spending import Spending  # noqa: PLC0415 (see above)

        return Spending(self.index)

    @cached_property
    def reels(self) -> Reels:
        """The messages of sessions, to be read by number."""
        from bygones.store.reels import Reels  # noqa: PLC0415 (see above)

        return Reels(self.index)

    @cached_property
    def openings(self) -> Openings:
        """How short sessions begin."""
        from bygones.store.openings import Openings  # noqa: PLC0415 (see above)

        return Openings(self.index)

    def finish_schema(self) -> None:
        """Make the indexes that wait for the first filling."""
        sql = "SELECT 1 FROM sqlite_schema WHERE name = 'record_uuid'"
        if first(self._db, sql) is None:
            text = Path(__file__).with_name("index_after.sql")
            self._db.execute(text.read_text("utf-8"))

    def dirty(self) -> list[int]:
        """Return the sessions that must be derived anew."""
        return [row[0] for row in every(self._db, "SELECT session FROM dirty")]

    def dirty_sources(self) -> list[int]:
        """Return the sources of dirty sessions that no id names for certain."""
        sql = "SELECT source FROM seen WHERE session IN (SELECT session FROM dirty)"
        return [row[0] for row in every(self._db, sql)]

    def numbers_like(self, prefix: str) -> list[int]:
        """Return the sessions whose id begins so, two at most."""
        sql = "SELECT number FROM name WHERE session >= ? AND session < ? LIMIT 2"
        rows = every(self._db, sql, (prefix, prefix + "\U0010ffff"))
        return [row[0] for row in rows]

    def spread_titles(self) -> None:
        """Make sessions dirty whose leaves a file of a dirty session names."""
        self._db.execute(
            "INSERT OR IGNORE INTO dirty"
            " SELECT r.session FROM dirty AS d"
            " JOIN seen AS s ON s.session = d.session"
            " JOIN summary AS t ON t.source = s.source"
            " JOIN record AS r ON r.uuid = t.leaf"
        )

    def namers(self) -> list[tuple[int, int]]:
        """Return families of which a file gives a title to a session of another."""
        return every(
            self._db,
            "SELECT DISTINCT one.family, other.family FROM summary AS t"
            " JOIN record AS r ON r.uuid = t.leaf"
            " JOIN session AS other ON other.number = r.session"
            " JOIN seen AS s ON s.source = t.source"
            " JOIN session AS one ON one.number = s.session"
            " WHERE one.family <> other.family",
        )

    def families(self, dirty: Sequence[int]) -> list[list[int]]:
        """Return dirty sessions with all that share records or answers with them."""
        dirty = self._with_old_families(dirty)
        is_many = len(dirty) > _MANY
        self._told = self.all_summaries() if is_many else None
        pairs = self._all_pairs() if is_many else self._pairs(dirty)
        root: dict[int, int] = {}

        def find(session: int) -> int:
            while root.setdefault(session, session) != session:
                root[session] = root[root[session]]
                session = root[session]
            return session

        for one, other in pairs:
            root[find(one)] = find(other)
        groups: dict[int, set[int]] = {}
        for session in (*root, *dirty):
            groups.setdefault(find(session), set()).add(session)
        wanted = {find(session) for session in dirty}
        return [sorted(groups[family]) for family in sorted(wanted)]

    def _all_pairs(self) -> Iterator[tuple[int, int]]:
        for column in ("uuid", "message"):
            yield from every(
                self._db,
                "SELECT DISTINCT shared.least, r.session FROM record AS r"  # noqa: S608 (our names)
                f" JOIN (SELECT {column} AS id, min(session) AS least FROM record"
                f" WHERE {column} IS NOT NULL GROUP BY {column}"
                " HAVING min(session) <> max(session)) AS shared"
                f" ON r.{column} = shared.id",
            )

    def _pairs(self, dirty: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Yield the relations of some sessions, and of those related to them."""
        waiting, met = list(dirty), set(dirty)
        while waiting:
            session = waiting.pop()
            for column in ("uuid", "message"):
                rows = every(
                    self._db,
                    "SELECT DISTINCT other.session FROM record AS own"  # noqa: S608
                    f" JOIN record AS other ON other.{column} = own.{column}"
                    " WHERE own.session = ? AND other.session <> own.session",
                    (session,),
                )
                for (other,) in rows:
                    yield session, other
                    if other not in met:
                        met.add(other)
                        waiting.append(other)

    def _with_old_families(self, dirty: Sequence[int]) -> list[int]:
        """Return sessions with those they were related to when last derived.

        What has parted them since must be seen at both.
        """
        sql = (
            "SELECT number FROM session WHERE family IN (SELECT family FROM session"
            " WHERE number IN (SELECT session FROM dirty))"
        )
        return list({*dirty, *(row[0] for row in every(self._db, sql))})

    def sources_of(self, session: int) -> list[int]:
        """Return the numbers of a session's sources."""
        sql = "SELECT source FROM seen WHERE session = ? ORDER BY source"
        return [row[0] for row in every(self._db, sql, (session,))]

    def summaries(self, sessions: Iterable[int]) -> list[tuple[RecordId, str, int]]:
        """Return what files call the records of sessions, and which file does."""
        found: list[tuple[RecordId, str, int]] = []
        for session in sessions:
            if self._told is not None:
                found += self._told.get(session, ())
                continue
            found += every(
                self._db,
                "SELECT t.record, t.text, t.source FROM record AS r"
                " JOIN summary AS t ON t.leaf = r.uuid WHERE r.session = ?"
                " ORDER BY t.source, t.offset",
                (session,),
            )
        return found

    def all_summaries(self) -> dict[int, list[tuple[RecordId, str, int]]]:
        """Return what files call the records of all sessions, by the session."""
        found: dict[int, list[tuple[RecordId, str, int]]] = {}
        rows = self._db.execute(
            "SELECT r.session, t.record, t.text, t.source FROM summary AS t"
            " CROSS JOIN record AS r ON r.uuid = t.leaf ORDER BY t.source, t.offset"
        )
        for session, *told in rows:
            found.setdefault(session, []).append((told[0], told[1], told[2]))
        return found

    def write(self, number: int, family: int, sheet: Sheet) -> None:
        """Write the rows of a session that has none, or none any more."""
        *line, listed = sheet.line
        self._db.execute(
            "INSERT INTO session VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (number, family, *line, self._lengths(number), listed),
        )
        self._spending.write(number, sheet)
        rewound = [(record,) for record in sheet.rewound]
        for sql, rows in (
            ("INSERT OR IGNORE INTO rewound VALUES (?2, ?1)", rewound),
            ("INSERT OR IGNORE INTO run VALUES (?, ?, ?)", sheet.runs),
            ("INSERT INTO edit VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", sheet.edits),
            ("INSERT INTO prompt VALUES (?, ?, ?, ?, ?)", sheet.prompts),
            ("INSERT INTO talk VALUES (?, ?, ?)", sheet.talks),
            ("INSERT INTO reel VALUES (?, ?, ?, ?, ?)", sheet.reels),
            ("INSERT INTO opening VALUES (?, ?)", [(one,) for one in sheet.opening]),
        ):
            self._db.executemany(sql, [(number, *row) for row in rows])

    def _lengths(self, number: int) -> bytes:
        """Return how much a session's sources say."""
        lengths = Lengths()
        sql = "SELECT lengths FROM said JOIN seen USING (source) WHERE session = ?"
        for (packed,) in every(self._db, sql, (number,)):
            lengths.join(Lengths(packed))
        return lengths.packed()

    def remove(self, number: int) -> None:
        """Remove the rows of a session; it is clean then."""
        self._db.execute("DELETE FROM dirty WHERE session = ?", (number,))
        if first(self._db, "SELECT 1 FROM session WHERE number = ?", (number,)) is None:
            return
        self._spending.remove(number)
        for table, column in (
            ("session", "number"),
            ("edit", "session"),
            ("rewound", "session"),
            ("run", "session"),
            ("prompt", "session"),
            ("talk", "session"),
            ("reel", "session"),
            ("opening", "session"),
        ):
            self._db.execute(f"DELETE FROM {table} WHERE {column} = ?", (number,))  # noqa: S608

    def listed(self, *, empty: bool = False) -> Iterator[Listed]:
        """Yield sessions for a list, newest first."""
        sql = "SELECT ended_ms, listed FROM session"
        if not empty:
            sql += " WHERE NOT is_empty"
        return in_turn(self._db.execute(f"{sql} ORDER BY ended_ms DESC"))

    def number_of(self, session: SessionId) -> int | None:
        """Return the number of a session that is known."""
        sql = "SELECT number FROM name WHERE session = ?"
        row = first(self._db, sql, (session,))
        return int(row[0]) if row else None

    def family_of(self, number: int) -> list[int]:
        """Return a session and those it shares records with."""
        rows = every(
            self._db,
            "SELECT number FROM session WHERE family ="
            " (SELECT family FROM session WHERE number = ?) ORDER BY number",
            (number,),
        )
        return [row[0] for row in rows]
