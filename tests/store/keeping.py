"""A home and its archive in a few words, and a way to read archives that is not ours.

What the archive holds is read here with the standard library's SQLite and with zstd
alone, so that a test does not take the archive's own word for it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import zstandard

from bygones.ingest.run import ingest
from bygones.maintenance.rebuild import rebuild
from bygones.model.progress import IngestReport
from bygones.store.archive_db import ArchiveDB, StoredSource
from bygones.store.archive_dir import ArchiveDir
from bygones.store.compare import hash_tables
from tests.build import Home

__all__ = ["Keeping", "set_back", "settle", "unlike_rebuilt"]


class Keeping:
    """A folder with a home, and an archive that is brought up to date with it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = Home(folder / "home")
        self.home.path.mkdir(parents=True, exist_ok=True)
        self.archive = folder / "archive"

    def ingest(self, *paths: Path) -> IngestReport:
        return ingest(self.archive, paths or [self.home.path])

    def vault(self, *, write: bool = False) -> ArchiveDir:
        return ArchiveDir(self.archive, write=write)

    def dump(self) -> dict[str, str]:
        with self.vault() as vault:
            return hash_tables(vault)

    def sources(self) -> dict[str, StoredSource]:
        """Return what the archive knows of sources, by the names of their files."""
        with closing(ArchiveDB(self.archive)) as chunks:
            return {kept.path.rpartition("/")[2]: kept for kept in chunks.sources()}

    def generations(self, path: Path) -> list[bytes]:
        """Return all bytes that the archive has of a file, oldest generation first."""
        return self.bytes()[str(path)]

    def bytes(self) -> dict[str, list[bytes]]:
        """Return the generations of every source by its path."""
        with closing(sqlite3.connect(self._address, uri=True)) as db:
            rows = db.execute("SELECT id, home || '/' || path, generation FROM source")
            return {
                path: [b"".join(_parts(db, id_, g)) for g in range(newest + 1)]
                for id_, path, newest in rows.fetchall()
            }

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        """Return rows of ``archive.db``."""
        with closing(sqlite3.connect(self._address, uri=True)) as db:
            return db.execute(sql).fetchall()

    def index_rows(self, sql: str) -> list[tuple[object, ...]]:
        """Return rows of ``index.db``."""
        (place,) = (self.archive / "index").glob("*/index.db")
        with closing(sqlite3.connect(f"file:{place}?mode=ro", uri=True)) as db:
            return db.execute(sql).fetchall()

    @property
    def _address(self) -> str:
        return f"file:{self.archive / 'archive.db'}?mode=ro"


def _parts(db: sqlite3.Connection, source: int, generation: int) -> Iterator[bytes]:
    """Yield bytes in order; where one stretch does not begin at the end of the last,
    there is a hole or an overlap."""
    end = 0
    for table in ("chunk", "fragment"):
        rows = db.execute(
            f"SELECT start, frame FROM {table} WHERE source = ? AND generation = ?"  # noqa: S608 (our names)
            " ORDER BY start",
            (source, generation),
        )
        for start, frame in rows:
            assert start == end
            raw = zstandard.ZstdDecompressor().decompress(frame)
            end += len(raw)
            yield raw


def settle(home: Path, age: int = 1) -> None:
    """Have the folders of a home be as they are for long; ``age`` is another each time.

    A folder's time tells whether something came or went, unless it is of just now.
    """
    folders = [path for path in home.rglob("*") if path.is_dir()]
    for folder in [home, *folders]:
        os.utime(folder, ns=(age * 10**12, age * 10**12))


def unlike_rebuilt(keeping: Keeping) -> list[str]:
    """Return the tables in which the index is not what its archive gives anew."""
    copy = keeping.folder / "rebuilt"
    copy.mkdir(exist_ok=True)
    for path in copy.glob("archive.db*"):
        path.unlink()
    with keeping.vault() as vault:
        mine = hash_tables(vault)
        vault.byte_store.backup(copy / "archive.db")
    rebuild(copy)
    with ArchiveDir(copy) as vault:
        anew = hash_tables(vault)
    return [table for table in mine if mine[table] != anew[table]]


def set_back(path: Path, content: bytes) -> None:
    """Write other bytes into a file and set its time back to what it was."""
    times = path.stat()
    with path.open("r+b") as file:
        file.write(content)
        file.truncate()
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
