"""PARSE: bytes of one line to a record or a problem; no state, no files."""

from __future__ import annotations

from importlib import import_module

# Whoever reads one text needs no decoder of every kind of record.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from bygones.parse.full import (
        RECORDS,
        Record,
        parse_line,
        parse_record,
        unknown_fields,
    )
    from bygones.parse.light import sketch_line
    from bygones.parse.loading import RecordLoader, blocks_of
    from bygones.parse.machine import read_text
    from bygones.parse.nodes import node_of
    from bygones.parse.outcomes import parse_outcome
    from bygones.parse.sidecars import parse_note
    from bygones.parse.texts import (
        is_beyond_limit,
        said_in,
        text_of_content,
        texts_of,
    )

__all__ = [
    "RECORDS",
    "Record",
    "RecordLoader",
    "blocks_of",
    "is_beyond_limit",
    "node_of",
    "parse_line",
    "parse_note",
    "parse_outcome",
    "parse_record",
    "read_text",
    "said_in",
    "sketch_line",
    "text_of_content",
    "texts_of",
    "unknown_fields",
]

_PLACES = {
    "full": ("RECORDS", "Record", "parse_line", "parse_record", "unknown_fields"),
    "light": ("sketch_line",),
    "loading": ("RecordLoader", "blocks_of"),
    "machine": ("read_text",),
    "nodes": ("node_of",),
    "outcomes": ("parse_outcome",),
    "sidecars": ("parse_note",),
    "texts": ("is_beyond_limit", "said_in", "text_of_content", "texts_of"),
}


def __getattr__(name: str) -> object:
    """Import what is asked for when it is asked for."""
    for place, names in _PLACES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{place}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
