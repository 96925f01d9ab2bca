"""Regular expressions that every engine understands alike, in linear time."""

from __future__ import annotations

import re
import warnings
from re import _parser  # type: ignore[attr-defined]
from typing import Any

from msgspec import Struct

__all__ = ["Fault", "fault_of", "searcher"]

MAX_PATTERN = 1_000
MAX_GROUPS = 50
"""Python's compiler calls itself for each group within a group."""
_FEW = 20
"""Repetitions that cannot take long, whatever is repeated."""
_ANYTHINGS = 2
"""How often any sign may be repeated without end in one pattern."""
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
    if _is_endless(pattern):
        detail = "what is repeated repeats itself, which takes unlimited time"
        return Fault(0, len(pattern), detail)
    return None


def _is_endless(pattern: str) -> bool:
    """Whether Python's engine may try more ways than anybody can wait for.

    So it is where something is repeated that can be cut into repetitions in several
    ways, and where many repetitions of any sign follow each other.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parsed = _parser.parse(pattern)
    anything = 0
    waiting: list[tuple[Any, bool]] = [(parsed, False)]
    while waiting:
        found, is_repeated = waiting.pop()
        for kind, value in found:
            name = str(kind)
            if name in {"MAX_REPEAT", "MIN_REPEAT"}:
                least, most, inner = value
                if is_repeated and least != most:
                    return True
                is_open = most > _FEW
                anything += is_open and _is_anything(inner)
                waiting.append((inner, is_repeated or is_open))
            elif name == "SUBPATTERN":
                waiting.append((value[-1], is_repeated))
            elif name == "BRANCH":
                if is_repeated and not _are_told_apart(value[1]):
                    return True
                waiting.extend((branch, is_repeated) for branch in value[1])
    return anything > _ANYTHINGS


def _is_anything(inner: Any) -> bool:  # noqa: ANN401 (the parser's own values)
    """Whether one sign of nearly any kind is repeated."""
    kinds = [str(kind) for kind, _ in inner]
    if kinds == ["IN"]:
        return any(str(kind) == "NEGATE" for kind, _ in inner[0][1])
    return kinds in (["ANY"], ["NOT_LITERAL"])


def _are_told_apart(branches: Any) -> bool:  # noqa: ANN401 (as above)
    """Whether the first sign tells which branch is taken."""
    firsts = [str(branch[0]) if len(branch) else "" for branch in branches]
    literal = all(first.startswith("(LITERAL") for first in firsts)
    return literal and len(set(firsts)) == len(firsts)


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
