"""The messages between a client and its hub: uploads of redacted lines, and responses.

Nothing here says whose the lines are: the hub knows that from the token. Frames are
zstd, one per chunk of a source, and go into the blob store unchanged.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct, msgpack

from bygones.model.base import SourceKind

__all__ = [
    "MAX_FRAME_BYTES",
    "MAX_LINE_BYTES",
    "PROGRESS_PATH",
    "PROTOCOL_VERSION",
    "PUSH_PATH",
    "TARGET_REQUEST_BYTES",
    "SourceState",
    "UploadChunk",
    "UploadRequest",
    "UploadResponse",
    "decode_request",
    "decode_response",
    "encode_message",
    "has_valid_names",
]

PROTOCOL_VERSION = 1
"""Grows with every change that an older hub would not understand."""
PUSH_PATH = "/push"
"""Where uploads are posted."""
PROGRESS_PATH = "/push/acks"
"""Where a client asks what the hub has of its machine."""
TARGET_REQUEST_BYTES = 5_000_000
"""Bytes of a request. A line that takes more is uploaded alone."""
MAX_LINE_BYTES = 64 * 1024 * 1024
"""Bytes of a line; longer ones are not uploaded."""
MAX_FRAME_BYTES = 16 * 1024 * 1024
"""Bytes of a compressed line."""
_MAX_NAME_LENGTH = 4096


class UploadChunk(Struct, frozen=True, kw_only=True, array_like=True):
    """Lines of a source, redacted and compressed, and where they belong.

    Either complete lines, or only the unfinished last one.
    """

    home: str
    path: str
    kind: SourceKind
    project: str | None
    session: str | None
    agent: str | None
    mtime_ns: int
    generation: int
    offset: int
    """In the redacted bytes of this generation."""
    length: int
    """Of the redacted bytes."""
    client_offset: int
    """Where the client's own file continues after these lines."""
    sha256: bytes
    """Of the redacted bytes."""
    frame: bytes
    fingerprint: bytes = b""
    """Of an unfinished last line, by which the client recognizes it."""


class _NamedFile(Protocol):
    """A source, or a chunk of one."""

    @property
    def path(self) -> str: ...
    @property
    def project(self) -> str | None: ...
    @property
    def session(self) -> str | None: ...
    @property
    def agent(self) -> str | None: ...


def has_valid_names(item: _NamedFile) -> bool:
    """Whether a hub accepts the names of a source."""
    names = (item.path, item.project, item.session, item.agent)
    return all(name is None or _is_valid_name(name) for name in names)


def _is_valid_name(name: str) -> bool:
    parts = name.replace("\\", "/").split("/")
    return len(name) <= _MAX_NAME_LENGTH and name.isprintable() and ".." not in parts


class UploadRequest(Struct, frozen=True, kw_only=True):
    """Chunks of several sources of one machine."""

    version: int = PROTOCOL_VERSION
    machine: str
    chunks: tuple[UploadChunk, ...]
    has_more: bool = False
    """Whether another request follows: the hub may wait before deriving."""
    hashes: tuple[bytes, ...] = ()
    """Hashes of sources, to learn which were erased without naming the others."""


class SourceState(Struct, frozen=True, kw_only=True, array_like=True):
    """How much of a source the hub has."""

    home: str
    path: str
    generation: int = 0
    stored_bytes: int = 0
    client_offset: int = 0
    is_erased: bool = False
    """Whether it was erased there; the hub rejects it."""
    fingerprint: bytes = b""
    """That of the unfinished last line after the stored bytes, if there is one."""


class UploadResponse(Struct, frozen=True, kw_only=True):
    """What the hub has of a machine, or of the sources of a request."""

    sources: tuple[SourceState, ...] = ()
    person: str = ""
    """The owner of the token."""
    erased_hashes: tuple[bytes, ...] = ()
    """Those hashes of the request whose source was erased."""


_request_decoder = msgpack.Decoder(UploadRequest)
_response_decoder = msgpack.Decoder(UploadResponse)


def encode_message(message: UploadRequest | UploadResponse) -> bytes:
    return msgpack.encode(message)


def decode_request(raw: bytes) -> UploadRequest:
    """Decode a request.

    :raises msgspec.MsgspecError: if it is not valid.
    """
    return _request_decoder.decode(raw)


def decode_response(raw: bytes) -> UploadResponse:
    """Decode a response.

    :raises msgspec.MsgspecError: if it is not valid.
    """
    return _response_decoder.decode(raw)
