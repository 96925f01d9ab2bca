"""The index: what is derived from the archive, and up to where it has seen it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from pathlib import Path

import msgspec
from msgspec import Struct

from recollect.model.ids import Position, SessionId
from recollect.model.nodes import Node, TitleFacts
from recollect.model.problems import Problem
from recollect.store.chunks import Kept
from recollect.store.connect import every, first, make_folder, open_index
from recollect.store.numbers import id_number
from recollect.store.press import press, unpress

__all__ = ["INDEX_FILE", "Index", "Seen", "stamp_of"]

INDEX_FILE = "index.db"
DERIVING_VERSION = 1
"""Raised whenever nodes, sessions or texts come out differently than before."""
PAGE_NODES = 512

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Node]).decode


class Seen(Struct, frozen=True):
    """How much of a source the index has seen, and the session it is booked to."""

    source: int
    generation: int
    upto: int
    session: int | None = None


def stamp_of(archive: str) -> str:
    """Return what an index must be marked with to be of use: schema, code, archive."""
    schema = _schema()
    return hashlib.sha256(
        f"{schema}\n{DERIVING_VERSION}\n{archive}".encode()
    ).hexdigest()


def _schema() -> str:
    return resources.files("recollect.store").joinpath("index.sql").read_text("utf-8")


class Index:
    """``index.db``, opened for reading or by the one writer."""

    def __init__(self, folder: Path, *, write: bool = False, stamp: str = "") -> None:
        if write:
            make_folder(folder)
        self.folder = folder
        self.db = open_index(folder / INDEX_FILE, write=write)
        if write and not self._has_schema():
            with self.db:
                self.db.execute(_schema())
                self.set_stamp("index", stamp)

    def _has_schema(self) -> bool:
        sql = "SELECT 1 FROM sqlite_schema WHERE name = 'stamp'"
        return first(self.db, sql) is not None

    def close(self) -> None:
        """Let go of the database."""
        self.db.close()

    def stamp(self, key: str) -> str | None:
        """Return a value that the index remembers about itself."""
        if not self._has_schema():
            return None
        sql = "SELECT value FROM stamp WHERE key = ?"
        row = first(self.db, sql, (key,))
        return str(row[0]) if row else None

    def set_stamp(self, key: str, value: str) -> None:
        """Remember a value."""
        self.db.execute("INSERT OR REPLACE INTO stamp VALUES (?, ?)", (key, value))

    def seen(self) -> dict[int, Seen]:
        """Return how far each source has been seen."""
        rows = self.db.execute("SELECT source, generation, upto, session FROM seen")
        return {row[0]: Seen(*row) for row in rows}

    def set_seen(self, seen: Seen) -> None:
        """Note how far a source has been seen."""
        self.db.execute(
            "INSERT OR REPLACE INTO seen VALUES (?, ?, ?, ?)",
            (seen.source, seen.generation, seen.upto, seen.session),
        )

    def number(self, session: SessionId) -> int:
        """Return the number of a session, a new one where it has none yet."""
        sql = "SELECT number FROM name WHERE session = ?"
        row = first(self.db, sql, (session,))
        if row is not None:
            return int(row[0])
        self.db.execute("INSERT INTO name (session) VALUES (?)", (session,))
        return self.db.last_insert_rowid()

    def forget_source(self, source: int) -> None:
        """Remove all that was derived from a source; its session is derived anew."""
        sql = (
            "INSERT OR IGNORE INTO dirty SELECT session FROM seen"
            " WHERE source = ? AND session IS NOT NULL"
        )
        self.db.execute(sql, (source,))
        for table in ("page", "record", "problem", "drift", "summary", "seen"):
            self.db.execute(f"DELETE FROM {table} WHERE source = ?", (source,))  # noqa: S608 (our names)

    def move_source(self, source: int, session: int) -> None:
        """Book a source to another session; both are derived anew."""
        (before,) = first(
            self.db, "SELECT session FROM seen WHERE source = ?", (source,)
        )
        self.set_dirty([before, session])
        for table in ("seen", "record"):
            sql = f"UPDATE {table} SET session = ? WHERE source = ?"  # noqa: S608
            self.db.execute(sql, (session, source))

    def add_nodes(
        self, seen: Seen, stop: int, nodes: Sequence[Node], batch: int
    ) -> list[int]:
        """Add the nodes between where a source was seen and ``stop``.

        Return the ids of their records; a node without an id has none and gets 0.
        """
        source, session = seen.source, seen.session
        self._add_page(source, seen.upto, stop, nodes)
        (last,) = first(self.db, "SELECT coalesce(max(id), 0) FROM record")
        ids = []
        rows = []
        for node in nodes:
            if node.uuid is None:
                ids.append(0)
                continue
            last += 1
            ids.append(last)
            place = node.position
            number = id_number(node.uuid)
            where = (source, place.offset, place.length)
            message = id_number(node.message) if node.message else None
            rows.append((last, number, message, session, *where, batch))
        self.db.executemany("INSERT INTO record VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
        self._add_summaries(source, nodes)
        return ids

    def _add_page(
        self, source: int, start: int, stop: int, nodes: Sequence[Node]
    ) -> None:
        last = first(
            self.db,
            "SELECT start, frame FROM page WHERE source = ?"
            " ORDER BY start DESC LIMIT 1",
            (source,),
        )
        together = list(nodes)
        if last is not None:
            before = _decode(unpress(last[1]))
            if len(before) < PAGE_NODES // 2:
                start, together = last[0], [*before, *nodes]
        self.db.execute(
            "INSERT OR REPLACE INTO page VALUES (?, ?, ?, ?)",
            (source, start, stop, press(_encode(together))[1]),
        )

    def _add_summaries(self, source: int, nodes: Iterable[Node]) -> None:
        rows = [
            (
                id_number(facts.leaf),
                source,
                node.position.offset,
                facts.leaf,
                facts.text,
            )
            for node in nodes
            if node.kind == "summary"
            and isinstance(facts := node.extra, TitleFacts)
            and facts.leaf
        ]
        if rows:
            sql = "INSERT OR REPLACE INTO summary VALUES (?, ?, ?, ?, ?)"
            self.db.executemany(sql, rows)

    def add_problems(self, source: int, problems: Iterable[Problem]) -> None:
        """Note what was odd in a stretch of a source."""
        rows = [
            (source, p.position.offset, p.position.length, p.kind, p.detail)
            for p in problems
        ]
        self.db.executemany("INSERT INTO problem VALUES (?, ?, ?, ?, ?)", rows)

    def add_drift(self, source: int, found: Iterable[tuple[str, str, str]]) -> None:
        """Count types and fields that are not known, by version."""
        self.db.executemany(
            "INSERT INTO drift VALUES (?, ?, ?, ?, 1)"
            " ON CONFLICT DO UPDATE SET count = count + 1",
            ((source, *what) for what in found),
        )

    def set_dirty(self, sessions: Iterable[int]) -> None:
        """Note that sessions must be derived anew."""
        rows = ((session,) for session in sessions)
        self.db.executemany("INSERT OR IGNORE INTO dirty VALUES (?)", rows)

    def nodes(self, source: int) -> tuple[Node, ...]:
        """Return all nodes of a source, in order."""
        sql = "SELECT frame FROM page WHERE source = ? ORDER BY start"
        frames = every(self.db, sql, (source,))
        return tuple(node for (frame,) in frames for node in _decode(unpress(frame)))

    def problems(self, kept: Kept) -> Iterator[Problem]:
        """Yield what was odd in a source, in order."""
        rows = self.db.execute(
            "SELECT kind, offset, length, detail FROM problem WHERE source = ?"
            " ORDER BY rowid",
            (kept.number,),
        )
        for kind, offset, length, detail in rows:
            place = Position(kept.id, kept.generation, offset, length)
            yield Problem(kind, place, detail)

    def records_after(self, batch: int) -> list[tuple[int, int]]:
        """Return the sources that have records of later batches, and from where."""
        return every(
            self.db,
            "SELECT source, min(offset) FROM record WHERE batch > ? GROUP BY source",
            (batch,),
        )

    def record_ids(self, source: int, batch: int) -> dict[int, int]:
        """Return the ids of a source's records of later batches, by their offset."""
        sql = "SELECT offset, id FROM record WHERE source = ? AND batch > ?"
        return dict(every(self.db, sql, (source, batch)))
