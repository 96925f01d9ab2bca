"""What every team store does, and what is handed to it.

The way of some bytes, from a person's machine to an answer:

1. The hub has lines of a source, masked by whoever sent them. It puts the bytes into
   the raw store (:class:`Objects`) and gets an address.
2. ``store.put(Batch(...))`` notes the spans and that their source must be derived anew,
   in one step. From then on nothing is lost; the hub acknowledges now.
3. ``derive(store, objects)`` of :mod:`bygones.team.deriving`, called after a batch
   and whenever a hub starts, takes what ``store.touched()`` names, reads whole sources
   back from the raw store, has the very code of the embedded index derive the sessions
   that they are part of, and hands their rows to ``store.replace``. It can be stopped
   anywhere and run twice: what is touched stays so until it is written.
4. ``store.shelf(scope)`` is the only way to read. It answers as the index of a folder
   does, of sessions that the scope may see, and of nothing else.

Offsets are those of the *masked* bytes: the hub has no others. A sender that masks by
other rules than before begins a new generation. ``origin`` is the offset in the
sender's own file behind a span: the hub hands it back, so that whoever has lost its
notes goes on from there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from bygones.model.ids import AgentId, ProjectKey, SessionId, SourceId
from bygones.model.sources import SourceKind

if TYPE_CHECKING:
    from bygones.errors import BatchRefused
    from bygones.store.harvest import Marks, Named
    from bygones.team.derivation import Derivation
    from bygones.team.shelves import TeamShelf

__all__ = [
    "Ack",
    "Batch",
    "Fragment",
    "Held",
    "Objects",
    "Receipt",
    "Role",
    "Scope",
    "Selector",
    "Sent",
    "Span",
    "TeamStore",
    "Tombstone",
    "Touched",
    "Verdict",
]


class Role(StrEnum):
    """How far somebody sees."""

    OWN = "own"
    """Their own sessions."""
    TEAM = "team"
    """Those of their teams as well."""
    AUDITOR = "auditor"
    """Everybody's."""


class Scope(Struct, frozen=True, kw_only=True):
    """Who asks. Nothing can be read without one."""

    person: str
    teams: tuple[str, ...] = ()
    role: Role = Role.OWN

    def sees(self, person: str, teams: Iterable[str]) -> bool:
        """Whether what a person shares with some teams may be seen."""
        if person == self.person or self.role is Role.AUDITOR:
            return True
        return self.role is Role.TEAM and not set(teams).isdisjoint(self.teams)


class Sent(Struct, frozen=True, kw_only=True):
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
    def place(self) -> str:
        """The home, told apart from those of other machines."""
        return f"{self.machine}:{self.home}" if self.machine else self.home

    @property
    def id(self) -> SourceId:
        """The path under which its lines are known."""
        return SourceId(f"{self.place}/{self.path}" if self.place else self.path)

    @property
    def number(self) -> int:
        """The number of a source, the same in every store."""
        told = f"{self.person}\0{self.machine}\0{self.home}\0{self.path}"
        sign = hashlib.sha256(told.encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(sign[:8], "big") >> 1


class Span(Struct, frozen=True, kw_only=True):
    """Whole lines of a source, with their newlines, and where their bytes are."""

    offset: int
    """In the masked bytes of this generation; the first span begins at 0."""
    length: int
    origin: int
    """Where the sender's own file goes on behind these lines."""
    sha256: bytes
    address: str
    """In the raw store."""


class Fragment(Struct, frozen=True, kw_only=True):
    """The unfinished last line of a source: it gives way to what comes in its place."""

    offset: int
    """Behind all whole lines, in the masked bytes of this generation."""
    mark: bytes
    """By which its sender knows it again; nobody else learns anything from it."""
    frame: bytes = b""
    """Its bytes, packed; none of a line that must not leave."""


class Batch(Struct, frozen=True, kw_only=True):
    """What came of one source at once: spans that follow each other."""

    source: Sent
    generation: int = 0
    spans: tuple[Span, ...] = ()
    fragment: Fragment | None = None
    """What comes behind the last span, or behind what is there."""


class Ack(Struct, frozen=True, kw_only=True):
    """Up to where the store has a source."""

    source: Sent
    generation: int = 0
    upto: int = 0
    """Masked bytes that are there; what comes next begins here."""
    origin: int = 0
    mark: bytes = b""
    """That of the unfinished last line behind them, if there is one."""


class Held(Struct, frozen=True, kw_only=True):
    """A source as the store has it."""

    sent: Sent
    generation: int = 0
    upto: int = 0
    revision: int = 0
    """Grows with everything that comes of it."""

    @property
    def number(self) -> int:
        """The number of the source."""
        return self.sent.number


class Touched(Struct, frozen=True):
    """A source that was sent and not yet derived."""

    number: int
    person: str


class Selector(Struct, frozen=True, kw_only=True):
    """What is to be erased or held: all that fits everything that is named."""

    person: str | None = None
    session: SessionId | None = None
    project: str | None = None
    """A directory, or a project's key."""
    before: datetime | None = None
    """Sessions that ended before."""


class Tombstone(Struct, frozen=True, kw_only=True):
    """A source that was erased and is refused from then on, by a hash of its id."""

    sign: bytes
    erased: datetime


class Receipt(Struct, frozen=True, kw_only=True):
    """What an erasure did."""

    selector: Selector
    sessions: tuple[SessionId, ...] = ()
    sources: int = 0
    rows: int = 0
    addresses: tuple[str, ...] = ()
    """Objects that no span names any more: whoever called removes them, and may do so
    again after a crash, for :meth:`TeamStore.stray` names them until they are gone."""
    held: tuple[SessionId, ...] = ()
    """Sessions that would have gone, were they not held."""


class Verdict(Struct, frozen=True, kw_only=True):
    """What was looked at, and what is wrong with it."""

    sources: int = 0
    sessions: int = 0
    texts: int = 0
    faults: tuple[str, ...] = ()


class Objects(Protocol):
    """The raw store: bytes by address, written once."""

    def put(self, raw: bytes) -> str:
        """Keep bytes, and return their address: the same for the same bytes."""
        ...

    def bytes_of(self, address: str) -> bytes:
        """Return bytes; raise :class:`bygones.errors.ArchiveDamaged` without."""
        ...

    def several(self, addresses: Sequence[str]) -> dict[str, bytes]:
        """Return bytes of several objects, fetched at once; what is not whole is not.

        They are what their addresses say only as far as the store knows.
        """
        ...

    def frames(self, addresses: Sequence[str]) -> dict[str, bytes]:
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

    def put(self, batch: Batch) -> Ack:
        """Note spans, once each, and that the source is touched.

        Spans that are there already are passed over. Raises
        :class:`bygones.errors.BatchRefused` for a gap, for other bytes at a known
        offset, and for a source that was erased. A fragment takes the place of the
        one before; one that does not begin where the spans end is passed over.
        """
        ...

    def put_all(self, batches: Sequence[Batch]) -> Sequence[Ack | BatchRefused]:
        """Put what came at once; what is refused does not keep the rest back."""
        ...

    def acks(
        self, person: str, machine: str, among: Sequence[int] | None = None
    ) -> Sequence[Ack]:
        """Return up to where sources of a machine are there: all, or some numbers."""
        ...

    def touched(self, limit: int = 100) -> Sequence[Touched]:
        """Return sources that must be derived, those that wait longest first.

        What came at once is in the order in which it was sent.
        """
        ...

    def held(self, person: str) -> Sequence[Held]:
        """Return all sources of a person."""
        ...

    def spans(self, source: int) -> Sequence[Span]:
        """Return the spans of a source's newest generation, in order."""
        ...

    def fragments(self, sources: Sequence[int]) -> dict[int, Fragment]:
        """Return the unfinished last lines of those sources that have one."""
        ...

    def kin(self, person: str, marks: Marks) -> set[int]:
        """Return the sources of a person's sessions that are related to some.

        These are sessions of the same id, those that share a record or an answer, and
        those that have a leaf.
        """
        ...

    def named(self, person: str, records: Sequence[int]) -> Sequence[Named]:
        """Return what a person's files call records."""
        ...

    def replace(self, derivation: Derivation) -> None:
        """Put sessions in the place of what was derived of them before."""
        ...

    def shelf(self, scope: Scope, objects: Objects) -> TeamShelf:
        """Return what somebody may read."""
        ...

    def objects(self) -> Objects:
        """Return a raw store in the engine itself, for who has no other."""
        ...

    def hold(self, selector: Selector, *, reason: str) -> None:
        """Keep what fits from being erased, until it is released."""
        ...

    def release(self, selector: Selector) -> None:
        """Take a hold back."""
        ...

    def holds(self) -> Sequence[tuple[Selector, str]]:
        """Return what is held, and why."""
        ...

    def fitting(self, selector: Selector) -> Sequence[SessionId]:
        """Return the sessions that fit, whether they are held or not."""
        ...

    def erase(self, selector: Selector, *, now: datetime) -> Receipt:
        """Refuse what fits from now on, then remove every row of it.

        What is not derived yet is known by person and session only: derive first.
        """
        ...

    def refused(self, sources: Sequence[Sent]) -> set[int]:
        """Return the numbers of those sources that were erased, asked for at once."""
        ...

    def erased(self, signs: Sequence[bytes]) -> set[bytes]:
        """Return those of some hashes of sources that tombstones have."""
        ...

    def tombstones(self) -> Sequence[Tombstone]:
        """Return what was erased."""
        ...

    def refuse(self, tombstones: Iterable[Tombstone]) -> None:
        """Refuse what another store has erased."""
        ...

    def stray(self) -> Sequence[str]:
        """Return addresses of erased objects that may still be there."""
        ...

    def forget_stray(self, addresses: Iterable[str]) -> None:
        """Note that objects are gone."""
        ...

    def batches(self) -> Iterator[Batch]:
        """Yield all that was put, a source at a time: for moving to another store."""
        ...

    def verify(self) -> Verdict:
        """Look whether rows and spans are whole."""
        ...

    def note(self, kind: str, key: str) -> bytes | None:
        """Return what a hub keeps for itself, such as a token's hash."""
        ...

    def notes(self, kind: str) -> dict[str, bytes]:
        """Return all notes of a kind."""
        ...

    def kinds(self) -> Sequence[str]:
        """Return of which kinds there are notes."""
        ...

    def set_note(self, kind: str, key: str, value: bytes | None) -> None:
        """Keep a note, or forget it."""
        ...

    def close(self) -> None:
        """Let go of the engine."""
        ...
