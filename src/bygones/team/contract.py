"""The interface of team stores, and the structs that are passed to them.

How bytes get from a person's machine into an answer:

1. The hub receives lines of a source, redacted by the client. It writes the bytes to
   the blob store (:class:`BlobStore`) and gets an address.
2. ``store.put(SourceUpdate(...))`` records the spans and marks their source as pending,
   in one step. From then on nothing is lost, and the hub acknowledges the upload.
3. ``derive_all(store, blobs)`` of :mod:`bygones.team.worker` runs after uploads and
   when a hub starts. It takes ``store.pending_sources()``, reads whole sources back
   from the blob store, derives their sessions with the code of the local index, and
   passes the rows to ``store.replace_sessions``. It can be stopped anywhere and run
   twice: a source stays pending until its sessions are written.
4. ``store.open_reader(scope, blobs)`` is the only way to read. It answers like the
   index of a local archive, limited to the sessions that the scope may see.

Offsets are those of the *redacted* bytes: the hub has no others. A client that redacts
by other rules than before begins a new generation. ``client_offset`` is the offset in
the client's own file after a span. The hub returns it, so that a client without state
of its own can continue there.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from msgspec import Struct

from bygones.errors import SourceUpdateRejected
from bygones.model.base import AgentId, ProjectKey, SessionId, SourceId, SourceKind
from bygones.store.compression import sha256_digest
from bygones.store.tokenizer import tokenize_prepared

if TYPE_CHECKING:
    from bygones.team.reader import TeamReader


class AccessRole(StrEnum):
    """How far somebody sees."""

    OWN = "own"
    """Their own sessions."""
    TEAM = "team"
    """Those of their teams as well."""
    AUDITOR = "auditor"
    """Everybody's."""


class AccessScope(Struct, frozen=True, kw_only=True):
    """Who asks. Nothing can be read without one."""

    person: str
    teams: tuple[str, ...] = ()
    role: AccessRole = AccessRole.OWN

    def can_see(self, person: str, teams: Iterable[str]) -> bool:
        """Whether what a person shares with some teams may be seen."""
        if person == self.person or self.role is AccessRole.AUDITOR:
            return True
        return self.role is AccessRole.TEAM and not set(teams).isdisjoint(self.teams)


class RemoteSource(Struct, frozen=True, kw_only=True):
    """A source that somebody sends: whose it is, and what the file is.

    It is known by person, machine, home and path. ``person`` and ``teams`` come from
    the token, never from what was sent.
    """

    person: str
    teams: tuple[str, ...] = ()
    machine: str
    home: str
    path: str
    kind: SourceKind
    project: ProjectKey | None = None
    session: SessionId | None = None
    agent: AgentId | None = None
    mtime_ns: int = 0

    @property
    def machine_home(self) -> str:
        """The home, told apart from those of other machines."""
        return f"{self.machine}:{self.home}" if self.machine else self.home

    @property
    def id(self) -> SourceId:
        """The path under which its lines are known."""
        return SourceId(
            f"{self.machine_home}/{self.path}" if self.machine_home else self.path
        )

    @property
    def number(self) -> int:
        """The number of a source, the same in every store."""
        told = f"{self.person}\0{self.machine}\0{self.home}\0{self.path}"
        sign = hashlib.sha256(told.encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(sign[:8], "big") >> 1


class StoredSpan(Struct, frozen=True, kw_only=True):
    """Whole lines of a source, with their newlines, and where their bytes are."""

    offset: int
    """In the redacted bytes of this generation; the first span begins at 0."""
    length: int
    client_offset: int
    """Where the sender's own file goes on behind these lines."""
    sha256: bytes
    address: str
    """In the blob store."""


class SourceFragment(Struct, frozen=True, kw_only=True):
    """The unfinished last line of a source: it gives way to what comes in its place."""

    offset: int
    """Behind all whole lines, in the redacted bytes of this generation."""
    fingerprint: bytes
    """By which its sender knows it again; nobody else learns anything from it."""
    frame: bytes = b""
    """Its bytes, packed; none of a line that must not leave."""


class SourceUpdate(Struct, frozen=True, kw_only=True):
    """What came of one source at once: spans that follow each other."""

    source: RemoteSource
    generation: int = 0
    spans: tuple[StoredSpan, ...] = ()
    fragment: SourceFragment | None = None
    """What comes behind the last span, or behind what is there."""


class UploadProgress(Struct, frozen=True, kw_only=True):
    """Up to where the store has a source."""

    source: RemoteSource
    generation: int = 0
    stored_bytes: int = 0
    """Redacted bytes that are there; what comes next begins here."""
    client_offset: int = 0
    fingerprint: bytes = b""
    """That of the unfinished last line behind them, if there is one."""


class TeamSource(Struct, frozen=True, kw_only=True):
    """A source as the store has it."""

    source: RemoteSource
    generation: int = 0
    stored_bytes: int = 0
    revision: int = 0
    """Grows with everything that comes of it."""

    @property
    def number(self) -> int:
        """The number of the source."""
        return self.source.number


class PendingSource(Struct, frozen=True):
    """A source that was sent and not yet derived."""

    number: int
    person: str


class ErasureSelector(Struct, frozen=True, kw_only=True):
    """What is to be erased or held: all that fits everything that is named."""

    person: str | None = None
    session: SessionId | None = None
    project: str | None = None
    """A directory, or a project's key."""
    before: datetime | None = None
    """Sessions that ended before."""


class Tombstone(Struct, frozen=True, kw_only=True):
    """A source that was erased and is refused from then on, by a hash of its id."""

    hash: bytes
    erased_at: datetime


class ErasureReceipt(Struct, frozen=True, kw_only=True):
    """What an erasure did."""

    selector: ErasureSelector
    sessions: tuple[SessionId, ...] = ()
    sources: int = 0
    rows: int = 0
    blob_addresses: tuple[str, ...] = ()
    """Blobs that no span names any more. The caller removes them, and may do so again
    after a crash: :meth:`TeamStore.orphaned_blobs` names them until they are gone."""
    held_sessions: tuple[SessionId, ...] = ()
    """Sessions that would have gone, were they not held."""


class VerifyReport(Struct, frozen=True, kw_only=True):
    """What was looked at, and what is wrong with it."""

    sources: int = 0
    sessions: int = 0
    texts: int = 0
    faults: tuple[str, ...] = ()


class BlobStore(Protocol):
    """The blob store: bytes by address, written once."""

    def put(self, raw: bytes) -> str:
        """Keep bytes, and return their address: the same for the same bytes."""
        ...

    def get(self, address: str) -> bytes:
        """Return bytes; raise :class:`bygones.errors.ArchiveDamaged` without."""
        ...

    def get_many(self, addresses: Sequence[str]) -> dict[str, bytes]:
        """Return bytes of several objects, fetched at once; what is not whole is not.

        They are what their addresses say only as far as the store knows.
        """
        ...

    def get_frames(self, addresses: Sequence[str]) -> dict[str, bytes]:
        """Return the same as it is packed, a zstd frame for each."""
        ...

    def remove(self, addresses: Iterable[str]) -> None:
        """Erase bytes; what is not there is no error."""
        ...


class TeamStore(Protocol):
    """An engine that keeps what a team has sent."""

    def prepare(self) -> None:
        """Make or migrate the schema; only whoever serves does this."""
        ...

    def put(self, update: SourceUpdate) -> UploadProgress:
        """Note spans, once each, and that the source is pending.

        Spans that are there already are skipped. Raises
        :class:`bygones.errors.SourceUpdateRejected` for a gap, for other bytes at a
        known offset, and for a source that was erased. A fragment replaces the one
        before; one that does not begin where the spans end is skipped.
        """
        ...

    def put_all(
        self, updates: Sequence[SourceUpdate]
    ) -> Sequence[UploadProgress | SourceUpdateRejected]:
        """Put what came at once; what is refused does not keep the rest back."""
        ...

    def upload_progress(
        self, person: str, machine: str, among: Sequence[int] | None = None
    ) -> Sequence[UploadProgress]:
        """Return up to where sources of a machine are there: all, or some numbers."""
        ...

    def pending_sources(self, limit: int = 100) -> Sequence[PendingSource]:
        """Return sources that must be derived, those that wait longest first.

        What came at once is in the order in which it was sent.
        """
        ...

    def list_sources(self, person: str) -> Sequence[TeamSource]:
        """Return all sources of a person."""
        ...

    def spans(self, source: int) -> Sequence[StoredSpan]:
        """Return the spans of a source's newest generation, in order."""
        ...

    def fragments(self, sources: Sequence[int]) -> dict[int, SourceFragment]:
        """Return the unfinished last lines of those sources that have one."""
        ...

    def related_sources(self, person: str, keys: RelationKeys) -> set[int]:
        """Return the sources of a person's sessions that are related to some.

        These are sessions of the same id, those that share a record or an answer, and
        those that have a leaf.
        """
        ...

    def record_titles(self, person: str, records: Sequence[int]) -> Sequence[LeafTitle]:
        """Return what a person's files call records."""
        ...

    def replace_sessions(self, derived: DerivedSessions) -> None:
        """Put sessions in the place of what was derived of them before."""
        ...

    def open_reader(self, scope: AccessScope, blobs: BlobStore) -> TeamReader:
        """Return what somebody may read."""
        ...

    def database_blobs(self) -> BlobStore:
        """Return a blob store in the engine itself, for who has no other."""
        ...

    def hold(self, selector: ErasureSelector, *, reason: str) -> None:
        """Keep what fits from being erased, until it is released."""
        ...

    def release(self, selector: ErasureSelector) -> None:
        """Take a hold back."""
        ...

    def holds(self) -> Sequence[tuple[ErasureSelector, str]]:
        """Return what is held, and why."""
        ...

    def matching_sessions(self, selector: ErasureSelector) -> Sequence[SessionId]:
        """Return the sessions that fit, whether they are held or not."""
        ...

    def erase(self, selector: ErasureSelector, *, now: datetime) -> ErasureReceipt:
        """Refuse what fits from now on, then remove every row of it.

        What is not derived yet is known by person and session only: derive first.
        """
        ...

    def find_erased(self, sources: Sequence[RemoteSource]) -> set[int]:
        """Return the numbers of those sources that were erased, asked for at once."""
        ...

    def find_tombstones(self, hashes: Sequence[bytes]) -> set[bytes]:
        """Return those of some hashes of sources that tombstones have."""
        ...

    def tombstones(self) -> Sequence[Tombstone]:
        """Return what was erased."""
        ...

    def add_tombstones(self, tombstones: Iterable[Tombstone]) -> None:
        """Refuse what another store has erased."""
        ...

    def orphaned_blobs(self) -> Sequence[str]:
        """Return addresses of erased objects that may still be there."""
        ...

    def forget_orphaned_blobs(self, addresses: Iterable[str]) -> None:
        """Note that objects are gone."""
        ...

    def export_updates(self) -> Iterator[SourceUpdate]:
        """Yield all that was put, a source at a time: for moving to another store."""
        ...

    def verify(self) -> VerifyReport:
        """Look whether rows and spans are whole."""
        ...

    def get_note(self, kind: str, key: str) -> bytes | None:
        """Return what a hub keeps for itself, such as a token's hash."""
        ...

    def list_notes(self, kind: str) -> dict[str, bytes]:
        """Return all notes of a kind."""
        ...

    def note_kinds(self) -> Sequence[str]:
        """Return of which kinds there are notes."""
        ...

    def set_note(self, kind: str, key: str, value: bytes | None) -> None:
        """Keep a note, or forget it."""
        ...

    def close(self) -> None:
        """Let go of the engine."""
        ...


class SessionText(NamedTuple):
    """What a record says in one of its parts."""

    record: int
    """The number of the record within its session."""
    kind: int
    text: str
    """Prepared for the tokenizer. The list of its terms takes ten times the memory."""

    @property
    def terms(self) -> list[str]:
        """The terms in their order, tokenized on each access."""
        return tokenize_prepared(self.text)


class SessionRows(Struct, frozen=True):
    """Everything that is derived from one session."""

    session: SessionId
    family: int
    """The same number for sessions that share records."""
    rows: Mapping[str, Sequence[tuple[Any, ...]]]
    """By table, with the values of :attr:`bygones.store.schema.Table.team_columns`."""
    texts: Sequence[SessionText]


class RelationKeys(Struct, frozen=True):
    """Ids and keys by which sessions are related to others."""

    sessions: list[SessionId]
    records: list[int]
    messages: list[int]
    titled_records: list[int] = []
    """Records that were given a title."""


class LeafTitle(NamedTuple):
    """A title that a source gives to the last record of a branch."""

    leaf_key: int
    source: int
    start: int
    leaf: str
    title: str


class DerivedSessions(Struct, frozen=True, kw_only=True):
    """Sessions of a person, derived together from whole sources."""

    person: str
    sources: Mapping[int, int]
    """What they were derived from, and the revision of each: it is clean up to there,
    and sessions that had these sources before are replaced. Whoever has derived
    something newer meanwhile wins."""
    sessions: tuple[SessionRows, ...]


def tombstone_hashes(source: RemoteSource) -> tuple[bytes, ...]:
    """Return the hashes by which an erased source is known when it comes again.

    One is that of its place; another that of its session, wherever it comes from.
    """
    told = [f"source {source.number}"]
    if source.session is not None:
        told.append(f"session {source.person} {source.session}")
    return tuple(sha256_digest(one.encode("utf-8", "replace")) for one in told)


def select_new_spans(
    source_id: str,
    spans: Sequence[StoredSpan],
    known: Sequence[StoredSpan],
    stored_bytes: int,
) -> list[StoredSpan]:
    """Return the spans that are new; refuse such as do not fit."""
    there = {span.offset: span for span in known}
    new: list[StoredSpan] = []
    for span in spans:
        same = there.get(span.offset)
        if same is not None:
            if (same.length, same.sha256) != (span.length, span.sha256):
                raise SourceUpdateRejected(source_id, "other bytes are there")
        elif span.offset != stored_bytes:
            raise SourceUpdateRejected(source_id, f"{stored_bytes} bytes are there")
        else:
            new.append(span)
            stored_bytes += span.length
    return new


_KEYS_PER_SESSION = 1 << 32
_RANDOM_BITS = 12


def pack_key(session: int, within: int) -> int:
    """Return a record or a payer of a session as one number."""
    return session * _KEYS_PER_SESSION + within


def unpack_key(key: int) -> tuple[int, int]:
    """Return the session, and the number within."""
    return divmod(key, _KEYS_PER_SESSION)


def allocate_numbers(count: int) -> range:
    """Return numbers for sessions, higher than all that were given before.

    They are made of the time, so that writers need not ask each other.
    """
    first = (time.time_ns() // 1000) << _RANDOM_BITS | secrets.randbelow(
        1 << _RANDOM_BITS
    )
    return range(first, first + count)


_TABLE_NAME = re.compile(r"\{(\w+)\}")


class DatabaseConnection(Protocol):
    """An engine, as far as readers know it."""

    def rows(self, sql: str, values: Mapping[str, Any]) -> list[Any]:
        """Return the rows of a statement with ``%(name)s`` in it."""
        ...

    def visible_rows(self, table: str) -> str:
        """Return a table's rows that are of ``%(holders)s``, to be selected from."""
        ...

    def restrict_to(self, holders: Sequence[int]) -> None:
        """Let the connection see rows of some holders only, and change nothing."""
        ...

    def read_transaction(self) -> AbstractContextManager[None]:
        """Have all that is read be of one moment, as far as the engine can."""
        ...

    def in_list(self, column: str, key: str) -> str:
        """Return the condition that a column is one of the list ``key``."""
        ...

    def pair_in_list(self, columns: str, key: str) -> str:
        """Return the condition that two columns are one of the pairs in ``key``."""
        ...

    def integer_division(self, number: str, divisor: int) -> str:
        """Return a division without its rest."""
        ...

    def close(self) -> None:
        """Let go of the connection."""
        ...


class ScopedDatabase:
    """An engine, as one scope sees it."""

    def __init__(self, db: DatabaseConnection) -> None:
        self.db = db
        self._holders: list[int] = []
        db.restrict_to(())

    def set_holders(self, holders: Sequence[int]) -> None:
        """See the rows of these holders from now on."""
        if list(holders) != self._holders:
            self._holders = list(holders)
            self.db.restrict_to(self._holders)

    def rows(self, sql: str, **values: Any) -> list[Any]:  # noqa: ANN401 (of any kind)
        """Return the rows of a statement, of what may be seen."""
        if not self._holders:
            return []
        said = _TABLE_NAME.sub(lambda found: self.db.visible_rows(found[1]), sql)
        return self.db.rows(said, {**values, "holders": self._holders})

    def first_row(self, sql: str, **values: Any) -> Any:  # noqa: ANN401 (of any kind)
        """Return the first row of a statement, or ``None``."""
        found = self.rows(sql, **values)
        return found[0] if found else None
