"""Deriving sessions of what was sent, with the code that fills a folder's index.

Whole sources are laid into an archive of the moment, and its index is filled as always;
what it has derived goes to the store. A source brings its kin: the files beside it,
those of the sessions that it names, and those with which it shares records.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

from msgspec.structs import replace

from bygones.errors import ArchiveDamaged, StoreError
from bygones.ingest.derive import derive as derive_index
from bygones.ingest.indexing import Indexer
from bygones.ingest.readers import Readers
from bygones.ingest.report import Report, Silence
from bygones.model.sources import Source, SourceKind
from bygones.store.derived import Derived
from bygones.store.harvest import (
    Harvest,
    Listening,
    Named,
    harvested,
    marks_of,
    named_in,
)
from bygones.store.index import Index
from bygones.store.press import digest, unpress
from bygones.store.vault import Vault
from bygones.team.contract import Fragment, Held, Objects, Span, TeamStore
from bygones.team.derivation import Derivation

__all__ = ["Withheld", "derive", "derive_waiting", "pieces_of"]

_WEIGHT = 64 * 1024 * 1024
"""Bytes of touched sources that are derived together; their kin come on top."""
_ALL = 1_000_000
_PIECE = 4 * 1024 * 1024


def derive(store: TeamStore, objects: Objects) -> int:
    """Derive all that is touched; return how many sessions were written."""
    written = 0
    withheld = Withheld()
    while more := derive_waiting(store, objects, withheld):
        written += more
    return written


class Withheld:
    """Sources of which the engine cannot take what is derived, and with what they came.

    They are kept as they were sent, and tried again when something of their family has
    come, or by another version: that begins with nothing withheld.
    """

    def __init__(self) -> None:
        self._families: dict[int, dict[int, int]] = {}
        """Revisions of all that was derived together, by each source that waits."""

    def __len__(self) -> int:
        return len(self._families)

    def add(self, sources: Iterable[int], family: Mapping[int, int]) -> None:
        """Withhold sources until another revision of their family is there."""
        self._families |= {source: dict(family) for source in sources}

    def keep(self, touched: Iterable[int]) -> None:
        """Forget what waits no longer."""
        waiting = set(touched)
        self._families = {n: f for n, f in self._families.items() if n in waiting}

    def has(self, source: int, held: Mapping[int, Held]) -> bool:
        """Whether a source would be tried once more with nothing new."""
        family = self._families.get(source)
        return family is not None and all(
            number in held and held[number].revision == revision
            for number, revision in family.items()
        )

    def told(self) -> str:
        """Return a sentence about it for whoever runs the hub, or nothing."""
        count = len(self)
        files = "1 file" if count == 1 else f"{count:,} files"
        told = (
            f"{files} could not be derived, as the engine cannot hold what is in there:"
            " kept as sent, tried again when more comes or the hub is started anew"
        )
        return told if count else ""


def derive_waiting(
    store: TeamStore, objects: Objects, withheld: Withheld | None = None
) -> int:
    """Derive what is touched now, and not what comes meanwhile.

    A session that is still arriving would be derived again with each bit of it.
    Returns how many sessions were written; what is damaged keeps nothing else back,
    nor does what the engine cannot take: that is ``withheld`` from the next times.

    :raises ArchiveDamaged: if nothing was written, as bytes are missing or others.
    """
    withheld = Withheld() if withheld is None else withheld
    people: dict[str, list[int]] = {}
    waiting = store.touched(_ALL)
    withheld.keep(one.number for one in waiting)
    for one in waiting:
        people.setdefault(one.person, []).append(one.number)
    written = 0
    failures: list[ArchiveDamaged] = []
    for person, touched in people.items():
        task = _Person(store, objects, person, withheld)
        written += task.derive(touched)
        failures += task.failures
    if failures and not written:
        raise failures[0]
    return written


class _Person:
    """Derives what a person has sent."""

    def __init__(
        self, store: TeamStore, objects: Objects, person: str, withheld: Withheld
    ) -> None:
        self._withheld = withheld
        self._store = store
        self._objects = objects
        self._person = person
        self._held = {one.number: one for one in store.held(person)}
        self._readers = Readers()
        """Other processes, which stay from one group to the next."""
        self._done: set[int] = set()
        self._laid: Iterable[int] = ()
        """What was derived together last."""
        self.failures: list[ArchiveDamaged] = []

    def derive(self, touched: Iterable[int]) -> int:
        """Derive sources with their kin; return how many sessions were written."""
        stems: dict[tuple[str, ...], set[int]] = {}
        for number in touched:
            if number in self._held and not self._withheld.has(number, self._held):
                stems.setdefault(_stem(self._held[number]), set()).add(number)
        try:
            return sum(map(self._derive, _groups(list(stems.values()), self._held)))
        finally:
            self._readers.__exit__(*sys.exc_info())

    def _derive(self, group: Sequence[set[int]]) -> int:
        """Derive a group; where something is damaged, the others one by one.

        An engine that is away is so for all: only what it says of rows is of a group.
        """
        try:
            return self._write(set().union(*group) - self._done)
        except (ArchiveDamaged, StoreError) as error:
            if isinstance(error, StoreError) and not error.is_of_row:
                raise
            self._readers.__exit__(*sys.exc_info())
            self._readers = Readers()
            if len(group) == 1:
                self._set_aside(group[0], error)
                return 0
        return sum(self._derive([one]) for one in group)

    def _set_aside(self, chosen: set[int], error: ArchiveDamaged | StoreError) -> None:
        if isinstance(error, ArchiveDamaged):
            self.failures.append(error)
            return
        family = {number: self._held[number].revision for number in self._laid}
        self._withheld.add(chosen, family)

    def _write(self, chosen: set[int]) -> int:
        if not chosen:
            return 0
        readers = self._readers
        with _Bench(self._store, self._objects, self._held, readers) as bench:
            self._laid = bench.laid
            while chosen:
                bench.lay(chosen)
                chosen = bench.related(self._person)
            sessions = bench.derived(self._person)
        sources = {number: self._held[number].revision for number in bench.laid}
        made = Derivation(person=self._person, sources=sources, sessions=sessions)
        self._store.replace(made)
        self._done |= bench.laid.keys()
        return len(sessions)


def _groups(
    stems: Sequence[set[int]], held: Mapping[int, Held]
) -> Iterator[list[set[int]]]:
    """Yield what is derived together, in the order in which it came.

    Files of one session always are. Whoever sends, sends families together: what is
    in one group need not be derived again for the next.
    """
    group: list[set[int]] = []
    weight = 0
    for numbers in stems:
        group.append(numbers)
        weight += sum(held[number].upto for number in numbers)
        if weight > _WEIGHT:
            yield group
            group, weight = [], 0
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
        self,
        store: TeamStore,
        objects: Objects,
        held: Mapping[int, Held],
        readers: Readers,
    ) -> None:
        self._store = store
        self._objects = objects
        self._held = held
        self._readers = readers
        self._words = Listening()
        self._stems: dict[tuple[str, ...], list[int]] = {}
        for number, one in held.items():
            self._stems.setdefault(_stem(one), []).append(number)
        self._report = Report(problems=[])
        self._is_named = False
        """Whether it was looked whose leaves were given titles."""
        self.laid: dict[int, int] = {}
        """The numbers of sources in the store, and here."""

    def __enter__(self) -> Self:
        self._folder = TemporaryDirectory(prefix="bygones-")
        path = Path(self._folder.name) / "archive"
        self._vault = Vault(path, write=True, words=self._words)
        self._indexer = Indexer(self._vault, self._report, self._readers)
        return self

    def __exit__(self, *failure: object) -> None:
        self._vault.close()
        self._folder.cleanup()

    def lay(self, numbers: Iterable[int]) -> None:
        """Lay sources and those beside them, and let the index see them."""
        stems = {_stem(self._held[number]) for number in numbers}
        found = {one for stem in stems for one in self._stems[stem]} - set(self.laid)
        some = sorted(
            (self._held[n] for n in found), key=lambda h: (h.sent.place, h.sent.path)
        )
        fragments = self._store.fragments([held.number for held in some])
        with self._vault.chunks.db:
            for held in some:
                self._lay(held, fragments.get(held.number))
        self._see()

    def _see(self) -> None:
        """Let the index see what was laid."""
        self._indexer.prepare(Silence())
        self._indexer.commit(last=True)
        damaged = [one for one in self._report.problems if one.kind == "damaged"]
        if damaged:
            raise ArchiveDamaged(Path(damaged[0].position.source), "its bytes")
        known = Derived(self._index)
        with self._index.db:
            known.finish_schema()
            self._indexer.reassign(known.dirty_sources())

    def _lay(self, held: Held, fragment: Fragment | None) -> None:
        chunks = self._vault.chunks
        kept = chunks.add_source(_source(held))
        at = 0
        for span, frame in _frames(self._store.spans(held.number), self._objects):
            # Whether it is what its hash says is seen when it is read.
            chunks.add_chunk(kept, at, at + span.length, (span.sha256, frame))
            at += span.length
        rest = b""
        if fragment is not None and fragment.frame and fragment.offset == at:
            rest = unpress(fragment.frame)
            chunks.set_fragment(kept, at, rest)
        size = at + len(rest)
        chunks.set_mark(replace(kept, kept=at, size=size, mtime_ns=held.sent.mtime_ns))
        self.laid[held.number] = kept.number

    def related(self, person: str) -> set[int]:
        """Return sources in the store that must be derived with what was laid.

        A session whose leaf was given a title must be so as well, but not all that
        this title stands beside: see :meth:`_borrow`.
        """
        marks = marks_of(self._index)
        if not self._is_named:
            self._is_named = True
            own = named_in(self._index, self._back)
            there = self._store.named(person, [one.leaf for one in own])
            new = {one.leaf for one in {*own}.difference(there)}
            marks = replace(marks, leaves=list(new))
        kin = self._store.kin(person, marks)
        names = set(marks.sessions)
        kin |= {n for n, one in self._held.items() if one.sent.session in names}
        return (kin & set(self._held)) - set(self.laid)

    def derived(self, person: str) -> tuple[Harvest, ...]:
        """Return what is derived, with sources by the numbers of the store."""
        self._borrow(self._store.named(person, marks_of(self._index).records))
        derive_index(self._vault, self._indexer, self._report, Silence())
        return tuple(harvested(self._index, self._words, self._back))

    def _borrow(self, named: Iterable[Named]) -> None:
        """Take over what files call our records that need not be laid for it."""
        files: dict[int, list[tuple[int, int, str, str]]] = {}
        for leaf, source, start, record, text in named:
            if source in self._held and source not in self.laid:
                files.setdefault(source, []).append((leaf, start, record, text))
        if not files:
            return
        with self._vault.chunks.db:
            kept = {number: self._stand_in(self._held[number]) for number in files}
        self._see()
        with self._index.db:
            for number, found in files.items():
                self._index.add_summaries(kept[number], found)

    def _stand_in(self, held: Held) -> int:
        """Lay a file of which only the name and the age are known."""
        source = replace(_source(held), kind=SourceKind.TOOL_RESULT, size=0)
        kept = self._vault.chunks.add_source(source)
        self._vault.chunks.set_mark(replace(kept, mtime_ns=held.sent.mtime_ns))
        return kept.number

    @property
    def _index(self) -> Index:
        index = self._vault.index
        if index is None:
            raise RuntimeError
        return index

    @property
    def _back(self) -> dict[int, int]:
        """The numbers of sources here, and in the store."""
        return {here: there for there, here in self.laid.items()}


def _source(held: Held) -> Source:
    sent = held.sent
    return Source(
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


def _frames(spans: Sequence[Span], objects: Objects) -> Iterator[tuple[Span, bytes]]:
    """Yield spans with their bytes as they are packed; small ones fetched at once."""
    for some in _weighed(spans):
        found = objects.frames([span.address for span in some])
        for span in some:
            if span.address not in found:
                raise ArchiveDamaged(Path(span.address), "it is missing")
            yield span, found[span.address]


def _weighed(spans: Iterable[Span]) -> Iterator[list[Span]]:
    """Yield spans by as many as are fetched at once."""
    some: list[Span] = []
    weight = 0
    for span in spans:
        if some and weight + span.length > _PIECE:
            yield some
            some, weight = [], 0
        some.append(span)
        weight += span.length
    if some:
        yield some


def pieces_of(spans: Iterable[Span], objects: Objects) -> Iterator[bytes]:
    """Yield the bytes of spans, each as it was sent; small ones are fetched at once."""
    for some in _weighed(spans):
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
