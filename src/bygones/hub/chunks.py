"""Redact the lines of sources and pack them into upload requests."""

from __future__ import annotations

import hmac
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct, structs
from msgspec.json import encode

from bygones.hub.selection import BorrowedTitles
from bygones.model.base import Line, Position, Problem, SourceId, SourceKind
from bygones.parse.decode import salvage_line
from bygones.redact.engine import Redactor
from bygones.redact.json import redact_line
from bygones.store.archive_db import ArchiveDB, StoredSource
from bygones.store.compression import HashedFrame, compress_and_hash
from bygones.team.protocol import (
    MAX_FRAME_BYTES,
    MAX_LINE_BYTES,
    TARGET_REQUEST_BYTES,
    SourceState,
    UploadChunk,
    UploadRequest,
    has_valid_names,
)


class LineRedactor:
    """Hides secrets and persons in lines and names; knows private records."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self.redaction_counts: Counter[str] = Counter()
        """What was hidden, by its kind."""
        self.private_records = 0
        """Records that were left out whole."""

    def redact(self, raw: bytes) -> bytes:
        """Return one line or one whole file redacted; nothing if it is private."""
        if not raw.strip():
            return b""
        told, found = redact_line(raw, self._redactor)
        self.redaction_counts.update(one.kind for one in found)
        if told is None:
            self.private_records += 1
        return told or b""

    def redact_directory(self, text: str) -> str:
        """Return a directory as the hub will know it."""
        return self._redactor.redact(text)[0]

    def redact_name(self, text: str) -> str:
        """Return a path or an id without names of persons."""
        told, found = self._redactor.redact(text)
        for one in found:
            told = told.replace(one.replacement, one.kind, 1)
        return told


_BLOCK_BYTES = 1024 * 1024
"""Bytes of a source that make a piece, where lines are short."""
_CHUNK_OVERHEAD = 1024
"""Bytes that a piece takes besides its frame, at most, unless names are very long."""
_CUT_MARKER = b"{"
"""What stands for half a line: the beginning of a record."""
_TITLES_HASH_DIGITS = 12
"""Hexadecimal digits of a number that every store can keep."""
_RESTART_BITS = 10
"""Bits in which the hub's generations count what begins anew without the archive's."""


class PreparedChunk(Struct, frozen=True):
    """A piece of a source, and what is known of it here."""

    source: SourceId
    line_count: int
    chunk: UploadChunk


def machine_id(identity: str, host: str = "") -> str:
    """Return the name under which an archive sends: no name of a host or a person.

    A copy of an archive on another host is another machine: files of one name go on
    there in another way.
    """
    return _keyed_hash(identity, f"machine\0{host}" if host else "machine")


class ChunkBuilder:
    """Packs sources of one archive; counts what stays at home."""

    def __init__(
        self,
        chunks: ArchiveDB,
        redactor: LineRedactor,
        is_foreign: Callable[[bytes], bool],
    ) -> None:
        self._chunks = chunks
        self._is_foreign = is_foreign
        self._identity = chunks.archive_id
        self.redactor = redactor
        self.long_lines = 0
        """Lines that no request can hold."""
        self.foreign_lines = 0
        """Lines of sessions that were not named, in files of others that were."""

    def remote_path(self, kept: StoredSource) -> tuple[str, str]:
        """Return home and path under which the hub knows a source.

        What stands for the home is another one for each folder of a project: two
        folders may be one once names are hidden.
        """
        folder = "/".join(kept.path.split("/")[:2])
        home = _keyed_hash(self._identity, f"{kept.home}\0{folder}")[:16]
        return home, self.redactor.redact_name(kept.path)

    def probe(self, kept: StoredSource) -> UploadChunk:
        """Return a piece without bytes: whether the hub wants a source at all."""
        home, path = self.remote_path(kept)
        return self._make_chunk(kept, SourceState(home=home, path=path), 0, (b"", b""))

    def is_valid_name(self, kept: StoredSource) -> bool:
        """Whether a hub takes what a source is called, once names are hidden."""
        return has_valid_names(kept) or has_valid_names(self.probe(kept))

    def titles_path(
        self, kept: StoredSource, borrowed: BorrowedTitles
    ) -> tuple[str, str]:
        """Return home and path of titles that a file which stays gives a session.

        They lie beside the session, as their own file may be of another project.
        """
        home, path = self.remote_path(kept)
        name = _keyed_hash(self._identity, borrowed.title_source.id)[:16]
        return home, f"{path.removesuffix('.jsonl')}/titles/{name}.jsonl"

    def titles_chunk(
        self, kept: StoredSource, borrowed: BorrowedTitles, known: SourceState | None
    ) -> PreparedChunk | None:
        """Return such titles as a small file, all of it, whenever it has changed."""
        lines = [
            encode({"type": "summary", "summary": text, "leafUuid": leaf})
            for leaf, text in borrowed.titles
        ]
        raw = b"\n".join(lines)
        # Nobody reads on in it: this number says whether it is the one that was sent.
        origin = int(_keyed_hash(self._identity, raw.hex())[:_TITLES_HASH_DIGITS], 16)
        if known is not None and known.client_offset == origin:
            return None
        home, path = self.titles_path(kept, borrowed)
        generation = known.generation + 1 if known is not None else 0
        at = SourceState(
            home=home, path=path, generation=generation, client_offset=origin
        )
        masked = self._redact_lines(raw)
        like = structs.replace(
            borrowed.title_source,
            kind=SourceKind.SESSION,
            project=kept.project,
            session=borrowed.session,
            agent=None,
        )
        piece = self._prepare_chunk(like, at, masked, len(lines)) if masked else None
        return piece and structs.replace(piece, source=SourceId(path))

    def iter_chunks(
        self, kept: StoredSource, known: SourceState | None
    ) -> Iterator[PreparedChunk]:
        """Yield what the hub has not of a source, from where it stopped."""
        if kept.kind.is_transcript:
            goes_on = known is not None and self._is_continuation(kept, known)
            start = known if known and goes_on else self._restart(kept, known)
            yield from self._line_chunks(kept, start)
        elif not self._is_unchanged(kept, known):
            yield from self._file_chunk(kept, self._restart(kept, known))

    def _is_continuation(self, kept: StoredSource, known: SourceState) -> bool:
        """Whether the hub has the beginning of what the archive has now."""
        if known.generation >> _RESTART_BITS < kept.generation:
            return False
        if not known.client_offset:
            return True
        place = (kept.number, kept.generation)
        return self._chunks.read_bytes(*place, known.client_offset - 1, 1) == b"\n"

    def _is_unchanged(self, kept: StoredSource, known: SourceState | None) -> bool:
        if known is None or known.generation >> _RESTART_BITS < kept.generation:
            return False
        return known.client_offset == kept.stored_bytes

    def _restart(self, kept: StoredSource, known: SourceState | None) -> SourceState:
        home, path = self.remote_path(kept)
        generation = kept.generation << _RESTART_BITS
        if known is not None:
            generation = max(generation, known.generation + 1)
        return SourceState(home=home, path=path, generation=generation)

    def _line_chunks(
        self, kept: StoredSource, known: SourceState
    ) -> Iterator[PreparedChunk]:
        """Yield the lines of a transcript behind what is known; the last is whole."""
        upto, origin = known.stored_bytes, known.client_offset
        masked, count = b"", 0
        for raw in self._iter_line_blocks(kept, origin):
            origin += len(raw)
            told = self._redact_lines(raw)
            masked += told
            count += told.count(b"\n")
            # A private line leaves nothing: it goes with what comes behind it.
            if not masked:
                continue
            at = structs.replace(known, stored_bytes=upto, client_offset=origin)
            piece = self._prepare_chunk(kept, at, masked, count)
            upto += len(masked) if piece else 0
            masked, count = b"", 0
            if piece:
                known = structs.replace(known, fingerprint=b"")
                yield piece
        at = structs.replace(known, stored_bytes=upto, client_offset=origin)
        fragment = (
            self._fragment_chunk(kept, at) if kept.size > kept.stored_bytes else None
        )
        if fragment:
            yield fragment

    def _fragment_chunk(
        self, kept: StoredSource, at: SourceState
    ) -> PreparedChunk | None:
        """Return the unfinished last line of a transcript, unless the hub has it.

        What is whole of it leaves redacted, as any line. Of half a line nothing does:
        half a secret cannot be known. The hub is told that something was cut off.
        """
        with self._chunks.read_transaction():
            now = self._chunks.source(kept.number)
            if now is None or (now.generation, now.stored_bytes) != (
                kept.generation,
                at.client_offset,
            ):
                return None  # it was finished since: the next push sends it whole
            raw = self._chunks.fragment(kept.number, kept.generation)
        mark = _keyed_hash(self._identity, raw.hex()).encode()
        if not raw or mark == at.fingerprint:
            return None
        masked = self._redact_fragment(raw)
        if not (masked or at.stored_bytes):
            return None
        pressed = compress_and_hash(masked) if masked else (b"", b"")
        if len(pressed[1]) > MAX_FRAME_BYTES:
            self.long_lines += 1
            return None
        packed = self._make_chunk(kept, at, len(masked), pressed)
        lines = int(masked not in {b"", _CUT_MARKER})
        return PreparedChunk(kept.id, lines, structs.replace(packed, fingerprint=mark))

    def _redact_fragment(self, raw: bytes) -> bytes:
        if len(raw) > MAX_LINE_BYTES:
            self.long_lines += 1
            return b""
        whole = raw[: _complete_length(raw)]
        masked = self._redact_lines(whole).removesuffix(b"\n")
        return masked + _CUT_MARKER if len(whole) < len(raw) else masked

    def _redact_lines(self, raw: bytes) -> bytes:
        """Return whole lines without those that stay, the others redacted."""
        if len(raw) > MAX_LINE_BYTES:
            self.long_lines += 1
            return b""
        told = []
        for line in raw.removesuffix(b"\n").split(b"\n"):
            if self._is_foreign(line):
                self.foreign_lines += 1
            elif not line.strip():
                told.append(line + b"\n")
            elif masked := self.redactor.redact(line):
                told.append(masked + b"\n")
        return b"".join(told)

    def _iter_line_blocks(self, kept: StoredSource, start: int) -> Iterator[bytes]:
        """Yield whole lines, about a megabyte at a time, or one that is longer."""
        step = _BLOCK_BYTES
        place = (kept.number, kept.generation)
        while start < kept.stored_bytes:
            size = min(step, kept.stored_bytes - start)
            raw = self._chunks.read_bytes(*place, start, size)
            # Of a longer stretch only the long line is taken: it may have to stay.
            cut = (raw.rfind if step == _BLOCK_BYTES else raw.find)(b"\n") + 1
            if cut:
                yield raw[:cut]
                start += cut
                step = _BLOCK_BYTES
            elif size < step:
                return
            else:
                step *= 4

    def _file_chunk(
        self, kept: StoredSource, known: SourceState
    ) -> Iterator[PreparedChunk]:
        """Yield a file that is no transcript: all of it, whenever it has changed."""
        if not 0 < kept.stored_bytes <= MAX_LINE_BYTES:
            self.long_lines += kept.stored_bytes > 0
            return
        raw = self._chunks.read_bytes(
            kept.number, kept.generation, 0, kept.stored_bytes
        )
        masked = self.redactor.redact(raw)
        at = structs.replace(known, client_offset=kept.stored_bytes)
        piece = self._prepare_chunk(kept, at, masked, 0) if masked else None
        if piece:
            yield piece

    def _prepare_chunk(
        self, kept: StoredSource, at: SourceState, masked: bytes, lines: int
    ) -> PreparedChunk | None:
        pressed = compress_and_hash(masked)
        if len(pressed[1]) > MAX_FRAME_BYTES:
            self.long_lines += 1
            return None
        return PreparedChunk(
            kept.id, lines, self._make_chunk(kept, at, len(masked), pressed)
        )

    def _make_chunk(
        self, kept: StoredSource, at: SourceState, length: int, pressed: HashedFrame
    ) -> UploadChunk:
        mask = self.redactor
        sha256, frame = pressed
        return UploadChunk(
            home=at.home,
            path=at.path,
            kind=kept.kind,
            project=mask.redact_name(kept.project) if kept.project else None,
            session=mask.redact_name(kept.session) if kept.session else None,
            agent=mask.redact_name(kept.agent) if kept.agent else None,
            mtime_ns=kept.mtime_ns,
            generation=at.generation,
            offset=at.stored_bytes,
            length=length,
            client_offset=at.client_offset,
            sha256=sha256,
            frame=frame,
        )


def _complete_length(raw: bytes) -> int:
    """Return where what is whole of an unfinished line ends."""
    place = Position(SourceId(""), 0, 0, len(raw))
    for one in salvage_line(Line(place, raw, has_newline=False)):
        if isinstance(one, Problem) and one.kind == "cut-line":
            return one.position.offset
    return len(raw)


def build_requests(
    machine: str, chunks: Iterable[PreparedChunk]
) -> Iterator[tuple[UploadRequest, int]]:
    """Yield requests of chunks, and how many lines are in each."""
    waiting: list[PreparedChunk] = []
    weight = 0
    for piece in chunks:
        more = len(piece.chunk.frame) + len(piece.chunk.path) + _CHUNK_OVERHEAD
        if waiting and weight + more > TARGET_REQUEST_BYTES:
            yield _build_request(machine, waiting, has_more=True)
            waiting, weight = [], 0
        waiting.append(piece)
        weight += more
    if waiting:
        yield _build_request(machine, waiting)


def _build_request(
    machine: str, chunks: Sequence[PreparedChunk], *, has_more: bool = False
) -> tuple[UploadRequest, int]:
    packed = tuple(piece.chunk for piece in chunks)
    lines = sum(piece.line_count for piece in chunks)
    return UploadRequest(machine=machine, chunks=packed, has_more=has_more), lines


def _keyed_hash(identity: str, text: str) -> str:
    """Return a name that says nothing to whoever has not the archive."""
    told = text.encode("utf-8", "surrogateescape")
    return hmac.new(identity.encode(), told, "sha256").hexdigest()[:32]
