"""A sync through a shared folder, such as one of a file server or a sync service.

Every machine writes packs into a folder of its own and never changes them, so machines
can use the folder at the same time, and a service that copies files finds no conflict. A
pack has new bytes of an archive, and the state of the sources that they belong to.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import Struct, structs

from bygones.errors import PathUnusable
from bygones.maintenance.restore import remove_leftovers, write_file
from bygones.model.base import NullProgress, ProgressReporter
from bygones.model.machines import Machine
from bygones.store.annotations import DIRECTORY_KINDS, AnnotationRow
from bygones.store.compression import compress, decompress, sha256_digest
from bygones.store.connect import create_folders, fsync_folder
from bygones.store.exchange import (
    FRAGMENT_START,
    ChunkEntry,
    GenerationEntry,
    SourceEntry,
    StoredFrame,
)
from bygones.sync.peers import ArchivePeer, ChunkPlace
from bygones.sync.pull import PullReport

_MAGIC = b"bygones-pack 1\n"
_SUFFIX = ".pack"
_HEAD_LENGTH = len(_MAGIC) + 8 + 32
"""The magic line, the length of the header and its hash."""
_PACK_BYTES = 64 * 1024 * 1024
"""Bytes of sources in a pack, so that an interrupted sync has written some."""

_MAX_HEADER_BYTES = 256 * 1024 * 1024
"""Of an uncompressed header; a pack of the shortest sources has 190 MB."""


class _Blob(Struct, frozen=True, array_like=True):
    """Where compressed bytes are in a pack, after its header."""

    chunk: ChunkEntry
    offset: int
    length: int


class _Header(Struct, frozen=True, array_like=True):
    entries: list[SourceEntry]
    annotations: list[AnnotationRow]
    blobs: list[_Blob]


class _Location(Struct, frozen=True):
    """Where the compressed bytes of a chunk are."""

    path: Path
    offset: int
    length: int


_header_decoder = msgspec.msgpack.Decoder(_Header)


class FolderPeer:
    """What all machines have written into a folder."""

    def __init__(self, folder: Path, machine: Machine) -> None:
        self.machine = Machine("folder", "0" * 8)
        self._folder = folder
        self._own = folder / machine.label
        self._locations: dict[bytes, _Location] = {}
        self._entries: dict[tuple[str, tuple[str, str, str]], SourceEntry] = {}
        self._annotations: dict[tuple[str, str], AnnotationRow] = {}
        self.unreadable: list[Path] = []
        """Packs that are damaged, or not completely copied yet."""
        for path in sorted(folder.glob(f"*-????????/*{_SUFFIX}")):
            self._load_pack(path)
        self._listed = [
            structs.replace(entry, number=number)
            for number, entry in enumerate(self._entries.values())
        ]

    def _load_pack(self, path: Path) -> None:
        try:
            with open(_open_file(path), "rb") as file:
                header, end = _read_header(file)
                size = os.fstat(file.fileno()).st_size
        except (OSError, ValueError):
            self.unreadable.append(path)
            return
        if any(
            min(blob.offset, blob.length) < 0 or end + blob.offset + blob.length > size
            for blob in header.blobs
        ):
            self.unreadable.append(path)
            return
        for blob in header.blobs:
            location = _Location(path, end + blob.offset, blob.length)
            self._locations.setdefault(blob.chunk.hash, location)
        for entry in header.entries:
            # A later pack of the same machine has the newer state of a source.
            self._entries[path.parent.name, entry.key] = entry
        for row in map(AnnotationRow._make, header.annotations):
            known = self._annotations.get(row.identity)
            if known is None or row.added_ns > known.added_ns:
                self._annotations[row.identity] = row

    def entries(self) -> Iterator[SourceEntry]:
        return iter(self._listed)

    def read(self, places: Sequence[ChunkPlace]) -> Iterator[StoredFrame | None]:
        for place in places:
            chunk = self._find_chunk(place)
            location = self._locations.get(chunk.hash) if chunk else None
            if chunk is None or location is None:
                yield None
                continue
            with location.path.open("rb") as file:
                file.seek(location.offset)
                yield StoredFrame(chunk, file.read(location.length))

    def _find_chunk(self, place: ChunkPlace) -> ChunkEntry | None:
        generation = self._listed[place.number].generations[place.generation]
        if place.start == FRAGMENT_START:
            return ChunkEntry(generation.kept, generation.size, generation.fragment)
        chunks = (one for one in generation.chunks if one.start == place.start)
        return next(chunks, None)

    def annotations(self) -> list[AnnotationRow]:
        return list(self._annotations.values())

    def announce(self, total: int) -> None:
        """Do nothing: a folder shows no progress."""

    def write_new(
        self,
        source: ArchivePeer,
        progress: ProgressReporter | None = None,
        *,
        is_dry_run: bool = False,
    ) -> PullReport:
        """Write packs with what an archive has and the folder lacks."""
        progress = progress or NullProgress()
        report = PullReport()
        known: dict[tuple[str, str, str], list[tuple[GenerationEntry, ...]]] = {}
        for entry in self._listed:
            known.setdefault(entry.key, []).append(entry.generations)
        entries = [
            entry
            for entry in source.entries()
            if entry.generations not in known.get(entry.key, ())
        ]
        rows = [
            row
            for row in source.annotations()
            if self._annotations.get(row.identity) != row
        ]
        own = {row.session for row in rows if row.kind not in DIRECTORY_KINDS}
        report.annotations = len(own)
        progress.begin("sending", sum(self._size_of(entry) for entry in entries))
        if not is_dry_run:
            _make_folder(self._own)
        packs = self._packs(source, entries, rows, report=report, progress=progress)
        for pack in packs:
            if not is_dry_run:
                self._write_pack(*pack)
        progress.end()
        return report

    def _size_of(self, entry: SourceEntry) -> int:
        return sum(chunk.stop - chunk.start for chunk, _ in self._new_chunks(entry))

    def _new_chunks(
        self, entry: SourceEntry
    ) -> Iterator[tuple[ChunkEntry, ChunkPlace]]:
        for number, generation in enumerate(entry.generations):
            for chunk in generation.chunks:
                if chunk.hash not in self._locations:
                    yield chunk, ChunkPlace(entry.number, number, chunk.start)
            if generation.fragment and generation.fragment not in self._locations:
                last = ChunkEntry(generation.kept, generation.size, generation.fragment)
                yield last, ChunkPlace(entry.number, number, FRAGMENT_START)

    def _packs(
        self,
        source: ArchivePeer,
        entries: Iterable[SourceEntry],
        rows: list[AnnotationRow],
        *,
        report: PullReport,
        progress: ProgressReporter,
    ) -> Iterator[tuple[_Header, list[bytes]]]:
        """Yield the content of packs; an entry comes after all its bytes."""
        header, frames, size = _Header([], rows, []), list[bytes](), 0
        offset = 0
        written: set[bytes] = set()
        for entry in entries:
            is_whole = True
            for chunk, place in self._new_chunks(entry):
                if chunk.hash in written:
                    continue
                (stored,) = source.read([place])
                if (
                    stored is None
                    or stored.chunk != chunk
                    or stored.decompress_verified() is None
                ):
                    is_whole = False  # it grew, or it is damaged
                    break
                length = len(stored.frame)
                header.blobs.append(_Blob(chunk, offset, length))
                frames.append(stored.frame)
                written.add(chunk.hash)
                offset += length
                size += chunk.stop - chunk.start
                report.bytes += chunk.stop - chunk.start
                progress.advance(chunk.stop - chunk.start)
                if size >= _PACK_BYTES:
                    yield header, frames
                    header, frames, size, offset = _Header([], [], []), [], 0, 0
            if is_whole:
                header.entries.append(entry)
                report.files += 1
                if entry.session is not None:
                    report.session_ids.add(entry.session)
        if header.entries or header.blobs or header.annotations:
            yield header, frames

    def _write_pack(self, header: _Header, frames: list[bytes]) -> None:
        data = compress(msgspec.msgpack.encode(header))
        head = _MAGIC + len(data).to_bytes(8, "big") + sha256_digest(data)
        remove_leftovers(self._own)
        numbers = [int(path.stem) for path in self._own.glob(f"*{_SUFFIX}")]
        path = self._own / f"{max(numbers, default=0) + 1:06}{_SUFFIX}"
        mtime_ns = max(
            (state.mtime_ns for e in header.entries for state in e.generations),
            default=0,
        )
        result = write_file(
            path, (head, data, *frames), mtime_ns, set(), overwrite=False
        )
        if not result.is_written:
            raise PathUnusable(f"{path} exists; another sync is writing there")
        fsync_folder(path.parent)


def _make_folder(folder: Path) -> None:
    try:
        create_folders(folder)
    except OSError as error:
        raise PathUnusable(f"{folder}: {error.strerror}") from error


def _open_file(path: Path) -> int:
    """Return a descriptor of a regular file; raise `ValueError` for a pipe."""
    descriptor = os.open(
        path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    )
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError(path)
    return descriptor


def _read_header(file: BinaryIO) -> tuple[_Header, int]:
    """Return the header of a pack, and where its bytes start.

    Raises `ValueError` if it is damaged.
    """
    head = file.read(_HEAD_LENGTH)
    start = len(_MAGIC)
    length = int.from_bytes(head[start : start + 8], "big")
    if len(head) < _HEAD_LENGTH or not head.startswith(_MAGIC):
        raise ValueError(file.name)
    data = file.read(min(length, 1 << 31))
    if len(data) < length or sha256_digest(data) != head[start + 8 :]:
        raise ValueError(file.name)
    try:
        header = _header_decoder.decode(
            decompress(data, expected_size=_MAX_HEADER_BYTES)
        )
    except Exception as error:
        raise ValueError(file.name) from error
    return header, _HEAD_LENGTH + length
