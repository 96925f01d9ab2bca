"""Derive sessions that have grown from what is settled of them, and write their rows.

A very long session is derived in the same way from the start, as if it grew by
`NODES_PER_PART` records at a time: so the memory that this takes doesn't depend on its
length. If records refer to settled ones, it starts again with larger parts, in the
worst case with the whole session. Archives and hubs share these steps; they differ in
how they load records and write rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

import msgspec
from msgspec import structs

from bygones.assemble.agents import link_agents
from bygones.assemble.dedupe import sort_transcripts
from bygones.assemble.grouping import (
    SessionRecords,
    agent_id,
    collect_records,
    has_session_id,
    transcript_session_id,
)
from bygones.assemble.segments import used_ids
from bygones.ingest.derive import (
    DerivedSession,
    NotDivisible,
    SettledPart,
    SettledSession,
    StoredPart,
    find_main,
    grow,
    record_ids,
    settle_half,
)
from bygones.ingest.loading import (
    agent_state,
    load_transcript,
    with_steps,
)
from bygones.model.base import SessionId, SourceFile, SourceKind
from bygones.model.nodes import Transcript
from bygones.model.usage import QUARTER_HOUR_SECONDS
from bygones.store.archive_dir import ArchiveDir
from bygones.store.derived_rows import DerivedRows
from bygones.store.derived_tables import DerivedTables
from bygones.store.encoding import id_key
from bygones.store.messages import (
    MESSAGES_PER_BLOCK,
    EarlierMessages,
    decode_messages,
)
from bygones.store.usage_tables import RowBounds

_decode_settled = msgspec.msgpack.Decoder(SettledSession).decode
_encode_settled = msgspec.msgpack.Encoder().encode
_MS_PER_SECOND = 1000
NODES_PER_PART = 16_384
"""Records that are loaded at once of a session that is derived in parts."""
_LARGER_PARTS = 8
"""How much larger parts are if records refer to an earlier part."""


class GrowingSource(NamedTuple):
    """A file of a session."""

    number: int
    generation: int
    file: SourceFile


class GrowingSession(Protocol):
    """What is stored of one session and of its files."""

    def list_sources(self) -> Iterable[GrowingSource]:
        """Return its files; raise `NotDivisible` if one is missing."""
        ...

    def is_own_id(self, session: SessionId) -> bool:
        """Whether it is stored by this id."""
        ...

    def agent_state(self, file: SourceFile) -> int:
        """Return a checksum of what is known about an agent from its files."""
        ...

    def load(
        self, source: GrowingSource, offset: int, limit: int | None
    ) -> tuple[Transcript, bool]:
        """Return the records from an offset on, and whether the last one is included.

        With a limit there may be some more records.
        """
        ...

    def add_steps(self, agents: Sequence[Transcript]) -> Iterable[Transcript]:
        """Return agents with what journals say about them."""
        ...

    def has_summaries(self, source: GrowingSource, main: Transcript) -> bool:
        """Whether any file has a summary of a record of the session."""
        ...

    def has_settled_edit(self, path: str) -> bool: ...

    def has_settled_key(self, keys: set[int]) -> bool: ...

    def has_other_records(
        self, keys: set[int], place: tuple[int, int], others: Sequence[int]
    ) -> bool:
        """Whether records elsewhere have one of some keys.

        Elsewhere is before an offset of a source (`place`), and in all sources but
        `others`.
        """
        ...


def grow_from(
    session: GrowingSession, stored: StoredPart, min_nodes: int | None = None
) -> DerivedSession:
    """Derive the end of a session after what is stored, and settle more if it is long.

    :raises NotDivisible: if its records refer to settled ones.
    """
    end = _SessionEnd(session, stored)
    return end.derive(end.load(), min_nodes)


def grow_session(
    archive_dir: ArchiveDir, tables: DerivedTables, number: int
) -> SessionId | None:
    """Derive the end of a session, if the rest is settled; return the session's id.

    Otherwise nothing is written, and the whole session must be derived.
    """
    loaded = tables.load_settled_part(number)
    if loaded is None or tables.family_members(number) != [number]:
        return None
    bounds, facts = loaded
    try:
        stored = _load_stored_part(tables, number, _decode_settled(facts))
        session = _ArchivedSession(archive_dir, tables, number)
        session.bounds = bounds
        derived = grow_from(session, stored)
    except NotDivisible:
        return None
    tables.delete_open_rows(number, bounds)
    write_session(tables, number, derived, family=number, bounds=bounds)
    return derived.rows.session


def _load_stored_part(
    tables: DerivedTables, number: int, settled: SettledSession
) -> StoredPart:
    count = settled.header.branches[0].message_count
    size = count % MESSAGES_PER_BLOCK
    frame = tables.load_block(number, count - size) if size else None
    messages = decode_messages(frame)[:size] if frame is not None else []
    if len(messages) != size:
        raise NotDivisible
    return StoredPart(settled, EarlierMessages(count, messages, []))


def derive_in_parts(
    archive_dir: ArchiveDir, tables: DerivedTables, number: int
) -> SessionId | None:
    """Derive a long session, some records at a time; return the session's id.

    If that is not possible, nothing is written, and it must be derived as a whole.
    """
    if tables.family_members(number) not in ([], [number]):
        return None
    limit = NODES_PER_PART
    tables.delete_session(number)
    while True:
        session = _ArchivedSession(archive_dir, tables, number)
        parts = SessionParts(session, limit)
        try:
            return session.write_parts(parts)
        except NotDivisible:
            tables.delete_session(number, is_partial=True)
        if parts.is_single:
            return None
        limit = parts.larger_limit


class SessionParts:
    """A session that is derived some records at a time."""

    def __init__(self, session: GrowingSession, limit: int) -> None:
        self._session = session
        self._limit = limit
        self._stored: StoredPart | None = None
        self.is_single = True
        """Whether the first part is the whole session, or it can't have parts."""

    @property
    def larger_limit(self) -> int:
        """The limit to use if records refer to settled ones.

        There are fewer cuts between larger parts.
        """
        return self._limit * _LARGER_PARTS

    def derive(self) -> Iterator[SettledPart | DerivedSession]:
        """Yield settled parts, and then the end, which must be written one by one.

        :raises NotDivisible: if records refer to earlier parts.
        """
        limit = self._limit
        while True:
            end = _SessionEnd(self._session, self._stored, limit)
            records = end.load()
            if end.is_complete:
                yield end.derive(records)
                return
            self.is_single = False
            try:
                part = end.settle_half(records)
            except NotDivisible:
                if limit > self._limit:
                    raise
                limit = self.larger_limit  # there may be a cut in more records
                continue
            limit = self._limit
            self._stored = part.stored
            yield part


def write_session(
    tables: DerivedTables,
    number: int,
    derived: DerivedSession,
    *,
    family: int,
    bounds: RowBounds,
) -> None:
    """Write the rows of a session after those that are settled up to `bounds`."""
    settled = derived.settled
    if settled is None:
        tables.insert_session(number, family, derived.rows)
        return
    if derived.settled_rows is not None:
        bounds = _write_settled(
            tables, number, derived.settled_rows, settled, bounds=bounds
        )
        tables.add_settled_keys(number, derived.settled_keys)
    tables.insert_open_rows(number, family, derived.rows, bounds)
    bounds = structs.replace(
        _settled_bounds(settled, bounds),
        agents=tuple(agent for agent, *_ in derived.rows.agent_runs),
    )
    tables.save_settled_part(number, bounds, _encode_settled(settled))


def _write_settled(
    tables: DerivedTables,
    number: int,
    rows: DerivedRows,
    settled: SettledSession,
    *,
    bounds: RowBounds,
) -> RowBounds:
    quarter = int(settled.settled.last_time.timestamp()) // QUARTER_HOUR_SECONDS
    open_since_ms = quarter * QUARTER_HOUR_SECONDS * _MS_PER_SECOND
    bounds = structs.replace(bounds, open_since_ms=open_since_ms)
    return tables.insert_settled_rows(number, rows, bounds)


def _settled_bounds(settled: SettledSession, bounds: RowBounds) -> RowBounds:
    count = settled.header.branches[0].message_count
    return structs.replace(
        bounds,
        message_block=count - count % MESSAGES_PER_BLOCK,
        turn=settled.last_turn.start,
        message=count,
    )


class _SessionEnd:
    """The records of a session after its settled part, or the first of them."""

    def __init__(
        self,
        session: GrowingSession,
        stored: StoredPart | None,
        limit: int | None = None,
    ) -> None:
        self._session = session
        self._stored = stored
        self._limit = limit
        self._main: GrowingSource
        self._agents: list[GrowingSource] = []
        self.is_complete = True
        """Whether the last record of the session is loaded."""

    def load(self) -> SessionRecords:
        """Return the records; raise `NotDivisible` if they depend on settled ones."""
        settled = self._stored.settled if self._stored else None
        self._find_sources(settled)
        offset = settled.settled.offset if settled else 0
        main, self.is_complete = self._session.load(self._main, offset, self._limit)
        if not main.nodes or self._session.has_summaries(self._main, main):
            raise NotDivisible
        session = settled.summary.id if settled else transcript_session_id(main)
        if not self._session.is_own_id(session):
            raise NotDivisible
        transcripts = [self._session.load(one, 0, None)[0] for one in self._agents]
        agents = sort_transcripts(self._session.add_steps(transcripts))
        records = collect_records(session, [main], agents)
        if agents and not self.is_complete:
            # Later records may start the others.
            links = link_agents(records.nodes, records.agents)
            started = [one for one in agents if links[agent_id(one.source)].call_ids]
            records = collect_records(session, [main], started)
        if settled:
            self._check_ids(records)
        return records

    def derive(
        self, records: SessionRecords, min_nodes: int | None = None
    ) -> DerivedSession:
        """Return the rows; raise `NotDivisible` if they depend on settled records."""
        if self._stored is None:
            raise NotDivisible
        return grow(
            records,
            self._stored,
            is_settled_path=self._session.has_settled_edit,
            agent_states=self._agent_states(records),
            min_nodes=min_nodes,
        )

    def settle_half(self, records: SessionRecords) -> SettledPart:
        """Settle some of the records, because more follow."""
        return settle_half(
            records,
            self._stored,
            is_settled_path=self._session.has_settled_edit,
            agent_states=self._agent_states(records),
        )

    def _agent_states(self, records: SessionRecords) -> dict[str, int]:
        files = [transcript.source for transcript in records.transcripts]
        return {
            file.id: self._session.agent_state(file)
            for file in files
            if file.kind is SourceKind.AGENT
        }

    def _find_sources(self, settled: SettledSession | None) -> None:
        """Find the session's file, and the agents that are not settled."""
        unchanged = dict(settled.agents) if settled else {}
        mains: list[GrowingSource] = []
        for source in self._session.list_sources():
            file = source.file
            if file.kind is SourceKind.SESSION:
                mains.append(source)
            elif file.id not in unchanged:
                self._agents.append(source)
            elif self._session.agent_state(file) != unchanged.pop(file.id):
                raise NotDivisible
        if unchanged or len(mains) != 1:
            raise NotDivisible
        self._main = main = mains[0]
        if settled is None:
            # Which session other files belong to is known from all of their records.
            if not has_session_id(main.file):
                raise NotDivisible
        elif (main.file.id, main.generation) != (settled.source, settled.generation):
            raise NotDivisible

    def _check_ids(self, records: SessionRecords) -> None:
        """Check that no record elsewhere has an id that is used here."""
        session = self._session
        names = {id_key(name) for name in used_ids(records.nodes, records.agents)}
        if session.has_settled_key(names):
            raise NotDivisible
        keys = {id_key(name) for name in record_ids(records)}
        place = (self._main.number, find_main(records).nodes[0].position.offset)
        others = [source.number for source in self._agents]
        if session.has_other_records(keys, place, others):
            raise NotDivisible


class _ArchivedSession:
    """A session of an archive."""

    def __init__(
        self, archive_dir: ArchiveDir, tables: DerivedTables, number: int
    ) -> None:
        self._archive_dir = archive_dir
        self._tables = tables
        self._number = number
        self.bounds = RowBounds()
        """The last rows of its settled part."""

    def write_parts(self, parts: SessionParts) -> SessionId:
        """Write the rows of parts; return the session's id."""
        tables, number = self._tables, self._number
        for part in parts.derive():
            if isinstance(part, DerivedSession):
                write_session(tables, number, part, family=number, bounds=self.bounds)
                return part.rows.session
            settled = part.stored.settled
            bounds = _write_settled(
                tables, number, part.rows, settled, bounds=self.bounds
            )
            tables.add_settled_keys(number, part.keys)
            self.bounds = _settled_bounds(settled, bounds)
        raise NotDivisible

    def list_sources(self) -> Iterator[GrowingSource]:
        for number in self._tables.session_sources(self._number):
            stored = self._archive_dir.byte_store.source(number)
            if stored is None:
                raise NotDivisible
            yield GrowingSource(stored.number, stored.generation, stored.source)

    def is_own_id(self, session: SessionId) -> bool:
        return self._tables.session_number(session) == self._number

    def agent_state(self, file: SourceFile) -> int:
        return agent_state(self._archive_dir, file.home, file.relative_path)

    def load(
        self, source: GrowingSource, offset: int, limit: int | None
    ) -> tuple[Transcript, bool]:
        nodes = self._tables.index.nodes_from(source.number, offset, limit)
        transcript = load_transcript(self._archive_dir, source.number, nodes)
        if transcript is None:
            raise NotDivisible
        if limit is not None and len(nodes) == limit:
            # The unfinished last line does not follow these.
            return structs.replace(transcript, nodes=nodes), False
        return transcript, True

    def add_steps(self, agents: Sequence[Transcript]) -> Iterable[Transcript]:
        return with_steps(self._archive_dir, agents)

    def has_summaries(self, source: GrowingSource, main: Transcript) -> bool:
        if self._tables.has_summaries(self._number):
            return True
        stored = self._archive_dir.byte_store.source(source.number)
        # A last line without a newline is not indexed.
        indexed = stored.stored_bytes if stored else 0
        return any(
            node.kind == "summary" and node.position.offset >= indexed
            for node in main.nodes
        )

    def has_settled_edit(self, path: str) -> bool:
        return self._tables.has_settled_edit(self._number, self.bounds, path)

    def has_settled_key(self, keys: set[int]) -> bool:
        return self._tables.has_settled_key(self._number, keys)

    def has_other_records(
        self, keys: set[int], place: tuple[int, int], others: Sequence[int]
    ) -> bool:
        return any(
            self._tables.has_other_records(column, keys, place, others)
            for column in ("key", "message_key")
        )
