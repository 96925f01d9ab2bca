"""Decoding outcomes: the structured results that tools leave beside the text."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, structs

from bygones.model.tools import (
    OUTCOMES,
    FileText,
    ObjectOutcome,
    Outcome,
    ReadOutcome,
    TextOutcome,
)
from bygones.model.wire import Wire
from bygones.parse.decode import decode_struct

__all__ = ["parse_extent", "parse_outcome"]

_KEYS = msgspec.json.Decoder(dict[str, Raw])
_STRING = msgspec.json.Decoder(str)
_FAILURES = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def parse_outcome(raw: bytes) -> Outcome | None:
    """Return the outcome in ``toolUseResult``; ``None`` where there is none.

    Lists (MCP tools write their blocks there) and objects of no known shape are kept
    as they were written. Nothing raises.
    """
    first = raw[:1]
    if not first or raw == b"null":
        return None
    try:
        if first == b'"':
            return TextOutcome(_STRING.decode(raw))
        if first == b"{":
            return _object(raw)
    except _FAILURES:
        pass
    return ObjectOutcome(raw)


class _Extent(Wire, frozen=True, kw_only=True, gc=False):
    num_lines: int | None = None
    start_line: int | None = None
    total_lines: int | None = None
    original_size: int | None = None


class _Read(Wire, frozen=True, kw_only=True):
    type: str | None = None
    file: _Extent


_READ = msgspec.json.Decoder(_Read)


def parse_extent(raw: bytes) -> ReadOutcome | None:
    """Return the outcome of a sound Read, without the file; ``None`` of any other.

    What was read is passed over, and need not be decoded.
    """
    try:
        found = _READ.decode(raw)
    except _FAILURES:
        return None
    return ReadOutcome(type=found.type, file=FileText(**structs.asdict(found.file)))


def _object(raw: bytes) -> Outcome:
    keys = _KEYS.decode(raw).keys()
    for kind in OUTCOMES:
        if not keys.isdisjoint(kind.signs):  # type: ignore[attr-defined]
            outcome: Any = decode_struct(kind, raw, lambda _path, _reason: None)
            return outcome  # type: ignore[no-any-return]
    return ObjectOutcome(raw)
