"""PARSE: bytes of one line to a record or a problem; no state, no files."""

from __future__ import annotations

from recollect.parse.full import (
    RECORDS,
    Record,
    parse_line,
    parse_record,
    unknown_fields,
)
from recollect.parse.light import sketch_line
from recollect.parse.loading import RecordLoader, blocks_of
from recollect.parse.machine import read_text
from recollect.parse.nodes import node_of
from recollect.parse.outcomes import parse_outcome
from recollect.parse.sidecars import parse_note
from recollect.parse.texts import (
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
