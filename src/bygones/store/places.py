"""What a search must know of sessions and records besides their words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec import Struct

from bygones.model.listing import Listed
from bygones.store.connect import every, first
from bygones.store.derived import decode_listed as _decode
from bygones.store.index import Index
from bygones.store.lengths import Amounts, Lengths

__all__ = ["Place", "Places"]


class Place(Struct, frozen=True, gc=False):
    """Where a record stands, by the numbers of an index."""

    uuid: int
    source: int
    offset: int
    length: int


class Places:
    """Looks things up; changes nothing."""

    def __init__(self, index: Index) -> None:
        self._db = index.db

    def amounts(self) -> Amounts:
        """Return how much each session says, by its number."""
        return Amounts(dict(self._db.execute("SELECT number, lengths FROM session")))

    def spans(self) -> dict[int, tuple[int, int]]:
        """Return the first and last time of each session's records; 0: no time."""
        rows = self._db.execute("SELECT number, lengths FROM session")
        read = ((number, Lengths(packed)) for number, packed in rows)
        return {number: (one.first, one.last) for number, one in read}

    def ends(self) -> dict[int, int]:
        """Return when each session ended, in milliseconds; 0 where that is unknown."""
        sql = "SELECT number, ifnull(ended_ms, 0) FROM session"
        return dict(self._db.execute(sql))

    def titles(self) -> list[tuple[int, str]]:
        """Return the titles of sessions that were given one."""
        sql = "SELECT number, title FROM session WHERE title <> ''"
        return every(self._db, sql)

    def listed(self, number: int) -> Listed | None:
        """Return a session's line by its number."""
        sql = "SELECT listed FROM session WHERE number = ?"
        row = first(self._db, sql, (number,))
        return _decode(row[0]) if row else None

    def each_listed(self) -> Iterator[tuple[int, Listed]]:
        """Yield the number and the line of every session."""
        for number, blob in self._db.execute("SELECT number, listed FROM session"):
            yield number, _decode(blob)

    def place(self, record: int) -> Place | None:
        """Return where a record stands."""
        sql = "SELECT uuid, source, offset, length FROM record WHERE id = ?"
        row = first(self._db, sql, (record,))
        return Place(*row) if row else None

    def rewound_records(self) -> list[int]:
        """Return all records on branches that were left."""
        sql = (
            "SELECT r.id FROM rewound AS w CROSS JOIN record AS r"
            " ON r.uuid = w.record AND r.session = w.session"
        )
        return [row[0] for row in every(self._db, sql)]

    def record(self, session: int, uuid: int) -> int | None:
        """Return a record of a session by the number of its id."""
        sql = "SELECT id FROM record WHERE uuid = ? AND session = ?"
        row = first(self._db, sql, (uuid, session))
        return int(row[0]) if row else None

    def rewound(self, session: int) -> set[int]:
        """Return what was left of a session: the numbers of its records' ids."""
        sql = "SELECT record FROM rewound WHERE session = ?"
        return {row[0] for row in every(self._db, sql, (session,))}

    def agent_type(self, session: int, agent: str) -> str | None:
        """Return of which type an agent run is."""
        sql = "SELECT type FROM run WHERE session = ? AND agent = ?"
        row = first(self._db, sql, (session, agent))
        return row[0] if row else None

    def families(self) -> dict[int, int]:
        """Return the family of each session that shares records with another."""
        return dict(
            every(
                self._db,
                "SELECT number, family FROM session WHERE family IN"
                " (SELECT family FROM session GROUP BY family HAVING count(*) > 1)",
            )
        )

    def expect(self, sessions: Sequence[int], records: Sequence[int]) -> None:
        """Nothing: each is looked up in no time."""

    def uuids(self, records: Iterable[int]) -> frozenset[int]:
        """Return the numbers of records' ids: copies have the same."""
        marks = msgspec.json.encode(list(records)).decode()
        sql = "SELECT uuid FROM record WHERE id IN (SELECT value FROM json_each(?))"
        return frozenset(row[0] for row in every(self._db, sql, (marks,)))
