"""Handle uploads: bytes go to the blob store, then spans to the database.

The token says whose an upload is. An invalid request is rejected before anything is
written; erased sources are rejected before their bytes are. A request may come twice,
or in part: the response says up to where each source is stored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import zstandard
from msgspec import Struct

from bygones.errors import UploadRejected, UploadTooLarge
from bygones.model.base import DECODE_ERRORS, AgentId, ProjectKey, SessionId
from bygones.store.compression import decompress, sha256_digest
from bygones.team.access import AccessToken
from bygones.team.blobs import ExternalBlobStore
from bygones.team.contract import (
    MAX_CONTENT_BYTES,
    MAX_FRAME_BYTES,
    MAX_LINE_BYTES,
    PROTOCOL_VERSION,
    RemoteSource,
    SourceFragment,
    SourceState,
    SourceUpdate,
    StoredSpan,
    TeamSource,
    UploadChunk,
    UploadRequest,
    UploadResponse,
    decode_request,
    has_valid_names,
    is_valid_identity,
)
from bygones.team.stores.base import TeamStore

__all__ = ["UploadHandler", "UploadLimits", "parse_request"]

_MACHINE_ID = re.compile(r"[0-9a-f]{32}")
_HOME_ID = re.compile(r"[0-9a-f]{16}")
_MAX_CHUNKS = 10_000
"""Chunks per request."""
_HASH_BYTES = 32
_MAX_FINGERPRINT_BYTES = 32


def parse_request(body: bytes) -> UploadRequest:
    """Decode and validate a request, without trusting its sender.

    :raises UploadRejected: if it is not valid.
    """
    try:
        request = decode_request(body)
    except DECODE_ERRORS as error:
        raise UploadRejected(f"it cannot be decoded: {error}") from None
    if request.version > PROTOCOL_VERSION:
        raise UploadRejected("the client is newer than the hub: upgrade the hub")
    if not _MACHINE_ID.fullmatch(request.machine):
        raise UploadRejected("the machine id is missing or invalid")
    if len(request.chunks) > _MAX_CHUNKS:
        raise UploadRejected(f"it has more than {_MAX_CHUNKS:,} chunks")
    if len(request.hashes) > _MAX_CHUNKS or any(
        len(one) != _HASH_BYTES for one in request.hashes
    ):
        raise UploadRejected("its list of hashes is invalid")
    if sum(max(chunk.length, 0) for chunk in request.chunks) > MAX_CONTENT_BYTES:
        raise UploadTooLarge(
            f"it has more than {MAX_CONTENT_BYTES >> 20:,} MB of uncompressed lines"
        )
    for chunk in request.chunks:
        _check_chunk(chunk)
    return request


class UploadLimits(Struct, frozen=True, kw_only=True):
    """How many uncompressed bytes a hub stores."""

    source_bytes: int = 4 * 1024**3
    """Of one file."""
    person_bytes: int = 1024**4
    """Of all files of a person."""


def _check_chunk(chunk: UploadChunk) -> None:
    """Validate a chunk, including its compressed frame."""
    if not _HOME_ID.fullmatch(chunk.home) or not chunk.path:
        raise UploadRejected("a chunk does not name its file")
    if not has_valid_names(chunk):
        raise UploadRejected("a chunk has an invalid name")
    if chunk.identity is not None and not is_valid_identity(chunk.identity):
        raise UploadRejected("a chunk has an invalid project")
    numbers = (chunk.generation, chunk.offset, chunk.length, chunk.client_offset)
    if any(not 0 <= number < 1 << 53 for number in numbers):
        raise UploadRejected("a chunk has a number that is out of range")
    if chunk.generation >= 1 << 31 or not 0 <= chunk.mtime_ns < 1 << 63:
        raise UploadRejected("a chunk has a number that is out of range")
    if len(chunk.fingerprint) > _MAX_FINGERPRINT_BYTES or (
        chunk.fingerprint and not chunk.kind.is_transcript
    ):
        raise UploadRejected("a chunk has an invalid fingerprint")
    if chunk.length or chunk.frame:
        _check_frame(chunk)


def _check_frame(chunk: UploadChunk) -> None:
    if not 0 < chunk.length <= MAX_LINE_BYTES or len(chunk.frame) > MAX_FRAME_BYTES:
        raise UploadRejected("a chunk is too long")
    try:
        # Decompression fails if a frame contains more than it declares.
        declared = zstandard.frame_content_size(chunk.frame)
        is_honest = declared == chunk.length
        raw = decompress(chunk.frame, is_foreign=True) if is_honest else b""
    except zstandard.ZstdError as error:
        raise UploadRejected(f"a chunk cannot be decompressed: {error}") from None
    if len(raw) != chunk.length or sha256_digest(raw) != chunk.sha256:
        raise UploadRejected("a chunk does not match its length or hash")
    if chunk.kind.is_transcript and not chunk.fingerprint and not raw.endswith(b"\n"):
        raise UploadRejected("a chunk does not end with a newline")
    if chunk.fingerprint and b"\n" in raw:
        raise UploadRejected("an unfinished line contains a newline")


class UploadHandler:
    """Stores the uploads of all people."""

    def __init__(
        self,
        store: TeamStore,
        blobs: ExternalBlobStore,
        limits: UploadLimits | None = None,
    ) -> None:
        self._store = store
        self._blobs = blobs
        self._limits = limits or UploadLimits()
        self._stored_bytes: dict[str, int] = {}
        """Uncompressed bytes by person; other hubs may have stored more meanwhile."""

    def source_states(self, token: AccessToken, machine: str) -> UploadResponse:
        """Return how much of each source of a machine is stored."""
        if not _MACHINE_ID.fullmatch(machine):
            raise UploadRejected("the machine id is missing or invalid")
        sources = self._store.machine_sources(token.person, machine)
        return UploadResponse(
            sources=tuple(map(_source_state, sources)),
            person=token.person,
            has_identities=True,
        )

    def handle(self, token: AccessToken, request: UploadRequest) -> UploadResponse:
        """Store the chunks of a request; return how much of each source is stored."""
        erased = self._store.find_tombstones(request.hashes) if request.hashes else ()
        sources = tuple(self._store_chunks(token, request))
        return UploadResponse(
            sources=sources, person=token.person, erased_hashes=tuple(erased)
        )

    def _store_chunks(
        self, token: AccessToken, request: UploadRequest
    ) -> Iterator[SourceState]:
        chunks_by_source = {
            _remote_source(token, request.machine, chunks[-1]): chunks
            for chunks in _group_by_source(request.chunks)
        }
        numbers = [source.number for source in chunks_by_source]
        stored = self._store.machine_sources(token.person, request.machine, numbers)
        known = {one.number: one for one in stored}
        new = [source for source in chunks_by_source if source.number not in known]
        erased = self._register_sources(new, chunks_by_source, known)
        updates: list[tuple[SourceUpdate, list[str]]] = []
        for source, chunks in chunks_by_source.items():
            if source.number in erased:
                yield SourceState(home=source.home, path=source.path, is_erased=True)
                continue
            before = known.get(source.number) or TeamSource(source=source)
            generation, missing = _missing_chunks(before, chunks)
            fragment = _new_fragment(before, chunks, missing)
            if (
                not missing
                and fragment is None
                and not _has_new_identity(source, generation, known.get(source.number))
            ):
                yield _source_state(before)
                continue
            self._check_limits(before, missing, generation)
            blobs = self._blobs.for_source(source.person, source.id)
            addresses = [blobs.put_frame(one.frame, one.sha256) for one in missing]
            update = SourceUpdate(
                source=source,
                generation=generation,
                spans=tuple(map(_stored_span, missing, addresses)),
                fragment=fragment,
            )
            updates.append((update, addresses))
        results = self._store.put_all([update for update, _ in updates])
        for (update, addresses), result in zip(updates, results, strict=True):
            if isinstance(result, TeamSource):
                yield _source_state(result)
            else:
                yield self._rejected_state(update.source, addresses)

    def _check_limits(
        self, before: TeamSource, missing: Sequence[UploadChunk], generation: int
    ) -> None:
        """Raise if a source or a person would have too many bytes."""
        person = before.source.person
        new = sum(chunk.length for chunk in missing)
        known = before.stored_bytes if generation == before.generation else 0
        if known + new > self._limits.source_bytes:
            limit = self._limits.source_bytes >> 20
            raise UploadTooLarge(f"{before.source.path} has more than {limit:,} MB")
        total = self._stored_bytes.get(person)
        if total is None:
            sources = self._store.list_sources(person)
            total = sum(source.stored_bytes for source in sources)
        if new and total + new > self._limits.person_bytes:
            self._stored_bytes.pop(person, None)  # something may be erased meanwhile
            limit = self._limits.person_bytes >> 20
            raise UploadTooLarge(f"{person} has more than {limit:,} MB")
        self._stored_bytes[person] = total + new

    def _register_sources(
        self,
        new: Sequence[RemoteSource],
        chunks_by_source: Mapping[RemoteSource, Sequence[UploadChunk]],
        known: dict[int, TeamSource],
    ) -> set[int]:
        """Add new sources to the store; return the numbers of those that were erased.

        This happens before their bytes are written, because blobs without a source may
        be removed at any time. For chunks without bytes the client only asks whether
        the source was erased.
        """
        with_bytes = [
            source
            for source in new
            if any(chunk.length for chunk in chunks_by_source[source])
        ]
        erased = self._store.find_erased(
            [source for source in new if source not in with_bytes]
        )
        results = self._store.put_all([SourceUpdate(source=one) for one in with_bytes])
        for source, result in zip(with_bytes, results, strict=True):
            if isinstance(result, TeamSource):
                known[source.number] = result
            else:
                erased.add(source.number)
        return erased

    def _rejected_state(
        self, source: RemoteSource, addresses: Sequence[str]
    ) -> SourceState:
        """Return the state of a source whose update was rejected."""
        for stored in self._store.machine_sources(
            source.person, source.machine, [source.number]
        ):
            return _source_state(stored)
        # It was erased while its bytes were being written.
        self._blobs.remove(addresses)
        return SourceState(home=source.home, path=source.path, is_erased=True)


def _group_by_source(chunks: Sequence[UploadChunk]) -> Iterable[list[UploadChunk]]:
    found: dict[tuple[str, str], list[UploadChunk]] = {}
    for chunk in chunks:
        found.setdefault((chunk.home, chunk.path), []).append(chunk)
    return found.values()


def _missing_chunks(
    before: TeamSource, chunks: Sequence[UploadChunk]
) -> tuple[int, list[UploadChunk]]:
    """Return the generation, and the chunks that continue a source without a gap."""
    generation = chunks[0].generation
    missing: list[UploadChunk] = []
    if generation < before.generation:
        return generation, missing
    offset = before.stored_bytes if generation == before.generation else 0
    for chunk in chunks:
        is_next = chunk.offset == offset and chunk.generation == generation
        if is_next and chunk.length and not chunk.fingerprint:
            missing.append(chunk)
            offset += chunk.length
    return generation, missing


def _new_fragment(
    before: TeamSource,
    chunks: Sequence[UploadChunk],
    missing: Sequence[UploadChunk],
) -> SourceFragment | None:
    """Return the unfinished last line, if it was uploaded and differs from before."""
    last = chunks[-1]
    if not last.fingerprint or last.generation < before.generation:
        return None
    is_new = last.generation > before.generation or bool(missing)
    offset = 0 if is_new else before.stored_bytes
    if missing:
        offset = missing[-1].offset + missing[-1].length
    if last.offset != offset or (not is_new and last.fingerprint == before.fingerprint):
        return None
    return SourceFragment(
        offset=last.offset, fingerprint=last.fingerprint, frame=last.frame
    )


def _has_new_identity(
    source: RemoteSource, generation: int, stored: TeamSource | None
) -> bool:
    """Whether a known source is of another project than before, or of a known one."""
    return (
        stored is not None
        and stored.generation == generation
        and source.identity not in {None, stored.source.identity}
    )


def _remote_source(
    token: AccessToken, machine: str, chunk: UploadChunk
) -> RemoteSource:
    return RemoteSource(
        person=token.person,
        teams=token.teams,
        machine=machine,
        home=chunk.home,
        path=chunk.path,
        kind=chunk.kind,
        project=ProjectKey(chunk.project) if chunk.project else None,
        session=SessionId(chunk.session) if chunk.session else None,
        agent=AgentId(chunk.agent) if chunk.agent else None,
        mtime_ns=chunk.mtime_ns,
        identity=chunk.identity,
    )


def _stored_span(chunk: UploadChunk, address: str) -> StoredSpan:
    return StoredSpan(
        offset=chunk.offset,
        length=chunk.length,
        client_offset=chunk.client_offset,
        sha256=chunk.sha256,
        address=address,
    )


def _source_state(stored: TeamSource) -> SourceState:
    return SourceState(
        home=stored.source.home,
        path=stored.source.path,
        generation=stored.generation,
        stored_bytes=stored.stored_bytes,
        client_offset=stored.client_offset,
        fingerprint=stored.fingerprint,
        identity=stored.source.identity,
    )
