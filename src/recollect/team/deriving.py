"""Deriving sessions of what was sent, with the code that fills a folder's index.

Whole sources are laid into an archive of the moment, and its index is filled as always;
what it has derived goes to the store. A source brings its kin: the files beside it,
those of the sessions that it names, and those with which it shares records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

from msgspec.structs import replace

from recollect.errors import ArchiveDamaged
from recollect.ingest.filling import fill
from recollect.ingest.report import Report, Silence
from recollect.model.sources import Source
from recollect.store.harvest import Harvest, Listening, harvested
from recollect.store.press import digest, press
from recollect.store.vault import Vault
from recollect.team.contract import Held, Objects, Span, TeamStore, Touched
from recollect.team.derivation import Derivation

__all__ = ["derive", "pieces_of"]

_WEIGHT = 32 * 1024 * 1024
"""Bytes of touched sources that are derived together; their kin come on top."""
_AT_ONCE = 2000
_PIECE = 4 * 1024 * 1024


def derive(store: TeamStore, objects: Objects) -> int:
    """Derive all that is touched; return how many sessions were written."""
    written = 0
    while touched := store.touched(_AT_ONCE):
        person = touched[0].person
        own = [one for one in touched if one.person == person]
        written += _derive_person(store, objects, person, own)
    return written


def _derive_person(
    store: TeamStore, objects: Objects, person: str, touched: Sequence[Touched]
) -> int:
    held = {one.number: one for one in store.held(person)}
    written = 0
    for group in _groups(touched, held):
        chosen = {one.number for one in group} & set(held)
        with _Bench(store, objects, held) as bench:
            while chosen:
                bench.lay(chosen)
                chosen = bench.related(person)
            made = Derivation(
                person=person,
                sources={number: held[number].revision for number in bench.laid},
                sessions=bench.sessions,
            )
        store.replace(made)
        written += len(made.sessions)
    return written


def _groups(
    touched: Sequence[Touched], held: Mapping[int, Held]
) -> Iterator[list[Touched]]:
    """Yield what is derived together: files of one session always are."""

    def stem(one: Touched) -> tuple[str, ...]:
        known = held.get(one.number)
        return _stem(known) if known is not None else ()

    group: list[Touched] = []
    weight = 0
    last: tuple[str, ...] = ()
    for one in sorted(touched, key=lambda one: (stem(one), one.number)):
        if weight > _WEIGHT and stem(one) != last:
            yield group
            group, weight = [], 0
        group.append(one)
        last = stem(one)
        weight += held[one.number].upto if one.number in held else 0
    if group:
        yield group


def _stem(held: Held) -> tuple[str, ...]:
    """Return what the files of one session have in common: its file without ending."""
    sent = held.sent
    head = sent.path.split("/", 3)[:3]
    return (sent.machine, sent.home, "/".join(head).removesuffix(".jsonl"))


class _Bench:
    """An archive of the moment, in which sources are laid and derived."""

    def __init__(
        self, store: TeamStore, objects: Objects, held: Mapping[int, Held]
    ) -> None:
        self._store = store
        self._objects = objects
        self._held = held
        self._words = Listening()
        self._stems: dict[tuple[str, ...], list[int]] = {}
        for number, one in held.items():
            self._stems.setdefault(_stem(one), []).append(number)
        self.laid: dict[int, int] = {}
        """The numbers of sources in the store, and here."""
        self.sessions: tuple[Harvest, ...] = ()
        """What was derived, with sources by the numbers of the store."""

    def __enter__(self) -> Self:
        self._folder = TemporaryDirectory(prefix="recollect-")
        path = Path(self._folder.name) / "archive"
        self._vault = Vault(path, write=True, words=self._words)
        return self

    def __exit__(self, *_: object) -> None:
        self._vault.close()
        self._folder.cleanup()

    def lay(self, numbers: Iterable[int]) -> None:
        """Lay sources and those beside them, and derive."""
        stems = {_stem(self._held[number]) for number in numbers}
        found = {one for stem in stems for one in self._stems[stem]} - set(self.laid)
        some = sorted(
            (self._held[n] for n in found), key=lambda h: (h.sent.place, h.sent.path)
        )
        with self._vault.chunks.db:
            for held in some:
                self._lay(held)
        fill(self._vault, Report(problems=[]), Silence())
        if self._vault.index is not None:
            back = {here: there for there, here in self.laid.items()}
            self.sessions = tuple(harvested(self._vault.index, self._words, back))

    def _lay(self, held: Held) -> None:
        sent, chunks = held.sent, self._vault.chunks
        source = Source(
            id=sent.id,
            home=sent.place,
            path=sent.path,
            kind=sent.kind,
            size=held.upto,
            mtime_ns=sent.mtime_ns,
            project=sent.project,
            session=sent.session,
            agent=sent.agent,
        )
        kept = chunks.add_source(source)
        at = 0
        for raw in pieces_of(self._store.spans(held.number), self._objects):
            for start in range(0, len(raw), _PIECE):
                part = raw[start : start + _PIECE]
                chunks.add_chunk(kept, at, at + len(part), press(part))
                at += len(part)
        mark = replace(kept, kept=at, size=at, mtime_ns=sent.mtime_ns)
        chunks.set_mark(mark)
        self.laid[held.number] = kept.number

    def related(self, person: str) -> set[int]:
        """Return sources in the store that belong to what was derived here."""
        kin = self._store.kin(person, self.sessions)
        names = {one.session for one in self.sessions}
        kin |= {n for n, one in self._held.items() if one.sent.session in names}
        return (kin & set(self._held)) - set(self.laid)


def pieces_of(spans: Iterable[Span], objects: Objects) -> Iterator[bytes]:
    """Yield the bytes of spans, each as it was sent; small ones are fetched at once."""
    some: list[Span] = []
    weight = 0
    for span in spans:
        if some and weight + span.length > _PIECE:
            yield from _fetched(some, objects)
            some, weight = [], 0
        some.append(span)
        weight += span.length
    yield from _fetched(some, objects)


def _fetched(spans: Sequence[Span], objects: Objects) -> Iterator[bytes]:
    found = objects.several([span.address for span in spans]) if len(spans) > 1 else {}
    for span in spans:
        raw = found.get(span.address)
        if raw is None:
            raw = objects.bytes_of(span.address)
        if digest(raw) != span.sha256:
            raise ArchiveDamaged(Path(span.address), "it has another hash")
        yield raw
