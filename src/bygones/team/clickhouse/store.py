"""A team's store on ClickHouse."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from bygones.team.clickhouse import erasing, receiving
from bygones.team.clickhouse.connect import ClickHouse
from bygones.team.clickhouse.schema import prepare
from bygones.team.clickhouse.words import ClickHouseWords
from bygones.team.clickhouse.writing import write
from bygones.team.contract import (
    Selector,
    Tombstone,
    Touched,
)
from bygones.team.keeping import EngineObjects, EngineStore, Way, written
from bygones.team.packing import new_numbers

__all__ = ["ClickHouseObjects", "ClickHouseStore"]


class ClickHouseStore(EngineStore[ClickHouse]):
    """What a company has sent, what is derived of it, and who may see it."""

    _way = Way(
        connect=ClickHouse,
        words=ClickHouseWords,
        prepare=prepare,
        put=receiving.put,
        acks=receiving.acks,
        held=receiving.held,
        spans=receiving.spans,
        fragments=receiving.fragments,
        write=write,
        fitting=erasing.fitting,
        erase=erasing.erase,
        verify=erasing.verify,
    )
    _live = "is_over = 0"
    _final = " FINAL"

    def touched(self, limit: int = 100) -> Sequence[Touched]:
        """Return sources that must be derived, those that wait longest first."""
        rows = self._db.rows(
            "SELECT s.number, s.person FROM (SELECT number, person, revision"
            " FROM source FINAL) AS s LEFT JOIN (SELECT * FROM cleaned FINAL) AS c"
            " ON c.number = s.number WHERE c.clean < s.revision"
            " ORDER BY s.revision LIMIT %(limit)s",
            {"limit": limit},
        )
        return [Touched(*row) for row in rows]

    def _booked(
        self, person: str, table: str, column: str, values: Sequence[object]
    ) -> set[int]:
        rows = self._db.rows(
            "SELECT DISTINCT source FROM booked WHERE number IN"  # noqa: S608 (our names)
            f" (SELECT number FROM {table} WHERE {column} IN %(values)s"
            " AND holder IN (SELECT holder FROM holder WHERE person = %(person)s)"
            " AND number NOT IN (SELECT number FROM dead))",
            {"values": list(values), "person": person},
        )
        return {row[0] for row in rows}

    def _named(self, person: str, records: Sequence[int]) -> Iterable[Any]:
        return self._db.rows(
            "SELECT leaf, source, start, record, text FROM summary"
            " WHERE leaf IN %(records)s"
            " AND holder IN (SELECT holder FROM holder WHERE person = %(person)s)"
            " AND number NOT IN (SELECT number FROM dead)",
            {"records": list(records), "person": person},
        )

    def objects(self) -> ClickHouseObjects:
        """Return a raw store in the same database."""
        return ClickHouseObjects(self._db)

    def hold(self, selector: Selector, *, reason: str) -> None:
        """Keep what fits from being erased, until it is released."""
        self._set("hold", ("selector", "reason"), (written(selector), reason))

    def release(self, selector: Selector) -> None:
        """Take a hold back."""
        self._set("hold", ("selector", "reason"), (written(selector), ""), over=True)

    def tombstones(self) -> Sequence[Tombstone]:
        """Return what was erased."""
        sql = "SELECT sign, erased FROM tombstone FINAL ORDER BY erased"
        return [
            Tombstone(sign=sign, erased=when) for sign, when in self._db.rows(sql, {})
        ]

    def erased(self, signs: Sequence[bytes]) -> set[bytes]:
        """Return those of some signs that tombstones have."""
        sql = "SELECT hex(sign) FROM tombstone WHERE hex(sign) IN %(signs)s"
        rows = self._db.rows(sql, {"signs": [sign.hex().upper() for sign in signs]})
        return {bytes.fromhex(row[0]) for row in rows}

    def refuse(self, tombstones: Iterable[Tombstone]) -> None:
        """Refuse what another store has erased."""
        rows = [(one.sign, one.erased) for one in tombstones]
        self._db.insert("tombstone", ("sign", "erased"), rows)

    def forget_stray(self, addresses: Iterable[str]) -> None:
        """Note that objects are gone."""
        for address in addresses:
            self._set("stray", ("address",), (address,), over=True)

    def notes(self, kind: str) -> dict[str, bytes]:
        """Return all notes of a kind."""
        rows = self._db.rows(
            "SELECT key, value FROM note FINAL WHERE kind = %(kind)s AND is_over = 0"
            " ORDER BY key",
            {"kind": kind},
        )
        return dict(rows)

    def set_note(self, kind: str, key: str, value: bytes | None) -> None:
        """Keep a note, or forget it."""
        row = (kind, key, value or b"")
        self._set("note", ("kind", "key", "value"), row, over=value is None)

    def _set(
        self,
        table: str,
        columns: Sequence[str],
        row: Sequence[object],
        *,
        over: bool = False,
    ) -> None:
        """Write a row anew; the last one counts."""
        (revision,) = new_numbers(1)
        names = (*columns, "is_over", "revision")
        self._db.insert(table, names, [(*row, int(over), revision)])


class ClickHouseObjects(EngineObjects[ClickHouse]):
    """A raw store in the database itself: for trying things out."""

    def _add(self, address: str, frame: bytes) -> None:
        self._db.insert("object", ("address", "frame"), [(address, frame)])

    def remove(self, addresses: Iterable[str]) -> None:
        """Erase bytes; what is not there is no error."""
        gone = list(addresses)
        if gone:
            self._db.execute(
                "ALTER TABLE object DELETE WHERE address IN %(addresses)s"
                " SETTINGS mutations_sync = 2",
                {"addresses": gone},
            )
