"""Load sessions, records and prompts from a store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from zlib import crc32

from msgspec import Struct, structs

from bygones.assemble.agents import JournalNodes, journal_nodes_by_agent
from bygones.assemble.grouping import agent_id
from bygones.assemble.sessions import assemble_sessions
from bygones.assemble.summary import iter_leaf_titles
from bygones.errors import (
    AmbiguousSelector,
    ArchiveDamaged,
    BygonesError,
    BytesLost,
    NotInArchive,
)
from bygones.ingest.index_batch import decode_lines, iter_line_nodes
from bygones.model.assembled import find_branch_of
from bygones.model.base import (
    Line,
    Position,
    Problem,
    RecordId,
    SessionId,
    SourceKind,
    require_valid_text,
)
from bygones.model.conversations import Conversation
from bygones.model.metadata import FileVersion
from bygones.model.nodes import (
    PREVIEW_LIMIT,
    AgentSidecar,
    RecordNode,
    Transcript,
    parse_user_text,
)
from bygones.model.problem_runs import ProblemRuns
from bygones.model.records import TextBlock
from bygones.model.sessions import Session
from bygones.model.summary import IndexedPrompt, IndexedRecord, Loader
from bygones.parse.loader import RecordLoader, stored_output_id
from bygones.parse.metadata import parse_agent_sidecar
from bygones.sources.lines import split_lines
from bygones.store.archive_db import StoredSource
from bygones.store.archive_dir import ArchiveDir
from bygones.store.index_db import decode_frames
from bygones.store.local_reader import MAX_SUGGESTIONS
from bygones.store.protocols import (
    Lookup,
    PromptRow,
    RecordLocation,
    SessionReader,
    SourceReader,
    StoreReader,
)

_DatedTitle = tuple[tuple[int, str], RecordId, str]
"""The age of a file, a record, and the title that the file gives it."""


def _no_nodes(_: int) -> tuple[RecordNode, ...]:
    return ()


def _no_pages(_: int) -> list[bytes]:
    return []


class SessionFamily(Struct, frozen=True, array_like=True):
    """Everything needed to assemble sessions that share records.

    It can be gathered in one process and assembled in another.
    """

    transcripts: list[Transcript]
    page_frames: list[list[bytes]]
    """Compressed node pages that precede the nodes of each transcript."""
    leaf_titles: list[_DatedTitle]
    """Titles that other files give to its records."""
    agent_states: dict[str, int] | None = None
    """The states of its agents' files, if a long session may be divided."""

    @property
    def encoded_size(self) -> int:
        """The size of the compressed node pages."""
        return sum(len(page) for pages in self.page_frames for page in pages)

    def assemble_sessions(self, loader: Loader) -> tuple[Session, ...]:
        transcripts, titles = self.decode()
        return assemble_sessions(transcripts, loader, titles)

    def decode(self) -> tuple[list[Transcript], dict[RecordId, str]]:
        """Return the transcripts with all nodes, and the titles of records."""
        transcripts = list(map(_with_decoded_nodes, self.transcripts, self.page_frames))
        titles = [*self.leaf_titles, *_own_leaf_titles(transcripts)]
        return transcripts, newest_titles(titles)


def newest_titles(titles: Iterable[_DatedTitle]) -> dict[RecordId, str]:
    """Return the title of each record: that of the newest file."""
    by_age = sorted(titles, key=lambda title: title[0])
    return {leaf: text for _, leaf, text in by_age}


def load_family(
    store: SourceReader,
    session_reader: SessionReader,
    family: Sequence[int],
    loader: Loader,
) -> tuple[Session, ...]:
    """Return the sessions of a family, assembled from the index."""
    index = store.index
    if index is None:
        return ()
    return gather_family(
        store, session_reader, family, nodes=index.nodes
    ).assemble_sessions(loader)


def load_session(reader: StoreReader, id_: SessionId, loader: Loader) -> Session:
    """Return a session, assembled from a consistent state."""
    with reader.read_transaction():
        session_reader = reader.sessions
        number = session_reader.session_number(id_)
        if number is not None:
            family = session_reader.family_members(number) or [number]
            for session in load_family(reader, session_reader, family, loader):
                if session.id == id_:
                    return session
    raise NotInArchive("session", id_)


def gather_family(
    store: SourceReader,
    session_reader: SessionReader,
    family: Sequence[int],
    *,
    nodes: Callable[[int], tuple[RecordNode, ...]] = _no_nodes,
    page_frames: Callable[[int], list[bytes]] = _no_pages,
) -> SessionFamily:
    """Return what a family is assembled from: nodes, or compressed pages."""
    transcripts: list[Transcript] = []
    frames: list[list[bytes]] = []
    for number in family:
        for source in session_reader.session_sources(number):
            transcript = load_transcript(store, source, nodes(source))
            if transcript is not None:
                transcripts.append(transcript)
                frames.append(page_frames(source))
    titles = _load_leaf_titles(store, session_reader, family)
    return SessionFamily(list(with_steps(store, transcripts)), frames, titles)


def _with_decoded_nodes(
    transcript: Transcript, page_frames: Sequence[bytes]
) -> Transcript:
    nodes = list(decode_frames(page_frames))
    return (
        structs.replace(transcript, nodes=(*nodes, *transcript.nodes))
        if nodes
        else transcript
    )


def agent_states(
    store: SourceReader, transcripts: Iterable[Transcript]
) -> dict[str, int]:
    """Return checksums of agents' files, their sidecars and journals."""
    states: dict[str, int] = {}
    for transcript in transcripts:
        source = transcript.source
        if source.kind is SourceKind.AGENT:
            states[source.id] = agent_state(store, source.home, source.relative_path)
    return states


def agent_state(store: SourceReader, home: str, path: str) -> int:
    """Return a checksum of what is known about an agent from its files."""
    sidecar = path.removesuffix(".jsonl") + ".meta.json"
    journal = f"{path.rpartition('/')[0]}/journal.jsonl"
    found = (store.byte_store.find_source(home, p) for p in (path, sidecar, journal))
    return crc32(
        repr([one and (one.generation, one.state_checksum) for one in found]).encode()
    )


def load_transcript(
    store: SourceReader, number: int, before: Sequence[RecordNode]
) -> Transcript | None:
    """Return a source as a transcript: known nodes, and those of the last line."""
    stored, raw = _load_fragment(store, number)
    if stored is None or store.index is None:
        return None
    nodes: list[RecordNode] = []
    problems: list[Problem] = []
    if raw:
        _, nodes, problems = decode_lines(
            split_lines(stored.id, stored.generation, stored.stored_bytes, raw)
        )
    return Transcript(
        source=stored.source,
        nodes=(*before, *nodes),
        problems=tuple(ProblemRuns((*store.index.problems(stored), *problems))),
        sidecar=_load_agent_note(store, stored),
    )


def _load_fragment(
    store: SourceReader, number: int
) -> tuple[StoredSource | None, bytes]:
    """Return a source and its unfinished last line, as far as they can be read.

    That line is not indexed, but may be a complete record.
    """
    stored = None
    with suppress(ArchiveDamaged):
        stored = store.byte_store.source(number)
        if stored is None or not stored.has_fragment:
            return stored, b""
        with store.byte_store.read_transaction():
            stored = store.byte_store.source(number)
            if stored is not None:
                return stored, store.byte_store.fragment(number, stored.generation)
    return stored, b""


def _load_leaf_titles(
    store: SourceReader, session_reader: SessionReader, family: Sequence[int]
) -> list[_DatedTitle]:
    """Return the titles that any file gives to records of a family."""
    titles = session_reader.leaf_titles(family)
    ages = {source: _file_age(store, source) for _, _, source in titles}
    return [(ages[source], leaf, text) for leaf, text, source in titles]


def _own_leaf_titles(transcripts: Sequence[Transcript]) -> Iterator[_DatedTitle]:
    """Yield the titles in the family's files, also in an unfinished last line."""
    for transcript in transcripts:
        age = transcript.source.mtime_ns, transcript.source.id
        for leaf, text in iter_leaf_titles(transcript):
            yield age, leaf, text


def _file_age(store: SourceReader, source: int) -> tuple[int, str]:
    stored = store.byte_store.source(source)
    return (stored.mtime_ns, stored.id) if stored else (0, "")


def with_steps(
    store: SourceReader, transcripts: Sequence[Transcript]
) -> Iterator[Transcript]:
    """Yield transcripts with what journals say about their agents."""
    journals: dict[tuple[str, str], JournalNodes] = {}
    for transcript in transcripts:
        source = transcript.source
        if source.agent_id is None:
            yield transcript
            continue
        folder = (source.home, source.relative_path.rpartition("/")[0])
        if folder not in journals:
            journals[folder] = _load_journal(store, *folder)
        yield structs.replace(
            transcript, journal_nodes=journals[folder].get(source.agent_id, ())
        )


def _load_journal(store: SourceReader, home: str, folder: str) -> JournalNodes:
    stored = store.byte_store.find_source(home, f"{folder}/journal.jsonl")
    if stored is None or stored.kind is not SourceKind.JOURNAL:
        return {}
    # A damaged chunk is lost; the lines around it are not.
    chunks = store.byte_store.try_read_chunks(stored.number, stored.generation)
    raw = b"".join(b"\n" if part is None else part for _, part in chunks)
    lines = split_lines(stored.id, stored.generation, 0, raw, merge_repeats=True)
    return journal_nodes_by_agent(iter_line_nodes(lines))


def _load_agent_note(
    store: SourceReader, stored_source: StoredSource
) -> AgentSidecar | None:
    if stored_source.kind is not SourceKind.AGENT or stored_source.agent is None:
        return None
    sidecar = store.byte_store.find_source(
        stored_source.home, stored_source.path.removesuffix(".jsonl") + ".meta.json"
    )
    if sidecar is None:
        return None
    try:
        raw = store.byte_store.read_bytes(
            sidecar.number, sidecar.generation, 0, sidecar.stored_bytes
        )
    except ArchiveDamaged:
        return None
    return parse_agent_sidecar(raw, stored_source.agent)


_MAX_OUTPUT_BYTES = 16 * 1024 * 1024
_READ_AHEAD_BYTES = 64 * 1024
"""Bytes to read at once: records are usually read in order."""
_MAX_READ_AHEAD_BYTES = 1024 * 1024
"""The same if they are: each block is twice as long as the one before."""


class StoreLoader(RecordLoader):
    """Loads records from the bytes of a store.

    Damaged or missing bytes are b""; a strict loader raises `ArchiveDamaged`, but not
    for those that the user accepted as lost.
    """

    def __init__(self, store: SourceReader, *, is_strict: bool = False) -> None:
        super().__init__()
        self._byte_store = store.byte_store
        self._is_strict = is_strict
        self._sources: dict[str, StoredSource] = {}
        self._read_ahead = ("", 0, 0, b"")
        """Source, generation, offset and bytes of the last read."""

    def use_store(self, store: SourceReader) -> None:
        """Load from a store that was opened again."""
        self.clear_cache()
        self._byte_store = store.byte_store

    def clear_cache(self) -> None:
        """Drop what was read and decoded."""
        super().clear_cache()
        self._sources.clear()
        self._read_ahead = ("", 0, 0, b"")

    def read_raw(self, position: Position) -> bytes:
        """Return the bytes at a position."""
        source, generation, start, ahead = self._read_ahead
        relative = position.offset - start
        if (
            0 <= relative <= len(ahead) - position.length
            and source == position.source_id
            and generation == position.generation
        ):
            return ahead[relative : relative + position.length]
        try:
            # In one transaction: a line that is finished meanwhile moves into a chunk.
            with self._byte_store.read_transaction():
                return self._read(position)
        except BytesLost:
            return b""
        except ArchiveDamaged:
            if self._is_strict:
                raise
            return b""

    def _read(self, position: Position) -> bytes:
        stored = self._find_source(position.source_id, position.offset)
        if stored is None:
            return b""
        key = (stored.number, position.generation)
        if (
            position.offset >= stored.stored_bytes
            and position.generation == stored.generation
        ):
            # An unfinished last line may be a complete record.
            start = position.offset - stored.stored_bytes
            return self._byte_store.fragment(*key)[start : start + position.length]
        size = self._choose_block_size(position)
        if position.length >= size:
            return self._byte_store.read_bytes(*key, position.offset, position.length)
        try:
            block = self._byte_store.read_bytes(*key, position.offset, size)
        except ArchiveDamaged:  # perhaps only after the record
            return self._byte_store.read_bytes(*key, position.offset, position.length)
        self._read_ahead = (
            position.source_id,
            position.generation,
            position.offset,
            block,
        )
        return block[: position.length]

    def _choose_block_size(self, position: Position) -> int:
        source, generation, start, ahead = self._read_ahead
        is_next = (source, generation) == (
            position.source_id,
            position.generation,
        ) and start <= position.offset <= start + 2 * len(ahead)
        size = 2 * len(ahead) if is_next else 0
        return min(max(size, _READ_AHEAD_BYTES), _MAX_READ_AHEAD_BYTES)

    def load_stored_output(self, position: Position, path: str) -> str | None:
        source = stored_output_id(position, path)
        stored = self._find_source(source) if source is not None else None
        if stored is None:
            return None
        size = min(stored.stored_bytes, _MAX_OUTPUT_BYTES)
        try:
            raw = self._byte_store.read_bytes(stored.number, stored.generation, 0, size)
        except BytesLost:
            return None
        except ArchiveDamaged:
            if self._is_strict:
                raise
            return None
        return raw.decode("utf-8", "replace").removesuffix("\n")

    def _find_source(self, source: str, offset: int = 0) -> StoredSource | None:
        """Return a source; load it again if it may have grown."""
        known = self._sources.get(source)
        if known is not None and offset < known.stored_bytes:
            return known
        try:
            found = self._byte_store.source_by_id(source)
        except UnicodeEncodeError:
            return None  # such a path is never stored
        if found is not None:
            self._sources[source] = found
        return found


_Open = Callable[[SessionId], Conversation]


def find_record(
    store: SourceReader,
    lookup: Lookup,
    loader: Loader,
    *,
    id_or_prefix: str,
    open_conversation: _Open,
) -> IndexedRecord:
    """Return a record by its id, or by a unique prefix of it."""
    found: dict[RecordId, list[tuple[RecordLocation, RecordNode]]] = {}
    for location in (
        lookup.find_records(require_valid_text(id_or_prefix), MAX_SUGGESTIONS)
        if id_or_prefix
        else ()
    ):
        for node in _nodes_at(store, loader, location):
            if node.uuid is not None and node.uuid.startswith(id_or_prefix):
                found.setdefault(node.uuid, []).append((location, node))
    exact = found.get(RecordId(id_or_prefix))
    if exact is None and len(found) > 1:
        raise AmbiguousSelector("record", id_or_prefix, list(found))
    if not found:
        raise NotInArchive("record", id_or_prefix)
    copies = exact or next(iter(found.values()))
    location, node = copies[0]
    summary = lookup.load_summary(location.session)
    record = IndexedRecord(
        id=node.uuid or RecordId(""),
        kind=node.kind,
        session_id=summary.id if summary else SessionId(""),
        position=node.position,
        copy_positions=tuple(copy.position for _, copy in copies[1:]),
        raw=loader.read_raw(node.position),
    )
    if summary is None:
        return record
    source = store.byte_store.source(location.source)
    return _with_place(record, open_conversation(summary.id), source)


def _nodes_at(
    store: SourceReader, loader: Loader, location: RecordLocation
) -> Iterable[RecordNode]:
    stored = store.byte_store.source(location.source)
    if stored is None:
        return ()
    position = Position(stored.id, stored.generation, location.offset, location.length)
    return decode_lines([Line(position, loader.read_raw(position))])[1]


def _with_place(
    record: IndexedRecord, conversation: Conversation, source: StoredSource | None
) -> IndexedRecord:
    """Return a record with the branch that has it, or the agent run of its file."""
    branch = find_branch_of(conversation, record.id)
    if branch is not None:
        return structs.replace(record, branch_number=branch.number)
    agent = None
    if source is not None and source.kind is SourceKind.AGENT:
        agent = agent_id(source.source)
    if agent not in conversation.agent_ids:
        return record
    return structs.replace(record, agent_id=agent)


def load_prompts(reader: StoreReader, loader: RecordLoader) -> Iterator[IndexedPrompt]:
    """Yield what users typed, newest first."""
    for prompt in reader.prompts.newest_first():
        text = _load_prompt_text(reader, loader, prompt)
        yield IndexedPrompt(
            id=prompt.record,
            session_id=prompt.session,
            sent_at=prompt.time,
            branch_number=prompt.branch,
            other_session_id=prompt.other_session,
            text=prompt.head if text is None else text,
            is_text_cut=text is None,
        )


def _load_prompt_text(
    reader: StoreReader, loader: RecordLoader, prompt: PromptRow
) -> str | None:
    """Return the full text of a prompt; none if only its start is known."""
    if len(prompt.head) < PREVIEW_LIMIT:
        return prompt.head
    for location in reader.lookup.find_records(prompt.record, 1):
        stored = reader.byte_store.source(location.source)
        if stored is None:
            continue
        position = Position(
            stored.id, stored.generation, location.offset, location.length
        )
        try:
            blocks = loader.load_blocks(position)
        except (BygonesError, OSError, MemoryError):
            raise
        except Exception:  # noqa: BLE001 (the other prompts are listed)
            return None
        texts = (b.text for b in blocks if isinstance(b, TextBlock) and b.text)
        typed = (parse_user_text(text).typed_text for text in texts)
        text = "\n".join(part for part in typed if part)
        if text.startswith(prompt.head):
            return text
    return None


class ArchivedVersion(Struct, frozen=True, kw_only=True):
    """A version of a file, and its backup if that was stored."""

    version: FileVersion
    backup: StoredSource | None = None

    @property
    def is_lost(self) -> bool:
        """Whether its backup doesn't exist any more."""
        return self.backup is None and not self.version.is_new


def archived_versions(
    archive_dir: ArchiveDir, session: Session
) -> list[ArchivedVersion]:
    """Return the versions of all files that a session tracked, by path and number.

    A backup is in the folder of the session that made it: this one, or one that this
    one continues.
    """
    homes = dict.fromkeys(source.home for source in session.sources)
    session_ids = (session.id, *(lineage.session_id for lineage in session.lineage))
    folders = [
        (home, f"file-history/{session_id}")
        for home in homes
        for session_id in session_ids
    ]
    return [
        ArchivedVersion(
            version=version, backup=_find_backup(archive_dir, folders, version)
        )
        for versions in session.file_versions.values()
        for version in versions
    ]


def _find_backup(
    archive_dir: ArchiveDir, folders: list[tuple[str, str]], version: FileVersion
) -> StoredSource | None:
    if version.backup_name is None:
        return None
    found = (
        archive_dir.byte_store.find_source(h, f"{f}/{version.backup_name}")
        for h, f in folders
    )
    return next(filter(None, found), None)
