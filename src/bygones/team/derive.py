"""Derive sessions from uploaded sources: bytes in, rows of a team store out.

The same functions as in a local ingest index the lines and assemble the sessions. The
values that they exchange stay in memory until a batch of sessions is complete.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from zlib import crc32

from msgspec import Struct, field
from msgspec.structs import replace

from bygones.assemble.agents import JournalNodes, journal_nodes_by_agent
from bygones.assemble.grouping import has_session_id, transcript_session_id
from bygones.errors import ArchiveDamaged
from bygones.ingest.derive import DerivedSession, SettledSession
from bygones.ingest.index_batch import (
    IndexBatch,
    LineBlock,
    decode_lines,
    index_block,
    iter_line_nodes,
)
from bygones.ingest.loading import SessionFamily
from bygones.ingest.workers import DERIVE_TASK, INDEX_TASK, WorkerPool
from bygones.model.base import Problem, RecordId, SessionId, SourceFile, SourceKind
from bygones.model.nodes import AgentSidecar, RecordNode, Transcript
from bygones.model.problem_runs import ProblemRuns
from bygones.parse.metadata import parse_agent_sidecar
from bygones.sources.layout import session_stem
from bygones.sources.lines import split_lines
from bygones.store.compression import compress, decompress, sha256_digest
from bygones.store.index_db import decode_nodes
from bygones.team.contract import (
    BlobStore,
    LeafTitle,
    PartRows,
    RelationKeys,
    SessionRows,
    SourceFragment,
    StoredSpan,
    TeamSource,
    allocate_numbers,
)
from bygones.team.session_rows import (
    RowBuilder,
    SourceLines,
    find_identity,
    with_directory,
)
from bygones.team.stores.base import TeamStore

_FETCH_BYTES = 4 * 1024 * 1024
"""Bytes of spans that are fetched from the blob store in one request."""
_BLOCK_BYTES = 1024 * 1024
"""Bytes of lines that are indexed together, if they were uploaded in smaller spans."""
_EXPANSION_FACTOR = 8
"""How much larger decoded nodes are than their compressed pages, about."""


def source_stem(source: TeamSource) -> tuple[str, ...]:
    """Return what all files of a session share."""
    remote = source.source
    return (remote.machine, remote.home, session_stem(remote.path))


class _IndexedSource(Struct):
    """A source of the batch, with what was indexed of its lines."""

    team_source: TeamSource
    file: SourceFile
    fragment: bytes
    """The last line without a newline; it may be a complete record."""
    batches: list[IndexBatch] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    """Where the lines of each batch start."""
    session: SessionId | None = None

    @property
    def number(self) -> int:
        return self.team_source.number

    @property
    def sort_key(self) -> tuple[str, str]:
        return self.file.home, self.file.relative_path

    @property
    def age(self) -> tuple[int, str]:
        """By which the newest of several titles is chosen."""
        return self.file.mtime_ns, self.file.id

    def decode_fragment(self) -> tuple[list[RecordNode], list[Problem]]:
        source = self.team_source
        lines = split_lines(
            self.file.id, source.generation, source.stored_bytes, self.fragment
        )
        _, nodes, problems = decode_lines(lines)
        return nodes, problems

    def index_fragment(self) -> IndexBatch:
        """Return the records and texts of the last line without a newline."""
        source = self.team_source
        return index_lines(source, self.file, source.stored_bytes, self.fragment)

    def all_lines(self) -> SourceLines:
        return SourceLines(self.number, self.file, self.batches, self.index_fragment())

    def problems(self) -> ProblemRuns:
        """Return what is odd in the complete lines."""
        return ProblemRuns(
            problem for batch in self.batches for problem in batch.problems
        )

    def iter_nodes(self) -> Iterator[RecordNode]:
        for batch in self.batches:
            yield from decode_nodes(batch.page.msgpack)
        yield from self.decode_fragment()[0]

    def iter_titles(self) -> Iterator[LeafTitle]:
        for batch in self.batches:
            for leaf_key, start, leaf, title in batch.leaf_titles:
                yield LeafTitle(leaf_key, self.number, start, leaf, title)


class SessionDeriver:
    """Derives sessions of one person from sources and everything related to them."""

    def __init__(
        self,
        store: TeamStore,
        blobs: BlobStore,
        person: str,
        *,
        sources: Mapping[int, TeamSource],
        workers: WorkerPool,
    ) -> None:
        self._store = store
        self._blobs = blobs
        self._person = person
        self._sources = sources
        self._workers = workers
        self._numbers_by_stem: dict[tuple[str, ...], list[int]] = {}
        for number, source in sources.items():
            self._numbers_by_stem.setdefault(source_stem(source), []).append(number)
        self._by_path: dict[tuple[str, str], _IndexedSource] = {}
        self._side_files = SideFiles(store, blobs)
        self._has_checked_titles = False
        self.added: dict[int, _IndexedSource] = {}

    def add_sources(self, numbers: Iterable[int]) -> None:
        """Index sources and all other files of their sessions."""
        stems = {source_stem(self._sources[number]) for number in numbers}
        found = {number for stem in stems for number in self._numbers_by_stem[stem]}
        new = [self._sources[number] for number in found - self.added.keys()]
        new.sort(key=lambda source: (source.source.machine_home, source.source.path))
        fragments = self._store.fragments([source.number for source in new])
        self._workers.start_if_worthwhile(sum(source.stored_bytes for source in new))
        for source in new:
            fragment = fragment_bytes(source, fragments.get(source.number))
            indexed = _IndexedSource(source, source_file(source, fragment), fragment)
            self.added[source.number] = indexed
            self._side_files.add(source)
            self._by_path[indexed.sort_key] = indexed
            if source.source.kind.is_transcript:
                self._index_lines(indexed)
        self._workers.drain()
        _assign_sessions(self._by_path)

    def _index_lines(self, source: _IndexedSource) -> None:
        team_source = source.team_source
        is_agent = source.file.kind is SourceKind.AGENT
        raws = read_spans(self._store.spans(team_source.number), self._blobs)
        for start, raw in split_blocks(raws):
            block = LineBlock(
                source.file.id, team_source.generation, start, raw, is_agent
            )
            source.starts.append(start)
            self._workers.submit(
                INDEX_TASK, block, source.batches.append, size=len(raw)
            )

    def related_sources(self) -> set[int]:
        """Return sources in the store that must be derived together with those added.

        If a title was given to a record, its session must be derived again, but not
        the sources of the title: see :meth:`_borrowed_titles`.
        """
        keys = self._relation_keys()
        if not self._has_checked_titles:
            self._has_checked_titles = True
            own = {
                title
                for source in self.added.values()
                for title in source.iter_titles()
            }
            known = self._store.record_titles(
                self._person, [title.leaf_key for title in own]
            )
            keys.titled_records.extend({one.leaf_key for one in own.difference(known)})
        related = self._store.related_sources(self._person, keys)
        sessions = set(keys.sessions)
        related |= {
            number
            for number, source in self._sources.items()
            if source.source.session in sessions
        }
        return (related & self._sources.keys()) - self.added.keys()

    def _relation_keys(self) -> RelationKeys:
        rows = [row for source in self.added.values() for row in _record_rows(source)]
        return RelationKeys(
            list({one.session for one in self.added.values() if one.session}),
            list({row[0] for row in rows}),
            list({row[1] for row in rows if row[1] is not None}),
        )

    def derive_sessions(self) -> tuple[SessionRows, ...]:
        """Return the rows of all sessions."""
        sources_by_session: dict[SessionId, list[_IndexedSource]] = {}
        for source in sorted(self.added.values(), key=lambda one: one.sort_key):
            if source.session is not None:
                sources_by_session.setdefault(source.session, []).append(source)
        titles = self._titles_by_record()
        found: dict[SessionId, tuple[int, DerivedSession]] = {}

        def on_result(number: int, sessions: list[DerivedSession]) -> None:
            found.update({one.rows.session: (number, one) for one in sessions})

        for number, family in enumerate(_group_families(sources_by_session)):
            gathered = self._gather_family(
                [one for session in family for one in sources_by_session[session]],
                titles,
                is_single=len(family) == 1,
            )
            self._workers.submit(
                DERIVE_TASK,
                gathered,
                partial(on_result, number),
                size=gathered.encoded_size * _EXPANSION_FACTOR,
            )
        self._workers.drain()
        # In the order of their sources, as a local index numbers them.
        order = [*sources_by_session, *(found.keys() - sources_by_session.keys())]
        sessions = [session for session in order if session in found]
        return tuple(
            self._session_rows(
                number, *found[session], sources_by_session.get(session, ())
            )
            for number, session in zip(
                allocate_numbers(len(sessions)), sessions, strict=True
            )
        )

    def _session_rows(
        self,
        number: int,
        family: int,
        derived: DerivedSession,
        sources: Sequence[_IndexedSource],
    ) -> SessionRows:
        own = [source.team_source for source in sources]
        builder = RowBuilder(self._person, own)
        lines = [source.all_lines() for source in sources]
        parts: list[PartRows] = []
        settled, settled_rows = derived.settled, derived.settled_rows
        if settled is not None and settled_rows is not None:
            first, lines = self._split_lines(settled, sources)
            parts.append(
                builder.settle(settled_rows, settled, derived.settled_keys, first)
            )
        parts.append(builder.finish(derived.rows, lines))
        session = derived.rows.session
        return SessionRows(
            session,
            number,
            family,
            [source.number for source in sources],
            parts,
            with_directory(find_identity(session, own), derived.rows),
        )

    def _split_lines(
        self, settled: SettledSession, sources: Iterable[_IndexedSource]
    ) -> tuple[list[SourceLines], list[SourceLines]]:
        """Return the lines of sources before and after what is settled."""
        first: list[SourceLines] = []
        rest: list[SourceLines] = []
        for source in sources:
            lines = source.all_lines()
            if source.file.id == settled.source:
                before, after = self._split_batches(source, settled.settled.offset)
                first.append(replace(lines, batches=before, fragment=None))
                rest.append(replace(lines, batches=after))
            else:
                (first if source.file.id in settled.agents else rest).append(lines)
        return first, rest

    def _split_batches(
        self, source: _IndexedSource, cut: int
    ) -> tuple[list[IndexBatch], list[IndexBatch]]:
        """Divide the batches of a source; the one that is cut is indexed again."""
        at = bisect_right(source.starts, cut) - 1
        start = source.starts[at]
        if start == cut:
            return source.batches[:at], source.batches[at:]
        stop = (*source.starts, source.team_source.stored_bytes)[at + 1]
        spans = [s for s in self._store.spans(source.number, start) if s.offset < stop]
        raw = b"".join(read_from(spans, self._blobs, start))[: stop - start]
        halves = ((start, raw[: cut - start]), (cut, raw[cut - start :]))
        before, after = (
            index_lines(source.team_source, source.file, *half) for half in halves
        )
        return [*source.batches[:at], before], [after, *source.batches[at + 1 :]]

    def _titles_by_record(self) -> dict[int, list[LeafTitle]]:
        """Return the titles that sources give to records, by the record's key."""
        own = chain.from_iterable(one.iter_titles() for one in self.added.values())
        titles: dict[int, list[LeafTitle]] = {}
        for title in {*own, *self._borrowed_titles()}:
            titles.setdefault(title.leaf_key, []).append(title)
        return titles

    def _borrowed_titles(self) -> Iterator[LeafTitle]:
        """Yield titles that other sources, which need not be derived, give to records."""
        records = self._relation_keys().records
        for title in self._store.record_titles(self._person, records):
            if title.source in self._sources and title.source not in self.added:
                yield title

    def _gather_family(
        self,
        sources: Sequence[_IndexedSource],
        titles: Mapping[int, Sequence[LeafTitle]],
        *,
        is_single: bool,
    ) -> SessionFamily:
        keys = {row[0] for source in sources for row in _record_rows(source)}
        chosen = sorted(
            (title for key in keys & titles.keys() for title in titles[key]),
            key=lambda title: (title.source, title.start),
        )
        family = SessionFamily(
            transcripts=[self._transcript(source) for source in sources],
            page_frames=[
                [compress(batch.page.msgpack) for batch in source.batches]
                for source in sources
            ],
            leaf_titles=[
                (self._age(title.source), RecordId(title.leaf), title.title)
                for title in chosen
            ],
        )
        # Which texts of warm-ups are left out depends on all records of a file.
        if is_single and not any(
            batch.may_start_hidden_run for source in sources for batch in source.batches
        ):
            states = {
                source.file.id: self._side_files.agent_state(source.file)
                for source in sources
            }
            return replace(family, agent_states=states)
        return family

    def _age(self, number: int) -> tuple[int, str]:
        remote = self._sources[number].source
        return remote.mtime_ns, remote.id

    def _transcript(self, source: _IndexedSource) -> Transcript:
        """Return a source with its last line; the other nodes are added from pages."""
        nodes, problems = source.decode_fragment()
        return Transcript(
            source=source.file,
            nodes=tuple(nodes),
            problems=tuple(ProblemRuns((*source.problems(), *problems))),
            sidecar=self._side_files.sidecar(source.file),
            journal_nodes=self._side_files.journal_nodes(source.file),
        )


class SideFiles:
    """What other files of sessions say about their agents."""

    def __init__(self, store: TeamStore, blobs: BlobStore) -> None:
        self._store = store
        self._blobs = blobs
        self._by_path: dict[tuple[str, str], TeamSource] = {}
        self._journals: dict[tuple[str, str], JournalNodes] = {}

    def add(self, source: TeamSource) -> None:
        remote = source.source
        self._by_path[remote.machine_home, remote.path] = source

    def agent_state(self, agent: SourceFile) -> int:
        """Return a checksum of what is known about an agent from its files."""
        folder = agent.relative_path.rpartition("/")[0]
        paths = (agent.relative_path, _sidecar_path(agent), f"{folder}/journal.jsonl")
        found = (self._by_path.get((agent.home, path)) for path in paths)
        return crc32(
            repr(
                [
                    one and (one.generation, one.stored_bytes, one.fingerprint)
                    for one in found
                ]
            ).encode()
        )

    def sidecar(self, agent: SourceFile) -> AgentSidecar | None:
        if agent.kind is not SourceKind.AGENT or agent.agent_id is None:
            return None
        found = self._by_path.get((agent.home, _sidecar_path(agent)))
        if found is None:
            return None
        return parse_agent_sidecar(self._read(found), agent.agent_id)

    def journal_nodes(self, agent: SourceFile) -> tuple[RecordNode, ...]:
        if agent.agent_id is None:
            return ()
        folder = (agent.home, agent.relative_path.rpartition("/")[0])
        if folder not in self._journals:
            self._journals[folder] = self._load_journal(*folder)
        return self._journals[folder].get(agent.agent_id, ())

    def _load_journal(self, home: str, folder: str) -> JournalNodes:
        found = self._by_path.get((home, f"{folder}/journal.jsonl"))
        if found is None or found.source.kind is not SourceKind.JOURNAL:
            return {}
        raw = self._read(found)
        place = (found.source.id, found.generation, 0)
        lines = split_lines(*place, raw, merge_repeats=True)
        return journal_nodes_by_agent(iter_line_nodes(lines))

    def _read(self, source: TeamSource) -> bytes:
        return b"".join(read_spans(self._store.spans(source.number), self._blobs))


def _sidecar_path(agent: SourceFile) -> str:
    return agent.relative_path.removesuffix(".jsonl") + ".meta.json"


def _assign_sessions(sources: Mapping[tuple[str, str], _IndexedSource]) -> None:
    """Set the session of each transcript.

    Agents belong to the session in whose folder they are. For files without a session
    id in their name all nodes decide, including those of the unfinished last line.
    """
    agents: list[_IndexedSource] = []
    for source in sources.values():
        if source.file.kind is SourceKind.AGENT:
            agents.append(source)
        elif source.file.kind.is_transcript:
            is_sure = has_session_id(source.file)
            nodes = () if is_sure else tuple(source.iter_nodes())
            source.session = transcript_session_id(
                Transcript(source=source.file, nodes=nodes)
            )
    for agent in agents:
        folder, inside, _ = agent.file.relative_path.partition("/subagents/")
        main = sources.get((agent.file.home, f"{folder}.jsonl")) if inside else None
        if main is not None and main.session is not None:
            agent.session = main.session
            continue
        nodes = ()
        if not has_session_id(agent.file):
            named = (node for node in agent.iter_nodes() if node.session_id)
            nodes = tuple(islice(named, 1))
        agent.session = transcript_session_id(
            Transcript(source=agent.file, nodes=nodes)
        )


def _group_families(
    sources_by_session: Mapping[SessionId, Sequence[_IndexedSource]],
) -> list[list[SessionId]]:
    """Group sessions that share records or answers."""
    roots: dict[SessionId, SessionId] = {}

    def find(session: SessionId) -> SessionId:
        while roots[session] != session:
            roots[session] = roots[roots[session]]
            session = roots[session]
        return session

    first: dict[tuple[int, int], SessionId] = {}
    for session, sources in sources_by_session.items():
        roots[session] = session
        for row in chain.from_iterable(map(_record_rows, sources)):
            for column, key in enumerate(row[:2]):
                if key is not None:
                    other = first.setdefault((column, key), session)
                    if other != session:
                        roots[find(session)] = find(other)
    families: dict[SessionId, list[SessionId]] = {}
    for session in sources_by_session:
        families.setdefault(find(session), []).append(session)
    return list(families.values())


def _record_rows(
    source: _IndexedSource,
) -> Iterator[tuple[int, int | None, int, int]]:
    for batch in (*source.batches, source.index_fragment()):
        yield from batch.rows


def index_lines(
    source: TeamSource, file: SourceFile, start: int, raw: bytes
) -> IndexBatch:
    """Return the records and texts of lines of a source."""
    is_agent = file.kind is SourceKind.AGENT
    return index_block(LineBlock(file.id, source.generation, start, raw, is_agent))


def source_file(source: TeamSource, fragment: bytes) -> SourceFile:
    remote = source.source
    return SourceFile(
        id=remote.id,
        home=remote.machine_home,
        relative_path=remote.path,
        kind=remote.kind,
        size=source.stored_bytes + len(fragment),
        mtime_ns=remote.mtime_ns,
        project_key=remote.project,
        session_id=remote.session,
        agent_id=remote.agent,
    )


def fragment_bytes(source: TeamSource, fragment: SourceFragment | None) -> bytes:
    if fragment is None or not fragment.frame:
        return b""
    return decompress(fragment.frame) if fragment.offset == source.stored_bytes else b""


def split_blocks(raws: Iterable[bytes], start: int = 0) -> Iterator[tuple[int, bytes]]:
    """Join bytes into blocks of whole lines; yield each with its offset."""
    pending = b""
    for raw in raws:
        pending += raw
        end = pending.rfind(b"\n") + 1 if len(pending) >= _BLOCK_BYTES else 0
        if end:
            yield start, pending[:end]
            start, pending = start + end, pending[end:]
    if pending:
        yield start, pending


def read_from(
    spans: Sequence[StoredSpan], blobs: BlobStore, start: int
) -> Iterator[bytes]:
    """Yield the bytes of spans from an offset on."""
    for span, raw in zip(spans, read_spans(spans, blobs), strict=False):
        yield raw[max(start - span.offset, 0) :]


def read_spans(spans: Iterable[StoredSpan], blobs: BlobStore) -> Iterator[bytes]:
    """Yield the bytes of spans; several small ones are fetched in one request.

    :raises ArchiveDamaged: if bytes are missing or have another hash.
    """
    for batch in _batch_by_size(spans):
        addresses = [span.address for span in batch]
        found = blobs.get_many(addresses) if len(batch) > 1 else {}
        for span in batch:
            raw = found.get(span.address)
            if raw is None:
                raw = blobs.get(span.address)
            if sha256_digest(raw) != span.sha256:
                raise ArchiveDamaged(Path(span.address), "it does not match its hash")
            yield raw


def _batch_by_size(spans: Iterable[StoredSpan]) -> Iterator[list[StoredSpan]]:
    batch: list[StoredSpan] = []
    size = 0
    for span in spans:
        if batch and size + span.length > _FETCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(span)
        size += span.length
    if batch:
        yield batch
