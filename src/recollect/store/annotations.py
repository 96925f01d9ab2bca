"""Annotations, kept in the archive beside the bytes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

import apsw
from msgspec.structs import replace

from recollect.model.annotations import Annotations
from recollect.model.ids import SessionId
from recollect.model.listing import Listed
from recollect.store.connect import every

__all__ = ["all_annotations", "annotated", "write_annotations"]


def all_annotations(db: apsw.Connection) -> dict[SessionId, Annotations]:
    """Return the annotations of every session that has some."""
    rows = every(db, "SELECT session, kind, value FROM annotation ORDER BY value")
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


def write_annotations(
    db: apsw.Connection, session: SessionId, told: Annotations
) -> None:
    """Let a session have these annotations; those that stay keep their time."""
    wanted = [("tag", tag) for tag in told.tags]
    wanted += [("note", told.note)] if told.note else []
    wanted += [("star", "")] if told.is_starred else []
    before = every(
        db, "SELECT kind, value FROM annotation WHERE session = ?", (session,)
    )
    for kind, value in set(before) - set(wanted):
        db.execute(
            "DELETE FROM annotation WHERE session = ? AND kind = ? AND value = ?",
            (session, kind, value),
        )
    for kind, value in set(wanted) - set(before):
        sql = "INSERT INTO annotation VALUES (?, ?, ?, ?)"
        db.execute(sql, (session, kind, value, time.time_ns()))
