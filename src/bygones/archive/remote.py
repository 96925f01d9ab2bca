"""Read from a hub as from an archive: the methods of a reader, called over HTTP.

Arguments and results are the same structs as everywhere, encoded as MessagePack and
checked by their types when they are decoded. Nothing else can be called. Texts are
searched on the hub; sessions are assembled here, from the bytes of their files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec
import zstandard
from msgspec.structs import replace

from bygones.config import restore_slashes
from bygones.credentials import find_hub_token
from bygones.errors import HubRejected, HubTokenMissing, RemoteCallRejected
from bygones.ingest.index_batch import decode_lines
from bygones.model.base import DECODE_ERRORS, Problem, RecordId, SessionId
from bygones.model.nodes import RecordNode
from bygones.model.query import Exclusion, FieldTerm, FieldValue, Query, Term
from bygones.model.summary import (
    Annotations,
    IndexedEdit,
    MatchPositions,
    MessageUsage,
    SearchResults,
    SessionSummary,
)
from bygones.model.usage import ReportedCost
from bygones.query.fields import iter_leaves
from bygones.query.parser import exclude_from
from bygones.search.service import MatchingSessions, Searcher
from bygones.sources.lines import split_lines
from bygones.store.archive_db import Chunk, StoredSource
from bygones.store.protocols import PromptRow, RecordLocation, StoreReader
from bygones.store.usage_tables import (
    Payer,
    RowFilter,
    ToolContextSum,
    UsageDivision,
    UsageSum,
)
from bygones.team.connection import VERSION, HubConnection

READER_PATH = "/reader"
"""Where clients call the methods of a reader."""
_BLOCK_BYTES = 1024 * 1024
"""Bytes that are read at once, and cached."""
_MAX_BLOCKS = 64
_MAX_RESULT_BYTES = 1024**3
_MAX_READ_BYTES = 64 * 1024 * 1024
_ROW_COLUMNS = frozenset({"payer", "session", "is_abandoned"})

Filters = tuple[tuple[FieldValue | FieldTerm, str, tuple[str, ...]], ...]
"""Which rows a field means: a column and its values. Numbers of payers have more than
64 bits, which MessagePack cannot hold, so they are sent as texts."""


OwnPrompt = tuple[SessionId, str | None, datetime | None, str]
"""The session and project of a prompt, when it was sent, and the start of its text."""


class RemoteTarget(NamedTuple):
    """What the methods are called on: the reader of one scope, and its search."""

    reader: StoreReader
    searcher: Searcher


class _OpenArchive(Protocol):
    """What is used of an archive."""

    @property
    def _reader(self) -> StoreReader: ...

    @property
    def _searcher(self) -> Searcher: ...


def remote_target(archive: _OpenArchive) -> RemoteTarget:
    """Return what clients may call methods on, of an open archive."""
    return RemoteTarget(archive._reader, archive._searcher)  # noqa: SLF001 (same package)


class _Method(NamedTuple):
    arguments: Any
    """The types of the arguments, as a tuple."""
    result: Any
    call: Callable[..., Any]


def _sum_usage(
    on: RemoteTarget, division: UsageDivision, where: Term | None, filters: Filters
) -> list[tuple[str, UsageSum]]:
    sums = on.reader.usage.sum_usage(
        division, where=where, row_filter=_filter_lookup(filters)
    )
    return [(str(one.payer), replace(one, payer=0)) for one in sums]


def _load_payers(
    on: RemoteTarget, sessions: tuple[int, ...] | None
) -> list[tuple[str, Payer]]:
    payers = on.reader.usage.load_payers(sessions)
    return [(str(one.number), replace(one, number=0)) for one in payers]


def _filter_lookup(
    filters: Filters,
) -> Callable[[FieldValue | FieldTerm], RowFilter]:
    if any(column not in _ROW_COLUMNS for _, column, _ in filters):
        raise RemoteCallRejected("a filter has an unknown column")
    try:
        known = {
            term: RowFilter(column, frozenset(map(int, values)))
            for term, column, values in filters
        }
    except ValueError:
        raise RemoteCallRejected("a filter has a value that is not a number") from None
    return known.__getitem__


def _prompts_of(on: RemoteTarget, person: str) -> list[OwnPrompt]:
    summaries = on.reader.sessions.iter_summaries()
    projects = {one.id: one.project for one in summaries if one.person == person}
    return [
        (row.session, projects[row.session], row.time, row.head)
        for row in on.reader.prompts.newest_first()
        if row.session in projects
    ]


def _read_chunks(
    on: RemoteTarget, number: int, generation: int, start: int
) -> list[tuple[Chunk, bytes | None]]:
    """Return some chunks from a place on; fewer than all if they are large."""
    found: list[tuple[Chunk, bytes | None]] = []
    size = 0
    for chunk, raw in on.reader.byte_store.try_read_chunks(
        number, generation, start=start
    ):
        found.append((chunk, raw))
        size += len(raw or b"")
        if size > _MAX_READ_BYTES // 8:
            break
    return found


def _search(
    on: RemoteTarget, query: Query, page: tuple[int, int, int], sort: str
) -> SearchResults:
    limit, offset, hits = page
    return on.searcher.search(query, limit=limit, offset=offset, hits=hits, sort=sort)


def _problems(on: RemoteTarget, number: int) -> list[Problem]:
    stored, index = on.reader.byte_store.source(number), on.reader.index
    return list(index.problems(stored)) if stored and index else []


_METHODS: dict[str, _Method] = {
    "iter_summaries": _Method(
        tuple[bool],
        list[SessionSummary],
        lambda on, empty: list(on.reader.sessions.iter_summaries(include_empty=empty)),
    ),
    "session_number": _Method(
        tuple[str], int | None, lambda on, id_: on.reader.sessions.session_number(id_)
    ),
    "family_members": _Method(
        tuple[int], list[int], lambda on, n: on.reader.sessions.family_members(n)
    ),
    "session_sources": _Method(
        tuple[int], list[int], lambda on, n: on.reader.sessions.session_sources(n)
    ),
    "leaf_titles": _Method(
        tuple[tuple[int, ...]],
        list[tuple[RecordId, str, int]],
        lambda on, numbers: on.reader.sessions.leaf_titles(numbers),
    ),
    "load_summary": _Method(
        tuple[int],
        SessionSummary | None,
        lambda on, n: on.reader.lookup.load_summary(n),
    ),
    "find_sessions": _Method(
        tuple[str, int],
        list[SessionSummary],
        lambda on, prefix, limit: on.reader.lookup.find_sessions(prefix, limit),
    ),
    "numbered_summaries": _Method(
        tuple[()],
        list[tuple[int, SessionSummary]],
        lambda on: list(on.reader.lookup.numbered_summaries()),
    ),
    "session_ids": _Method(
        tuple[()], list[str], lambda on: on.reader.lookup.session_ids()
    ),
    "find_records": _Method(
        tuple[str, int],
        list[RecordLocation],
        lambda on, prefix, limit: on.reader.lookup.find_records(prefix, limit),
    ),
    "drift": _Method(
        tuple[()],
        list[tuple[str, str, str, int]],
        lambda on: list(on.reader.lookup.drift()),
    ),
    "edits_in_session": _Method(
        tuple[str],
        list[IndexedEdit],
        lambda on, id_: on.reader.edits.edits_in_session(id_),
    ),
    "edits_under": _Method(
        tuple[str],
        list[IndexedEdit],
        lambda on, path: on.reader.edits.edits_under(path),
    ),
    "edits_with_suffix": _Method(
        tuple[str],
        list[IndexedEdit],
        lambda on, name: on.reader.edits.edits_with_suffix(name),
    ),
    "newest_prompts": _Method(
        tuple[()],
        list[tuple[SessionId, RecordId, datetime | None, int, str, SessionId | None]],
        lambda on: list(on.reader.prompts.newest_first()),
    ),
    "prompts_of": _Method(tuple[str], list[OwnPrompt], _prompts_of),
    "load_payers": _Method(
        tuple[tuple[int, ...] | None],
        list[tuple[str, Payer]],
        _load_payers,
    ),
    "session_projects": _Method(
        tuple[()],
        dict[int, tuple[SessionId, str | None]],
        lambda on: dict(on.reader.usage.session_projects()),
    ),
    "session_people": _Method(
        tuple[()], dict[int, str], lambda on: dict(on.reader.usage.session_people())
    ),
    "reported_costs": _Method(
        tuple[()],
        list[tuple[int, ReportedCost]],
        lambda on: on.reader.usage.reported_costs(),
    ),
    "warm_up_usages": _Method(
        tuple[()],
        list[tuple[int, MessageUsage]],
        lambda on: on.reader.usage.warm_up_usages(),
    ),
    "time_range": _Method(
        tuple[()],
        tuple[int, int] | None,
        lambda on: on.reader.usage.time_range(),
    ),
    "session_titles": _Method(
        tuple[()],
        dict[SessionId, str],
        lambda on: dict(on.reader.usage.session_titles()),
    ),
    "session_tools": _Method(
        tuple[()],
        list[tuple[int, str]],
        lambda on: list(on.reader.usage.session_tools()),
    ),
    "sum_usage": _Method(
        tuple[UsageDivision, Term | None, Filters],
        list[tuple[str, UsageSum]],
        _sum_usage,
    ),
    "sum_tool_context": _Method(
        tuple[Term | None, Filters],
        list[ToolContextSum],
        lambda on, where, filters: on.reader.usage.sum_tool_context(
            where=where, row_filter=_filter_lookup(filters)
        ),
    ),
    "sources": _Method(
        tuple[()],
        list[StoredSource],
        lambda on: list(on.reader.byte_store.sources()),
    ),
    "source": _Method(
        tuple[int],
        StoredSource | None,
        lambda on, n: on.reader.byte_store.source(n),
    ),
    "find_source": _Method(
        tuple[str, str],
        StoredSource | None,
        lambda on, home, path: on.reader.byte_store.find_source(home, path),
    ),
    "source_by_id": _Method(
        tuple[str],
        StoredSource | None,
        lambda on, id_: on.reader.byte_store.source_by_id(id_),
    ),
    "fragment": _Method(
        tuple[int, int],
        bytes,
        lambda on, n, generation: on.reader.byte_store.fragment(n, generation),
    ),
    "read_chunks": _Method(
        tuple[int, int, int], list[tuple[Chunk, bytes | None]], _read_chunks
    ),
    "read_bytes": _Method(
        tuple[int, int, int, int],
        bytes,
        lambda on, n, generation, offset, length: on.reader.byte_store.read_bytes(
            n, generation, offset, min(length, _MAX_READ_BYTES)
        ),
    ),
    "problems": _Method(tuple[int], list[Problem], _problems),
    "search": _Method(tuple[Query, tuple[int, int, int], str], SearchResults, _search),
    "match_positions": _Method(
        tuple[Query, int | None],
        MatchPositions,
        lambda on, query, number: on.searcher.match_positions(query, number),
    ),
    "matching_sessions": _Method(
        tuple[Query, bool],
        MatchingSessions,
        lambda on, query, is_exact: on.searcher.matching_sessions(
            query, is_exact=is_exact
        ),
    ),
}


class RemoteCall(msgspec.Struct, frozen=True):
    """A request: the version of the client, a method and its arguments."""

    version: str
    method: str
    arguments: msgspec.Raw


def answer_call(
    body: bytes, on: Callable[[], AbstractContextManager[RemoteTarget]]
) -> bytes:
    """Return the encoded result of a call, on a hub.

    :raises RemoteCallRejected: if it is not a call of a known method.
    """
    try:
        call = msgspec.msgpack.decode(body, type=RemoteCall)
        method = _METHODS[call.method]
        arguments = msgspec.msgpack.decode(call.arguments, type=method.arguments)
    except (*DECODE_ERRORS, KeyError) as error:
        raise RemoteCallRejected(str(error)) from None
    if call.version != VERSION:
        raise RemoteCallRejected(
            f"this hub runs Bygones {VERSION} and you have {call.version[:20]};"
            " use the same version"
        )
    with on() as target:
        result = method.call(target, *arguments)
        encoded = msgspec.msgpack.encode(result)
    return zstandard.ZstdCompressor(level=1).compress(encoded)


def describe_call(body: bytes) -> tuple[str, object]:
    """Return the method and arguments of a call, for the log of a hub."""
    try:
        call = msgspec.msgpack.decode(body, type=RemoteCall)
        return call.method[:40], msgspec.msgpack.decode(call.arguments)
    except DECODE_ERRORS:
        return "", None


def fetch_prompts_of(connection: HubConnection, person: str) -> list[OwnPrompt]:
    """Return the prompts in the sessions that a person pushed to a hub."""
    found: list[OwnPrompt] = _HubMethods(connection).call("prompts_of", person)
    return found


class _HubMethods:
    """Calls the methods of a hub."""

    def __init__(self, connection: HubConnection) -> None:
        self._connection = connection

    def call(self, method: str, *arguments: object) -> Any:  # noqa: ANN401 (any result)
        raw = msgspec.Raw(msgspec.msgpack.encode(arguments))
        request = msgspec.msgpack.encode(RemoteCall(VERSION, method, raw))
        body = self._connection.request("POST", READER_PATH, request)
        try:
            encoded = zstandard.ZstdDecompressor().decompress(
                body, max_output_size=_MAX_RESULT_BYTES
            )
            return msgspec.msgpack.decode(encoded, type=_METHODS[method].result)
        except (*DECODE_ERRORS, zstandard.ZstdError) as error:
            reason = "its response cannot be decoded; use the same version as the hub"
            raise HubRejected(self._connection.address, reason) from error


class _HubBytes:
    """The bytes of sources."""

    def __init__(self, hub: _HubMethods) -> None:
        self._call = hub.call
        self._block = lru_cache(maxsize=_MAX_BLOCKS)(self._read_block)
        self._source = lru_cache(maxsize=4096)(
            lambda number: self._call("source", number)
        )

    def sources(self) -> Iterator[StoredSource]:
        return iter(self._call("sources"))

    def source(self, number: int) -> StoredSource | None:
        found: StoredSource | None = self._source(number)
        return found

    def find_source(self, home: str, path: str) -> StoredSource | None:
        found: StoredSource | None = self._call("find_source", home, path)
        return found

    def source_by_id(self, id_: str) -> StoredSource | None:
        found: StoredSource | None = self._call("source_by_id", id_)
        return found

    def fragment(self, number: int, generation: int) -> bytes:
        return bytes(self._call("fragment", number, generation))

    def try_read_chunks(
        self, number: int, generation: int, *, start: int = 0
    ) -> Iterator[tuple[Chunk, bytes | None]]:
        while chunks := self._call("read_chunks", number, generation, start):
            yield from chunks
            start = chunks[-1][0].stop

    def read_bytes(
        self, number: int, generation: int, offset: int, length: int
    ) -> bytes:
        if length > _BLOCK_BYTES:
            return bytes(self._call("read_bytes", number, generation, offset, length))
        first, last = offset // _BLOCK_BYTES, (offset + length) // _BLOCK_BYTES
        raw = b"".join(
            self._block(number, generation, block) for block in range(first, last + 1)
        )
        start = offset - first * _BLOCK_BYTES
        return raw[start : start + length]

    def _read_block(self, number: int, generation: int, block: int) -> bytes:
        offset = block * _BLOCK_BYTES
        return bytes(self._call("read_bytes", number, generation, offset, _BLOCK_BYTES))

    @staticmethod
    def read_transaction() -> AbstractContextManager[None]:
        return nullcontext()


class _HubNodes:
    """The parsed records of sources."""

    def __init__(self, hub: _HubMethods, bytes_: _HubBytes) -> None:
        self._call = hub.call
        self._bytes = bytes_

    def nodes(self, source: int) -> tuple[RecordNode, ...]:
        stored = self._bytes.source(source)
        if stored is None:
            return ()
        found: list[RecordNode] = []
        for chunk, raw in self._bytes.try_read_chunks(source, stored.generation):
            if raw is not None:
                lines = split_lines(stored.id, stored.generation, chunk.start, raw)
                found += decode_lines(lines)[1]
        return tuple(found)

    def problems(self, stored_source: StoredSource) -> Iterator[Problem]:
        return iter(self._call("problems", stored_source.number))


class _HubSessions:
    """The rows of sessions, and how to find them."""

    def __init__(self, hub: _HubMethods) -> None:
        self._call = hub.call

    def iter_summaries(
        self, *, include_empty: bool = False
    ) -> Iterator[SessionSummary]:
        return iter(self._call("iter_summaries", include_empty))

    def session_number(self, session: SessionId) -> int | None:
        number: int | None = self._call("session_number", session)
        return number

    def family_members(self, number: int) -> list[int]:
        return list(self._call("family_members", number))

    def session_sources(self, session: int) -> list[int]:
        return list(self._call("session_sources", session))

    def leaf_titles(self, sessions: Iterable[int]) -> list[tuple[RecordId, str, int]]:
        return list(self._call("leaf_titles", tuple(sessions)))

    def load_summary(self, number: int) -> SessionSummary | None:
        summary: SessionSummary | None = self._call("load_summary", number)
        return summary

    def find_sessions(self, prefix: str, limit: int) -> list[SessionSummary]:
        return list(self._call("find_sessions", prefix, limit))

    def numbered_summaries(self) -> Iterator[tuple[int, SessionSummary]]:
        return iter(self._call("numbered_summaries"))

    def session_ids(self) -> list[str]:
        return list(self._call("session_ids"))

    def find_records(self, prefix: str, limit: int) -> list[RecordLocation]:
        return list(self._call("find_records", prefix, limit))

    def drift(self) -> Iterator[tuple[str, str, str, int]]:
        return iter(self._call("drift"))

    def edits_in_session(self, session: SessionId) -> list[IndexedEdit]:
        return list(self._call("edits_in_session", session))

    def edits_under(self, path: str) -> list[IndexedEdit]:
        return list(self._call("edits_under", path))

    def edits_with_suffix(self, suffix: str) -> list[IndexedEdit]:
        return list(self._call("edits_with_suffix", suffix))

    def newest_first(self) -> Iterator[PromptRow]:
        return (PromptRow(*row) for row in self._call("newest_prompts"))


class _HubUsage:
    """Token usage and reported costs."""

    def __init__(self, hub: _HubMethods) -> None:
        self._call = hub.call

    def load_payers(self, sessions: Iterable[int] | None = None) -> list[Payer]:
        numbers = None if sessions is None else tuple(sessions)
        found = self._call("load_payers", numbers)
        return [replace(payer, number=int(number)) for number, payer in found]

    def session_projects(self) -> Mapping[int, tuple[SessionId, str | None]]:
        return dict(self._call("session_projects"))

    def session_people(self) -> Mapping[int, str]:
        return dict(self._call("session_people"))

    def reported_costs(self) -> list[tuple[int, ReportedCost]]:
        return list(self._call("reported_costs"))

    def warm_up_usages(self) -> list[tuple[int, MessageUsage]]:
        return list(self._call("warm_up_usages"))

    def time_range(self) -> tuple[int, int] | None:
        found: tuple[int, int] | None = self._call("time_range")
        return found

    def session_titles(self) -> Mapping[SessionId, str]:
        return dict(self._call("session_titles"))

    def session_tools(self) -> Iterable[tuple[int, str]]:
        return list(self._call("session_tools"))

    def sum_usage(
        self,
        division: UsageDivision,
        *,
        where: Term | None = None,
        row_filter: Callable[[FieldValue | FieldTerm], RowFilter],
    ) -> Iterator[UsageSum]:
        filters = _resolve_filters(where, row_filter)
        sums = self._call("sum_usage", division, where, filters)
        return (replace(one, payer=int(payer)) for payer, one in sums)

    def sum_tool_context(
        self,
        *,
        where: Term | None,
        row_filter: Callable[[FieldValue | FieldTerm], RowFilter],
    ) -> list[ToolContextSum]:
        filters = _resolve_filters(where, row_filter)
        return list(self._call("sum_tool_context", where, filters))


def _resolve_filters(
    where: Term | None, row_filter: Callable[[FieldValue | FieldTerm], RowFilter]
) -> Filters:
    """Return which rows each field of a query means: that is decided here."""
    leaves = iter_leaves(where) if where is not None else ()
    resolved = [
        (leaf, row_filter(leaf))
        for leaf in leaves
        if isinstance(leaf, FieldValue | FieldTerm)
    ]
    return tuple(
        (leaf, one.column, tuple(map(str, one.values))) for leaf, one in resolved
    )


class RemoteSearcher:
    """Searches on the hub."""

    def __init__(self, hub: _HubMethods) -> None:
        self._call = hub.call

    def search(  # noqa: PLR0913 (all but one by name and optional)
        self,
        query: Query,
        *,
        limit: int = 10,
        offset: int = 0,
        hits: int = 3,
        sort: str = "best",
        redact: Callable[[str], str] = str,  # noqa: ARG002 (done before the upload)
        exclusion: Exclusion | None = None,
    ) -> SearchResults:
        # As conditions, which hubs of earlier versions know too.
        query = exclude_from(query, exclusion)
        found: SearchResults = self._call("search", query, (limit, offset, hits), sort)
        return found

    def match_positions(self, query: Query, session: int | None) -> MatchPositions:
        found: MatchPositions = self._call("match_positions", query, session)
        return found

    def matching_sessions(
        self, query: Query, *, is_exact: bool = False
    ) -> MatchingSessions:
        found: MatchingSessions = self._call("matching_sessions", query, is_exact)
        return found


_MAX_ATTEMPTS = 4
"""How often a request is sent: with pauses of 3.5 seconds, because people wait."""


class HubReader:
    """Everything that a token may read on a hub; has the interface of an archive."""

    def __init__(self, address: str, token: str) -> None:
        self._connection = HubConnection(address, token, max_attempts=_MAX_ATTEMPTS)
        hub = _HubMethods(self._connection)
        self.byte_store = _HubBytes(hub)
        self.index = _HubNodes(hub, self.byte_store)
        self.sessions = self.lookup = self.edits = self.prompts = _HubSessions(hub)
        self.usage = _HubUsage(hub)
        self.searcher = RemoteSearcher(hub)

    @staticmethod
    def annotations() -> dict[SessionId, Annotations]:
        """Return nothing: tags and notes are not uploaded."""
        return {}

    @staticmethod
    def read_transaction() -> AbstractContextManager[None]:
        return nullcontext()

    @staticmethod
    def check_for_changes() -> bool:
        return True

    def close(self) -> None:
        self._connection.close()


def open_hub_reader(location: str) -> StoreReader:
    """Open a hub with the token of this user.

    :raises HubTokenMissing: if there is none.
    """
    address = restore_slashes(location)
    token = find_hub_token(address, os.environ, Path.home())
    if not token:
        raise HubTokenMissing(address)
    reader: Any = HubReader(address, token)
    store_reader: StoreReader = reader
    return store_reader


def open_hub_searcher(reader: Any) -> Searcher:  # noqa: ANN401 (a HubReader)
    """Return what searches on the hub of a reader."""
    searcher: Searcher = reader.searcher
    return searcher
