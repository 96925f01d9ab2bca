"""Derive sessions that have grown from what is settled of them, and write their rows."""

from __future__ import annotations

from functools import partial

import msgspec
from msgspec import structs

from bygones.assemble.dedupe import sort_transcripts
from bygones.assemble.grouping import SessionRecords, collect_records
from bygones.assemble.segments import used_ids
from bygones.ingest.derive import (
    DerivedSession,
    NotDivisible,
    SettledSession,
    StoredPart,
    find_main,
    grow,
    record_ids,
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
        settled = _decode_settled(facts)
        end = _SessionEnd(archive_dir, tables, number, settled=settled, bounds=bounds)
        derived = end.derive()
    except NotDivisible:
        return None
    tables.delete_open_rows(number, bounds)
    write_session(tables, number, derived, family=number, bounds=bounds)
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
        quarter = int(settled.settled.last_time.timestamp()) // QUARTER_HOUR_SECONDS
        open_since_ms = quarter * QUARTER_HOUR_SECONDS * _MS_PER_SECOND
        bounds = structs.replace(bounds, open_since_ms=open_since_ms)
        bounds = tables.insert_settled_rows(number, derived.settled_rows, bounds)
        tables.add_settled_keys(number, derived.settled_keys)
    tables.insert_open_rows(number, family, derived.rows, bounds)
    count = settled.header.branches[0].message_count
    bounds = structs.replace(
        bounds,
        message_block=count - count % MESSAGES_PER_BLOCK,
        turn=settled.last_turn.start,
        message=count,
        agents=tuple(agent for agent, _ in derived.rows.agent_runs),
    )
    tables.save_settled_part(number, bounds, _encode_settled(settled))


class _SessionEnd:
    """The records of a session after its settled part."""

    def __init__(
        self,
        archive_dir: ArchiveDir,
        tables: DerivedTables,
        number: int,
        *,
        settled: SettledSession,
        bounds: RowBounds,
    ) -> None:
        self._archive_dir = archive_dir
        self._tables = tables
        self._number = number
        self._settled = settled
        self._bounds = bounds
        self._main: StoredSource
        self._agents: list[StoredSource] = []

    def derive(self) -> DerivedSession:
        """Return the rows; raise `NotDivisible` if they depend on settled records."""
        self._find_sources()
        transcripts = [self._load(source) for source in self._agents]
        agents = sort_transcripts(with_steps(self._archive_dir, transcripts))
        main = self._load(self._main)
        if not main.nodes:
            raise NotDivisible
        session = self._settled.summary.id
        records = collect_records(session, [main], agents)
        self._check_summaries(main)
        self._check_ids(records)
        return grow(
            records,
            StoredPart(self._settled, self._load_earlier_messages()),
            is_settled_path=partial(
                self._tables.has_settled_edit, self._number, self._bounds
            ),
            agent_states=agent_states(self._archive_dir, agents),
        )

    def _find_sources(self) -> None:
        """Find the session's file, and the agents that are not settled."""
        unchanged = dict(self._settled.agents)
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
        settled = self._settled
        if unchanged or [(one.id, one.generation) for one in mains] != [
            (settled.source, settled.generation)
        ]:
            raise NotDivisible
        self._main = mains[0]

    def _load(self, stored: StoredSource) -> Transcript:
        index = self._tables.index
        is_main = stored.kind is SourceKind.SESSION
        offset = self._settled.settled.offset if is_main else 0
        nodes = index.nodes_from(stored.number, offset)
        transcript = load_transcript(self._archive_dir, stored.number, nodes)
        if transcript is None:
            raise NotDivisible
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

    def _load_earlier_messages(self) -> EarlierMessages:
        count = self._settled.header.branches[0].message_count
        size = count % MESSAGES_PER_BLOCK
        frame = self._tables.load_block(self._number, count - size) if size else None
        messages = decode_messages(frame)[:size] if frame is not None else []
        if len(messages) != size:
            raise NotDivisible
        return EarlierMessages(count, messages, [])
