"""Update the index from the archive: nodes, records, texts and derived sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice

from msgspec import structs

from bygones.assemble.agents import (
    find_hidden_records,
    may_start_hidden_run,
    starts_warm_up,
)
from bygones.assemble.dedupe import get_record_id
from bygones.assemble.grouping import has_session_id, transcript_session_id
from bygones.errors import ArchiveDamaged, SessionsNotIndexed
from bygones.errors.base import UNEXPECTED_ERRORS
from bygones.ingest.derive import DerivedSession
from bygones.ingest.growing import (
    NODES_PER_PART,
    derive_in_parts,
    grow_session,
    write_session,
)
from bygones.ingest.index_batch import (
    IndexBatch,
    LineBlock,
    decode_lines,
    index_block,
    leave_out_records,
)
from bygones.ingest.loading import SessionFamily, agent_states, gather_family
from bygones.ingest.workers import DERIVE_TASK, INDEX_TASK, WorkerPool
from bygones.model.base import (
    IngestReport,
    Position,
    Problem,
    ProgressReporter,
    SessionId,
    SourceId,
    SourceKind,
)
from bygones.model.nodes import RecordNode, Transcript
from bygones.model.summary import REPLAY_ID_PREFIXES
from bygones.sources.lines import LineBuffer, split_lines
from bygones.store.archive_db import StoredSource
from bygones.store.archive_dir import ArchiveDir
from bygones.store.derived_tables import DerivedTables
from bygones.store.encoding import TextLengths, id_key
from bygones.store.index_db import IndexDB, IndexedSource, NodePage, decode_nodes
from bygones.store.local_reader import load_readable_sources
from bygones.store.usage_tables import RowBounds


class Indexer:
    """Indexes bytes that were just read, or chunks of the archive."""

    def __init__(
        self, archive_dir: ArchiveDir, report: IngestReport, workers: WorkerPool
    ) -> None:
        self._archive_dir = archive_dir
        self._report = report
        self.workers = workers
        self._indexed: dict[int, IndexedSource] = {}
        self._with_last_line: set[int] = set()
        """Sources that may have records of a last line without a newline."""
        self._hidden: dict[int, bool] = {}
        """Whether sources are warm-ups or replays, whose texts are not indexed."""
        self._with_hidden_runs: dict[int, bool] = {}
        """Whether files of sessions may have warm-ups or replays inside them."""
        self._with_wrong_texts: set[int] = set()
        """Sources with indexed texts that turned out to be those of a warm-up."""

    @property
    def _index(self) -> IndexDB:
        index = self._archive_dir.index
        if index is None:
            raise RuntimeError
        return index

    def prepare(
        self,
        progress: ProgressReporter,
        sources: list[StoredSource] | None = None,
        *,
        is_complete: bool = True,
    ) -> None:
        """Open the index, update it with what the archive has, and start a transaction.

        A caller that has loaded all sources passes them. If `is_complete` is false,
        only the given sources may be out of date.
        """
        if self._archive_dir.index is None:
            self._archive_dir.begin_index_build()
            self._archive_dir.publish_index()
        self._indexed = self._index.load_indexed_sources()
        self._with_last_line = {*self._indexed}
        self._repair_text_index()
        self._index.db.execute("BEGIN IMMEDIATE")
        unreadable: list[int] = []
        if sources is None:
            sources, unreadable = load_readable_sources(self._archive_dir.byte_store)
            self._report.problems.extend(map(_damaged_source_problem, unreadable))
        if is_complete:
            self._remove_sources(
                {*self._indexed} - {*unreadable, *(source.number for source in sources)}
            )
        self._catch_up(sources, progress)

    def _remove_sources(self, sources: Iterable[int]) -> None:
        """Remove what was derived from sources that are not in the archive any more.

        A backup may have been restored.
        """
        for number in sources:
            self._archive_dir.text_index.remove(self._index.remove_source(number))
            del self._indexed[number]
            self._hidden.pop(number, None)
            self._with_hidden_runs.pop(number, None)

    def _catch_up(
        self, sources: list[StoredSource], progress: ProgressReporter
    ) -> None:
        outdated = [source for source in sources if self._is_behind(source)]
        if not outdated:
            return
        total = sum(source.stored_bytes for source in outdated)
        progress.begin("indexing", total)
        self.workers.start_if_worthwhile(total)
        for source in outdated:
            # It may have been moved too, so its session is determined again.
            self.reindex(source)
            progress.advance(source.stored_bytes)
        self.commit()
        progress.end()

    def _is_behind(self, stored_source: StoredSource) -> bool:
        indexed = self._indexed.get(stored_source.number)
        return indexed is None or indexed.is_behind(stored_source)

    def _index_source(self, stored_source: StoredSource) -> None:
        """Index the part of a source that is not indexed yet."""
        indexed = self._indexed_source(stored_source)
        for block in self._line_blocks(
            stored_source,
            indexed.indexed_bytes if indexed else 0,
            stored_source.stored_bytes,
        ):
            if isinstance(block, Problem):
                self._index.add_problems(stored_source, [block])
                self._report.problems.append(block)
            else:
                self.add_block(stored_source, block)
            del block  # it may be a giant line
        self.finish_source(stored_source)

    def _line_blocks(
        self, stored_source: StoredSource, start: int, stop: int
    ) -> Iterator[LineBlock | Problem]:
        """Yield stored bytes of a source as blocks of whole lines.

        A damaged chunk loses the lines in it and is reported as a problem.
        """
        lines = LineBuffer(start)
        end = start
        chunks = self._archive_dir.byte_store.try_read_chunks(
            stored_source.number, stored_source.generation, start=start
        )
        for chunk, raw in chunks:
            if end >= stop:
                break
            if chunk.start > end:
                yield _missing_bytes(stored_source, lines.start, chunk.start)
                end = chunk.start
                lines = LineBuffer(end)
            if raw is None:
                end = min(chunk.stop, stop)
                lines = LineBuffer(end)
                kind = "lost" if chunk.lost_ns else "damaged"
                yield _missing_bytes(stored_source, chunk.start, end, kind)
                continue
            part = raw[end - chunk.start : stop - chunk.start]
            end += len(part)
            for block in lines.add(part, 1):
                yield line_block(stored_source, *block)
        if end < stop:
            yield _missing_bytes(stored_source, lines.start, stop)
        else:
            start, rest = lines.pop()
            if rest:
                yield line_block(stored_source, start, rest)

    def _indexed_source(self, stored_source: StoredSource) -> IndexedSource | None:
        """Return the state of a source; `None` if it has a new generation."""
        indexed = self._indexed.get(stored_source.number)
        if indexed is not None and indexed.generation != stored_source.generation:
            self.remove_source(stored_source)
            return None
        return indexed

    def reindex(self, stored_source: StoredSource) -> None:
        """Index a source again from the start, because its path changed."""
        self.workers.drain()
        self.remove_source(stored_source)
        self._index_source(stored_source)

    def mark_touched(self, stored_source: StoredSource) -> None:
        """Derive a source's session again, because the time of its file changed."""
        self.workers.drain()
        self.mark_session_dirty(stored_source)
        if stored_source.number in self._indexed:
            self._save_indexed_source(
                stored_source, self._indexed[stored_source.number]
            )

    def mark_session_dirty(self, stored_source: StoredSource) -> None:
        indexed = self._indexed.get(stored_source.number)
        if indexed is not None and indexed.session is not None:
            self._index.mark_dirty([indexed.session])

    def remove_source(self, stored_source: StoredSource) -> None:
        """Remove what was derived from a source, to index it again."""
        if stored_source.number in self._indexed:
            self._remove_sources([stored_source.number])

    def add_block(self, stored_source: StoredSource, block: LineBlock) -> None:
        """Index whole lines, possibly in another process."""
        if stored_source.kind.is_transcript:
            on_result = partial(self._write_batch, stored_source, block.start)
            self.workers.submit(INDEX_TASK, block, on_result, size=len(block.raw))
            self.workers.call_in_order(
                partial(self._set_indexed_bytes, stored_source, block.stop)
            )

    def _write_batch(
        self, stored_source: StoredSource, start: int, batch: IndexBatch
    ) -> None:
        """Write the rows and texts of a block that starts at `start`."""
        indexed = self._indexed_source(stored_source)
        if indexed is None:
            session = self._guess_session(stored_source, batch.page)
            indexed = IndexedSource(
                stored_source.number, stored_source.generation, start, session
            )
            self._indexed[stored_source.number] = indexed
        index = self._index
        self._remove_last_line(stored_source.number, start)
        known = index.count_limited_nodes(stored_source.number) if start else 0
        batch = leave_out_records(batch, start, known)
        first = index.add_nodes(indexed, batch.page, batch.rows)
        index.add_leaf_titles(stored_source.number, batch.leaf_titles)
        lengths = index.text_lengths(stored_source.number, is_new=not start)
        if self._is_hidden(stored_source, batch):
            lengths.clear()
        else:
            lengths.merge(TextLengths(batch.lengths))
            ids = range(first, first + len(batch.rows))
            self._add_documents(stored_source, start, batch, ids)
        index.add_problems(stored_source, batch.problems)
        index.add_drift(stored_source.number, batch.drift)
        self._report.records += batch.page.count

    def _is_hidden(self, stored_source: StoredSource, batch: IndexBatch) -> bool:
        """Whether a source is a warm-up or a replay, by its first prompt or its name."""
        number = stored_source.number
        if stored_source.kind is not SourceKind.AGENT:
            return False
        if (stored_source.agent or "").startswith(REPLAY_ID_PREFIXES):
            return True
        if number not in self._hidden:
            is_stored = self._indexed[number].indexed_bytes > 0
            nodes = self._index.iter_nodes(number) if is_stored else ()
            is_warm_up = starts_warm_up(nodes)
            if is_warm_up is None:
                is_warm_up = batch.is_warm_up
                if is_warm_up and is_stored:
                    earlier = self._index.delete_texts(number)
                    self._archive_dir.text_index.remove(earlier)
            if is_warm_up is None:
                return False
            self._hidden[number] = is_warm_up
        return self._hidden[number]

    def _set_indexed_bytes(self, stored_source: StoredSource, stop: int) -> None:
        self._indexed[stored_source.number] = structs.replace(
            self._indexed[stored_source.number], indexed_bytes=stop
        )

    def _hidden_keys(
        self, stored_source: StoredSource, start: int, batch: IndexBatch
    ) -> frozenset[int]:
        """Return the keys of records of warm-ups and replays inside a session's file.

        Those of a run that starts in an earlier block are known only here.
        """
        number = stored_source.number
        if stored_source.kind is SourceKind.AGENT or not batch.has_sidechain:
            return frozenset()
        if start and number not in self._with_hidden_runs:
            stored = self._index.iter_nodes(number)
            self._with_hidden_runs[number] = may_start_hidden_run(stored)
        is_known = start > 0 and self._with_hidden_runs[number]
        self._with_hidden_runs[number] = is_known or batch.may_start_hidden_run
        if not start or not self._with_hidden_runs[number]:
            return frozenset()
        self._index.flush_nodes(number)
        nodes = chain(self._index.iter_nodes(number), decode_nodes(batch.page.msgpack))
        by_position = {node.position: node for node in nodes}
        hidden = find_hidden_records(by_position.values())
        earlier = [n for at, n in by_position.items() if at.offset < start]
        new = hidden - find_hidden_records(earlier)
        if new and any(get_record_id(node) in new for node in earlier):
            # A prompt that comes after its answer.
            self._with_wrong_texts.add(number)
        return frozenset(map(id_key, hidden))

    def _add_documents(
        self,
        stored_source: StoredSource,
        start: int,
        batch: IndexBatch,
        ids: Sequence[int],
    ) -> None:
        """Add texts to the text index; records without an id have none."""
        number = stored_source.number
        text, session = self._archive_dir.text_index, self._indexed[number].session or 0
        hidden = self._hidden_keys(stored_source, start, batch)
        added = [
            (record, document)
            for document in batch.documents
            if (record := ids[document.row_index])
            and batch.rows[document.row_index][0] not in hidden
        ]
        for record, document in added:
            text.add(record, session, document.kind, document.text)
        if added:
            first_record, _ = added[0]
            text.add_block(first_record, session, [one.text for _, one in added])

    def _guess_session(
        self, stored_source: StoredSource, page: NodePage | None = None
    ) -> int:
        """Return the number of the session that a source seems to belong to."""
        owner = self._session_by_folder(stored_source)
        if owner is not None:
            return owner
        is_named = page is None or has_session_id(stored_source.source)
        nodes = () if page is None or is_named else tuple(decode_nodes(page.msgpack))
        return self._index.ensure_session_number(
            transcript_session_id(Transcript(source=stored_source.source, nodes=nodes))
        )

    def _reassign_source(self, stored_source: StoredSource) -> bool:
        """Assign a source to its session; return whether that changed."""
        indexed = self._indexed[stored_source.number]
        owner = self._session_by_folder(stored_source)
        if owner is None:
            transcript = Transcript(
                source=stored_source.source,
                nodes=tuple(self._owner_nodes(stored_source)),
            )
            owner = self._index.ensure_session_number(transcript_session_id(transcript))
        if owner == indexed.session:
            return False
        self._index.reassign_source(stored_source.number, owner)
        self._indexed[stored_source.number] = structs.replace(indexed, session=owner)
        return True

    def _agents_of(self, stored_source: StoredSource) -> list[StoredSource]:
        """Return the agents in the folder of a session's file."""
        return self._agents_in(
            stored_source.home,
            stored_source.path.removesuffix(".jsonl") + "/subagents/",
        )

    def _agents_in(self, home: str, folder: str) -> list[StoredSource]:
        sources = self._archive_dir.byte_store.sources_below(home, folder)
        return [
            source
            for source in sources
            if source.kind is SourceKind.AGENT and source.number in self._indexed
        ]

    def _owner_nodes(self, stored_source: StoredSource) -> Iterable[RecordNode]:
        """Return the nodes that determine the session of a source."""
        nodes = chain(
            self._index.iter_nodes(stored_source.number),
            self._fragment_nodes(stored_source),
        )
        if stored_source.kind is SourceKind.AGENT:
            return islice((node for node in nodes if node.session_id), 1)
        return nodes

    def _fragment_nodes(self, stored_source: StoredSource) -> Iterator[RecordNode]:
        """Yield the nodes of the unfinished last line, which are not stored."""
        yield from decode_lines(
            split_lines(
                stored_source.id,
                stored_source.generation,
                stored_source.stored_bytes,
                self._load_fragment(stored_source),
            )
        )[1]

    def _load_fragment(self, stored_source: StoredSource) -> bytes:
        if not stored_source.has_fragment:
            return b""
        try:
            return self._archive_dir.byte_store.fragment(
                stored_source.number, stored_source.generation
            )
        except ArchiveDamaged:
            return b""

    def _session_by_folder(self, stored_source: StoredSource) -> int | None:
        """Return the session whose folder contains an agent, by that session's file."""
        folder, separator, _ = stored_source.path.partition("/subagents/")
        if stored_source.kind is not SourceKind.AGENT or not separator:
            return None
        main = self._archive_dir.byte_store.find_source(
            stored_source.home, f"{folder}.jsonl"
        )
        indexed = self._indexed.get(main.number) if main else None
        return indexed.session if indexed else None

    def correct_sources(self, sources: Sequence[int]) -> None:
        """Correct what was indexed before all records of these sources were known.

        Sources move to the session that their records name, and texts that should not
        have been indexed are removed.
        """
        byte_store = self._archive_dir.byte_store
        moved = self._reassign_sources(sources)
        wrong = [byte_store.source(number) for number in self._with_wrong_texts]
        self._with_wrong_texts.clear()
        replaced = [*moved, *(source for source in wrong if source)]
        for source in replaced:
            records = self._index.record_ids(source.number, 0)
            self._archive_dir.text_index.remove(records.values())
            self._readd_text(source, 0, 0)
        if replaced:
            self._archive_dir.text_index.commit()

    def _reassign_sources(self, sources: Sequence[int]) -> list[StoredSource]:
        """Assign sources to other sessions if all their records say so; return them.

        The first records of a file that isn't named by an id may belong to another
        session than most. Agents follow the session in whose folder they are.
        """
        found = self._archive_dir.byte_store.sources_without_session_id(sources)
        unnamed = [source for source in found if source.number in self._indexed]
        moved = [
            source
            for source in unnamed
            if source.kind is SourceKind.SESSION and self._reassign_source(source)
        ]
        agents = {
            source.number: source
            for source in unnamed
            if source.kind is SourceKind.AGENT
        }
        for source in moved:
            agents.update({agent.number: agent for agent in self._agents_of(source)})
        moved.extend(agent for agent in agents.values() if self._reassign_source(agent))
        return moved

    def finish_source(self, stored_source: StoredSource) -> None:
        """Record that a source is indexed; its session must be derived again."""
        self.workers.call_in_order(partial(self._finish_source, stored_source))

    def _finish_source(self, stored_source: StoredSource) -> None:
        indexed = self._indexed_source(stored_source)
        if indexed is None:
            indexed = IndexedSource(
                stored_source.number,
                stored_source.generation,
                stored_source.stored_bytes,
            )
            if stored_source.kind.is_transcript:
                indexed = structs.replace(
                    indexed, session=self._guess_session(stored_source)
                )
        self._save_indexed_source(stored_source, indexed)
        if stored_source.kind.is_transcript:
            self._remove_last_line(stored_source.number, stored_source.stored_bytes)
            batch = self._index_last_line(stored_source)
            if batch is not None and batch.rows:
                self._add_last_line(stored_source, indexed, batch)
        if indexed.session is not None:
            self._index.mark_dirty([indexed.session])
        self.mark_related_dirty(stored_source)

    def _add_last_line(
        self,
        stored_source: StoredSource,
        indexed_source: IndexedSource,
        batch: IndexBatch,
    ) -> None:
        source = indexed_source.source
        first = self._index.add_records(source, indexed_source.session, batch.rows)
        ids = range(first, first + len(batch.rows))
        if not self._is_hidden(stored_source, batch):
            start = stored_source.stored_bytes
            self._add_documents(stored_source, start, batch, ids)
        self._with_last_line.add(source)

    def _remove_last_line(self, source: int, start: int) -> None:
        """Remove the records of a line that had no newline before."""
        if source in self._with_last_line:
            self._with_last_line.remove(source)
            removed = self._index.remove_records_from(source, start)
            if removed:
                self._archive_dir.text_index.remove(removed)

    def _index_last_line(self, stored_source: StoredSource) -> IndexBatch | None:
        """Return the records of the last line without a newline, if it is complete.

        A client that was killed leaves such a line.
        """
        fragment = self._load_fragment(stored_source)
        if not fragment:
            return None
        start = stored_source.stored_bytes
        return index_block(line_block(stored_source, start, fragment))

    def _save_indexed_source(
        self, stored_source: StoredSource, indexed_source: IndexedSource
    ) -> None:
        indexed_source = structs.replace(
            indexed_source,
            indexed_bytes=stored_source.stored_bytes,
            state_checksum=stored_source.state_checksum,
        )
        self._indexed[stored_source.number] = indexed_source
        self._index.save_indexed_source(indexed_source)

    def mark_related_dirty(self, stored_source: StoredSource) -> None:
        """Mark the sessions that a source has information about."""
        if stored_source.kind is SourceKind.SIDECAR:
            agent = stored_source.path.removesuffix(".meta.json") + ".jsonl"
            found = self._archive_dir.byte_store.find_source(stored_source.home, agent)
            others = [found] if found else []
        elif stored_source.kind is SourceKind.JOURNAL:
            folder = stored_source.path.removesuffix("journal.jsonl")
            others = self._agents_in(stored_source.home, folder)
        elif stored_source.kind is SourceKind.SESSION and not has_session_id(
            stored_source.source
        ):
            others = self._agents_of(stored_source)
        else:
            return
        for other in others:
            self.mark_session_dirty(other)

    def commit(self, *, is_last: bool = False) -> None:
        """Commit the rows, then the texts, then the fact that both are in sync."""
        self.workers.drain()
        index = self._index
        index.save_last_record()
        index.db.execute("COMMIT")
        self._archive_dir.text_index.commit()
        with index.db:
            index.mark_text_index_current()
        if not is_last:
            index.db.execute("BEGIN IMMEDIATE")

    def _repair_text_index(self) -> None:
        """Add texts again whose rows were committed but perhaps not they themselves."""
        index, text = self._index, self._archive_dir.text_index
        if index.is_text_index_current():
            return
        last_record = index.last_text_record()
        text.remove(index.pending_text_deletions())
        text.remove_after(last_record)
        for source, start in index.sources_with_records_after(last_record):
            stored_source = self._archive_dir.byte_store.source(source)
            if stored_source is not None:
                self._readd_text(stored_source, start, last_record)
        text.commit()
        with index.db:
            index.mark_text_index_current()

    def _readd_text(
        self, stored_source: StoredSource, start: int, after_record: int
    ) -> None:
        record_ids = self._index.record_ids(stored_source.number, after_record)
        indexed = self._indexed[stored_source.number]
        for block in self._line_blocks(stored_source, start, indexed.indexed_bytes):
            if isinstance(block, Problem):
                continue
            self._readd_batch(
                stored_source, block.start, index_block(block), record_ids
            )
        last_line = self._index_last_line(stored_source)
        if last_line is not None:
            stop = stored_source.stored_bytes
            self._readd_batch(stored_source, stop, last_line, record_ids)

    def _readd_batch(
        self,
        stored_source: StoredSource,
        start: int,
        batch: IndexBatch,
        record_ids: Mapping[int, int],
    ) -> None:
        if self._is_hidden(stored_source, batch):
            return
        ids = [record_ids.get(offset, 0) for _, _, offset, _ in batch.rows]
        self._add_documents(stored_source, start, batch, ids)


def _missing_bytes(
    stored_source: StoredSource, start: int, stop: int, kind: str = "damaged"
) -> Problem:
    """Return the problem of bytes that cannot be read."""
    location = (stored_source.id, stored_source.generation, start, stop - start)
    return Problem(kind, Position(*location))


def _damaged_source_problem(number: int) -> Problem:
    """Return the problem of a source whose row is damaged."""
    return Problem("damaged", Position(SourceId(f"source {number}"), 0, 0, 0))


def line_block(stored_source: StoredSource, start: int, raw: bytes) -> LineBlock:
    is_agent = stored_source.kind is SourceKind.AGENT
    return LineBlock(stored_source.id, stored_source.generation, start, raw, is_agent)


_OnDerived = Callable[[int, SessionId], None]

_FAMILIES_PER_COMMIT = 500
_MIN_DIVIDED_BYTES = 32 * 1024
"""Compressed node pages of a session that may be divided; shorter ones never are."""
_EXPANSION_FACTOR = 8
"""How much larger decoded nodes are than their compressed pages, roughly."""


def derive_sessions(
    archive_dir: ArchiveDir,
    indexer: Indexer,
    report: IngestReport,
    progress: ProgressReporter,
) -> None:
    """Derive the rows of dirty sessions, and commit in batches.

    If some fail, they stay dirty, and the report has the error.
    """
    index = archive_dir.index
    if index is None:
        return
    tables = DerivedTables(index)
    with index.db:
        tables.create_deferred_indexes()
        indexer.correct_sources(tables.dirty_sources())
        tables.mark_titled_sessions_dirty()
    dirty = tables.dirty_sessions()
    on_derived = partial(_count_session, report, frozenset(dirty))
    failures = _Failures()
    grown = _grow_sessions(archive_dir, tables, dirty, on_derived, failures=failures)
    families = tables.group_families(
        [number for number in dirty if number not in grown]
    )
    progress.begin("sessions", len(families))
    long_sessions = tables.dirty_sessions_with_nodes(2 * NODES_PER_PART)
    for start in range(0, len(families), _FAMILIES_PER_COMMIT):
        # Reads of the archive are one transaction too: each would lock the file.
        with index.db, archive_dir.byte_store.db:
            for family in families[start : start + _FAMILIES_PER_COMMIT]:
                if (
                    family[0] in long_sessions
                    and len(family) == 1
                    and _derive_long_session(
                        archive_dir, tables, family[0], on_derived, failures=failures
                    )
                ):
                    progress.advance(1)
                    continue
                parts = _gather_family(archive_dir, tables, family)
                on_result = partial(
                    _write_family, tables, family, on_derived, failures=failures
                )
                size = parts.encoded_size * _EXPANSION_FACTOR
                indexer.workers.submit(
                    DERIVE_TASK,
                    parts,
                    on_result,
                    size=size,
                    on_error=partial(failures.add, family),
                )
                progress.advance(1)
            indexer.workers.drain()
    progress.end()
    report.failure = failures.describe(archive_dir, tables)


class _Failures:
    """Unexpected errors, with the numbers of the sessions that were derived together."""

    def __init__(self) -> None:
        self._errors: dict[tuple[int, ...], Exception] = {}

    def add(self, family: Sequence[int], error: Exception) -> None:
        self._errors[tuple(family)] = error

    def has(self, family: Sequence[int]) -> bool:
        return tuple(family) in self._errors

    @property
    def sessions(self) -> set[int]:
        return set(chain.from_iterable(self._errors))

    @contextmanager
    def collected(self, family: Sequence[int]) -> Iterator[None]:
        try:
            yield
        except UNEXPECTED_ERRORS as error:
            self.add(family, error)

    def describe(
        self, archive_dir: ArchiveDir, tables: DerivedTables
    ) -> SessionsNotIndexed | None:
        """Return the error that names the first one."""
        for family, error in self._errors.items():
            numbers = chain.from_iterable(map(tables.session_sources, family))
            sources = map(archive_dir.byte_store.source, numbers)
            name = next((one.id for one in sources if one is not None), "")
            count, related = len(self.sessions), len(family) - 1
            return SessionsNotIndexed(archive_dir.folder, count, name, related, error)
        return None


def _grow_sessions(
    archive_dir: ArchiveDir,
    tables: DerivedTables,
    dirty: Sequence[int],
    on_derived: _OnDerived,
    *,
    failures: _Failures,
) -> set[int]:
    """Derive the ends of sessions that only grew; return those, and those that failed."""
    candidates = tables.dirty_sessions_with_settled_part()
    if not candidates:
        return set()
    # Records of another dirty session may be shared with one of these.
    others = [number for number in dirty if number not in candidates]
    related = {number for family in tables.group_families(others) for number in family}
    grown = set()
    with tables.index.db:
        for number in sorted(candidates - related):
            session = None
            with failures.collected([number]), tables.index.db:
                session = grow_session(archive_dir, tables, number)
            if session is not None:
                grown.add(number)
                on_derived(number, session)
    return grown | failures.sessions


def _gather_family(
    archive_dir: ArchiveDir, tables: DerivedTables, family: list[int]
) -> SessionFamily:
    frames = tables.index.load_node_frames
    parts = gather_family(archive_dir, tables, family, page_frames=frames)
    if len(family) == 1 and parts.encoded_size >= _MIN_DIVIDED_BYTES:
        states = agent_states(archive_dir, parts.transcripts)
        return structs.replace(parts, agent_states=states)
    return parts


def _derive_long_session(
    archive_dir: ArchiveDir,
    tables: DerivedTables,
    number: int,
    on_derived: _OnDerived,
    *,
    failures: _Failures,
) -> bool:
    """Derive a session in parts; return whether that was possible, or failed."""
    session = None
    with failures.collected([number]), tables.index.db:
        session = derive_in_parts(archive_dir, tables, number)
    if session is not None:
        on_derived(number, session)
    return session is not None or failures.has([number])


def _write_family(
    tables: DerivedTables,
    family: list[int],
    on_derived: _OnDerived,
    sessions: list[DerivedSession],
    *,
    failures: _Failures,
) -> None:
    """Replace the rows of a family, or keep them if that fails."""
    written: list[tuple[int, SessionId]] = []
    with failures.collected(family), tables.index.db:
        for number in family:
            tables.delete_session(number)
        for derived in sessions:
            number = tables.index.ensure_session_number(derived.rows.session)
            if number not in family:
                tables.delete_session(number)
            write_session(tables, number, derived, family=family[0], bounds=RowBounds())
            written.append((number, derived.rows.session))
    if not failures.has(family):
        for number, session in written:
            on_derived(number, session)


def _count_session(
    report: IngestReport, dirty: frozenset[int], number: int, session: SessionId
) -> None:
    """Count a derived session, and list it if it was dirty itself."""
    report.derived_sessions += 1
    if number in dirty:
        report.updated_sessions.append(session)


def rebuild_index(archive_dir: ArchiveDir, progress: ProgressReporter) -> IngestReport:
    """Build a new index, and replace the old one when it is complete."""
    report = IngestReport(problems=[])
    archive_dir.begin_index_build()
    fill_index(archive_dir, report, progress)
    archive_dir.publish_index()
    return report


def fill_index(
    archive_dir: ArchiveDir, report: IngestReport, progress: ProgressReporter
) -> None:
    """Index the whole archive, and derive every session."""
    with WorkerPool() as workers:
        indexer = Indexer(archive_dir, report, workers)
        indexer.prepare(progress)
        indexer.commit(is_last=True)
        derive_sessions(archive_dir, indexer, report, progress)
