"""A team's store on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from recollect.errors import ArchiveDamaged
from recollect.store.harvest import Harvest
from recollect.store.press import digest, squeeze, unpress
from recollect.team.contract import (
    Ack,
    Batch,
    Held,
    Objects,
    Receipt,
    Scope,
    Selector,
    Span,
    Tombstone,
    Touched,
    Verdict,
)
from recollect.team.database import Sight
from recollect.team.derivation import Derivation
from recollect.team.postgres import erasing, receiving
from recollect.team.postgres.connect import Postgres
from recollect.team.postgres.schema import prepare
from recollect.team.postgres.words import PostgresWords
from recollect.team.postgres.writing import write
from recollect.team.shelves import TeamShelf

__all__ = ["PostgresObjects", "PostgresStore"]

_AT_ONCE = 20_000
_decode_selector = msgspec.json.Decoder(Selector).decode


class PostgresStore:
    """What a team has sent, what is derived of it, and who may see it."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._db = Postgres(address)
        self._objects: PostgresObjects | None = None

    def prepare(self) -> None:
        """Make or migrate the schema."""
        prepare(self._db)

    def put(self, batch: Batch) -> Ack:
        """Note spans, once each, and that the source is touched."""
        return receiving.put(self._db, batch)

    def acks(self, person: str, machine: str) -> Sequence[Ack]:
        """Return up to where each source of a machine is there."""
        return receiving.acks(self._db, person, machine)

    def touched(self, limit: int = 100) -> Sequence[Touched]:
        """Return sources that must be derived, those that wait longest first."""
        rows = self._db.rows(
            "SELECT number, person FROM source WHERE clean < revision"
            " ORDER BY waits LIMIT %(limit)s",
            {"limit": limit},
        )
        return [Touched(*row) for row in rows]

    def held(self, person: str) -> Sequence[Held]:
        """Return all sources of a person."""
        return receiving.held(self._db, person)

    def spans(self, source: int) -> Sequence[Span]:
        """Return the spans of a source's newest generation, in order."""
        return receiving.spans(self._db, source)

    def kin(self, person: str, sessions: Sequence[Harvest]) -> set[int]:
        """Return the sources of a person's sessions that are related to some."""
        records = [row for one in sessions for row in one.rows["record"]]
        uuids = list({row[1] for row in records})
        messages = list({row[2] for row in records if row[2] is not None})
        leaves = list({row[0] for one in sessions for row in one.rows["summary"]})
        found = self._booked(person, "session", [one.session for one in sessions])
        for table, numbers in (
            ("record:uuid", uuids),
            ("record:message", messages),
            ("summary:leaf", uuids),
            ("record:uuid", leaves),
        ):
            for start in range(0, len(numbers), _AT_ONCE):
                some = numbers[start : start + _AT_ONCE]
                found |= self._booked(person, table, some)
        return found

    def _booked(self, person: str, table: str, values: Sequence[object]) -> set[int]:
        name, _, column = table.partition(":")
        rows = self._db.rows(
            "SELECT DISTINCT b.source FROM booked AS b WHERE b.number IN"  # noqa: S608 (our names)
            f" (SELECT number FROM {name} WHERE {column or name} = ANY(%(values)s)"
            " AND holder IN (SELECT holder FROM holder WHERE person = %(person)s))",
            {"values": list(values), "person": person},
        )
        return {row[0] for row in rows}

    def replace(self, derivation: Derivation) -> None:
        """Put sessions in the place of what was derived of them before."""
        write(self._db, derivation)

    def shelf(self, scope: Scope, objects: Objects) -> TeamShelf:
        """Return what somebody may read, over a connection of its own."""
        db = Postgres(self._address)
        sight = Sight(db)
        return TeamShelf(sight, PostgresWords(sight, scope), objects, db.close)

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
            {"selector": _written(selector), "reason": reason},
        )

    def release(self, selector: Selector) -> None:
        """Take a hold back."""
        sql = "DELETE FROM hold WHERE selector = %(selector)s"
        self._db.execute(sql, {"selector": _written(selector)})

    def holds(self) -> Sequence[tuple[Selector, str]]:
        """Return what is held, and why."""
        rows = self._db.rows("SELECT selector, reason FROM hold ORDER BY 1", {})
        return [(_decode_selector(row[0]), row[1]) for row in rows]

    def erase(self, selector: Selector, *, now: datetime) -> Receipt:
        """Refuse what fits from now on, then remove every row of it."""
        held = [one for one, _ in self.holds()]
        return erasing.erase(self._db, selector, held=held, now=now)

    def tombstones(self) -> Sequence[Tombstone]:
        """Return what was erased."""
        rows = self._db.rows("SELECT sign, erased FROM tombstone ORDER BY erased", {})
        return [Tombstone(sign=bytes(sign), erased=when) for sign, when in rows]

    def refuse(self, tombstones: Iterable[Tombstone]) -> None:
        """Refuse what another store has erased."""
        for one in tombstones:
            self._db.execute(
                "INSERT INTO tombstone VALUES (%(sign)s, %(erased)s)"
                " ON CONFLICT DO NOTHING",
                {"sign": one.sign, "erased": one.erased},
            )

    def stray(self) -> Sequence[str]:
        """Return addresses of erased objects that may still be there."""
        rows = self._db.rows("SELECT address FROM stray ORDER BY address", {})
        return [row[0] for row in rows]

    def forget_stray(self, addresses: Iterable[str]) -> None:
        """Note that objects are gone."""
        sql = "DELETE FROM stray WHERE address = ANY(%(addresses)s)"
        self._db.execute(sql, {"addresses": list(addresses)})

    def batches(self) -> Iterator[Batch]:
        """Yield all that was put, a source at a time."""
        rows = self._db.rows("SELECT DISTINCT person FROM source ORDER BY person", {})
        for (person,) in rows:
            for held in self.held(person):
                yield Batch(
                    source=held.sent,
                    generation=held.generation,
                    spans=tuple(self.spans(held.number)),
                )

    def verify(self) -> Verdict:
        """Look whether rows and spans are whole."""
        return erasing.verify(self._db)

    def note(self, kind: str, key: str) -> bytes | None:
        """Return what a hub keeps for itself."""
        return self.notes(kind).get(key)

    def notes(self, kind: str) -> dict[str, bytes]:
        """Return all notes of a kind."""
        sql = "SELECT key, value FROM note WHERE kind = %(kind)s ORDER BY key"
        return {key: bytes(value) for key, value in self._db.rows(sql, {"kind": kind})}

    def kinds(self) -> Sequence[str]:
        """Return of which kinds there are notes."""
        rows = self._db.rows("SELECT DISTINCT kind FROM note ORDER BY kind", {})
        return [row[0] for row in rows]

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
        self._db.close()
        if self._objects is not None:
            self._objects.close()


class PostgresObjects:
    """A raw store in the database itself: for a team that has nothing else."""

    def __init__(self, db: Postgres) -> None:
        self._db = db

    def put(self, raw: bytes) -> str:
        """Keep bytes, and return their address: the same for the same bytes."""
        address = digest(raw).hex()
        self._db.execute(
            "INSERT INTO object VALUES (%(address)s, %(frame)s) ON CONFLICT DO NOTHING",
            {"address": address, "frame": squeeze(raw)},
        )
        return address

    def bytes_of(self, address: str) -> bytes:
        """Return bytes by their address."""
        sql = "SELECT frame FROM object WHERE address = %(address)s"
        rows = self._db.rows(sql, {"address": address})
        if not rows:
            raise ArchiveDamaged(Path(address), "it is missing")
        return unpress(rows[0][0])

    def several(self, addresses: Sequence[str]) -> dict[str, bytes]:
        """Return bytes of several objects."""
        sql = "SELECT address, frame FROM object WHERE address = ANY(%(addresses)s)"
        rows = self._db.rows(sql, {"addresses": list(addresses)})
        return {address: unpress(frame) for address, frame in rows}

    def remove(self, addresses: Iterable[str]) -> None:
        """Erase bytes; what is not there is no error."""
        sql = "DELETE FROM object WHERE address = ANY(%(addresses)s)"
        self._db.execute(sql, {"addresses": list(addresses)})

    def close(self) -> None:
        """Let go of the database."""
        self._db.close()


def _written(selector: Selector) -> str:
    return msgspec.json.encode(selector).decode()
