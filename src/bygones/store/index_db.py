"""`index.db`: nodes, records and the state of sources."""

from __future__ import annotations

from _thread import allocate_lock
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from struct import pack
from typing import TypeVar
from zlib import crc32

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr

from bygones.errors import ArchiveDamaged, IndexDamaged
from bygones.model.base import Position, Problem, SessionId
from bygones.model.nodes import RecordNode
from bygones.model.problem_runs import ProblemRuns, add_drift
from bygones.store.archive_db import StoredSource
from bygones.store.compression import compress, decompress
from bygones.store.connect import (
    fetch_all,
    fetch_one,
    make_private_folder,
    open_index_db,
)
from bygones.store.encoding import TextLengths
from bygones.store.schema import (
    DIRTY_SESSION,
    DRIFT,
    LEAF_TITLE,
    META,
    NODE_PAGE,
    PROBLEM,
    RECORD,
    SOURCE_STATE,
    SOURCE_TABLES,
    TEXT_LENGTH,
    index_schema,
)

_encode = msgspec.msgpack.Encoder().encode
_FIXARRAY_LIMIT = 16
_ARRAY16_LIMIT = 1 << 16
_INTERN_MIN_BYTES = 1 << 20
"""Size of the frames above which strings are interned."""
_INTERNED_FIELDS = (
    "kind",
    "subtype",
    "uuid",
    "parent_uuid",
    "session_id",
    "cwd",
    "git_branch",
    "version",
    "slug",
    "entrypoint",
    "message_id",
    "request_id",
    "model",
    "source_call_id",
    "source_record_id",
)
"""Fields of nodes whose values repeat."""
_INTERNED_BLOCK_FIELDS = ("kind", "id", "name")
_decoder_lock = allocate_lock()
_decoder_cache: list[msgspec.msgpack.Decoder[list[RecordNode]]] = []
"""Contains the decoder once it was created."""


class NodePage(Struct, frozen=True, array_like=True, gc=False):
    """Encoded nodes, and their number."""

    count: int
    limited_count: int
    """How many records count towards the limit of their file: see `RecordNode`."""
    body: bytes

    @property
    def msgpack(self) -> bytes:
        """The page as a list of nodes in MessagePack."""
        return _array_header(self.count) + self.body


def encode_nodes(nodes: Sequence[RecordNode]) -> NodePage:
    limited_count = sum(node.limited_count for node in nodes)
    return node_page_from_bytes(len(nodes), limited_count, _encode(nodes))


def node_page_from_bytes(count: int, limited_count: int, raw: bytes) -> NodePage:
    """Return a page from a MessagePack list of `count` nodes."""
    return NodePage(count, limited_count, raw[len(_array_header(count)) :])


def join_pages(pages: Iterable[NodePage]) -> NodePage:
    """Join pages without decoding them."""
    parts = list(pages)
    return NodePage(
        sum(page.count for page in parts),
        sum(page.limited_count for page in parts),
        b"".join(page.body for page in parts),
    )


def decode_nodes(raw: bytes) -> list[RecordNode]:
    decoder = _decoder_cache[0] if _decoder_cache else _get_decoder()
    return decoder.decode(raw)


T = TypeVar("T")
_OWN_FOLDER = Path("its folder")
"""Names the folder in an error if only bytes of the index are known."""


def decode_frame(
    frame: bytes, decode: Callable[[bytes], T], folder: Path = _OWN_FOLDER
) -> T:
    """Decompress and decode a page of the index.

    Raises `IndexDamaged` if its bytes are damaged.
    """
    try:
        return decode(decompress(frame))
    except MemoryError:
        raise
    except Exception as error:
        raise IndexDamaged(folder, f"a page of index.db: {error}") from error


def decode_frames(
    frames: Sequence[bytes], folder: Path = _OWN_FOLDER
) -> Iterator[RecordNode]:
    """Yield the nodes of compressed pages.

    In long sources, two fifths of the memory of nodes are repeated strings. Interning
    them takes a tenth more time.
    """
    is_long = sum(map(len, frames)) >= _INTERN_MIN_BYTES
    interned: dict[str, str] = {}
    for frame in frames:
        nodes = decode_frame(frame, decode_nodes, folder)
        if is_long:
            for node in nodes:
                _intern_strings(node, interned)
        yield from nodes


def _intern_strings(node: RecordNode, interned: dict[str, str]) -> None:
    position = node.position
    force_setattr(
        position,
        "source_id",
        interned.setdefault(position.source_id, position.source_id),
    )
    for value, names in (
        (node, _INTERNED_FIELDS),
        *((block, _INTERNED_BLOCK_FIELDS) for block in node.blocks),
    ):
        for name in names:
            text = getattr(value, name)
            if text is not None:
                force_setattr(value, name, interned.setdefault(text, text))


def _array_header(count: int) -> bytes:
    """Return the MessagePack header of an array."""
    if count < _FIXARRAY_LIMIT:
        return pack("B", 0x90 | count)
    return (
        pack(">BH", 0xDC, count) if count < _ARRAY16_LIMIT else pack(">BI", 0xDD, count)
    )


def _get_decoder() -> msgspec.msgpack.Decoder[list[RecordNode]]:
    # Created with the first page: listing sessions needs none.
    with _decoder_lock:  # creating two at once crashes msgspec
        if not _decoder_cache:
            _decoder_cache.append(msgspec.msgpack.Decoder(list[RecordNode]))
        return _decoder_cache[0]


INDEX_FILE = "index.db"
DERIVATION_VERSION = 48
"""To be raised whenever nodes, sessions or texts are derived differently."""
NODES_PER_PAGE = 512


class IndexedSource(Struct, frozen=True):
    """How much of a source is indexed, and the session it belongs to."""

    source: int
    generation: int
    indexed_bytes: int
    session: int | None = None
    state_checksum: int = 0

    def is_behind(self, stored_source: StoredSource) -> bool:
        """Whether the archive has a newer state of the source."""
        return (
            self.generation != stored_source.generation
            or self.indexed_bytes < stored_source.stored_bytes
            or self.state_checksum != stored_source.state_checksum
        )


def compute_index_fingerprint(archive_id: str) -> str:
    """Return the fingerprint of an index: schema, version and archive."""
    code = crc32(f"{index_schema()}\n{DERIVATION_VERSION}".encode())
    return f"{code:08x}{crc32(archive_id.encode()):08x}"


class IndexDB:
    """`index.db`, opened for reading or by the only writer."""

    def __init__(
        self,
        folder: Path,
        *,
        write: bool = False,
        is_new: bool = False,
        fingerprint: str = "",
    ) -> None:
        if write:
            make_private_folder(folder)
        self.folder = folder
        self.db = open_index_db(folder / INDEX_FILE, write=write)
        self.is_closed = False
        if not self._has_schema():
            if not is_new:
                self.close()
                raise ArchiveDamaged(folder / INDEX_FILE, "it is empty")
            with self.db:
                self.db.execute(index_schema())
                self.set_meta("fingerprint", fingerprint)
        self._last_record = int(self.get_meta("last_record") or 0)
        self._pending_pages: dict[int, tuple[int, list[NodePage]]] = {}
        """Nodes that are not written yet, by source, with their offset."""
        self._pending_lengths: dict[int, TextLengths] = {}
        """Text lengths of sources that are being indexed."""

    @property
    def archive_folder(self) -> Path:
        """The folder of the archive that is indexed."""
        return self.folder.parents[1]

    def _has_schema(self) -> bool:
        sql = "SELECT 1 FROM sqlite_schema WHERE name = 'meta'"
        return fetch_one(self.db, sql) is not None

    def close(self) -> None:
        self.is_closed = True
        self.db.close()

    def get_meta(self, key: str) -> str | None:
        """Return a value that describes the index itself."""
        if not self._has_schema():
            return None
        sql = "SELECT value FROM meta WHERE key = ?"
        row = fetch_one(self.db, sql, (key,))
        return str(row[0]) if row else None

    def set_meta(self, key: str, value: str) -> None:
        self.db.execute(META.insert_sql("REPLACE"), (key, value))

    def count_sessions(self) -> tuple[int, int]:
        """Return the number of sessions with and without messages."""
        sql = "SELECT count(*), coalesce(sum(is_empty), 0) FROM session"
        count, empty = fetch_one(self.db, sql) or (0, 0)
        return count - empty, empty

    def load_indexed_sources(self) -> dict[int, IndexedSource]:
        """Return the state of all indexed sources, by number."""
        rows = self.db.execute(
            "SELECT source, generation, indexed_bytes, session, state_checksum"
            " FROM source_state"
        )
        return {row[0]: IndexedSource(*row) for row in rows}

    def save_indexed_source(self, indexed_source: IndexedSource) -> None:
        """Write pending rows of a source, and how much of it is indexed."""
        self.flush_nodes(indexed_source.source)
        self._flush_lengths(indexed_source.source)
        self.db.execute(
            SOURCE_STATE.insert_sql("REPLACE"),
            (
                indexed_source.source,
                indexed_source.generation,
                indexed_source.indexed_bytes,
                indexed_source.session,
                indexed_source.state_checksum,
            ),
        )

    def ensure_session_number(self, session: SessionId) -> int:
        """Return the number of a session, which is added if it is new."""
        sql = "SELECT number FROM session_id WHERE id = ?"
        row = fetch_one(self.db, sql, (session,))
        if row is not None:
            return int(row[0])
        self.db.execute("INSERT INTO session_id (id) VALUES (?)", (session,))
        return self.db.last_insert_rowid()

    def remove_source(self, source: int) -> list[int]:
        """Delete everything derived from a source; return the numbers of its records.

        Its session becomes dirty, and so do sessions that it has titles for.
        """
        own_session = (
            "SELECT session FROM source_state WHERE source = ? AND session IS NOT NULL"
        )
        titled_sessions = (
            "SELECT r.session FROM"
            " (SELECT DISTINCT leaf_key FROM leaf_title WHERE source = ?) AS t"
            " JOIN record AS r ON r.key = t.leaf_key"
        )
        for sql in (own_session, titled_sessions):
            self.db.execute(f"INSERT OR IGNORE INTO dirty_session {sql}", (source,))
        records = self.delete_texts(source)
        self._pending_pages.pop(source, None)
        self._pending_lengths.pop(source, None)
        self._unsettle(source)
        for table in (*SOURCE_TABLES, SOURCE_STATE):
            self.db.execute(table.delete_sql("source"), (source,))
        return records

    def delete_texts(self, source: int) -> list[int]:
        """Note that the texts of a source must be removed; return its records."""
        sql = "SELECT id FROM record WHERE source = ?"
        self.db.execute(f"INSERT OR IGNORE INTO text_deletion {sql}", (source,))
        return [row[0] for row in fetch_all(self.db, sql, (source,))]

    def _unsettle(self, source: int) -> None:
        """Forget what is settled of a source's session, to derive all of it again."""
        self.db.execute(
            "DELETE FROM settled_part WHERE session ="
            " (SELECT session FROM source_state WHERE source = ?)",
            (source,),
        )

    def reassign_source(self, source: int, session: int) -> None:
        """Assign a source to another session; both become dirty."""
        (previous,) = fetch_one(
            self.db, "SELECT session FROM source_state WHERE source = ?", (source,)
        )
        self.mark_dirty([previous, session])
        self._unsettle(source)
        for table in ("source_state", "record"):
            sql = f"UPDATE {table} SET session = ? WHERE source = ?"  # noqa: S608
            self.db.execute(sql, (session, source))

    def add_nodes(
        self,
        indexed_source: IndexedSource,
        page: NodePage,
        rows: Sequence[tuple[int, int | None, int, int]],
    ) -> int:
        """Add the nodes that follow the indexed part of a source, and their records.

        A row has the key of a record, the key of its message, its offset and its
        length. Returns the number of the first record; the others follow.
        """
        source, session = indexed_source.source, indexed_source.session
        pending = self._pending_pages.setdefault(
            source, (indexed_source.indexed_bytes, [])
        )[1]
        pending.append(page)
        if sum(pending_page.count for pending_page in pending) >= NODES_PER_PAGE:
            self.flush_nodes(source)
        return self.add_records(source, session, rows)

    def add_records(
        self,
        source: int,
        session: int | None,
        rows: Sequence[tuple[int, int | None, int, int]],
    ) -> int:
        """Add records, as rows of `add_nodes`; return the number of the first."""
        first = self._last_record + 1
        self._last_record += len(rows)
        self.db.executemany(
            RECORD.insert_sql(),
            (
                (id_, key, message_key, session, source, offset, length)
                for id_, (key, message_key, offset, length) in enumerate(rows, first)
            ),
        )
        return first

    def remove_records_from(self, source: int, start: int) -> list[int]:
        """Delete the records of an unfinished last line; return their numbers.

        They are the newest records of a source, if their offset is at least `start`.
        """
        sql = "SELECT id, start FROM record WHERE source = ? ORDER BY id DESC LIMIT 1"
        removed: list[int] = []
        while (last := fetch_one(self.db, sql, (source,))) and last[1] >= start:
            self.db.execute("DELETE FROM record WHERE id = ?", (last[0],))
            self.db.execute("INSERT INTO text_deletion VALUES (?)", (last[0],))
            removed.append(last[0])
        return removed

    def count_limited_nodes(self, source: int) -> int:
        """Return how many short records of a source are used, with those pending."""
        sql = "SELECT coalesce(sum(limited_count), 0) FROM node_page WHERE source = ?"
        _, pending = self._pending_pages.get(source, (0, []))
        (stored,) = fetch_one(self.db, sql, (source,))
        return int(stored) + sum(page.limited_count for page in pending)

    def flush_nodes(self, source: int) -> None:
        """Write pending nodes, joined with a small page before them."""
        start, pages = self._pending_pages.pop(source, (0, []))
        if not any(page.count for page in pages):
            return
        last = None
        if start:
            sql = (
                "SELECT start, node_count, limited_count FROM node_page"
                " WHERE source = ?"
            )
            last = fetch_one(self.db, f"{sql} ORDER BY start DESC LIMIT 1", (source,))
        if last is not None and last[1] < NODES_PER_PAGE // 2:
            start, count, limited_count = last
            sql = "SELECT frame FROM node_page WHERE source = ? AND start = ?"
            (frame,) = fetch_one(self.db, sql, (source, start))
            page = node_page_from_bytes(count, limited_count, decompress(frame))
            pages.insert(0, page)
        whole = join_pages(pages)
        self.db.execute(
            NODE_PAGE.insert_sql("REPLACE"),
            (
                source,
                start,
                whole.count,
                whole.limited_count,
                compress(whole.msgpack),
            ),
        )

    def text_lengths(self, source: int, *, is_new: bool) -> TextLengths:
        """Return the text lengths of a source, to be updated until it is saved."""
        lengths = self._pending_lengths.get(source)
        if lengths is None:
            sql = "SELECT lengths FROM text_length WHERE source = ?"
            row = None if is_new else fetch_one(self.db, sql, (source,))
            lengths = self._pending_lengths[source] = TextLengths(
                row[0] if row else None
            )
        return lengths

    def _flush_lengths(self, source: int) -> None:
        lengths = self._pending_lengths.pop(source, None)
        if lengths is not None:
            sql = TEXT_LENGTH.insert_sql("REPLACE")
            self.db.execute(sql, (source, lengths.pack()))

    def add_leaf_titles(
        self, source: int, leaf_titles: Iterable[tuple[int, int, str, str]]
    ) -> None:
        """Add titles of leaves: key of the leaf, offset of the title, leaf, title."""
        rows = [(key, source, *values) for key, *values in leaf_titles]
        if rows:
            self.db.executemany(LEAF_TITLE.insert_sql("REPLACE"), rows)

    def add_problems(
        self, stored_source: StoredSource, problems: Sequence[Problem]
    ) -> None:
        """Add problems to those that are known; long runs of them are merged."""
        if not problems:
            return
        source = stored_source.number
        runs = ProblemRuns(self.problems(stored_source))
        runs.extend(problems)
        self.db.execute("DELETE FROM problem WHERE source = ?", (source,))
        self.db.executemany(
            PROBLEM.insert_sql(),
            (
                (
                    source,
                    run.position.offset,
                    run.position.length,
                    run.kind,
                    run.detail,
                    run.count,
                )
                for run in runs
            ),
        )

    def add_drift(
        self,
        source: int,
        unknown_types: Sequence[tuple[tuple[str, str, str], int]],
    ) -> None:
        """Count unknown types and fields, by version."""
        if not unknown_types:
            return
        sql = "SELECT kind, name, version, count FROM drift WHERE source = ?"
        known = {tuple(what): n for *what, n in self.db.execute(sql, (source,))}
        add_drift(known, unknown_types)
        self.db.executemany(
            DRIFT.insert_sql("REPLACE"),
            ((source, *what, count) for what, count in known.items()),
        )

    def mark_dirty(self, sessions: Iterable[int]) -> None:
        """Mark sessions that must be derived again."""
        rows = ((session,) for session in sessions)
        self.db.executemany(DIRTY_SESSION.insert_sql("IGNORE"), rows)

    def nodes(self, source: int) -> tuple[RecordNode, ...]:
        """Return all nodes of a source, in order."""
        return tuple(self.iter_nodes(source))

    def iter_nodes(self, source: int) -> Iterator[RecordNode]:
        return decode_frames(self.load_node_frames(source), self.archive_folder)

    def nodes_from(
        self, source: int, offset: int, limit: int | None = None
    ) -> tuple[RecordNode, ...]:
        """Return the nodes of a source from an offset on, in order.

        With a limit, only the first ones are returned.
        """
        sql = (
            "SELECT frame, node_count FROM node_page WHERE source = ?1"
            " AND start >= coalesce((SELECT max(start) FROM node_page"
            " WHERE source = ?1 AND start <= ?2), 0) ORDER BY start"
        )
        frames: list[bytes] = []
        count = 0
        for frame, node_count in self.db.execute(sql, (source, offset)):
            frames.append(frame)
            # Nodes of the first page may be before the offset.
            count += node_count if len(frames) > 1 or not offset else 0
            if limit is not None and count >= limit:
                break
        nodes = decode_frames(frames, self.archive_folder)
        later = (node for node in nodes if node.position.offset >= offset)
        return tuple(islice(later, limit))

    def load_node_frames(self, source: int) -> list[bytes]:
        """Return the compressed node pages of a source, in order."""
        sql = "SELECT frame FROM node_page WHERE source = ? ORDER BY start"
        return [frame for (frame,) in fetch_all(self.db, sql, (source,))]

    def problems(self, stored_source: StoredSource) -> Iterator[Problem]:
        """Yield the problems of a source, in order."""
        rows = self.db.execute(
            "SELECT kind, start, length, detail, count FROM problem WHERE source = ?"
            " ORDER BY rowid",
            (stored_source.number,),
        )
        for kind, offset, length, detail, count in rows:
            position = Position(
                stored_source.id, stored_source.generation, offset, length
            )
            yield Problem(kind, position, detail, count)

    def last_text_record(self) -> int:
        """Return the highest record whose text is known to be in the text index."""
        return int(self.get_meta("last_text_record") or 0)

    def is_text_index_current(self) -> bool:
        """Whether the text index has the text of all records, and no other."""
        return (
            self.last_text_record() == self._last_record
            and not self.pending_text_deletions()
        )

    def save_last_record(self) -> None:
        """Save the highest record number, so that none is used twice."""
        self.set_meta("last_record", str(self._last_record))

    def mark_text_index_current(self) -> None:
        """Record that the text index is up to date."""
        self.set_meta("last_text_record", str(self._last_record))
        self.db.execute("DELETE FROM text_deletion")

    def pending_text_deletions(self) -> list[int]:
        """Return the records whose text must be removed from the text index."""
        return [
            row[0] for row in fetch_all(self.db, "SELECT record FROM text_deletion")
        ]

    def sources_with_records_after(self, record: int) -> list[tuple[int, int]]:
        """Return the sources with higher records, and the offset of the first."""
        return fetch_all(
            self.db,
            "SELECT source, min(start) FROM record WHERE id > ? GROUP BY source",
            (record,),
        )

    def record_ids(self, source: int, after_record: int) -> dict[int, int]:
        """Return the higher records of a source, by offset."""
        sql = "SELECT start, id FROM record WHERE source = ? AND id > ?"
        return dict(fetch_all(self.db, sql, (source, after_record)))
