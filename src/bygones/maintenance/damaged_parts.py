"""Find damaged bytes of an archive, and other copies of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path

from msgspec import Struct

from bygones.errors import ArchiveDamaged, ArchiveError, BytesLost
from bygones.model.base import Position, SourceId, decode_path, encode_path
from bygones.sources.fingerprint import (
    SourceChange,
    SourceFingerprint,
    detect_change,
    fingerprint_bytes,
)
from bygones.sources.lines import read_at
from bygones.store.archive_db import (
    ARCHIVE_FILE,
    CHUNK_SIZE,
    ArchiveDB,
    Chunk,
    StoredSource,
)
from bygones.store.archive_repair import find_bytes, missing_fragment
from bygones.store.compression import (
    UNKNOWN_HASH,
    HashedFrame,
    compress_and_hash,
    sha256_digest,
)
from bygones.store.local_reader import load_readable_sources


class DamagedPart(Struct, frozen=True):
    """Bytes of a source that are damaged in the archive."""

    source: StoredSource
    generation: int
    start: int
    stop: int
    hash: bytes = b""
    """The hash of the bytes; nothing if it is lost too."""
    chunk: int = 0
    """The number of the chunk; 0 for the unfinished last line, or if there is none."""
    lost_ns: int = 0
    """When the user accepted that the bytes are lost; 0 if that did not happen."""

    @property
    def place(self) -> tuple[int, int, int, int]:
        """Where the bytes belong: source, generation, start and end."""
        return self.source.number, self.generation, self.start, self.stop

    def as_chunk(self) -> Chunk:
        """Return where the bytes are, or belong, in the archive."""
        place = (self.chunk, self.source.number, self.generation)
        return Chunk(*place, self.start, self.stop, self.hash, self.lost_ns)


def find_recoverable(archive_db: ArchiveDB, parts: Iterable[DamagedPart]) -> int:
    """Return how many parts the original files still contain."""
    with closing(OtherCopies(archive_db, ())) as copies:
        return sum(
            copies.find(part) is not None
            if part.hash
            else bool(copies.find_chunks(part) or copies.find_last_line(part))
            for part in parts
        )


def find_damaged_parts(archive_db: ArchiveDB) -> Iterator[DamagedPart]:
    """Yield the chunks and unfinished lines whose bytes are damaged."""
    for source in load_readable_sources(archive_db)[0]:
        for generation in range(source.generation + 1):
            with suppress(ArchiveDamaged):
                yield from _check_chunks(archive_db, source, generation)
                yield from _check_fragment(archive_db, source, generation)


def _check_chunks(
    archive_db: ArchiveDB, source: StoredSource, generation: int
) -> Iterator[DamagedPart]:
    end = 0
    for chunk, reason in archive_db.verify_chunks(source.number, generation):
        if chunk.start > end:
            yield DamagedPart(source, generation, end, chunk.start)
        if reason or chunk.start < end:
            digest = b"" if chunk.hash == UNKNOWN_HASH else chunk.hash
            place = (chunk.start, chunk.stop, digest, chunk.id, chunk.lost_ns)
            yield DamagedPart(source, generation, *place)
        end = chunk.stop
    expected = archive_db.generation_stored_bytes(source.number, generation)
    if end < expected:
        yield DamagedPart(source, generation, end, expected)


def _check_fragment(
    archive_db: ArchiveDB, source: StoredSource, generation: int
) -> Iterator[DamagedPart]:
    missing = missing_fragment(archive_db, source.number, generation)
    if missing is not None:
        yield DamagedPart(source, generation, *missing)
    try:
        archive_db.fragment(source.number, generation)
    except ArchiveDamaged as error:
        found = archive_db.fragment_range(source.number, generation)
        lost_ns = error.accepted_ns if isinstance(error, BytesLost) else 0
        if found is not None:
            start, stop, digest = found
            digest = b"" if digest == UNKNOWN_HASH else digest
            place = (source, generation, start, stop, digest)
            yield DamagedPart(*place, lost_ns=lost_ns)


class OtherCopies:
    """Finds bytes by their hash in files and in other archives."""

    def __init__(self, archive_db: ArchiveDB, others: Sequence[Path]) -> None:
        self._archives: list[ArchiveDB] = []
        self._folders: list[Path] = []
        for path in others:
            if (path / ARCHIVE_FILE).exists():
                self._archives.append(ArchiveDB(path))
            else:
                self._folders.append(path)
        self._own = archive_db
        self._paths_by_name: dict[str, list[Path]] | None = None
        self._found_files: dict[int, SourceId] = {}
        """The files of sources whose names are lost."""

    def close(self) -> None:
        for archive in self._archives:
            archive.close()

    def find(self, part: DamagedPart) -> bytes | None:
        """Return the bytes of a part, if anything still contains them."""
        if not part.hash:
            return None
        for source_id in self._candidates(part):
            if _ends_with_line(source_id, part):
                raw = _read(source_id, part.start, part.stop)
                if raw is not None and sha256_digest(raw) == part.hash:
                    self._found_files[part.source.number] = source_id
                    return raw
        for archive in (self._own, *self._archives):
            with suppress(ArchiveError):
                raw_copy = find_bytes(archive, part.hash, part.stop - part.start)
                if raw_copy is not None:
                    return raw_copy
        return None

    def find_chunks(self, part: DamagedPart) -> list[tuple[int, HashedFrame, int]]:
        """Return offset, frame and size of the chunks of a part without a hash.

        A backup has them if it has all bytes of the part at the same places, and the
        file if it has the same start and end; both must have all chunks that are left.
        """
        if chunks := self._read_from_file(part):
            return chunks
        for archive in self._archives:
            with suppress(ArchiveError):
                place = self._find_same_version(archive, part)
                if place is None:
                    continue
                found: list[tuple[int, HashedFrame, int]] = []
                end = part.start
                for chunk, raw in archive.try_read_chunks(*place, start=part.start):
                    if raw is None or chunk.start != end or end >= part.stop:
                        break
                    found.append((chunk.start, compress_and_hash(raw), len(raw)))
                    end = chunk.stop
                if end == part.stop:
                    return found
        return []

    def find_last_line(self, part: DamagedPart) -> bytes:
        """Return an unfinished last line whose hash is lost too.

        A backup has it at the same place, and the file at all if the fingerprint, which
        only the newest generation has here, matches.
        """
        source = part.source
        is_newest = part.generation == source.generation
        raw = _read(source.id, part.start, part.stop)
        if is_newest and raw is not None and _hash_line(raw) == source.rest:
            return raw
        for archive in self._archives:
            with suppress(ArchiveError):
                place = self._find_same_version(archive, part)
                known = archive.fragment_range(*place) if place else None
                if place and known and known[:2] == (part.start, part.stop):
                    line = archive.fragment(*place)
                    if (
                        not (is_newest and source.rest)
                        or _hash_line(line) == source.rest
                    ):
                        return line
        return b""

    def _find_same_version(
        self, archive: ArchiveDB, part: DamagedPart
    ) -> tuple[int, int] | None:
        """Return number and generation of a part's file in a backup.

        Nothing if a chunk or last line that is intact here has other bytes there: the
        file was rewritten between the two.
        """
        theirs = archive.find_source(part.source.home, part.source.path)
        if theirs is None:
            return None
        own, place = self._own, (theirs.number, part.generation)
        own_place = (part.source.number, part.generation)
        hashes = {
            (start, stop): digest
            for start, stop, digest in archive.chunk_hashes(*place)
        }
        for chunk, raw in own.try_read_chunks(*own_place):
            known = hashes.get((chunk.start, chunk.stop), UNKNOWN_HASH)
            if raw is None:
                continue
            if known == UNKNOWN_HASH:
                if not _has_same_bytes(archive, place, chunk.start, raw):
                    return None
            elif known != chunk.hash:
                return None
        line = own.fragment_range(*own_place)
        with suppress(ArchiveDamaged):
            raw = own.fragment(*own_place)
            if line and not _has_same_bytes(archive, place, line[0], raw):
                return None
        return place

    def _read_from_file(self, part: DamagedPart) -> list[tuple[int, HashedFrame, int]]:
        source = part.source
        if part.generation != source.generation or not source.head:
            return []  # its file has other bytes now
        state = SourceFingerprint(
            offset=source.stored_bytes,
            size=source.size,
            head_hash=source.head,
            tail_hash=source.tail,
            unfinished_hash=source.rest,
        )
        if detect_change(source.id, state) not in {
            SourceChange.UNCHANGED,
            SourceChange.APPENDED,
        }:
            return []
        for chunk, _ in self._own.verify_chunks(source.number, part.generation):
            if chunk.hash == UNKNOWN_HASH:
                continue
            same = _read(source.id, chunk.start, chunk.stop)
            if same is None or sha256_digest(same) != chunk.hash:
                return []
        raw = _read(source.id, part.start, part.stop)
        if raw is None or not raw.endswith(b"\n"):
            return []
        found: list[tuple[int, HashedFrame, int]] = []
        start = 0
        while start < len(raw):
            end = raw.find(b"\n", min(start + CHUNK_SIZE, len(raw)) - 1) + 1
            lines = raw[start:end]
            found.append((part.start + start, compress_and_hash(lines), len(lines)))
            start = end
        return found

    def _candidates(self, part: DamagedPart) -> Iterator[SourceId]:
        yield self._found_files.get(part.source.number, part.source.id)
        if not part.source.home:
            yield from self._files_of_homes()
            return
        if self._paths_by_name is None:
            self._paths_by_name = {}
            for folder in self._folders:
                for path in folder.rglob("*"):
                    self._paths_by_name.setdefault(path.name, []).append(path)
        name = Path(decode_path(part.source.path)).name
        for path in self._paths_by_name.get(name, []):
            if path.is_file():
                yield SourceId(encode_path(path))

    def _files_of_homes(self) -> Iterator[SourceId]:
        """Yield all transcripts: the name of a source may be lost with its row."""
        homes = [Path(decode_path(home)) for home in self._own.homes() if home]
        for folder in (*homes, *self._folders):
            for path in folder.rglob("*.jsonl"):
                yield SourceId(encode_path(path))


def _has_same_bytes(
    archive: ArchiveDB, place: tuple[int, int], start: int, raw: bytes
) -> bool:
    """Whether an archive has the same bytes at an offset, as far as it has any."""
    with suppress(ArchiveDamaged):
        stored = archive.read_bytes(*place, start, len(raw))
        line = archive.fragment_range(*place)
        if line and line[0] == start + len(stored):
            stored += archive.fragment(*place)[: len(raw) - len(stored)]
        return raw.startswith(stored)
    return True  # damaged there, so it can't be compared


def _hash_line(raw: bytes) -> bytes:
    found = fingerprint_bytes(head=b"", tail=b"", unfinished=raw, offset=0)
    return found.unfinished_hash


def _read(source_id: SourceId, start: int, stop: int) -> bytes | None:
    raw = read_at(Position(source_id, 0, start, stop - start))
    return raw if isinstance(raw, bytes) else None


def _ends_with_line(source_id: SourceId, part: DamagedPart) -> bool:
    """Whether the bytes of a chunk can be in a file, which takes one small read."""
    return not part.chunk or _read(source_id, part.stop - 1, part.stop) == b"\n"
