"""The light pass: one decode a line, building nothing that ingestion does not use."""

from __future__ import annotations

import msgspec

from recollect.model.ids import Line
from recollect.model.problems import Problem
from recollect.model.sketches import Sketch, Sketched
from recollect.parse.decode import decode_struct
from recollect.parse.salvage import Part, salvage

__all__ = ["sketch_line"]

_decode = msgspec.json.Decoder(Sketch).decode
_FAILURES = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def sketch_line(line: Line) -> tuple[Sketched | Problem, ...]:
    """Return the sketches on a line, with its problems before them.

    A sound line gives exactly one sketch. Nothing raises.
    """
    try:
        sketch = _decode(line.raw)
    except _FAILURES:
        return _slowly(line)
    if sketch.type is None:
        return _slowly(line)
    return (Sketched(sketch, line.position, line.raw),)


def _slowly(line: Line) -> tuple[Sketched | Problem, ...]:
    found: list[Sketched | Problem] = []
    for part in salvage(line):
        if isinstance(part, Part):
            found.extend(_sketch(part))
        else:
            found.append(part)
    return tuple(found)


def _sketch(part: Part) -> list[Sketched | Problem]:
    problems: list[Sketched | Problem] = []

    def odd(path: str, reason: str) -> None:
        problems.append(Problem("odd-field", part.position, f"{path}: {reason}"))

    try:
        sketch = decode_struct(Sketch, part.raw, odd)
    except RecursionError:
        return [Problem("too-deep", part.position)]
    if sketch.type is None:
        return [*problems, Problem("no-type", part.position)]
    return [*problems, Sketched(sketch, part.position, part.raw)]
