"""The index: what is derived from the archive, and up to where it has seen it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

from msgspec import Struct

from bygones.model.ids import Position, SessionId
from bygones.model.problems import Problem
from bygones.store.chunks import Kept
from bygones.store.connect import every, first, make_folder, open_index
from bygones.store.lengths import Lengths
from bygones.store.pages import Page, join_pages, page_of, read_frames
from bygones.store.press import squeeze, unpress

if TYPE_CHECKING:
    from bygones.model.nodes import Node

__all__ = ["INDEX_FILE", "Index", "Seen", "stamp_of"]

INDEX_FILE = "index.db"
DERIVING_VERSION = 18
"""Raised whenever nodes, sessions or texts come out differently than before."""
PAGE_NODES = 512


class Seen(Struct, frozen=True):
    """How much of a source the index has seen, and the session it is booked to."""

    source: int
    generation: int
    upto: int
    session: int | None = None
    sign: int = 0

    def lags(self, kept: Kept) -> bool:
        """Whether the archive has a source otherwise than it was seen."""
        return (
            self.generation != kept.generation
            or self.upto < kept.kept
            or self.sign != kept.sign
        )


def stamp_of(archive: str) -> str:
    """Return what an index must be marked with to be of use: schema, code, archive."""
    code = crc32(f"{_schema()}\n{DERIVING_VERSION}".encode())
    return f"{code:08x}{crc32(archive.encode()):08x}"


def _schema() -> str:
    return Path(__file__).with_name("index.sql").read_text("utf-8")


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
        self._next = int(self.stamp("next") or 0)
        self._pages: dict[int, tuple[int, list[Page]]] = {}
        """Nodes that wait to be written, by source, and where they begin."""
        self._lengths: dict[int, Lengths] = {}
        """Of sources that are being seen."""

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

    def count_sessions(self) -> tuple[int, int]:
        """Return how many sessions say something, and how many say nothing."""
        sql = "SELECT count(*), coalesce(sum(is_empty), 0) FROM session"
        count, empty = first(self.db, sql) or (0, 0)
        return count - empty, empty

    def seen(self) -> dict[int, Seen]:
        """Return how far each source has been seen."""
        rows = self.db.execute(
            "SELECT source, generation, upto, session, sign FROM seen"
        )
        return {row[0]: Seen(*row) for row in rows}

    def set_seen(self, seen: Seen) -> None:
        """Note how far a source has been seen."""
        self._flush_page(seen.source)
        self._flush_lengths(seen.source)
        self.db.execute(
            "INSERT OR REPLACE INTO seen VALUES (?, ?, ?, ?, ?)",
            (seen.source, seen.generation, seen.upto, seen.session, seen.sign),
        )

    def number(self, session: SessionId) -> int:
        """Return the number of a session, a new one where it has none yet."""
        sql = "SELECT number FROM name WHERE session = ?"
        row = first(self.db, sql, (session,))
        if row is not None:
            return int(row[0])
        self.db.execute("INSERT INTO name (session) VALUES (?)", (session,))
        return self.db.last_insert_rowid()

    def forget_source(self, source: int) -> list[int]:
        """Remove all that was derived from a source; return the ids of its records.

        Its session is derived anew, and so are those whose leaves it names.
        """
        own = "SELECT session FROM seen WHERE source = ? AND session IS NOT NULL"
        named = (
            "SELECT r.session FROM summary AS t JOIN record AS r ON r.uuid = t.leaf"
            " WHERE t.source = ?"
        )
        for sql in (own, named):
            self.db.execute(f"INSERT OR IGNORE INTO dirty {sql}", (source,))
        sql = "SELECT id FROM record WHERE source = ?"
        records = [row[0] for row in every(self.db, sql, (source,))]
        self.db.execute(f"INSERT INTO unsaid {sql}", (source,))
        self._pages.pop(source, None)
        self._lengths.pop(source, None)
        tables = ("page", "record", "said", "problem", "drift", "summary", "seen")
        for table in tables:
            self.db.execute(f"DELETE FROM {table} WHERE source = ?", (source,))  # noqa: S608 (our names)
        return records

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
        self, seen: Seen, page: Page, rows: Sequence[tuple[int, int | None, int, int]]
    ) -> int:
        """Add the nodes that follow what was seen of a source, and their records.

        A row has the numbers of a record and its message, its offset and its length.
        Return the id of the first record; the others are counted up from there.
        """
        source, session = seen.source, seen.session
        waiting = self._pages.setdefault(source, (seen.upto, []))[1]
        waiting.append(page)
        if sum(one.count for one in waiting) >= PAGE_NODES:
            self._flush_page(source)
        lowest = self._next + 1
        self._next += len(rows)
        self.db.executemany(
            "INSERT INTO record VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                (id_, number, message, session, source, offset, length)
                for id_, (number, message, offset, length) in enumerate(rows, lowest)
            ),
        )
        return lowest

    def _flush_page(self, source: int) -> None:
        """Write the nodes that wait, together with a small page before them."""
        start, pages = self._pages.pop(source, (0, []))
        if not any(page.count for page in pages):
            return
        last = None
        if start:
            sql = "SELECT start, nodes FROM page WHERE source = ?"
            last = first(self.db, f"{sql} ORDER BY start DESC LIMIT 1", (source,))
        if last is not None and last[1] < PAGE_NODES // 2:
            start, count = last
            sql = "SELECT frame FROM page WHERE source = ? AND start = ?"
            (frame,) = first(self.db, sql, (source, start))
            pages.insert(0, page_of(count, unpress(frame)))
        whole = join_pages(pages)
        self.db.execute(
            "INSERT OR REPLACE INTO page VALUES (?, ?, ?, ?)",
            (source, start, whole.count, squeeze(whole.raw)),
        )

    def lengths(self, source: int, *, is_new: bool) -> Lengths:
        """Return how much a source says, to be added to until it is seen."""
        found = self._lengths.get(source)
        if found is None:
            sql = "SELECT lengths FROM said WHERE source = ?"
            row = None if is_new else first(self.db, sql, (source,))
            found = self._lengths[source] = Lengths(row[0] if row else None)
        return found

    def _flush_lengths(self, source: int) -> None:
        lengths = self._lengths.pop(source, None)
        if lengths is not None:
            sql = "INSERT OR REPLACE INTO said VALUES (?, ?)"
            self.db.execute(sql, (source, lengths.packed()))

    def add_summaries(
        self, source: int, found: Iterable[tuple[int, int, str, str]]
    ) -> None:
        """Note what leaves are called: their number, where, the leaf, the words."""
        rows = [(number, source, *told) for number, *told in found]
        if rows:
            sql = "INSERT OR REPLACE INTO summary VALUES (?, ?, ?, ?, ?)"
            self.db.executemany(sql, rows)

    def add_problems(self, source: int, problems: Iterable[Problem]) -> None:
        """Note what was odd in a stretch of a source."""
        rows = [
            (source, p.position.offset, p.position.length, p.kind, p.detail)
            for p in problems
        ]
        if rows:
            self.db.executemany("INSERT INTO problem VALUES (?, ?, ?, ?, ?)", rows)

    def add_drift(self, source: int, found: Iterable[tuple[str, str, str]]) -> None:
        """Count types and fields that are not known, by version."""
        rows = [(source, *what) for what in found]
        if rows:
            self.db.executemany(
                "INSERT INTO drift VALUES (?, ?, ?, ?, 1)"
                " ON CONFLICT DO UPDATE SET count = count + 1",
                rows,
            )

    def set_dirty(self, sessions: Iterable[int]) -> None:
        """Note that sessions must be derived anew."""
        rows = ((session,) for session in sessions)
        self.db.executemany("INSERT OR IGNORE INTO dirty VALUES (?)", rows)

    def nodes(self, source: int) -> tuple[Node, ...]:
        """Return all nodes of a source, in order."""
        return tuple(self.each_node(source))

    def each_node(self, source: int) -> Iterator[Node]:
        """Yield the nodes of a source, in order."""
        return read_frames(self.frames(source))

    def frames(self, source: int) -> list[bytes]:
        """Return the nodes of a source as they are kept, in order."""
        sql = "SELECT frame FROM page WHERE source = ? ORDER BY start"
        return [frame for (frame,) in every(self.db, sql, (source,))]

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

    def level(self) -> int:
        """Return the highest record whose words are known to be in the text index."""
        return int(self.stamp("text") or 0)

    def is_level(self) -> bool:
        """Whether the text index has the words of all records, and no others."""
        return self.level() == self._next and not self.unsaid()

    def note_next(self) -> None:
        """Remember the highest record, so that no id is given twice."""
        self.set_stamp("next", str(self._next))

    def note_level(self) -> None:
        """Remember that the text index is level with the records."""
        self.set_stamp("text", str(self._next))
        self.db.execute("DELETE FROM unsaid")

    def unsaid(self) -> list[int]:
        """Return the records whose words must be taken out of the text index."""
        return [row[0] for row in every(self.db, "SELECT record FROM unsaid")]

    def records_after(self, level: int) -> list[tuple[int, int]]:
        """Return the sources that have records above a level, and from where."""
        return every(
            self.db,
            "SELECT source, min(offset) FROM record WHERE id > ? GROUP BY source",
            (level,),
        )

    def record_ids(self, source: int, level: int) -> dict[int, int]:
        """Return the ids of a source's records above a level, by their offset."""
        sql = "SELECT offset, id FROM record WHERE source = ? AND id > ?"
        return dict(every(self.db, sql, (source, level)))
