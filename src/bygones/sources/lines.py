"""READ: the lines of a source with their exact places, in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Iterator

from bygones.model.ids import Line, Position, SourceId
from bygones.model.problems import Problem
from bygones.model.sources import Source
from bygones.sources.opening import (
    id_of,
    opened,
    problem_at,
    problem_of,
    read_window,
)

__all__ = ["read_at", "read_lines", "read_stretches"]

_BLOCK = 1 << 18
"""Fits into a processor's cache; larger blocks were slower."""


def read_lines(
    source: Source | SourceId,
    *,
    start: int = 0,
    generation: int = 0,
    block: int = _BLOCK,
) -> Iterator[Line | Problem]:
    r"""Yield the lines of a source from the byte ``start`` on, which begins a line.

    Lines end at byte 0x0A and nowhere else; a carriage return stays in the line.
    Only the last line may not be ``ended``. Reading stops where the file ended when
    it was opened, so a file that grows meanwhile has one consistent end. Memory is a
    block, or twice the longest line. The raw bytes with their newlines, joined, are
    the bytes of the file. A problem, if there is one, comes last.
    """
    name = id_of(source)
    with opened(name) as found:
        if isinstance(found, Problem):
            yield found
            return
        blocks = _blocks(found, name, start, block)
        yield from _lines(blocks, name, start, generation)


def read_stretches(
    source: Source | SourceId, *, size: int, start: int = 0, block: int = _BLOCK
) -> Iterator[tuple[int, bytes] | Problem]:
    """Yield the bytes of a source from ``start`` on, with where they begin.

    Whole lines, together about ``size`` bytes or one line of more; the last line, if
    it is not finished, comes alone. As with :func:`read_lines`, the file ends where
    it ended when it was opened, and a problem comes last.
    """
    name = id_of(source)
    with opened(name) as found:
        if isinstance(found, Problem):
            yield found
            return
        waiting: list[bytes] = []
        weight = 0
        problem = None
        for raw in _blocks(found, name, start, block):
            if isinstance(raw, Problem):
                problem = raw
                break
            waiting.append(raw)
            weight += len(raw)
            end = raw.rfind(b"\n") + 1 if weight >= size else 0
            if end:
                waiting[-1] = raw[:end]
                whole, waiting = waiting, [raw[end:]]
                begun, start = start, start + weight - len(waiting[0])
                weight = len(waiting[0])
                yield begun, _joined(whole)
        yield from _last(start, _joined(waiting))
        if problem:
            yield problem


def _joined(parts: list[bytes]) -> bytes:
    """Return parts as one, and let go of them: they may be those of a giant line."""
    raw = b"".join(parts)
    parts.clear()
    return raw


def _last(start: int, raw: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the whole lines that are left, and then what is not finished."""
    end = raw.rfind(b"\n") + 1
    raw, rest = raw[:end], raw[end:]
    if raw:
        yield start, raw
    if rest:
        yield start + end, rest


def read_at(position: Position, *, ahead: int = 0) -> bytes | Problem:
    """Return the bytes at a position, or why they are not there any more.

    ``ahead`` is how many to read if the file has them: who asks for one line will soon
    ask for the next. Whether they are still the same bytes is not looked at: compare
    the source's :class:`~bygones.sources.marks.Mark` for that.
    """
    with opened(position.source) as found:
        if isinstance(found, Problem):
            return found
        end = position.offset + max(position.length, ahead)
        try:
            raw = read_window(found[0], position.offset, min(end, found[1]))
        except OSError as error:
            return problem_of(error, position.source)
    if len(raw) >= position.length:
        return raw
    return Problem(
        "shrunk", position, f"{len(raw)} of {position.length} bytes are left"
    )


def _blocks(
    found: tuple[int, int], source: SourceId, start: int, block: int
) -> Iterator[bytes | Problem]:
    descriptor, size = found
    if start > size:
        yield problem_at("shrunk", source, f"{size} bytes are left", offset=start)
        return
    try:
        os.lseek(descriptor, start, os.SEEK_SET)
        while start < size:
            raw = os.read(descriptor, min(block, size - start))
            if not raw:
                yield problem_at("shrunk", source, "while it was read", offset=start)
                return
            start += len(raw)
            yield raw
    except OSError as error:
        yield problem_of(error, source)


def _lines(
    blocks: Iterator[bytes | Problem], source: SourceId, offset: int, generation: int
) -> Iterator[Line | Problem]:
    unfinished: list[bytes] = []
    problem = None
    for block in blocks:
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
        yield Line(Position(source, generation, offset, len(raw)), raw, ended=False)
    if problem:
        yield problem
