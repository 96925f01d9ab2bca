"""Readers of the archive: one at a time for each thread, sessions kept open.

What an archive gives opens its text later, through the connection it came from. So an
archive, and a session with it, is lent to one thread at a time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any, TypeVar

from recollect.archive import Archive
from recollect.model.listing import Listed
from recollect.model.sessions import Session

__all__ = ["OpenSession", "Readers"]

T = TypeVar("T")

_STALE = 20.0
"""Seconds after which an archive is looked at anew though nobody told of a change."""
_ANSWERS = 200
"""Answers that are kept."""
_HELD = 8
"""Sessions that are kept open."""
_HELD_MESSAGES = 250_000
"""Messages of all sessions that are kept open; one is, whatever its size."""


class OpenSession:
    """A session that is kept open, and the reader that opens its text."""

    def __init__(self, listed: Listed, session: Session, archive: Archive) -> None:
        self.listed = listed
        self.session = session
        self.archive = archive
        self.lock = Lock()
        self.notes: dict[str, object] = {}
        """What was worked out about it, by name."""


class _Lent:
    """An archive that is open, and how much of what came since it has seen."""

    def __init__(self, archive: Archive, moment: int) -> None:
        self.archive = archive
        self.moment = moment
        self.since = monotonic()


class Readers:
    """Lends archives of one folder, each to one thread at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._idle: list[_Lent] = []
        self._lock = Lock()
        self._held: OrderedDict[str, OpenSession] = OrderedDict()
        self._told: dict[str, tuple[int, float, Any]] = {}
        """When it was asked, and the answer, by the name of the question."""
        self.moment = 0
        """Counts up when something was taken in."""

    def renew(self) -> None:
        """Let everybody who comes from now on see what was taken in."""
        with self._lock:
            self.moment += 1
            stale, self._idle = self._idle, []
        for one in stale:
            one.archive.close()

    @contextmanager
    def archive(self) -> Iterator[Archive]:
        """Lend an archive."""
        lent = self._taken()
        try:
            yield lent.archive
        except BaseException:
            lent.archive.close()
            raise
        with self._lock:
            if lent.moment == self.moment:
                self._idle.append(lent)
                return
        lent.archive.close()

    def told(self, name: str, ask: Callable[[Archive], T]) -> T:
        """Return what an archive says, asked once until something is taken in.

        For what is the same for everybody and costs more than a moment.
        """
        with self._lock:
            moment = self.moment
            found = self._told.get(name)
        if found is None or found[0] != moment or monotonic() - found[1] > _STALE:
            with self.archive() as archive:
                found = (moment, monotonic(), ask(archive))
            with self._lock:
                if len(self._told) >= _ANSWERS:
                    self._told.clear()
                self._told[name] = found
        answer: T = found[2]
        return answer

    def _taken(self) -> _Lent:
        with self._lock:
            moment = self.moment
            lent = self._idle.pop() if self._idle else None
        if lent is None:
            return _Lent(Archive.open(self.folder), moment)
        if monotonic() - lent.since > _STALE:
            lent.archive.refresh()
            lent.since = monotonic()
        return lent

    @contextmanager
    def session(self, name: str) -> Iterator[OpenSession]:
        """Lend a session, by its id or a beginning that only it has."""
        with self.archive() as archive:
            listed = archive.listed(name)
        held = self._found(listed)
        with held.lock:
            yield held

    def _found(self, listed: Listed) -> OpenSession:
        with self._lock:
            held = self._held.get(listed.id)
            if held is not None and held.listed == listed:
                self._held.move_to_end(listed.id)
                return held
        archive = Archive.open(self.folder)
        try:
            session = archive.session(listed.id)
        except BaseException:
            archive.close()
            raise
        held = OpenSession(listed, session, archive)
        with self._lock:
            self._held.pop(listed.id, None)
            self._held[listed.id] = held
            while self._is_full():
                # Somebody may be reading it: it is closed when nobody has it any more.
                self._held.popitem(last=False)
        return held

    def _is_full(self) -> bool:
        messages = sum(one.listed.messages for one in self._held.values())
        return len(self._held) > 1 and (
            len(self._held) > _HELD or messages > _HELD_MESSAGES
        )

    def close(self) -> None:
        """Close all that nobody is reading."""
        with self._lock:
            idle, self._idle = self._idle, []
            self._held.clear()
        for lent in idle:
            lent.archive.close()
