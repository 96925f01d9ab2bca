"""Readers of the archive: one at a time for each thread, sessions kept open.

What an archive gives opens its text later, through the connection it came from. So an
archive, and a session with it, is lent to one thread at a time.
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

from bygones.archive import Archive
from bygones.memory import trim_heap
from bygones.model.sessions import Conversation, Session
from bygones.model.summary import SessionSummary

__all__ = ["ArchivePool", "OpenSession"]

T = TypeVar("T")
_GcPause = Callable[[], AbstractContextManager[None]]

_MAX_AGE = 20.0
"""Seconds after which an archive is looked at anew though nobody told of a change."""
_MAX_CACHED_ANSWERS = 200
"""Answers that are kept."""
_PAGE_CACHE_BYTES = 48 * 1024 * 1024
"""Of pages that are kept."""
_MAX_IDLE = 4
"""Archives that are kept open though nobody reads them now: of answers, of sessions."""
_MAX_OPEN_SESSIONS = 24
"""Sessions that are kept open."""
_MAX_OPEN_MESSAGES = 40_000
"""Messages of all sessions that are kept whole; one is, whatever its size.

A message takes two or three kilobytes.
"""
_TRIM_INTERVAL = 64
"""Answers after which memory that is free is given back to the system."""
_GC_INTERVAL = 16
"""Sessions that are made before litter is looked for among what was long there."""


class _CacheEntry(NamedTuple):
    """What an archive said, and when: by what was taken in, and by the clock."""

    data_version: int
    created_at: float
    value: Any

    def is_stale(self, data_version: int) -> bool:
        """Whether it is too old for who came at a moment."""
        return (
            self.data_version < data_version or monotonic() - self.created_at > _MAX_AGE
        )


class _Lease:
    """An archive that is open, and how much of what came since it has seen."""

    def __init__(
        self, archive: Archive, data_version: int, free_list: list[_Lease]
    ) -> None:
        self.archive = archive
        self.data_version = data_version
        self.free_list = free_list
        self.refreshed_at = monotonic()


class OpenSession:
    """A session that is kept open, and the reader that opens its text."""

    def __init__(
        self, summary: SessionSummary, lease: _Lease, gc_paused: _GcPause
    ) -> None:
        self.summary = summary
        self.archive = lease.archive
        self.lease = lease
        self.lock = Lock()
        self.is_released = False
        """Whether its archive is lent to others by now."""
        self.cache: dict[str, object] = {}
        """What was worked out about it, by name."""
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
        """Let go of all that was made of it: nobody reads it, and nobody will.

        What was worked out about it names it in turn, and would keep it.
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
    """Lends archives, each to one thread at a time: a folder's, or as told."""

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
        shared_stats = self._search_stats = Archive.shared_stats(folder or Path())
        self._open_archive = open_archive or (
            lambda: Archive.open(folder or Path(), shared_stats)
        )
        self._idle: list[_Lease] = []
        self._idle_unsearched: list[_Lease] = []
        """Those of sessions that were let go: they never searched, which takes memory
        in proportion to the archive."""
        self._lock = Lock()
        self._open_sessions: OrderedDict[str, OpenSession] = OrderedDict()
        self._cache: dict[str, _CacheEntry] = {}
        """Answers, by the name of the question."""
        self._cache_lock = Lock()
        """Is had by whoever asks for an answer that is kept."""
        self._page_cache: OrderedDict[str, tuple[object, bytes]] = OrderedDict()
        """Pages that were made, and what they were made of, by their addresses."""
        self._page_cache_size = 0
        self._active_loads = 0
        """How many sessions are being made."""
        self._loads_since_gc = 0
        """How many were, since litter was last looked for everywhere."""
        self._lease_count = 0
        self.data_version = 0
        """Counts up when something was taken in."""

    def invalidate(self) -> None:
        """Let everybody who comes from now on see what was taken in."""
        with self._lock:
            self.data_version += 1
        self._close_idle()
        self._search_stats.refresh()

    def _close_idle(self) -> None:
        with self._lock:
            stale = [*self._idle, *self._idle_unsearched]
            self._idle.clear()
            self._idle_unsearched.clear()
        for one in stale:
            one.archive.close()

    @contextmanager
    def archive(self) -> Iterator[Archive]:
        """Lend an archive."""
        lent = self._acquire(self._idle)
        try:
            with lent.archive.read_transaction():
                yield lent.archive
        except BaseException:
            with lent.archive:  # closed, and asked what it is that is damaged
                raise
        self._release(lent)

    def _release(self, lease: _Lease) -> None:
        self._lease_count += 1
        if not self._lease_count % _TRIM_INTERVAL:
            trim_heap()
        with self._lock:
            has_room = len(lease.free_list) < self._max_idle
            if lease.data_version == self.data_version and has_room:
                lease.free_list.append(lease)
                return
        lease.archive.close()

    def cached(self, key: str, compute: Callable[[Archive], T]) -> T:
        """Return what an archive says, asked once until something is taken in.

        For what is the same for everybody and costs more than a moment. Such answers
        are made one at a time: each takes memory in proportion to the archive, and who
        comes while another asks the same has it from them.
        """
        with self._lock:
            moment = self.data_version
            found = self._cache.get(key)
        if found is None or found.is_stale(moment):
            del found  # before there is another: it may be large
            with self._cache_lock:
                found = self._compute_cached(key, moment, compute)
        answer: T = found.value
        return answer

    def _compute_cached(
        self, key: str, data_version: int, compute: Callable[[Archive], T]
    ) -> _CacheEntry:
        with self._lock:
            found = self._cache.get(key)
            if found is not None and not found.is_stale(data_version):
                return found  # of who asked before
            data_version = self.data_version
            self._cache.pop(key, None)
        del found
        with self.archive() as archive:
            found = _CacheEntry(data_version, monotonic(), compute(archive))
        with self._lock:
            if len(self._cache) >= _MAX_CACHED_ANSWERS:
                self._cache.clear()
            self._cache[key] = found
        trim_heap()
        return found

    def _acquire(self, free_list: list[_Lease]) -> _Lease:
        with self._lock:
            moment = self.data_version
            lent = free_list.pop() if free_list else None
        if lent is None:
            return _Lease(self._open_archive(), moment, free_list)
        if monotonic() - lent.refreshed_at > _MAX_AGE:
            lent.archive.refresh()
            lent.refreshed_at = monotonic()
        return lent

    def session_summary(self, name: str) -> SessionSummary:
        """Return a session's line by its id, or by a beginning that only it has."""
        with self.archive() as archive:
            return archive.session_summary(name)

    def cached_page(self, key: str, version: object) -> bytes | None:
        """Return what was made under a name, if it was made of the same."""
        with self._lock:
            found = self._page_cache.get(key)
            if found is None or found[0] != version:
                return None
            self._page_cache.move_to_end(key)
            return found[1]

    def cache_page(self, key: str, version: object, content: bytes) -> None:
        """Keep what was made, and what it was made of; the oldest gives way."""
        with self._lock:
            old = self._page_cache.pop(key, None)
            self._page_cache_size += len(content) - (len(old[1]) if old else 0)
            self._page_cache[key] = (version, content)
            while (
                self._page_cache_size > _PAGE_CACHE_BYTES and len(self._page_cache) > 1
            ):
                _, (_, gone) = self._page_cache.popitem(last=False)
                self._page_cache_size -= len(gone)

    @contextmanager
    def session(
        self, name: str, summary: SessionSummary | None = None
    ) -> Iterator[OpenSession]:
        """Lend a session, by its id or a beginning that only it has.

        Whoever has just looked at its line hands that in.
        """
        while True:
            held = self._get_open_session(summary or self.session_summary(name))
            with held.lock:
                if held.is_released:
                    continue
                try:
                    with held.archive.read_transaction():
                        yield held
                except BaseException:
                    self._discard_session(held)
                    with held.archive:  # closed, and asked what it is that is damaged
                        raise
            with self._lock:
                is_kept = self._open_sessions.get(held.summary.id) is held
            if not is_kept:  # it gave way to another while it was read
                self._release_session(held)
            return

    def _get_open_session(self, summary: SessionSummary) -> OpenSession:
        with self._lock:
            held = self._open_sessions.get(summary.id)
            if held is not None and held.summary == summary:
                self._open_sessions.move_to_end(summary.id)
                return held
        held = OpenSession(
            summary, self._acquire(self._idle_unsearched), self._gc_paused
        )
        with self._lock:
            gone = [self._open_sessions.pop(summary.id, None)]
            self._open_sessions[summary.id] = held
            while self._is_full():
                gone.append(self._open_sessions.popitem(last=False)[1])
        for one in filter(None, gone):
            self._release_session(one)
        return held

    def _discard_session(self, open_session: OpenSession) -> None:
        open_session.release()
        with self._lock:
            if self._open_sessions.get(open_session.summary.id) is open_session:
                del self._open_sessions[open_session.summary.id]

    def _release_session(self, open_session: OpenSession) -> None:
        """Lend the archive of a session to others, unless somebody is reading it."""
        if not open_session.lock.acquire(blocking=False):
            return  # whoever reads it does this in the end
        is_first = not open_session.is_released
        open_session.release()
        open_session.lock.release()
        if is_first:
            self._release(open_session.lease)

    @contextmanager
    def _gc_paused(self) -> Iterator[None]:
        """Look for no litter while many values are made: two fifths of the time.

        What was made stays as long as somebody holds it, and is not looked through but
        now and then: what was litter among it would stay for good.
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
            sum(one.loaded_messages for one in self._open_sessions.values())
            > _MAX_OPEN_MESSAGES
        )

    def close(self) -> None:
        """Close all that nobody is reading."""
        with self._lock:
            held = list(self._open_sessions.values())
            self._open_sessions.clear()
        for one in held:
            self._release_session(one)
        self._close_idle()
        self._search_stats.close()
