"""Change what an archive stores where it is damaged: for repairs only."""

from __future__ import annotations

import time
from contextlib import suppress

from msgspec import structs

from bygones.errors import ArchiveDamaged
from bygones.store.archive_db import ArchiveDB, Chunk, StoredSource
from bygones.store.compression import UNKNOWN_HASH, mark_as_lost
from bygones.store.connect import fetch_all, fetch_one, translate_read_errors


def find_bytes(archive_db: ArchiveDB, digest: bytes, size: int) -> bytes | None:
    """Return the bytes with a hash, if they are an intact chunk or last line."""
    sql = "SELECT id FROM chunk WHERE hash = ? AND stop - start = ?"
    with translate_read_errors(archive_db.path):
        rows = fetch_all(archive_db.db, sql, (digest, size))
    for (id_,) in rows:
        with suppress(ArchiveDamaged):
            raw = archive_db.load_chunk(id_, digest)
            if len(raw) == size:
                return raw
    sql = "SELECT source, generation FROM fragment WHERE hash = ?"
    with translate_read_errors(archive_db.path):
        places = fetch_all(archive_db.db, sql, (digest,))
    for place in places:
        with suppress(ArchiveDamaged):
            raw = archive_db.fragment(*place)
            if len(raw) == size:
                return raw
    return None


def replace_frame(archive_db: ArchiveDB, place: Chunk, frame: bytes) -> None:
    """Replace damaged bytes of a chunk, or with the id 0 of the unfinished last line."""
    if place.id:
        sql = "UPDATE chunk SET frame = ? WHERE id = ?"
        archive_db.db.execute(sql, (frame, place.id))
    else:
        sql = "UPDATE fragment SET frame = ? WHERE source = ? AND generation = ?"
        archive_db.db.execute(sql, (frame, place.source, place.generation))


def accept_loss(archive_db: ArchiveDB, place: Chunk) -> None:
    """Mark bytes as lost: of a chunk, of no chunk, or of an unfinished last line.

    The damaged frame is kept behind the mark, and an intact one is never marked.
    """
    now = time.time_ns()
    key = (place.source, place.generation)
    if place.id and _intact_size(archive_db, place) is not None:
        return  # only its offsets are wrong
    if place.id:
        sql = "SELECT frame FROM chunk WHERE id = ?"
        (frame,) = fetch_one(archive_db.db, sql, (place.id,))
        replace_frame(archive_db, place, mark_as_lost(frame, now))
        return
    sql = "SELECT frame FROM fragment WHERE source = ? AND generation = ? AND start = ?"
    row = fetch_one(archive_db.db, sql, (*key, place.start))
    if row is not None and _line_length(archive_db, *key) is None:
        replace_frame(archive_db, place, mark_as_lost(row[0], now))
        return
    mark = mark_as_lost(b"", now)
    if place.start >= archive_db.generation_stored_bytes(*key):
        archive_db.db.execute(
            "INSERT INTO fragment VALUES (?, ?, ?, ?, ?)",
            (*key, place.start, UNKNOWN_HASH, mark),
        )
        return
    archive_db.db.execute(
        "INSERT INTO chunk (source, generation, start, stop, hash, frame)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (*key, place.start, place.stop, UNKNOWN_HASH, mark),
    )


def forget_fingerprint(archive_db: ArchiveDB, stored_source: StoredSource) -> None:
    """Let the next ingestion read the file as a new generation."""
    sql = (
        "UPDATE generation SET head = x'', mtime_ns = 0"
        " WHERE source = ? AND generation = ?"
    )
    archive_db.db.execute(sql, (stored_source.number, stored_source.generation))


def missing_fragment(
    archive_db: ArchiveDB, number: int, generation: int
) -> tuple[int, int] | None:
    """Return start and end of an unfinished last line that should be there."""
    sql = (
        "SELECT kept, size FROM generation AS g"
        " WHERE source = ? AND generation = ? AND size > kept AND NOT EXISTS"
        " (SELECT 1 FROM fragment AS f"
        " WHERE f.source = g.source AND f.generation = g.generation)"
    )
    with translate_read_errors(archive_db.path):
        row = fetch_one(archive_db.db, sql, (number, generation))
    return (int(row[0]), int(row[1])) if row else None


def find_lost_generations(archive_db: ArchiveDB) -> list[tuple[int, int]]:
    """Return the sources and generations whose state is not stored any more."""
    sql = """
        WITH RECURSIVE expected (source, generation, newest) AS (
            SELECT id, 0, generation FROM source
            UNION ALL
            SELECT source, generation + 1, newest FROM expected
             WHERE generation < newest
        )
        SELECT source, generation FROM expected
        EXCEPT SELECT source, generation FROM generation
        ORDER BY source, generation
    """
    with translate_read_errors(archive_db.path):
        return fetch_all(archive_db.db, sql)


Update = tuple[str, tuple[int, ...]]
"""A statement that corrects a row, with its values."""


def find_wrong_ranges(
    archive_db: ArchiveDB, number: int, generation: int
) -> list[Update]:
    """Return how to correct offsets that contradict intact bytes and their neighbors.

    An offset is stored twice or more: the end of a chunk is the start of the next, and
    the length of intact bytes is known. So the others show which number is wrong.
    """
    sql = (
        "SELECT id, source, generation, start, stop, hash FROM chunk"
        " WHERE source = ? AND generation = ? ORDER BY start"
    )
    key = (number, generation)
    with translate_read_errors(archive_db.path):
        chunks = [Chunk(*row) for row in fetch_all(archive_db.db, sql, key)]
        sql = "SELECT kept, size FROM generation WHERE source = ? AND generation = ?"
        state = fetch_one(archive_db.db, sql, key)
        sql = "SELECT start FROM fragment WHERE source = ? AND generation = ?"
        line = fetch_one(archive_db.db, sql, key)
    if state is None:
        return []
    kept, size = state
    recorded = {chunk.id: (chunk.start, chunk.stop) for chunk in chunks}
    chunks = _sort_by_end(archive_db, chunks, kept=kept)
    ranges = _correct_chunks(archive_db, chunks, kept=kept)
    moved = [
        (*found, chunk.id)
        for chunk, found in zip(chunks, ranges, strict=True)
        if found != recorded[chunk.id]
    ]
    # No two chunks may start at the same offset, not even meanwhile.
    sql = "UPDATE chunk SET start = -id WHERE id = ?"
    updates: list[Update] = [(sql, (id_,)) for _, _, id_ in moved]
    sql = "UPDATE chunk SET start = ?, stop = ? WHERE id = ?"
    updates += [(sql, values) for values in moved]
    end = ranges[-1][1] if ranges else 0
    if line is None:
        correct = _end_without_line(kept, size, end)
    else:
        length = _line_length(archive_db, *key)
        correct = _end_with_line(kept, size, end, line[0], length=length)
        if correct[0] != line[0]:
            sql = "UPDATE fragment SET start = ? WHERE source = ? AND generation = ?"
            updates.append((sql, (correct[0], *key)))
    if correct != (kept, size):
        sql = (
            "UPDATE generation SET kept = ?, size = ?"
            " WHERE source = ? AND generation = ?"
        )
        updates.append((sql, (*correct, *key)))
    return updates


def _sort_by_end(
    archive_db: ArchiveDB, chunks: list[Chunk], *, kept: int
) -> list[Chunk]:
    """Return chunks in order; intact ones at a far wrong start where their end says."""
    ends = {0, *(chunk.stop for chunk in chunks)}
    starts = {kept, *(chunk.start for chunk in chunks)}
    placed = []
    for chunk in chunks:
        size = None if chunk.start in ends else _intact_size(archive_db, chunk)
        is_start_likely = size is None or chunk.start + size in starts
        if size is not None and not is_start_likely and chunk.stop - size in ends:
            placed.append(structs.replace(chunk, start=chunk.stop - size))
        else:
            placed.append(chunk)
    return sorted(placed, key=lambda chunk: chunk.start)


def _correct_chunks(
    archive_db: ArchiveDB, chunks: list[Chunk], *, kept: int
) -> list[tuple[int, int]]:
    """Return the ranges of chunks, first of intact ones, then of those beside them."""
    ranges = [(chunk.start, chunk.stop) for chunk in chunks]
    damaged = []
    for index, chunk in enumerate(chunks):
        before, after = _neighbors(ranges, index, kept)
        if (chunk.start, chunk.stop) == (before, after):
            continue
        size = _intact_size(archive_db, chunk)
        if size is None:
            damaged.append(index)
        else:
            ranges[index] = _place_bytes(ranges[index], size, before, after)
    for index in damaged:
        before, after = _neighbors(ranges, index, kept)
        start, stop = ranges[index]
        # Which of two damaged chunks is at a wrong place can't be known.
        if index - 1 in damaged:
            before = start
        if index + 1 in damaged or index == len(ranges) - 1:
            after = stop
        clipped = (max(start, before), min(stop, after))
        if clipped[0] < clipped[1]:
            ranges[index] = clipped
    is_unique = len({start for start, _ in ranges}) == len(ranges)
    return ranges if is_unique else [(chunk.start, chunk.stop) for chunk in chunks]


def _neighbors(ranges: list[tuple[int, int]], index: int, kept: int) -> tuple[int, int]:
    """Return where the chunk before ends and the one after starts."""
    before = ranges[index - 1][1] if index else 0
    after = ranges[index + 1][0] if index < len(ranges) - 1 else kept
    return before, after


def _place_bytes(
    recorded: tuple[int, int], size: int, before: int, after: int
) -> tuple[int, int]:
    """Return the range of intact bytes that keeps what its neighbors confirm."""
    start, stop = recorded
    if before + size == after:
        return before, after
    if stop - start == size:
        return recorded
    if start == before or start + size == after:
        return start, start + size
    if stop == after or stop - size == before:
        return stop - size, stop
    return recorded


def _intact_size(archive_db: ArchiveDB, chunk: Chunk) -> int | None:
    """Return how many bytes a chunk has, whatever its range; `None` if damaged."""
    sql = "SELECT frame FROM chunk WHERE id = ?"
    try:
        with translate_read_errors(archive_db.path):
            (frame,) = fetch_one(archive_db.db, sql, (chunk.id,))
        raw = archive_db.decompress_verified(f"chunk {chunk.id}", chunk.hash, frame)
    except ArchiveDamaged:
        return None
    return len(raw)


def _line_length(archive_db: ArchiveDB, number: int, generation: int) -> int | None:
    """Return the length of an unfinished last line; `None` if it is damaged."""
    try:
        return len(archive_db.fragment(number, generation))
    except ArchiveDamaged:
        return None


def _end_without_line(kept: int, size: int, end: int) -> tuple[int, int]:
    """Return how many bytes are in chunks, and the size of the file."""
    kept = end if kept > end == size else max(kept, end)
    return kept, max(size, kept)


def _end_with_line(
    kept: int, size: int, end: int, start: int, *, length: int | None
) -> tuple[int, int]:
    """Return the same if an unfinished last line follows at `start`."""
    if length is None:
        kept = end if end in {kept, start} else max(kept, end)
        return kept, max(size, kept)
    recorded = [kept, start, size - length]
    likely = [one for one in recorded if one >= end and recorded.count(one) > 1]
    likely += [one for one in recorded if one == end]
    kept = likely[0] if likely else max(end, start if kept != end else kept)
    return kept, kept + length


def correct_ranges(archive_db: ArchiveDB) -> int:
    """Correct wrong offsets of intact bytes; return the number of files changed."""
    sql = "SELECT source, generation FROM generation ORDER BY source, generation"
    with translate_read_errors(archive_db.path):
        places = fetch_all(archive_db.db, sql)
    sources = set()
    for number, generation in places:
        updates: list[Update] = []
        with suppress(ArchiveDamaged):
            updates = find_wrong_ranges(archive_db, number, generation)
        if updates:
            sources.add(number)
            for sql, values in updates:
                archive_db.db.execute(sql, values)
    return len(sources)
