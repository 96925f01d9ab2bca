"""Looks for bytes in all files of a folder, also in compressed and freed space.

Files are searched as they are. Wherever a zstd frame starts, as much of it as possible is
decompressed: in the order of the file, and along the overflow pages of SQLite, including
free pages and those in a log. Rows are also read by the standard library's SQLite, and
words by the text engine, including those of unused segments.
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

__all__ = ["opened", "pieces", "traces"]

_MAGIC = re.compile(rb"\x28\xb5\x2f\xfd")
_POINTER = re.compile(rb"(?=\0...)", re.DOTALL)
_DATABASE = b"SQLite format 3\0"
_LOG = re.compile(rb"\x37\x7f\x06[\x82\x83]")
_LOG_HEAD, _FRAME_HEAD = 32, 24
_STEP = 1024
"""Bytes of a frame that are opened at once: what is behind them may be another's."""

_Pages = list[tuple[int, bytes]]
"""Pages by their number; of one there may be several, as it was at several times."""


def traces(folder: Path, canary: bytes) -> list[str]:
    """Return the files that hold some bytes, in whatever form."""
    return sorted({name for name, found in pieces(folder) if canary in found})


def pieces(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield all that the files of a folder hold, with the names of these."""
    for path in sorted(folder.rglob("*")):
        yield path.name, path.name.encode()
        if not path.is_file():
            continue
        raw = path.read_bytes()
        yield path.name, raw
        found = [*opened(raw)]
        if raw.startswith(_DATABASE):
            log = path.with_name(f"{path.name}-wal")
            found += _followed(_pages(raw, log.read_bytes() if log.exists() else b""))
            found += _rows(path)
        elif path.name == "meta.json":
            found += _words(path.parent)
        for one in found:
            yield path.name, one


def opened(raw: bytes) -> Iterator[bytes]:
    """Yield what the zstd frames hold that begin anywhere in some bytes."""
    for begin in _MAGIC.finditer(raw):
        yield _unpacked(memoryview(raw)[begin.start() :])


def _unpacked(frame: memoryview | bytes) -> bytes:
    """Return the content of a frame, up to where it is damaged."""
    found = bytearray()
    engine = zstandard.ZstdDecompressor().decompressobj()
    with suppress(zstandard.ZstdError):
        for at in range(0, len(frame), _STEP):
            found += engine.decompress(frame[at : at + _STEP])
            if engine.eof:
                break
    return bytes(found)


def _pages(database: bytes, log: bytes) -> _Pages:
    """Return the pages of a database, then those of its log, whether they count or not.

    A log may have been restarted: after the current pages there are older ones.
    """
    size = int.from_bytes(database[16:18], "big")
    size = 65_536 if size == 1 else size
    found = [
        (at // size + 1, database[at : at + size])
        for at in range(0, len(database), size)
    ]
    if _LOG.match(log):
        for at in range(_LOG_HEAD, len(log), _FRAME_HEAD + size):
            page = log[at + _FRAME_HEAD : at + _FRAME_HEAD + size]
            found.append((int.from_bytes(log[at : at + 4], "big"), page))
    return found


def _followed(pages: _Pages) -> Iterator[bytes]:
    """Yield what frames hold that begin on one page and go on on others.

    Where a cell ends, the number of the next page stands; where that is, the cell says,
    which may be gone. So every number of a page is followed that could be meant.
    """
    places: dict[int, list[int]] = defaultdict(list)
    for index, (number, _) in enumerate(pages):
        places[number].append(index)

    def chain(near: int, to: int) -> Iterator[bytes]:
        seen = {0}
        while to in places and to not in seen:
            seen.add(to)
            near = min(places[to], key=lambda one: abs(one - near))
            page = pages[near][1]
            yield page[4:]
            to = int.from_bytes(page[:4], "big")

    for index, (_, page) in enumerate(pages):
        for begin in _MAGIC.finditer(page):
            start = begin.start()
            first = int.from_bytes(page[:4], "big")
            yield _unpacked(page[start:] + b"".join(chain(index, first)))
            for cut in _POINTER.finditer(page, begin.end()):
                to = int.from_bytes(page[cut.start() : cut.start() + 4], "big")
                if to in places:
                    rest = b"".join(chain(index, to))
                    yield _unpacked(page[start : cut.start()] + rest)


def _rows(path: Path) -> Iterator[bytes]:
    """Yield what the rows of a database hold, opened where it is a frame."""
    with TemporaryDirectory() as folder:
        for one in path.parent.glob(f"{path.name}*"):
            if not one.name.endswith("-shm"):
                (Path(folder) / one.name).write_bytes(one.read_bytes())
        with closing(sqlite3.connect(Path(folder) / path.name)) as db:
            db.text_factory = bytes
            tables = db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
            for (table,) in tables.fetchall():
                for row in db.execute(f'SELECT * FROM "{table.decode()}"'):  # noqa: S608 (the engine's own names)
                    for value in row:
                        if isinstance(value, bytes):
                            yield value
                            yield from opened(value)


def _words(folder: Path) -> Iterator[bytes]:
    """Yield the words of a text index, of all segments that lie in its folder."""
    meta = json.loads((folder / "meta.json").read_text("utf-8"))
    found = {path.name.partition(".")[0] for path in folder.glob("*.term")}
    meta["segments"] = [
        {"segment_id": str(UUID(name)), "max_doc": 1, "deletes": None} for name in found
    ]
    # The engine may still look at its files when we are done.
    with TemporaryDirectory(ignore_cleanup_errors=True) as beside:
        for path in folder.iterdir():
            if path.suffix not in {".json", ".lock"}:
                (Path(beside) / path.name).symlink_to(path.absolute())
        (Path(beside) / "meta.json").write_text(json.dumps(meta), "utf-8")
        searcher = tantivy.Index.open(beside).searcher()
        terms = searcher.terms_with_prefix("text", "")
    yield "\n".join(term for term, _ in terms).encode()
