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
from bygones.ingest.pace import give_back
from bygones.ingest.windows import Begun, Conversation, Cut, Reeled
from bygones.model.listing import Listed
from bygones.model.sessions import Session
from bygones.search.commons import Commons

__all__ = ["OpenSession", "Readers"]

T = TypeVar("T")
_Quiet = Callable[[], AbstractContextManager[None]]

_STALE = 20.0
"""Seconds after which an archive is looked at anew though nobody told of a change."""
_ANSWERS = 200
"""Answers that are kept."""
_KEPT_BYTES = 48 * 1024 * 1024
"""Of pages that are kept."""
_IDLE = 4
"""Archives that are kept open though nobody reads them now: of answers, of sessions."""
_HELD = 24
"""Sessions that are kept open."""
_HELD_MESSAGES = 40_000
"""Messages of all sessions that are kept whole; one is, whatever its size.

A message takes two or three kilobytes.
"""
_TIDY = 64
"""Answers after which memory that is free is given back to the system."""
_SWEEP = 16
"""Sessions that are made before litter is looked for among what was long there."""


class _Answer(NamedTuple):
    """What an archive said, and when: by what was taken in, and by the clock."""

    moment: int
    since: float
    answer: Any

    def is_old(self, moment: int) -> bool:
        """Whether it is too old for who came at a moment."""
        return self.moment < moment or monotonic() - self.since > _STALE


class _Lent:
    """An archive that is open, and how much of what came since it has seen."""

    def __init__(self, archive: Archive, moment: int, pool: list[_Lent]) -> None:
        self.archive = archive
        self.moment = moment
        self.pool = pool
        self.since = monotonic()


class OpenSession:
    """A session that is kept open, and the reader that opens its text."""

    def __init__(self, listed: Listed, lent: _Lent, quiet: _Quiet) -> None:
        self.listed = listed
        self.archive = lent.archive
        self.lent = lent
        self.lock = Lock()
        self.is_let_go = False
        """Whether its archive is lent to others by now."""
        self.notes: dict[str, object] = {}
        """What was worked out about it, by name."""
        self._quiet = quiet
        self._whole: Session | None = None
        self._talk: Conversation | None = None

    @property
    def session(self) -> Session:
        """All of it, assembled when it is first asked for."""
        if self._whole is None:
            talk = self.conversation()
            with self._quiet():
                if isinstance(talk, Begun | Cut):
                    self._whole = talk.session
                else:
                    self._whole = self.archive.session(self.listed.id)
        return self._whole

    def conversation(self, agent: str = "") -> Conversation:
        """Return it, or an agent run in it, to be read by windows."""
        if self._talk is None:
            self._talk = self.archive.conversation(self.listed.id)
        if not agent:
            return self._talk
        if self._whole is None and isinstance(self._talk, Reeled):
            return self.archive.conversation(self.listed.id, agent)
        return Cut(self.session, agent)

    def forget(self) -> None:
        """Let go of all that was made of it: nobody reads it, and nobody will.

        What was worked out about it names it in turn, and would keep it.
        """
        self.is_let_go = True
        self.notes.clear()
        self._whole = self._talk = None

    @property
    def weight(self) -> int:
        """How many messages it keeps in memory."""
        talk = self._talk
        is_whole = self._whole is not None or isinstance(talk, Cut)
        is_whole |= isinstance(talk, Begun) and talk.is_whole
        return self.listed.messages if is_whole else 0


class Readers:
    """Lends archives, each to one thread at a time: a folder's, or as told."""

    def __init__(
        self,
        folder: Path | None,
        opening: Callable[[], Archive] | None = None,
        *,
        idle: int = _IDLE,
        held: int = _HELD,
    ) -> None:
        self.folder = folder
        self._most_idle = idle
        self._most_held = held
        commons = self._commons = Commons(folder or Path())
        self._opening = opening or (lambda: Archive.open(folder or Path(), commons))
        self._idle: list[_Lent] = []
        self._spare: list[_Lent] = []
        """Those of sessions that were let go: they never searched, which takes memory
        in proportion to the archive."""
        self._lock = Lock()
        self._held: OrderedDict[str, OpenSession] = OrderedDict()
        self._told: dict[str, _Answer] = {}
        """Answers, by the name of the question."""
        self._asking = Lock()
        """Is had by whoever asks for an answer that is kept."""
        self._pages: OrderedDict[str, tuple[object, bytes]] = OrderedDict()
        """Pages that were made, and what they were made of, by their addresses."""
        self._weight = 0
        self._making = 0
        """How many sessions are being made."""
        self._made = 0
        """How many were, since litter was last looked for everywhere."""
        self._lendings = 0
        self.moment = 0
        """Counts up when something was taken in."""

    def renew(self) -> None:
        """Let everybody who comes from now on see what was taken in."""
        with self._lock:
            self.moment += 1
        self._close_idle()
        self._commons.look()

    def _close_idle(self) -> None:
        with self._lock:
            stale = [*self._idle, *self._spare]
            self._idle.clear()
            self._spare.clear()
        for one in stale:
            one.archive.close()

    @contextmanager
    def archive(self) -> Iterator[Archive]:
        """Lend an archive."""
        lent = self._taken(self._idle)
        try:
            with lent.archive.at_once():
                yield lent.archive
        except BaseException:
            with lent.archive:  # closed, and asked what it is that is damaged
                raise
        self._returned(lent)

    def _returned(self, lent: _Lent) -> None:
        self._lendings += 1
        if not self._lendings % _TIDY:
            give_back()
        with self._lock:
            has_room = len(lent.pool) < self._most_idle
            if lent.moment == self.moment and has_room:
                lent.pool.append(lent)
                return
        lent.archive.close()

    def told(self, name: str, ask: Callable[[Archive], T]) -> T:
        """Return what an archive says, asked once until something is taken in.

        For what is the same for everybody and costs more than a moment. Such answers
        are made one at a time: each takes memory in proportion to the archive, and who
        comes while another asks the same has it from them.
        """
        with self._lock:
            moment = self.moment
            found = self._told.get(name)
        if found is None or found.is_old(moment):
            del found  # before there is another: it may be large
            with self._asking:
                found = self._answered(name, moment, ask)
        answer: T = found.answer
        return answer

    def _answered(self, name: str, moment: int, ask: Callable[[Archive], T]) -> _Answer:
        with self._lock:
            found = self._told.get(name)
            if found is not None and not found.is_old(moment):
                return found  # of who asked before
            moment = self.moment
            self._told.pop(name, None)
        del found
        with self.archive() as archive:
            found = _Answer(moment, monotonic(), ask(archive))
        with self._lock:
            if len(self._told) >= _ANSWERS:
                self._told.clear()
            self._told[name] = found
        give_back()
        return found

    def _taken(self, pool: list[_Lent]) -> _Lent:
        with self._lock:
            moment = self.moment
            lent = pool.pop() if pool else None
        if lent is None:
            return _Lent(self._opening(), moment, pool)
        if monotonic() - lent.since > _STALE:
            lent.archive.refresh()
            lent.since = monotonic()
        return lent

    def listed(self, name: str) -> Listed:
        """Return a session's line by its id, or by a beginning that only it has."""
        with self.archive() as archive:
            return archive.listed(name)

    def page(self, name: str, stamp: object) -> bytes | None:
        """Return what was made under a name, if it was made of the same."""
        with self._lock:
            found = self._pages.get(name)
            if found is None or found[0] != stamp:
                return None
            self._pages.move_to_end(name)
            return found[1]

    def keep(self, name: str, stamp: object, made: bytes) -> None:
        """Keep what was made, and what it was made of; the oldest gives way."""
        with self._lock:
            old = self._pages.pop(name, None)
            self._weight += len(made) - (len(old[1]) if old else 0)
            self._pages[name] = (stamp, made)
            while self._weight > _KEPT_BYTES and len(self._pages) > 1:
                _, (_, gone) = self._pages.popitem(last=False)
                self._weight -= len(gone)

    @contextmanager
    def session(self, name: str, listed: Listed | None = None) -> Iterator[OpenSession]:
        """Lend a session, by its id or a beginning that only it has.

        Whoever has just looked at its line hands that in.
        """
        while True:
            held = self._found(listed or self.listed(name))
            with held.lock:
                if held.is_let_go:
                    continue
                try:
                    with held.archive.at_once():
                        yield held
                except BaseException:
                    self._drop(held)
                    with held.archive:  # closed, and asked what it is that is damaged
                        raise
            with self._lock:
                is_kept = self._held.get(held.listed.id) is held
            if not is_kept:  # it gave way to another while it was read
                self._let_go(held)
            return

    def _found(self, listed: Listed) -> OpenSession:
        with self._lock:
            held = self._held.get(listed.id)
            if held is not None and held.listed == listed:
                self._held.move_to_end(listed.id)
                return held
        held = OpenSession(listed, self._taken(self._spare), self._undisturbed)
        with self._lock:
            gone = [self._held.pop(listed.id, None)]
            self._held[listed.id] = held
            while self._is_full():
                gone.append(self._held.popitem(last=False)[1])
        for one in filter(None, gone):
            self._let_go(one)
        return held

    def _drop(self, held: OpenSession) -> None:
        held.forget()
        with self._lock:
            if self._held.get(held.listed.id) is held:
                del self._held[held.listed.id]

    def _let_go(self, held: OpenSession) -> None:
        """Lend the archive of a session to others, unless somebody is reading it."""
        if not held.lock.acquire(blocking=False):
            return  # whoever reads it does this in the end
        is_first = not held.is_let_go
        held.forget()
        held.lock.release()
        if is_first:
            self._returned(held.lent)

    @contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """Look for no litter while many values are made: two fifths of the time.

        What was made stays as long as somebody holds it, and is not looked through but
        now and then: what was litter among it would stay for good.
        """
        with self._lock:
            self._making += 1
            gc.disable()
        try:
            yield
        finally:
            with self._lock:
                self._making -= 1
                self._made += 1
                if not self._making:
                    if self._made >= _SWEEP:
                        self._made = 0
                        gc.unfreeze()
                        gc.collect()
                    gc.freeze()
                    gc.enable()

    def _is_full(self) -> bool:
        count = len(self._held)
        if count <= 1 or count > self._most_held:
            return count > 1
        return sum(one.weight for one in self._held.values()) > _HELD_MESSAGES

    def close(self) -> None:
        """Close all that nobody is reading."""
        with self._lock:
            held = list(self._held.values())
            self._held.clear()
        for one in held:
            self._let_go(one)
        self._close_idle()
        self._commons.close()
