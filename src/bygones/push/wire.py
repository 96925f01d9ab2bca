"""What passes between a machine and its hub: parcels of masked lines, and answers.

Nothing here says whose the lines are: that the hub knows from the token. Frames are
zstd, each of at most a piece of a source, and go into the raw store as they came.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct, msgpack

from bygones.model.sources import SourceKind

__all__ = [
    "ACKS",
    "LONGEST_FRAME",
    "LONGEST_LINE",
    "PARCEL",
    "PUSH",
    "Answer",
    "Known",
    "Packed",
    "Parcel",
    "has_names",
    "pack",
    "unpack_answer",
    "unpack_parcel",
]

PUSH = "/push"
"""Where parcels go."""
ACKS = "/push/acks"
"""Where a machine asks how far it has come."""
PARCEL = 5_000_000
"""Bytes of a parcel. One line that takes more goes alone."""
LONGEST_LINE = 64 * 1024 * 1024
"""Bytes of a line; one that is longer stays at home."""
LONGEST_FRAME = 16 * 1024 * 1024
"""Bytes of a line when it is packed."""
_LONGEST_NAME = 4096


class Packed(Struct, frozen=True, kw_only=True, array_like=True):
    """Lines of a source, masked and packed, and where they belong.

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
    """In the masked bytes of this generation."""
    length: int
    """Of the masked bytes."""
    origin: int
    """Where the sender's own file goes on behind these lines."""
    sha256: bytes
    """Of the masked bytes."""
    frame: bytes
    mark: bytes = b""
    """Of an unfinished last line: that by which its sender knows it again."""


class _Called(Protocol):
    """A file, or a piece of one."""

    @property
    def path(self) -> str: ...
    @property
    def project(self) -> str | None: ...
    @property
    def session(self) -> str | None: ...
    @property
    def agent(self) -> str | None: ...


def has_names(one: _Called) -> bool:
    """Whether a file and what it is part of are called what a hub takes."""
    names = (one.path, one.project, one.session, one.agent)
    return all(name is None or _is_name(name) for name in names)


def _is_name(name: str) -> bool:
    parts = name.replace("\\", "/").split("/")
    return len(name) <= _LONGEST_NAME and name.isprintable() and ".." not in parts


class Parcel(Struct, frozen=True, kw_only=True):
    """What is sent at once."""

    machine: str
    pieces: tuple[Packed, ...]
    more: bool = False
    """Whether another parcel follows at once: a hub may wait for it and derive then."""
    signs: tuple[bytes, ...] = ()
    """Hashes of files: which were erased is asked, and which they are is not told."""


class Known(Struct, frozen=True, kw_only=True, array_like=True):
    """Up to where the hub has a source."""

    home: str
    path: str
    generation: int = 0
    upto: int = 0
    origin: int = 0
    is_refused: bool = False
    """Whether it was erased there, and is not wanted any more."""
    mark: bytes = b""
    """That of the unfinished last line behind all this, if there is one."""


class Answer(Struct, frozen=True, kw_only=True):
    """What the hub has: of a machine, or of what was just sent."""

    sources: tuple[Known, ...] = ()
    person: str = ""
    """Whose the token is."""
    erased: tuple[bytes, ...] = ()
    """Those hashes that were asked for and are of what was erased."""


_parcels = msgpack.Decoder(Parcel)
_answers = msgpack.Decoder(Answer)


def pack(value: Parcel | Answer) -> bytes:
    """Return a parcel or an answer as it is sent."""
    return msgpack.encode(value)


def unpack_parcel(raw: bytes) -> Parcel:
    """Return a parcel that came.

    :raises msgspec.MsgspecError: if it is none.
    """
    return _parcels.decode(raw)


def unpack_answer(raw: bytes) -> Answer:
    """Return an answer that came.

    :raises msgspec.MsgspecError: if it is none.
    """
    return _answers.decode(raw)
