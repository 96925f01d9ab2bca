"""The light pass once more, but one that stops at whatever is not known.

For each type of record there is a *shape*: a sketch that has the fields of that type
and refuses any other. Nearly every line fits the shape of its type, and has then told
in one decode that it is sound and holds nothing new; only the others are looked at
closely.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from operator import or_
from typing import Any, get_type_hints

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import fields

from bygones.model.ids import Line
from bygones.model.records import WireMessage
from bygones.model.sketches import Sketch, Sketched, SketchMessage
from bygones.parse import unknown_fields
from bygones.parse.decode import field_names
from bygones.parse.full import RECORDS

__all__ = ["FAILURES", "fit_line", "strange_fields"]

FAILURES = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding raises for input of any kind."""


def fit_line(line: Line) -> Sketched | None:
    """Return the sketch of a sound line on which all is known, ``None`` for any other.

    It says what :func:`~bygones.parse.sketch_line` says, and that there are no
    :func:`strange_fields`.
    """
    try:
        return Sketched(_fit(line.raw), line.position, line.raw)
    except FAILURES:
        return None


def strange_fields(raw: bytes) -> tuple[str, ...]:
    """Return the names of a record's unknown fields; none if they cannot be read."""
    try:
        return unknown_fields(raw)
    except FAILURES:
        return ()


def _shape(name: str, kind: type[Struct]) -> type[Struct]:
    known = field_names(kind) - {"type"}
    hints = get_type_hints(Sketch, include_extras=True)
    if name in {"user", "assistant"}:
        hints["message"] = _closed(SketchMessage, field_names(WireMessage)) | None
    return _closed(Sketch, known, hints, type_name=name)


def _closed(
    open_kind: type[Struct],
    known: Iterable[str],
    hints: dict[str, Any] | None = None,
    *,
    type_name: str | None = None,
) -> type[Struct]:
    """Return a struct like ``open_kind`` whose fields are exactly the known ones.

    Known fields that ``open_kind`` does not have stay raw. Fields of ``open_kind``
    that are not known have their default, and cannot be decoded.
    """
    hints = hints or get_type_hints(open_kind, include_extras=True)
    own = [field for field in fields(open_kind) if field.encode_name in known]
    rest = sorted(set(known) - {field.encode_name for field in own})
    others = {f"other_{number}": name for number, name in enumerate(rest)}
    absent = {
        field.name: field.default
        for field in fields(open_kind)
        if field.encode_name not in known
    }
    return msgspec.defstruct(
        f"Closed{open_kind.__name__}",
        [
            *((field.name, hints[field.name], field.default) for field in own),
            *((other, Raw, Raw()) for other in others),
        ],
        namespace=absent | ({"type": type_name} if type_name else {}),
        rename={field.name: field.encode_name for field in own} | others,
        tag_field="type" if type_name else None,
        tag=type_name,
        forbid_unknown_fields=True,
        frozen=True,
        kw_only=True,
        gc=False,
    )


_SHAPES: Any = reduce(or_, (_shape(name, kind) for name, kind in RECORDS.items()))

_fit: Callable[[bytes], Sketch] = msgspec.json.Decoder(_SHAPES).decode
