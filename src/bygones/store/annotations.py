"""Annotations, kept in the archive beside the bytes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

import apsw
from msgspec.structs import replace

from bygones.model.annotations import Annotations
from bygones.model.ids import SessionId
from bygones.model.listing import Listed
from bygones.store.connect import every
from bygones.store.press import digest

__all__ = ["all_annotations", "annotated", "annotation_times", "write_annotations"]

_REMOVED = "removed"
"""The kind of a row that says that there was an annotation, by its hash."""


def all_annotations(db: apsw.Connection) -> dict[SessionId, Annotations]:
    """Return the annotations of every session that has some."""
    sql = "SELECT session, kind, value FROM annotation WHERE kind != ? ORDER BY value"
    rows = every(db, sql, (_REMOVED,))
    sessions: dict[SessionId, list[tuple[str, str]]] = {}
    for session, kind, value in rows:
        sessions.setdefault(session, []).append((kind, value))
    return {session: _told(found) for session, found in sessions.items()}


def annotated(listed: Listed, known: Mapping[SessionId, Annotations]) -> Listed:
    """Return a session's line with what readers added to it."""
    added = known.get(listed.id)
    if added is None:
        return listed
    tags = tuple(dict.fromkeys((*listed.tags, *added.tags)))
    return replace(listed, tags=tags, note=added.note, is_starred=added.is_starred)


def _told(found: Iterable[tuple[str, str]]) -> Annotations:
    kept = list(found)
    return Annotations(
        tags=tuple(value for kind, value in kept if kind == "tag"),
        note="".join(value for kind, value in kept if kind == "note"),
        is_starred=any(kind == "star" for kind, _ in kept),
    )


def annotation_times(db: apsw.Connection) -> dict[tuple[str, str], int]:
    """Return when each annotation was added or removed last, by session and hash."""
    rows = every(db, "SELECT session, kind, value, added_ns FROM annotation")
    return {
        (session, value if kind == _REMOVED else _sign(kind, value)): added
        for session, kind, value, added in rows
    }


def _sign(kind: str, value: str) -> str:
    return digest(f"{kind} {value}".encode("utf-8", "replace")).hex()


def write_annotations(
    db: apsw.Connection, session: SessionId, told: Annotations
) -> None:
    """Let a session have these annotations; those that stay keep their time.

    Of what is removed a hash stays, by which a copy is known to be older.
    """
    wanted = [("tag", tag) for tag in told.tags]
    wanted += [("note", told.note)] if told.note else []
    wanted += [("star", "")] if told.is_starred else []
    sql = "SELECT kind, value FROM annotation WHERE session = ? AND kind != ?"
    before = every(db, sql, (session, _REMOVED))
    for kind, value in set(before) - set(wanted):
        _remove(db, session, kind, value)
        _add(db, session, _REMOVED, _sign(kind, value))
    for kind, value in set(wanted) - set(before):
        _remove(db, session, _REMOVED, _sign(kind, value))
        _add(db, session, kind, value)


def _add(db: apsw.Connection, session: SessionId, kind: str, value: str) -> None:
    sql = "INSERT INTO annotation VALUES (?, ?, ?, ?)"
    db.execute(sql, (session, kind, value, time.time_ns()))


def _remove(db: apsw.Connection, session: SessionId, kind: str, value: str) -> None:
    sql = "DELETE FROM annotation WHERE session = ? AND kind = ? AND value = ?"
    db.execute(sql, (session, kind, value))
