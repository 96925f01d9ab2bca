"""Annotations and purged hashes, which are stored in `archive.db`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

import apsw
from msgspec.structs import replace

from bygones.model.base import SessionId, SourceFile
from bygones.model.summary import Annotations, SessionSummary
from bygones.store.compression import sha256_digest
from bygones.store.connect import fetch_all, fetch_one

_REMOVED = "removed"
"""The kind of a row with the hash of an annotation that was removed."""


def load_annotations(db: apsw.Connection) -> dict[SessionId, Annotations]:
    """Return the annotations of every session that has some."""
    sql = "SELECT session, kind, value FROM annotation WHERE kind != ? ORDER BY value"
    rows = fetch_all(db, sql, (_REMOVED,))
    sessions: dict[SessionId, list[tuple[str, str]]] = {}
    for session, kind, value in rows:
        sessions.setdefault(session, []).append((kind, value))
    return {session: _build_annotations(found) for session, found in sessions.items()}


def with_annotations(
    summary: SessionSummary, annotations: Mapping[SessionId, Annotations]
) -> SessionSummary:
    """Return a summary with the annotations of its session."""
    added = annotations.get(summary.id)
    if added is None:
        return summary
    tags = tuple(dict.fromkeys((*summary.tags, *added.tags)))
    return replace(summary, tags=tags, note=added.note, is_starred=added.is_starred)


def _build_annotations(rows: Iterable[tuple[str, str]]) -> Annotations:
    values = list(rows)
    return Annotations(
        tags=tuple(value for kind, value in values if kind == "tag"),
        note="".join(value for kind, value in values if kind == "note"),
        is_starred=any(kind == "star" for kind, _ in values),
    )


def annotation_times(db: apsw.Connection) -> dict[tuple[str, str], int]:
    """Return when each annotation was last added or removed, by session and hash."""
    rows = fetch_all(db, "SELECT session, kind, value, added_ns FROM annotation")
    return {
        (session, value if kind == _REMOVED else _annotation_hash(kind, value)): added
        for session, kind, value, added in rows
    }


def _annotation_hash(kind: str, value: str) -> str:
    return sha256_digest(f"{kind} {value}".encode("utf-8", "replace")).hex()


def write_annotations(
    db: apsw.Connection, session: SessionId, annotations: Annotations
) -> None:
    """Replace the annotations of a session; those that stay keep their time.

    A hash of each removed annotation is kept, so that a copy is known to be older.
    """
    wanted = [("tag", tag) for tag in annotations.tags]
    wanted += [("note", annotations.note)] if annotations.note else []
    wanted += [("star", "")] if annotations.is_starred else []
    sql = "SELECT kind, value FROM annotation WHERE session = ? AND kind != ?"
    before = fetch_all(db, sql, (session, _REMOVED))
    for kind, value in set(before) - set(wanted):
        _remove(db, session, kind, value)
        _add(db, session, _REMOVED, _annotation_hash(kind, value))
    for kind, value in set(wanted) - set(before):
        _remove(db, session, _REMOVED, _annotation_hash(kind, value))
        _add(db, session, kind, value)


def _add(db: apsw.Connection, session: SessionId, kind: str, value: str) -> None:
    sql = "INSERT INTO annotation VALUES (?, ?, ?, ?)"
    db.execute(sql, (session, kind, value, time.time_ns()))


def _remove(db: apsw.Connection, session: SessionId, kind: str, value: str) -> None:
    sql = "DELETE FROM annotation WHERE session = ? AND kind = ? AND value = ?"
    db.execute(sql, (session, kind, value))


_PENDING_PREFIX = b"unfinished "
"""Marks rows of a purge that is not finished; hashes have a fixed length and never
start with it.
"""
_UUID_LENGTH = 36


def hashes_of_source(source: SourceFile) -> set[bytes]:
    """Return the hashes that identify a purged file wherever it is found again.

    One is of its path within the home; another of its session or agent, if its id is
    unique.
    """
    hashes = {_hash_text(source.relative_path)}
    if source.session_id is not None and len(source.session_id) == _UUID_LENGTH:
        hashes.add(hash_of_session(source.session_id))
    elif source.session_id is None and source.agent_id is not None:
        hashes.add(_hash_text(f"agent {source.agent_id}"))
    return hashes


def hash_of_session(session: SessionId) -> bytes:
    """Return the hash that identifies a purged session."""
    return _hash_text(f"session {session}")


def _hash_text(text: str) -> bytes:
    return sha256_digest(text.encode("utf-8", "replace"))


def load_purged_hashes(db: apsw.Connection) -> set[bytes]:
    """Return the hashes of everything that was purged and must not be imported."""
    return {row[0] for row in db.execute("SELECT hash FROM purged")}


def load_lasting_hashes(db: apsw.Connection) -> set[bytes]:
    """Return the purged hashes without the marks of an unfinished purge."""
    return {
        digest
        for digest in load_purged_hashes(db)
        if not digest.startswith(_PENDING_PREFIX)
    }


def has_purged(db: apsw.Connection) -> bool:
    """Whether anything was ever purged."""
    return fetch_one(db, "SELECT 1 FROM purged") is not None


def begin_purge(db: apsw.Connection, sessions: Iterable[SessionId]) -> None:
    """Refuse sessions from now on, and mark the purge as unfinished."""
    chosen = list(sessions)
    marks = [_PENDING_PREFIX, *(_PENDING_PREFIX + id_.encode() for id_ in chosen)]
    add_purged_hashes(db, [*marks, *map(hash_of_session, chosen)])


def add_purged_hashes(db: apsw.Connection, hashes: Iterable[bytes]) -> None:
    now = time.time_ns()
    sql = "INSERT OR IGNORE INTO purged VALUES (?, ?)"
    db.executemany(sql, [(digest, now) for digest in hashes])


def end_purge(db: apsw.Connection) -> None:
    """Remove the marks of the purge, and with them the session ids."""
    sql = "DELETE FROM purged WHERE substr(hash, 1, ?) = ?"
    db.execute(sql, (len(_PENDING_PREFIX), _PENDING_PREFIX))


def load_pending_purge(db: apsw.Connection) -> list[SessionId]:
    """Return the sessions of unfinished purges."""
    marks = _load_pending_marks(db)
    return [SessionId(mark[len(_PENDING_PREFIX) :].decode()) for mark in marks[1:]]


def is_purge_pending(db: apsw.Connection) -> bool:
    """Whether a purge is unfinished: it was stopped, or others were reading."""
    return bool(_load_pending_marks(db))


def _load_pending_marks(db: apsw.Connection) -> list[bytes]:
    sql = "SELECT hash FROM purged WHERE substr(hash, 1, ?) = ? ORDER BY hash"
    rows = fetch_all(db, sql, (len(_PENDING_PREFIX), _PENDING_PREFIX))
    return [row[0] for row in rows]
