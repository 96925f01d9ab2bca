"""The archive: bytes of sources in chunks, never changed once they are whole."""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path

import apsw

from bygones.errors import ArchiveDamaged, ArchiveMissing
from bygones.model.sources import Source
from bygones.store.connect import (
    copy_to,
    damage_in,
    every,
    first,
    make_folder,
    open_archive,
    opening_error,
    reading_of,
    remove_database,
    sync_folder,
)
from bygones.store.kept import Chunk, Kept, kept_of_row
from bygones.store.migrate import LATEST, migrate
from bygones.store.press import Pressed, digest, press, unpress
from bygones.store.purged import add_signs, purged_signs

__all__ = ["ARCHIVE_FILE", "CHUNK_SIZE", "UNFINISHED", "Chunk", "Chunks", "Kept"]

ARCHIVE_FILE = "archive.db"
UNFINISHED = ".unfinished"
"""Ends the name of an archive that is being made or copied."""
CHUNK_SIZE = 512 * 1024
"""Bytes of whole lines that make a chunk; a longer line makes a chunk alone."""
_OPEN_CHUNKS = 16
_UUID = "-".join("[0-9a-fA-F]" * count for count in (8, 4, 4, 4, 12))


_KEPT = """
    SELECT s.id, s.home, s.path, s.kind, s.project, s.session, s.agent, s.generation,
           s.gone_ns, g.kept, g.size, g.mtime_ns, g.ctime_ns, g.inode,
           g.head, g.tail, g.rest
      FROM source AS s
      JOIN generation AS g ON g.source = s.id AND g.generation = s.generation
"""
_HOMES = """
    WITH RECURSIVE found (home) AS (
        SELECT min(home) FROM source
        UNION ALL
        SELECT (SELECT min(home) FROM source WHERE home > found.home) FROM found
         WHERE home IS NOT NULL
    )
    SELECT home FROM found WHERE home IS NOT NULL
"""
"""Each home once: there are few of them, and thousands of sources."""


class Chunks:
    """``archive.db``, opened for reading or by the one writer."""

    def __init__(self, folder: Path, *, write: bool = False) -> None:
        self.path = folder / ARCHIVE_FILE
        if write:
            make_folder(folder)
            if not self.path.exists():
                _make(self.path)
        self.db = open_archive(self.path, write=write, known=LATEST)
        if write:
            migrate(self.db, self.path)
            _baptise(self.db)
        self._check_version()
        self._raw = lru_cache(maxsize=_OPEN_CHUNKS)(self._open)

    def _check_version(self) -> None:
        try:
            found = int(str(self.db.pragma("user_version")))
        except apsw.Error as error:
            raise opening_error(error, self.path) from error
        if found == 0:
            # Whoever was about to make it was stopped before anything was in it.
            raise ArchiveMissing(self.path.parent)

    def close(self) -> None:
        """Let go of the database, and of what was unpacked."""
        self.db.close()
        self.forget()

    def forget(self) -> None:
        """Let go of what was unpacked: it can be unpacked again."""
        self._raw.cache_clear()

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Have all reads see the archive as it is now, whoever writes meanwhile.

        A small chunk gives way to a longer one when its source grows, and an
        unfinished line to a chunk: who finds first and reads then would miss them.
        """
        with reading_of(self.path), self.db:
            yield

    @property
    def identity(self) -> str:
        """The archive's own name, by which an index knows whose it is."""
        with reading_of(self.path):
            row = first(self.db, "SELECT archive FROM identity")
            return str(row[0]) if row else ""

    @property
    def is_empty(self) -> bool:
        """Whether no source was ever taken in."""
        return first(self.db, "SELECT 1 FROM source") is None

    def sources(self) -> Iterator[Kept]:
        """Yield all sources, also those that are gone."""
        with reading_of(self.path):
            for row in self.db.execute(f"{_KEPT} ORDER BY s.id"):
                yield kept_of_row(row)

    def total(self) -> tuple[int, int]:
        """Return how many generations are kept, and how many bytes in all of them."""
        with reading_of(self.path):
            sql = "SELECT count(*), coalesce(sum(kept), 0) FROM generation"
            return first(self.db, sql) or (0, 0)

    def reach(self) -> str:
        """Return what is another text once more or less is kept."""
        return "{}-{}".format(*self.total())

    def count_present(self, homes: Iterable[str]) -> int:
        """Return how many sources of homes were there when last looked for."""
        sql = "SELECT count(*) FROM source WHERE home = ? AND gone_ns IS NULL"
        with reading_of(self.path):
            return sum(int(first(self.db, sql, (home,))[0]) for home in homes)

    def source(self, number: int) -> Kept | None:
        """Return a source by its number."""
        with reading_of(self.path):
            row = first(self.db, f"{_KEPT} WHERE s.id = ?", (number,))
            return kept_of_row(row) if row else None

    def unnamed(self, numbers: Iterable[int]) -> list[Kept]:
        """Return those of some sources whose place does not say whose they are."""
        sql = "SELECT id FROM source WHERE session IS NULL OR session NOT GLOB ?"
        some = {row[0] for row in every(self.db, sql, (_UUID,))}
        found = (self.source(number) for number in numbers if number in some)
        return [kept for kept in found if kept is not None]

    def find(self, home: str, path: str) -> Kept | None:
        """Return a source by its place; none where that cannot be read."""
        sql = f"{_KEPT} WHERE s.home = ? AND s.path = ?"
        with suppress(ArchiveDamaged), reading_of(self.path):
            row = first(self.db, sql, (home, path))
            return kept_of_row(row) if row else None
        return None

    def named(self, id_: str) -> Kept | None:
        """Return a source by the path as it was found."""
        sql = f"{_KEPT} WHERE s.home = ? AND s.path = ?"
        with reading_of(self.path):
            for home in self.homes():
                if not home or id_.startswith(f"{home}/"):
                    path = id_[len(home) + 1 :] if home else id_
                    row = first(self.db, sql, (home, path))
                    if row:
                        return kept_of_row(row)
        return None

    def homes(self) -> list[str]:
        """Return every home of which something is kept."""
        with reading_of(self.path):
            return [str(home) for (home,) in every(self.db, _HOMES)]

    def below(self, home: str, folder: str) -> list[Kept]:
        """Return the sources whose path begins with a folder and its slash."""
        sql = f"{_KEPT} WHERE s.home = ? AND s.path >= ? AND s.path < ?"
        end = folder[:-1] + chr(ord("/") + 1)
        with suppress(ArchiveDamaged), reading_of(self.path):
            return [
                kept_of_row(row) for row in every(self.db, sql, (home, folder, end))
            ]
        return []

    def add_source(self, source: Source) -> Kept:
        """Take up a source that was never seen before, with nothing of it yet."""
        self.db.execute(
            "INSERT INTO source (home, path, kind, project, session, agent, generation)"
            " VALUES (?, ?, ?, ?, ?, ?, 0)",
            (
                source.home,
                source.path,
                source.kind.value,
                source.project,
                source.session,
                source.agent,
            ),
        )
        number = self.db.last_insert_rowid()
        self._begin(number, 0)
        return Kept(
            number=number,
            home=source.home,
            path=source.path,
            kind=source.kind,
            project=source.project,
            session=source.session,
            agent=source.agent,
        )

    def begin_anew(self, kept: Kept) -> Kept:
        """Begin a new generation of a source; the old one stays as it is."""
        generation = kept.generation + 1
        self.db.execute(
            "UPDATE source SET generation = ?, gone_ns = NULL WHERE id = ?",
            (generation, kept.number),
        )
        self._begin(kept.number, generation)
        return self.source(kept.number) or kept

    def _begin(self, number: int, generation: int) -> None:
        self.db.execute(
            "INSERT INTO generation VALUES (?, ?, 0, 0, 0, 0, 0, x'', x'', x'')",
            (number, generation),
        )

    def move(self, kept: Kept, source: Source) -> None:
        """Give a source the place where its file was found again."""
        self.db.execute(
            "UPDATE source SET home = ?, path = ?, kind = ?, project = ?, session = ?,"
            " agent = ?, gone_ns = NULL WHERE id = ?",
            (
                source.home,
                source.path,
                source.kind.value,
                source.project,
                source.session,
                source.agent,
                kept.number,
            ),
        )

    def set_home(self, kept: Kept) -> None:
        """Note where the home of a source is now."""
        sql = "UPDATE source SET home = ? WHERE id = ?"
        self.db.execute(sql, (kept.home, kept.number))

    def set_gone(self, numbers: Iterable[int], when: int | None) -> None:
        """Note that files are not there any more, or that they are back."""
        self.db.executemany(
            "UPDATE source SET gone_ns = ? WHERE id = ?",
            ((when, number) for number in numbers),
        )

    def set_mark(self, kept: Kept) -> None:
        """Note how far a source was read and what its file looked like."""
        self.db.execute(
            "UPDATE generation SET kept = ?, size = ?, mtime_ns = ?, ctime_ns = ?,"
            " inode = ?, head = ?, tail = ?, rest = ?"
            " WHERE source = ? AND generation = ?",
            (
                kept.kept,
                kept.size,
                kept.mtime_ns,
                kept.ctime_ns,
                kept.inode,
                kept.head,
                kept.tail,
                kept.rest,
                kept.number,
                kept.generation,
            ),
        )

    def add_chunk(self, kept: Kept, start: int, stop: int, pressed: Pressed) -> None:
        """Store compressed bytes of a source."""
        self.db.execute(
            "INSERT INTO chunk (source, generation, start, stop, hash, frame)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (kept.number, kept.generation, start, stop, *pressed),
        )

    def take_last_chunk(self, kept: Kept) -> tuple[int, bytes]:
        """Remove the last chunk if it is small; return where it began and its bytes.

        Otherwise return where the next chunk begins, and nothing.
        """
        row = first(
            self.db,
            "SELECT id, start, stop, hash FROM chunk"
            " WHERE source = ? AND generation = ? ORDER BY start DESC LIMIT 1",
            (kept.number, kept.generation),
        )
        if row is None or row[2] - row[1] >= CHUNK_SIZE // 2:
            return kept.kept, b""
        raw = self._raw(row[0], row[3])
        self.db.execute("DELETE FROM chunk WHERE id = ?", (row[0],))
        return int(row[1]), raw

    def set_fragment(self, kept: Kept, start: int, raw: bytes) -> None:
        """Store the unfinished last line of a source, or forget the one there was."""
        key = (kept.number, kept.generation)
        if not raw:
            sql = "DELETE FROM fragment WHERE source = ? AND generation = ?"
            self.db.execute(sql, key)
            return
        self.db.execute(
            "INSERT OR REPLACE INTO fragment VALUES (?, ?, ?, ?, ?)",
            (*key, start, *press(raw)),
        )

    def fragment(self, number: int, generation: int) -> bytes:
        """Return the unfinished last line of a source."""
        sql = "SELECT hash, frame FROM fragment WHERE source = ? AND generation = ?"
        with reading_of(self.path):
            row = first(self.db, sql, (number, generation))
        return (
            self._sound(f"fragment of source {number}", row[0], row[1]) if row else b""
        )

    def chunks(
        self, number: int, generation: int, *, start: int = 0
    ) -> Iterator[tuple[Chunk, bytes]]:
        """Yield the chunks of a source that reach beyond ``start``, with bytes."""
        for chunk in self._places(number, generation, start):
            yield chunk, self._raw(chunk.id, chunk.hash)

    def tried(
        self, number: int, generation: int, *, start: int = 0
    ) -> Iterator[tuple[Chunk, bytes | None]]:
        """Yield chunks with their bytes; one that is damaged has none.

        Where it cannot even be read which there are, that is one without an end.
        """
        try:
            places = self._places(number, generation, start)
        except ArchiveDamaged:
            yield Chunk(0, number, generation, start, sys.maxsize, b""), None
            return
        for chunk in places:
            try:
                raw = self._raw(chunk.id, chunk.hash)
            except ArchiveDamaged:
                yield chunk, None
            else:
                yield chunk, raw

    def _places(self, number: int, generation: int, start: int = 0) -> list[Chunk]:
        sql = (
            "SELECT id, source, generation, start, stop, hash FROM chunk"
            " WHERE source = ? AND generation = ? AND stop > ? ORDER BY start"
        )
        with reading_of(self.path):
            rows = every(self.db, sql, (number, generation, start))
        return [Chunk(*row) for row in rows]

    def hashes(self, number: int, generation: int) -> list[tuple[int, int, bytes]]:
        """Return where a source's chunks begin and stop, and their hashes, in order."""
        return every(
            self.db,
            "SELECT start, stop, hash FROM chunk WHERE source = ? AND generation = ?"
            " ORDER BY start",
            (number, generation),
        )

    def read(self, number: int, generation: int, offset: int, length: int) -> bytes:
        """Return bytes of a source; fewer where the archive has fewer."""
        parts = []
        with self.at_once():
            rows = every(
                self.db,
                "SELECT id, hash, start FROM chunk WHERE source = ? AND generation = ?"
                " AND start < ? AND stop > ? ORDER BY start",
                (number, generation, offset + length, offset),
            )
            for id_, sign, start in rows:
                raw = self._raw(id_, sign)
                parts.append(raw[max(offset - start, 0) : offset + length - start])
        return b"".join(parts)

    def _open(self, id_: int, sign: bytes) -> bytes:
        """Return the bytes of a chunk.

        It is asked for by its hash too: once a chunk has given way to a longer one,
        its id is given to another.
        """
        try:
            sql = "SELECT frame, stop - start FROM chunk WHERE id = ?"
            row = first(self.db, sql, (id_,))
        except apsw.Error as error:
            raise ArchiveDamaged(self.path, f"chunk {id_}: {error}") from error
        if row is None:
            raise ArchiveDamaged(self.path, f"chunk {id_} is missing")
        return self._sound(f"chunk {id_}", sign, *row)

    def _sound(self, what: str, expected: bytes, frame: bytes, size: int = 0) -> bytes:
        try:
            raw = unpress(frame, size=size)
        except Exception as error:
            raise ArchiveDamaged(self.path, f"{what}: {error}") from error
        if digest(raw) != expected:
            raise ArchiveDamaged(self.path, f"{what} has another hash")
        return raw

    def erase(self, kept: Kept) -> None:
        """Remove a source with all its generations, and refuse it from now on."""
        for table in ("chunk", "fragment", "generation"):
            sql = f"DELETE FROM {table} WHERE source = ?"  # noqa: S608 (our names)
            self.db.execute(sql, (kept.number,))
        self.db.execute("DELETE FROM source WHERE id = ?", (kept.number,))
        if kept.session is not None:
            sql = "DELETE FROM annotation WHERE session = ?"
            self.db.execute(sql, (kept.session,))
        add_signs(self.db, purged_signs(kept.source))

    def pack(self) -> bool:
        """Write the database anew without free pages, and empty its log.

        Return whether that was done: while somebody reads, old pages stay in the file
        until the last reader has gone.
        """
        self._raw.cache_clear()
        self.db.execute("VACUUM")
        return self.empty_log()

    def empty_log(self) -> bool:
        """Write all of the log to the database, and return whether that was done."""
        row = first(self.db, "PRAGMA wal_checkpoint(TRUNCATE)")
        return not row[0]

    def check(self) -> str:
        """Return what SQLite finds wrong with the file, or "ok"."""
        return damage_in(self.db) or "ok"

    def raw_size(self) -> int:
        """Return how many bytes all chunks hold when they are not compressed."""
        sql = "SELECT coalesce(sum(stop - start), 0) FROM chunk"
        return int(first(self.db, sql)[0])

    def kept_size(self) -> int:
        """Return how many bytes are in chunks, by the word of all generations."""
        sql = "SELECT coalesce(sum(kept), 0) FROM generation"
        with reading_of(self.path):
            return int(first(self.db, sql)[0])

    def kept_of(self, number: int, generation: int) -> int:
        """Return how many bytes of a generation are in chunks, by its own word."""
        sql = "SELECT kept FROM generation WHERE source = ? AND generation = ?"
        with reading_of(self.path):
            row = first(self.db, sql, (number, generation))
        return int(row[0]) if row else 0

    def checked(self, number: int, generation: int) -> Iterator[tuple[Chunk, str]]:
        """Yield the chunks of a source, each with what is wrong with it."""
        for chunk in self._places(number, generation):
            try:
                raw = self._open(chunk.id, chunk.hash)
            except ArchiveDamaged as error:
                yield chunk, error.detail
                continue
            is_whole = len(raw) == chunk.stop - chunk.start
            yield chunk, "" if is_whole else "its length is wrong"

    def backup(self, path: Path) -> None:
        """Write a copy of the archive that is consistent, whoever writes meanwhile."""
        copy_to(self.db, path)


def _make(path: Path) -> None:
    """Make an archive beside its place, where it is put once it can be told from none.

    So a file without a byte is never one that somebody was about to make.
    """
    beside = path.with_name(f"{path.name}{UNFINISHED}")
    remove_database(beside)
    db = open_archive(beside, write=True, known=LATEST)
    try:
        migrate(db, beside)
        _baptise(db)
        db.pragma("journal_mode", "DELETE")
    finally:
        db.close()
    remove_database(path)  # logs of one that somebody took away would be read into it
    beside.replace(path)
    sync_folder(path.parent)


def _baptise(db: apsw.Connection) -> None:
    if first(db, "SELECT 1 FROM identity") is None:
        with db:
            sql = "INSERT INTO identity VALUES (?, ?)"
            db.execute(sql, (uuid.uuid4().hex, time.time_ns()))
