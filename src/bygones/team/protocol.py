"""The messages between a client and its hub: uploads of redacted lines, and responses.

Nothing here says whose the lines are: the hub knows that from the token. Frames are
zstd, each of at most one chunk of a source, and go into the blob store unchanged.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct, msgpack

from bygones.model.base import SourceKind

__all__ = [
    "MAX_FRAME_BYTES",
    "MAX_LINE_BYTES",
    "PROGRESS_PATH",
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

PUSH_PATH = "/push"
"""Where requests go."""
PROGRESS_PATH = "/push/acks"
"""Where a machine asks how far it has come."""
TARGET_REQUEST_BYTES = 5_000_000
"""Bytes of a request. One line that takes more goes alone."""
MAX_LINE_BYTES = 64 * 1024 * 1024
"""Bytes of a line; one that is longer stays at home."""
MAX_FRAME_BYTES = 16 * 1024 * 1024
"""Bytes of a line when it is packed."""
_MAX_NAME_LENGTH = 4096


class UploadChunk(Struct, frozen=True, kw_only=True, array_like=True):
    """Lines of a source, redacted and packed, and where they belong.

    They are whole, or it is the last one alone, unfinished.
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
    """Where the sender's own file goes on behind these lines."""
    sha256: bytes
    """Of the redacted bytes."""
    frame: bytes
    fingerprint: bytes = b""
    """Of an unfinished last line: that by which its sender knows it again."""


class _NamedFile(Protocol):
    """A file, or a piece of one."""

    @property
    def path(self) -> str: ...
    @property
    def project(self) -> str | None: ...
    @property
    def session(self) -> str | None: ...
    @property
    def agent(self) -> str | None: ...


def has_valid_names(item: _NamedFile) -> bool:
    """Whether a file and what it is part of are called what a hub takes."""
    names = (item.path, item.project, item.session, item.agent)
    return all(name is None or _is_valid_name(name) for name in names)


def _is_valid_name(name: str) -> bool:
    parts = name.replace("\\", "/").split("/")
    return len(name) <= _MAX_NAME_LENGTH and name.isprintable() and ".." not in parts


class UploadRequest(Struct, frozen=True, kw_only=True):
    """What is sent at once."""

    machine: str
    chunks: tuple[UploadChunk, ...]
    has_more: bool = False
    """Whether another request follows at once: a hub may wait before deriving."""
    hashes: tuple[bytes, ...] = ()
    """Hashes of files: which were erased is asked, and which they are is not told."""


class SourceState(Struct, frozen=True, kw_only=True, array_like=True):
    """Up to where the hub has a source."""

    home: str
    path: str
    generation: int = 0
    stored_bytes: int = 0
    client_offset: int = 0
    is_erased: bool = False
    """Whether it was erased there, and is not wanted any more."""
    fingerprint: bytes = b""
    """That of the unfinished last line behind all this, if there is one."""


class UploadResponse(Struct, frozen=True, kw_only=True):
    """What the hub has: of a machine, or of what was just sent."""

    sources: tuple[SourceState, ...] = ()
    person: str = ""
    """Whose the token is."""
    erased_hashes: tuple[bytes, ...] = ()
    """Those hashes that were asked for and are of what was erased."""


_request_decoder = msgpack.Decoder(UploadRequest)
_response_decoder = msgpack.Decoder(UploadResponse)


def encode_message(message: UploadRequest | UploadResponse) -> bytes:
    """Return a request or an answer as it is sent."""
    return msgpack.encode(message)


def decode_request(raw: bytes) -> UploadRequest:
    """Return a request that came.

    :raises msgspec.MsgspecError: if it is none.
    """
    return _request_decoder.decode(raw)


def decode_response(raw: bytes) -> UploadResponse:
    """Return an answer that came.

    :raises msgspec.MsgspecError: if it is none.
    """
    return _response_decoder.decode(raw)
