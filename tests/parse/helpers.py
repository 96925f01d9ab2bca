"""Helpers that parse a single record."""

from __future__ import annotations

from typing import Any

from bygones.model.base import Line, Problem
from bygones.model.metadata import Record
from bygones.model.nodes import LightRecord, LocatedRecord, TextSpan
from bygones.model.records import Block
from bygones.parse.decode import SalvagedObject, salvage_line
from bygones.parse.full import parse_line
from bygones.parse.light import build_node, parse_line_light
from bygones.parse.loader import parse_outcome
from bygones.parse.texts import extract_text_spans
from tests.build import line, prompt, source_line

__all__ = [
    "block",
    "full",
    "kinds",
    "light",
    "odd_fields",
    "outcome",
    "passages",
    "pieces",
    "raws",
]


def full(record: object) -> Any:  # noqa: ANN401 (a test knows which record it is)
    """Return the only record; there must be no problem."""
    (found,) = parse_line(_line(record))
    assert not isinstance(found, Problem)
    return found


def pieces(record: object, *, ended: bool = True) -> tuple[Record | Problem, ...]:
    """Return the result of the full decoder."""
    return parse_line(_line(record, ended=ended))


def light(record: object) -> LightRecord:
    """Return the last record of the light decoder."""
    sketched = parse_line_light(_line(record))[-1]
    assert isinstance(sketched, LocatedRecord)
    return sketched.record


def passages(record: object) -> list[TextSpan]:
    """Return the indexed texts of a record."""
    sketched = parse_line_light(_line(record))[-1]
    assert isinstance(sketched, LocatedRecord)
    return list(extract_text_spans(sketched, build_node(sketched)))


def block(written: object) -> Block:
    """Return the only block of a message with this block."""
    (found,) = full(prompt([written])).message.content
    return found  # type: ignore[no-any-return]


def outcome(value: object) -> Any:  # noqa: ANN401 (a test knows which outcome it is)
    """Decode a structured result."""
    return parse_outcome(line(value))


def kinds(record: object, *, ended: bool = True, offset: int = 7) -> list[str]:
    """Return the kinds of problems; both decoders must agree."""
    item = _line(record, ended=ended, offset=offset)
    full = [part.kind for part in parse_line(item) if isinstance(part, Problem)]
    light = [part.kind for part in parse_line_light(item) if isinstance(part, Problem)]
    assert light == full
    return full


def odd_fields(record: object) -> list[str]:
    """Return the paths of the fields that were left out."""
    return [
        part.detail.partition(":")[0]
        for part in pieces(record)
        if isinstance(part, Problem)
    ]


def raws(record: object, *, ended: bool = True, offset: int = 7) -> list[bytes]:
    """Return the bytes of the whole objects on a line."""
    parts = salvage_line(_line(record, ended=ended, offset=offset))
    return [part.raw for part in parts if isinstance(part, SalvagedObject)]


def _line(record: object, *, ended: bool = True, offset: int = 7) -> Line:
    raw = record if isinstance(record, bytes) else line(record)
    return source_line(raw, offset=offset, ended=ended)
