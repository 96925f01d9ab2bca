"""Structs of team stores, and what their readers need from a database.

Offsets are those of the *redacted* bytes: the hub has no others. A client that redacts
by other rules than before starts a new generation. ``client_offset`` is the offset in
the client's own file after a span. The hub returns it, so that a client without state
of its own can continue there.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from msgspec import Struct

from bygones.errors import SourceUpdateRejected
from bygones.model.base import AgentId, ProjectKey, SessionId, SourceId, SourceKind
from bygones.store.compression import sha256_digest
from bygones.store.tokenizer import tokenize_prepared


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

    @property
    def stop(self) -> int:
        return self.offset + self.length


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


class TeamSource(Struct, frozen=True, kw_only=True):
    """A source as the store has it."""

    source: RemoteSource
    generation: int = 0
    stored_bytes: int = 0
    """Redacted bytes that are stored; the next upload continues here."""
    client_offset: int = 0
    revision: int = 0
    """Grows with every change."""
    fingerprint: bytes = b""
    """That of the unfinished last line after the stored bytes, if there is one."""

    @property
    def number(self) -> int:
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

    def common_teams(
        self, teams_by_source: Mapping[int, AbstractSet[str]]
    ) -> tuple[str, ...]:
        """Return the teams that may see all sources of the session."""
        teams = [teams_by_source[row[0]] for row in self.rows["session_source"]]
        return tuple(sorted(set.intersection(*map(set, teams)))) if teams else ()


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
