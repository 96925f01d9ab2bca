"""What the archive remembers of what was erased: hashes, and no content.

Only while a purge is not done are the ids of its sessions there as well, so that it can
be asked for again by the names it was asked for first.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

import apsw

from bygones.model.ids import SessionId
from bygones.model.sources import Source
from bygones.store.connect import every, first
from bygones.store.press import digest

__all__ = [
    "add_signs",
    "begin_erasing",
    "end_erasing",
    "erased_signs",
    "has_erased",
    "is_erasing",
    "lasting_signs",
    "purged_signs",
    "session_sign",
    "unfinished",
]

_UNFINISHED = b"unfinished "
"""Begins the marks of a purge that is not done; no hash is as it is, nor as short."""
_UUID_LENGTH = 36


def purged_signs(source: Source) -> set[bytes]:
    """Return the hashes by which a purged file is known again, wherever it comes.

    Its path within the home is one; its session or its agent is another, where that
    is an id that no other file has by chance.
    """
    signs = {_sign(source.path)}
    if source.session is not None and len(source.session) == _UUID_LENGTH:
        signs.add(session_sign(source.session))
    elif source.session is None and source.agent is not None:
        signs.add(_sign(f"agent {source.agent}"))
    return signs


def session_sign(session: SessionId) -> bytes:
    """Return the hash by which a purged session is known again."""
    return _sign(f"session {session}")


def _sign(text: str) -> bytes:
    return digest(text.encode("utf-8", "replace"))


def erased_signs(db: apsw.Connection) -> set[bytes]:
    """Return the hashes of what was erased and must not come back."""
    return {row[0] for row in db.execute("SELECT hash FROM purged")}


def lasting_signs(db: apsw.Connection) -> set[bytes]:
    """Return the same without the marks of a purge that is not done."""
    return {sign for sign in erased_signs(db) if not sign.startswith(_UNFINISHED)}


def has_erased(db: apsw.Connection) -> bool:
    """Whether anything was ever erased."""
    return first(db, "SELECT 1 FROM purged") is not None


def begin_erasing(db: apsw.Connection, sessions: Iterable[SessionId]) -> None:
    """Refuse sessions from now on, and note that bytes of them may still lie about."""
    chosen = list(sessions)
    marks = [_UNFINISHED, *(_UNFINISHED + id_.encode() for id_ in chosen)]
    add_signs(db, [*marks, *map(session_sign, chosen)])


def add_signs(db: apsw.Connection, signs: Iterable[bytes]) -> None:
    """Remember hashes of what is erased."""
    now = time.time_ns()
    sql = "INSERT OR IGNORE INTO purged VALUES (?, ?)"
    db.executemany(sql, [(sign, now) for sign in signs])


def end_erasing(db: apsw.Connection) -> None:
    """Note that no byte is left, and forget the ids."""
    sql = "DELETE FROM purged WHERE substr(hash, 1, ?) = ?"
    db.execute(sql, (len(_UNFINISHED), _UNFINISHED))


def unfinished(db: apsw.Connection) -> list[SessionId]:
    """Return the sessions of purges that are not done."""
    marks = _marks(db)
    return [SessionId(mark[len(_UNFINISHED) :].decode()) for mark in marks[1:]]


def is_erasing(db: apsw.Connection) -> bool:
    """Whether a purge is not done: it was stopped, or somebody read meanwhile."""
    return bool(_marks(db))


def _marks(db: apsw.Connection) -> list[bytes]:
    sql = "SELECT hash FROM purged WHERE substr(hash, 1, ?) = ? ORDER BY hash"
    rows = every(db, sql, (len(_UNFINISHED), _UNFINISHED))
    return [row[0] for row in rows]
