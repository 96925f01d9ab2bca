"""Derive sessions from uploads, with the code that fills the local index.

Whole sources are put into a temporary archive, and its index is filled as usual; what
it derives goes to the store. A source brings its relatives: the files beside it, those
of the sessions that it names, and those with which it shares records.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Lock, Thread
from time import monotonic
from typing import Self

from msgspec.structs import replace

from bygones.errors import ArchiveDamaged, StoreError
from bygones.ingest.indexer import Indexer
from bygones.ingest.indexer import derive_sessions as derive_index
from bygones.ingest.workers import WorkerPool
from bygones.model.base import SourceFile, SourceKind
from bygones.model.progress import IngestReport, NullProgress
from bygones.store.archive_dir import ArchiveDir
from bygones.store.compression import decompress, sha256_digest
from bygones.store.derived_tables import DerivedTables
from bygones.store.export_rows import (
    LeafTitle,
    RecordingTextIndex,
    SessionRows,
    export_rows,
    load_leaf_titles,
    load_relation_keys,
)
from bygones.store.index_db import IndexDB
from bygones.team.contract import (
    BlobStore,
    DerivedSessions,
    SourceFragment,
    StoredSpan,
    TeamSource,
    TeamStore,
)

_BATCH_BYTES = 64 * 1024 * 1024
"""Bytes of pending sources that are derived together; their relatives come on top."""
_MAX_PENDING = 1_000_000
_FETCH_BYTES = 4 * 1024 * 1024


def derive_all(store: TeamStore, blobs: BlobStore) -> int:
    """Derive all that is pending; return how many sessions were written."""
    written = 0
    withheld = FailedFamilies()
    while more := derive_pending(store, blobs, withheld):
        written += more
    return written


class FailedFamilies:
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

    def retain_only(self, pending: Iterable[int]) -> None:
        """Forget what waits no longer."""
        waiting = set(pending)
        self._families = {n: f for n, f in self._families.items() if n in waiting}

    def is_unchanged_failure(
        self, source: int, sources: Mapping[int, TeamSource]
    ) -> bool:
        """Whether a source would be tried once more with nothing new."""
        family = self._families.get(source)
        return family is not None and all(
            number in sources and sources[number].revision == revision
            for number, revision in family.items()
        )

    def describe(self) -> str:
        """Return a sentence about it for whoever runs the hub, or nothing."""
        count = len(self)
        files = "1 file" if count == 1 else f"{count:,} files"
        told = (
            f"{files} could not be derived, as the engine cannot hold what is in there:"
            " kept as sent, tried again when more comes or the hub is started anew"
        )
        return told if count else ""


def derive_pending(
    store: TeamStore, blobs: BlobStore, failed: FailedFamilies | None = None
) -> int:
    """Derive what is pending now, and not what comes meanwhile.

    A session that is still arriving would be derived again with each bit of it.
    Returns how many sessions were written. Damaged sources keep nothing else back, nor
    do families that the engine cannot store: these are added to ``failed`` and skipped
    the next times.

    :raises ArchiveDamaged: if nothing was written, as bytes are missing or others.
    """
    failed = FailedFamilies() if failed is None else failed
    people: dict[str, list[int]] = {}
    waiting = store.pending_sources(_MAX_PENDING)
    failed.retain_only(one.number for one in waiting)
    for one in waiting:
        people.setdefault(one.person, []).append(one.number)
    written = 0
    failures: list[ArchiveDamaged] = []
    for person, touched in people.items():
        task = _PersonDeriver(store, blobs, person, failed)
        written += task.derive(touched)
        failures += task.failures
    if failures and not written:
        raise failures[0]
    return written


class _PersonDeriver:
    """Derives what a person has sent."""

    def __init__(
        self, store: TeamStore, blobs: BlobStore, person: str, failed: FailedFamilies
    ) -> None:
        self._failed = failed
        self._store = store
        self._blobs = blobs
        self._person = person
        self._sources = {one.number: one for one in store.list_sources(person)}
        self._workers = WorkerPool()
        """Other processes, which stay from one group to the next."""
        self._done: set[int] = set()
        self._last_sources: Iterable[int] = ()
        """What was derived together last."""
        self.failures: list[ArchiveDamaged] = []

    def derive(self, pending: Iterable[int]) -> int:
        """Derive sources and their relatives; return the number of sessions written."""
        stems: dict[tuple[str, ...], set[int]] = {}
        for number in pending:
            if number in self._sources and not self._failed.is_unchanged_failure(
                number, self._sources
            ):
                stems.setdefault(_session_stem(self._sources[number]), set()).add(
                    number
                )
        try:
            return sum(
                map(
                    self._derive_group,
                    _batch_stems(list(stems.values()), self._sources),
                )
            )
        finally:
            self._workers.__exit__(*sys.exc_info())

    def _derive_group(self, group: Sequence[set[int]]) -> int:
        """Derive a group; where something is damaged, the others one by one.

        An engine that is away is so for all: only what it says of rows is of a group.
        """
        try:
            return self._derive_and_store(set().union(*group) - self._done)
        except (ArchiveDamaged, StoreError) as error:
            if isinstance(error, StoreError) and not error.is_permanent:
                raise
            self._workers.__exit__(*sys.exc_info())
            self._workers = WorkerPool()
            if len(group) == 1:
                self._record_failure(group[0], error)
                return 0
        return sum(self._derive_group([one]) for one in group)

    def _record_failure(
        self, chosen: set[int], error: ArchiveDamaged | StoreError
    ) -> None:
        if isinstance(error, ArchiveDamaged):
            self.failures.append(error)
            return
        family = {
            number: self._sources[number].revision for number in self._last_sources
        }
        self._failed.add(chosen, family)

    def _derive_and_store(self, chosen: set[int]) -> int:
        if not chosen:
            return 0
        readers = self._workers
        with _ScratchIndex(self._store, self._blobs, self._sources, readers) as bench:
            self._last_sources = bench.added
            while chosen:
                bench.add_sources(chosen)
                chosen = bench.related_sources(self._person)
            sessions = bench.derive_sessions(self._person)
        sources = {number: self._sources[number].revision for number in bench.added}
        made = DerivedSessions(person=self._person, sources=sources, sessions=sessions)
        self._store.replace_sessions(made)
        self._done |= bench.added.keys()
        return len(sessions)


def _batch_stems(
    stems: Sequence[set[int]], sources: Mapping[int, TeamSource]
) -> Iterator[list[set[int]]]:
    """Yield what is derived together, in the order in which it came.

    Files of one session always are. Whoever sends, sends families together: what is
    in one group need not be derived again for the next.
    """
    group: list[set[int]] = []
    weight = 0
    for numbers in stems:
        group.append(numbers)
        weight += sum(sources[number].stored_bytes for number in numbers)
        if weight > _BATCH_BYTES:
            yield group
            group, weight = [], 0
    if group:
        yield group


def _session_stem(source: TeamSource) -> tuple[str, ...]:
    """Return what the files of one session have in common: its file without ending."""
    sent = source.source
    head = sent.path.split("/", 3)[:3]
    return (sent.machine, sent.home, "/".join(head).removesuffix(".jsonl"))


class _ScratchIndex:
    """An archive of the moment, in which sources are laid and derived."""

    def __init__(
        self,
        store: TeamStore,
        blobs: BlobStore,
        sources: Mapping[int, TeamSource],
        workers: WorkerPool,
    ) -> None:
        self._store = store
        self._blobs = blobs
        self._sources = sources
        self._workers = workers
        self._text_index = RecordingTextIndex()
        self._numbers_by_stem: dict[tuple[str, ...], list[int]] = {}
        for number, one in sources.items():
            self._numbers_by_stem.setdefault(_session_stem(one), []).append(number)
        self._report = IngestReport(problems=[])
        self._has_checked_titles = False
        """Whether it was looked whose leaves were given titles."""
        self.added: dict[int, int] = {}
        """The numbers of sources in the store, and here."""

    def __enter__(self) -> Self:
        self._folder = TemporaryDirectory(prefix="bygones-")
        path = Path(self._folder.name) / "archive"
        self._vault = ArchiveDir(path, write=True, text_index=self._text_index)
        self._indexer = Indexer(self._vault, self._report, self._workers)
        return self

    def __exit__(self, *failure: object) -> None:
        self._vault.close()
        self._folder.cleanup()

    def add_sources(self, numbers: Iterable[int]) -> None:
        """Lay sources and those beside them, and let the index see them."""
        stems = {_session_stem(self._sources[number]) for number in numbers}
        found = {one for stem in stems for one in self._numbers_by_stem[stem]} - set(
            self.added
        )
        some = sorted(
            (self._sources[n] for n in found),
            key=lambda h: (h.source.machine_home, h.source.path),
        )
        fragments = self._store.fragments([held.number for held in some])
        with self._vault.byte_store.db:
            for held in some:
                self._add_source(held, fragments.get(held.number))
        self._index_added()

    def _index_added(self) -> None:
        """Let the index see what was laid."""
        self._indexer.prepare(NullProgress())
        self._indexer.commit(is_last=True)
        damaged = [one for one in self._report.problems if one.kind == "damaged"]
        if damaged:
            raise ArchiveDamaged(Path(damaged[0].position.source_id), "its bytes")
        known = DerivedTables(self._index)
        with self._index.db:
            known.create_deferred_indexes()
            self._indexer.reassign_sources(known.dirty_sources())

    def _add_source(self, source: TeamSource, fragment: SourceFragment | None) -> None:
        chunks = self._vault.byte_store
        kept = chunks.add_source(_to_source(source))
        at = 0
        for span, frame in _load_frames(self._store.spans(source.number), self._blobs):
            # Whether it is what its hash says is seen when it is read.
            chunks.add_chunk(kept, at, at + span.length, (span.sha256, frame))
            at += span.length
        rest = b""
        if fragment is not None and fragment.frame and fragment.offset == at:
            rest = decompress(fragment.frame)
            chunks.set_fragment(kept, at, rest)
        size = at + len(rest)
        chunks.save_read_state(
            replace(kept, stored_bytes=at, size=size, mtime_ns=source.source.mtime_ns)
        )
        self.added[source.number] = kept.number

    def related_sources(self, person: str) -> set[int]:
        """Return sources in the store that must be derived with what was laid.

        A session whose leaf was given a title must be so as well, but not all that
        this title stands beside: see :meth:`_add_borrowed_titles`.
        """
        marks = load_relation_keys(self._index)
        if not self._has_checked_titles:
            self._has_checked_titles = True
            own = load_leaf_titles(self._index, self._store_numbers)
            there = self._store.record_titles(person, [one.leaf for one in own])
            new = {one.leaf for one in {*own}.difference(there)}
            marks = replace(marks, leaves=list(new))
        kin = self._store.related_sources(person, marks)
        names = set(marks.sessions)
        kin |= {n for n, one in self._sources.items() if one.source.session in names}
        return (kin & set(self._sources)) - set(self.added)

    def derive_sessions(self, person: str) -> tuple[SessionRows, ...]:
        """Return what is derived, with sources by the numbers of the store."""
        self._add_borrowed_titles(
            self._store.record_titles(person, load_relation_keys(self._index).records)
        )
        derive_index(self._vault, self._indexer, self._report, NullProgress())
        return tuple(export_rows(self._index, self._text_index, self._store_numbers))

    def _add_borrowed_titles(self, titles: Iterable[LeafTitle]) -> None:
        """Take over what files call our records that need not be laid for it."""
        files: dict[int, list[tuple[int, int, str, str]]] = {}
        for leaf, source, start, record, text in titles:
            if source in self._sources and source not in self.added:
                files.setdefault(source, []).append((leaf, start, record, text))
        if not files:
            return
        with self._vault.byte_store.db:
            kept = {
                number: self._add_placeholder(self._sources[number]) for number in files
            }
        self._index_added()
        with self._index.db:
            for number, found in files.items():
                self._index.add_leaf_titles(kept[number], found)

    def _add_placeholder(self, team_source: TeamSource) -> int:
        """Lay a file of which only the name and the age are known."""
        source = replace(_to_source(team_source), kind=SourceKind.TOOL_RESULT, size=0)
        kept = self._vault.byte_store.add_source(source)
        self._vault.byte_store.save_read_state(
            replace(kept, mtime_ns=team_source.source.mtime_ns)
        )
        return kept.number

    @property
    def _index(self) -> IndexDB:
        index = self._vault.index
        if index is None:
            raise RuntimeError
        return index

    @property
    def _store_numbers(self) -> dict[int, int]:
        """The numbers of sources here, and in the store."""
        return {here: there for there, here in self.added.items()}


def _to_source(team_source: TeamSource) -> SourceFile:
    sent = team_source.source
    return SourceFile(
        id=sent.id,
        home=sent.machine_home,
        relative_path=sent.path,
        kind=sent.kind,
        size=team_source.stored_bytes,
        mtime_ns=sent.mtime_ns,
        project_key=sent.project,
        session_id=sent.session,
        agent_id=sent.agent,
    )


def _load_frames(
    spans: Sequence[StoredSpan], blobs: BlobStore
) -> Iterator[tuple[StoredSpan, bytes]]:
    """Yield spans with their bytes as they are packed; small ones fetched at once."""
    for some in _batch_by_size(spans):
        found = blobs.get_frames([span.address for span in some])
        for span in some:
            if span.address not in found:
                raise ArchiveDamaged(Path(span.address), "it is missing")
            yield span, found[span.address]


def _batch_by_size(spans: Iterable[StoredSpan]) -> Iterator[list[StoredSpan]]:
    """Yield spans by as many as are fetched at once."""
    some: list[StoredSpan] = []
    weight = 0
    for span in spans:
        if some and weight + span.length > _FETCH_BYTES:
            yield some
            some, weight = [], 0
        some.append(span)
        weight += span.length
    if some:
        yield some


def read_spans(spans: Iterable[StoredSpan], blobs: BlobStore) -> Iterator[bytes]:
    """Yield the bytes of spans, each as it was sent; small ones are fetched at once."""
    for some in _batch_by_size(spans):
        yield from _fetch_spans(some, blobs)


def _fetch_spans(spans: Sequence[StoredSpan], blobs: BlobStore) -> Iterator[bytes]:
    found = blobs.get_many([span.address for span in spans]) if len(spans) > 1 else {}
    for span in spans:
        raw = found.get(span.address)
        if raw is None:
            raw = blobs.get(span.address)
        if sha256_digest(raw) != span.sha256:
            raise ArchiveDamaged(Path(span.address), "it has another hash")
        yield raw


_POLL_INTERVAL = 5.0
"""Seconds after which the thread looks though nobody woke it: others take in too."""
_RETRY_DELAY = 1.0
"""Seconds after which what failed is tried again."""
_JOIN_TIMEOUT = 30.0
_QUIET_PERIOD = 0.3
"""Seconds without anything new after which what has come is derived, at least."""
_SENDER_TIMEOUT = 15.0
"""Seconds after which a sender that said more would come is not waited for."""
_MAX_WAIT = 60.0
"""Seconds that something waits at most while more comes."""


class IndexWorker:
    """Calls ``derive`` until nothing is left, whenever it is woken and now and then.

    ``derive`` returns whether it wrote something; then ``on_indexed`` is called. What
    fails is tried again later: a source stays pending until it is derived.
    ``describe_failures`` returns what was set aside meanwhile, and ``on_warning`` is
    called once for each problem.

    A session is derived whole, with all it shares records with. So nothing is derived
    while a sender says that more is on its way, for a minute at most; and while others
    keep sending it rests as long as the last derivation took.
    """

    def __init__(
        self,
        derive: Callable[[], bool],
        on_indexed: Callable[[], None],
        *,
        describe_failures: Callable[[], str] = str,
        on_warning: Callable[[str], None] = lambda _sentence: None,
    ) -> None:
        self._derive = derive
        self._on_indexed = on_indexed
        self._describe_failures = describe_failures
        self._on_warning = on_warning
        self._wake_event = Event()
        self._stop_event = Event()
        self._lock = Lock()
        self._sender_deadlines: dict[str, float] = {}
        """Senders that have more, and until when that is believed."""
        self._thread = Thread(target=self._run, name="derive", daemon=True)
        self._rest_period = _QUIET_PERIOD
        self.last_error = ""
        """Why the last attempt came to nothing."""
        self.warning = ""
        """What whoever runs the hub is to know, without a word of what was sent."""

    def start(self) -> None:
        """Begin, with whatever was left undone."""
        self._wake_event.set()
        self._thread.start()

    def notify(self, sender: str = "", *, has_more: bool = False) -> None:
        """Go on soon: something has come, and more is on its way, if it says so."""
        with self._lock:
            self._sender_deadlines.pop(sender, None)
            if has_more:
                self._sender_deadlines[sender] = monotonic() + _SENDER_TIMEOUT
        self._wake_event.set()

    def stop(self) -> None:
        """Stop, and wait for what is being done."""
        self._stop_event.set()
        self._wake_event.set()
        self._thread.join(_JOIN_TIMEOUT)

    def _expects_more(self) -> bool:
        with self._lock:
            return max(self._sender_deadlines.values(), default=0.0) > monotonic()

    def _wait_until_quiet(self) -> None:
        """Wait until all have sent what they have, or for long enough."""
        begun = monotonic()
        quiet = max(_QUIET_PERIOD, self._rest_period / 2)
        while self._wake_event.is_set() and not self._stop_event.is_set():
            self._wake_event.clear()
            while not self._wake_event.wait(quiet):
                if not self._expects_more() or monotonic() - begun >= _MAX_WAIT:
                    return
            left = _MAX_WAIT if self._expects_more() else self._rest_period
            if monotonic() - begun >= left:
                return

    def _set_warning(self, warning: str) -> None:
        """Say what is wrong, once, until something else is."""
        if warning and warning != self.warning:
            self._on_warning(warning)
        self.warning = warning

    def _run(self) -> None:
        while not self._stop_event.is_set():
            self._wake_event.wait(_POLL_INTERVAL)
            self._wait_until_quiet()
            begun = monotonic()
            try:
                while not self._stop_event.is_set() and self._derive():
                    self._on_indexed()
                    if self._expects_more():
                        break
                self.last_error = ""
                self._rest_period = min(
                    max(monotonic() - begun, _QUIET_PERIOD), _MAX_WAIT
                )
                self._set_warning(self._describe_failures())
            except Exception as error:  # noqa: BLE001 (one bad source must not stop all)
                self.last_error = f"{type(error).__name__}: {error}"
                self._set_warning(
                    f"deriving failed ({type(error).__name__}), it is tried on"
                )
                self._stop_event.wait(_RETRY_DELAY)
                self._wake_event.set()
