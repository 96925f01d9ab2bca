"""Tags, notes and stars of sessions, and facts about directories, in `archive.db`.

Git data of a directory is read while the directory exists, and cannot be derived from
transcripts. It is stored as an annotation whose session is the path of the directory, so
that a rebuilt index gives the same projects.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import apsw
import msgspec
from msgspec.structs import replace

from bygones.model.base import DECODE_ERRORS, SessionId
from bygones.model.projects import (
    InferredRepositories,
    ProjectDirectories,
    RepositoryFacts,
)
from bygones.model.summary import Annotations, SessionSummary
from bygones.store.archive_db import ArchiveDB
from bygones.store.compression import (
    sha256_digest,
)
from bygones.store.connect import (
    fetch_all,
    fetch_one,
    writer_lock,
)

REPOSITORY = "repository"
MOVED_TO = "moved-to"
DIRECTORY_KINDS = (REPOSITORY, MOVED_TO)
"""Kinds of annotations that belong to directories."""
_FRESH_NS = 24 * 3600 * 10**9
"""How long git data of a directory is not read again."""
_decode_facts = msgspec.json.Decoder(RepositoryFacts).decode
_DIRECTORY_ROWS = (
    "SELECT session, kind, value, added_ns FROM annotation"
    " WHERE kind IN ('repository', 'moved-to') ORDER BY added_ns"
)
_REMOVED = "removed"
"""The kind of a row with the hash of an annotation that was removed."""


def load_annotations(db: apsw.Connection) -> dict[SessionId, Annotations]:
    """Return the annotations of every session that has some."""
    sql = (
        "SELECT session, kind, value FROM annotation"
        " WHERE kind NOT IN (?, ?, ?) ORDER BY value"
    )
    rows = fetch_all(db, sql, (_REMOVED, *DIRECTORY_KINDS))
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


class AnnotationRow(NamedTuple):
    """An annotation, or the hash of a removed one, with the time of the change."""

    session: SessionId
    kind: str
    value: str
    added_ns: int

    @property
    def identity(self) -> tuple[str, str]:
        """Session and hash, which are the same before and after a removal."""
        is_removed = self.kind == _REMOVED
        value = self.value if is_removed else _annotation_hash(self.kind, self.value)
        return self.session, value


def load_annotation_rows(db: apsw.Connection) -> list[AnnotationRow]:
    """Return all annotations and hashes of removed ones."""
    sql = "SELECT session, kind, value, added_ns FROM annotation"
    return [AnnotationRow(*row) for row in fetch_all(db, sql)]


def merge_annotation_rows(
    db: apsw.Connection, rows: Iterable[AnnotationRow]
) -> set[SessionId]:
    """Add annotations of another archive; return the sessions that changed.

    The last change of an annotation counts. If both archives have a note, it becomes
    one note with both texts, the older one first.
    """
    before = {row.identity: row for row in load_annotation_rows(db)}
    changed = set()
    for row in rows:
        known = before.get(row.identity)
        is_newer = known is None or row.added_ns > known.added_ns
        is_changed = known is None or known.kind != row.kind
        if is_newer and is_changed and row.kind not in DIRECTORY_KINDS:
            changed.add(row.session)
        if is_newer:
            if known is not None:
                _remove(db, known.session, known.kind, known.value)
            db.execute("INSERT INTO annotation VALUES (?, ?, ?, ?)", row)
            before[row.identity] = row
    for session in changed:
        _join_notes(db, session)
    return changed


def _join_notes(db: apsw.Connection, session: SessionId) -> None:
    sql = (
        "SELECT value, added_ns FROM annotation WHERE session = ? AND kind = 'note'"
        " ORDER BY added_ns, value"
    )
    notes = fetch_all(db, sql, (session,))
    if len(notes) < 2:  # noqa: PLR2004 (nothing to join)
        return
    last = notes[-1][1]
    for value, _ in notes:
        _remove(db, session, "note", value)
        removed = (session, _REMOVED, _annotation_hash("note", value), last + 1)
        db.execute("INSERT OR REPLACE INTO annotation VALUES (?, ?, ?, ?)", removed)
    texts = [value for value, _ in notes]
    # A text that another one contains was joined before.
    kept = [
        text
        for text in texts
        if not any(text != other and text in other for other in texts)
    ]
    joined = "\n".join(kept)
    _remove(db, session, _REMOVED, _annotation_hash("note", joined))
    db.execute(
        "INSERT INTO annotation VALUES (?, 'note', ?, ?)", (session, joined, last + 1)
    )


_NO_ANNOTATIONS = Annotations()


def annotate(
    folder: Path,
    sessions: Iterable[SessionId],
    change: Callable[[Annotations], Annotations],
    *,
    lock_timeout: float = 5.0,
) -> dict[SessionId, Annotations]:
    """Change the annotations of sessions in one transaction; return the new ones."""
    changed = {}
    with writer_lock(folder, timeout=lock_timeout):
        archive_db = ArchiveDB(folder, write=True)
        try:
            with archive_db.db:
                known = load_annotations(archive_db.db)
                for session in sessions:
                    annotations = change(known.get(session, _NO_ANNOTATIONS))
                    write_annotations(archive_db.db, session, annotations)
                    changed[session] = annotations
        finally:
            archive_db.close()
    return changed


def load_directories(
    db: apsw.Connection, inferred: InferredRepositories | None = None
) -> ProjectDirectories:
    """Return what is known; the newest facts about a directory count."""
    facts: dict[str, RepositoryFacts] = {}
    moves: dict[str, str] = {}
    for directory, kind, value, _ in fetch_all(db, _DIRECTORY_ROWS):
        if kind == MOVED_TO:
            moves.pop(value, None)  # it was moved back
            moves[directory] = value
        else:
            try:
                facts[directory] = _decode_facts(value)
            except DECODE_ERRORS:
                continue
    return ProjectDirectories(facts, moves, inferred)


def has_directories(db: apsw.Connection) -> bool:
    """Whether git data of any directory is stored."""
    sql = "SELECT 1 FROM annotation WHERE kind = ?"
    return fetch_one(db, sql, (REPOSITORY,)) is not None


def store_directories(
    db: apsw.Connection,
    directories: Iterable[str],
    read: Callable[[str], RepositoryFacts | None],
) -> None:
    """Read and store what git knows about directories, if that is not fresh."""
    now = time.time_ns()
    known = {
        directory: added
        for directory, kind, _, added in fetch_all(db, _DIRECTORY_ROWS)
        if kind == REPOSITORY
    }
    rows = []
    for directory in directories:
        if now - known.get(directory, 0) < _FRESH_NS:
            continue
        facts = read(directory)
        if facts is not None:
            rows.append((directory, msgspec.json.encode(facts).decode(), now))
    if not rows:
        return
    with db:
        for directory, value, added in rows:
            sql = "DELETE FROM annotation WHERE session = ? AND kind = ?"
            db.execute(sql, (directory, REPOSITORY))
            sql = "INSERT INTO annotation VALUES (?, ?, ?, ?)"
            db.execute(sql, (directory, REPOSITORY, value, added))


def store_move(db: apsw.Connection, old: str, new: str) -> None:
    """Remember that a directory was moved; a move back replaces it."""
    with db:
        _remove_move(db, new, old)
        _remove_move(db, old, new)
        sql = "INSERT INTO annotation VALUES (?, ?, ?, ?)"
        db.execute(sql, (old, MOVED_TO, new, time.time_ns()))


def remove_move(db: apsw.Connection, old: str, new: str) -> None:
    """Forget that a directory was moved."""
    with db:
        _remove_move(db, old, new)


def _remove_move(db: apsw.Connection, old: str, new: str) -> None:
    sql = "DELETE FROM annotation WHERE session = ? AND kind = ? AND value = ?"
    db.execute(sql, (old, MOVED_TO, new))


def remove_unused_directories(db: apsw.Connection, projects: Iterable[str]) -> None:
    """Delete what is known about directories without sessions."""
    used = set(projects)
    with db:
        for directory, kind, value, _ in fetch_all(db, _DIRECTORY_ROWS):
            place = value if kind == MOVED_TO else directory
            is_used = place in used or (
                kind == MOVED_TO and any(one.startswith(f"{place}/") for one in used)
            )
            if not is_used:
                sql = (
                    "DELETE FROM annotation WHERE session = ? AND kind = ?"
                    " AND value = ?"
                )
                db.execute(sql, (directory, kind, value))
