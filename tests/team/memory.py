"""A team store and a blob store in memory, for tests that only transfer bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

from msgspec.structs import replace

from bygones.errors import ArchiveDamaged, SourceUpdateRejected
from bygones.model.base import SessionId
from bygones.store.compression import compress
from bygones.team.contract import (
    AccessScope,
    BlobStore,
    DerivedSessions,
    ErasureReceipt,
    ErasureSelector,
    LeafTitle,
    PendingSource,
    RelationKeys,
    RemoteSource,
    SourceFragment,
    SourceUpdate,
    StoredSpan,
    TeamSource,
    Tombstone,
    VerifyReport,
    tombstone_hashes,
)
from bygones.team.reader import TeamReader
from bygones.team.stores.base import TeamStore

__all__ = ["MemoryObjects", "MemoryStore"]

_Key = tuple[str, str, str, str]


class MemoryObjects:
    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def put(self, raw: bytes) -> str:
        address = hashlib.sha256(raw).hexdigest()
        self.kept[address] = raw
        return address

    def get(self, address: str) -> bytes:
        if address not in self.kept:
            raise ArchiveDamaged(Path("raw"), address)
        return self.kept[address]

    def get_many(self, addresses: Sequence[str]) -> dict[str, bytes]:
        return {one: self.kept[one] for one in addresses if one in self.kept}

    def get_frames(self, addresses: Sequence[str]) -> dict[str, bytes]:
        found = self.get_many(addresses).items()
        return {address: compress(raw) for address, raw in found}

    def remove(self, addresses: Iterable[str]) -> None:
        for address in addresses:
            self.kept.pop(address, None)


class _Source:
    def __init__(self, sent: RemoteSource) -> None:
        self.sent = sent
        self.generation = 0
        self.spans: list[StoredSpan] = []
        self.fragment: SourceFragment | None = None
        self.revision = 0
        self.is_touched = False

    @property
    def upto(self) -> int:
        last = self.spans[-1] if self.spans else None
        return last.offset + last.length if last else 0


class MemoryStore(TeamStore):
    """Stores spans as a real store does, and derives nothing."""

    def __init__(self) -> None:
        self.sources: dict[_Key, _Source] = {}
        self._notes: dict[tuple[str, str], bytes] = {}
        self._holds: dict[ErasureSelector, str] = {}
        self._signs: dict[bytes, datetime] = {}
        self._stray: set[str] = set()
        self.derived: list[DerivedSessions] = []

    def prepare(self) -> None:
        pass

    def put(self, update: SourceUpdate) -> TeamSource:
        sent = update.source
        if self.find_tombstones(tombstone_hashes(sent)):
            raise SourceUpdateRejected(sent.id, "it was erased")
        key = (sent.person, sent.machine, sent.home, sent.path)
        source = self.sources.setdefault(key, _Source(sent))
        if update.generation > source.generation:
            source.generation, source.spans = update.generation, []
            source.fragment = None
        if update.generation < source.generation:
            raise SourceUpdateRejected(sent.id, "a newer generation is there")
        for span in update.spans:
            known = next((s for s in source.spans if s.offset == span.offset), None)
            if known is not None:
                if known.sha256 != span.sha256:
                    raise SourceUpdateRejected(
                        sent.id, "different bytes are stored there"
                    )
                continue
            if span.offset != source.upto:
                raise SourceUpdateRejected(sent.id, f"{source.upto} bytes are stored")
            source.spans.append(span)
            source.fragment = None
            source.revision += 1
            source.is_touched = True
        behind = update.fragment
        if behind and behind.offset == source.upto and behind != source.fragment:
            source.fragment = behind
            source.revision += 1
            source.is_touched = True
        source.sent = sent
        return _ack(source)

    def machine_sources(
        self, person: str, machine: str, among: Sequence[int] | None = None
    ) -> Sequence[TeamSource]:
        own = [s for k, s in self.sources.items() if k[:2] == (person, machine)]
        if among is not None:
            own = [source for source in own if source.sent.number in among]
        return [_ack(source) for source in own]

    def pending_sources(self, limit: int = 100) -> Sequence[PendingSource]:
        found = [
            PendingSource(s.sent.number, s.sent.person)
            for s in self.sources.values()
            if s.is_touched
        ]
        return found[:limit]

    def replace_sessions(self, derived: DerivedSessions) -> None:
        self.derived.append(derived)
        for source in self.sources.values():
            if derived.sources.get(source.sent.number) == source.revision:
                source.is_touched = False

    def list_sources(self, person: str) -> Sequence[TeamSource]:
        return [
            TeamSource(
                source=s.sent,
                generation=s.generation,
                stored_bytes=s.upto,
                revision=s.revision,
            )
            for s in self.sources.values()
            if s.sent.person == person
        ]

    def spans(self, source: int) -> Sequence[StoredSpan]:
        found = (s for s in self.sources.values() if s.sent.number == source)
        return next((s.spans for s in found), [])

    def fragments(self, sources: Sequence[int]) -> dict[int, SourceFragment]:
        own = [s for s in self.sources.values() if s.sent.number in sources]
        return {s.sent.number: s.fragment for s in own if s.fragment}

    def related_sources(self, person: str, keys: RelationKeys) -> set[int]:
        del person, keys
        return set()

    def record_titles(self, person: str, records: Sequence[int]) -> Sequence[LeafTitle]:
        del person, records
        return ()

    def open_reader(self, scope: AccessScope, blobs: BlobStore) -> TeamReader:
        raise NotImplementedError

    def database_blobs(self) -> BlobStore:
        return MemoryObjects()

    def count_sessions_by_project(self) -> dict[str, int]:
        return {}

    def _apply_rule(self, name: str) -> int:
        del name
        return 0

    def hold(self, selector: ErasureSelector, *, reason: str) -> None:
        self._holds[selector] = reason

    def release(self, selector: ErasureSelector) -> None:
        self._holds.pop(selector, None)

    def holds(self) -> Sequence[tuple[ErasureSelector, str]]:
        return list(self._holds.items())

    def matching_sessions(self, selector: ErasureSelector) -> Sequence[SessionId]:
        fits = [s.sent for s in self.sources.values() if _fits(selector, s.sent)]
        return sorted({sent.session for sent in fits if sent.session})

    def erase(self, selector: ErasureSelector, *, now: datetime) -> ErasureReceipt:
        gone = [s for s in self.sources.values() if _fits(selector, s.sent)]
        held = [s for s in gone if any(_fits(h, s.sent) for h in self._holds)]
        gone = [s for s in gone if s not in held]
        addresses = {span.address for s in gone for span in s.spans}
        for source in gone:
            self._signs |= dict.fromkeys(tombstone_hashes(source.sent), now)
        self.sources = {k: s for k, s in self.sources.items() if s not in gone}
        used = {span.address for s in self.sources.values() for span in s.spans}
        self._stray |= addresses - used
        ids = dict.fromkeys(s.sent.session for s in gone if s.sent.session)
        kept = dict.fromkeys(s.sent.session for s in held if s.sent.session)
        return ErasureReceipt(
            selector=selector,
            sessions=tuple(ids),
            sources=len(gone),
            blob_addresses=tuple(sorted(addresses - used)),
            held_sessions=tuple(kept),
        )

    def find_tombstones(self, hashes: Sequence[bytes]) -> set[bytes]:
        return self._signs.keys() & set(hashes)

    def tombstones(self) -> Sequence[Tombstone]:
        return [Tombstone(hash=s, erased_at=when) for s, when in self._signs.items()]

    def add_tombstones(self, tombstones: Iterable[Tombstone]) -> None:
        self._signs |= {one.hash: one.erased_at for one in tombstones}

    def orphaned_blobs(self) -> Sequence[str]:
        return sorted(self._stray)

    def forget_orphaned_blobs(self, addresses: Iterable[str]) -> None:
        self._stray -= set(addresses)

    def export_updates(self) -> Iterator[SourceUpdate]:
        for source in self.sources.values():
            yield SourceUpdate(
                source=source.sent,
                generation=source.generation,
                spans=tuple(source.spans),
                fragment=source.fragment,
            )

    def verify(self) -> VerifyReport:
        return VerifyReport(sources=len(self.sources))

    def get_note(self, kind: str, key: str) -> bytes | None:
        return self._notes.get((kind, key))

    def list_notes(self, kind: str) -> dict[str, bytes]:
        return {key: value for (k, key), value in self._notes.items() if k == kind}

    def note_kinds(self) -> Sequence[str]:
        return sorted({kind for kind, _ in self._notes})

    def set_note(self, kind: str, key: str, value: bytes | None) -> None:
        if value is None:
            self._notes.pop((kind, key), None)
        else:
            self._notes[kind, key] = value

    def close(self) -> None:
        pass


def _ack(source: _Source) -> TeamSource:
    last = source.spans[-1] if source.spans else None
    return TeamSource(
        source=source.sent,
        generation=source.generation,
        stored_bytes=source.upto,
        client_offset=last.client_offset if last else 0,
        fingerprint=source.fragment.fingerprint if source.fragment else b"",
    )


def _fits(selector: ErasureSelector, sent: RemoteSource) -> bool:
    wanted = replace(selector, before=None)
    return all(
        value is None or value == getattr(sent, name)
        for name, value in (
            ("person", wanted.person),
            ("session", wanted.session),
            ("project", wanted.project),
        )
    )
