"""The lines of bytes, with their places in the source that the bytes are of."""

from __future__ import annotations

from bygones.model.ids import Line, Position, SourceId

__all__ = ["lines_of"]


def lines_of(source: SourceId, generation: int, start: int, raw: bytes) -> list[Line]:
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
        lines.append(Line(place, rest, ended=False))
    return lines
