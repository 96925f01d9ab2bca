"""Derive sessions from uploads, with the code that fills the local index.

Whole sources are put into a temporary archive, and its index is filled as usual; what
it derives goes to the store. A source brings its relatives: the files beside it, those
of the sessions that it names, and those with which it shares records.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from threading import Event, Lock, Thread
from time import monotonic

from bygones.errors import ArchiveDamaged, StoreError
from bygones.ingest.workers import WorkerPool
from bygones.team.contract import BlobStore, DerivedSessions, TeamSource
from bygones.team.derive import SessionDeriver, session_stem
from bygones.team.stores.base import TeamStore

_BATCH_BYTES = 64 * 1024 * 1024
"""Bytes of pending sources that are derived together; their relatives come on top."""
_MAX_PENDING = 1_000_000


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
                stems.setdefault(session_stem(self._sources[number]), set()).add(number)
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
        deriver = SessionDeriver(
            self._store,
            self._blobs,
            self._person,
            sources=self._sources,
            workers=self._workers,
        )
        self._last_sources = deriver.added
        while chosen:
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
