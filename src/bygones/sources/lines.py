"""Reads lines of a source; failures become problems instead of exceptions."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BytesIO
from itertools import groupby

from bygones.model.base import (
    Line,
    Position,
    Problem,
    SourceFile,
    SourceId,
    decode_path,
)

# Do not block on a pipe that is named like a transcript, and do not follow a link that
# replaced a file after the walk.
_OPEN_FLAGS = os.O_RDONLY
for _flag_name in ("O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY"):
    _OPEN_FLAGS |= getattr(os, _flag_name, 0)

_MAX_READ_SIZE = 1 << 30
"""A system call reads less than 2 GiB."""


def get_source_id(source: SourceFile | SourceId) -> SourceId:
    return source.id if isinstance(source, SourceFile) else source


def source_problem(
    kind: str, source: SourceId, detail: str = "", *, offset: int = 0, length: int = 0
) -> Problem:
    """Return a problem with a source, or with a range of its bytes."""
    return Problem(kind, Position(source, 0, offset, length), detail)


def problem_from_error(error: OSError | ValueError, source: SourceId) -> Problem:
    if not isinstance(error, OSError):  # a path that cannot exist
        return source_problem("unreadable", source, str(error))
    detail = error.strerror or type(error).__name__
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return source_problem("vanished", source, detail)
    if isinstance(error, IsADirectoryError) or error.errno == errno.ENXIO:
        return source_problem("not-a-file", source, detail)
    return source_problem("unreadable", source, detail)


@contextmanager
def open_source(source: SourceId) -> Iterator[tuple[int, int] | Problem]:
    """Open a source and yield its descriptor and size, or the problem."""
    descriptor = -1
    try:
        opened: tuple[int, int] | Problem
        try:
            descriptor = os.open(decode_path(source), _OPEN_FLAGS)
            opened = _check_regular_file(descriptor, source)
        except (OSError, ValueError) as error:
            opened = _problem_from_open_error(error, source)
        yield opened
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def read_range(descriptor: int, start: int, end: int) -> bytes:
    """Return the bytes from `start` to `end`, fewer if the file is shorter."""
    os.lseek(descriptor, start, os.SEEK_SET)
    chunks = []
    while start < end:
        chunk = os.read(descriptor, min(end - start, _MAX_READ_SIZE))
        if not chunk:
            break
        chunks.append(chunk)
        start += len(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _check_regular_file(descriptor: int, source: SourceId) -> tuple[int, int] | Problem:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        return source_problem("not-a-file", source, "not a regular file")
    return descriptor, status.st_size


def _problem_from_open_error(error: OSError | ValueError, source: SourceId) -> Problem:
    if isinstance(error, OSError) and error.errno in {errno.ELOOP, errno.EMLINK}:
        return source_problem("link-out", source, "a link took the place of the file")
    return problem_from_error(error, source)


LONG_LINE_BYTES = 4 << 20
"""Longer lines are read, split and decoded without copies of them."""
_BUFFER_SIZE = 1 << 18
"""Small enough for the CPU cache; larger buffers are slower."""


def read_lines(
    source: SourceFile | SourceId,
    *,
    start: int = 0,
    generation: int = 0,
    buffer_size: int = _BUFFER_SIZE,
    merge_repeats: bool = False,
) -> Iterator[Line | Problem]:
    """Yield the lines of a source from the byte `start`, which starts a line.

    Lines end at byte 0x0A only; a carriage return is part of the line. The last line may
    lack the newline. Reading stops at the end that the file had when it was opened. The
    raw bytes, joined by newlines, are the bytes of the file. A problem comes last. Memory
    use is one buffer, or twice the longest line.
    """
    source_id = get_source_id(source)
    for block in read_line_blocks(
        source, target_size=1, start=start, buffer_size=buffer_size
    ):
        if isinstance(block, Problem):
            yield block
        else:
            yield from split_lines(
                source_id, generation, *block, merge_repeats=merge_repeats
            )


def read_line_blocks(
    source: SourceFile | SourceId,
    *,
    target_size: int,
    start: int = 0,
    buffer_size: int = _BUFFER_SIZE,
) -> Iterator[tuple[int, bytes] | Problem]:
    """Yield offset and bytes of blocks of whole lines, from the byte `start`.

    A block has at least `target_size` bytes, about that or one long line. A very long
    line and an unfinished last line are blocks of their own. As with `read_lines`,
    reading stops at the end that the file had when it was opened, and a problem comes
    last.
    """
    source_id = get_source_id(source)
    with open_source(source_id) as opened:
        if isinstance(opened, Problem):
            yield opened
            return
        lines = LineBuffer(start)
        problem = None
        for raw in _read_buffers(opened, source_id, start, buffer_size):
            if isinstance(raw, Problem):
                problem = raw
                break
            yield from lines.add(raw, target_size)
        yield from _split_unfinished(*lines.pop())
        if problem:
            yield problem


class LineBuffer:
    """Joins what is read to blocks of whole lines; a very long line is its own block.

    `BytesIO` returns its bytes without a copy, which a list of parts does not.
    """

    def __init__(self, start: int) -> None:
        self.start = start
        """The offset of the next block."""
        self._buffer = BytesIO()
        self._line_start = 0
        """Where the last, unfinished line starts in the buffer."""

    def add(self, raw: bytes, target_size: int) -> Iterator[tuple[int, bytes]]:
        """Add bytes, and yield the blocks that they complete."""
        if self._buffer.tell() - self._line_start >= LONG_LINE_BYTES:
            if self._line_start:
                yield self._cut_lines()
            end = raw.find(b"\n") + 1
            if not end:
                self._buffer.write(raw)
                return
            yield self.pop(raw[:end])
            raw = raw[end:]
        end = raw.rfind(b"\n") + 1
        if not end or self._buffer.tell() + len(raw) < target_size:
            self._line_start = self._buffer.tell() + end if end else self._line_start
            self._buffer.write(raw)
            return
        yield self.pop(raw[:end])
        self._buffer.write(raw[end:])

    def pop(self, end: bytes = b"") -> tuple[int, bytes]:
        """Return all bytes with their offset, and start a new block after them."""
        start = self.start
        if self._buffer.tell():
            self._buffer.write(end)
            end, self._buffer = self._buffer.getvalue(), BytesIO()
        self.start, self._line_start = start + len(end), 0
        return start, end

    def _cut_lines(self) -> tuple[int, bytes]:
        """Return the lines before the last one."""
        raw = self._buffer.getvalue()
        lines, rest = raw[: self._line_start], raw[self._line_start :]
        self._buffer = BytesIO()
        block = self.pop(lines)
        self._buffer.write(rest)
        return block


def _split_unfinished(start: int, raw: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the remaining whole lines, then the unfinished line."""
    end = raw.rfind(b"\n") + 1
    raw, rest = raw[:end], raw[end:]
    if raw:
        yield start, raw
    if rest:
        yield start + end, rest


def read_at(position: Position, *, read_ahead: int = 0) -> bytes | Problem:
    """Return the bytes at a position, or the problem if they are gone.

    Reads up to `read_ahead` bytes if that is more, for callers that read on. It does not
    check that the bytes are still the same; `detect_change` does.
    """
    with open_source(position.source_id) as opened:
        if isinstance(opened, Problem):
            return opened
        descriptor, size = opened
        end = position.offset + max(position.length, read_ahead)
        try:
            raw = read_range(descriptor, position.offset, min(end, size))
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


_MIN_MEAN_LENGTH = 32
"""Lines of transcripts are longer than this on average."""
_MAX_MERGED_LENGTH = 10
"""The longest line that cannot be a record: the shortest one is `{"type":""}`."""


_SPLIT_BYTES = 1 << 20


def split_lines(
    source: SourceId,
    generation: int,
    start: int,
    raw: bytes,
    *,
    merge_repeats: bool = False,
) -> Iterable[Line]:
    """Split bytes that start at the offset `start` of a source into lines.

    With `merge_repeats`, identical lines that are too short to be records are one line
    if most lines are short: a file of newlines must not take a line object per byte.
    """
    is_long = len(raw) > _SPLIT_BYTES
    parts = [] if is_long else raw.split(b"\n")
    newlines = raw.count(b"\n") if is_long else len(parts) - 1
    if newlines * _MIN_MEAN_LENGTH > len(raw):
        return _iter_short_lines(
            source, generation, start, raw, merge_repeats=merge_repeats
        )
    lines = []
    *whole, rest = parts or raw.split(b"\n")
    for line in whole:
        length = len(line)
        lines.append(Line(Position(source, generation, start, length), line))
        start += length + 1
    if rest:
        position = Position(source, generation, start, len(rest))
        lines.append(Line(position, rest, has_newline=False))
    return lines


def split_block(
    source: SourceId, generation: int, start: int, raw: bytes
) -> Iterable[Line]:
    """Split bytes as `split_lines` does, to index them.

    Identical short lines are merged. A very long line keeps its newline, because a copy
    without it would take as much memory again.
    """
    end = len(raw) - 1
    if end >= LONG_LINE_BYTES and raw.find(b"\n") == end:
        return [Line(Position(source, generation, start, end), raw)]
    return split_lines(source, generation, start, raw, merge_repeats=True)


def _iter_short_lines(
    source: SourceId, generation: int, start: int, raw: bytes, *, merge_repeats: bool
) -> Iterator[Line]:
    end = raw.rfind(b"\n")
    rest = raw[end + 1 :]
    for line, repeated in groupby(_split_in_parts(raw, end) if end >= 0 else ()):
        number = sum(1 for _ in repeated)
        length = len(line)
        if merge_repeats and length <= _MAX_MERGED_LENGTH:
            position = Position(source, generation, start, length)
            yield Line(position, line, repeats=number)
            start += (length + 1) * number
            continue
        for _ in range(number):
            yield Line(Position(source, generation, start, length), line)
            start += length + 1
    if rest:
        position = Position(source, generation, start, len(rest))
        yield Line(position, rest, has_newline=False)


def _split_in_parts(raw: bytes, end: int) -> Iterator[bytes]:
    """Yield the lines before `end`; a list of millions would take much memory."""
    start = 0
    while start <= end:
        stop = raw.find(b"\n", min(start + _SPLIT_BYTES, end), end + 1)
        yield from raw[start:stop].split(b"\n")
        start = stop + 1


def iter_raw_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of bytes that come in chunks, each with its newline."""
    rest = b""
    for raw in chunks:
        lines = (rest + raw).split(b"\n")
        rest = lines.pop()
        yield from (line + b"\n" for line in lines)
    if rest:
        yield rest
