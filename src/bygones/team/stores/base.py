"""The code that all team stores share; each database adds its own statements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from bygones.errors import ArchiveDamaged, SourceUpdateRejected
from bygones.model.base import AgentId, ProjectKey, SessionId, SourceKind
from bygones.store.compression import compress, decompress, sha256_digest
from bygones.team.contract import (
    AccessScope,
    BlobStore,
    DatabaseConnection,
    DerivedSessions,
    ErasureReceipt,
    ErasureSelector,
    LeafTitle,
    RelationKeys,
    RemoteSource,
    ScopedDatabase,
    SourceFragment,
    SourceUpdate,
    StoredSpan,
    TeamSource,
    UploadProgress,
    VerifyReport,
    tombstone_hashes,
)
from bygones.team.reader import BlobCache, TeamReader
from bygones.team.text_engine import TextSearchBackend

__all__ = [
    "BaseStore",
    "DatabaseBlobStore",
    "EngineFunctions",
    "encode_selector",
    "fragment_from_row",
    "progress_from_row",
    "span_from_row",
    "span_rows",
    "team_source_from_row",
]

_QUERY_BATCH = 20_000
ConnectionT = TypeVar("ConnectionT", bound=DatabaseConnection)
_decode_selector_json = msgspec.json.Decoder(ErasureSelector).decode


def encode_selector(selector: ErasureSelector) -> str:
    """Return a selector as it is kept."""
    return msgspec.json.encode(selector).decode()


def source_from_row(row: Sequence[Any]) -> RemoteSource:
    """Return a source by its row."""
    return RemoteSource(
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


def progress_from_row(row: Sequence[Any]) -> UploadProgress:
    """Return up to where a source is there, by its row."""
    return UploadProgress(
        source=source_from_row(row),
        generation=row[10],
        stored_bytes=row[11],
        client_offset=row[12],
        fingerprint=bytes(row[14]),
    )


def team_source_from_row(row: Sequence[Any]) -> TeamSource:
    """Return a source as the store has it, by its row."""
    sent = source_from_row(row)
    return TeamSource(
        source=sent, generation=row[10], stored_bytes=row[11], revision=row[13]
    )


def fragment_from_row(row: Sequence[Any]) -> SourceFragment:
    """Return an unfinished last line by its row."""
    upto, mark, frame = row
    return SourceFragment(offset=upto, fingerprint=bytes(mark), frame=bytes(frame))


def span_from_row(row: Sequence[Any]) -> StoredSpan:
    """Return a span by its row."""
    start, stop, origin, sign, address = row
    return StoredSpan(
        offset=start,
        length=stop - start,
        client_offset=origin,
        sha256=bytes(sign),
        address=address,
    )


def span_rows(
    update: SourceUpdate, spans: Iterable[StoredSpan], holder: int, *more: object
) -> list[tuple[object, ...]]:
    """Return the rows of a batch's spans: number, holder, generation, then each."""
    return [
        (
            update.source.number,
            holder,
            update.generation,
            span.offset,
            span.offset + span.length,
            span.client_offset,
            span.sha256,
            span.address,
            *more,
        )
        for span in spans
    ]


def _batched(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    """Yield numbers by as many as are asked for at once."""
    for start in range(0, len(numbers), _QUERY_BATCH):
        yield numbers[start : start + _QUERY_BATCH]


class EngineFunctions(NamedTuple, Generic[ConnectionT]):
    """How an engine does what all engines do: its statements, over a connection."""

    connect: Callable[[str], ConnectionT]
    search_backend: Callable[[ScopedDatabase, AccessScope], TextSearchBackend]
    prepare: Callable[[ConnectionT], None]
    put: Callable[[ConnectionT, SourceUpdate], UploadProgress]
    upload_progress: Callable[
        [ConnectionT, str, str, Sequence[int] | None], Sequence[UploadProgress]
    ]
    list_sources: Callable[[ConnectionT, str], Sequence[TeamSource]]
    spans: Callable[[ConnectionT, int], Sequence[StoredSpan]]
    fragments: Callable[[ConnectionT, Sequence[int]], dict[int, SourceFragment]]
    write_sessions: Callable[[ConnectionT, DerivedSessions], None]
    matching_sessions: Callable[[ConnectionT, ErasureSelector], dict[int, SessionId]]
    erase: Callable[
        [ConnectionT, ErasureSelector, Sequence[ErasureSelector], datetime],
        ErasureReceipt,
    ]
    verify: Callable[[ConnectionT], VerifyReport]


class BaseStore(Generic[ConnectionT]):
    """What a team has sent, what is derived of it, and who may see it."""

    _engine: EngineFunctions[ConnectionT]

    def __init__(self, address: str) -> None:
        self._address = address
        self._db = self._engine.connect(address)
        self._blob_cache = BlobCache()

    def list_notes(self, kind: str) -> dict[str, bytes]:
        """Return all notes of a kind."""
        raise NotImplementedError

    def _sources_with(
        self, person: str, table: str, column: str, values: Sequence[object]
    ) -> set[int]:
        """Return the sources of a person's sessions that have one of some values."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Make or migrate the schema."""
        self._engine.prepare(self._db)

    def put(self, update: SourceUpdate) -> UploadProgress:
        """Note spans, once each, and that the source is pending."""
        return self._engine.put(self._db, update)

    def put_all(
        self, updates: Sequence[SourceUpdate]
    ) -> list[UploadProgress | SourceUpdateRejected]:
        """Put what came at once; what is refused does not keep the rest back."""
        told: list[UploadProgress | SourceUpdateRejected] = []
        for batch in updates:
            try:
                told.append(self.put(batch))
            except SourceUpdateRejected as error:
                told.append(error)
        return told

    def upload_progress(
        self, person: str, machine: str, among: Sequence[int] | None = None
    ) -> Sequence[UploadProgress]:
        """Return up to where sources of a machine are there: all, or some."""
        return self._engine.upload_progress(self._db, person, machine, among)

    def list_sources(self, person: str) -> Sequence[TeamSource]:
        """Return all sources of a person."""
        return self._engine.list_sources(self._db, person)

    def spans(self, source: int) -> Sequence[StoredSpan]:
        """Return the spans of a source's newest generation, in order."""
        return self._engine.spans(self._db, source)

    def fragments(self, sources: Sequence[int]) -> dict[int, SourceFragment]:
        """Return the unfinished last lines of those sources that have one."""
        found: dict[int, SourceFragment] = {}
        for some in _batched(sources):
            found |= self._engine.fragments(self._db, some)
        return found

    def replace_sessions(self, derived: DerivedSessions) -> None:
        """Put sessions in the place of what was derived of them before."""
        self._engine.write_sessions(self._db, derived)

    def verify(self) -> VerifyReport:
        """Look whether rows and spans are whole."""
        return self._engine.verify(self._db)

    def close(self) -> None:
        """Let go of the engine."""
        self._db.close()

    _live_condition = ""
    """What a row of notes, holds or strays must be to count."""
    _table_suffix = ""
    """What a table's name is followed by, to be read as it is now."""

    def related_sources(self, person: str, keys: RelationKeys) -> set[int]:
        """Return the sources of a person's sessions that are related to some."""
        found = self._sources_with(person, "session", "session", keys.sessions)
        for table, column, numbers in (
            ("record", "key", keys.records),
            ("record", "message_key", keys.messages),
            ("record", "key", keys.titled_records),
        ):
            for some in _batched(numbers):
                found |= self._sources_with(person, table, column, some)
        return found

    def record_titles(self, person: str, records: Sequence[int]) -> list[LeafTitle]:
        """Return what a person's files call records."""
        return [
            LeafTitle(*row)
            for some in _batched(records)
            for row in self._query_record_titles(person, some)
        ]

    def _query_record_titles(
        self, person: str, records: Sequence[int]
    ) -> Iterable[Any]:
        raise NotImplementedError

    def open_reader(self, scope: AccessScope, blobs: BlobStore) -> TeamReader:
        """Return what somebody may read, over a connection of its own."""
        db = self._engine.connect(self._address)
        sight = ScopedDatabase(db)
        words = self._engine.search_backend(sight, scope)
        return TeamReader(sight, words, blobs, db.close, shared_cache=self._blob_cache)

    def _select_all(self, table: str, columns: str) -> list[Any]:
        where = f" WHERE {self._live_condition}" if self._live_condition else ""
        sql = f"SELECT {columns} FROM {table}{self._table_suffix}{where} ORDER BY 1"  # noqa: S608 (our names)
        return self._db.rows(sql, {})

    def holds(self) -> Sequence[tuple[ErasureSelector, str]]:
        """Return what is held, and why."""
        rows = self._select_all("hold", "selector, reason")
        return [(_decode_selector_json(row[0]), row[1]) for row in rows]

    def find_erased(self, sources: Sequence[RemoteSource]) -> set[int]:
        """Return the numbers of those sources that were erased, asked for at once."""
        signs = {one.number: tombstone_hashes(one) for one in sources}
        every = sorted({sign for own in signs.values() for sign in own})
        there = self.find_tombstones(every) if every else set()
        return {number for number, own in signs.items() if there.intersection(own)}

    def find_tombstones(self, hashes: Sequence[bytes]) -> set[bytes]:
        """Return those of some signs that tombstones have."""
        raise NotImplementedError

    def matching_sessions(self, selector: ErasureSelector) -> Sequence[SessionId]:
        """Return the sessions that fit, whether they are held or not."""
        return sorted(self._engine.matching_sessions(self._db, selector).values())

    def erase(self, selector: ErasureSelector, *, now: datetime) -> ErasureReceipt:
        """Refuse what fits from now on, then remove every row of it."""
        held = [one for one, _ in self.holds()]
        return self._engine.erase(self._db, selector, held, now)

    def orphaned_blobs(self) -> Sequence[str]:
        """Return addresses of erased objects that may still be there."""
        return [row[0] for row in self._select_all("stray", "address")]

    def export_updates(self) -> Iterator[SourceUpdate]:
        """Yield all that was put, a source at a time."""
        sql = "SELECT DISTINCT person FROM source ORDER BY 1"
        for (person,) in self._db.rows(sql, {}):
            sources = self.list_sources(person)
            fragments = self.fragments([held.number for held in sources])
            for held in sources:
                yield SourceUpdate(
                    source=held.source,
                    generation=held.generation,
                    spans=tuple(self.spans(held.number)),
                    fragment=fragments.get(held.number),
                )

    def get_note(self, kind: str, key: str) -> bytes | None:
        """Return what a hub keeps for itself."""
        return self.list_notes(kind).get(key)

    def note_kinds(self) -> Sequence[str]:
        """Return of which kinds there are notes."""
        return [row[0] for row in self._select_all("note", "DISTINCT kind")]


class DatabaseBlobStore(Generic[ConnectionT]):
    """A blob store in the database itself: for a team that has nothing else."""

    def __init__(self, db: ConnectionT) -> None:
        self._db = db

    def _insert(self, address: str, frame: bytes) -> None:
        raise NotImplementedError

    def put(self, raw: bytes) -> str:
        """Keep bytes, and return their address: the same for the same bytes."""
        address = sha256_digest(raw).hex()
        self._insert(address, compress(raw))
        return address

    def get(self, address: str) -> bytes:
        """Return bytes by their address."""
        found = self.get_many([address])
        if not found:
            raise ArchiveDamaged(Path(address), "it is missing")
        return found[address]

    def get_many(self, addresses: Sequence[str]) -> dict[str, bytes]:
        """Return bytes of several objects."""
        frames = self.get_frames(addresses)
        return {address: decompress(frame) for address, frame in frames.items()}

    def get_frames(self, addresses: Sequence[str]) -> dict[str, bytes]:
        """Return several objects as they are kept."""
        among = self._db.in_list("address", "addresses")
        sql = f"SELECT address, frame FROM object WHERE {among}"  # noqa: S608 (our names)
        rows = self._db.rows(sql, {"addresses": list(addresses)})
        return {address: bytes(frame) for address, frame in rows}

    def close(self) -> None:
        """Let go of the database."""
        self._db.close()
