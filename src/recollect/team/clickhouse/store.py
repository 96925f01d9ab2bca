"""A team's store on ClickHouse."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from recollect.errors import ArchiveDamaged
from recollect.store.harvest import Harvest
from recollect.store.press import digest, squeeze, unpress
from recollect.team.clickhouse import erasing, receiving
from recollect.team.clickhouse.connect import ClickHouse
from recollect.team.clickhouse.schema import prepare
from recollect.team.clickhouse.words import ClickHouseWords
from recollect.team.clickhouse.writing import write
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
from recollect.team.packing import new_numbers
from recollect.team.shelves import TeamShelf

__all__ = ["ClickHouseObjects", "ClickHouseStore"]

_AT_ONCE = 20_000
_decode_selector = msgspec.json.Decoder(Selector).decode


class ClickHouseStore:
    """What a company has sent, what is derived of it, and who may see it."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._db = ClickHouse(address)

    def prepare(self) -> None:
        """Make the schema."""
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
            "SELECT s.number, s.person FROM (SELECT number, person, revision"
            " FROM source FINAL) AS s LEFT JOIN (SELECT * FROM cleaned FINAL) AS c"
            " ON c.number = s.number WHERE c.clean < s.revision"
            " ORDER BY s.revision LIMIT %(limit)s",
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
            "SELECT DISTINCT source FROM booked WHERE number IN"  # noqa: S608 (our names)
            f" (SELECT number FROM {name} WHERE {column or name} IN %(values)s"
            " AND holder IN (SELECT holder FROM holder WHERE person = %(person)s)"
            " AND number NOT IN (SELECT number FROM dead))",
            {"values": list(values), "person": person},
        )
        return {row[0] for row in rows}

    def replace(self, derivation: Derivation) -> None:
        """Put sessions in the place of what was derived of them before."""
        write(self._db, derivation)

    def shelf(self, scope: Scope, objects: Objects) -> TeamShelf:
        """Return what somebody may read, over a connection of its own."""
        db = ClickHouse(self._address)
        sight = Sight(db)
        return TeamShelf(sight, ClickHouseWords(sight, scope), objects, db.close)

    def objects(self) -> ClickHouseObjects:
        """Return a raw store in the same database."""
        return ClickHouseObjects(self._db)

    def hold(self, selector: Selector, *, reason: str) -> None:
        """Keep what fits from being erased, until it is released."""
        self._set("hold", ("selector", "reason"), (_written(selector), reason))

    def release(self, selector: Selector) -> None:
        """Take a hold back."""
        self._set("hold", ("selector", "reason"), (_written(selector), ""), over=True)

    def holds(self) -> Sequence[tuple[Selector, str]]:
        """Return what is held, and why."""
        rows = self._db.rows(
            "SELECT selector, reason FROM hold FINAL WHERE is_over = 0 ORDER BY 1", {}
        )
        return [(_decode_selector(row[0]), row[1]) for row in rows]

    def erase(self, selector: Selector, *, now: datetime) -> Receipt:
        """Refuse what fits from now on, then remove every row of it."""
        held = [one for one, _ in self.holds()]
        return erasing.erase(self._db, selector, held=held, now=now)

    def tombstones(self) -> Sequence[Tombstone]:
        """Return what was erased."""
        sql = "SELECT sign, erased FROM tombstone FINAL ORDER BY erased"
        return [
            Tombstone(sign=sign, erased=when) for sign, when in self._db.rows(sql, {})
        ]

    def refuse(self, tombstones: Iterable[Tombstone]) -> None:
        """Refuse what another store has erased."""
        rows = [(one.sign, one.erased) for one in tombstones]
        self._db.insert("tombstone", ("sign", "erased"), rows)

    def stray(self) -> Sequence[str]:
        """Return addresses of erased objects that may still be there."""
        rows = self._db.rows(
            "SELECT address FROM stray FINAL WHERE is_over = 0 ORDER BY address", {}
        )
        return [row[0] for row in rows]

    def forget_stray(self, addresses: Iterable[str]) -> None:
        """Note that objects are gone."""
        for address in addresses:
            self._set("stray", ("address",), (address,), over=True)

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
        rows = self._db.rows(
            "SELECT key, value FROM note FINAL WHERE kind = %(kind)s AND is_over = 0"
            " ORDER BY key",
            {"kind": kind},
        )
        return dict(rows)

    def kinds(self) -> Sequence[str]:
        """Return of which kinds there are notes."""
        sql = "SELECT DISTINCT kind FROM note FINAL WHERE is_over = 0 ORDER BY kind"
        return [row[0] for row in self._db.rows(sql, {})]

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

    def close(self) -> None:
        """Let go of the engine."""
        self._db.close()


class ClickHouseObjects:
    """A raw store in the database itself: for trying things out."""

    def __init__(self, db: ClickHouse) -> None:
        self._db = db

    def put(self, raw: bytes) -> str:
        """Keep bytes, and return their address: the same for the same bytes."""
        address = digest(raw).hex()
        self._db.insert("object", ("address", "frame"), [(address, squeeze(raw))])
        return address

    def bytes_of(self, address: str) -> bytes:
        """Return bytes by their address."""
        sql = "SELECT frame FROM object WHERE address = %(address)s LIMIT 1"
        rows = self._db.rows(sql, {"address": address})
        if not rows:
            raise ArchiveDamaged(Path(address), "it is missing")
        return unpress(rows[0][0])

    def several(self, addresses: Sequence[str]) -> dict[str, bytes]:
        """Return bytes of several objects."""
        sql = "SELECT address, frame FROM object WHERE address IN %(addresses)s"
        rows = self._db.rows(sql, {"addresses": list(addresses)})
        return {address: unpress(frame) for address, frame in rows}

    def remove(self, addresses: Iterable[str]) -> None:
        """Erase bytes; what is not there is no error."""
        gone = list(addresses)
        if gone:
            self._db.execute(
                "ALTER TABLE object DELETE WHERE address IN %(addresses)s"
                " SETTINGS mutations_sync = 2",
                {"addresses": gone},
            )


def _written(selector: Selector) -> str:
    return msgspec.json.encode(selector).decode()
