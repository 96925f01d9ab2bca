"""The light pass: one decode a line, building nothing that ingestion does not use."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from bygones.model.ids import Line
from bygones.model.problems import Problem
from bygones.model.sketches import Sketch, SketchBlock, Sketched, SketchMessage
from bygones.parse.decode import Hook, Odd, decode_struct
from bygones.parse.salvage import Part, salvage

__all__ = ["sketch_line"]

_decode = msgspec.json.Decoder(Sketch).decode
_ELEMENTS = msgspec.json.Decoder(list[Raw])
_STRING = msgspec.json.Decoder(str)
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
        sketch = decode_struct(Sketch, part.raw, odd, hooks=_HOOKS)
    except RecursionError:
        return [Problem("too-deep", part.position)]
    if sketch.type is None:
        return [*problems, Problem("no-type", part.position)]
    return [*problems, Sketched(sketch, part.position, part.raw)]


def _content(raw: Raw, path: str, odd: Odd) -> str | list[SketchBlock] | None:
    """Decode content of any shape: a text, a block, a list with bare strings in it."""
    match bytes(memoryview(raw)[:1]):
        case b'"':
            return _STRING.decode(raw)
        case b"[":
            blocks = enumerate(_ELEMENTS.decode(raw))
            return [_block(block, f"{path}[{at}]", odd) for at, block in blocks]
        case b"{":
            return [_block(raw, path, odd)]
        case _:
            odd(path, "neither text nor a list of blocks")
            return None


def _block(raw: Raw, path: str, odd: Odd) -> SketchBlock:
    match bytes(memoryview(raw)[:1]):
        case b"{":
            return decode_struct(SketchBlock, raw, odd, path=path)
        case b'"':
            return SketchBlock(type="text", text=_STRING.decode(raw))
        case _:
            return SketchBlock()


_HOOKS: dict[tuple[type, str], Hook] = {(SketchMessage, "content"): _content}
