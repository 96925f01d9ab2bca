"""Read a team store within a scope: bytes, nodes and problems of sources."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from msgspec.structs import replace

from bygones.errors import ArchiveDamaged
from bygones.ingest.index_batch import decode_lines
from bygones.model.base import (
    AgentId,
    Position,
    Problem,
    ProjectKey,
    SessionId,
    SourceKind,
)
from bygones.model.nodes import RecordNode
from bygones.model.summary import Annotations
from bygones.sources.lines import split_lines
from bygones.store.archive_db import Chunk, StoredSource
from bygones.store.compression import decompress, sha256_digest
from bygones.team.contract import BlobStore, ScopedDatabase
from bygones.team.projects import TeamProjects
from bygones.team.row_readers import (
    RecordStart,
    TeamEditReader,
    TeamLookup,
    TeamPromptReader,
    TeamSearchFacts,
    TeamSessionReader,
    TeamUsageReader,
)
from bygones.team.text_engine import TeamEngine, TextSearchBackend

_ANSWER_CACHE_BYTES = 32 * 1024 * 1024
"""Decompressed bytes that a reader caches during a read transaction."""
_SHARED_CACHE_BYTES = 64 * 1024 * 1024
"""Decompressed bytes that all readers of a store share."""
_READ_AHEAD_BYTES = 8 * 1024 * 1024
"""Bytes that are fetched at once: a source may have been uploaded in small spans. As
many are cached outside of a read transaction."""
_COLUMNS = (
    "number, machine, home, path, kind, project, session, agent, generation,"
    " stored_bytes, mtime_ns, fragment"
)
_COLUMNS_OF_S = ", ".join(f"s.{name}" for name in _COLUMNS.split(", "))
_SOURCE = f"SELECT {_COLUMNS} FROM {{source}} AS s"  # noqa: S608 (our names)
_MAX_OFFSET = (1 << 62) - 1
_LAST_CHARACTER = "\U0010ffff"


class _SpanRow(NamedTuple):
    start: int
    stop: int
    sha256: bytes
    address: str


class BlobCache:
    """Recently used blobs, decompressed; several threads may share a cache.

    It reveals nothing: a reader only has the addresses of spans that it may see.
    """

    def __init__(self, max_bytes: int = _SHARED_CACHE_BYTES) -> None:
        self.max_bytes = max_bytes
        self._lock = Lock()
        self._blobs: OrderedDict[str, bytes] = OrderedDict()
        self._total_bytes = 0

    def get(self, address: str) -> bytes | None:
        with self._lock:
            raw = self._blobs.get(address)
            if raw is not None:
                self._blobs.move_to_end(address)
            return raw

    def put(self, address: str, raw: bytes) -> None:
        """Add a blob; the least recently used ones are evicted."""
        with self._lock:
            if address not in self._blobs:
                self._blobs[address] = raw
                self._total_bytes += len(raw)
            self._evict(self.max_bytes)

    def shrink_to(self, max_bytes: int) -> None:
        with self._lock:
            self._evict(max_bytes)

    def _evict(self, max_bytes: int) -> None:
        while self._total_bytes > max_bytes and len(self._blobs) > bool(max_bytes):
            _, old = self._blobs.popitem(last=False)
            self._total_bytes -= len(old)


class TeamByteReader:
    """The bytes of sources, from the blob store."""

    def __init__(
        self, database: ScopedDatabase, blobs: BlobStore, shared_cache: BlobCache
    ) -> None:
        self._database = database
        self._blobs = blobs
        self._shared_cache = shared_cache
        self._local_cache = BlobCache(_READ_AHEAD_BYTES)
        """Recently fetched blobs, verified."""
        self.reset()

    @contextmanager
    def enlarged_cache(self) -> Iterator[None]:
        """Cache more bytes for a moment, and drop them afterwards."""
        before, self._local_cache.max_bytes = (
            self._local_cache.max_bytes,
            _ANSWER_CACHE_BYTES,
        )
        try:
            yield
        finally:
            self._local_cache.max_bytes = before
            if before < _ANSWER_CACHE_BYTES:
                self._local_cache.shrink_to(0)

    def reset(self) -> None:
        """Drop what is known about sources, before the next request."""
        self._sources: dict[int, StoredSource | None] = {}
        self._spans_by_source: dict[tuple[int, int], list[_SpanRow]] = {}
        self._fragments: dict[tuple[int, int], bytes] = {}
        """Unfinished last lines by source and generation."""
        self._sources_by_path: dict[tuple[str, str], StoredSource] = {}
        """All sources below ``_folders``, by home and path."""
        self._folders: set[tuple[str, str]] = set()

    def sources(self) -> Iterator[StoredSource]:
        for row in self._database.rows(f"{_SOURCE} ORDER BY number"):
            yield self._source_from_row(row)

    def source(self, number: int) -> StoredSource | None:
        if number not in self._sources:
            self._load_sources([number])
        return self._sources[number]

    def _load_sources(self, numbers: Iterable[int]) -> None:
        new = [number for number in numbers if number not in self._sources]
        if new:
            self._sources |= dict.fromkeys(new)
            among = self._database.db.in_list("number", "numbers")
            for row in self._database.rows(f"{_SOURCE} WHERE {among}", numbers=new):
                self._sources[row[0]] = self._source_from_row(row)

    def find_source(self, home: str, path: str) -> StoredSource | None:
        if any(
            home == own_home and path.startswith(folder)
            for own_home, folder in self._folders
        ):
            return self._sources_by_path.get((home, path))
        rows = self._database.rows(f"{_SOURCE} WHERE path = %(path)s", path=path)
        return next(
            (
                source
                for source in map(self._source_from_row, rows)
                if source.home == home
            ),
            None,
        )

    def source_by_id(self, id_: str) -> StoredSource | None:
        for source in self._sources.values():
            if source is not None and source.id == id_:
                return source
        sql = f"{_SOURCE} WHERE id = %(name)s ORDER BY number LIMIT 1"
        row = self._database.first_row(sql, name=id_)
        return self._source_from_row(row) if row else None

    def prefetch_records(self, records: Sequence[RecordStart]) -> None:
        """Fetch the blobs of records that will be read."""
        self._load_sources_with_spans({one.source for one in records})
        wanted: dict[str, _SpanRow] = {}
        for one in records:
            stored_source = self._sources[one.source]
            if stored_source is not None:
                place = (
                    stored_source.number,
                    stored_source.generation,
                    one.start,
                    one.start + 1,
                )
                wanted |= {
                    span.address: span for span in self._overlapping_spans(*place)
                }
        self._fetch(wanted.values())

    def _load_sources_with_spans(self, numbers: Iterable[int]) -> None:
        new = [number for number in numbers if number not in self._sources]
        if not new:
            return
        self._sources |= dict.fromkeys(new)
        among = self._database.db.in_list("s.number", "numbers")
        rows = self._database.rows(
            f"SELECT {_COLUMNS_OF_S}, p.start, p.stop, p.sha256, p.address"  # noqa: S608 (our names)
            " FROM {source} AS s LEFT JOIN {span} AS p"
            " ON p.number = s.number AND p.generation = s.generation"
            f" WHERE {among} ORDER BY s.number, p.start",
            numbers=new,
        )
        for row in rows:
            stored_source = self._sources[row[0]] = self._source_from_row(
                row[: -len(_SpanRow._fields)]
            )
            spans = self._spans_by_source.setdefault(
                (stored_source.number, stored_source.generation), []
            )
            span = _SpanRow(*row[-len(_SpanRow._fields) :])
            if span.stop:  # without a span it is NULL in PostgreSQL, 0 in ClickHouse
                spans.append(span)

    def prefetch_siblings(self, numbers: Sequence[int]) -> list[int]:
        """Load sources and all other files of their sessions; return their numbers."""
        self._load_sources(numbers)
        own = self._cached_sources(numbers)
        stems = {
            (stored_source.home, stored_source.path.split("/subagents/")[0])
            for stored_source in own
        }
        folders = {(home, stem.removesuffix(".jsonl")) for home, stem in stems}
        values: dict[str, str] = {}
        ranges: list[str] = []
        for at, (_, folder) in enumerate(sorted(folders - self._folders)):
            values |= {f"low{at}": folder, f"high{at}": folder + _LAST_CHARACTER}
            ranges.append(f"(path >= %(low{at})s AND path < %(high{at})s)")
        if ranges:
            rows = self._database.rows(
                f"{_SOURCE} WHERE {' OR '.join(ranges)}", **values
            )
            for stored_source in map(self._source_from_row, rows):
                self._sources[stored_source.number] = stored_source
                self._sources_by_path[stored_source.home, stored_source.path] = (
                    stored_source
                )
        self._folders |= folders
        beside = [
            stored_source
            for stored_source in self._sources_by_path.values()
            if any(
                stored_source.home == home and stored_source.path.startswith(folder)
                for home, folder in folders
            )
        ]
        keys = [
            (stored_source.number, stored_source.generation)
            for stored_source in (*own, *beside)
        ]
        self._load_spans(keys)
        self._read_ahead([span for key in keys for span in self._spans_by_source[key]])
        return [stored_source.number for stored_source in own]

    def _cached_sources(self, numbers: Iterable[int]) -> list[StoredSource]:
        found = (self._sources.get(number) for number in numbers)
        return [stored_source for stored_source in found if stored_source is not None]

    def _load_spans(self, sources: Iterable[tuple[int, int]]) -> None:
        new = sorted(set(sources) - self._spans_by_source.keys())
        if not new:
            return
        pairs = self._database.db.pair_in_list("number, generation", "sources")
        rows = self._database.rows(
            "SELECT number, generation, start, stop, sha256, address"  # noqa: S608 (our names)
            f" FROM {{span}} AS p WHERE {pairs} ORDER BY number, generation, start",
            sources=new,
        )
        self._spans_by_source |= {key: [] for key in new}
        for number, generation, *span in rows:
            self._spans_by_source[number, generation].append(_SpanRow(*span))

    def fragment(self, number: int, generation: int) -> bytes:
        self.source(number)
        return self._fragments.get((number, generation), b"")

    def try_read_chunks(
        self, number: int, generation: int, *, start: int = 0
    ) -> Iterator[tuple[Chunk, bytes | None]]:
        spans = self._overlapping_spans(number, generation, start, _MAX_OFFSET)
        for at, span in enumerate(spans):
            chunk = Chunk(0, number, generation, span.start, span.stop, span.sha256)
            try:
                raw = self._read_span(span, spans[at:])
            except ArchiveDamaged:
                yield chunk, None
            else:
                yield chunk, raw

    def read_bytes(
        self, number: int, generation: int, offset: int, length: int
    ) -> bytes:
        parts = []
        spans = self._overlapping_spans(number, generation, offset, offset + length)
        for at, span in enumerate(spans):
            raw, start = self._read_span(span, spans[at:]), span.start
            parts.append(raw[max(offset - start, 0) : offset + length - start])
        return b"".join(parts)

    read_unchecked = read_bytes

    def read_transaction(self) -> AbstractContextManager[None]:
        """Do nothing: spans are only added, and the source's row has the last line."""
        return nullcontext()

    def _overlapping_spans(
        self, number: int, generation: int, start: int, stop: int
    ) -> list[_SpanRow]:
        self._load_spans([(number, generation)])
        found = self._spans_by_source[number, generation]
        return [span for span in found if span.start < stop and span.stop > start]

    def _read_span(self, span: _SpanRow, following: Sequence[_SpanRow]) -> bytes:
        """Return the bytes of a span; some of the following ones are fetched too."""
        raw = self._local_cache.get(span.address)
        if raw is None:
            self._read_ahead(following)
            raw = self._local_cache.get(span.address)
        if raw is None:
            # This raises an error that says what is wrong.
            raw = self._blobs.get(span.address)
            if sha256_digest(raw) != span.sha256:
                raise ArchiveDamaged(Path(span.address), "it does not match its hash")
            self._add_to_caches(span.address, raw)
        return raw

    def _read_ahead(self, spans: Sequence[_SpanRow]) -> None:
        """Fetch the blobs of the first spans, up to a limit."""
        weight, ahead = 0, list[_SpanRow]()
        for one in spans:
            weight += one.stop - one.start
            if ahead and weight > _READ_AHEAD_BYTES:
                break
            ahead.append(one)
        self._fetch(ahead)

    def _fetch(self, spans: Iterable[_SpanRow]) -> None:
        """Fetch blobs that are not cached, without missing or damaged ones."""
        new: dict[str, _SpanRow] = {}
        for one in spans:
            if self._local_cache.get(one.address) is None:
                raw = self._shared_cache.get(one.address)
                if raw is None:
                    new[one.address] = one
                else:
                    self._local_cache.put(one.address, raw)
        for address, raw in self._blobs.get_many(list(new)).items() if new else ():
            if sha256_digest(raw) == new[address].sha256:
                self._add_to_caches(address, raw)

    def _add_to_caches(self, address: str, raw: bytes) -> None:
        self._local_cache.put(address, raw)
        self._shared_cache.put(address, raw)

    def _source_from_row(self, row: Sequence[object]) -> StoredSource:
        """Return a source by its row, and remember its unfinished last line."""
        *columns, frame = row
        source = _stored_source_from_row(columns)
        if isinstance(frame, bytes) and frame:
            raw = self._fragments[source.number, source.generation] = decompress(frame)
            source = replace(source, size=source.stored_bytes + len(raw))
        return source


def _stored_source_from_row(row: Sequence[object]) -> StoredSource:
    number, machine, home, path, kind, project, session, agent, generation = row[:9]
    stored_bytes, mtime_ns = row[9:]
    return StoredSource(
        number=int(str(number)),
        home=f"{machine}:{home}" if machine else str(home),
        path=str(path),
        kind=SourceKind(str(kind)),
        project=ProjectKey(str(project)) if project is not None else None,
        session=SessionId(str(session)) if session is not None else None,
        agent=AgentId(str(agent)) if agent is not None else None,
        generation=int(str(generation)),
        stored_bytes=int(str(stored_bytes)),
        size=int(str(stored_bytes)),
        mtime_ns=int(str(mtime_ns)),
    )


class TeamNodeReader:
    """What is known of the lines of sources: read from their bytes."""

    def __init__(self, database: ScopedDatabase, chunks: TeamByteReader) -> None:
        self._database = database
        self._chunks = chunks
        self._problem_rows: dict[int, list[tuple[str, int, int, str, int]]] = {}

    def reset(self) -> None:
        """Drop what is known about sources, before the next request."""
        self._problem_rows.clear()

    def prefetch_problems(self, sources: Iterable[int]) -> None:
        """Look up at once what is odd in sources."""
        new = [source for source in sources if source not in self._problem_rows]
        if not new:
            return
        self._problem_rows |= {source: [] for source in new}
        among = self._database.db.in_list("source", "sources")
        rows = self._database.rows(
            "SELECT source, kind, start, length, detail, count FROM {problem} AS p"  # noqa: S608 (our names)
            f" WHERE {among} ORDER BY source, position",
            sources=new,
        )
        for source, *columns in rows:
            self._problem_rows[source].append(tuple(columns))

    def nodes(self, source: int) -> tuple[RecordNode, ...]:
        """Return all nodes of a source, in order."""
        stored_source = self._chunks.source(source)
        if stored_source is None:
            return ()
        found: list[RecordNode] = []
        for chunk, raw in self._chunks.try_read_chunks(
            source, stored_source.generation
        ):
            if raw is not None:
                lines = split_lines(
                    stored_source.id, stored_source.generation, chunk.start, raw
                )
                found += decode_lines(lines)[1]
        return tuple(found)

    def problems(self, stored_source: StoredSource) -> Iterator[Problem]:
        """Yield what was odd in a source, in order."""
        self.prefetch_problems([stored_source.number])
        for row in self._problem_rows[stored_source.number]:
            kind, start, length, detail, count = row
            place = Position(stored_source.id, stored_source.generation, start, length)
            yield Problem(kind, place, detail, count)


class TeamReader:
    """Everything that one scope may read; has the interface of a local archive."""

    def __init__(
        self,
        database: ScopedDatabase,
        search_backend: TextSearchBackend,
        blobs: BlobStore,
        close: Callable[[], None],
        *,
        shared_cache: BlobCache,
    ) -> None:
        self.byte_store = TeamByteReader(database, blobs, shared_cache)
        self.index = TeamNodeReader(database, self.byte_store)
        self._projects = projects = TeamProjects(database)
        self._derived = TeamSessionReader(database, projects, self._prefetch_sources)
        self.lookup = TeamLookup(database, projects)
        self.search_facts = TeamSearchFacts(
            database, projects, self.byte_store.prefetch_records
        )
        self.edits = TeamEditReader(database)
        self.prompts = TeamPromptReader(database)
        self.usage = TeamUsageReader(database, projects)
        self._search_backend = search_backend
        self._read_transaction = database.db.read_transaction
        self._close_callbacks = [close]
        self._version = search_backend.refresh_scope()

    def _prefetch_sources(self, sources: Iterable[int]) -> None:
        """Load what will be needed of a session's sources."""
        self.index.prefetch_problems(self.byte_store.prefetch_siblings(list(sources)))

    @property
    def sessions(self) -> TeamSessionReader:
        """The rows of sessions; drops what is cached about sources."""
        self.byte_store.reset()
        self.index.reset()
        return self._derived

    def engine(self) -> TeamEngine:
        self.byte_store.reset()
        return TeamEngine(self._search_backend, self.search_facts.newest_sessions)

    def check_for_changes(self) -> bool:
        """Return whether sessions or permissions have changed since the last call."""
        before, self._version = self._version, self._search_backend.refresh_scope()
        if before != self._version:
            self.search_facts.mark_stale()
            self._projects.mark_stale()
        return before != self._version

    def annotations(self) -> dict[SessionId, Annotations]:
        """Return nothing: tags and notes are not uploaded."""
        return {}

    @contextmanager
    def read_transaction(self) -> Iterator[None]:
        with self._read_transaction(), self.byte_store.enlarged_cache():
            yield

    def call_on_close(self, close: Callable[[], None]) -> None:
        """Call a function when the reader is closed."""
        self._close_callbacks.append(close)

    def close(self) -> None:
        for close in self._close_callbacks:
            close()
