"""What the stores on all engines have in common; each adds its own statements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from bygones.errors import ArchiveDamaged, BatchRefused
from bygones.model.ids import AgentId, ProjectKey, SessionId
from bygones.model.sources import SourceKind
from bygones.store.harvest import Marks, Named
from bygones.store.press import digest, squeeze, unpress
from bygones.team.chunks import Unpacked
from bygones.team.contract import (
    Ack,
    Batch,
    Fragment,
    Held,
    Objects,
    Receipt,
    Scope,
    Selector,
    Sent,
    Span,
    Verdict,
)
from bygones.team.database import Database, Sight
from bygones.team.derivation import Derivation
from bygones.team.engine import Words
from bygones.team.refusing import signs_of
from bygones.team.shelves import TeamShelf

__all__ = [
    "EngineObjects",
    "EngineStore",
    "Way",
    "ack_of",
    "fragment_of",
    "held_of",
    "span_of",
    "span_rows",
    "written",
]

_AT_ONCE = 20_000
D = TypeVar("D", bound=Database)
_decode_selector = msgspec.json.Decoder(Selector).decode


def written(selector: Selector) -> str:
    """Return a selector as it is kept."""
    return msgspec.json.encode(selector).decode()


def sent_of(row: Sequence[Any]) -> Sent:
    """Return a source by its row."""
    return Sent(
        person=row[0],
        teams=tuple(row[1]),
        machine=row[2],
        home=row[3],
        path=row[4],
        kind=SourceKind(row[5]),
        project=ProjectKey(row[6]) if row[6] is not None else None,
        session=SessionId(row[7]) if row[7] is not None else None,
        agent=AgentId(row[8]) if row[8] is not None else None,
        mtime_ns=row[9],
    )


def ack_of(row: Sequence[Any]) -> Ack:
    """Return up to where a source is there, by its row."""
    return Ack(
        source=sent_of(row),
        generation=row[10],
        upto=row[11],
        origin=row[12],
        mark=bytes(row[14]),
    )


def held_of(row: Sequence[Any]) -> Held:
    """Return a source as the store has it, by its row."""
    sent = sent_of(row)
    return Held(sent=sent, generation=row[10], upto=row[11], revision=row[13])


def fragment_of(row: Sequence[Any]) -> Fragment:
    """Return an unfinished last line by its row."""
    upto, mark, frame = row
    return Fragment(offset=upto, mark=bytes(mark), frame=bytes(frame))


def span_of(row: Sequence[Any]) -> Span:
    """Return a span by its row."""
    start, stop, origin, sign, address = row
    return Span(
        offset=start,
        length=stop - start,
        origin=origin,
        sha256=bytes(sign),
        address=address,
    )


def span_rows(
    batch: Batch, spans: Iterable[Span], holder: int, *more: object
) -> list[tuple[object, ...]]:
    """Return the rows of a batch's spans: number, holder, generation, then each."""
    return [
        (
            batch.source.number,
            holder,
            batch.generation,
            span.offset,
            span.offset + span.length,
            span.origin,
            span.sha256,
            span.address,
            *more,
        )
        for span in spans
    ]


def _parted(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    """Yield numbers by as many as are asked for at once."""
    for start in range(0, len(numbers), _AT_ONCE):
        yield numbers[start : start + _AT_ONCE]


class Way(NamedTuple, Generic[D]):
    """How an engine does what all engines do: its statements, over a connection."""

    connect: Callable[[str], D]
    words: Callable[[Sight, Scope], Words]
    prepare: Callable[[D], None]
    put: Callable[[D, Batch], Ack]
    acks: Callable[[D, str, str, Sequence[int] | None], Sequence[Ack]]
    held: Callable[[D, str], Sequence[Held]]
    spans: Callable[[D, int], Sequence[Span]]
    fragments: Callable[[D, Sequence[int]], dict[int, Fragment]]
    write: Callable[[D, Derivation], None]
    fitting: Callable[[D, Selector], dict[int, SessionId]]
    erase: Callable[[D, Selector, Sequence[Selector], datetime], Receipt]
    verify: Callable[[D], Verdict]


class EngineStore(Generic[D]):
    """What a team has sent, what is derived of it, and who may see it."""

    _way: Way[D]

    def __init__(self, address: str) -> None:
        self._address = address
        self._db = self._way.connect(address)
        self._unpacked = Unpacked()

    def notes(self, kind: str) -> dict[str, bytes]:
        """Return all notes of a kind."""
        raise NotImplementedError

    def _booked(
        self, person: str, table: str, column: str, values: Sequence[object]
    ) -> set[int]:
        """Return the sources of a person's sessions that have one of some values."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Make or migrate the schema."""
        self._way.prepare(self._db)

    def put(self, batch: Batch) -> Ack:
        """Note spans, once each, and that the source is touched."""
        return self._way.put(self._db, batch)

    def put_all(self, batches: Sequence[Batch]) -> list[Ack | BatchRefused]:
        """Put what came at once; what is refused does not keep the rest back."""
        told: list[Ack | BatchRefused] = []
        for batch in batches:
            try:
                told.append(self.put(batch))
            except BatchRefused as error:
                told.append(error)
        return told

    def acks(
        self, person: str, machine: str, among: Sequence[int] | None = None
    ) -> Sequence[Ack]:
        """Return up to where sources of a machine are there: all, or some."""
        return self._way.acks(self._db, person, machine, among)

    def held(self, person: str) -> Sequence[Held]:
        """Return all sources of a person."""
        return self._way.held(self._db, person)

    def spans(self, source: int) -> Sequence[Span]:
        """Return the spans of a source's newest generation, in order."""
        return self._way.spans(self._db, source)

    def fragments(self, sources: Sequence[int]) -> dict[int, Fragment]:
        """Return the unfinished last lines of those sources that have one."""
        found: dict[int, Fragment] = {}
        for some in _parted(sources):
            found |= self._way.fragments(self._db, some)
        return found

    def replace(self, derivation: Derivation) -> None:
        """Put sessions in the place of what was derived of them before."""
        self._way.write(self._db, derivation)

    def verify(self) -> Verdict:
        """Look whether rows and spans are whole."""
        return self._way.verify(self._db)

    def close(self) -> None:
        """Let go of the engine."""
        self._db.close()

    _live = ""
    """What a row of notes, holds or strays must be to count."""
    _final = ""
    """What a table's name is followed by, to be read as it is now."""

    def kin(self, person: str, marks: Marks) -> set[int]:
        """Return the sources of a person's sessions that are related to some."""
        found = self._booked(person, "session", "session", marks.sessions)
        for table, column, numbers in (
            ("record", "uuid", marks.records),
            ("record", "message", marks.messages),
            ("record", "uuid", marks.leaves),
        ):
            for some in _parted(numbers):
                found |= self._booked(person, table, column, some)
        return found

    def named(self, person: str, records: Sequence[int]) -> list[Named]:
        """Return what a person's files call records."""
        return [
            Named(*row)
            for some in _parted(records)
            for row in self._named(person, some)
        ]

    def _named(self, person: str, records: Sequence[int]) -> Iterable[Any]:
        raise NotImplementedError

    def shelf(self, scope: Scope, objects: Objects) -> TeamShelf:
        """Return what somebody may read, over a connection of its own."""
        db = self._way.connect(self._address)
        sight = Sight(db)
        words = self._way.words(sight, scope)
        return TeamShelf(sight, words, objects, db.close, shared=self._unpacked)

    def _all_of(self, table: str, columns: str) -> list[Any]:
        where = f" WHERE {self._live}" if self._live else ""
        sql = f"SELECT {columns} FROM {table}{self._final}{where} ORDER BY 1"  # noqa: S608 (our names)
        return self._db.rows(sql, {})

    def holds(self) -> Sequence[tuple[Selector, str]]:
        """Return what is held, and why."""
        rows = self._all_of("hold", "selector, reason")
        return [(_decode_selector(row[0]), row[1]) for row in rows]

    def refused(self, sources: Sequence[Sent]) -> set[int]:
        """Return the numbers of those sources that were erased, asked for at once."""
        signs = {one.number: signs_of(one) for one in sources}
        every = sorted({sign for own in signs.values() for sign in own})
        there = self.erased(every) if every else set()
        return {number for number, own in signs.items() if there.intersection(own)}

    def erased(self, signs: Sequence[bytes]) -> set[bytes]:
        """Return those of some signs that tombstones have."""
        raise NotImplementedError

    def fitting(self, selector: Selector) -> Sequence[SessionId]:
        """Return the sessions that fit, whether they are held or not."""
        return sorted(self._way.fitting(self._db, selector).values())

    def erase(self, selector: Selector, *, now: datetime) -> Receipt:
        """Refuse what fits from now on, then remove every row of it."""
        held = [one for one, _ in self.holds()]
        return self._way.erase(self._db, selector, held, now)

    def stray(self) -> Sequence[str]:
        """Return addresses of erased objects that may still be there."""
        return [row[0] for row in self._all_of("stray", "address")]

    def batches(self) -> Iterator[Batch]:
        """Yield all that was put, a source at a time."""
        sql = "SELECT DISTINCT person FROM source ORDER BY 1"
        for (person,) in self._db.rows(sql, {}):
            sources = self.held(person)
            fragments = self.fragments([held.number for held in sources])
            for held in sources:
                yield Batch(
                    source=held.sent,
                    generation=held.generation,
                    spans=tuple(self.spans(held.number)),
                    fragment=fragments.get(held.number),
                )

    def note(self, kind: str, key: str) -> bytes | None:
        """Return what a hub keeps for itself."""
        return self.notes(kind).get(key)

    def kinds(self) -> Sequence[str]:
        """Return of which kinds there are notes."""
        return [row[0] for row in self._all_of("note", "DISTINCT kind")]


class EngineObjects(Generic[D]):
    """A raw store in the database itself: for a team that has nothing else."""

    def __init__(self, db: D) -> None:
        self._db = db

    def _add(self, address: str, frame: bytes) -> None:
        raise NotImplementedError

    def put(self, raw: bytes) -> str:
        """Keep bytes, and return their address: the same for the same bytes."""
        address = digest(raw).hex()
        self._add(address, squeeze(raw))
        return address

    def bytes_of(self, address: str) -> bytes:
        """Return bytes by their address."""
        found = self.several([address])
        if not found:
            raise ArchiveDamaged(Path(address), "it is missing")
        return found[address]

    def several(self, addresses: Sequence[str]) -> dict[str, bytes]:
        """Return bytes of several objects."""
        frames = self.frames(addresses)
        return {address: unpress(frame) for address, frame in frames.items()}

    def frames(self, addresses: Sequence[str]) -> dict[str, bytes]:
        """Return several objects as they are kept."""
        among = self._db.among("address", "addresses")
        sql = f"SELECT address, frame FROM object WHERE {among}"  # noqa: S608 (our names)
        rows = self._db.rows(sql, {"addresses": list(addresses)})
        return {address: bytes(frame) for address, frame in rows}

    def close(self) -> None:
        """Let go of the database."""
        self._db.close()
