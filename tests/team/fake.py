"""A team store and a raw store in memory: for those who only move bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

from msgspec.structs import replace

from bygones.errors import ArchiveDamaged, BatchRefused
from bygones.model.ids import SessionId
from bygones.store.harvest import Marks, Named
from bygones.store.press import squeeze
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
    Tombstone,
    Touched,
    Verdict,
)
from bygones.team.derivation import Derivation
from bygones.team.refusing import signs_of
from bygones.team.shelves import TeamShelf

__all__ = ["MemoryObjects", "MemoryStore"]

_Key = tuple[str, str, str, str]


class MemoryObjects:
    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def put(self, raw: bytes) -> str:
        address = hashlib.sha256(raw).hexdigest()
        self.kept[address] = raw
        return address

    def bytes_of(self, address: str) -> bytes:
        if address not in self.kept:
            raise ArchiveDamaged(Path("raw"), address)
        return self.kept[address]

    def several(self, addresses: Sequence[str]) -> dict[str, bytes]:
        return {one: self.kept[one] for one in addresses if one in self.kept}

    def frames(self, addresses: Sequence[str]) -> dict[str, bytes]:
        found = self.several(addresses).items()
        return {address: squeeze(raw) for address, raw in found}

    def remove(self, addresses: Iterable[str]) -> None:
        for address in addresses:
            self.kept.pop(address, None)


class _Source:
    def __init__(self, sent: Sent) -> None:
        self.sent = sent
        self.generation = 0
        self.spans: list[Span] = []
        self.fragment: Fragment | None = None
        self.revision = 0
        self.is_touched = False

    @property
    def upto(self) -> int:
        last = self.spans[-1] if self.spans else None
        return last.offset + last.length if last else 0


class MemoryStore:
    """Keeps spans as a real store does, and derives nothing."""

    def __init__(self) -> None:
        self.sources: dict[_Key, _Source] = {}
        self._notes: dict[tuple[str, str], bytes] = {}
        self._holds: dict[Selector, str] = {}
        self._signs: dict[bytes, datetime] = {}
        self._stray: set[str] = set()
        self.derived: list[Derivation] = []

    def prepare(self) -> None:
        pass

    def put(self, batch: Batch) -> Ack:
        sent = batch.source
        if self.erased(signs_of(sent)):
            raise BatchRefused(sent.id, "it was erased")
        key = (sent.person, sent.machine, sent.home, sent.path)
        source = self.sources.setdefault(key, _Source(sent))
        if batch.generation > source.generation:
            source.generation, source.spans = batch.generation, []
            source.fragment = None
        if batch.generation < source.generation:
            raise BatchRefused(sent.id, "a newer generation is there")
        for span in batch.spans:
            known = next((s for s in source.spans if s.offset == span.offset), None)
            if known is not None:
                if known.sha256 != span.sha256:
                    raise BatchRefused(sent.id, "other bytes are there")
                continue
            if span.offset != source.upto:
                raise BatchRefused(sent.id, f"{source.upto} bytes are there")
            source.spans.append(span)
            source.fragment = None
            source.revision += 1
            source.is_touched = True
        behind = batch.fragment
        if behind and behind.offset == source.upto and behind != source.fragment:
            source.fragment = behind
            source.revision += 1
            source.is_touched = True
        source.sent = sent
        return _ack(source)

    def put_all(self, batches: Sequence[Batch]) -> Sequence[Ack | BatchRefused]:
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
        own = [s for k, s in self.sources.items() if k[:2] == (person, machine)]
        if among is not None:
            own = [source for source in own if source.sent.number in among]
        return [_ack(source) for source in own]

    def touched(self, limit: int = 100) -> Sequence[Touched]:
        found = [
            Touched(s.sent.number, s.sent.person)
            for s in self.sources.values()
            if s.is_touched
        ]
        return found[:limit]

    def replace(self, derivation: Derivation) -> None:
        self.derived.append(derivation)
        for source in self.sources.values():
            if derivation.sources.get(source.sent.number) == source.revision:
                source.is_touched = False

    def held(self, person: str) -> Sequence[Held]:
        return [
            Held(sent=s.sent, generation=s.generation, upto=s.upto, revision=s.revision)
            for s in self.sources.values()
            if s.sent.person == person
        ]

    def spans(self, source: int) -> Sequence[Span]:
        found = (s for s in self.sources.values() if s.sent.number == source)
        return next((s.spans for s in found), [])

    def fragments(self, sources: Sequence[int]) -> dict[int, Fragment]:
        own = [s for s in self.sources.values() if s.sent.number in sources]
        return {s.sent.number: s.fragment for s in own if s.fragment}

    def kin(self, person: str, marks: Marks) -> set[int]:
        del person, marks
        return set()

    def named(self, person: str, records: Sequence[int]) -> Sequence[Named]:
        del person, records
        return ()

    def shelf(self, scope: Scope, objects: Objects) -> TeamShelf:
        raise NotImplementedError

    def objects(self) -> Objects:
        return MemoryObjects()

    def hold(self, selector: Selector, *, reason: str) -> None:
        self._holds[selector] = reason

    def release(self, selector: Selector) -> None:
        self._holds.pop(selector, None)

    def holds(self) -> Sequence[tuple[Selector, str]]:
        return list(self._holds.items())

    def fitting(self, selector: Selector) -> Sequence[SessionId]:
        fits = [s.sent for s in self.sources.values() if _fits(selector, s.sent)]
        return sorted({sent.session for sent in fits if sent.session})

    def erase(self, selector: Selector, *, now: datetime) -> Receipt:
        gone = [s for s in self.sources.values() if _fits(selector, s.sent)]
        held = [s for s in gone if any(_fits(h, s.sent) for h in self._holds)]
        gone = [s for s in gone if s not in held]
        addresses = {span.address for s in gone for span in s.spans}
        for source in gone:
            self._signs |= dict.fromkeys(signs_of(source.sent), now)
        self.sources = {k: s for k, s in self.sources.items() if s not in gone}
        used = {span.address for s in self.sources.values() for span in s.spans}
        self._stray |= addresses - used
        ids = dict.fromkeys(s.sent.session for s in gone if s.sent.session)
        kept = dict.fromkeys(s.sent.session for s in held if s.sent.session)
        return Receipt(
            selector=selector,
            sessions=tuple(ids),
            sources=len(gone),
            addresses=tuple(sorted(addresses - used)),
            held=tuple(kept),
        )

    def refused(self, sources: Sequence[Sent]) -> set[int]:
        return {one.number for one in sources if self.erased(signs_of(one))}

    def erased(self, signs: Sequence[bytes]) -> set[bytes]:
        return self._signs.keys() & set(signs)

    def tombstones(self) -> Sequence[Tombstone]:
        return [Tombstone(sign=s, erased=when) for s, when in self._signs.items()]

    def refuse(self, tombstones: Iterable[Tombstone]) -> None:
        self._signs |= {one.sign: one.erased for one in tombstones}

    def stray(self) -> Sequence[str]:
        return sorted(self._stray)

    def forget_stray(self, addresses: Iterable[str]) -> None:
        self._stray -= set(addresses)

    def batches(self) -> Iterator[Batch]:
        for source in self.sources.values():
            yield Batch(
                source=source.sent,
                generation=source.generation,
                spans=tuple(source.spans),
                fragment=source.fragment,
            )

    def verify(self) -> Verdict:
        return Verdict(sources=len(self.sources))

    def note(self, kind: str, key: str) -> bytes | None:
        return self._notes.get((kind, key))

    def notes(self, kind: str) -> dict[str, bytes]:
        return {key: value for (k, key), value in self._notes.items() if k == kind}

    def kinds(self) -> Sequence[str]:
        return sorted({kind for kind, _ in self._notes})

    def set_note(self, kind: str, key: str, value: bytes | None) -> None:
        if value is None:
            self._notes.pop((kind, key), None)
        else:
            self._notes[kind, key] = value

    def close(self) -> None:
        pass


def _ack(source: _Source) -> Ack:
    last = source.spans[-1] if source.spans else None
    return Ack(
        source=source.sent,
        generation=source.generation,
        upto=source.upto,
        origin=last.origin if last else 0,
        mark=source.fragment.mark if source.fragment else b"",
    )


def _fits(selector: Selector, sent: Sent) -> bool:
    wanted = replace(selector, before=None)
    return all(
        value is None or value == getattr(sent, name)
        for name, value in (
            ("person", wanted.person),
            ("session", wanted.session),
            ("project", wanted.project),
        )
    )
