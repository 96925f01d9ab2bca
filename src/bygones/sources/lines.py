"""Opening a source without waiting, without following a link, without raising."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from bygones.model.base import Line, Position, Problem, SourceFile, SourceId
from bygones.sources.paths import decode_path

# A pipe with the name of a transcript must not make us wait, and a link that takes
# the place of a file after the walk must not lead us elsewhere.
_OPEN_FLAGS = os.O_RDONLY
for _flag_name in ("O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY"):
    _OPEN_FLAGS |= getattr(os, _flag_name, 0)

_MAX_READ_SIZE = 1 << 30
"""Systems hand out less than 2 GiB a call, whatever is asked for."""


def get_source_id(source: SourceFile | SourceId) -> SourceId:
    """Return the id of a source that may be given by its id alone."""
    return source.id if isinstance(source, SourceFile) else source


def source_problem(
    kind: str, source: SourceId, detail: str = "", *, offset: int = 0, length: int = 0
) -> Problem:
    """Return a problem with a whole source, or with some bytes of it."""
    return Problem(kind, Position(source, 0, offset, length), detail)


def problem_from_error(error: OSError | ValueError, source: SourceId) -> Problem:
    """Return what the system's refusal means to the reader."""
    if not isinstance(error, OSError):  # a name that no file can have
        return source_problem("unreadable", source, str(error))
    detail = error.strerror or type(error).__name__
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return source_problem("vanished", source, detail)
    if isinstance(error, IsADirectoryError) or error.errno == errno.ENXIO:
        return source_problem("not-a-file", source, detail)
    return source_problem("unreadable", source, detail)


@contextmanager
def open_source(source: SourceId) -> Iterator[tuple[int, int] | Problem]:
    """Give the descriptor and the present size of a source, or the problem with it."""
    descriptor = -1
    try:
        found: tuple[int, int] | Problem
        try:
            descriptor = os.open(decode_path(source), _OPEN_FLAGS)
            found = _check_regular_file(descriptor, source)
        except (OSError, ValueError) as error:
            found = _problem_from_open_error(error, source)
        yield found
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def read_range(descriptor: int, start: int, end: int) -> bytes:
    """Return the bytes from ``start`` to ``end``; fewer only if the file is shorter."""
    os.lseek(descriptor, start, os.SEEK_SET)
    pieces = []
    while start < end:
        piece = os.read(descriptor, min(end - start, _MAX_READ_SIZE))
        if not piece:
            break
        pieces.append(piece)
        start += len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _check_regular_file(descriptor: int, source: SourceId) -> tuple[int, int] | Problem:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        return source_problem("not-a-file", source, "not a regular file")
    return descriptor, status.st_size


def _problem_from_open_error(error: OSError | ValueError, source: SourceId) -> Problem:
    if isinstance(error, OSError) and error.errno in {errno.ELOOP, errno.EMLINK}:
        return source_problem("link-out", source, "a link took the place of the file")
    return problem_from_error(error, source)


_BUFFER_SIZE = 1 << 18
"""Fits into a processor's cache; larger blocks were slower."""


def read_lines(
    source: SourceFile | SourceId,
    *,
    start: int = 0,
    generation: int = 0,
    buffer_size: int = _BUFFER_SIZE,
) -> Iterator[Line | Problem]:
    r"""Yield the lines of a source from the byte ``start`` on, which begins a line.

    Lines end at byte 0x0A and nowhere else; a carriage return stays in the line.
    Only the last line may not be ``ended``. Reading stops where the file ended when
    it was opened, so a file that grows meanwhile has one consistent end. Memory is a
    block, or twice the longest line. The raw bytes with their newlines, joined, are
    the bytes of the file. A problem, if there is one, comes last.
    """
    name = get_source_id(source)
    with open_source(name) as found:
        if isinstance(found, Problem):
            yield found
            return
        blocks = _read_buffers(found, name, start, buffer_size)
        yield from _iter_lines(blocks, name, start, generation)


def read_line_blocks(
    source: SourceFile | SourceId,
    *,
    target_size: int,
    start: int = 0,
    buffer_size: int = _BUFFER_SIZE,
) -> Iterator[tuple[int, bytes] | Problem]:
    """Yield the bytes of a source from ``start`` on, with where they begin.

    Whole lines, together about ``size`` bytes or one line of more; the last line, if
    it is not finished, comes alone. As with :func:`read_lines`, the file ends where
    it ended when it was opened, and a problem comes last.
    """
    name = get_source_id(source)
    with open_source(name) as found:
        if isinstance(found, Problem):
            yield found
            return
        waiting: list[bytes] = []
        weight = 0
        problem = None
        for raw in _read_buffers(found, name, start, buffer_size):
            if isinstance(raw, Problem):
                problem = raw
                break
            waiting.append(raw)
            weight += len(raw)
            end = raw.rfind(b"\n") + 1 if weight >= target_size else 0
            if end:
                waiting[-1] = raw[:end]
                whole, waiting = waiting, [raw[end:]]
                begun, start = start, start + weight - len(waiting[0])
                weight = len(waiting[0])
                yield begun, _join_and_clear(whole)
        yield from _split_unfinished(start, _join_and_clear(waiting))
        if problem:
            yield problem


def _join_and_clear(parts: list[bytes]) -> bytes:
    """Return parts as one, and let go of them: they may be those of a giant line."""
    raw = b"".join(parts)
    parts.clear()
    return raw


def _split_unfinished(start: int, raw: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the whole lines that are left, and then what is not finished."""
    end = raw.rfind(b"\n") + 1
    raw, rest = raw[:end], raw[end:]
    if raw:
        yield start, raw
    if rest:
        yield start + end, rest


def read_at(position: Position, *, read_ahead: int = 0) -> bytes | Problem:
    """Return the bytes at a position, or why they are not there any more.

    ``ahead`` is how many to read if the file has them: who asks for one line will soon
    ask for the next. Whether they are still the same bytes is not looked at: compare
    the source's :class:`~bygones.sources.fingerprint.Mark` for that.
    """
    with open_source(position.source_id) as found:
        if isinstance(found, Problem):
            return found
        end = position.offset + max(position.length, read_ahead)
        try:
            raw = read_range(found[0], position.offset, min(end, found[1]))
        except OSError as error:
            return problem_from_error(error, position.source_id)
    if len(raw) >= position.length:
        return raw
    return Problem(
        "shrunk", position, f"{len(raw)} of {position.length} bytes are left"
    )


def _read_buffers(
    opened_file: tuple[int, int], source: SourceId, start: int, buffer_size: int
) -> Iterator[bytes | Problem]:
    descriptor, size = opened_file
    if start > size:
        yield source_problem("shrunk", source, f"{size} bytes are left", offset=start)
        return
    try:
        os.lseek(descriptor, start, os.SEEK_SET)
        while start < size:
            raw = os.read(descriptor, min(buffer_size, size - start))
            if not raw:
                yield source_problem(
                    "shrunk", source, "while it was read", offset=start
                )
                return
            start += len(raw)
            yield raw
    except OSError as error:
        yield problem_from_error(error, source)


def _iter_lines(
    buffers: Iterator[bytes | Problem], source: SourceId, offset: int, generation: int
) -> Iterator[Line | Problem]:
    unfinished: list[bytes] = []
    problem = None
    for block in buffers:
        if isinstance(block, Problem):
            problem = block
            break
        raws = block.split(b"\n")
        rest = raws.pop()
        if raws and unfinished:
            # Joined once, when the end is known: a line of many blocks costs its
            # length, not its square.
            unfinished.append(raws[0])
            raws[0] = b"".join(unfinished)
            unfinished.clear()
        for raw in raws:
            length = len(raw)
            yield Line(Position(source, generation, offset, length), raw)
            offset += length + 1
        if rest:
            unfinished.append(rest)
    if unfinished:
        raw = b"".join(unfinished)
        yield Line(
            Position(source, generation, offset, len(raw)), raw, has_newline=False
        )
    if problem:
        yield problem


def split_lines(
    source: SourceId, generation: int, start: int, raw: bytes
) -> list[Line]:
    """Return the lines of bytes that begin at ``start`` of a source.

    The bytes end with a newline, or the last line is unfinished.
    """
    lines = []
    *whole, rest = raw.split(b"\n")
    for one in whole:
        length = len(one)
        lines.append(Line(Position(source, generation, start, length), one))
        start += length + 1
    if rest:
        place = Position(source, generation, start, len(rest))
        lines.append(Line(place, rest, has_newline=False))
    return lines
