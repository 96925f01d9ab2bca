"""What a sync reads from: another archive, or anything that offers the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, Protocol

from msgspec import structs

from bygones.model.machines import (
    Machine,
    clean_machine_name,
    parse_machine_home,
)
from bygones.store.annotations import AnnotationRow, load_annotation_rows
from bygones.store.archive_db import ArchiveDB
from bygones.store.exchange import SourceEntry, StoredFrame, list_stored, load_frame

_ID_DIGITS = 8


class ChunkPlace(NamedTuple):
    """Where some bytes of a peer are: a chunk, or the unfinished last line."""

    number: int
    generation: int
    start: int


class Peer(Protocol):
    """Something with sources, bytes and annotations."""

    machine: Machine

    def entries(self) -> Iterator[SourceEntry]:
        """Yield what is stored."""

    def read(self, places: Sequence[ChunkPlace]) -> Iterator[StoredFrame | None]:
        """Yield the bytes at each place, or none where they are missing or damaged."""

    def annotations(self) -> list[AnnotationRow]:
        """Return tags, notes and stars, and hashes of removed ones."""

    def announce(self, total: int) -> None:
        """Say how many bytes will be read."""


def machine_of(archive_db: ArchiveDB, host: str, host_id: str) -> Machine:
    """Return the machine of an archive.

    The id is that of the archive on this host: a copy of an archive on another host
    gets another one, because its files grow independently.
    """
    text = f"{archive_db.archive_id}\0{host_id}"
    return Machine(
        clean_machine_name(host), sha256(text.encode()).hexdigest()[:_ID_DIGITS]
    )


def list_entries(
    archive_db: ArchiveDB, machine: Machine
) -> Iterator[tuple[str, SourceEntry]]:
    """Yield all sources with their homes, each with the machine that it comes from."""
    for home, entry in list_stored(archive_db):
        parsed = parse_machine_home(home)
        origin, path = (parsed.machine, parsed.home) if parsed else (machine, home)
        yield (
            home,
            structs.replace(
                entry, machine_name=origin.name, machine_id=origin.id, home=path
            ),
        )


class ArchivePeer:
    """An archive on this machine."""

    def __init__(self, folder: Path, machine: Machine) -> None:
        self.machine = machine
        self._archive_db = ArchiveDB(folder)

    def entries(self) -> Iterator[SourceEntry]:
        return (entry for _, entry in list_entries(self._archive_db, self.machine))

    def read(self, places: Iterable[ChunkPlace]) -> Iterator[StoredFrame | None]:
        return (load_frame(self._archive_db, *place) for place in places)

    def annotations(self) -> list[AnnotationRow]:
        return load_annotation_rows(self._archive_db.db)

    def announce(self, total: int) -> None:
        """Do nothing: the progress is shown here."""

    def close(self) -> None:
        self._archive_db.close()
