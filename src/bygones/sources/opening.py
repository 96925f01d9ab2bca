"""Opening a source without waiting, without following a link, without raising."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from bygones.model.ids import Position, SourceId
from bygones.model.problems import Problem
from bygones.model.sources import Source
from bygones.sources.names import native_path

__all__ = ["id_of", "opened", "problem_at", "problem_of", "read_window"]

# A pipe with the name of a transcript must not make us wait, and a link that takes
# the place of a file after the walk must not lead us elsewhere.
_FLAGS = os.O_RDONLY
for _name in ("O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY"):
    _FLAGS |= getattr(os, _name, 0)

_MOST_AT_ONCE = 1 << 30
"""Systems hand out less than 2 GiB a call, whatever is asked for."""


def id_of(source: Source | SourceId) -> SourceId:
    """Return the id of a source that may be given by its id alone."""
    return source.id if isinstance(source, Source) else source


def problem_at(
    kind: str, source: SourceId, detail: str = "", *, offset: int = 0, length: int = 0
) -> Problem:
    """Return a problem with a whole source, or with some bytes of it."""
    return Problem(kind, Position(source, 0, offset, length), detail)


def problem_of(error: OSError | ValueError, source: SourceId) -> Problem:
    """Return what the system's refusal means to the reader."""
    if not isinstance(error, OSError):  # a name that no file can have
        return problem_at("unreadable", source, str(error))
    detail = error.strerror or type(error).__name__
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return problem_at("vanished", source, detail)
    if isinstance(error, IsADirectoryError) or error.errno == errno.ENXIO:
        return problem_at("not-a-file", source, detail)
    return problem_at("unreadable", source, detail)


@contextmanager
def opened(source: SourceId) -> Iterator[tuple[int, int] | Problem]:
    """Give the descriptor and the present size of a source, or the problem with it."""
    descriptor = -1
    try:
        found: tuple[int, int] | Problem
        try:
            descriptor = os.open(native_path(source), _FLAGS)
            found = _sized(descriptor, source)
        except (OSError, ValueError) as error:
            found = _refused(error, source)
        yield found
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def read_window(descriptor: int, start: int, end: int) -> bytes:
    """Return the bytes from ``start`` to ``end``; fewer only if the file is shorter."""
    os.lseek(descriptor, start, os.SEEK_SET)
    pieces = []
    while start < end:
        piece = os.read(descriptor, min(end - start, _MOST_AT_ONCE))
        if not piece:
            break
        pieces.append(piece)
        start += len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _sized(descriptor: int, source: SourceId) -> tuple[int, int] | Problem:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        return problem_at("not-a-file", source, "not a regular file")
    return descriptor, status.st_size


def _refused(error: OSError | ValueError, source: SourceId) -> Problem:
    if isinstance(error, OSError) and error.errno in {errno.ELOOP, errno.EMLINK}:
        return problem_at("link-out", source, "a link took the place of the file")
    return problem_of(error, source)
