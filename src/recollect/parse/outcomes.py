"""Decoding outcomes: the structured results that tools leave beside the text."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from recollect.model.tools import OUTCOMES, ObjectOutcome, Outcome, TextOutcome
from recollect.parse.decode import decode_struct

__all__ = ["parse_outcome"]

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


def _object(raw: bytes) -> Outcome:
    keys = _KEYS.decode(raw).keys()
    for kind in OUTCOMES:
        if not keys.isdisjoint(kind.signs):  # type: ignore[attr-defined]
            outcome: Any = decode_struct(kind, raw, lambda _path, _reason: None)
            return outcome  # type: ignore[no-any-return]
    return ObjectOutcome(raw)
