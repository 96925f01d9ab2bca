"""Where a text stands, as one number: its session, its part, and two facts of it.

Engines count texts by this number, and scores are made from such counts.
"""

from __future__ import annotations

from bygones.model.query import Part

__all__ = [
    "KINDS",
    "KIND_PARTS",
    "bucket_of",
    "is_agent",
    "is_error",
    "part_of",
    "session_of",
]

KINDS = 16
"""A bucket is the session's number times this, plus the kind of text."""
_PARTS: tuple[Part, ...] = (*Part, Part.RESULT)
"""The part of a text by its kind; the last kind is a result that is an error."""
_ERROR = len(Part)
_AGENT = 8
KIND_PARTS = tuple(_PARTS[kind % _AGENT] for kind in range(KINDS))
"""The part of a text, by its kind."""
_CODES = {part: code for code, part in enumerate(Part)}


def bucket_of(
    session: int, part: Part, is_error: bool = False, is_agent: bool = False
) -> int:
    """Return the bucket of a text."""
    kind = _ERROR if is_error else _CODES[part]
    return session * KINDS + kind + (_AGENT if is_agent else 0)


def session_of(bucket: int) -> int:
    """Return the number of the session that a text is of."""
    return bucket // KINDS


def part_of(bucket: int) -> Part:
    """Return the part that a text is of."""
    return _PARTS[bucket % _AGENT]


def is_error(bucket: int) -> bool:
    """Whether a text is a result that is an error."""
    return bucket % _AGENT == _ERROR


def is_agent(bucket: int) -> bool:
    """Whether a text was said in an agent run."""
    return bool(bucket & _AGENT)
