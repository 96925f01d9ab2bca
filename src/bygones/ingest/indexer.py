"""Letting the index see what the archive has: nodes, records, words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice

from msgspec import structs

from bygones.assemble.grouping import has_session_id, transcript_session_id
from bygones.errors import ArchiveDamaged
from bygones.ingest.index_batch import IndexBatch, LineBlock, decode_lines, index_block
from bygones.ingest.loading import gather_family
from bygones.ingest.workers import DERIVE_TASK, INDEX_TASK, WorkerPool
from bygones.model.base import Position, Problem, SessionId, SourceId, SourceKind
from bygones.model.nodes import RecordNode, Transcript
from bygones.model.progress import IngestReport, ProgressReporter
from bygones.sources.lines import split_lines
from bygones.store.archive_db import StoredSource
from bygones.store.archive_dir import ArchiveDir
from bygones.store.derived_rows import DerivedRows
from bygones.store.derived_tables import DerivedTables
from bygones.store.encoding import TextLengths
from bygones.store.index_db import IndexDB, IndexedSource, NodePage, decode_nodes
from bygones.store.local_reader import load_readable_sources


class Indexer:
    """Feeds an index, from bytes just read or from the archive's chunks."""

    def __init__(
        self, archive_dir: ArchiveDir, report: IngestReport, workers: WorkerPool
    ) -> None:
        self._archive_dir = archive_dir
        self._report = report
        self.workers = workers
        self._indexed: dict[int, IndexedSource] = {}

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
        """Open the index, bring it level with the archive, and begin a batch.

        Whoever has all sources at hand gives them; whoever knows that it is level but
        for some names those alone.
        """
        if self._archive_dir.index is None:
            self._archive_dir.begin_index_build()
            self._archive_dir.publish_index()
        self._indexed = self._index.load_indexed_sources()
        self._repair_text_index()
        self._index.db.execute("BEGIN IMMEDIATE")
        lost: list[int] = []
        if sources is None:
            sources, lost = load_readable_sources(self._archive_dir.byte_store)
            self._report.problems.extend(map(_damaged_source_problem, lost))
        if is_complete:
            self._remove_sources(
                {*self._indexed} - {*lost, *(kept.number for kept in sources)}
            )
        self._catch_up(sources, progress)

    def _remove_sources(self, sources: Iterable[int]) -> None:
        """Remove what was derived from sources that the archive has no longer.

        Somebody may have put a backup into its place.
        """
        for number in sources:
            self._archive_dir.text_index.remove(self._index.remove_source(number))
            del self._indexed[number]

    def _catch_up(
        self, sources: list[StoredSource], progress: ProgressReporter
    ) -> None:
        behind = [kept for kept in sources if self._is_behind(kept)]
        if not behind:
            return
        total = sum(kept.stored_bytes for kept in behind)
        progress.begin("indexing", total)
        self.workers.start_if_worthwhile(total)
        for kept in behind:
            # It may be moved as well as grown: what it is part of is asked once more.
            self.reindex(kept)
            progress.advance(kept.stored_bytes)
        self.commit()
        progress.end()

    def _is_behind(self, stored_source: StoredSource) -> bool:
        seen = self._indexed.get(stored_source.number)
        return seen is None or seen.is_behind(stored_source)

    def _index_source(self, stored_source: StoredSource) -> None:
        """Show the index what the archive has of a source and it has not."""
        seen = self._indexed_source(stored_source)
        for found in self._line_blocks(
            stored_source, seen.indexed_bytes if seen else 0, stored_source.stored_bytes
        ):
            if isinstance(found, Problem):
                self._index.add_problems(stored_source.number, [found])
                self._report.problems.append(found)
            else:
                self.add_block(stored_source, found)
        self.finish_source(stored_source)

    def _line_blocks(
        self, stored_source: StoredSource, start: int, stop: int
    ) -> Iterator[LineBlock | Problem]:
        """Yield what the archive has of a source, whole lines at a time.

        A damaged chunk costs the lines in it and is a problem.
        """
        upto = start
        rest = b""
        chunks = self._archive_dir.byte_store.try_read_chunks(
            stored_source.number, stored_source.generation, start=start
        )
        for chunk, raw in chunks:
            if raw is None:
                upto, rest = min(chunk.stop, stop), b""
                length = upto - chunk.start
                place = Position(
                    stored_source.id, stored_source.generation, chunk.start, length
                )
                yield Problem("damaged", place)
                continue
            begin = max(upto + len(rest), chunk.start)
            joined = rest + raw[begin - chunk.start : stop - chunk.start]
            is_last = chunk.stop >= stop
            cut = len(joined) if is_last else joined.rfind(b"\n") + 1
            if cut:
                yield line_block(stored_source, upto, joined[:cut])
            upto += cut
            rest = joined[cut:]
            if is_last:
                return

    def _indexed_source(self, stored_source: StoredSource) -> IndexedSource | None:
        """Return how far a source was seen; one that was begun anew, not at all."""
        seen = self._indexed.get(stored_source.number)
        if seen is not None and seen.generation != stored_source.generation:
            self.remove_source(stored_source)
            return None
        return seen

    def reindex(self, stored_source: StoredSource) -> None:
        """Derive again what is kept of a source: its place is another one."""
        self.workers.drain()
        self.remove_source(stored_source)
        self._index_source(stored_source)

    def mark_touched(self, stored_source: StoredSource) -> None:
        """Have a source's session derived anew: its file looks younger or older."""
        self.workers.drain()
        self.mark_session_dirty(stored_source)
        if stored_source.number in self._indexed:
            self._save_indexed_source(
                stored_source, self._indexed[stored_source.number]
            )

    def mark_session_dirty(self, stored_source: StoredSource) -> None:
        """Have a source's session derived anew."""
        seen = self._indexed.get(stored_source.number)
        if seen is not None and seen.session is not None:
            self._index.mark_dirty([seen.session])

    def remove_source(self, stored_source: StoredSource) -> None:
        """Remove what was derived from a source, to see it anew."""
        if stored_source.number in self._indexed:
            self._remove_sources([stored_source.number])

    def add_block(self, stored_source: StoredSource, block: LineBlock) -> None:
        """Let the index see whole lines, soon."""
        if stored_source.kind.is_transcript:
            then = partial(self._write_batch, stored_source, block.start)
            self.workers.submit(INDEX_TASK, block, then, size=len(block.raw))
            self.workers.call_in_order(
                partial(self._set_indexed_bytes, stored_source, block.stop)
            )

    def _write_batch(
        self, stored_source: StoredSource, start: int, batch: IndexBatch
    ) -> None:
        """Write down what a stretch holds that begins at ``start``."""
        seen = self._indexed_source(stored_source)
        if seen is None:
            session = self._guess_session(stored_source, batch.page)
            seen = IndexedSource(
                stored_source.number, stored_source.generation, start, session
            )
            self._indexed[stored_source.number] = seen
        index = self._index
        lowest = index.add_nodes(seen, batch.page, batch.rows)
        index.add_leaf_titles(stored_source.number, batch.leaf_titles)
        lengths = index.text_lengths(stored_source.number, is_new=not start)
        lengths.merge(TextLengths(batch.lengths))
        self._add_documents(seen, batch, range(lowest, lowest + len(batch.rows)))
        index.add_problems(stored_source.number, batch.problems)
        index.add_drift(stored_source.number, batch.drift)
        self._report.records += batch.page.count

    def _set_indexed_bytes(self, stored_source: StoredSource, stop: int) -> None:
        self._indexed[stored_source.number] = structs.replace(
            self._indexed[stored_source.number], indexed_bytes=stop
        )

    def _add_documents(
        self, indexed_source: IndexedSource, batch: IndexBatch, ids: Sequence[int]
    ) -> None:
        """Let the text index have what records say; those without an id say nothing."""
        text = self._archive_dir.text_index
        for document in batch.documents:
            record = ids[document.row_index]
            if record:
                text.add(
                    record, indexed_source.session or 0, document.kind, document.text
                )

    def _guess_session(
        self, stored_source: StoredSource, page: NodePage | None = None
    ) -> int:
        """Return the number of the session that a source seems to belong to."""
        owner = self._session_by_folder(stored_source)
        if owner is not None:
            return owner
        is_sure = page is None or has_session_id(stored_source.source)
        nodes = () if page is None or is_sure else tuple(decode_nodes(page.msgpack))
        return self._index.ensure_session_number(
            transcript_session_id(Transcript(source=stored_source.source, nodes=nodes))
        )

    def _reassign_source(self, stored_source: StoredSource) -> bool:
        """Book a source to the session that it belongs to; say whether that is new."""
        seen = self._indexed[stored_source.number]
        owner = self._session_by_folder(stored_source)
        if owner is None:
            told = Transcript(
                source=stored_source.source,
                nodes=tuple(self._owner_nodes(stored_source)),
            )
            owner = self._index.ensure_session_number(transcript_session_id(told))
        if owner == seen.session:
            return False
        self._index.reassign_source(stored_source.number, owner)
        self._indexed[stored_source.number] = structs.replace(seen, session=owner)
        return True

    def _agents_of(self, stored_source: StoredSource) -> list[StoredSource]:
        """Return the agents that lie in the folder of a session's file."""
        return self._agents_in(
            stored_source.home,
            stored_source.path.removesuffix(".jsonl") + "/subagents/",
        )

    def _agents_in(self, home: str, folder: str) -> list[StoredSource]:
        below = self._archive_dir.byte_store.sources_below(home, folder)
        return [
            k for k in below if k.kind is SourceKind.AGENT and k.number in self._indexed
        ]

    def _owner_nodes(self, stored_source: StoredSource) -> Iterable[RecordNode]:
        """Yield the nodes of a source that tell whose it is."""
        nodes = chain(
            self._index.iter_nodes(stored_source.number),
            self._fragment_nodes(stored_source),
        )
        if stored_source.kind is SourceKind.AGENT:
            return islice((node for node in nodes if node.session_id), 1)
        return nodes

    def _fragment_nodes(self, stored_source: StoredSource) -> Iterator[RecordNode]:
        """Yield what the last line says: assembled with the rest, it is heard here."""
        try:
            raw = self._archive_dir.byte_store.fragment(
                stored_source.number, stored_source.generation
            )
        except ArchiveDamaged:
            return
        yield from decode_lines(
            split_lines(
                stored_source.id,
                stored_source.generation,
                stored_source.stored_bytes,
                raw,
            )
        )[1]

    def _session_by_folder(self, stored_source: StoredSource) -> int | None:
        """Return the session in whose folder an agent lies, by that session's file."""
        folder, inside, _ = stored_source.path.partition("/subagents/")
        if stored_source.kind is not SourceKind.AGENT or not inside:
            return None
        main = self._archive_dir.byte_store.find_source(
            stored_source.home, f"{folder}.jsonl"
        )
        seen = self._indexed.get(main.number) if main else None
        return seen.session if seen else None

    def reassign_sources(self, sources: Sequence[int]) -> None:
        """Give sources to other sessions where all their records say so.

        The first records of a file that is not named by an id may be of another
        session than most. Agents follow the session in whose folder they lie.
        """
        found = self._archive_dir.byte_store.sources_without_session_id(sources)
        unsure = [kept for kept in found if kept.number in self._indexed]
        moved = [
            k
            for k in unsure
            if k.kind is SourceKind.SESSION and self._reassign_source(k)
        ]
        agents = {k.number: k for k in unsure if k.kind is SourceKind.AGENT}
        for kept in moved:
            agents.update({agent.number: agent for agent in self._agents_of(kept)})
        moved.extend(agent for agent in agents.values() if self._reassign_source(agent))
        for kept in moved:
            self._archive_dir.text_index.remove(
                self._index.record_ids(kept.number, 0).values()
            )
            self._readd_text(kept, 0, 0)
        if moved:
            self._archive_dir.text_index.commit()

    def finish_source(self, stored_source: StoredSource) -> None:
        """Note how far a source has been seen; its session must be derived anew."""
        self.workers.call_in_order(partial(self._finish_source, stored_source))

    def _finish_source(self, stored_source: StoredSource) -> None:
        seen = self._indexed_source(stored_source)
        if seen is None:
            seen = IndexedSource(
                stored_source.number,
                stored_source.generation,
                stored_source.stored_bytes,
            )
            if stored_source.kind.is_transcript:
                seen = structs.replace(seen, session=self._guess_session(stored_source))
        self._save_indexed_source(stored_source, seen)
        if seen.session is not None:
            self._index.mark_dirty([seen.session])
        self._mark_related_dirty(stored_source)

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

    def _mark_related_dirty(self, stored_source: StoredSource) -> None:
        """Have sessions derived anew that a source tells something of."""
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
        """Commit rows, then words, then the note that both are level."""
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
        """Add again what was committed as rows but perhaps not as words."""
        index, text = self._index, self._archive_dir.text_index
        if index.is_text_index_current():
            return
        level = index.last_text_record()
        text.remove(index.pending_text_deletions())
        text.remove_after(level)
        for source, start in index.sources_with_records_after(level):
            kept = self._archive_dir.byte_store.source(source)
            if kept is not None:
                self._readd_text(kept, start, level)
        text.commit()
        with index.db:
            index.mark_text_index_current()

    def _readd_text(
        self, stored_source: StoredSource, start: int, after_record: int
    ) -> None:
        known = self._index.record_ids(stored_source.number, after_record)
        seen = self._indexed[stored_source.number]
        for stretch in self._line_blocks(stored_source, start, seen.indexed_bytes):
            if isinstance(stretch, Problem):
                continue
            gist = index_block(stretch)
            self._add_documents(seen, gist, [known.get(row[2], 0) for row in gist.rows])


def _damaged_source_problem(number: int) -> Problem:
    """Return what is to be said of a source whose row is damaged."""
    return Problem("damaged", Position(SourceId(f"source {number}"), 0, 0, 0))


def line_block(stored_source: StoredSource, start: int, raw: bytes) -> LineBlock:
    """Return lines of a source as a stretch."""
    is_agent = stored_source.kind is SourceKind.AGENT
    return LineBlock(stored_source.id, stored_source.generation, start, raw, is_agent)


_OnDerived = Callable[[int, SessionId], None]

_FAMILIES_PER_COMMIT = 500
_EXPANSION_FACTOR = 8
"""How much larger nodes are than the pages that they are kept in, about."""


def derive_sessions(
    archive_dir: ArchiveDir,
    indexer: Indexer,
    report: IngestReport,
    progress: ProgressReporter,
) -> None:
    """Bring the rows of sessions up to date with the nodes; commits as it goes."""
    index = archive_dir.index
    if index is None:
        return
    derived = DerivedTables(index)
    with index.db:
        derived.create_deferred_indexes()
        indexer.reassign_sources(derived.dirty_sources())
        derived.mark_titled_sessions_dirty()
    dirty = derived.dirty_sessions()
    families = derived.group_families(dirty)
    tell = partial(_count_session, report, frozenset(dirty))
    progress.begin("sessions", len(families))
    for start in range(0, len(families), _FAMILIES_PER_COMMIT):
        with index.db:
            for family in families[start : start + _FAMILIES_PER_COMMIT]:
                gathered = gather_family(
                    archive_dir, derived, family, page_frames=index.load_node_frames
                )
                then = partial(_write_family, derived, family, tell)
                weight = gathered.encoded_size * _EXPANSION_FACTOR
                indexer.workers.submit(DERIVE_TASK, gathered, then, size=weight)
                progress.advance(1)
            indexer.workers.drain()
    progress.end()


def _write_family(
    tables: DerivedTables,
    family: list[int],
    on_derived: _OnDerived,
    sessions: list[DerivedRows],
) -> None:
    """Write the rows of a family; tell of its sessions."""
    for number in family:
        tables.delete_session(number)
    for sheet in sessions:
        number = tables.index.ensure_session_number(sheet.session)
        if number not in family:
            tables.delete_session(number)
        tables.insert_session(number, family[0], sheet)
        on_derived(number, sheet.session)


def _count_session(
    report: IngestReport, dirty: frozenset[int], number: int, session: SessionId
) -> None:
    """Count a session, and name it if it grew: others of its family may not have."""
    report.derived_sessions += 1
    if number in dirty:
        report.updated_sessions.append(session)


def rebuild_index(archive_dir: ArchiveDir, progress: ProgressReporter) -> IngestReport:
    """Build a new index beside the old one, and swap once it is whole."""
    report = IngestReport(problems=[])
    archive_dir.begin_index_build()
    fill_index(archive_dir, report, progress)
    archive_dir.publish_index()
    return report


def fill_index(
    archive_dir: ArchiveDir, report: IngestReport, progress: ProgressReporter
) -> None:
    """Let an index see all of the archive, and derive every session."""
    with WorkerPool() as readers:
        indexer = Indexer(archive_dir, report, readers)
        indexer.prepare(progress)
        indexer.commit(is_last=True)
        derive_sessions(archive_dir, indexer, report, progress)
