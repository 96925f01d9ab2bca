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
from contextlib import AbstractContextManager
from datetime import datetime
from enum import StrEnum
from threading import Lock
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec import Struct, msgpack

from bygones.errors import SourceUpdateRejected
from bygones.model.base import AgentId, ProjectKey, SessionId, SourceId, SourceKind
from bygones.model.summary import ProjectIdentity, is_in_folder
from bygones.store.compression import sha256_digest
from bygones.store.tokenizer import tokenize_prepared


class AccessRole(StrEnum):
    """What a person may see."""

    OWN = "own"
    """Their own sessions."""
    TEAM = "team"
    """Their own sessions, and those shared with their teams."""
    AUDITOR = "auditor"
    """All sessions."""


class AccessScope(Struct, frozen=True, kw_only=True):
    """Who reads. Nothing can be read without a scope."""

    person: str
    teams: tuple[str, ...] = ()
    role: AccessRole = AccessRole.OWN

    def can_see(
        self, person: str, teams: Iterable[str], rules: Iterable[ProjectRule] = ()
    ) -> bool:
        """Whether a session that a person shares with some teams is visible.

        ``rules`` are those of the projects that it belongs to.
        """
        if person == self.person or self.role is AccessRole.AUDITOR:
            return True
        is_shared = not set(teams).isdisjoint(self.teams)
        return (
            self.role is AccessRole.TEAM
            and is_shared
            and all(rule.allows(self) for rule in rules)
        )


PROJECT_RULE_KIND = "project-rule"
"""The kind of notes that limit who sees a project, by its name."""


class ProjectRule(Struct, frozen=True, kw_only=True):
    """Who may see a project, besides authors and auditors.

    A rule never shows more: sessions that are not shared with a team stay invisible.
    """

    people: tuple[str, ...] = ()
    teams: tuple[str, ...] = ()

    def allows(self, scope: AccessScope) -> bool:
        is_member = not set(self.teams).isdisjoint(scope.teams)
        return scope.person in self.people or is_member


decode_rule = msgspec.json.Decoder(ProjectRule).decode


def repository_key(name: str) -> str:
    """Return the key of a repository by its name, which clients may redact."""
    digest = hashlib.sha256(f"repository\0{name.casefold()}".encode())
    return digest.hexdigest()[:32]


def is_project_named(identity: ProjectIdentity, name: str) -> bool:
    """Whether a name is that of a project's repository, or a directory around it."""
    if name[:1] in {"~", "/"} or name[1:3] in {":\\", ":/"}:
        return is_in_folder(identity.directory, name)
    return bool(identity.key) and identity.key == repository_key(name)


class OwnerAccess(Struct, frozen=True):
    """With whom rows are shared: teams, and projects whose rules apply."""

    teams: frozenset[str] = frozenset()
    projects: frozenset[str] = frozenset()


class RemoteSource(Struct, frozen=True, kw_only=True):
    """A source on a client: its owner, and which file it is.

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
    identity: ProjectIdentity | None = None
    """The project of its session; ``None`` if the client did not say."""

    @property
    def machine_home(self) -> str:
        """The home, with the machine: other machines may have the same path."""
        return f"{self.machine}:{self.home}" if self.machine else self.home

    @property
    def id(self) -> SourceId:
        """The id in the positions of its lines."""
        return SourceId(
            f"{self.machine_home}/{self.path}" if self.machine_home else self.path
        )

    @property
    def number(self) -> int:
        """The number of a source, the same in every store."""
        key = f"{self.person}\0{self.machine}\0{self.home}\0{self.path}"
        digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(digest[:8], "big") >> 1


class StoredSpan(Struct, frozen=True, kw_only=True):
    """Whole lines of a source, with their newlines, and where their bytes are."""

    offset: int
    """In the redacted bytes of this generation; the first span starts at 0."""
    length: int
    client_offset: int
    """Where the client's own file continues after these lines."""
    sha256: bytes
    address: str
    """In the blob store."""

    @property
    def stop(self) -> int:
        return self.offset + self.length


class SourceFragment(Struct, frozen=True, kw_only=True):
    """The unfinished last line of a source; later uploads replace it."""

    offset: int
    """After all complete lines, in the redacted bytes of this generation."""
    fingerprint: bytes
    """By which the client recognizes it; it reveals nothing to others."""
    frame: bytes = b""
    """Its bytes, compressed; empty if the line must not leave the machine."""


class SourceUpdate(Struct, frozen=True, kw_only=True):
    """Consecutive spans of one source that were uploaded together."""

    source: RemoteSource
    generation: int = 0
    spans: tuple[StoredSpan, ...] = ()
    fragment: SourceFragment | None = None
    """After the last span, or after what is stored."""


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
    """A source that was uploaded and is not yet derived."""

    number: int
    person: str


class ErasureSelector(Struct, frozen=True, kw_only=True):
    """Which sessions to erase or hold: those that match all given conditions."""

    person: str | None = None
    session: SessionId | None = None
    project: str | None = None
    """A directory, or a project's key."""
    before: datetime | None = None
    """Sessions that ended before."""


class Tombstone(Struct, frozen=True, kw_only=True):
    """A source that was erased and is rejected since, by a hash of its id."""

    hash: bytes
    erased_at: datetime


class ErasureReceipt(Struct, frozen=True, kw_only=True):
    """The result of an erasure."""

    selector: ErasureSelector
    sessions: tuple[SessionId, ...] = ()
    sources: int = 0
    rows: int = 0
    blob_addresses: tuple[str, ...] = ()
    """Blobs that no span refers to. The caller removes them, and may do so again after
    a crash: ``TeamStore.orphaned_blobs`` returns them until they are forgotten."""
    held_sessions: tuple[SessionId, ...] = ()
    """Sessions that were not erased because of a hold."""


class VerifyReport(Struct, frozen=True, kw_only=True):
    """What was checked, and the faults that were found."""

    sources: int = 0
    sessions: int = 0
    texts: int = 0
    faults: tuple[str, ...] = ()


class BlobStore(Protocol):
    """Immutable bytes by address."""

    def put(self, raw: bytes) -> str:
        """Store bytes; return their address, the same for the same bytes."""
        ...

    def get(self, address: str) -> bytes:
        """Return bytes.

        :raises ArchiveDamaged: if they are missing.
        """
        ...

    def get_many(self, addresses: Sequence[str]) -> dict[str, bytes]:
        """Return several blobs, fetched at once, without missing or damaged ones.

        The caller verifies their hashes.
        """
        ...

    def get_frames(self, addresses: Sequence[str]) -> dict[str, bytes]:
        """Return the same compressed, as one zstd frame each."""
        ...

    def remove(self, addresses: Iterable[str]) -> None:
        """Remove blobs; missing ones are ignored."""
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


class PartRows(Struct, frozen=True):
    """Rows of a session that are written together, and deleted together."""

    rows: Mapping[str, Sequence[tuple[Any, ...]]]
    """By table, with the values of :attr:`bygones.store.schema.Table.team_columns`."""
    texts: Sequence[SessionText]
    first_text: int = 0
    """How many texts the session has in the parts before."""
    first_record: int = 0
    """How many records it has there."""


class SettledRows(Struct, frozen=True, kw_only=True):
    """A session in a store whose rows are settled, except those of its last part."""

    session: SessionId
    number: int
    owner: int
    parts: tuple[int, ...]
    """All parts that are stored. The last one changes when the session grows."""
    facts: bytes
    """What the settled rows add up to; see :mod:`bygones.team.growing`."""
    sources: frozenset[int]
    is_alone: bool
    """Whether it shares no records with other sessions."""


class SessionRows(Struct, frozen=True):
    """Everything that is derived from one session, or from its end."""

    session: SessionId
    number: int
    """One that no session of the store has, or that of the settled rows."""
    family: int
    """The same number for sessions that share records."""
    sources: Sequence[int]
    parts: Iterable[PartRows]
    """Read once: those of a very long session are derived while they are written. The
    last one has the row of the session."""
    identity: ProjectIdentity = ProjectIdentity()
    settled: SettledRows | None = None
    """What is stored and stays; only its last part is replaced."""

    def access(
        self, access_by_source: Mapping[int, OwnerAccess], rules: Iterable[str]
    ) -> OwnerAccess:
        """Return the teams that may see all sources, and all rules that apply."""
        own = [access_by_source[source] for source in self.sources]
        if not own:
            return OwnerAccess()
        named = {rule for rule in rules if is_project_named(self.identity, rule)}
        return OwnerAccess(
            teams=frozenset.intersection(*(one.teams for one in own)),
            projects=frozenset(named).union(*(one.projects for one in own)),
        )


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
    """What they were derived from, with the revision of each. Sessions that were derived
    from these sources before are replaced, unless from a newer revision."""
    sessions: tuple[SessionRows, ...]


def tombstone_hashes(source: RemoteSource) -> tuple[bytes, ...]:
    """Return the hashes by which an erased source is recognized.

    They are those of the source itself, of its session as this person's, and of its
    session as anybody's.
    """
    keys = [f"source {source.number}"]
    if source.session is not None:
        keys.append(f"session {source.person} {source.session}")
        keys.append(f"session {source.session}")
    return tuple(sha256_digest(key.encode("utf-8", "replace")) for key in keys)


def erasure_hashes(source: RemoteSource, *, of_everybody: bool) -> tuple[bytes, ...]:
    """Return the hashes with which a source is erased, as one person's or everybody's."""
    hashes = tombstone_hashes(source)
    return hashes if of_everybody else hashes[:2]


def select_new_spans(
    source_id: str,
    spans: Sequence[StoredSpan],
    known: Sequence[StoredSpan],
    stored_bytes: int,
) -> list[StoredSpan]:
    """Return the spans that are not stored yet.

    :raises SourceUpdateRejected: if they leave a gap or contradict what is stored.
    """
    known_by_offset = {span.offset: span for span in known}
    new: list[StoredSpan] = []
    for span in spans:
        stored = known_by_offset.get(span.offset)
        if stored is not None:
            if (stored.length, stored.sha256) != (span.length, span.sha256):
                raise SourceUpdateRejected(
                    source_id, "different bytes are stored there"
                )
        elif span.offset != stored_bytes:
            raise SourceUpdateRejected(source_id, f"{stored_bytes} bytes are stored")
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
    """Return the session, and the number within it."""
    return divmod(key, _KEYS_PER_SESSION)


class _NumberAllocator:
    """Allocates numbers from the time, so that several hubs need no coordination."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._last = 0

    def allocate(self, count: int) -> range:
        """Return numbers that are higher than all that this process got before.

        The clock may be set back, and the newest row must have the highest number.
        """
        random = secrets.randbelow(1 << _RANDOM_BITS)
        with self._lock:
            now = (time.time_ns() // 1000) << _RANDOM_BITS | random
            first = max(now, self._last + 1)
            self._last = first + count - 1
        return range(first, first + count)


allocate_numbers = _NumberAllocator().allocate


_TABLE_NAME = re.compile(r"\{(\w+)\}")


class DatabaseConnection(Protocol):
    """A connection, and the SQL in which databases differ."""

    def rows(self, sql: str, values: Mapping[str, Any]) -> list[Any]:
        """Return the rows of a statement with placeholders ``%(name)s``."""
        ...

    def visible_rows(self, table: str) -> str:
        """Return the subquery for rows of a table that belong to ``%(owners)s``."""
        ...

    def restrict_to(self, owners: Sequence[int]) -> None:
        """Make the connection read-only, and limit it to the rows of some owners."""
        ...

    def read_transaction(self) -> AbstractContextManager[None]:
        """Let all reads see the same snapshot, if the database can."""
        ...

    def in_list(self, column: str, key: str) -> str:
        """Return the condition that a column has one of the values in ``key``."""
        ...

    def pair_in_list(self, columns: str, key: str) -> str:
        """Return the condition that two columns have one of the pairs in ``key``."""
        ...

    def integer_division(self, number: str, divisor: int) -> str:
        """Return the expression of an integer division."""
        ...

    def close(self) -> None: ...


class ScopedDatabase:
    """A connection that is limited to what one scope may see."""

    def __init__(self, db: DatabaseConnection) -> None:
        self.db = db
        self._owners: list[int] = []
        db.restrict_to(())

    def set_owners(self, owners: Sequence[int]) -> None:
        """Limit all following statements to the rows of some owners."""
        if list(owners) != self._owners:
            self._owners = list(owners)
            self.db.restrict_to(self._owners)

    def rows(self, sql: str, **values: Any) -> list[Any]:  # noqa: ANN401 (any type of column)
        """Return the rows of a statement; ``{table}`` means its visible rows."""
        if not self._owners:
            return []
        scoped = _TABLE_NAME.sub(lambda match: self.db.visible_rows(match[1]), sql)
        return self.db.rows(scoped, {**values, "owners": self._owners})

    def first_row(self, sql: str, **values: Any) -> Any:  # noqa: ANN401 (any type of column)
        rows = self.rows(sql, **values)
        return rows[0] if rows else None


REBUILD_NOTE = ("hub", "rebuilding")
"""The note that exists while everything is derived again, after an upgrade or a repair.
Until it is gone, readers would see less than before."""
TEAM_DERIVATION_VERSION = 2
"""Grows if hubs derive other rows than before, and local archives do not."""
PROTOCOL_VERSION = 1
"""Grows with every change that an older hub would not understand."""
PUSH_PATH = "/push"
"""Where uploads are posted."""
PROGRESS_PATH = "/push/acks"
"""Where a client asks what the hub has of its machine."""
TARGET_REQUEST_BYTES = 5_000_000
"""Bytes of a request. A line that takes more is uploaded alone."""
MAX_LINE_BYTES = 64 * 1024 * 1024
"""Bytes of a line; longer ones are not uploaded."""
MAX_CONTENT_BYTES = 256 * 1024 * 1024
"""Uncompressed bytes of a request; 5 MB of transcripts have about 40 MB."""
MAX_FRAME_BYTES = 16 * 1024 * 1024
"""Bytes of a compressed line."""
_MAX_NAME_LENGTH = 4096


class UploadChunk(Struct, frozen=True, kw_only=True, array_like=True):
    """Lines of a source, redacted and compressed, and where they belong.

    Either complete lines, or only the unfinished last one.
    """

    home: str
    path: str
    kind: SourceKind
    project: str | None
    session: str | None
    agent: str | None
    mtime_ns: int
    generation: int
    offset: int
    """In the redacted bytes of this generation."""
    length: int
    """Of the redacted bytes."""
    client_offset: int
    """Where the client's own file continues after these lines."""
    sha256: bytes
    """Of the redacted bytes."""
    frame: bytes
    fingerprint: bytes = b""
    """Of an unfinished last line, by which the client recognizes it."""
    identity: ProjectIdentity | None = None
    """The project of its session."""


class _NamedFile(Protocol):
    """A source, or a chunk of one."""

    @property
    def path(self) -> str: ...
    @property
    def project(self) -> str | None: ...
    @property
    def session(self) -> str | None: ...
    @property
    def agent(self) -> str | None: ...


def has_valid_names(item: _NamedFile) -> bool:
    """Whether a hub accepts the names of a source."""
    names = (item.path, item.project, item.session, item.agent)
    return all(name is None or _is_valid_name(name) for name in names)


_KEY = re.compile(r"[0-9a-f]{0,64}")


def is_valid_identity(identity: ProjectIdentity) -> bool:
    """Whether a hub accepts the description of a project."""
    texts = (identity.directory, identity.name, identity.path)
    return bool(_KEY.fullmatch(identity.key)) and all(
        len(text) <= _MAX_NAME_LENGTH and text.isprintable() for text in texts
    )


def _is_valid_name(name: str) -> bool:
    parts = name.replace("\\", "/").split("/")
    return len(name) <= _MAX_NAME_LENGTH and name.isprintable() and ".." not in parts


class UploadRequest(Struct, frozen=True, kw_only=True):
    """Chunks of several sources of one machine."""

    version: int = PROTOCOL_VERSION
    machine: str
    chunks: tuple[UploadChunk, ...]
    has_more: bool = False
    """Whether another request follows: the hub may wait before deriving."""
    hashes: tuple[bytes, ...] = ()
    """Hashes of sources, to learn which were erased without naming the others."""


class SourceState(Struct, frozen=True, kw_only=True, array_like=True):
    """How much of a source the hub has."""

    home: str
    path: str
    generation: int = 0
    stored_bytes: int = 0
    client_offset: int = 0
    is_erased: bool = False
    """Whether it was erased there; the hub rejects it."""
    fingerprint: bytes = b""
    """That of the unfinished last line after the stored bytes, if there is one."""
    identity: ProjectIdentity | None = None


class UploadResponse(Struct, frozen=True, kw_only=True):
    """What the hub has of a machine, or of the sources of a request."""

    sources: tuple[SourceState, ...] = ()
    person: str = ""
    """The owner of the token."""
    erased_hashes: tuple[bytes, ...] = ()
    """Those hashes of the request whose source was erased."""
    has_identities: bool = False
    """Whether the hub stores the projects of sources; older ones do not."""


_request_decoder = msgpack.Decoder(UploadRequest)
_response_decoder = msgpack.Decoder(UploadResponse)


def encode_message(message: UploadRequest | UploadResponse) -> bytes:
    return msgpack.encode(message)


def decode_request(raw: bytes) -> UploadRequest:
    """Decode a request.

    :raises msgspec.MsgspecError: if it is not valid.
    """
    return _request_decoder.decode(raw)


def decode_response(raw: bytes) -> UploadResponse:
    """Decode a response.

    :raises msgspec.MsgspecError: if it is not valid.
    """
    return _response_decoder.decode(raw)
