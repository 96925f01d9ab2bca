"""Cutting a source into pieces: whole lines, about a chunk's size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from recollect.model.ids import Line, Position, SourceId
from recollect.model.problems import Problem

__all__ = ["Piece", "cut", "lines_of"]


class Piece(Struct, frozen=True):
    """A stretch of a source: whole lines, or the unfinished last one."""

    start: int
    stop: int
    raw: bytes
    lines: list[Line]
    is_fragment: bool = False


def cut(
    lines: Iterable[Line | Problem], size: int, problems: list[Problem]
) -> Iterator[Piece]:
    """Yield pieces of at least ``size`` bytes; problems of reading end it early."""
    waiting: list[Line] = []
    weight = 0
    for line in lines:
        if isinstance(line, Problem):
            problems.append(line)
            break
        if not line.ended:
            if waiting:
                yield _piece(waiting)
            waiting = []
            if line.raw:
                yield _fragment(line)
            break
        waiting.append(line)
        weight += line.position.length + 1
        if weight >= size:
            yield _piece(waiting)
            waiting, weight = [], 0
    if waiting:
        yield _piece(waiting)


def _piece(lines: list[Line]) -> Piece:
    raws = [line.raw for line in lines]
    raws.append(b"")
    raw = b"\n".join(raws)
    start = lines[0].position.offset
    return Piece(start, start + len(raw), raw, lines)


def _fragment(line: Line) -> Piece:
    start = line.position.offset
    return Piece(start, start + len(line.raw), line.raw, [line], is_fragment=True)


def lines_of(source: SourceId, generation: int, start: int, raw: bytes) -> list[Line]:
    """Return the lines of bytes that begin at ``start`` of a source.

    The bytes end with a newline, or the last line is unfinished.
    """
    lines = []
    at = 0
    while at < len(raw):
        end = raw.find(b"\n", at)
        ended = end >= 0
        stop = end if ended else len(raw)
        place = Position(source, generation, start + at, stop - at)
        lines.append(Line(place, raw[at:stop], ended))
        at = stop + 1
    return lines
