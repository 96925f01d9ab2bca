"""Prepare the lines of files to push as redacted, compressed chunks."""

from __future__ import annotations

import hmac
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct, structs
from msgspec.json import encode

from bygones.errors import ArchiveDamaged, BytesLost
from bygones.hub.push_selection import BorrowedTitles, PushSelection
from bygones.model.base import (
    DECODE_ERRORS,
    Line,
    Position,
    Problem,
    SessionId,
    SourceId,
    SourceKind,
)
from bygones.model.projects import ProjectDirectories
from bygones.model.summary import ProjectIdentity
from bygones.parse.decode import salvage_line
from bygones.redact.engine import Redactor
from bygones.redact.json import redact_file, redact_line
from bygones.sources.layout import session_stem
from bygones.store.archive_db import ArchiveDB, StoredSource
from bygones.store.archive_repair import missing_fragment
from bygones.store.compression import HashedFrame, compress_and_hash
from bygones.team.contract import (
    MAX_CONTENT_BYTES,
    MAX_FRAME_BYTES,
    MAX_LINE_BYTES,
    TARGET_REQUEST_BYTES,
    SourceState,
    UploadChunk,
    UploadRequest,
    has_valid_names,
    is_valid_identity,
    repository_key,
)


class LineRedactor:
    """Redacts secrets and names of people in lines and paths; drops private records."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self.redaction_counts: Counter[str] = Counter()
        """Redactions by kind."""
        self.private_records = 0
        """Records that were dropped."""

    def redact(self, raw: bytes) -> bytes:
        """Redact a line of a transcript; return nothing if it is private."""
        if not raw.strip():
            return b""
        redacted, redactions = redact_line(raw, self._redactor)
        self.redaction_counts.update(redaction.kind for redaction in redactions)
        if redacted is None:
            self.private_records += 1
        return redacted or b""

    def redact_file(self, raw: bytes) -> bytes:
        """Redact a file that is not a transcript."""
        redacted, redactions = redact_file(raw, self._redactor)
        self.redaction_counts.update(redaction.kind for redaction in redactions)
        return redacted if redacted.strip() else b""

    def redact_directory(self, text: str) -> str:
        """Redact a directory."""
        return self._redactor.redact(text)[0]

    def redact_name(self, text: str) -> str:
        """Redact names of people in a path or an id."""
        redacted, found = self._redactor.redact(text)
        for one in found:
            redacted = redacted.replace(one.replacement, one.kind, 1)
        return redacted


_BLOCK_BYTES = 1024 * 1024
"""Bytes of a source per chunk, if lines are short."""
_CHUNK_OVERHEAD = 1024
"""Bytes of a chunk besides its frame, unless names are very long."""
_CUT_MARKER = b"{"
"""The start of a record, which replaces an unfinished line."""
_TITLES_HASH_DIGITS = 12
"""Hexadecimal digits of numbers that every store can hold."""
_RESTART_BITS = 10
"""Low bits of the hub's generations, which count restarts within one generation of the
archive."""


class PreparedChunk(Struct, frozen=True):
    """A chunk, with facts that the hub doesn't learn."""

    source: SourceId
    line_count: int
    chunk: UploadChunk


def machine_id(identity: str, host: str = "") -> str:
    """Return a pseudonym for an archive on a host.

    A copy of an archive on another host gets another id, because its files grow
    independently.
    """
    return _keyed_hash(identity, f"machine\0{host}" if host else "machine")


class ChunkBuilder:
    """Builds chunks from the sources of an archive, and counts what is left out."""

    def __init__(
        self,
        chunks: ArchiveDB,
        redactor: LineRedactor,
        is_foreign: Callable[[bytes], bool],
        identities: Mapping[int, ProjectIdentity] | None = None,
    ) -> None:
        self._identities = identities or {}
        self._chunks = chunks
        self._is_foreign = is_foreign
        self._identity = chunks.archive_id
        self.redactor = redactor
        self.long_lines = 0
        """Lines that are too long for a request."""
        self.foreign_lines = 0
        """Lines of other projects' sessions in files that are pushed."""

    def remote_path(self, stored_source: StoredSource) -> tuple[str, str]:
        """Return the home and path of a source on the hub.

        The home is a pseudonym that differs for each project folder, because two
        folders may have the same name after redaction. All files of a session have the
        same home, and paths that start alike.
        """
        path = stored_source.path
        stem = session_stem(path)
        folder = stem.rpartition("/")[0]
        home = _keyed_hash(self._identity, f"{stored_source.home}\0{folder}")[:16]
        mask = self.redactor.redact_name
        return home, mask(stem) + mask(path.removeprefix(stem))

    def probe(self, stored_source: StoredSource) -> UploadChunk:
        """Return a chunk without bytes, to ask whether a source was erased."""
        home, path = self.remote_path(stored_source)
        return self._make_chunk(
            stored_source, SourceState(home=home, path=path), 0, (b"", b"")
        )

    def identity_chunk(
        self, stored_source: StoredSource, known: SourceState
    ) -> PreparedChunk | None:
        """Return a chunk without bytes that names another project than the hub knows."""
        identity = self._identities.get(stored_source.number)
        if identity in {None, known.identity}:
            return None
        chunk = self._make_chunk(stored_source, known, 0, (b"", b""))
        return PreparedChunk(stored_source.id, 0, chunk)

    def is_valid_name(self, stored_source: StoredSource) -> bool:
        """Whether a hub accepts the redacted names of a source."""
        return has_valid_names(stored_source) or has_valid_names(
            self.probe(stored_source)
        )

    def titles_path(
        self, stored_source: StoredSource, borrowed: BorrowedTitles
    ) -> tuple[str, str]:
        """Return the home and path of a session's titles from a file not pushed.

        They are stored beside the session: the file may belong to another project.
        """
        home, path = self.remote_path(stored_source)
        name = _keyed_hash(self._identity, borrowed.title_source.id)[:16]
        return home, f"{path.removesuffix('.jsonl')}/titles/{name}.jsonl"

    def titles_chunk(
        self,
        stored_source: StoredSource,
        borrowed: BorrowedTitles,
        known: SourceState | None,
    ) -> PreparedChunk | None:
        """Return such titles as a small file, if it has changed."""
        lines = [
            encode({"type": "summary", "summary": text, "leafUuid": leaf})
            for leaf, text in borrowed.titles
        ]
        raw = b"\n".join(lines)
        # The file is never continued: the number identifies the version that was sent.
        own_offset = int(
            _keyed_hash(self._identity, raw.hex())[:_TITLES_HASH_DIGITS], 16
        )
        if known is not None and known.client_offset == own_offset:
            return None
        home, path = self.titles_path(stored_source, borrowed)
        generation = known.generation + 1 if known is not None else 0
        at = SourceState(
            home=home, path=path, generation=generation, client_offset=own_offset
        )
        redacted = self._redact_lines(raw)
        like = structs.replace(
            borrowed.title_source,
            kind=SourceKind.SESSION,
            project=stored_source.project,
            session=borrowed.session,
            agent=None,
            number=stored_source.number,
        )
        chunk = (
            self._prepare_chunk(like, at, redacted, len(lines)) if redacted else None
        )
        return chunk and structs.replace(chunk, source=SourceId(path))

    def iter_chunks(
        self, stored_source: StoredSource, known: SourceState | None
    ) -> Iterator[PreparedChunk]:
        """Yield what the hub lacks of a source."""
        if stored_source.kind.is_transcript:
            is_continued = known is not None and self._is_continuation(
                stored_source, known
            )
            start = (
                known if known and is_continued else self._restart(stored_source, known)
            )
            yield from self._line_chunks(stored_source, start)
        elif not self._is_unchanged(stored_source, known):
            yield from self._file_chunk(
                stored_source, self._restart(stored_source, known)
            )

    def _is_continuation(self, stored_source: StoredSource, known: SourceState) -> bool:
        """Whether what the hub has is the start of what the archive has now."""
        if known.generation >> _RESTART_BITS < stored_source.generation:
            return False
        if not known.client_offset:
            return True
        place = (stored_source.number, stored_source.generation)
        try:
            last = self._chunks.read_bytes(*place, known.client_offset - 1, 1)
        except BytesLost:
            return True
        return last == b"\n"

    def _is_unchanged(
        self, stored_source: StoredSource, known: SourceState | None
    ) -> bool:
        if (
            known is None
            or known.generation >> _RESTART_BITS < stored_source.generation
        ):
            return False
        return known.client_offset == stored_source.stored_bytes

    def _restart(
        self, stored_source: StoredSource, known: SourceState | None
    ) -> SourceState:
        home, path = self.remote_path(stored_source)
        generation = stored_source.generation << _RESTART_BITS
        if known is not None:
            generation = max(generation, known.generation + 1)
        return SourceState(home=home, path=path, generation=generation)

    def _line_chunks(
        self, stored_source: StoredSource, known: SourceState
    ) -> Iterator[PreparedChunk]:
        """Yield the complete lines of a transcript that the hub lacks."""
        remote_offset, own_offset = known.stored_bytes, known.client_offset
        redacted, count = b"", 0
        for end, raw in self._iter_line_blocks(stored_source, own_offset):
            own_offset = end
            lines = self._redact_lines(raw)
            redacted += lines
            count += lines.count(b"\n")
            # Nothing is left of private lines: they are sent with the next chunk.
            if not redacted:
                continue
            at = structs.replace(
                known, stored_bytes=remote_offset, client_offset=own_offset
            )
            chunk = self._prepare_chunk(stored_source, at, redacted, count)
            remote_offset += len(redacted) if chunk else 0
            redacted, count = b"", 0
            if chunk:
                known = structs.replace(known, fingerprint=b"")
                yield chunk
        at = structs.replace(
            known, stored_bytes=remote_offset, client_offset=own_offset
        )
        fragment = (
            self._fragment_chunk(stored_source, at)
            if stored_source.size > stored_source.stored_bytes
            else None
        )
        if fragment:
            yield fragment

    def _fragment_chunk(
        self, stored_source: StoredSource, at: SourceState
    ) -> PreparedChunk | None:
        """Return the unfinished last line of a transcript, unless the hub has it.

        What is whole of it leaves redacted, as any line. Of half a line nothing does:
        half a secret cannot be known. The hub learns that something was cut off.
        """
        with self._chunks.read_transaction():
            now = self._chunks.source(stored_source.number)
            if now is None or (now.generation, now.stored_bytes) != (
                stored_source.generation,
                at.client_offset,
            ):
                return None  # it was completed meanwhile: the next push sends it
            raw = self._read_fragment(stored_source.number, stored_source.generation)
        mark = _keyed_hash(self._identity, raw.hex()).encode()
        if not raw or mark == at.fingerprint:
            return None
        redacted = self._redact_fragment(raw)
        if not (redacted or at.stored_bytes):
            return None
        pressed = compress_and_hash(redacted) if redacted else (b"", b"")
        if len(pressed[1]) > MAX_FRAME_BYTES:
            self.long_lines += 1
            return None
        packed = self._make_chunk(stored_source, at, len(redacted), pressed)
        lines = int(redacted not in {b"", _CUT_MARKER})
        return PreparedChunk(
            stored_source.id, lines, structs.replace(packed, fingerprint=mark)
        )

    def _read_fragment(self, number: int, generation: int) -> bytes:
        """Return the unfinished last line; nothing if its loss was accepted."""
        try:
            raw = self._chunks.fragment(number, generation)
        except BytesLost:
            return b""
        if not raw and missing_fragment(self._chunks, number, generation):
            detail = f"the last line of source {number} is missing"
            raise ArchiveDamaged(self._chunks.path, detail)
        return raw

    def _redact_fragment(self, raw: bytes) -> bytes:
        if len(raw) > MAX_LINE_BYTES:
            self.long_lines += 1
            return b""
        whole = raw[: _complete_length(raw)]
        redacted = self._redact_lines(whole).removesuffix(b"\n")
        return redacted + _CUT_MARKER if len(whole) < len(raw) else redacted

    def _redact_lines(self, raw: bytes) -> bytes:
        """Redact lines, without those that are not pushed."""
        if len(raw) > MAX_LINE_BYTES:
            self.long_lines += 1
            return b""
        sent_lines = []
        for line in raw.removesuffix(b"\n").split(b"\n"):
            if self._is_foreign(line):
                self.foreign_lines += 1
            elif not line.strip():
                sent_lines.append(line + b"\n")
            elif redacted := self.redactor.redact(line):
                sent_lines.append(redacted + b"\n")
        return b"".join(sent_lines)

    def _iter_line_blocks(
        self, stored_source: StoredSource, start: int
    ) -> Iterator[tuple[int, bytes]]:
        """Yield complete lines, about a megabyte at a time, or a single longer line.

        Before them is the offset where they end. Of a line that is lost in part nothing
        is yielded. Raises `ArchiveDamaged` after the lines before damaged bytes, unless
        their loss was accepted.
        """
        place = (stored_source.number, stored_source.generation)
        stop, lost_end, is_cut = stored_source.stored_bytes, 0, False
        damage: ArchiveDamaged | None = None
        while True:
            try:
                for end, raw in self._iter_intact_lines(place, start, stop):
                    whole = _without_cut_line(raw) if is_cut else raw
                    start, is_cut = end, False
                    if whole:
                        yield end, whole
            except ArchiveDamaged as error:
                if damage is not None:
                    raise
                damage = error
                stop, lost_end = self._find_damage(place, start)
                continue
            if damage is None:
                return
            if not lost_end:
                raise damage
            start, stop, is_cut = lost_end, stored_source.stored_bytes, True
            damage = None

    def _iter_intact_lines(
        self, place: tuple[int, int], start: int, stop: int
    ) -> Iterator[tuple[int, bytes]]:
        step = _BLOCK_BYTES
        while start < stop:
            size = min(step, stop - start)
            raw = self._chunks.read_bytes(*place, start, size)
            # Of a longer stretch only the long line is taken: it may have to stay.
            cut = (raw.rfind if step == _BLOCK_BYTES else raw.find)(b"\n") + 1
            if cut:
                start += cut
                yield start, raw[:cut]
                step = _BLOCK_BYTES
            elif size < step:
                return
            else:
                step *= 4

    def _find_damage(self, place: tuple[int, int], start: int) -> tuple[int, int]:
        """Return where damaged bytes start, and where they end if that was accepted."""
        with self._chunks.read_transaction():
            for chunk, raw in self._chunks.try_read_chunks(*place, start=start):
                if chunk.start > start:
                    break
                if raw is None:
                    return start, chunk.stop if chunk.lost_ns else 0
                start = chunk.stop
        return start, 0

    def _file_chunk(
        self, stored_source: StoredSource, known: SourceState
    ) -> Iterator[PreparedChunk]:
        """Yield a file other than a transcript as a whole, if it has changed."""
        if not 0 < stored_source.stored_bytes <= MAX_LINE_BYTES:
            self.long_lines += stored_source.stored_bytes > 0
            return
        raw = self._chunks.read_bytes(
            stored_source.number,
            stored_source.generation,
            0,
            stored_source.stored_bytes,
        )
        redacted = self.redactor.redact_file(raw)
        at = structs.replace(known, client_offset=stored_source.stored_bytes)
        chunk = (
            self._prepare_chunk(stored_source, at, redacted, 0) if redacted else None
        )
        if chunk:
            yield chunk

    def _prepare_chunk(
        self, stored_source: StoredSource, at: SourceState, redacted: bytes, lines: int
    ) -> PreparedChunk | None:
        pressed = compress_and_hash(redacted)
        if len(pressed[1]) > MAX_FRAME_BYTES:
            self.long_lines += 1
            return None
        return PreparedChunk(
            stored_source.id,
            lines,
            self._make_chunk(stored_source, at, len(redacted), pressed),
        )

    def _make_chunk(
        self,
        stored_source: StoredSource,
        at: SourceState,
        length: int,
        pressed: HashedFrame,
    ) -> UploadChunk:
        mask = self.redactor
        sha256, frame = pressed
        return UploadChunk(
            home=at.home,
            path=at.path,
            kind=stored_source.kind,
            project=mask.redact_name(stored_source.project)
            if stored_source.project
            else None,
            session=mask.redact_name(stored_source.session)
            if stored_source.session
            else None,
            agent=mask.redact_name(stored_source.agent)
            if stored_source.agent
            else None,
            mtime_ns=stored_source.mtime_ns,
            generation=at.generation,
            offset=at.stored_bytes,
            length=length,
            client_offset=at.client_offset,
            sha256=sha256,
            frame=frame,
            identity=self._identities.get(stored_source.number),
        )


def identify_sources(
    selection: PushSelection,
    directories: ProjectDirectories,
    redactor: LineRedactor,
    archive_id: str,
) -> dict[int, ProjectIdentity]:
    """Return the projects of sources, as hubs recognize them.

    Repositories have the same key for everybody, by a hash of their name, which may
    contain an account that is redacted. One without a remote, or a directory that was
    moved, has a key that only this archive can compute.
    """
    identities: dict[str, ProjectIdentity] = {}
    found: dict[int, ProjectIdentity] = {}
    for source in selection.sources:
        session = selection.owners.get(source.number, source.session or SessionId(""))
        directory = selection.sessions.get(session)
        if not directory:
            continue
        if directory not in identities:
            identity = _identify(directory, directories, redactor, archive_id)
            identities[directory] = identity
        if is_valid_identity(identities[directory]):
            found[source.number] = identities[directory]
    return found


def _identify(
    directory: str,
    directories: ProjectDirectories,
    redactor: LineRedactor,
    archive_id: str,
) -> ProjectIdentity:
    mask = redactor.redact_directory
    facts = directories.facts(directory)
    repository = facts.repository if facts else ""
    if facts and repository and not repository.startswith("file:"):
        return ProjectIdentity(
            directory=mask(directory),
            key=repository_key(repository),
            # A first commit is the same everywhere, but not a name to show.
            name="" if repository.startswith("root:") else mask(repository),
            path=mask(facts.path),
            is_worktree=facts.is_worktree,
        )
    if len(directories.paths(directory)) < 2:  # noqa: PLR2004 (nothing to relate)
        return ProjectIdentity(directory=mask(directory))
    main_path = directories.main_path(directory)
    return ProjectIdentity(
        directory=mask(directory),
        key=_keyed_hash(archive_id, f"project\0{main_path}"),
        path=mask(facts.path) if facts else "",
        is_worktree=directory != main_path,
    )


def _without_cut_line(raw: bytes) -> bytes:
    """Return the lines after a loss, without the rest of one that starts in it."""
    first, _, others = raw.partition(b"\n")
    try:
        msgspec.json.decode(first, type=dict[str, msgspec.Raw])
    except DECODE_ERRORS:
        return others
    return raw


def _complete_length(raw: bytes) -> int:
    """Return where the complete part of an unfinished line ends."""
    place = Position(SourceId(""), 0, 0, len(raw))
    for one in salvage_line(Line(place, raw, has_newline=False)):
        if isinstance(one, Problem) and one.kind == "cut-line":
            return one.position.offset
    return len(raw)


def build_requests(
    machine: str, chunks: Iterable[PreparedChunk]
) -> Iterator[tuple[UploadRequest, int]]:
    """Combine chunks into requests; yield each with its number of lines."""
    waiting: list[PreparedChunk] = []
    weight = content = 0
    for chunk in chunks:
        content += chunk.chunk.length
        more = len(chunk.chunk.frame) + len(chunk.chunk.path) + _CHUNK_OVERHEAD
        is_full = weight + more > TARGET_REQUEST_BYTES or content > MAX_CONTENT_BYTES
        if waiting and is_full:
            yield _build_request(machine, waiting, has_more=True)
            waiting, weight, content = [], 0, chunk.chunk.length
        waiting.append(chunk)
        weight += more
    if waiting:
        yield _build_request(machine, waiting)


def _build_request(
    machine: str, chunks: Sequence[PreparedChunk], *, has_more: bool = False
) -> tuple[UploadRequest, int]:
    packed = tuple(chunk.chunk for chunk in chunks)
    lines = sum(chunk.line_count for chunk in chunks)
    return UploadRequest(machine=machine, chunks=packed, has_more=has_more), lines


def _keyed_hash(identity: str, text: str) -> str:
    """Return a pseudonym that only owners of the archive can relate to a name."""
    encoded = text.encode("utf-8", "surrogateescape")
    return hmac.new(identity.encode(), encoded, "sha256").hexdigest()[:32]
