"""A home and its archive for tests, and an independent way to read archives.

Archives are read with the standard library's SQLite and zstd only, so that tests don't
rely on the code they test.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import zstandard

from bygones.ingest.run import ingest
from bygones.maintenance.verify import rebuild
from bygones.model.base import IngestReport
from bygones.store.archive_db import ArchiveDB, StoredSource
from bygones.store.archive_dir import ArchiveDir, hash_tables
from tests.build import Home

__all__ = ["Sandbox", "differing_tables", "overwrite_keeping_times", "settle"]


class Sandbox:
    """A folder with a home, and an archive that is updated from it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = Home(folder / "home")
        self.home.path.mkdir(parents=True, exist_ok=True)
        self.archive = folder / "archive"

    def ingest(self, *paths: Path) -> IngestReport:
        return ingest(self.archive, paths or [self.home.path])

    def open_dir(self, *, write: bool = False) -> ArchiveDir:
        return ArchiveDir(self.archive, write=write)

    def dump(self) -> dict[str, str]:
        with self.open_dir() as archive_dir:
            return hash_tables(archive_dir)

    def sources(self) -> dict[str, StoredSource]:
        """Return the stored sources, by file name."""
        with closing(ArchiveDB(self.archive)) as chunks:
            return {
                source.path.rpartition("/")[2]: source for source in chunks.sources()
            }

    def generations(self, path: Path) -> list[bytes]:
        """Return all stored bytes of a file, oldest generation first."""
        return self.bytes()[str(path)]

    def bytes(self) -> dict[str, list[bytes]]:
        """Return the generations of every source, by path."""
        with closing(sqlite3.connect(self._address, uri=True)) as db:
            rows = db.execute("SELECT id, home || '/' || path, generation FROM source")
            return {
                path: [b"".join(_parts(db, id_, g)) for g in range(newest + 1)]
                for id_, path, newest in rows.fetchall()
            }

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        """Return rows of `archive.db`."""
        with closing(sqlite3.connect(self._address, uri=True)) as db:
            return db.execute(sql).fetchall()

    def index_rows(self, sql: str) -> list[tuple[object, ...]]:
        """Return rows of `index.db`."""
        (path,) = (self.archive / "index").glob("*/index.db")
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            return db.execute(sql).fetchall()

    @property
    def _address(self) -> str:
        return f"file:{self.archive / 'archive.db'}?mode=ro"


def _parts(db: sqlite3.Connection, source: int, generation: int) -> Iterator[bytes]:
    """Yield bytes in order; raise an error at a gap or overlap."""
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
    """Give the folders of a home old timestamps; `age` must differ each time.

    The time of a folder shows whether files were added or removed, unless it is recent.
    """
    folders = [path for path in home.rglob("*") if path.is_dir()]
    for folder in [home, *folders]:
        os.utime(folder, ns=(age * 10**12, age * 10**12))


def differing_tables(sandbox: Sandbox) -> list[str]:
    """Return the tables that differ from those of a rebuilt index."""
    copy = sandbox.folder / "rebuilt"
    copy.mkdir(exist_ok=True)
    for path in copy.glob("archive.db*"):
        path.unlink()
    with sandbox.open_dir() as archive_dir:
        mine = hash_tables(archive_dir)
        archive_dir.byte_store.backup(copy / "archive.db")
    rebuild(copy)
    with ArchiveDir(copy) as archive_dir:
        rebuilt = hash_tables(archive_dir)
    return [table for table in mine if mine[table] != rebuilt[table]]


def overwrite_keeping_times(path: Path, content: bytes) -> None:
    """Overwrite a file and restore its timestamp."""
    times = path.stat()
    with path.open("r+b") as file:
        file.write(content)
        file.truncate()
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
