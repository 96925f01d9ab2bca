"""Handle uploads: bytes go to the blob store, then spans to the team store.

The token says whose an upload is. An invalid request is rejected before anything is
written; erased sources are rejected before their bytes are. A request may come twice,
or in part: the response says up to where each source is stored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
import zstandard

from bygones.errors import UploadRejected
from bygones.model.base import AgentId, ProjectKey, SessionId
from bygones.store.compression import decompress, sha256_digest
from bygones.team.access import AccessToken
from bygones.team.blobs import ExternalBlobStore
from bygones.team.contract import (
    RemoteSource,
    SourceFragment,
    SourceUpdate,
    StoredSpan,
    TeamSource,
)
from bygones.team.protocol import (
    MAX_FRAME_BYTES,
    MAX_LINE_BYTES,
    SourceState,
    UploadChunk,
    UploadRequest,
    UploadResponse,
    decode_request,
    has_valid_names,
)
from bygones.team.stores.base import TeamStore

__all__ = ["UploadHandler", "parse_request"]

_MACHINE_ID = re.compile(r"[0-9a-f]{32}")
_HOME_ID = re.compile(r"[0-9a-f]{16}")
_MAX_CHUNKS = 10_000
"""Chunks of a request."""
_HASH_BYTES = 32
"""Bytes of a hash."""
_MAX_FINGERPRINT_BYTES = 32
"""Bytes of the mark of an unfinished line, at most."""


def parse_request(body: bytes) -> UploadRequest:
    """Return a request that is what it has to be, whoever sent it.

    :raises ParcelRefused: if it is not.
    """
    try:
        parcel = decode_request(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UploadRejected(f"it cannot be read: {error}") from None
    if not _MACHINE_ID.fullmatch(parcel.machine):
        raise UploadRejected("it does not say which machine it is from")
    if len(parcel.chunks) > _MAX_CHUNKS:
        raise UploadRejected(f"it has more than {_MAX_CHUNKS:,} pieces")
    if len(parcel.hashes) > _MAX_CHUNKS or any(
        len(sign) != _HASH_BYTES for sign in parcel.hashes
    ):
        raise UploadRejected("it asks for what cannot be")
    for piece in parcel.chunks:
        _check_chunk(piece)
    return parcel


def _check_chunk(chunk: UploadChunk) -> None:
    """Raise unless a piece is in order; its frame is opened for that."""
    if not _HOME_ID.fullmatch(chunk.home) or not chunk.path:
        raise UploadRejected("a piece does not say which file it is of")
    if not has_valid_names(chunk):
        raise UploadRejected("a piece has a name that cannot be one")
    numbers = (chunk.generation, chunk.offset, chunk.length, chunk.client_offset)
    if any(not 0 <= number < 1 << 53 for number in numbers):
        raise UploadRejected("a piece has a number that cannot be one")
    if chunk.generation >= 1 << 31 or not 0 <= chunk.mtime_ns < 1 << 63:
        raise UploadRejected("a piece has a number that cannot be one")
    if len(chunk.fingerprint) > _MAX_FINGERPRINT_BYTES or (
        chunk.fingerprint and not chunk.kind.is_transcript
    ):
        raise UploadRejected("a piece has a mark that cannot be one")
    if chunk.length or chunk.frame:
        _check_frame(chunk)


def _check_frame(chunk: UploadChunk) -> None:
    if not 0 < chunk.length <= MAX_LINE_BYTES or len(chunk.frame) > MAX_FRAME_BYTES:
        raise UploadRejected("a piece is too long")
    try:
        # A frame that unpacks to more than it says fails; all of ours say.
        told = zstandard.frame_content_size(chunk.frame)
        raw = decompress(chunk.frame) if told == chunk.length else b""
    except zstandard.ZstdError as error:
        raise UploadRejected(f"a piece cannot be unpacked: {error}") from None
    if len(raw) != chunk.length or sha256_digest(raw) != chunk.sha256:
        raise UploadRejected("a piece is not what it says")
    if chunk.kind.is_transcript and not chunk.fingerprint and not raw.endswith(b"\n"):
        raise UploadRejected("a piece does not end with a line")
    if chunk.fingerprint and b"\n" in raw:
        raise UploadRejected("a piece has a line behind the last one")


class UploadHandler:
    """Takes requests in, for any person."""

    def __init__(self, store: TeamStore, blobs: ExternalBlobStore) -> None:
        self._store = store
        self._blobs = blobs

    def source_states(self, token: AccessToken, machine: str) -> UploadResponse:
        """Return up to where each source of a person's machine is there."""
        if not _MACHINE_ID.fullmatch(machine):
            raise UploadRejected("it does not say which machine it is from")
        acks = self._store.machine_sources(token.person, machine)
        return UploadResponse(
            sources=tuple(map(_source_state, acks)), person=token.person
        )

    def handle(self, token: AccessToken, request: UploadRequest) -> UploadResponse:
        """Keep what a request holds, and return up to where its sources are there."""
        erased = self._store.find_tombstones(request.hashes) if request.hashes else ()
        sources = tuple(self._store_chunks(token, request))
        return UploadResponse(
            sources=sources, person=token.person, erased_hashes=tuple(erased)
        )

    def _store_chunks(
        self, token: AccessToken, request: UploadRequest
    ) -> Iterator[SourceState]:
        came: dict[RemoteSource, list[UploadChunk]] = {}
        for pieces in _group_by_source(request.chunks):
            came[_remote_source(token, request.machine, pieces[-1])] = pieces
        numbers = [sent.number for sent in came]
        acks = self._store.machine_sources(token.person, request.machine, numbers)
        known = {ack.source.number: ack for ack in acks}
        new = [sent for sent in came if sent.number not in known]
        refused = self._register_sources(new, came, known)
        waiting: list[tuple[SourceUpdate, list[str]]] = []
        for sent, pieces in came.items():
            if sent.number in refused:
                yield SourceState(home=sent.home, path=sent.path, is_erased=True)
                continue
            ack = known.get(sent.number) or TeamSource(source=sent)
            generation, fresh = _next_chunks(ack, pieces)
            fragment = _new_fragment(ack, pieces, fresh)
            if not fresh and fragment is None:
                yield _source_state(ack)
                continue
            place = self._blobs.for_source(sent.person, sent.id)
            written = [place.put_frame(p.frame, p.sha256) for p in fresh]
            batch = SourceUpdate(
                source=sent,
                generation=generation,
                spans=tuple(map(_stored_span, fresh, written)),
                fragment=fragment,
            )
            waiting.append((batch, written))
        told = self._store.put_all([batch for batch, _ in waiting]) if waiting else ()
        for (batch, written), one in zip(waiting, told, strict=True):
            if isinstance(one, TeamSource):
                yield _source_state(one)
            else:
                yield self._rejected_state(batch.source, written)

    def _register_sources(
        self,
        new: Sequence[RemoteSource],
        chunks_by_source: Mapping[RemoteSource, Sequence[UploadChunk]],
        progress_by_number: dict[int, TeamSource],
    ) -> set[int]:
        """Note new sources before any byte of them is written; return the erased.

        Whoever sweeps the blob store removes what is of no source. Of what has no bytes
        it is only asked whether it may come.
        """
        asked = [
            sent
            for sent in new
            if not any(one.length for one in chunks_by_source[sent])
        ]
        refused = self._store.find_erased(asked) if asked else set()
        begun = [
            sent for sent in new if any(one.length for one in chunks_by_source[sent])
        ]
        batches = [SourceUpdate(source=sent) for sent in begun]
        told = self._store.put_all(batches) if batches else ()
        for sent, one in zip(begun, told, strict=True):
            if isinstance(one, TeamSource):
                progress_by_number[sent.number] = one
            else:
                refused.add(sent.number)
        return refused

    def _rejected_state(
        self, source: RemoteSource, written: Sequence[str]
    ) -> SourceState:
        """Return where a source stands that did not fit, or that it is not wanted."""
        for ack in self._store.machine_sources(
            source.person, source.machine, [source.number]
        ):
            return _source_state(ack)
        # It was erased while its bytes were being written: they go as well.
        self._blobs.remove(written)
        return SourceState(home=source.home, path=source.path, is_erased=True)


def _group_by_source(chunks: Sequence[UploadChunk]) -> Iterable[list[UploadChunk]]:
    """Return chunks by the source that they are of, in their order."""
    found: dict[tuple[str, str], list[UploadChunk]] = {}
    for piece in chunks:
        found.setdefault((piece.home, piece.path), []).append(piece)
    return found.values()


def _next_chunks(
    progress: TeamSource, chunks: Sequence[UploadChunk]
) -> tuple[int, list[UploadChunk]]:
    """Return the chunks that go on where a source stops; none behind a gap."""
    generation, fresh = chunks[0].generation, []
    upto = progress.stored_bytes if generation == progress.generation else 0
    for piece in chunks:
        is_due = piece.offset == upto and piece.generation == generation
        is_whole = piece.length and not piece.fingerprint
        if is_due and is_whole and generation >= progress.generation:
            fresh.append(piece)
            upto += piece.length
    return generation, fresh


def _new_fragment(
    progress: TeamSource,
    chunks: Sequence[UploadChunk],
    fresh: Sequence[UploadChunk],
) -> SourceFragment | None:
    """Return the unfinished last line, if it came, fits and is another than before."""
    last = chunks[-1]
    if not last.fingerprint or last.generation < progress.generation:
        return None
    is_anew = last.generation > progress.generation or bool(fresh)
    upto = (
        fresh[-1].offset + fresh[-1].length
        if fresh
        else 0
        if is_anew
        else progress.stored_bytes
    )
    if last.offset != upto or (
        not is_anew and last.fingerprint == progress.fingerprint
    ):
        return None
    return SourceFragment(
        offset=last.offset, fingerprint=last.fingerprint, frame=last.frame
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
    )


def _stored_span(chunk: UploadChunk, address: str) -> StoredSpan:
    return StoredSpan(
        offset=chunk.offset,
        length=chunk.length,
        client_offset=chunk.client_offset,
        sha256=chunk.sha256,
        address=address,
    )


def _source_state(progress: TeamSource) -> SourceState:
    return SourceState(
        home=progress.source.home,
        path=progress.source.path,
        generation=progress.generation,
        stored_bytes=progress.stored_bytes,
        client_offset=progress.client_offset,
        fingerprint=progress.fingerprint,
    )
