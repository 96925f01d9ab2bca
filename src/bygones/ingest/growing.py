"""Derive sessions that have grown from what is settled of them, and write their rows.

A very long session is derived in the same way from the start, as if it grew by
`NODES_PER_PART` records at a time: so the memory that this takes doesn't depend on its
length. If records refer to settled ones, it starts again with larger parts, in the
worst case with the whole session.
"""

from __future__ import annotations

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
    agent_states,
    load_transcript,
    with_steps,
)
from bygones.model.base import SessionId, SourceKind
from bygones.model.nodes import Transcript
from bygones.model.usage import QUARTER_HOUR_SECONDS
from bygones.store.archive_db import StoredSource
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
        end = _SessionEnd(archive_dir, tables, number, stored=stored, bounds=bounds)
        derived = end.derive(end.load())
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
        parts = _SessionParts(archive_dir, tables, number, limit)
        try:
            return parts.derive()
        except NotDivisible:
            tables.delete_session(number, is_partial=True)
        if parts.is_single:
            return None
        # Records refer to settled ones: there are fewer cuts between larger parts.
        limit *= _LARGER_PARTS


class _SessionParts:
    """A session that is derived some records at a time."""

    def __init__(
        self, archive_dir: ArchiveDir, tables: DerivedTables, number: int, limit: int
    ) -> None:
        self._archive_dir = archive_dir
        self._tables = tables
        self._number = number
        self._limit = limit
        self._bounds = RowBounds()
        self._stored: StoredPart | None = None
        self.is_single = True
        """Whether the first part is the whole session, or it can't have parts."""

    def derive(self) -> SessionId:
        """Write the rows; raise `NotDivisible` if records refer to earlier parts."""
        limit = self._limit
        while True:
            end = _SessionEnd(
                self._archive_dir,
                self._tables,
                self._number,
                stored=self._stored,
                bounds=self._bounds,
                limit=limit,
            )
            records = end.load()
            if end.is_complete:
                return self._derive_last(end, records)
            self.is_single = False
            try:
                self._settle(end.settle_half(records))
                limit = self._limit
            except NotDivisible:
                if limit > self._limit:
                    raise
                limit *= _LARGER_PARTS  # there may be a cut in more records

    def _settle(self, part: SettledPart) -> None:
        self._stored = part.stored
        settled = part.stored.settled
        bounds = _write_settled(
            self._tables, self._number, part.rows, settled, bounds=self._bounds
        )
        self._tables.add_settled_keys(self._number, part.keys)
        self._bounds = _settled_bounds(settled, bounds)

    def _derive_last(self, end: _SessionEnd, records: SessionRecords) -> SessionId:
        derived = end.derive(records)
        write_session(
            self._tables,
            self._number,
            derived,
            family=self._number,
            bounds=self._bounds,
        )
        return derived.rows.session


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

    def __init__(  # noqa: PLR0913 (private, most by keyword)
        self,
        archive_dir: ArchiveDir,
        tables: DerivedTables,
        number: int,
        *,
        stored: StoredPart | None,
        bounds: RowBounds,
        limit: int | None = None,
    ) -> None:
        self._archive_dir = archive_dir
        self._tables = tables
        self._number = number
        self._stored = stored
        self._bounds = bounds
        self._limit = limit
        self._main: StoredSource
        self._agents: list[StoredSource] = []
        self.is_complete = True
        """Whether the last record of the session is loaded."""

    def load(self) -> SessionRecords:
        """Return the records; raise `NotDivisible` if they depend on settled ones."""
        settled = self._stored.settled if self._stored else None
        self._find_sources(settled)
        main = self._load(self._main, settled.settled.offset if settled else 0)
        if not main.nodes:
            raise NotDivisible
        self._check_summaries(main)
        session = settled.summary.id if settled else transcript_session_id(main)
        if self._tables.session_number(session) != self._number:
            raise NotDivisible
        transcripts = [self._load(source) for source in self._agents]
        agents = sort_transcripts(with_steps(self._archive_dir, transcripts))
        records = collect_records(session, [main], agents)
        if agents and not self.is_complete:
            # Later records may start the others.
            links = link_agents(records.nodes, records.agents)
            started = [one for one in agents if links[agent_id(one.source)].call_ids]
            records = collect_records(session, [main], started)
        if settled:
            self._check_ids(records)
        return records

    def derive(self, records: SessionRecords) -> DerivedSession:
        """Return the rows; raise `NotDivisible` if they depend on settled records."""
        if self._stored is None:
            raise NotDivisible
        return grow(
            records,
            self._stored,
            is_settled_path=self._is_settled_path,
            agent_states=agent_states(self._archive_dir, records.transcripts),
        )

    def settle_half(self, records: SessionRecords) -> SettledPart:
        """Settle some of the records, because more follow."""
        return settle_half(
            records,
            self._stored,
            is_settled_path=self._is_settled_path,
            agent_states=agent_states(self._archive_dir, records.transcripts),
        )

    def _is_settled_path(self, path: str) -> bool:
        return self._tables.has_settled_edit(self._number, self._bounds, path)

    def _find_sources(self, settled: SettledSession | None) -> None:
        """Find the session's file, and the agents that are not settled."""
        unchanged = dict(settled.agents) if settled else {}
        mains: list[StoredSource] = []
        for number in self._tables.session_sources(self._number):
            stored = self._archive_dir.byte_store.source(number)
            if stored is None:
                raise NotDivisible
            if stored.kind is SourceKind.SESSION:
                mains.append(stored)
            elif stored.id not in unchanged:
                self._agents.append(stored)
            else:
                transcript = Transcript(source=stored.source)
                states = agent_states(self._archive_dir, [transcript])
                if states[stored.id] != unchanged.pop(stored.id):
                    raise NotDivisible
        if unchanged or len(mains) != 1:
            raise NotDivisible
        self._main = main = mains[0]
        if settled is None:
            # Which session other files belong to is known from all of their records.
            if not has_session_id(main.source):
                raise NotDivisible
        elif (main.id, main.generation) != (settled.source, settled.generation):
            raise NotDivisible

    def _load(self, stored: StoredSource, offset: int = 0) -> Transcript:
        limit = self._limit if stored.kind is SourceKind.SESSION else None
        nodes = self._tables.index.nodes_from(stored.number, offset, limit)
        transcript = load_transcript(self._archive_dir, stored.number, nodes)
        if transcript is None:
            raise NotDivisible
        if limit is not None and len(nodes) == limit:
            self.is_complete = False
            # The unfinished last line does not follow these.
            return structs.replace(transcript, nodes=nodes)
        return transcript

    def _check_summaries(self, main: Transcript) -> None:
        """Check that no file has a summary of a record of the session."""
        indexed = self._main.stored_bytes
        if self._tables.has_summaries(self._number) or any(
            # A last line without a newline is not indexed.
            node.kind == "summary" and node.position.offset >= indexed
            for node in main.nodes
        ):
            raise NotDivisible

    def _check_ids(self, records: SessionRecords) -> None:
        """Check that no record elsewhere has an id that is used here."""
        tables, number = self._tables, self._number
        names = {id_key(name) for name in used_ids(records.nodes, records.agents)}
        if tables.has_settled_key(number, names):
            raise NotDivisible
        keys = {id_key(name) for name in record_ids(records)}
        place = (self._main.number, find_main(records).nodes[0].position.offset)
        others = [source.number for source in self._agents]
        for column in ("key", "message_key"):
            if tables.has_other_records(column, keys, place, others):
                raise NotDivisible
