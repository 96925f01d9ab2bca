"""Read what an archive has, and add what another has, for a sync."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto
from itertools import groupby

from msgspec import Struct

from bygones.model.base import (
    AgentId,
    ProjectKey,
    SessionId,
    SourceFile,
    SourceId,
    SourceKind,
)
from bygones.store.archive_db import ArchiveDB, load_pending_purge
from bygones.store.compression import compress_and_hash, decompress, sha256_digest
from bygones.store.connect import fetch_all, fetch_one, translate_read_errors

FRAGMENT_START = -1
"""Stands for the unfinished last line in place of an offset."""


class ChunkEntry(Struct, frozen=True, array_like=True, gc=False):
    """The range and hash of some bytes."""

    start: int
    stop: int
    hash: bytes


class GenerationEntry(Struct, frozen=True, array_like=True):
    """What is stored of a generation of a source."""

    kept: int
    size: int
    mtime_ns: int
    head: bytes
    tail: bytes
    rest: bytes
    chunks: tuple[ChunkEntry, ...] = ()
    fragment: bytes = b""
    """The hash of the unfinished last line, if there is one."""


class SourceEntry(Struct, frozen=True, array_like=True):
    """A source, with the machine that it comes from."""

    number: int
    """How the archive that lists it calls it."""
    machine_name: str
    machine_id: str
    home: str
    path: str
    kind: SourceKind
    project: ProjectKey | None
    session: SessionId | None
    agent: AgentId | None
    gone_ns: int | None
    generations: tuple[GenerationEntry, ...]

    @property
    def key(self) -> tuple[str, str, str]:
        """What is the same in all archives."""
        return self.machine_id, self.home, self.path

    def with_home(self, home: str) -> SourceFile:
        """Return the source with its home as stored here."""
        last = self.generations[-1]
        return SourceFile(
            id=SourceId(f"{home}/{self.path}" if home else self.path),
            home=home,
            relative_path=self.path,
            kind=self.kind,
            size=last.size,
            mtime_ns=last.mtime_ns,
            inode=0,
            ctime_ns=0,
            project_key=self.project,
            session_id=self.session,
            agent_id=self.agent,
        )


class StoredFrame(Struct, frozen=True, array_like=True):
    """Compressed bytes with their range and hash."""

    chunk: ChunkEntry
    frame: bytes

    def decompress_verified(self) -> bytes | None:
        """Return the bytes; none if they are damaged."""
        size = self.chunk.stop - self.chunk.start
        try:
            raw = decompress(self.frame, expected_size=size, is_foreign=True)
        except Exception:  # noqa: BLE001 (whatever zstandard raises)
            return None
        is_whole = len(raw) == size and sha256_digest(raw) == self.chunk.hash
        return raw if is_whole else None


def list_stored(archive_db: ArchiveDB) -> Iterator[tuple[str, SourceEntry]]:
    """Yield the home and the entry of every source that is not being purged."""
    purged = set(load_pending_purge(archive_db.db))
    with archive_db.read_transaction():
        chunks = _group_chunks(archive_db)
        fragments = {
            (source, generation): digest
            for source, generation, digest in fetch_all(
                archive_db.db, "SELECT source, generation, hash FROM fragment"
            )
        }
        sql = (
            "SELECT source, generation, kept, size, mtime_ns, head, tail, rest"
            " FROM generation ORDER BY source, generation"
        )
        rows = fetch_all(archive_db.db, sql)
        generations = {
            source: tuple(
                GenerationEntry(
                    *(kept, size, mtime_ns, head, tail, rest),
                    chunks=tuple(chunks.get((source, generation), ())),
                    fragment=fragments.get((source, generation), b""),
                )
                for _, generation, kept, size, mtime_ns, head, tail, rest in group
            )
            for source, group in groupby(rows, key=lambda row: row[0])
        }
        sources = list(archive_db.sources())
    for source in sources:
        if source.session not in purged:
            yield (
                source.home,
                SourceEntry(
                    number=source.number,
                    machine_name="",
                    machine_id="",
                    home=source.home,
                    path=source.path,
                    kind=source.kind,
                    project=source.project,
                    session=source.session,
                    agent=source.agent,
                    gone_ns=source.gone_ns,
                    generations=generations[source.number],
                ),
            )


def _group_chunks(archive_db: ArchiveDB) -> dict[tuple[int, int], list[ChunkEntry]]:
    sql = (
        "SELECT source, generation, start, stop, hash FROM chunk"
        " ORDER BY source, generation, start"
    )
    grouped: dict[tuple[int, int], list[ChunkEntry]] = {}
    with translate_read_errors(archive_db.path):
        for source, generation, *chunk in archive_db.db.execute(sql):
            grouped.setdefault((source, generation), []).append(ChunkEntry(*chunk))
    return grouped


def load_frame(
    archive_db: ArchiveDB, number: int, generation: int, start: int
) -> StoredFrame | None:
    """Return the stored bytes at an offset; none if they are not there any more."""
    place = (number, generation)
    with translate_read_errors(archive_db.path):
        if start == FRAGMENT_START:
            sql = (
                "SELECT f.start, g.size, f.hash, f.frame FROM fragment AS f"
                " JOIN generation AS g USING (source, generation)"
                " WHERE source = ? AND generation = ?"
            )
            row = fetch_one(archive_db.db, sql, place)
        else:
            sql = (
                "SELECT start, stop, hash, frame FROM chunk"
                " WHERE source = ? AND generation = ? AND start = ?"
            )
            row = fetch_one(archive_db.db, sql, (*place, start))
    return StoredFrame(ChunkEntry(*row[:3]), row[3]) if row else None


class Addition(Enum):
    """What became of bytes of another archive."""

    ADDED = auto()
    PRESENT = auto()
    DIVERGED = auto()
    """They do not continue what is stored."""


def add_bytes(
    archive_db: ArchiveDB,
    place: tuple[int, int],
    stored: StoredFrame,
    raw: bytes,
) -> Addition:
    """Add bytes of another archive to a source if they continue what is stored.

    A shorter last chunk is replaced by one that starts with the same bytes, as when a
    file grows. `place` is the number of the source and the generation, and `raw` are the
    verified bytes of the frame.
    """
    db, chunk = archive_db.db, stored.chunk
    _ensure_generation(archive_db, *place)
    kept = archive_db.generation_stored_bytes(*place)
    if chunk.start > kept:
        return Addition.DIVERGED
    known = archive_db.read_bytes(*place, chunk.start, len(raw))
    fragment = archive_db.fragment(*place)
    known += fragment[: max(chunk.stop - kept, 0)]
    if not raw.startswith(known):
        return Addition.DIVERGED
    if chunk.stop <= kept:
        return Addition.PRESENT
    if chunk.stop < kept + len(fragment):
        return Addition.DIVERGED
    sql = "SELECT 1 FROM chunk WHERE source = ? AND generation = ? AND start = ?"
    is_aligned = chunk.start == kept or fetch_one(db, sql, (*place, chunk.start))
    start, frame = chunk.start, (chunk.hash, stored.frame)
    if is_aligned:
        sql = "DELETE FROM chunk WHERE source = ? AND generation = ? AND start >= ?"
        db.execute(sql, (*place, chunk.start))
    else:
        start, frame = kept, compress_and_hash(raw[kept - chunk.start :])
    db.execute(
        "INSERT INTO chunk (source, generation, start, stop, hash, frame)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (*place, start, chunk.stop, *frame),
    )
    sql = "DELETE FROM fragment WHERE source = ? AND generation = ?"
    db.execute(sql, place)
    sql = (
        "UPDATE generation SET kept = ?, size = ?, head = x'', tail = x'', rest = x''"
        " WHERE source = ? AND generation = ?"
    )
    db.execute(sql, (chunk.stop, chunk.stop, *place))
    return Addition.ADDED


def add_fragment(
    archive_db: ArchiveDB,
    place: tuple[int, int],
    stored: StoredFrame,
    raw: bytes,
) -> Addition:
    """Add the unfinished last line of another archive, or more of it."""
    _ensure_generation(archive_db, *place)
    kept = archive_db.generation_stored_bytes(*place)
    known = archive_db.fragment(*place)
    if stored.chunk.start < kept:
        known = archive_db.read_bytes(
            *place, stored.chunk.start, len(raw)
        )  # the line was finished meanwhile
        return Addition.PRESENT if known.startswith(raw) else Addition.DIVERGED
    if stored.chunk.start > kept or not (
        raw.startswith(known) or known.startswith(raw)
    ):
        return Addition.DIVERGED
    if len(known) >= len(raw):
        return Addition.PRESENT
    archive_db.db.execute(
        "INSERT OR REPLACE INTO fragment VALUES (?, ?, ?, ?, ?)",
        (*place, kept, stored.chunk.hash, stored.frame),
    )
    sql = "UPDATE generation SET size = ? WHERE source = ? AND generation = ?"
    archive_db.db.execute(sql, (kept + len(raw), *place))
    return Addition.ADDED


def _ensure_generation(archive_db: ArchiveDB, number: int, generation: int) -> None:
    sql = "INSERT OR IGNORE INTO generation VALUES (?, ?, 0, 0, 0, 0, 0, x'', x'', x'')"
    archive_db.db.execute(sql, (number, generation))
    sql = "UPDATE source SET generation = max(generation, ?) WHERE id = ?"
    archive_db.db.execute(sql, (generation, number))


def save_state(archive_db: ArchiveDB, number: int, entry: SourceEntry) -> None:
    """Store the state of a source's file, for generations that are complete here."""
    for generation, state in enumerate(entry.generations):
        _ensure_generation(archive_db, number, generation)
        archive_db.db.execute(
            "UPDATE generation SET mtime_ns = ?, head = ?, tail = ?, rest = ?"
            " WHERE source = ? AND generation = ? AND kept = ? AND size = ?",
            (
                *(state.mtime_ns, state.head, state.tail, state.rest),
                *(number, generation, state.kept, state.size),
            ),
        )
    sql = "UPDATE source SET gone_ns = ? WHERE id = ?"
    archive_db.db.execute(sql, (entry.gone_ns, number))
