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
    SettledRows,
    SourceFragment,
    SourceUpdate,
    StoredSpan,
    TeamSource,
    Tombstone,
    VerifyReport,
    erasure_hashes,
    tombstone_hashes,
)
from bygones.team.reader import TeamReader
from bygones.team.stores.base import TeamStore

__all__ = ["MemoryObjects", "MemoryStore"]

_Key = tuple[str, str, str, str]


class MemoryObjects:
    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}

    def put(self, raw: bytes) -> str:
        address = hashlib.sha256(raw).hexdigest()
        self.blobs[address] = raw
        return address

    def get(self, address: str) -> bytes:
        if address not in self.blobs:
            raise ArchiveDamaged(Path("raw"), address)
        return self.blobs[address]

    def get_many(self, addresses: Sequence[str]) -> dict[str, bytes]:
        return {one: self.blobs[one] for one in addresses if one in self.blobs}

    def get_frames(self, addresses: Sequence[str]) -> dict[str, bytes]:
        found = self.get_many(addresses).items()
        return {address: compress(raw) for address, raw in found}

    def remove(self, addresses: Iterable[str]) -> None:
        for address in addresses:
            self.blobs.pop(address, None)


class _Source:
    def __init__(self, remote: RemoteSource) -> None:
        self.remote = remote
        self.generation = 0
        self.spans: list[StoredSpan] = []
        self.fragment: SourceFragment | None = None
        self.revision = 0
        self.is_touched = False

    @property
    def stored_bytes(self) -> int:
        last = self.spans[-1] if self.spans else None
        return last.offset + last.length if last else 0


class MemoryStore(TeamStore):
    """Stores spans as a real store does, and derives nothing."""

    def __init__(self) -> None:
        self.sources: dict[_Key, _Source] = {}
        self._notes: dict[tuple[str, str], bytes] = {}
        self._holds: dict[ErasureSelector, str] = {}
        self._tombstones: dict[bytes, datetime] = {}
        self._orphans: set[str] = set()
        self.derived: list[DerivedSessions] = []

    def prepare(self) -> None:
        pass

    def put(self, update: SourceUpdate) -> TeamSource:
        remote = update.source
        if self.find_tombstones(tombstone_hashes(remote)):
            raise SourceUpdateRejected(remote.id, "it was erased")
        key = (remote.person, remote.machine, remote.home, remote.path)
        source = self.sources.setdefault(key, _Source(remote))
        if update.generation > source.generation:
            source.generation, source.spans = update.generation, []
            source.fragment = None
        if update.generation < source.generation:
            raise SourceUpdateRejected(remote.id, "a newer generation is there")
        for span in update.spans:
            known = next((s for s in source.spans if s.offset == span.offset), None)
            if known is not None:
                if known.sha256 != span.sha256:
                    raise SourceUpdateRejected(
                        remote.id, "different bytes are stored there"
                    )
                continue
            if span.offset != source.stored_bytes:
                raise SourceUpdateRejected(
                    remote.id, f"{source.stored_bytes} bytes are stored"
                )
            source.spans.append(span)
            source.fragment = None
            source.revision += 1
            source.is_touched = True
        fragment = update.fragment
        if (
            fragment
            and fragment.offset == source.stored_bytes
            and fragment != source.fragment
        ):
            source.fragment = fragment
            source.revision += 1
            source.is_touched = True
        source.remote = remote
        return _team_source(source)

    def machine_sources(
        self, person: str, machine: str, among: Sequence[int] | None = None
    ) -> Sequence[TeamSource]:
        sources = [s for k, s in self.sources.items() if k[:2] == (person, machine)]
        if among is not None:
            sources = [source for source in sources if source.remote.number in among]
        return [_team_source(source) for source in sources]

    def pending_sources(self, limit: int = 100) -> Sequence[PendingSource]:
        found = [
            PendingSource(s.remote.number, s.remote.person)
            for s in self.sources.values()
            if s.is_touched
        ]
        return found[:limit]

    def replace_sessions(self, derived: DerivedSessions) -> None:
        self.derived.append(derived)
        for source in self.sources.values():
            if derived.sources.get(source.remote.number) == source.revision:
                source.is_touched = False

    def list_sources(self, person: str) -> Sequence[TeamSource]:
        return [
            TeamSource(
                source=s.remote,
                generation=s.generation,
                stored_bytes=s.stored_bytes,
                revision=s.revision,
            )
            for s in self.sources.values()
            if s.remote.person == person
        ]

    def spans(self, source: int, start: int = 0) -> Sequence[StoredSpan]:
        found = (s for s in self.sources.values() if s.remote.number == source)
        spans = next((s.spans for s in found), [])
        return [span for span in spans if span.stop > start]

    def find_settled(self, source: int) -> SettledRows | None:
        del source
        return None

    def has_settled_key(self, number: int, keys: Sequence[int]) -> bool:
        del number, keys
        return False

    def has_edited(self, number: int, path: str, count: int) -> bool:
        del number, path, count
        return False

    def sources_with_keys(
        self, person: str, session: int, keys: Sequence[int], place: tuple[int, int]
    ) -> set[int]:
        del person, session, keys, place
        return set()

    def fragments(self, sources: Sequence[int]) -> dict[int, SourceFragment]:
        matching = [s for s in self.sources.values() if s.remote.number in sources]
        return {s.remote.number: s.fragment for s in matching if s.fragment}

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
        fits = [s.remote for s in self.sources.values() if _matches(selector, s.remote)]
        return sorted({remote.session for remote in fits if remote.session})

    def erase(self, selector: ErasureSelector, *, now: datetime) -> ErasureReceipt:
        matching = [s for s in self.sources.values() if _matches(selector, s.remote)]
        held_back = [
            s for s in matching if any(_matches(h, s.remote) for h in self._holds)
        ]
        matching = [s for s in matching if s not in held_back]
        addresses = {span.address for s in matching for span in s.spans}
        for source in matching:
            others = [
                s.remote.session for s in self.sources.values() if s not in matching
            ]
            own = erasure_hashes(
                source.remote,
                of_everybody=not selector.person
                and source.remote.session not in others,
            )
            self._tombstones |= dict.fromkeys(own, now)
        self.sources = {k: s for k, s in self.sources.items() if s not in matching}
        used = {span.address for s in self.sources.values() for span in s.spans}
        self._orphans |= addresses - used
        ids = dict.fromkeys(s.remote.session for s in matching if s.remote.session)
        held_ids = dict.fromkeys(
            s.remote.session for s in held_back if s.remote.session
        )
        return ErasureReceipt(
            selector=selector,
            sessions=tuple(ids),
            sources=len(matching),
            blob_addresses=tuple(sorted(addresses - used)),
            held_sessions=tuple(held_ids),
        )

    def find_tombstones(self, hashes: Sequence[bytes]) -> set[bytes]:
        return self._tombstones.keys() & set(hashes)

    def tombstones(self) -> Sequence[Tombstone]:
        return [
            Tombstone(hash=s, erased_at=when) for s, when in self._tombstones.items()
        ]

    def add_tombstones(self, tombstones: Iterable[Tombstone]) -> None:
        self._tombstones |= {one.hash: one.erased_at for one in tombstones}

    def orphaned_blobs(self) -> Sequence[str]:
        return sorted(self._orphans)

    def forget_orphaned_blobs(self, addresses: Iterable[str]) -> None:
        self._orphans -= set(addresses)

    def export_updates(self) -> Iterator[SourceUpdate]:
        for source in self.sources.values():
            yield SourceUpdate(
                source=source.remote,
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


def _team_source(source: _Source) -> TeamSource:
    last = source.spans[-1] if source.spans else None
    return TeamSource(
        source=source.remote,
        generation=source.generation,
        stored_bytes=source.stored_bytes,
        client_offset=last.client_offset if last else 0,
        fingerprint=source.fragment.fingerprint if source.fragment else b"",
    )


def _matches(selector: ErasureSelector, remote: RemoteSource) -> bool:
    wanted = replace(selector, before=None)
    return all(
        value is None or value == getattr(remote, name)
        for name, value in (
            ("person", wanted.person),
            ("session", wanted.session),
            ("project", wanted.project),
        )
    )
