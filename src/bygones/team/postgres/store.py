"""A team's store on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from bygones.errors import BatchRefused
from bygones.team.contract import (
    Ack,
    Batch,
    Selector,
    Tombstone,
    Touched,
)
from bygones.team.keeping import EngineObjects, EngineStore, Way, written
from bygones.team.postgres import erasing, receiving
from bygones.team.postgres.connect import Postgres
from bygones.team.postgres.schema import prepare
from bygones.team.postgres.words import PostgresWords
from bygones.team.postgres.writing import write

__all__ = ["PostgresObjects", "PostgresStore"]


class PostgresStore(EngineStore[Postgres]):
    """What a team has sent, what is derived of it, and who may see it."""

    _way = Way(
        connect=Postgres,
        words=PostgresWords,
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

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self._objects: PostgresObjects | None = None

    def put_all(self, batches: Sequence[Batch]) -> list[Ack | BatchRefused]:
        """Put what came at once, in one transaction."""
        return receiving.put_all(self._db, batches)

    def touched(self, limit: int = 100) -> Sequence[Touched]:
        """Return sources that must be derived, those that wait longest first."""
        rows = self._db.rows(
            "SELECT number, person FROM source WHERE clean < revision"
            " ORDER BY waits LIMIT %(limit)s",
            {"limit": limit},
        )
        return [Touched(*row) for row in rows]

    def _booked(
        self, person: str, table: str, column: str, values: Sequence[object]
    ) -> set[int]:
        is_number = bool(values) and isinstance(values[0], int)
        kind = "::bigint[]" if is_number else ""
        rows = self._db.rows(
            "SELECT DISTINCT b.source FROM booked AS b WHERE b.number IN"  # noqa: S608 (our names)
            f" (SELECT number FROM {table} WHERE {column} = ANY(%(values)s{kind})"
            " AND holder IN (SELECT holder FROM holder WHERE person = %(person)s))",
            {"values": _list(values) if is_number else list(values), "person": person},
        )
        return {row[0] for row in rows}

    def _named(self, person: str, records: Sequence[int]) -> Iterable[Any]:
        return self._db.rows(
            "SELECT leaf, source, start, record, text FROM summary"
            " WHERE leaf = ANY(%(records)s::bigint[])"
            " AND holder IN (SELECT holder FROM holder WHERE person = %(person)s)",
            {"records": _list(records), "person": person},
        )

    def objects(self) -> PostgresObjects:
        """Return a raw store in the same database."""
        if self._objects is None:
            self._objects = PostgresObjects(Postgres(self._address))
        return self._objects

    def hold(self, selector: Selector, *, reason: str) -> None:
        """Keep what fits from being erased, until it is released."""
        self._db.execute(
            "INSERT INTO hold VALUES (%(selector)s, %(reason)s)"
            " ON CONFLICT (selector) DO UPDATE SET reason = excluded.reason",
            {"selector": written(selector), "reason": reason},
        )

    def release(self, selector: Selector) -> None:
        """Take a hold back."""
        sql = "DELETE FROM hold WHERE selector = %(selector)s"
        self._db.execute(sql, {"selector": written(selector)})

    def tombstones(self) -> Sequence[Tombstone]:
        """Return what was erased."""
        rows = self._db.rows("SELECT sign, erased FROM tombstone ORDER BY erased", {})
        return [Tombstone(sign=bytes(sign), erased=when) for sign, when in rows]

    def erased(self, signs: Sequence[bytes]) -> set[bytes]:
        """Return those of some signs that tombstones have."""
        sql = "SELECT sign FROM tombstone WHERE sign = ANY(%(signs)s)"
        return {bytes(row[0]) for row in self._db.rows(sql, {"signs": list(signs)})}

    def refuse(self, tombstones: Iterable[Tombstone]) -> None:
        """Refuse what another store has erased."""
        for one in tombstones:
            self._db.execute(
                "INSERT INTO tombstone VALUES (%(sign)s, %(erased)s)"
                " ON CONFLICT DO NOTHING",
                {"sign": one.sign, "erased": one.erased},
            )

    def forget_stray(self, addresses: Iterable[str]) -> None:
        """Note that objects are gone."""
        sql = "DELETE FROM stray WHERE address = ANY(%(addresses)s)"
        self._db.execute(sql, {"addresses": list(addresses)})

    def notes(self, kind: str) -> dict[str, bytes]:
        """Return all notes of a kind."""
        sql = "SELECT key, value FROM note WHERE kind = %(kind)s ORDER BY key"
        return {key: bytes(value) for key, value in self._db.rows(sql, {"kind": kind})}

    def set_note(self, kind: str, key: str, value: bytes | None) -> None:
        """Keep a note, or forget it."""
        named = {"kind": kind, "key": key, "value": value}
        if value is None:
            sql = "DELETE FROM note WHERE kind = %(kind)s AND key = %(key)s"
            self._db.execute(sql, named)
            return
        self._db.execute(
            "INSERT INTO note VALUES (%(kind)s, %(key)s, %(value)s)"
            " ON CONFLICT (kind, key) DO UPDATE SET value = excluded.value",
            named,
        )

    def close(self) -> None:
        """Let go of the engine."""
        super().close()
        if self._objects is not None:
            self._objects.close()


def _list(numbers: Sequence[object]) -> str:
    """Return numbers as the engine writes a list, which the driver does slowly."""
    return f"{{{','.join(map(str, numbers))}}}"


class PostgresObjects(EngineObjects[Postgres]):
    """A raw store in the database itself: for a team that has nothing else."""

    def _add(self, address: str, frame: bytes) -> None:
        self._db.execute(
            "INSERT INTO object VALUES (%(address)s, %(frame)s) ON CONFLICT DO NOTHING",
            {"address": address, "frame": frame},
        )

    def remove(self, addresses: Iterable[str]) -> None:
        """Erase bytes; what is not there is no error."""
        sql = "DELETE FROM object WHERE address = ANY(%(addresses)s)"
        self._db.execute(sql, {"addresses": list(addresses)})
