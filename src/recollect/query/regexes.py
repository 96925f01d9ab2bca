"""Regular expressions that every engine understands alike, in linear time."""

from __future__ import annotations

import re
import warnings

from msgspec import Struct

__all__ = ["Fault", "fault_of", "searcher"]

MAX_PATTERN = 1_000
MAX_GROUPS = 50
"""Python's compiler calls itself for each group within a group."""
MAX_REPEAT = 1_000
"""What the linear engines allow; they copy what is repeated."""

_PIECE = re.compile(
    r"""
      \\(?P<escape>.)
    | (?P<charset>\[\^?\]?(?:\\.|[^\]\\])*\])
    | (?P<look>\(\?<?[=!])
    | (?P<special>\(\?(?:P=|\(|>|\#))
    | \{(?P<least>[0-9]+)(?:,(?P<most>[0-9]*))?\}(?P<kept>\+)?
    | (?P<possessive>[*+?]\+)
    """,
    re.VERBOSE | re.DOTALL,
)


class Fault(Struct, frozen=True):
    """What is wrong with a pattern, and where."""

    at: int
    length: int
    detail: str


def fault_of(pattern: str) -> Fault | None:
    """Return the first fault of a pattern, or nothing if it can be used."""
    if len(pattern) > MAX_PATTERN or pattern.count("(") > MAX_GROUPS:
        detail = f"more than {MAX_PATTERN:,} characters or {MAX_GROUPS} groups"
        return Fault(0, len(pattern), detail)
    for found in _PIECE.finditer(pattern):
        if detail := _refusal(found):
            return Fault(found.start(), len(found[0]), detail)
    try:
        searcher(pattern)
    except re.error as error:
        at = min(error.pos or 0, len(pattern) - 1)
        return Fault(at, 1, error.msg)
    return None


def searcher(pattern: str) -> re.Pattern[str]:
    """Return a pattern for use; upper and lower case are the same to it."""
    with warnings.catch_warnings():
        # What may change its meaning in a later Python is the writer's choice.
        warnings.simplefilter("ignore")
        return re.compile(pattern, re.IGNORECASE)


def _refusal(found: re.Match[str]) -> str:
    if (found["escape"] or "") in set("123456789"):
        return "it refers back to a group, which takes unlimited time"
    if found["look"]:
        return "it looks ahead or behind, which takes unlimited time"
    if found["special"] or found["possessive"] or found["kept"]:
        return "only what all engines understand can be used"
    counts = (found["least"], found["most"])
    if any(int(count[:9]) > MAX_REPEAT for count in counts if count):
        return f"it repeats something more than {MAX_REPEAT:,} times"
    return ""
