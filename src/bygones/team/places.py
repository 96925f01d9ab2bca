"""What a search must know of a team's sessions and records besides their words.

A line of each session is kept from one search to the next, and what a page of an
answer needs is asked for at once: every question travels to the engine and back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from bygones.model.listing import Listed
from bygones.store.derived import decode_listed
from bygones.store.lengths import Lengths
from bygones.store.places import Place
from bygones.team.database import Sight
from bygones.team.packing import pack, unpack

__all__ = ["Opened", "TeamPlaces"]

_AROUND = 200
"""Records before and behind one that is asked for alone: the next ones are near it."""
_MOST = 5_000
"""Records of which a search remembers where they stand, besides those of its page."""


class Opened(NamedTuple):
    """A record that is about to be read: its source and where it begins."""

    source: int
    start: int


class _Line(NamedTuple):
    """What a search knows of a session that it has not chosen."""

    family: int
    ended_ms: int
    title: str
    lengths: bytes


class TeamPlaces:
    """What a search must know of sessions and records besides their words."""

    def __init__(
        self, sight: Sight, opening: Callable[[Sequence[Opened]], None]
    ) -> None:
        self._sight = sight
        self._opening = opening
        """Is told which records will be read."""
        self._lines: dict[int, _Line] = {}
        self._is_old = True
        self._forget()

    def _forget(self) -> None:
        self._placed: dict[int, Place] = {}
        self._numbers: dict[tuple[int, int], int] = {}
        """Records by their session and the number of their id."""
        self._listed: dict[int, Listed] = {}
        self._rewound: dict[int, set[int]] = {}
        self._types: dict[int, dict[str, str | None]] = {}

    def begin(self) -> None:
        """Look at everything anew: something has come."""
        self._is_old = True

    @property
    def lines(self) -> dict[int, _Line]:
        """A line of each session; of those that were there, only new ones are read."""
        if self._is_old:
            self._forget()
            rows = self._sight.rows("SELECT number FROM {session} AS s")
            there = {row[0] for row in rows}
            new = list(there - self._lines.keys())
            kept = {n: line for n, line in self._lines.items() if n in there}
            sql = (
                "SELECT number, family, coalesce(ended_ms, 0), title, lengths"
                " FROM {session} AS s"
            )
            if new and kept:
                sql += f" WHERE {self._sight.db.among('number', 'numbers')}"
            for number, *line in self._sight.rows(sql, numbers=new) if new else ():
                kept[number] = _Line(*line)
            self._lines = kept
            self._is_old = False
        return self._lines

    def amounts(self) -> dict[int, tuple[int, ...]]:
        """Return how much each session says, by its number."""
        lines = self.lines
        return {number: Lengths.amounts(one.lengths) for number, one in lines.items()}

    def spans(self) -> dict[int, tuple[int, int]]:
        """Return the first and last time of each session's records; 0: no time."""
        read = ((number, Lengths(one.lengths)) for number, one in self.lines.items())
        return {number: (one.first, one.last) for number, one in read}

    def ends(self) -> dict[int, int]:
        """Return when each session ended, in milliseconds; 0 where that is unknown."""
        return {number: one.ended_ms for number, one in self.lines.items()}

    def titles(self) -> list[tuple[int, str]]:
        """Return the titles of sessions that were given one."""
        lines = self.lines.items()
        return [(number, one.title) for number, one in lines if one.title]

    def families(self) -> dict[int, int]:
        """Return the family of each session that shares records with another."""
        sizes: dict[int, int] = {}
        for one in self.lines.values():
            sizes[one.family] = sizes.get(one.family, 0) + 1
        lines = self.lines.items()
        return {number: one.family for number, one in lines if sizes[one.family] > 1}

    def expect(self, sessions: Sequence[int], records: Sequence[int]) -> None:
        """Read what will be asked of sessions and records, and their bytes."""
        self._know([one for one in sessions if one not in self._rewound])
        new = [record for record in records if record not in self._placed]
        if len(self._placed) > _MOST:
            self._placed.clear()
            self._numbers.clear()
            new = list(records)
        self._place_all(new)
        places = (self._placed.get(record) for record in records)
        self._opening([Opened(one.source, one.offset) for one in places if one])

    def _know(self, sessions: Sequence[int]) -> None:
        if not sessions:
            return
        among = self._sight.db.among("number", "numbers")
        rows = self._sight.rows(
            f"SELECT number, listed, 0 AS uuid, '' AS agent, '' AS type, 0 AS what"  # noqa: S608 (our names)
            f" FROM {{session}} AS s WHERE {among} UNION ALL"
            f" SELECT number, NULL, uuid, '', '', 1 FROM {{rewound}} AS w WHERE {among}"
            f" UNION ALL SELECT number, NULL, 0, agent, type, 2 FROM {{run}} AS r"
            f" WHERE {among}",
            numbers=list(sessions),
        )
        for number in sessions:
            self._rewound[number] = set()
            self._types[number] = {}
        for number, blob, uuid, agent, kind, what in rows:
            if what == 0:
                self._listed[number] = decode_listed(blob)
            elif what == 1:
                self._rewound[number].add(uuid)
            else:
                self._types[number][agent] = kind

    def listed(self, number: int) -> Listed | None:
        """Return a session's line by its number."""
        if number not in self._rewound:
            self._know([number])
        return self._listed.get(number)

    def each_listed(self) -> Iterator[tuple[int, Listed]]:
        """Yield the number and the line of every session."""
        for number, blob in self._sight.rows("SELECT number, listed FROM {session} s"):
            yield number, decode_listed(blob)

    def rewound(self, session: int) -> set[int]:
        """Return what was left of a session: the numbers of its records' ids."""
        if session not in self._rewound:
            self._know([session])
        return self._rewound[session]

    def agent_type(self, session: int, agent: str) -> str | None:
        """Return of which type an agent run is."""
        if session not in self._types:
            self._know([session])
        return self._types[session].get(agent)

    def rewound_records(self) -> list[int]:
        """Return all records on branches that were left."""
        rows = self._sight.rows(
            "SELECT r.number, r.record FROM {record} AS r JOIN {rewound} AS w"
            " ON w.number = r.number AND w.uuid = r.uuid"
        )
        return [pack(*row) for row in rows]

    def place(self, record: int) -> Place | None:
        """Return where a record stands."""
        if record not in self._placed:
            session, within = unpack(record)
            self._place(
                "number = %(number)s AND record >= %(low)s AND record <= %(high)s",
                number=session,
                low=within - _AROUND,
                high=within + _AROUND,
            )
        return self._placed.get(record)

    def _place_all(self, records: Sequence[int]) -> None:
        if records:
            pairs = sorted(map(unpack, records))
            # Engines find sessions by an index, and not always pairs.
            among = self._sight.db.among("number", "numbers")
            where = f"{among} AND {self._sight.db.pairs('number, record', 'records')}"
            numbers = sorted({number for number, _ in pairs})
            self._place(where, numbers=numbers, records=pairs)

    def _place(self, where: str, **values: object) -> None:
        sql = "SELECT number, record, uuid, source, start, length FROM {record} AS r"
        for number, record, *place in self._sight.rows(
            f"{sql} WHERE {where}", **values
        ):
            found = self._placed[pack(number, record)] = Place(*place)
            self._numbers.setdefault((number, found.uuid), record)

    def record(self, session: int, uuid: int) -> int | None:
        """Return a record of a session by the number of its id."""
        known = self._numbers.get((session, uuid))
        if known is not None:
            return pack(session, known)
        row = self._sight.first(
            "SELECT record FROM {record} AS r"
            " WHERE number = %(number)s AND uuid = %(uuid)s ORDER BY record LIMIT 1",
            number=session,
            uuid=uuid,
        )
        return pack(session, row[0]) if row else None

    def uuids(self, records: Iterable[int]) -> frozenset[int]:
        """Return the numbers of records' ids: copies have the same."""
        wanted = list(records)
        new = [record for record in wanted if record not in self._placed]
        self._place_all(new)
        places = (self._placed.get(record) for record in wanted)
        return frozenset(place.uuid for place in places if place)
