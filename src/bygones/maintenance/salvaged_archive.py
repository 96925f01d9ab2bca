"""Fill a new archive with the rows that are left of a damaged one."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from msgspec import structs

from bygones.errors import ArchiveDamaged
from bygones.model.base import SourceKind
from bygones.sources.fingerprint import fingerprint_bytes
from bygones.store.archive_db import ArchiveDB
from bygones.store.archive_repair import find_lost_generations
from bygones.store.compression import (
    decompress,
    load_accepted_ns,
    sha256_digest,
)
from bygones.store.connect import fetch_all
from bygones.store.salvage import SalvagedRow, Value, read_rows

_SESSION_ID = re.compile(rb'"sessionId":"([0-9a-f-]{36})"')
_LOST_FOLDER = "recovered"
_FINGERPRINT_BYTES = 4096
_COLUMNS = {
    "source": "id, home, path, kind, project, session, agent, generation, gone_ns",
    "generation": "source, generation, kept, size, mtime_ns, ctime_ns, inode, head,"
    " tail, rest",
    "chunk": "source, generation, start, stop, hash, frame",
    "fragment": "source, generation, start, hash, frame",
    "annotation": "session, kind, value, added_ns",
    "purged": "hash, purged_ns",
}


class SalvagedArchive:
    """An archive that is being filled with salvaged rows."""

    def __init__(self, target: ArchiveDB) -> None:
        self._target = target
        self.row_count = 0

    def copy_from(self, path: Path, wal: Path | None) -> None:
        """Copy every row that is left, and complete what is missing."""
        with self._target.db:
            for row in read_rows(path, wal):
                self._add(row)
            self._drop_overlaps()
            self._add_lost_sources()
            add_lost_generations(self._target)

    def _add(self, row: SalvagedRow) -> None:
        self.row_count += 1
        match row.table:
            case "identity":
                self._target.db.execute(
                    "UPDATE identity SET archive = ?", row.values[:1]
                )
            case "source":
                with suppress(ValueError):
                    SourceKind(str(row.values[3]))
                    self._insert("source", (row.number, *row.values[1:]))
            case "chunk":
                self._add_chunk(row.values[1:])
            case "fragment":
                *first, frame = row.values
                self._insert("fragment", (*first, frame or b""))
            case table:
                self._insert(table, row.values)

    def _add_chunk(self, values: tuple[Value, ...]) -> None:
        """Add a chunk; of two at the same place, the intact or longer one."""
        source, generation, start, stop, digest, frame = values
        size = int(str(stop)) - int(str(start))
        is_intact = _is_intact(frame, digest, size)
        sql = (
            "SELECT stop, frame FROM chunk"
            " WHERE source = ? AND generation = ? AND start = ?"
        )
        known = self._target.db.execute(sql, (source, generation, start)).fetchone()
        if known is not None:
            has_intact = bool(known[1]) and not _is_accepted_loss(known[1])
            if (has_intact, known[0]) >= (is_intact, stop):
                return
        is_kept = is_intact or _is_accepted_loss(frame)
        kept = frame if is_kept else b""  # verification reports it
        self._insert("chunk", (source, generation, start, stop, digest, kept))

    def _insert(self, table: str, values: tuple[Value, ...]) -> None:
        marks = ", ".join("?" for _ in values)
        self._target.db.execute(
            f"INSERT OR REPLACE INTO {table} ({_COLUMNS[table]}) VALUES ({marks})",  # noqa: S608 (our names)
            values,
        )

    def _drop_overlaps(self) -> None:
        """Delete chunks that were replaced by longer ones, and lines that grew."""
        self._target.db.execute(
            "DELETE FROM chunk WHERE EXISTS (SELECT 1 FROM chunk AS other"
            " WHERE other.source = chunk.source AND other.generation = chunk.generation"
            " AND other.start < chunk.start AND other.stop > chunk.start)"
        )
        self._target.db.execute(
            "DELETE FROM fragment WHERE EXISTS (SELECT 1 FROM chunk"
            " WHERE chunk.source = fragment.source"
            " AND chunk.generation = fragment.generation"
            " AND chunk.stop > fragment.start)"
        )

    def _add_lost_sources(self) -> None:
        """Add a source for bytes of which nothing else is known."""
        sql = (
            "SELECT source, max(generation) FROM chunk"
            " WHERE source NOT IN (SELECT id FROM source) GROUP BY source"
        )
        rows = fetch_all(self._target.db, sql)
        for number, generation in rows:
            session = self._find_session(number, generation)
            name = f"{session}.jsonl" if session else f"source-{number}"
            kind = SourceKind.SESSION if session else SourceKind.HISTORY
            path = f"{_LOST_FOLDER}/{number}/{name}"
            self._insert(
                "source",
                (number, "", path, kind.value, None, session, None, generation, None),
            )
        # The newest generation may be known only by its bytes.
        self._target.db.execute(
            "UPDATE source SET generation = max(generation, coalesce("
            "(SELECT max(generation) FROM chunk WHERE chunk.source = source.id), 0))"
        )

    def _find_session(self, number: int, generation: int) -> str | None:
        for _, raw in self._target.try_read_chunks(number, generation):
            if raw and (found := _SESSION_ID.search(raw)):
                return found[1].decode()
        return None


def add_lost_generations(archive_db: ArchiveDB) -> int:
    """Add the states of generations; fingerprints are those of the stored bytes.

    Returns the number of files.
    """
    lost = find_lost_generations(archive_db)
    for number, generation in lost:
        archive_db.db.execute(
            f"INSERT INTO generation ({_COLUMNS['generation']})"  # noqa: S608 (our names)
            " VALUES (?, ?, 0, 0, 0, 0, 0, x'', x'', x'')",
            (number, generation),
        )
    for number, generation in lost:
        _set_fingerprint(archive_db, number, generation)
    return len({number for number, _ in lost})


def _set_fingerprint(archive_db: ArchiveDB, number: int, generation: int) -> None:
    chunks = list(archive_db.try_read_chunks(number, generation))
    offset = max((chunk.stop for chunk, _ in chunks), default=0)
    source = archive_db.source(number)
    if source is None:
        return
    head = tail = fragment = b""
    with suppress(ArchiveDamaged):
        fragment = archive_db.fragment(number, generation)
        head, tail = (
            archive_db.read_bytes(number, generation, start, _FINGERPRINT_BYTES)
            for start in (0, max(offset - _FINGERPRINT_BYTES, 0))
        )
    found = fingerprint_bytes(head=head, tail=tail, unfinished=fragment, offset=offset)
    archive_db.save_read_state(
        structs.replace(
            source,
            generation=generation,
            stored_bytes=offset,
            size=found.size,
            head=found.head_hash,
            tail=found.tail_hash,
            rest=found.unfinished_hash,
        )
    )


def _is_accepted_loss(frame: Value) -> bool:
    return isinstance(frame, bytes) and load_accepted_ns(frame) > 0


def _is_intact(frame: Value, digest: Value, size: int) -> bool:
    if not isinstance(frame, bytes) or size <= 0:
        return False
    with suppress(Exception):  # whatever damaged bytes cause
        return sha256_digest(decompress(frame, expected_size=size)) == digest
    return False
