"""Search for bytes in all files of a folder, also in compressed data and free pages.

Files are searched as they are. Wherever a zstd frame starts, as much of it as possible is
decompressed: in the order of the file, and along the overflow pages of SQLite, including
free pages and those in a log. Rows are also read by the standard library's SQLite, and
terms by the text engine, including those of unused segments.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID

import tantivy
import zstandard

__all__ = ["decompress_frames", "find_traces", "iter_contents"]

_MAGIC = re.compile(rb"\x28\xb5\x2f\xfd")
_POINTER = re.compile(rb"(?=\0...)", re.DOTALL)
_DATABASE = b"SQLite format 3\0"
_WAL_MAGIC = re.compile(rb"\x37\x7f\x06[\x82\x83]")
_WAL_HEADER, _FRAME_HEADER = 32, 24
_STEP = 1024
"""Bytes of a frame that are decompressed at once: the bytes after them may be other data."""

_Pages = list[tuple[int, bytes]]
"""Pages by number; there may be several versions of a page."""


def find_traces(folder: Path, canary: bytes) -> list[str]:
    """Return the files that contain these bytes in any form."""
    return sorted({name for name, found in iter_contents(folder) if canary in found})


def iter_contents(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield all contents of the files in a folder, with the names of the files."""
    for path in sorted(folder.rglob("*")):
        yield path.name, path.name.encode()
        if not path.is_file():
            continue
        raw = path.read_bytes()
        yield path.name, raw
        contents = [*decompress_frames(raw)]
        if raw.startswith(_DATABASE):
            log = path.with_name(f"{path.name}-wal")
            contents += _follow_overflow_pages(
                _pages(raw, log.read_bytes() if log.exists() else b"")
            )
            contents += _rows(path)
        elif path.name == "meta.json":
            contents += _terms(path.parent)
        for content in contents:
            yield path.name, content


def decompress_frames(raw: bytes) -> Iterator[bytes]:
    """Yield the contents of zstd frames that start anywhere in these bytes."""
    for begin in _MAGIC.finditer(raw):
        yield _decompress(memoryview(raw)[begin.start() :])


def _decompress(frame: memoryview | bytes) -> bytes:
    """Return the content of a frame, up to where it is damaged."""
    content = bytearray()
    decompressor = zstandard.ZstdDecompressor().decompressobj()
    with suppress(zstandard.ZstdError):
        for at in range(0, len(frame), _STEP):
            content += decompressor.decompress(frame[at : at + _STEP])
            if decompressor.eof:
                break
    return bytes(content)


def _pages(database: bytes, log: bytes) -> _Pages:
    """Return the pages of a database, then those of its WAL, also outdated ones.

    A WAL may have been restarted: older pages follow the current ones.
    """
    size = int.from_bytes(database[16:18], "big")
    size = 65_536 if size == 1 else size
    pages = [
        (at // size + 1, database[at : at + size])
        for at in range(0, len(database), size)
    ]
    if _WAL_MAGIC.match(log):
        for at in range(_WAL_HEADER, len(log), _FRAME_HEADER + size):
            page = log[at + _FRAME_HEADER : at + _FRAME_HEADER + size]
            pages.append((int.from_bytes(log[at : at + 4], "big"), page))
    return pages


def _follow_overflow_pages(pages: _Pages) -> Iterator[bytes]:
    """Yield the contents of frames that start on one page and continue on others.

    At the end of a cell is the number of its next page. The length of the cell may be
    lost, so every possible page number is followed.
    """
    indexes: dict[int, list[int]] = defaultdict(list)
    for index, (number, _) in enumerate(pages):
        indexes[number].append(index)

    def chain(near: int, to: int) -> Iterator[bytes]:
        seen = {0}
        while to in indexes and to not in seen:
            seen.add(to)
            near = min(indexes[to], key=lambda other: abs(other - near))
            page = pages[near][1]
            yield page[4:]
            to = int.from_bytes(page[:4], "big")

    for index, (_, page) in enumerate(pages):
        for begin in _MAGIC.finditer(page):
            start = begin.start()
            first = int.from_bytes(page[:4], "big")
            yield _decompress(page[start:] + b"".join(chain(index, first)))
            for cut in _POINTER.finditer(page, begin.end()):
                to = int.from_bytes(page[cut.start() : cut.start() + 4], "big")
                if to in indexes:
                    rest = b"".join(chain(index, to))
                    yield _decompress(page[start : cut.start()] + rest)


def _rows(path: Path) -> Iterator[bytes]:
    """Yield the values of all rows of a database, decompressed if they are frames."""
    with TemporaryDirectory() as folder:
        for file in path.parent.glob(f"{path.name}*"):
            if not file.name.endswith("-shm"):
                (Path(folder) / file.name).write_bytes(file.read_bytes())
        with closing(sqlite3.connect(Path(folder) / path.name)) as db:
            db.text_factory = bytes
            tables = db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
            for (table,) in tables.fetchall():
                for row in db.execute(f'SELECT * FROM "{table.decode()}"'):  # noqa: S608 (the engine's own names)
                    for value in row:
                        if isinstance(value, bytes):
                            yield value
                            yield from decompress_frames(value)


def _terms(folder: Path) -> Iterator[bytes]:
    """Yield the terms of a text index, of all segments in its folder."""
    meta = json.loads((folder / "meta.json").read_text("utf-8"))
    segments = {path.name.partition(".")[0] for path in folder.glob("*.term")}
    meta["segments"] = [
        {"segment_id": str(UUID(name)), "max_doc": 1, "deletes": None}
        for name in segments
    ]
    # The text engine may still access its files afterwards.
    with TemporaryDirectory(ignore_cleanup_errors=True) as copy:
        for path in folder.iterdir():
            if path.suffix not in {".json", ".lock"}:
                (Path(copy) / path.name).symlink_to(path.absolute())
        (Path(copy) / "meta.json").write_text(json.dumps(meta), "utf-8")
        searcher = tantivy.Index.open(copy).searcher()
        terms = searcher.terms_with_prefix("text", "")
    yield "\n".join(term for term, _ in terms).encode()
