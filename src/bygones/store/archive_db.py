"""`archive.db`: the sources, all their bytes, annotations and purged names."""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from sys import intern
from typing import Any
from zlib import crc32

import apsw
from msgspec import Struct, structs

from bygones.errors import ArchiveDamaged, ArchiveNotFound, BytesLost
from bygones.model.base import (
    AgentId,
    ProjectKey,
    SessionId,
    SourceFile,
    SourceId,
    SourceKind,
)
from bygones.store.compression import (
    MARK_SIZE,
    ChunkHead,
    HashedFrame,
    compress_in_parts,
    decompress,
    decompress_blob,
    load_accepted_ns,
    sha256_digest,
)
from bygones.store.connect import (
    LATEST_VERSION,
    copy_database,
    error_on_open,
    fetch_all,
    fetch_one,
    file_inode,
    find_corruption,
    fsync_folder,
    is_immutable,
    make_private_folder,
    migrate,
    open_archive_db,
    remove_database,
    translate_read_errors,
)

Row = tuple[Any, ...]
"""A row of a query."""


class StoredSource(Struct, frozen=True):
    """A source in the archive: how much of it is stored, and its state when last read."""

    number: int
    home: str
    path: str
    kind: SourceKind
    project: ProjectKey | None = None
    session: SessionId | None = None
    agent: AgentId | None = None
    generation: int = 0
    gone_ns: int | None = None
    stored_bytes: int = 0
    """Bytes in chunks, which contain whole lines."""
    size: int = 0
    mtime_ns: int = 0
    ctime_ns: int = 0
    inode: int = 0
    head: bytes = b""
    tail: bytes = b""
    rest: bytes = b""

    @property
    def id(self) -> SourceId:
        """The path of the file when it was found."""
        return SourceId(f"{self.home}/{self.path}" if self.home else self.path)

    @property
    def has_fragment(self) -> bool:
        """Whether an unfinished last line follows the chunks."""
        return self.size != self.stored_bytes

    @property
    def state_checksum(self) -> int:
        """A checksum that changes when the file is moved, touched or truncated."""
        state = f"{self.home}/{self.path} {self.size} {self.mtime_ns} "
        return crc32(state.encode("utf-8", "replace") + self.rest)

    @property
    def source(self) -> SourceFile:
        """The source as of the last scan."""
        return SourceFile(
            id=self.id,
            home=self.home,
            relative_path=self.path,
            kind=self.kind,
            size=self.size,
            mtime_ns=self.mtime_ns,
            inode=self.inode,
            ctime_ns=self.ctime_ns,
            project_key=self.project,
            session_id=self.session,
            agent_id=self.agent,
        )


class Chunk(Struct, frozen=True):
    """The location of some bytes of a source in the archive."""

    id: int
    source: int
    generation: int
    start: int
    stop: int
    hash: bytes
    lost_ns: int = 0
    """When the user accepted that its bytes are lost, if that was found by reading."""


def stored_source_from_row(row: Row) -> StoredSource:
    """Return a source from its row, whose columns have the order of the fields.

    Homes and projects are interned: a hundred thousand sources share a few of them.
    """
    number, home, path, kind, project, *others = row
    key = ProjectKey(intern(project)) if project is not None else None
    return StoredSource(number, intern(home), path, SourceKind(kind), key, *others)


ARCHIVE_FILE = "archive.db"
UNFINISHED_SUFFIX = ".unfinished"
"""Suffix of an archive file that is being created or copied."""
CHUNK_SIZE = 512 * 1024
"""Bytes of whole lines in a chunk; a longer line is a chunk of its own."""
_CHUNK_CACHE_SIZE = 16
_NO_CHUNK = Chunk(0, 0, 0, 0, 0, b"")
_UUID_GLOB = "-".join("[0-9a-fA-F]" * count for count in (8, 4, 4, 4, 12))


_SELECT_SOURCES = """
    SELECT s.id, s.home, s.path, s.kind, s.project, s.session, s.agent, s.generation,
           s.gone_ns, g.kept, g.size, g.mtime_ns, g.ctime_ns, g.inode,
           g.head, g.tail, g.rest
      FROM source AS s
      JOIN generation AS g ON g.source = s.id AND g.generation = s.generation
"""
_SELECT_HOMES = """
    WITH RECURSIVE found (home) AS (
        SELECT min(home) FROM source
        UNION ALL
        SELECT (SELECT min(home) FROM source WHERE home > found.home) FROM found
         WHERE home IS NOT NULL
    )
    SELECT home FROM found WHERE home IS NOT NULL
"""
"""Selects each home once, by skipping through the index: there are few of them."""


class ArchiveDB:
    """`archive.db`, opened for reading or by the only writer."""

    def __init__(self, folder: Path, *, write: bool = False) -> None:
        self.path = folder / ARCHIVE_FILE
        if write:
            make_private_folder(folder)
            if not self.path.exists():
                _create_archive(self.path)
        self.db = open_archive_db(self.path, write=write, latest_version=LATEST_VERSION)
        if write:
            migrate(self.db, self.path)
            _ensure_identity(self.db)
        self._check_version()
        self._inode = file_inode(self.path)
        self._known_homes: list[str] = []
        """Homes in which `source_by_id` looks first."""
        self._cached_chunk = lru_cache(maxsize=_CHUNK_CACHE_SIZE)(self.load_chunk)
        self._chunk_heads = lru_cache(maxsize=_CHUNK_CACHE_SIZE)(self._open_chunk_head)

    def _check_version(self) -> None:
        try:
            found = int(str(self.db.pragma("user_version")))
        except apsw.Error as error:
            raise error_on_open(error, self.path) from error
        if found == 0:
            # The process that created it was stopped before the first migration.
            raise ArchiveNotFound(self.path.parent)

    def close(self) -> None:
        self.db.close()
        self.clear_cache()

    def shows_changes(self) -> bool:
        """Whether reads show what others write to the file that is there now."""
        is_same_file = file_inode(self.path) == self._inode is not None
        return is_same_file and not is_immutable(self.db)

    def clear_cache(self) -> None:
        """Drop decompressed chunks."""
        self._cached_chunk.cache_clear()
        self._chunk_heads.cache_clear()

    @contextmanager
    def read_transaction(self) -> Iterator[None]:
        """Let all reads see the same state, even while others write.

        A small chunk is replaced by a longer one when its source grows, and an
        unfinished line becomes part of a chunk: separate reads could miss both.
        """
        with translate_read_errors(self.path), self.db:
            yield

    @property
    def archive_id(self) -> str:
        """The id of the archive, which its index refers to."""
        with translate_read_errors(self.path):
            row = fetch_one(self.db, "SELECT archive FROM identity")
            return str(row[0]) if row else ""

    @property
    def is_empty(self) -> bool:
        """Whether no source was ever imported."""
        return fetch_one(self.db, "SELECT 1 FROM source") is None

    def sources(self) -> Iterator[StoredSource]:
        """Yield all sources, including those whose files are gone."""
        with translate_read_errors(self.path):
            for row in self.db.execute(f"{_SELECT_SOURCES} ORDER BY s.id"):
                yield stored_source_from_row(row)

    def sources_of_kind(self, kind: SourceKind) -> list[StoredSource]:
        """Return all sources of a kind."""
        sql = f"{_SELECT_SOURCES} WHERE s.kind = ? ORDER BY s.id"
        with translate_read_errors(self.path):
            return list(map(stored_source_from_row, fetch_all(self.db, sql, (kind,))))

    def count_generations(self) -> tuple[int, int]:
        """Return the number of generations and of the bytes stored in them."""
        with translate_read_errors(self.path):
            sql = "SELECT count(*), coalesce(sum(kept), 0) FROM generation"
            return fetch_one(self.db, sql) or (0, 0)

    def content_fingerprint(self) -> str:
        """Return a text that changes when bytes are added or removed."""
        return "{}-{}".format(*self.count_generations())

    def count_present(self, homes: Iterable[str]) -> int:
        """Return how many sources of homes still had a file at the last scan."""
        sql = "SELECT count(*) FROM source WHERE home = ? AND gone_ns IS NULL"
        with translate_read_errors(self.path):
            return sum(int(fetch_one(self.db, sql, (home,))[0]) for home in homes)

    def source(self, number: int) -> StoredSource | None:
        with translate_read_errors(self.path):
            row = fetch_one(self.db, f"{_SELECT_SOURCES} WHERE s.id = ?", (number,))
            return stored_source_from_row(row) if row else None

    def sources_without_session_id(self, numbers: Iterable[int]) -> list[StoredSource]:
        """Return the sources whose path doesn't contain a session id."""
        sql = "SELECT id FROM source WHERE session IS NULL OR session NOT GLOB ?"
        unnamed = {row[0] for row in fetch_all(self.db, sql, (_UUID_GLOB,))}
        sources = (self.source(number) for number in numbers if number in unnamed)
        return [source for source in sources if source is not None]

    def find_source(self, home: str, path: str) -> StoredSource | None:
        """Return a source by home and path; `None` if it can't be read."""
        sql = f"{_SELECT_SOURCES} WHERE s.home = ? AND s.path = ?"
        with suppress(ArchiveDamaged), translate_read_errors(self.path):
            row = fetch_one(self.db, sql, (home, path))
            return stored_source_from_row(row) if row else None
        return None

    def source_by_id(self, id_: str) -> StoredSource | None:
        """Return a source by the path of its file."""
        with translate_read_errors(self.path):
            found = self._find_in_homes(id_)
            if found is None:  # it may be in a home that was added since
                self._known_homes = self.homes()
                found = self._find_in_homes(id_)
        return found

    def _find_in_homes(self, id_: str) -> StoredSource | None:
        sql = f"{_SELECT_SOURCES} WHERE s.home = ? AND s.path = ?"
        for home in self._known_homes:
            if not home or id_.startswith(f"{home}/"):
                path = id_[len(home) + 1 :] if home else id_
                row = fetch_one(self.db, sql, (home, path))
                if row:
                    return stored_source_from_row(row)
        return None

    def homes(self) -> list[str]:
        """Return every home with stored sources."""
        with translate_read_errors(self.path):
            return [str(home) for (home,) in fetch_all(self.db, _SELECT_HOMES)]

    def sources_below(self, home: str, folder: str) -> list[StoredSource]:
        """Return the sources in a folder, which ends with a slash."""
        sql = f"{_SELECT_SOURCES} WHERE s.home = ? AND s.path >= ? AND s.path < ?"
        end = folder[:-1] + chr(ord("/") + 1)
        with suppress(ArchiveDamaged), translate_read_errors(self.path):
            return [
                stored_source_from_row(row)
                for row in fetch_all(self.db, sql, (home, folder, end))
            ]
        return []

    def add_source(self, source: SourceFile) -> StoredSource:
        """Add a source without any bytes."""
        self.db.execute(
            "INSERT INTO source (home, path, kind, project, session, agent, generation)"
            " VALUES (?, ?, ?, ?, ?, ?, 0)",
            (
                source.home,
                source.relative_path,
                source.kind.value,
                source.project_key,
                source.session_id,
                source.agent_id,
            ),
        )
        number = self.db.last_insert_rowid()
        self._add_generation(number, 0)
        return StoredSource(
            number=number,
            home=source.home,
            path=source.relative_path,
            kind=source.kind,
            project=source.project_key,
            session=source.session_id,
            agent=source.agent_id,
        )

    def start_generation(self, stored_source: StoredSource) -> StoredSource:
        """Start a new generation of a source; the old one stays unchanged."""
        generation = stored_source.generation + 1
        self.db.execute(
            "UPDATE source SET generation = ?, gone_ns = NULL WHERE id = ?",
            (generation, stored_source.number),
        )
        self._add_generation(stored_source.number, generation)
        return self.source(stored_source.number) or stored_source

    def _add_generation(self, number: int, generation: int) -> None:
        self.db.execute(
            "INSERT INTO generation VALUES (?, ?, 0, 0, 0, 0, 0, x'', x'', x'')",
            (number, generation),
        )

    def move_source(self, stored_source: StoredSource, source: SourceFile) -> None:
        """Store the new path of a source whose file was moved."""
        self.db.execute(
            "UPDATE source SET home = ?, path = ?, kind = ?, project = ?, session = ?,"
            " agent = ?, gone_ns = NULL WHERE id = ?",
            (
                source.home,
                source.relative_path,
                source.kind.value,
                source.project_key,
                source.session_id,
                source.agent_id,
                stored_source.number,
            ),
        )

    def set_home(self, stored_source: StoredSource) -> None:
        sql = "UPDATE source SET home = ? WHERE id = ?"
        self.db.execute(sql, (stored_source.home, stored_source.number))

    def set_gone(self, numbers: Iterable[int], gone_ns: int | None) -> None:
        """Record when files disappeared, or with `None` that they are back."""
        self.db.executemany(
            "UPDATE source SET gone_ns = ? WHERE id = ?",
            ((gone_ns, number) for number in numbers),
        )

    def save_read_state(self, stored_source: StoredSource) -> None:
        """Record how much of a source was read, and the state of its file."""
        self.db.execute(
            "UPDATE generation SET kept = ?, size = ?, mtime_ns = ?, ctime_ns = ?,"
            " inode = ?, head = ?, tail = ?, rest = ?"
            " WHERE source = ? AND generation = ?",
            (
                stored_source.stored_bytes,
                stored_source.size,
                stored_source.mtime_ns,
                stored_source.ctime_ns,
                stored_source.inode,
                stored_source.head,
                stored_source.tail,
                stored_source.rest,
                stored_source.number,
                stored_source.generation,
            ),
        )

    def add_chunk(
        self, stored_source: StoredSource, start: int, stop: int, frame: HashedFrame
    ) -> None:
        self.db.execute(
            "INSERT INTO chunk (source, generation, start, stop, hash, frame)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (stored_source.number, stored_source.generation, start, stop, *frame),
        )

    def delete_chunk(self, chunk: int) -> None:
        self.db.execute("DELETE FROM chunk WHERE id = ?", (chunk,))

    def pop_small_last_chunk(self, stored_source: StoredSource) -> tuple[int, bytes]:
        """Delete the last chunk if it is small; return its offset and bytes.

        Otherwise return the offset of the next chunk, and no bytes.
        """
        row = fetch_one(
            self.db,
            "SELECT id, start, stop, hash FROM chunk"
            " WHERE source = ? AND generation = ? ORDER BY start DESC LIMIT 1",
            (stored_source.number, stored_source.generation),
        )
        if row is None or row[2] - row[1] >= CHUNK_SIZE // 2:
            return stored_source.stored_bytes, b""
        raw = self._cached_chunk(row[0], row[3])
        self.delete_chunk(row[0])
        return int(row[1]), raw

    def set_fragment(
        self, stored_source: StoredSource, start: int, data: bytes
    ) -> None:
        """Store the unfinished last line of a source, or delete it if empty."""
        key = (stored_source.number, stored_source.generation)
        if not data:
            sql = "DELETE FROM fragment WHERE source = ? AND generation = ?"
            self.db.execute(sql, key)
            return
        # It may be a giant line: compressed twice, its frame is never in memory, of
        # which SQLite would make two copies.
        size = sum(map(len, compress_in_parts(data)))
        self.db.execute(
            "INSERT OR REPLACE INTO fragment VALUES (?, ?, ?, ?, ?)",
            (*key, start, sha256_digest(data), apsw.zeroblob(size)),
        )
        row = self.db.last_insert_rowid()
        with self.db.blob_open("main", "fragment", "frame", row, True) as blob:
            for part in compress_in_parts(data):
                blob.write(part)

    def fragment(self, number: int, generation: int) -> bytes:
        """Return the unfinished last line of a source."""
        what = f"fragment of source {number}"
        sql = "SELECT rowid, hash FROM fragment WHERE source = ? AND generation = ?"
        with translate_read_errors(self.path), self.db:  # the row may be replaced
            row = fetch_one(self.db, sql, (number, generation))
            if row is None:
                return b""
            with self.db.blob_open("main", "fragment", "frame", row[0], False) as blob:
                self._refuse_lost(what, blob.read(MARK_SIZE))
                blob.seek(0)
                try:
                    raw = decompress_blob(blob)
                except apsw.Error:
                    raise
                except Exception as error:
                    raise ArchiveDamaged(self.path, f"{what}: {error}") from error
        return self._verify(what, row[1], raw)

    def read_chunks(
        self, number: int, generation: int, *, start: int = 0, stop: int = sys.maxsize
    ) -> Iterator[tuple[Chunk, bytes]]:
        """Yield the chunks of a source between two offsets, with their bytes.

        Raises `ArchiveDamaged` where a chunk is damaged or its row is missing.
        """
        # Read before the chunks, which others may add to.
        stored = self.generation_stored_bytes(number, generation)
        end = start
        for chunk in self._load_chunk_rows(number, generation, start, stop):
            self._refuse_gap(number, end, chunk.start)
            yield chunk, self._cached_chunk(chunk.id, chunk.hash)
            end = chunk.stop
        self._refuse_gap(number, end, min(stored, stop))

    def _refuse_gap(self, number: int, end: int, start: int) -> None:
        if end < start:
            detail = f"source {number} has no bytes {end} to {start}"
            raise ArchiveDamaged(self.path, detail)

    def try_read_chunks(
        self, number: int, generation: int, *, start: int = 0
    ) -> Iterator[tuple[Chunk, bytes | None]]:
        """Yield chunks with their bytes, or `None` instead of damaged bytes.

        They are not cached: each is used once, and those of a giant line are large.
        If not even the list of chunks can be read, yield one damaged chunk without an
        end.
        """
        try:
            chunks = self._load_chunk_rows(number, generation, start)
        except ArchiveDamaged:
            yield Chunk(0, number, generation, start, sys.maxsize, b""), None
            return
        for chunk in chunks:
            try:
                raw = self.load_chunk(chunk.id, chunk.hash)
            except BytesLost as error:
                yield structs.replace(chunk, lost_ns=error.accepted_ns), None
            except ArchiveDamaged:
                yield chunk, None
            else:
                yield chunk, raw

    def _load_chunk_rows(
        self, number: int, generation: int, start: int = 0, stop: int = sys.maxsize
    ) -> list[Chunk]:
        sql = (
            "SELECT id, source, generation, start, stop, hash FROM chunk WHERE"
            " source = ? AND generation = ? AND start < ? AND stop > ? ORDER BY start"
        )
        with translate_read_errors(self.path):
            rows = fetch_all(self.db, sql, (number, generation, stop, start))
        return [Chunk(*row) for row in rows]

    def chunk_hashes(
        self, number: int, generation: int
    ) -> list[tuple[int, int, bytes]]:
        """Return start, stop and hash of a source's chunks, in order."""
        sql = (
            "SELECT start, stop, hash FROM chunk WHERE source = ? AND generation = ?"
            " ORDER BY start"
        )
        with translate_read_errors(self.path):
            return fetch_all(self.db, sql, (number, generation))

    def accepted_losses(self, number: int, generation: int) -> set[int]:
        """Return the offsets of chunks that are accepted as lost."""
        sql = (
            "SELECT start, substr(frame, 1, ?) FROM chunk"
            " WHERE source = ? AND generation = ?"
        )
        rows = fetch_all(self.db, sql, (MARK_SIZE, number, generation))
        return {start for start, head in rows if load_accepted_ns(head)}

    def read_bytes(
        self, number: int, generation: int, offset: int, length: int
    ) -> bytes:
        """Return bytes of a source; fewer if they reach beyond its end.

        Raises `ArchiveDamaged` if any of them is damaged or missing.
        """
        end = offset + length
        with self.read_transaction():
            chunks = self.read_chunks(number, generation, start=offset, stop=end)
            return b"".join(
                raw[max(offset - chunk.start, 0) : end - chunk.start]
                for chunk, raw in chunks
            )

    def read_ranges(
        self, number: int, generation: int, ranges: Sequence[tuple[int, int]]
    ) -> list[bytes]:
        """Return the bytes of ranges (offset and length) that are in order.

        Each chunk is read once. A range in a damaged chunk is b"".
        """
        if not ranges:
            return []
        first, last = ranges[0][0], sum(ranges[-1])
        found = []
        with self.read_transaction():
            chunks = self._load_chunk_rows(number, generation, first, last)
            at = 0
            for offset, length in ranges:
                while at < len(chunks) and chunks[at].stop <= offset:
                    at += 1
                try:
                    chunk = chunks[at] if at < len(chunks) else _NO_CHUNK
                    if chunk.start <= offset and offset + length <= chunk.stop:
                        raw = self._cached_chunk(chunk.id, chunk.hash)
                        start = offset - chunk.start
                        found.append(raw[start : start + length])
                    else:
                        found.append(
                            self.read_bytes(number, generation, offset, length)
                        )
                except ArchiveDamaged:
                    found.append(b"")
        return found

    def read_unchecked(
        self, number: int, generation: int, offset: int, length: int
    ) -> bytes:
        """Return the same faster: they may be damaged, so compare a checksum.

        A chunk is decompressed only up to these bytes, and its hash isn't checked. For a
        search of ten sessions with two hits each, that takes a third of the time.
        """
        end = offset + length
        chunks = self._load_chunk_rows(number, generation, offset, end)
        chunk = chunks[0] if chunks else _NO_CHUNK
        if not chunk.start <= offset < end <= chunk.stop:
            return self.read_bytes(number, generation, offset, length)
        try:
            head = self._chunk_heads(chunk.id, chunk.hash)
            return head.read(offset - chunk.start, length)
        except ArchiveDamaged:
            raise
        except Exception as error:
            raise ArchiveDamaged(self.path, f"chunk {chunk.id}: {error}") from error

    def _open_chunk_head(self, id_: int, expected_hash: bytes) -> ChunkHead:
        del expected_hash  # part of the key of the cache
        with translate_read_errors(self.path):
            row = fetch_one(self.db, "SELECT frame FROM chunk WHERE id = ?", (id_,))
        if row is None:
            raise ArchiveDamaged(self.path, f"chunk {id_} is missing")
        return ChunkHead(row[0])

    def load_chunk(self, id_: int, expected_hash: bytes) -> bytes:
        """Return the bytes of a chunk.

        The hash is part of the cache key, because SQLite reuses the ids of deleted
        chunks.
        """
        try:
            sql = "SELECT frame, stop - start FROM chunk WHERE id = ?"
            row = fetch_one(self.db, sql, (id_,))
        except apsw.Error as error:
            raise ArchiveDamaged(self.path, f"chunk {id_}: {error}") from error
        if row is None:
            raise ArchiveDamaged(self.path, f"chunk {id_} is missing")
        return self.decompress_verified(f"chunk {id_}", expected_hash, *row)

    def decompress_verified(
        self, what: str, expected: bytes, frame: bytes, size: int = 0
    ) -> bytes:
        self._refuse_lost(what, frame)
        try:
            raw = decompress(frame, expected_size=size)
        except Exception as error:
            raise ArchiveDamaged(self.path, f"{what}: {error}") from error
        return self._verify(what, expected, raw)

    def _refuse_lost(self, what: str, frame: bytes) -> None:
        if accepted_ns := load_accepted_ns(frame):
            day = datetime.fromtimestamp(accepted_ns // 10**9, UTC).date()
            detail = f"{what}, accepted on {day}"
            raise BytesLost(self.path, detail, accepted_ns)

    def _verify(self, what: str, expected: bytes, raw: bytes) -> bytes:
        if sha256_digest(raw) != expected:
            raise ArchiveDamaged(self.path, f"{what} has a different hash")
        return raw

    def fragment_range(
        self, number: int, generation: int
    ) -> tuple[int, int, bytes] | None:
        """Return start, end and hash of the unfinished last line of a source."""
        sql = (
            "SELECT f.start, g.size, f.hash FROM fragment AS f"
            " JOIN generation AS g USING (source, generation)"
            " WHERE source = ? AND generation = ?"
        )
        with translate_read_errors(self.path):
            row = fetch_one(self.db, sql, (number, generation))
        return (int(row[0]), int(row[1]), row[2]) if row else None

    def erase_source(self, stored_source: StoredSource) -> None:
        """Delete a source with all its generations, and refuse it from now on."""
        for table in ("chunk", "fragment", "generation"):
            sql = f"DELETE FROM {table} WHERE source = ?"  # noqa: S608 (our names)
            self.db.execute(sql, (stored_source.number,))
        self.db.execute("DELETE FROM source WHERE id = ?", (stored_source.number,))
        if stored_source.session is not None:
            sql = "DELETE FROM annotation WHERE session = ?"
            self.db.execute(sql, (stored_source.session,))
        add_purged_hashes(self.db, hashes_of_source(stored_source.source))

    def vacuum(self) -> bool:
        """Rewrite the database without free pages, and truncate its log.

        Returns whether that succeeded: while others read, old pages stay in the file.
        """
        self.clear_cache()
        self.db.execute("VACUUM")
        return self.checkpoint_wal()

    def checkpoint_wal(self) -> bool:
        """Write the log into the database; return whether all of it was written."""
        row = fetch_one(self.db, "PRAGMA wal_checkpoint(TRUNCATE)")
        return not row[0]

    def check_integrity(self) -> str:
        """Return what SQLite finds wrong with the file, or "ok"."""
        return find_corruption(self.db) or "ok"

    def generation_stored_bytes(self, number: int, generation: int) -> int:
        """Return how many bytes of a generation should be in chunks."""
        sql = "SELECT kept FROM generation WHERE source = ? AND generation = ?"
        with translate_read_errors(self.path):
            row = fetch_one(self.db, sql, (number, generation))
        return int(row[0]) if row else 0

    def verify_chunks(
        self, number: int, generation: int
    ) -> Iterator[tuple[Chunk, str]]:
        """Yield the chunks of a source, each with what is wrong with it or ""."""
        for chunk in self._load_chunk_rows(number, generation):
            try:
                raw = self.load_chunk(chunk.id, chunk.hash)
            except BytesLost as error:
                yield structs.replace(chunk, lost_ns=error.accepted_ns), error.detail
                continue
            except ArchiveDamaged as error:
                yield chunk, error.detail
                continue
            is_whole = len(raw) == chunk.stop - chunk.start
            yield chunk, "" if is_whole else "its length is wrong"

    def backup(self, path: Path) -> None:
        """Write a consistent copy of the archive, even while others write."""
        copy_database(self.db, path)


def _create_archive(path: Path) -> None:
    """Create an archive next to its final path, and rename it once it is valid.

    So an empty file is never an archive that is being created.
    """
    temp_path = path.with_name(f"{path.name}{UNFINISHED_SUFFIX}")
    remove_database(temp_path)
    db = open_archive_db(temp_path, write=True, latest_version=LATEST_VERSION)
    try:
        migrate(db, temp_path)
        _ensure_identity(db)
        db.pragma("journal_mode", "DELETE")
    finally:
        db.close()
    remove_database(path)  # SQLite would apply logs of an archive that was removed
    temp_path.replace(path)
    fsync_folder(path.parent)


def _ensure_identity(db: apsw.Connection) -> None:
    if fetch_one(db, "SELECT 1 FROM identity") is None:
        with db:
            sql = "INSERT INTO identity VALUES (?, ?)"
            db.execute(sql, (uuid.uuid4().hex, time.time_ns()))


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
