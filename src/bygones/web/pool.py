"""A pool of open archives, open sessions and cached results.

Values from an archive load their text later, through the connection that they came
from. Therefore an archive, and each session from it, is used by one thread at a time.
"""

from __future__ import annotations

import gc
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import force_setattr

from bygones.archive import Archive
from bygones.maintenance.index_repair import rebuild_damaged_index
from bygones.model.base import SessionId
from bygones.model.conversations import Conversation
from bygones.model.sessions import Session
from bygones.model.summary import SessionSummary
from bygones.runtime import trim_heap

T = TypeVar("T")
_GcPause = Callable[[], AbstractContextManager[None]]

_MAX_AGE = 20.0
"""Seconds after which an archive is refreshed even if no change was reported."""
_MAX_CACHED_RESULTS = 200
_PAGE_CACHE_BYTES = 48 * 1024 * 1024
_MAX_IDLE = 4
"""Idle archives that stay open; a limit for each of the two free lists."""
_MAX_OPEN_SESSIONS = 24
_MAX_OPEN_MESSAGES = 40_000
"""Messages of all open sessions together, at two or three kilobytes each.

One session stays open whatever its size.
"""
_TRIM_INTERVAL = 64
"""Number of leases after which free memory is returned to the system."""
_GC_INTERVAL = 16
"""Number of loaded sessions after which frozen objects are collected, too."""


_SHARED_FIELDS = (
    "project",
    "project_keys",
    "models",
    "versions",
    "git_branches",
    "entrypoints",
    "tags",
    "lineage",
    "flags",
    "note",
    "person",
)
"""Fields of `SessionSummary` whose values many sessions have in common."""


def load_summaries(archive: Archive) -> tuple[SessionSummary, ...]:
    """Return the summaries of all sessions, newest first.

    Equal values are shared between summaries, which halves the memory they take.
    """
    shared: dict[object, object] = {}
    summaries = []
    for summary in archive.sessions(include_empty=True):
        for name in _SHARED_FIELDS:
            value = getattr(summary, name)
            force_setattr(summary, name, shared.setdefault(value, value))
        summaries.append(summary)
    return tuple(summaries)


class _CacheEntry(NamedTuple):
    data_version: int
    created_at: float
    value: Any

    def is_stale(self, data_version: int) -> bool:
        return (
            self.data_version < data_version or monotonic() - self.created_at > _MAX_AGE
        )


class _Lease:
    """An open archive, and the version of the data that it has seen."""

    def __init__(
        self, archive: Archive, data_version: int, free_list: list[_Lease]
    ) -> None:
        self.archive = archive
        self.data_version = data_version
        self.free_list = free_list
        self.refreshed_at = monotonic()


class OpenSession:
    """A session that stays open, with the archive that loads its text."""

    def __init__(
        self, summary: SessionSummary, lease: _Lease, gc_paused: _GcPause
    ) -> None:
        self.summary = summary
        self.archive = lease.archive
        self.lease = lease
        self.lock = Lock()
        self.is_released = False
        """Whether other requests use its archive now."""
        self.cache: dict[str, object] = {}
        """Values computed from it, by name."""
        self._gc_paused = gc_paused
        self._conversation: Conversation | None = None

    @property
    def session(self) -> Session:
        """The whole session, assembled on first use."""
        conversation = self.conversation()
        if conversation.is_assembled:
            return conversation.load_session()
        with self._gc_paused():
            return conversation.load_session()

    def conversation(self, agent: str = "") -> Conversation:
        """Return it, or one of its agent runs, to be read in windows."""
        if self._conversation is None:
            self._conversation = self.archive.conversation(self.summary.id)
        if not agent:
            return self._conversation
        with self._gc_paused():
            return self._conversation.agent(agent)

    def release(self) -> None:
        """Drop everything that was loaded.

        The cached values refer to this object, so the cycle has to be broken.
        """
        self.is_released = True
        self.cache.clear()
        self._conversation = None

    @property
    def loaded_messages(self) -> int:
        """How many messages it holds in memory."""
        is_loaded = self._conversation is not None and self._conversation.is_assembled
        return self.summary.message_count if is_loaded else 0


class ArchivePool:
    """Gives out archives of a folder, or from `open_archive`, to one thread each."""

    def __init__(
        self,
        folder: Path | None,
        open_archive: Callable[[], Archive] | None = None,
        *,
        max_idle: int = _MAX_IDLE,
        max_open_sessions: int = _MAX_OPEN_SESSIONS,
    ) -> None:
        self.folder = folder
        self._max_idle = max_idle
        self._max_open_sessions = max_open_sessions
        self._search_stats = Archive.shared_stats(folder or Path())
        self._open_archive = open_archive or self._open_repaired
        self._idle: list[_Lease] = []
        self._idle_unsearched: list[_Lease] = []
        """Archives of closed sessions. They have never searched, which takes memory in
        proportion to the archive."""
        self._lock = Lock()
        self._open_sessions: OrderedDict[str, OpenSession] = OrderedDict()
        self._cache: dict[str, _CacheEntry] = {}
        self._cache_lock = Lock()
        """Held while a cached result is computed."""
        self._page_cache: OrderedDict[str, tuple[object, bytes]] = OrderedDict()
        """By URL: the version of a page, and its content."""
        self._page_cache_size = 0
        self._active_loads = 0
        """How many sessions are being loaded."""
        self._loads_since_gc = 0
        self._lease_count = 0
        self.data_version = 0
        """Counts the changes of the archive."""

    def _open_repaired(self) -> Archive:
        """Open the archive; if its index is damaged, build it again first."""
        folder = self.folder or Path()
        archive = Archive.open(folder, self._search_stats)
        if not archive.has_index and rebuild_damaged_index(folder):
            archive.refresh()
        return archive

    def invalidate(self) -> None:
        """Make the newest data visible to all requests from now on."""
        with self._lock:
            self.data_version += 1
            stale = self._take_idle()
        for lease in stale:
            self._release(lease)
        self._search_stats.refresh()

    def _take_idle(self) -> list[_Lease]:
        leases = [*self._idle, *self._idle_unsearched]
        self._idle.clear()
        self._idle_unsearched.clear()
        return leases

    @contextmanager
    def archive(self) -> Iterator[Archive]:
        """Use an archive for the duration of a ``with`` block."""
        lease = self._acquire(self._idle)
        try:
            with lease.archive.read_transaction():
                yield lease.archive
        except BaseException:
            with lease.archive:  # closes it and translates errors of damaged files
                raise
        self._release(lease)

    def _release(self, lease: _Lease) -> None:
        self._lease_count += 1
        if not self._lease_count % _TRIM_INTERVAL:
            trim_heap()
        while self._update(lease):
            with self._lock:
                if len(lease.free_list) >= self._max_idle:
                    break
                if lease.data_version == self.data_version:
                    lease.free_list.append(lease)
                    return
        lease.archive.close()

    def _update(self, lease: _Lease) -> bool:
        """Let a lease see the newest data; return whether it may be used again.

        An archive of a hub goes back to the hub instead.
        """
        data_version = self.data_version
        if lease.data_version == data_version:
            return True
        if self.folder is None:
            return False
        try:
            lease.archive.refresh()
        except Exception:  # noqa: BLE001 (the next request opens it, and reports this)
            return False
        lease.data_version = data_version
        return True

    def cached(self, key: str, compute: Callable[[Archive], T]) -> T:
        """Return a result that is computed once for each version of the data.

        Results are computed one at a time, as each may take memory in proportion to the
        archive. Requests that wait for the same result share it.
        """
        with self._lock:
            data_version = self.data_version
            entry = self._cache.get(key)
        if entry is None or entry.is_stale(data_version):
            del entry  # it may be large: free it before the new one is computed
            with self._cache_lock:
                entry = self._compute_cached(key, data_version, compute)
        result: T = entry.value
        return result

    def _compute_cached(
        self, key: str, data_version: int, compute: Callable[[Archive], T]
    ) -> _CacheEntry:
        with self._lock:
            entry = self._cache.get(key)
            if entry is not None and not entry.is_stale(data_version):
                return entry  # computed by the request before
            data_version = self.data_version
            self._cache.pop(key, None)
        del entry
        with self.archive() as archive:
            entry = _CacheEntry(data_version, monotonic(), compute(archive))
        with self._lock:
            if len(self._cache) >= _MAX_CACHED_RESULTS:
                self._cache.clear()
            self._cache[key] = entry
        trim_heap()
        return entry

    def _acquire(self, free_list: list[_Lease]) -> _Lease:
        with self._lock:
            data_version = self.data_version
            lease = free_list.pop() if free_list else None
        if lease is None:
            return _Lease(self._open_archive(), data_version, free_list)
        if monotonic() - lease.refreshed_at > _MAX_AGE:
            lease.archive.refresh()
            lease.refreshed_at = monotonic()
        return lease

    def summaries(self) -> tuple[SessionSummary, ...]:
        """Return the summaries of all sessions, newest first, from the cache."""
        return self.cached("sessions", load_summaries)

    def sessions_by_tool(self) -> dict[str, frozenset[SessionId]]:
        """Return the sessions that called each tool, from the cache."""
        return self.cached("tools", Archive.sessions_by_tool)

    def session_summary(self, id_or_prefix: str) -> SessionSummary:
        """Return the summary of a session by its id or a unique prefix."""
        with self.archive() as archive:
            return archive.session_summary(id_or_prefix)

    def cached_page(self, key: str, version: object) -> bytes | None:
        """Return a page from the cache if it has this version."""
        with self._lock:
            entry = self._page_cache.get(key)
            if entry is None or entry[0] != version:
                return None
            self._page_cache.move_to_end(key)
            return entry[1]

    def cache_page(self, key: str, version: object, content: bytes) -> None:
        """Add a page to the cache; the least recently used ones are dropped."""
        with self._lock:
            old = self._page_cache.pop(key, None)
            self._page_cache_size += len(content) - (len(old[1]) if old else 0)
            self._page_cache[key] = (version, content)
            while (
                self._page_cache_size > _PAGE_CACHE_BYTES and len(self._page_cache) > 1
            ):
                _, (_, dropped) = self._page_cache.popitem(last=False)
                self._page_cache_size -= len(dropped)

    @contextmanager
    def session(
        self, id_or_prefix: str, summary: SessionSummary | None = None
    ) -> Iterator[OpenSession]:
        """Use a session for the duration of a ``with`` block.

        Pass its summary if you have just loaded it.
        """
        while True:
            open_session = self._get_open_session(
                summary or self.session_summary(id_or_prefix)
            )
            with open_session.lock:
                if open_session.is_released:
                    continue
                try:
                    with open_session.archive.read_transaction():
                        yield open_session
                except BaseException:
                    self._discard_session(open_session)
                    # Closes it and translates errors of damaged files.
                    with open_session.archive:
                        raise
            with self._lock:
                current = self._open_sessions.get(open_session.summary.id)
            if current is not open_session:  # it was replaced in the meantime
                self._release_session(open_session)
            return

    def _get_open_session(self, summary: SessionSummary) -> OpenSession:
        with self._lock:
            known = self._open_sessions.get(summary.id)
            if known is not None and known.summary == summary:
                self._open_sessions.move_to_end(summary.id)
                return known
        lease = self._acquire(self._idle_unsearched)
        open_session = OpenSession(summary, lease, self._gc_paused)
        with self._lock:
            dropped = [self._open_sessions.pop(summary.id, None)]
            self._open_sessions[summary.id] = open_session
            while self._is_full():
                dropped.append(self._open_sessions.popitem(last=False)[1])
        for old_session in filter(None, dropped):
            self._release_session(old_session)
        return open_session

    def _discard_session(self, open_session: OpenSession) -> None:
        open_session.release()
        with self._lock:
            if self._open_sessions.get(open_session.summary.id) is open_session:
                del self._open_sessions[open_session.summary.id]

    def _release_session(self, open_session: OpenSession) -> None:
        """Make the archive of a session available, unless a request uses it."""
        if not open_session.lock.acquire(blocking=False):
            return  # that request releases it in the end
        is_first = not open_session.is_released
        open_session.release()
        open_session.lock.release()
        if is_first:
            self._release(open_session.lease)

    @contextmanager
    def _gc_paused(self) -> Iterator[None]:
        """Pause the garbage collector while a session is loaded.

        It would take two fifths of the time. What was loaded stays for long, so it is
        frozen, and only every now and then collected.
        """
        with self._lock:
            self._active_loads += 1
            gc.disable()
        try:
            yield
        finally:
            with self._lock:
                self._active_loads -= 1
                self._loads_since_gc += 1
                if not self._active_loads:
                    if self._loads_since_gc >= _GC_INTERVAL:
                        self._loads_since_gc = 0
                        gc.unfreeze()
                        gc.collect()
                    gc.freeze()
                    gc.enable()

    def _is_full(self) -> bool:
        count = len(self._open_sessions)
        if count <= 1 or count > self._max_open_sessions:
            return count > 1
        return (
            sum(session.loaded_messages for session in self._open_sessions.values())
            > _MAX_OPEN_MESSAGES
        )

    def close(self) -> None:
        """Close all archives that are not in use."""
        with self._lock:
            open_sessions = list(self._open_sessions.values())
            self._open_sessions.clear()
        for open_session in open_sessions:
            self._release_session(open_session)
        with self._lock:
            idle = self._take_idle()
        for lease in idle:
            lease.archive.close()
        self._search_stats.close()
