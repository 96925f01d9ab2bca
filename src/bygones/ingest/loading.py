"""Loading sessions back: nodes from the index, what was said from the chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress

from msgspec import Struct, structs

from bygones.assemble.agents import JournalNodes, journal_nodes_by_agent
from bygones.assemble.sessions import assemble_sessions
from bygones.errors import AmbiguousSelector, ArchiveDamaged, NotInArchive
from bygones.ingest.index_batch import decode_lines
from bygones.model.base import (
    Line,
    Position,
    RecordId,
    SessionId,
    SourceKind,
    require_valid_text,
)
from bygones.model.harness_text import parse_user_text
from bygones.model.metadata import FileVersion
from bygones.model.nodes import (
    PREVIEW_LIMIT,
    AgentSidecar,
    RecordNode,
    TitleFacts,
    Transcript,
)
from bygones.model.records import TextBlock
from bygones.model.sessions import Session
from bygones.model.summary import IndexedPrompt, IndexedRecord, Loader
from bygones.parse.loader import RecordLoader
from bygones.parse.metadata import parse_agent_sidecar
from bygones.sources.lines import split_lines
from bygones.store.archive_db import StoredSource
from bygones.store.archive_dir import ArchiveDir
from bygones.store.index_db import decode_frames
from bygones.store.local_reader import PromptRow, RecordRow
from bygones.store.protocols import Lookup, SessionReader, SourceReader, StoreReader

_DatedTitle = tuple[tuple[int, str], RecordId, str]
"""The age of a file, a record, and what the file calls it."""


def _no_nodes(_: int) -> tuple[RecordNode, ...]:
    return ()


def _no_pages(_: int) -> list[bytes]:
    return []


class SessionFamily(Struct, frozen=True, array_like=True):
    """All that sessions which share records are assembled from.

    Gathered in one process, it can be assembled in another.
    """

    transcripts: list[Transcript]
    page_frames: list[list[bytes]]
    """Nodes that stand before those of each transcript, as the index keeps them."""
    leaf_titles: list[_DatedTitle]
    """What other files call its records."""

    @property
    def encoded_size(self) -> int:
        """How many bytes there are to be opened."""
        return sum(len(page) for pages in self.page_frames for page in pages)

    def assemble_sessions(self, loader: Loader) -> tuple[Session, ...]:
        """Return the sessions."""
        transcripts = list(map(_with_decoded_nodes, self.transcripts, self.page_frames))
        told = [*self.leaf_titles, *_own_leaf_titles(transcripts)]
        # The newest file has the last word.
        told.sort(key=lambda one: one[0])
        summaries = {leaf: text for _, leaf, text in told}
        return assemble_sessions(transcripts, loader, summaries)


def load_family(
    store: SourceReader,
    session_reader: SessionReader,
    family: Sequence[int],
    loader: Loader,
) -> tuple[Session, ...]:
    """Return the sessions of a family, assembled from what the index has."""
    index = store.index
    if index is None:
        return ()
    return gather_family(
        store, session_reader, family, nodes=index.nodes
    ).assemble_sessions(loader)


def load_session(reader: StoreReader, id_: SessionId, loader: Loader) -> Session:
    """Return a session, as it is in one moment."""
    with reader.read_transaction():
        derived = reader.sessions
        number = derived.session_number(id_)
        if number is not None:
            family = derived.family_members(number) or [number]
            for session in load_family(reader, derived, family, loader):
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
    """Return what a family is assembled from: its nodes, or the pages with them."""
    transcripts: list[Transcript] = []
    packed: list[list[bytes]] = []
    for number in family:
        for source in session_reader.session_sources(number):
            found = _load_transcript(store, source, nodes(source))
            if found is not None:
                transcripts.append(found)
                packed.append(page_frames(source))
    told = _load_leaf_titles(store, session_reader, family)
    return SessionFamily(list(_with_steps(store, transcripts)), packed, told)


def _with_decoded_nodes(
    transcript: Transcript, page_frames: Sequence[bytes]
) -> Transcript:
    before = list(decode_frames(page_frames))
    return (
        structs.replace(transcript, nodes=(*before, *transcript.nodes))
        if before
        else transcript
    )


def _load_transcript(
    store: SourceReader, number: int, before: Sequence[RecordNode]
) -> Transcript | None:
    """Return a source as a transcript: nodes that are known, and the last line."""
    kept, raw = _load_fragment(store, number)
    if kept is None or store.index is None:
        return None
    _, nodes, problems = decode_lines(
        split_lines(kept.id, kept.generation, kept.stored_bytes, raw)
    )
    return Transcript(
        source=kept.source,
        nodes=(*before, *nodes),
        problems=(*store.index.problems(kept), *problems),
        sidecar=_load_agent_note(store, kept),
    )


def _load_fragment(
    store: SourceReader, number: int
) -> tuple[StoredSource | None, bytes]:
    """Return a source and its unfinished last line, as far as they can be read.

    That line is not indexed, but may be a whole record all the same.
    """
    kept = None
    with suppress(ArchiveDamaged), store.byte_store.read_transaction():
        kept = store.byte_store.source(number)
        if kept is not None:
            return kept, store.byte_store.fragment(number, kept.generation)
    return kept, b""


def _load_leaf_titles(
    store: SourceReader, session_reader: SessionReader, family: Sequence[int]
) -> list[_DatedTitle]:
    """Return what all files call the records of a family."""
    found = session_reader.leaf_titles(family)
    ages = {source: _file_age(store, source) for _, _, source in found}
    return [(ages[source], leaf, text) for leaf, text, source in found]


def _own_leaf_titles(transcripts: Sequence[Transcript]) -> Iterator[_DatedTitle]:
    """Yield what the family's files say, also in a last line that is not finished."""
    for told in transcripts:
        for node in told.nodes:
            facts = node.extra
            if (
                node.kind == "summary"
                and isinstance(facts, TitleFacts)
                and facts.leaf_id
            ):
                yield (told.source.mtime_ns, told.source.id), facts.leaf_id, facts.text


def _file_age(store: SourceReader, source: int) -> tuple[int, str]:
    kept = store.byte_store.source(source)
    return (kept.mtime_ns, kept.id) if kept else (0, "")


def _with_steps(
    store: SourceReader, transcripts: Sequence[Transcript]
) -> Iterator[Transcript]:
    """Yield transcripts with what the journals beside them say of their agents."""
    journals: dict[tuple[str, str], JournalNodes] = {}
    for told in transcripts:
        source = told.source
        if source.agent_id is None:
            yield told
            continue
        folder = (source.home, source.relative_path.rpartition("/")[0])
        if folder not in journals:
            journals[folder] = _load_journal(store, *folder)
        yield structs.replace(
            told, journal_nodes=journals[folder].get(source.agent_id, ())
        )


def _load_journal(store: SourceReader, home: str, folder: str) -> JournalNodes:
    kept = store.byte_store.find_source(home, f"{folder}/journal.jsonl")
    if kept is None or kept.kind is not SourceKind.JOURNAL:
        return {}
    # What was in a damaged chunk is lost; the lines around it are not.
    chunks = store.byte_store.try_read_chunks(kept.number, kept.generation)
    raw = b"".join(b"\n" if part is None else part for _, part in chunks)
    return journal_nodes_by_agent(
        decode_lines(split_lines(kept.id, kept.generation, 0, raw))[1]
    )


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
"""Bytes that are read at once where records are small; what is kept never changes."""


class StoreLoader(RecordLoader):
    """Opens records from the archive's chunks."""

    def __init__(self, store: SourceReader) -> None:
        super().__init__()
        self._byte_store = store.byte_store
        self._sources: dict[str, StoredSource] = {}
        self._read_ahead = ("", 0, 0, b"")
        """Some bytes of a source's generation: records are read in order."""

    def clear_cache(self) -> None:
        """Let go of what was read and decoded: nobody asks any more."""
        super().clear_cache()
        self._sources.clear()
        self._read_ahead = ("", 0, 0, b"")

    def remember_source(self, stored_source: StoredSource) -> None:
        """Remember a source that somebody has looked up."""
        self._sources[stored_source.id] = stored_source

    def read_raw(self, position: Position) -> bytes:
        """Return the bytes at a position; none where they are damaged or missing."""
        source, generation, start, ahead = self._read_ahead
        at = position.offset - start
        if (
            0 <= at <= len(ahead) - position.length
            and source == position.source_id
            and generation == position.generation
        ):
            return ahead[at : at + position.length]
        try:
            # Of one moment: a line that is finished meanwhile moves into a chunk.
            with self._byte_store.read_transaction():
                return self._read(position)
        except ArchiveDamaged:
            return b""

    def _read(self, position: Position) -> bytes:
        kept = self._find_source(position.source_id, position.offset)
        if kept is None:
            return b""
        place = (kept.number, position.generation)
        if (
            position.offset >= kept.stored_bytes
            and position.generation == kept.generation
        ):
            # An unfinished last line may be a whole record all the same.
            start = position.offset - kept.stored_bytes
            return self._byte_store.fragment(*place)[start : start + position.length]
        if position.length >= _READ_AHEAD_BYTES:
            return self._byte_store.read_bytes(*place, position.offset, position.length)
        found = self._byte_store.read_bytes(*place, position.offset, _READ_AHEAD_BYTES)
        self._read_ahead = (
            position.source_id,
            position.generation,
            position.offset,
            found,
        )
        return found[: position.length]

    def load_stored_output(self, position: Position, path: str) -> str | None:
        """Return a long output that was archived with its session.

        Only the name of the file is taken from the transcript.
        """
        session = position.source_id.partition("/subagents/")[0].removesuffix(".jsonl")
        name = path.replace("\\", "/").rpartition("/")[2]
        if not name or name.startswith("."):
            return None
        kept = self._find_source(f"{session}/tool-results/{name}")
        if kept is None:
            return None
        size = min(kept.stored_bytes, _MAX_OUTPUT_BYTES)
        try:
            raw = self._byte_store.read_bytes(kept.number, kept.generation, 0, size)
        except ArchiveDamaged:
            return None
        return raw.decode("utf-8", "replace").removesuffix("\n")

    def _find_source(self, source: str, offset: int = 0) -> StoredSource | None:
        """Return a source, looked up anew where it may have grown since."""
        known = self._sources.get(source)
        if known is not None and offset < known.stored_bytes:
            return known
        try:
            found = self._byte_store.source_by_id(source)
        except UnicodeEncodeError:
            return None  # a name that is no text was never kept
        if found is not None:
            self._sources[source] = found
        return found


_MAX_SUGGESTIONS = 5
"""Ids that an error mentions."""
_Open = Callable[[SessionId], Session]


def find_record(
    store: SourceReader,
    lookup: Lookup,
    loader: Loader,
    *,
    id_or_prefix: str,
    open_session: _Open,
) -> IndexedRecord:
    """Return a record by its uuid, or by a beginning that only it has."""
    found: dict[RecordId, list[tuple[int, RecordNode]]] = {}
    for row in (
        lookup.find_records(require_valid_text(id_or_prefix), _MAX_SUGGESTIONS)
        if id_or_prefix
        else ()
    ):
        for node in _nodes_at(store, loader, row):
            if node.uuid is not None and node.uuid.startswith(id_or_prefix):
                found.setdefault(node.uuid, []).append((row.session, node))
    exact = found.get(RecordId(id_or_prefix))
    if exact is None and len(found) > 1:
        raise AmbiguousSelector("record", id_or_prefix, list(found))
    if not found:
        raise NotInArchive("record", id_or_prefix)
    places = exact or next(iter(found.values()))
    listed = lookup.load_summary(places[0][0])
    return _build_found_record(
        places, open_session(listed.id) if listed else None, loader
    )


def _nodes_at(
    store: SourceReader, loader: Loader, row: RecordRow
) -> Iterable[RecordNode]:
    kept = store.byte_store.source(row.source)
    if kept is None:
        return ()
    place = Position(kept.id, kept.generation, row.offset, row.length)
    return decode_lines([Line(place, loader.read_raw(place))])[1]


def _build_found_record(
    locations: Sequence[tuple[int, RecordNode]], session: Session | None, loader: Loader
) -> IndexedRecord:
    (_, node), *copies = locations
    uuid = node.uuid or RecordId("")
    agent = branch = None
    if session is not None:
        branch = session.find_branch(uuid)
        for run in session.all_agents if branch is None else ():
            if run.source and run.source.id == node.position.source_id:
                agent = run.id
    return IndexedRecord(
        id=uuid,
        kind=node.kind,
        session_id=session.id if session else SessionId(""),
        agent_id=agent,
        branch_number=branch.number if branch else None,
        position=node.position,
        copy_positions=tuple(copy.position for _, copy in copies),
        raw=loader.read_raw(node.position),
    )


def load_prompts(reader: StoreReader, loader: RecordLoader) -> Iterator[IndexedPrompt]:
    """Yield what a person typed, newest first."""
    for row in reader.prompts.newest_first():
        yield IndexedPrompt(
            id=row.record,
            session_id=row.session,
            sent_at=row.time,
            branch_number=row.branch,
            text=_load_prompt_text(reader, reader.lookup, loader, row),
        )


def _load_prompt_text(
    store: SourceReader, lookup: Lookup, loader: RecordLoader, prompt: PromptRow
) -> str:
    """Return a prompt whole; as it begins where its record cannot be opened."""
    if len(prompt.head) < PREVIEW_LIMIT:
        return prompt.head
    for place in lookup.find_records(prompt.record, 1):
        kept = store.byte_store.source(place.source)
        if kept is None:
            continue
        where = Position(kept.id, kept.generation, place.offset, place.length)
        texts = (
            b.text
            for b in loader.load_blocks(where)
            if isinstance(b, TextBlock) and b.text
        )
        tolds = (parse_user_text(text).typed_text for text in texts)
        words = "\n".join(told for told in tolds if told)
        if words.startswith(prompt.head):
            return words
    return prompt.head


class ArchivedVersion(Struct, frozen=True, kw_only=True):
    """A version of a file, and its backup if that was there to be archived."""

    version: FileVersion
    backup: StoredSource | None = None

    @property
    def is_lost(self) -> bool:
        """Whether there was a backup of it that nobody has any more."""
        return self.backup is None and not self.version.is_new


def archived_versions(
    archive_dir: ArchiveDir, session: Session
) -> list[ArchivedVersion]:
    """Return the versions of all files that a session tracked, by path and number.

    A backup lies in the folder of the session that made it: this one, or one that
    this one goes on from.
    """
    homes = dict.fromkeys(source.home for source in session.sources)
    makers = (session.id, *(lineage.session_id for lineage in session.lineage))
    folders = [(home, f"file-history/{one}") for home in homes for one in makers]
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
