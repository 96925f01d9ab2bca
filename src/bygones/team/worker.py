"""Derive pending sources, and the thread of the hub that does so.

A source is derived together with its relatives: the other files of its session, those
of sessions that it names, and those with which it shares records. Of a long session that
has only grown the end is derived (see `team.growing`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from threading import Event, Lock, Thread
from time import monotonic

from msgspec import Struct
from msgspec.structs import replace

from bygones.errors import ArchiveDamaged, StoreError
from bygones.ingest.workers import WorkerPool
from bygones.model.base import SessionId
from bygones.team.contract import (
    REBUILD_NOTE,
    BlobStore,
    DerivedSessions,
    TeamSource,
)
from bygones.team.derive import SessionDeriver, source_stem
from bygones.team.growing import HubFiles, derive_in_parts, grow_session
from bygones.team.stores.base import TeamStore

_BATCH_BYTES = 16 * 1024 * 1024
"""Bytes of pending sources that are derived together, without their relatives."""
_SOURCE_OVERHEAD = 16 * 1024
"""What a source takes besides its bytes, in bytes that take as long."""
MAX_QUICK_BYTES = 32 * 1024 * 1024
"""Bytes of sessions, with their relatives, that do not delay those of other people."""
_MAX_PENDING = 1_000_000
GroupCallback = Callable[[str, list[dict[int, int]]], None]
"""Receives a person, and the sources of each session of a group with their revisions."""


def derive_all(store: TeamStore, blobs: BlobStore) -> int:
    """Derive everything that is pending; return the number of sessions written."""
    written = 0
    failed = FailedFamilies()
    while count := derive_pending(store, blobs, failed):
        written += count
    return written


class FailedFamilies:
    """Sources that can't be derived or stored, with their families.

    They stay pending, but are tried again only if a source of the family has changed,
    or by a hub that was started again.
    """

    def __init__(self) -> None:
        self._families: dict[int, dict[int, int]] = {}
        """By source: the revisions of all sources that it was derived with."""

    def __len__(self) -> int:
        return len(self._families)

    @property
    def families(self) -> dict[int, dict[int, int]]:
        """The revisions of all sources that a source was derived with, by source."""
        return self._families

    def replace(self, families: dict[int, dict[int, int]]) -> None:
        self._families = families

    def add(self, sources: Iterable[int], family: Mapping[int, int]) -> None:
        """Skip sources until a source of their family has another revision."""
        self._families |= {source: dict(family) for source in sources}

    def retain_only(self, pending: Iterable[int]) -> None:
        """Forget sources that are no longer pending."""
        wanted = set(pending)
        self._families = {n: f for n, f in self._families.items() if n in wanted}

    def is_unchanged_failure(
        self, source: int, sources: Mapping[int, TeamSource]
    ) -> bool:
        """Whether a source failed, and nothing of its family has changed since."""
        family = self._families.get(source)
        return family is not None and all(
            number in sources and sources[number].revision == revision
            for number, revision in family.items()
        )

    def describe(self) -> str:
        """Return a warning for the administrator of the hub, or nothing."""
        if not self._families:
            return ""
        count = len(self)
        files = "1 file" if count == 1 else f"{count:,} files"
        return (
            f"{files} could not be indexed: the database cannot store the contents, or"
            " deriving them takes too much memory or time; uploads are kept, and are"
            " tried again when they change or when the hub restarts"
        )


class DeriveSelection(Struct, frozen=True, kw_only=True):
    """Which of the pending sources are derived, and how."""

    alone: frozenset[int] = frozenset()
    """Sources that are not derived together with others."""
    skipped_people: frozenset[str] = frozenset()
    """People who are sending more, or whose sessions another process derives."""
    max_bytes: int | None = None
    """Sessions with more bytes are added to those that failed."""
    given_up: frozenset[int] = frozenset()
    """Of these sources, those that failed again without a limit of bytes, or are damaged."""
    only: FailedFamilies | None = None
    """If given, the only sources that are derived."""

    def leaves_nothing(
        self, people: Mapping[str, Iterable[int]], damaged: AbstractSet[int]
    ) -> bool:
        """Whether all else is derived if only these sources of people are pending."""
        if self.only is not None:
            return False
        if self.max_bytes is None:
            return self.skipped_people.isdisjoint(people)
        return all(map((self.given_up | damaged).issuperset, people.values()))


def derive_pending(  # noqa: PLR0913 (most by name)
    store: TeamStore,
    blobs: BlobStore,
    failed: FailedFamilies | None = None,
    *,
    selection: DeriveSelection = DeriveSelection(),  # noqa: B008 (immutable)
    on_group: GroupCallback = lambda _person, _sessions: None,
    damaged: set[int] | None = None,
) -> int:
    """Derive what is pending now; return the number of sessions written.

    People take turns: while sessions of several people are pending, one group of each
    is derived, and the rest waits for the next call.

    What is uploaded meanwhile waits, too: otherwise a session that is still being
    uploaded would be derived again and again. Damaged sources don't keep others from
    being derived. Nor do families that the database can't store: they are added to
    ``failed``, and skipped from then on. ``on_group`` receives what is derived next, and
    ``damaged`` the sources whose bytes are missing or differ.

    :raises ArchiveDamaged: if nothing was written because bytes are missing or differ.
    """
    failed = FailedFamilies() if failed is None else failed
    damaged = set() if damaged is None else damaged
    people = _pending_by_person(store)
    failed.retain_only(number for numbers in people.values() for number in numbers)
    written = 0
    failures: list[ArchiveDamaged] = []
    suspects = selection.alone | failed.families.keys()
    # Others first: those of one person may take as long as is allowed, each.
    for person, numbers in sorted(
        people.items(), key=lambda one: (not suspects.isdisjoint(one[1]), len(one[1]))
    ):
        if person in selection.skipped_people:
            continue
        deriver = _PersonDeriver(store, blobs, person, failed)
        deriver.selection, deriver.on_group = selection, on_group
        written += deriver.derive(numbers)
        failures += deriver.failures
        damaged |= deriver.damaged
    is_complete = not written and selection.leaves_nothing(people, damaged)
    if is_complete and store.get_note(*REBUILD_NOTE) is not None:
        store.set_note(*REBUILD_NOTE, None)
    if failures and not written:
        raise failures[0]
    return written


def _pending_by_person(store: TeamStore) -> dict[str, list[int]]:
    people: dict[str, list[int]] = {}
    for source in store.pending_sources(_MAX_PENDING):
        people.setdefault(source.person, []).append(source.number)
    return people


class _TooManyBytes(Exception):
    """Sessions have more bytes than may be derived at once."""


class _PersonDeriver:
    """Derives the pending sources of one person, in batches."""

    def __init__(
        self, store: TeamStore, blobs: BlobStore, person: str, failed: FailedFamilies
    ) -> None:
        self._failed = failed
        self._store = store
        self._blobs = blobs
        self._person = person
        self._sources = {one.number: one for one in store.list_sources(person)}
        self._stems: dict[tuple[str, ...], set[int]] = {}
        self._numbers_by_session: dict[SessionId | None, set[int]] = {}
        for number, source in self._sources.items():
            self._stems.setdefault(source_stem(source), set()).add(number)
            name = source.source.session
            self._numbers_by_session.setdefault(name, set()).add(number)
        self._workers = WorkerPool()
        """Reused for all batches."""
        self._done: set[int] = set()
        self._last_sources: Iterable[int] = ()
        """The sources of the last batch, with their relatives."""
        self.failures: list[ArchiveDamaged] = []
        self.damaged: set[int] = set()
        """The sources of these failures."""
        self.selection = DeriveSelection()
        self.on_group: GroupCallback = lambda _person, _sessions: None

    def derive(self, pending: Iterable[int]) -> int:
        """Derive sources and their relatives; return the number of sessions written.

        Only a group of them, if sources of other people are pending then.
        """
        stems: dict[tuple[str, ...], set[int]] = {}
        for number in self._selected(pending):
            stems.setdefault(source_stem(self._sources[number]), set()).add(number)
        written = 0
        try:
            for group in _batch_stems(
                list(stems.values()), self._sources, self.selection.alone
            ):
                written += self._derive_group(group)
                if written and _pending_by_person(self._store).keys() - {self._person}:
                    break
        finally:
            self._workers.__exit__(*sys.exc_info())
        return written

    def _selected(self, pending: Iterable[int]) -> list[int]:
        """Return the sources to derive; none while larger ones are derived elsewhere."""
        numbers: list[int] = []
        only = self.selection.only
        for number in pending:
            if number not in self._sources:
                continue
            if self._failed.is_unchanged_failure(number, self._sources):
                is_left = self.selection.max_bytes is not None
                if is_left and number not in self.selection.given_up:
                    return []
            elif only is None or only.is_unchanged_failure(number, self._sources):
                numbers.append(number)
        return numbers

    def _derive_group(self, group: Sequence[set[int]]) -> int:
        """Derive a group; if that fails, each of its sessions alone.

        Only damage and errors about rows are specific to a group: if the database is
        unavailable, the error is raised.
        """
        self.on_group(
            self._person,
            [
                {number: self._sources[number].revision for number in numbers}
                for numbers in group
            ],
        )
        self._last_sources = set().union(*group)
        written = 0
        try:
            for numbers in group:
                if numbers.isdisjoint(self._done) and self._derive_in_parts(numbers):
                    written += 1
            return written + self._derive_and_store(set().union(*group) - self._done)
        except (
            ArchiveDamaged,
            StoreError,
            MemoryError,
            RecursionError,
            _TooManyBytes,
        ) as error:
            if isinstance(error, StoreError) and not error.is_permanent:
                raise
            self._workers.__exit__(*sys.exc_info())
            self._workers = WorkerPool()
            if len(group) == 1:
                self._record_failure(group[0], error)
                return 0
        return sum(self._derive_group([numbers]) for numbers in group)

    def _derive_in_parts(self, numbers: set[int]) -> bool:
        """Derive the end of a session that has grown, or a very long one in parts."""
        stem = source_stem(self._sources[next(iter(numbers))])
        own = {number: self._sources[number] for number in self._stems[stem]}
        names = {one.source.session for one in own.values()} - {None}
        files = HubFiles(
            self._store,
            self._blobs,
            self._person,
            own,
            is_complete=len(names) == 1
            and all(self._numbers_by_session[name] <= own.keys() for name in names),
        )
        group = [{number: own[number].revision for number in numbers}]
        limit = self.selection.max_bytes
        if not grow_session(files, limit) and (
            limit is not None
            or not derive_in_parts(files, lambda: self.on_group(self._person, group))
        ):
            return False
        self._done |= own.keys()
        return True

    def _check_size(self, chosen: Iterable[int]) -> None:
        """Raise if sources have too many bytes, with all files of their sessions."""
        limit = self.selection.max_bytes
        if limit is None:
            return
        stems = {source_stem(self._sources[number]) for number in chosen}
        numbers = set().union(*(self._stems[stem] for stem in stems))
        if sum(self._sources[number].stored_bytes for number in numbers) > limit:
            self._last_sources = numbers
            raise _TooManyBytes

    def _record_failure(self, chosen: set[int], error: Exception) -> None:
        if isinstance(error, ArchiveDamaged):
            self.failures.append(error)
            self.damaged |= chosen
            return
        family = {
            number: self._sources[number].revision for number in self._last_sources
        }
        self._failed.add(chosen, family)

    def _derive_and_store(self, chosen: set[int]) -> int:
        if not chosen:
            return 0
        deriver = SessionDeriver(
            self._store,
            self._blobs,
            self._person,
            sources=self._sources,
            workers=self._workers,
        )
        self._last_sources = deriver.added
        while chosen:
            self._check_size(chosen | deriver.added.keys())
            deriver.add_sources(chosen)
            chosen = deriver.related_sources()
        sessions = deriver.derive_sessions()
        sources = {number: self._sources[number].revision for number in deriver.added}
        self._store.replace_sessions(
            DerivedSessions(person=self._person, sources=sources, sessions=sessions)
        )
        self._done |= deriver.added.keys()
        return len(sessions)


def _batch_stems(
    stems: Sequence[set[int]],
    sources: Mapping[int, TeamSource],
    alone: frozenset[int] = frozenset(),
) -> Iterator[list[set[int]]]:
    """Yield groups of sessions that are derived together, in the order of upload.

    Clients upload families together, so most relatives are in the same group.
    """
    group: list[set[int]] = []
    weight = 0
    for numbers in stems:
        if not alone.isdisjoint(numbers):
            yield [numbers]
            continue
        added = sum(sources[number].stored_bytes for number in numbers)
        added += _SOURCE_OVERHEAD * len(numbers)
        if group and weight + added > _BATCH_BYTES:
            yield group
            group, weight = [], 0
        group.append(numbers)
        weight += added
    if group:
        yield group


_POLL_INTERVAL = 5.0
"""Seconds between checks without a notification: other hubs receive uploads too."""
_RETRY_DELAY = 1.0
"""Seconds before the next attempt after a failure."""
_JOIN_TIMEOUT = 30.0
_QUIET_PERIOD = 0.3
"""Seconds without an upload before sources are derived."""
_MAX_REST = 3.0
"""Seconds to wait for that at most."""
_SENDER_TIMEOUT = 15.0
"""Seconds to wait for a sender that announced more."""
_MAX_WAIT = 60.0
"""Seconds that a source waits at most while its person uploads more."""
Derive = Callable[[frozenset[str]], bool]
"""Derives what is pending, without that of some people; returns whether there was any."""


class _Sender(Struct, frozen=True):
    """A machine of a person that announced more."""

    since: float
    deadline: float


class IndexWorker:
    """A thread that derives uploads: when it is notified, and every few seconds.

    It calls ``derive`` until nothing is left. ``derive`` returns whether it wrote
    something; then ``on_indexed`` is called. If it fails, it is called again later: a
    source stays pending until it is derived. ``describe_failures`` returns a warning
    about sources that were skipped; ``on_warning`` is called once for each warning.

    A new session is derived as a whole, with everything that it shares records with.
    So sources of a person who announced more wait, for a minute at most; those of others
    do not. ``follower`` derives what takes long, in a thread of its own. What is being
    derived when the worker stops is ended by ``stop_deriving``: it stays pending.
    """

    def __init__(  # noqa: PLR0913 (most by name)
        self,
        derive: Derive,
        on_indexed: Callable[[], None],
        *,
        describe_failures: Callable[[], str] = str,
        on_warning: Callable[[str], None] = lambda _warning: None,
        follower: IndexWorker | None = None,
        stop_deriving: Callable[[], None] = lambda: None,
    ) -> None:
        self._derive = derive
        self._on_indexed = on_indexed
        self._describe_failures = describe_failures
        self._on_warning = on_warning
        self._follower = follower
        self._stop_deriving = stop_deriving
        self._wake_event = Event()
        self._stop_event = Event()
        self._lock = Lock()
        self._senders: dict[tuple[str, str], _Sender] = {}
        """By person and machine."""
        self._thread = Thread(target=self._run, name="derive", daemon=True)
        self._rest_period = _QUIET_PERIOD
        self._last_error = ""
        self._warning = ""

    def as_follower_of(self, derive: Derive) -> IndexWorker:
        """Return a worker that starts and stops this one, too."""
        return IndexWorker(
            derive,
            self._on_indexed,
            on_warning=self._on_warning,
            follower=self,
            stop_deriving=self._stop_deriving,
        )

    @property
    def last_error(self) -> str:
        """Why the last attempt failed."""
        return self._last_error or (self._follower.last_error if self._follower else "")

    @property
    def warning(self) -> str:
        """The current warning for the administrator; it quotes nothing uploaded."""
        return self._warning or (self._follower.warning if self._follower else "")

    def start(self) -> None:
        """Start the thread, with whatever is pending."""
        self._wake_event.set()
        self._thread.start()
        if self._follower is not None:
            self._follower.start()

    def notify(
        self, person: str = "", machine: str = "", *, has_more: bool = False
    ) -> None:
        """Derive soon: a person has uploaded something, and may have announced more."""
        with self._lock:
            known = self._senders.pop((person, machine), None)
            if has_more:
                now = monotonic()
                since = known.since if known else now
                self._senders[person, machine] = _Sender(since, now + _SENDER_TIMEOUT)
        if not has_more:
            self._wake_event.set()
        if self._follower is not None:
            self._follower.notify(person, machine, has_more=has_more)

    def stop(self) -> None:
        """Stop the thread, and that of the follower."""
        workers = [self] if self._follower is None else [self, self._follower]
        for worker in workers:
            worker._stop_event.set()  # noqa: SLF001 (of the same class)
            worker._wake_event.set()  # noqa: SLF001
        self._stop_deriving()
        for worker in workers:
            worker._thread.join(_JOIN_TIMEOUT)  # noqa: SLF001

    def _people_sending(self) -> frozenset[str]:
        """Return the people whose sources wait, because they announced more."""
        now = monotonic()
        people: set[str] = set()
        with self._lock:
            for key, sender in list(self._senders.items()):
                if sender.deadline <= now:
                    del self._senders[key]
                elif now - sender.since < _MAX_WAIT:
                    people.add(key[0])
                else:
                    self._senders[key] = replace(sender, since=now)
        return frozenset(people)

    def _wait_until_quiet(self) -> None:
        """Wait until no uploads come in, but not too long."""
        started = monotonic()
        quiet = max(_QUIET_PERIOD, self._rest_period / 2)
        while self._wake_event.is_set() and not self._stop_event.is_set():
            self._wake_event.clear()
            if not self._wake_event.wait(quiet):
                return
            if monotonic() - started >= self._rest_period:
                return

    def _set_warning(self, warning: str) -> None:
        """Report a warning, unless it is the same as before."""
        if warning and warning != self._warning:
            self._on_warning(warning)
        self._warning = warning

    def _run(self) -> None:
        while not self._stop_event.is_set():
            self._wake_event.wait(_POLL_INTERVAL)
            self._wait_until_quiet()
            started = monotonic()
            try:
                while not self._stop_event.is_set() and self._derive(
                    self._people_sending()
                ):
                    self._on_indexed()
                self._last_error = ""
                self._rest_period = min(
                    max(monotonic() - started, _QUIET_PERIOD), _MAX_REST
                )
                self._set_warning(self._describe_failures())
            except Exception as error:  # noqa: BLE001 (one bad source must not stop all)
                if self._stop_event.is_set():
                    return
                self._last_error = f"{type(error).__name__}: {error}"
                self._set_warning(f"indexing failed ({type(error).__name__}); retrying")
                self._stop_event.wait(_RETRY_DELAY)
                self._wake_event.set()
            if self._follower is not None:
                self._follower.notify()
