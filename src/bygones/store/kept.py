"""What the archive knows of a source, and where its bytes are."""

from __future__ import annotations

from sys import intern
from typing import Any
from zlib import crc32

from msgspec import Struct

from bygones.model.ids import AgentId, ProjectKey, SessionId, SourceId
from bygones.model.sources import Source, SourceKind

__all__ = ["Chunk", "Kept", "kept_of_row"]

Row = tuple[Any, ...]
"""Whatever a database gives."""


class Kept(Struct, frozen=True):
    """A source as the archive has it: how far, and by which signs it is known."""

    number: int
    home: str
    path: str
    kind: SourceKind
    project: ProjectKey | None = None
    session: SessionId | None = None
    agent: AgentId | None = None
    generation: int = 0
    gone_ns: int | None = None
    kept: int = 0
    """Bytes in chunks: all whole lines."""
    size: int = 0
    mtime_ns: int = 0
    ctime_ns: int = 0
    inode: int = 0
    head: bytes = b""
    tail: bytes = b""
    rest: bytes = b""

    @property
    def id(self) -> SourceId:
        """The path as it was found."""
        return SourceId(f"{self.home}/{self.path}" if self.home else self.path)

    @property
    def sign(self) -> int:
        """A number that is another one once the file is moved, touched or cut off."""
        told = f"{self.home}/{self.path} {self.size} {self.mtime_ns} "
        return crc32(told.encode("utf-8", "replace") + self.rest)

    @property
    def source(self) -> Source:
        """The source as the last walk saw it."""
        return Source(
            id=self.id,
            home=self.home,
            path=self.path,
            kind=self.kind,
            size=self.size,
            mtime_ns=self.mtime_ns,
            inode=self.inode,
            ctime_ns=self.ctime_ns,
            project=self.project,
            session=self.session,
            agent=self.agent,
        )


class Chunk(Struct, frozen=True):
    """Where some bytes of a source are in the archive."""

    id: int
    source: int
    generation: int
    start: int
    stop: int
    hash: bytes


def kept_of_row(row: Row) -> Kept:
    """Return a source by its row, whose columns stand in the order of the fields.

    Homes and projects are few, and a hundred thousand sources may name them.
    """
    number, home, path, kind, project, *others = row
    key = ProjectKey(intern(project)) if project is not None else None
    return Kept(number, intern(home), path, SourceKind(kind), key, *others)
