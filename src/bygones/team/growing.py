"""Derive sessions of a hub that have grown, or are very long, in parts.

The steps are those of local archives (see `ingest.growing`). A hub stores no nodes: it
reads the lines after the settled part from the blob store, and indexes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from bygones.ingest.derive import (
    DerivedSession,
    NotDivisible,
    SettledPart,
    SettledSession,
    StoredPart,
)
from bygones.ingest.growing import (
    NODES_PER_PART,
    GrowingSource,
    SessionParts,
    grow_from,
)
from bygones.ingest.index_batch import IndexBatch
from bygones.model.base import Problem, SessionId, SourceFile, SourceKind
from bygones.model.nodes import RecordNode, Transcript
from bygones.model.problem_runs import ProblemRuns
from bygones.store.compression import compress, decompress
from bygones.store.derived_rows import DerivedRows
from bygones.store.index_db import decode_nodes
from bygones.store.messages import EarlierMessages
from bygones.team.contract import (
    BlobStore,
    DerivedSessions,
    PartRows,
    SessionRows,
    SettledRows,
    SourceFragment,
    TeamSource,
    allocate_numbers,
)
from bygones.team.derive import (
    SideFiles,
    fragment_bytes,
    index_lines,
    read_from,
    source_file,
    split_blocks,
)
from bygones.team.session_rows import (
    RowBuilder,
    SettledTotals,
    SourceLines,
    decode_totals,
    find_identity,
    with_directory,
)
from bygones.team.stores.base import TeamStore

MIN_OPEN_NODES = 256
"""Records after the settled part from which on more of a session is settled.

Fewer than in a local archive: their texts are written again with every upload.
"""
PART_BYTES = 32 * 1024 * 1024
"""Bytes of a session's file that are in memory at once, if it has more."""


class HubFiles(Struct, frozen=True):
    """Everything that a person has uploaded of one session."""

    store: TeamStore
    blobs: BlobStore
    person: str
    sources: Mapping[int, TeamSource]
    """Those of the session, also files that are not transcripts."""
    is_complete: bool
    """Whether no other source claims to belong to it."""

    def find_main(self) -> TeamSource | None:
        """Return the only file of the session, besides those of its agents."""
        mains = [
            source
            for source in self.sources.values()
            if source.source.kind is SourceKind.SESSION
        ]
        return mains[0] if len(mains) == 1 and self.is_complete else None

    def revisions(self) -> dict[int, int]:
        return {number: source.revision for number, source in self.sources.items()}


def grow_session(files: HubFiles, max_bytes: int | None = None) -> bool:
    """Derive the end of a session, if the rest is settled; return whether it was.

    Otherwise, or if the end has too many bytes, nothing is written, and the whole
    session must be derived.
    """
    main = files.find_main()
    settled = files.store.find_settled(main.number) if main else None
    if settled is None or not settled.is_alone:
        return False
    totals = decode_totals(settled.facts)
    if totals.settled is None:
        return False
    if max_bytes is not None and _open_bytes(files, totals.settled) > max_bytes:
        return False
    session = _HubSession(files, settled.session, settled.number, totals)
    try:
        session.check_sources(settled.sources)
        count = totals.settled.header.branches[0].message_count
        stored = StoredPart(totals.settled, EarlierMessages(count, [], []))
        derived = grow_from(session, stored, MIN_OPEN_NODES)
        session.write(list(session.build_rows(derived)), settled, derived)
    except NotDivisible:
        return False
    return True


def _open_bytes(files: HubFiles, settled: SettledSession) -> int:
    """Return how many bytes of a session's files are not settled."""
    total = 0
    for source in files.sources.values():
        if source.source.id == settled.source:
            total += source.stored_bytes - settled.settled.offset
        elif source.source.id not in settled.agents:
            total += source.stored_bytes
    return total


def derive_in_parts(files: HubFiles, on_part: Callable[[], None]) -> bool:
    """Derive a long session, some records at a time; return whether it was possible.

    Otherwise nothing is written. ``on_part`` is called before each part.
    """
    main = files.find_main()
    id_ = main.source.session if main else None
    if main is None or id_ is None or main.stored_bytes <= PART_BYTES:
        return False
    limit = NODES_PER_PART
    while True:
        (number,) = allocate_numbers(1)
        session = _HubSession(files, id_, number, SettledTotals())
        parts = SessionParts(session, limit)
        try:
            session.write(session.iter_rows(parts, on_part))
        except NotDivisible:
            if parts.is_single:
                return False
            limit = parts.larger_limit
        else:
            return True


class _Block(Struct, frozen=True):
    """Lines of the session's file, indexed."""

    start: int
    raw: bytes
    batch: IndexBatch

    @property
    def stop(self) -> int:
        return self.start + len(self.raw)


class _HubSession:
    """A session of a hub whose files are read in parts."""

    def __init__(
        self, files: HubFiles, session: SessionId, number: int, totals: SettledTotals
    ) -> None:
        self._files = files
        self._store = files.store
        self._session = session
        self._number = number
        ordered = sorted(
            files.sources.values(),
            key=lambda one: (one.source.machine_home, one.source.path),
        )
        self._transcripts = [one for one in ordered if one.source.kind.is_transcript]
        self._builder = RowBuilder(files.person, self._transcripts, totals)
        self._side_files = SideFiles(files.store, files.blobs)
        for source in ordered:
            self._side_files.add(source)
        self._fragments: dict[int, SourceFragment] | None = None
        self._blocks: list[_Block] = []
        """Lines of the session's file that are not settled."""
        self._is_read = False
        """Whether its last line is among them."""
        self._agents: dict[int, _AgentLines] = {}
        self._agent_bytes = 0
        self._settled_agents = set(totals.settled.agents if totals.settled else ())

    def check_sources(self, known: Iterable[int]) -> None:
        """Check that all sources it was derived from are still its own."""
        if not self._files.sources.keys() >= set(known):
            raise NotDivisible

    # What ingest.growing asks for.

    def list_sources(self) -> Iterator[GrowingSource]:
        for source in self._transcripts:
            yield GrowingSource(source.number, source.generation, self._file(source))

    def is_own_id(self, session: SessionId) -> bool:
        return session == self._session

    def agent_state(self, file: SourceFile) -> int:
        return self._side_files.agent_state(file)

    def load(
        self, source: GrowingSource, offset: int, limit: int | None
    ) -> tuple[Transcript, bool]:
        team_source = self._files.sources[source.number]
        if source.file.kind is SourceKind.AGENT:
            return self._load_agent(team_source, source.file), True
        self._read_blocks(team_source, source.file, offset, limit)
        lines = self._main_lines(source, self._blocks)
        nodes: list[RecordNode] = []
        for batch in lines.all_batches:
            nodes += decode_nodes(batch.page.msgpack)
        self._check_batches(source, lines.all_batches, offset)
        known = self._builder.totals.problems.get(source.number, ())
        problems = (p for batch in lines.all_batches for p in batch.problems)
        transcript = Transcript(
            source=source.file,
            nodes=tuple(nodes),
            problems=tuple(ProblemRuns((*known, *problems))),
        )
        return transcript, self._is_read

    def add_steps(self, agents: Sequence[Transcript]) -> Iterator[Transcript]:
        for agent in agents:
            nodes = self._side_files.journal_nodes(agent.source)
            yield replace(agent, journal_nodes=nodes)

    def has_summaries(self, source: GrowingSource, main: Transcript) -> bool:
        """Whether there are any: :meth:`load` checks those that others give."""
        del source
        return any(node.kind == "summary" for node in main.nodes)

    def has_settled_edit(self, path: str) -> bool:
        count = self._builder.totals.edits
        return bool(count) and self._store.has_edited(self._number, path, count)

    def has_settled_key(self, keys: set[int]) -> bool:
        return self._store.has_settled_key(self._number, list(keys))

    def has_other_records(
        self, keys: set[int], place: tuple[int, int], others: Sequence[int]
    ) -> bool:
        found = self._store.sources_with_keys(
            self._files.person, self._number, list(keys), place
        )
        return not found <= set(others)

    # Lines and rows.

    def _file(self, source: TeamSource) -> SourceFile:
        if self._fragments is None:
            numbers = [one.number for one in self._transcripts]
            self._fragments = self._store.fragments(numbers)
        raw = fragment_bytes(source, self._fragments.get(source.number))
        return source_file(source, raw)

    def _fragment(self, source: TeamSource, file: SourceFile) -> IndexBatch:
        fragments = self._fragments or {}
        raw = fragment_bytes(source, fragments.get(source.number))
        return index_lines(source, file, source.stored_bytes, raw)

    def _read_blocks(
        self, source: TeamSource, file: SourceFile, offset: int, limit: int | None
    ) -> None:
        """Read and index lines from an offset on, as many as a part may have."""
        factor = (limit or NODES_PER_PART) // NODES_PER_PART or 1
        count = sum(block.batch.page.count for block in self._blocks)
        size = sum(len(block.raw) for block in self._blocks)
        start = self._blocks[-1].stop if self._blocks else offset
        spans = self._store.spans(source.number, start)
        raws = read_from(spans, self._files.blobs, start)
        for at, raw in split_blocks(raws, start):
            if limit is not None and (count >= limit or size >= PART_BYTES * factor):
                return
            batch = index_lines(source, file, at, raw)
            self._blocks.append(_Block(at, raw, batch))
            count += batch.page.count
            size += len(raw)
        self._is_read = True

    def _main_lines(
        self, source: GrowingSource, blocks: Sequence[_Block]
    ) -> SourceLines:
        team_source = self._files.sources[source.number]
        fragment = self._fragment(team_source, source.file) if self._is_read else None
        batches = [block.batch for block in blocks]
        return SourceLines(source.number, source.file, batches, fragment)

    def _load_agent(self, source: TeamSource, file: SourceFile) -> Transcript:
        if source.number not in self._agents:
            lines = self._index_agent(source, file)
            growing = GrowingSource(source.number, source.generation, file)
            self._check_batches(growing, lines.all_batches, 0)
            pages = [compress(batch.page.msgpack) for batch in lines.all_batches]
            problems = (p for batch in lines.all_batches for p in batch.problems)
            self._agent_bytes += source.stored_bytes
            self._agents[source.number] = _AgentLines(
                pages,
                list(ProblemRuns(problems)),
                lines if self._agent_bytes < PART_BYTES else None,
            )
        known = self._agents[source.number]
        nodes = [n for page in known.pages for n in decode_nodes(decompress(page))]
        return Transcript(
            source=file,
            nodes=tuple(nodes),
            problems=tuple(known.problems),
            sidecar=self._side_files.sidecar(file),
        )

    def _index_agent(self, source: TeamSource, file: SourceFile) -> SourceLines:
        raws = read_from(self._store.spans(source.number), self._files.blobs, 0)
        batches = [
            index_lines(source, file, start, raw) for start, raw in split_blocks(raws)
        ]
        fragment = self._fragment(source, file)
        return SourceLines(source.number, file, batches, fragment)

    def _check_batches(
        self, source: GrowingSource, batches: Iterable[IndexBatch], offset: int
    ) -> None:
        """Check what `ingest.growing` can't see in nodes.

        That no file has a summary of these records, that no other session has them,
        and that none of them may be hidden.
        """
        files = self._files
        keys: list[int] = []
        for batch in batches:
            if batch.leaf_titles or batch.may_start_hidden_run:
                raise NotDivisible
            keys += (row[0] for row in batch.rows)
            keys += (row[1] for row in batch.rows if row[1] is not None)
        if self._store.record_titles(files.person, keys):
            raise NotDivisible
        place = (source.number, offset)
        found = self._store.sources_with_keys(
            files.person, self._number, list(set(keys)), place
        )
        if not found <= files.sources.keys():
            raise NotDivisible

    def iter_rows(
        self, parts: SessionParts, on_part: Callable[[], None]
    ) -> Iterator[PartRows]:
        """Yield the rows of a session that is derived in parts."""
        for part in parts.derive():
            on_part()
            if isinstance(part, SettledPart):
                yield self._settle(part.rows, part.stored.settled, part.keys)
            else:
                yield from self.build_rows(part)

    def build_rows(self, derived: DerivedSession) -> Iterator[PartRows]:
        """Yield the rows that follow the settled ones."""
        settled, rows = derived.settled, derived.settled_rows
        if settled is not None and rows is not None:
            yield self._settle(rows, settled, derived.settled_keys)
        yield self._builder.finish(derived.rows, self._open_lines())

    def _settle(
        self, rows: DerivedRows, settled: SettledSession, keys: Iterable[int]
    ) -> PartRows:
        lines = self._take_lines(settled)
        return self._builder.settle(rows, settled, keys, lines)

    def _take_lines(self, settled: SettledSession) -> list[SourceLines]:
        """Return the lines that are settled now, and remove them from the open ones."""
        lines: list[SourceLines] = []
        new_agents = settled.agents.keys() - self._settled_agents
        for source in self.list_sources():
            if source.file.id == settled.source:
                blocks = self._take_blocks(source, settled.settled.offset)
                batches = [block.batch for block in blocks]
                lines.append(SourceLines(source.number, source.file, batches))
            elif source.file.id in new_agents:
                lines.append(self._agent_lines(source))
                if self._agents.pop(source.number, None) is not None:
                    self._agent_bytes -= self._files.sources[source.number].stored_bytes
        self._settled_agents |= new_agents
        return lines

    def _take_blocks(self, source: GrowingSource, cut: int) -> list[_Block]:
        team_source = self._files.sources[source.number]
        taken: list[_Block] = []
        rest: list[_Block] = []
        for block in self._blocks:
            if block.stop <= cut:
                taken.append(block)
            elif block.start >= cut:
                rest.append(block)
            else:
                at = cut - block.start
                for start, raw, to in (
                    (block.start, block.raw[:at], taken),
                    (cut, block.raw[at:], rest),
                ):
                    batch = index_lines(team_source, source.file, start, raw)
                    to.append(_Block(start, raw, batch))
        self._blocks = rest
        return taken

    def _agent_lines(self, source: GrowingSource) -> SourceLines:
        known = self._agents.get(source.number)
        if known is not None and known.lines is not None:
            return known.lines
        return self._index_agent(self._files.sources[source.number], source.file)

    def _open_lines(self) -> list[SourceLines]:
        return [
            self._main_lines(source, self._blocks)
            if source.file.kind is SourceKind.SESSION
            else self._agent_lines(source)
            for source in self.list_sources()
            if source.file.id not in self._settled_agents
        ]

    def write(
        self,
        parts: Iterable[PartRows],
        settled: SettledRows | None = None,
        derived: DerivedSession | None = None,
    ) -> None:
        """Write the rows of parts, after those that are settled."""
        files = self._files
        identity = find_identity(self._session, self._transcripts)
        if derived is not None:
            identity = with_directory(identity, derived.rows)
        elif not identity.directory and self._store.project_rules():
            raise NotDivisible  # who may see it is known at its end
        rows = SessionRows(
            self._session,
            self._number,
            0,
            [source.number for source in self._transcripts],
            parts,
            identity,
            settled,
        )
        self._store.replace_sessions(
            DerivedSessions(
                person=files.person, sources=files.revisions(), sessions=(rows,)
            )
        )


class _AgentLines(Struct, frozen=True):
    """What is known about an agent that is not settled."""

    pages: list[bytes]
    """Its nodes, compressed."""
    problems: list[Problem]
    lines: SourceLines | None
    """`None` if it would take too much memory; it is indexed again then."""
