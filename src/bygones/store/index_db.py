"""Pages: nodes packed one after another, joined without being opened."""

from __future__ import annotations

from _thread import allocate_lock
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from struct import pack
from typing import TYPE_CHECKING
from zlib import crc32

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr

from bygones.model.base import Position, Problem, SessionId
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

if TYPE_CHECKING:
    from bygones.model.nodes import RecordNode


_encode = msgspec.msgpack.Encoder().encode
_FIXARRAY_LIMIT = 16
_ARRAY16_LIMIT = 1 << 16
_INTERN_MIN_BYTES = 1 << 20
"""Bytes of frames from which on it pays to have each text only once."""
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
"""What one node has and others as well."""
_INTERNED_BLOCK_FIELDS = ("kind", "id", "name")
_decoder_lock = allocate_lock()
_decoder_cache: list[msgspec.msgpack.Decoder[list[RecordNode]]] = []
"""The one decoder, once it is made."""


class NodePage(Struct, frozen=True, array_like=True, gc=False):
    """Nodes as they are written down, and how many there are."""

    count: int
    body: bytes

    @property
    def msgpack(self) -> bytes:
        """The page as a list of nodes in MessagePack."""
        return _array_header(self.count) + self.body


def encode_nodes(nodes: Sequence[RecordNode]) -> NodePage:
    """Return nodes as a page."""
    return node_page_from_bytes(len(nodes), _encode(nodes))


def node_page_from_bytes(count: int, raw: bytes) -> NodePage:
    """Return a list of ``count`` nodes in MessagePack as a page."""
    return NodePage(count, raw[len(_array_header(count)) :])


def join_pages(pages: Iterable[NodePage]) -> NodePage:
    """Return pages as one."""
    found = list(pages)
    return NodePage(
        sum(one.count for one in found), b"".join(one.body for one in found)
    )


def decode_nodes(raw: bytes) -> list[RecordNode]:
    """Return the nodes of a page's raw bytes."""
    decoder = _decoder_cache[0] if _decoder_cache else _get_decoder()
    return decoder.decode(raw)


def decode_frames(frames: Sequence[bytes]) -> Iterator[RecordNode]:
    """Yield the nodes of pages that were compressed.

    Of many nodes two fifths are texts that others have too: those are shared, which
    takes a tenth more time.
    """
    is_long = sum(map(len, frames)) >= _INTERN_MIN_BYTES
    known: dict[str, str] = {}
    for frame in frames:
        nodes = decode_nodes(decompress(frame))
        if is_long:
            for node in nodes:
                _intern_strings(node, known)
        yield from nodes


def _intern_strings(node: RecordNode, known: dict[str, str]) -> None:
    place = node.position
    force_setattr(
        place, "source_id", known.setdefault(place.source_id, place.source_id)
    )
    for one, names in (
        (node, _INTERNED_FIELDS),
        *((block, _INTERNED_BLOCK_FIELDS) for block in node.blocks),
    ):
        for name in names:
            text = getattr(one, name)
            if text is not None:
                force_setattr(one, name, known.setdefault(text, text))


def _array_header(count: int) -> bytes:
    """Return what stands before a list of so many values."""
    if count < _FIXARRAY_LIMIT:
        return pack("B", 0x90 | count)
    return (
        pack(">BH", 0xDC, count) if count < _ARRAY16_LIMIT else pack(">BI", 0xDD, count)
    )


def _get_decoder() -> msgspec.msgpack.Decoder[list[RecordNode]]:
    # Made when the first page is opened: a list opens none.
    from bygones.model.nodes import RecordNode

    with _decoder_lock:  # of two that are made at once, one crashes
        if not _decoder_cache:
            _decoder_cache.append(msgspec.msgpack.Decoder(list[RecordNode]))
        return _decoder_cache[0]


if TYPE_CHECKING:
    from bygones.model.nodes import RecordNode


INDEX_FILE = "index.db"
DERIVATION_VERSION = 19
"""Raised whenever nodes, sessions or texts come out differently than before."""
NODES_PER_PAGE = 512


class IndexedSource(Struct, frozen=True):
    """How much of a source the index has seen, and the session it is booked to."""

    source: int
    generation: int
    indexed_bytes: int
    session: int | None = None
    state_checksum: int = 0

    def is_behind(self, stored_source: StoredSource) -> bool:
        """Whether the archive has a source otherwise than it was seen."""
        return (
            self.generation != stored_source.generation
            or self.indexed_bytes < stored_source.stored_bytes
            or self.state_checksum != stored_source.state_checksum
        )


def compute_index_fingerprint(archive_id: str) -> str:
    """Return what an index must be marked with to be of use: schema, code, archive."""
    code = crc32(f"{index_schema()}\n{DERIVATION_VERSION}".encode())
    return f"{code:08x}{crc32(archive_id.encode()):08x}"


class IndexDB:
    """``index.db``, opened for reading or by the one writer."""

    def __init__(
        self, folder: Path, *, write: bool = False, fingerprint: str = ""
    ) -> None:
        if write:
            make_private_folder(folder)
        self.folder = folder
        self.db = open_index_db(folder / INDEX_FILE, write=write)
        if write and not self._has_schema():
            with self.db:
                self.db.execute(index_schema())
                self.set_meta("index", fingerprint)
        self._last_record = int(self.get_meta("next") or 0)
        self._pending_pages: dict[int, tuple[int, list[NodePage]]] = {}
        """Nodes that wait to be written, by source, and where they begin."""
        self._pending_lengths: dict[int, TextLengths] = {}
        """Of sources that are being seen."""

    def _has_schema(self) -> bool:
        sql = "SELECT 1 FROM sqlite_schema WHERE name = 'meta'"
        return fetch_one(self.db, sql) is not None

    def close(self) -> None:
        """Let go of the database."""
        self.db.close()

    def get_meta(self, key: str) -> str | None:
        """Return a value that the index remembers about itself."""
        if not self._has_schema():
            return None
        sql = "SELECT value FROM meta WHERE key = ?"
        row = fetch_one(self.db, sql, (key,))
        return str(row[0]) if row else None

    def set_meta(self, key: str, value: str) -> None:
        """Remember a value."""
        self.db.execute(META.insert_sql("REPLACE"), (key, value))

    def count_sessions(self) -> tuple[int, int]:
        """Return how many sessions say something, and how many say nothing."""
        sql = "SELECT count(*), coalesce(sum(is_empty), 0) FROM session"
        count, empty = fetch_one(self.db, sql) or (0, 0)
        return count - empty, empty

    def load_indexed_sources(self) -> dict[int, IndexedSource]:
        """Return how far each source has been seen."""
        rows = self.db.execute(
            "SELECT source, generation, indexed_bytes, session, state_checksum"
            " FROM source_state"
        )
        return {row[0]: IndexedSource(*row) for row in rows}

    def save_indexed_source(self, indexed_source: IndexedSource) -> None:
        """Note how far a source has been seen."""
        self._flush_page(indexed_source.source)
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
        """Return the number of a session, a new one where it has none yet."""
        sql = "SELECT number FROM session_id WHERE id = ?"
        row = fetch_one(self.db, sql, (session,))
        if row is not None:
            return int(row[0])
        self.db.execute("INSERT INTO session_id (id) VALUES (?)", (session,))
        return self.db.last_insert_rowid()

    def remove_source(self, source: int) -> list[int]:
        """Remove all that was derived from a source; return the ids of its records.

        Its session is derived anew, and so are those whose leaves it names.
        """
        own = (
            "SELECT session FROM source_state WHERE source = ? AND session IS NOT NULL"
        )
        named = (
            "SELECT r.session FROM leaf_title AS t JOIN record AS r ON r.key = t.leaf_key"
            " WHERE t.source = ?"
        )
        for sql in (own, named):
            self.db.execute(f"INSERT OR IGNORE INTO dirty_session {sql}", (source,))
        sql = "SELECT id FROM record WHERE source = ?"
        records = [row[0] for row in fetch_all(self.db, sql, (source,))]
        self.db.execute(f"INSERT INTO text_deletion {sql}", (source,))
        self._pending_pages.pop(source, None)
        self._pending_lengths.pop(source, None)
        for table in (*SOURCE_TABLES, SOURCE_STATE):
            self.db.execute(table.delete_sql("source"), (source,))
        return records

    def reassign_source(self, source: int, session: int) -> None:
        """Book a source to another session; both are derived anew."""
        (before,) = fetch_one(
            self.db, "SELECT session FROM source_state WHERE source = ?", (source,)
        )
        self.mark_dirty([before, session])
        for table in ("source_state", "record"):
            sql = f"UPDATE {table} SET session = ? WHERE source = ?"  # noqa: S608
            self.db.execute(sql, (session, source))

    def add_nodes(
        self,
        indexed_source: IndexedSource,
        page: NodePage,
        rows: Sequence[tuple[int, int | None, int, int]],
    ) -> int:
        """Add the nodes that follow what was seen of a source, and their records.

        A row has the numbers of a record and its message, its offset and its length.
        Return the id of the first record; the others are counted up from there.
        """
        source, session = indexed_source.source, indexed_source.session
        waiting = self._pending_pages.setdefault(
            source, (indexed_source.indexed_bytes, [])
        )[1]
        waiting.append(page)
        if sum(one.count for one in waiting) >= NODES_PER_PAGE:
            self._flush_page(source)
        lowest = self._last_record + 1
        self._last_record += len(rows)
        self.db.executemany(
            RECORD.insert_sql(),
            (
                (id_, number, message, session, source, offset, length)
                for id_, (number, message, offset, length) in enumerate(rows, lowest)
            ),
        )
        return lowest

    def _flush_page(self, source: int) -> None:
        """Write the nodes that wait, together with a small page before them."""
        start, pages = self._pending_pages.pop(source, (0, []))
        if not any(page.count for page in pages):
            return
        last = None
        if start:
            sql = "SELECT start, node_count FROM node_page WHERE source = ?"
            last = fetch_one(self.db, f"{sql} ORDER BY start DESC LIMIT 1", (source,))
        if last is not None and last[1] < NODES_PER_PAGE // 2:
            start, count = last
            sql = "SELECT frame FROM node_page WHERE source = ? AND start = ?"
            (frame,) = fetch_one(self.db, sql, (source, start))
            pages.insert(0, node_page_from_bytes(count, decompress(frame)))
        whole = join_pages(pages)
        self.db.execute(
            NODE_PAGE.insert_sql("REPLACE"),
            (source, start, whole.count, compress(whole.msgpack)),
        )

    def text_lengths(self, source: int, *, is_new: bool) -> TextLengths:
        """Return how much a source says, to be added to until it is seen."""
        found = self._pending_lengths.get(source)
        if found is None:
            sql = "SELECT lengths FROM text_length WHERE source = ?"
            row = None if is_new else fetch_one(self.db, sql, (source,))
            found = self._pending_lengths[source] = TextLengths(row[0] if row else None)
        return found

    def _flush_lengths(self, source: int) -> None:
        lengths = self._pending_lengths.pop(source, None)
        if lengths is not None:
            sql = TEXT_LENGTH.insert_sql("REPLACE")
            self.db.execute(sql, (source, lengths.pack()))

    def add_leaf_titles(
        self, source: int, leaf_titles: Iterable[tuple[int, int, str, str]]
    ) -> None:
        """Note what leaves are called: their number, where, the leaf, the words."""
        rows = [(number, source, *told) for number, *told in leaf_titles]
        if rows:
            self.db.executemany(LEAF_TITLE.insert_sql("REPLACE"), rows)

    def add_problems(self, source: int, problems: Iterable[Problem]) -> None:
        """Note what was odd in a stretch of a source."""
        rows = [
            (source, p.position.offset, p.position.length, p.kind, p.detail)
            for p in problems
        ]
        if rows:
            self.db.executemany(PROBLEM.insert_sql(), rows)

    def add_drift(
        self, source: int, unknown_types: Iterable[tuple[str, str, str]]
    ) -> None:
        """Count types and fields that are not known, by version."""
        rows = [(source, *what) for what in unknown_types]
        if rows:
            self.db.executemany(
                "INSERT INTO drift VALUES (?, ?, ?, ?, 1)"
                " ON CONFLICT DO UPDATE SET count = count + 1",
                rows,
            )

    def mark_dirty(self, sessions: Iterable[int]) -> None:
        """Note that sessions must be derived anew."""
        rows = ((session,) for session in sessions)
        self.db.executemany(DIRTY_SESSION.insert_sql("IGNORE"), rows)

    def nodes(self, source: int) -> tuple[RecordNode, ...]:
        """Return all nodes of a source, in order."""
        return tuple(self.iter_nodes(source))

    def iter_nodes(self, source: int) -> Iterator[RecordNode]:
        """Yield the nodes of a source, in order."""
        return decode_frames(self.load_node_frames(source))

    def load_node_frames(self, source: int) -> list[bytes]:
        """Return the nodes of a source as they are kept, in order."""
        sql = "SELECT frame FROM node_page WHERE source = ? ORDER BY start"
        return [frame for (frame,) in fetch_all(self.db, sql, (source,))]

    def problems(self, stored_source: StoredSource) -> Iterator[Problem]:
        """Yield what was odd in a source, in order."""
        rows = self.db.execute(
            "SELECT kind, start, length, detail FROM problem WHERE source = ?"
            " ORDER BY rowid",
            (stored_source.number,),
        )
        for kind, offset, length, detail in rows:
            place = Position(stored_source.id, stored_source.generation, offset, length)
            yield Problem(kind, place, detail)

    def last_text_record(self) -> int:
        """Return the highest record whose words are known to be in the text index."""
        return int(self.get_meta("text") or 0)

    def is_text_index_current(self) -> bool:
        """Whether the text index has the words of all records, and no others."""
        return (
            self.last_text_record() == self._last_record
            and not self.pending_text_deletions()
        )

    def save_last_record(self) -> None:
        """Remember the highest record, so that no id is given twice."""
        self.set_meta("next", str(self._last_record))

    def mark_text_index_current(self) -> None:
        """Remember that the text index is level with the records."""
        self.set_meta("text", str(self._last_record))
        self.db.execute("DELETE FROM text_deletion")

    def pending_text_deletions(self) -> list[int]:
        """Return the records whose words must be taken out of the text index."""
        return [
            row[0] for row in fetch_all(self.db, "SELECT record FROM text_deletion")
        ]

    def sources_with_records_after(self, record: int) -> list[tuple[int, int]]:
        """Return the sources that have records above a level, and from where."""
        return fetch_all(
            self.db,
            "SELECT source, min(start) FROM record WHERE id > ? GROUP BY source",
            (record,),
        )

    def record_ids(self, source: int, after_record: int) -> dict[int, int]:
        """Return the ids of a source's records above a level, by their offset."""
        sql = "SELECT start, id FROM record WHERE source = ? AND id > ?"
        return dict(fetch_all(self.db, sql, (source, after_record)))
