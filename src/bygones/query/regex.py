"""Check regular expressions: only what every engine supports, in linear time."""

from __future__ import annotations

import re
import warnings
from re import _parser  # type: ignore[attr-defined]
from typing import Any

from msgspec import Struct

MAX_PATTERN_LENGTH = 1_000
MAX_GROUPS = 50
"""Python's compiler recurses into nested groups."""
_SAFE_REPEATS = 20
"""Repetitions that are fast, whatever is repeated."""
_MAX_WILDCARD_REPEATS = 2
"""Unlimited repetitions of any character that a pattern may have."""
MAX_REPEAT = 1_000
"""The limit of linear-time engines, which copy what is repeated."""

_SPECIAL_SYNTAX = re.compile(
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


class RegexProblem(Struct, frozen=True):
    """Why a pattern is rejected, and the position of the reason."""

    start: int
    length: int
    detail: str


def check_regex(pattern: str) -> RegexProblem | None:
    """Return the first problem of a pattern, or none if it is valid."""
    if len(pattern) > MAX_PATTERN_LENGTH or pattern.count("(") > MAX_GROUPS:
        detail = f"more than {MAX_PATTERN_LENGTH:,} characters or {MAX_GROUPS} groups"
        return RegexProblem(0, len(pattern), detail)
    for found in _SPECIAL_SYNTAX.finditer(pattern):
        if detail := _unsupported_reason(found):
            return RegexProblem(found.start(), len(found[0]), detail)
    try:
        compile_regex(pattern)
    except re.error as error:
        at = min(error.pos or 0, len(pattern) - 1)
        return RegexProblem(at, 1, error.msg)
    if _may_backtrack(pattern):
        detail = "what is repeated repeats itself, which takes unlimited time"
        return RegexProblem(0, len(pattern), detail)
    return None


def _may_backtrack(pattern: str) -> bool:
    """Whether Python's engine may backtrack catastrophically.

    It may if a repeated group can be split into repetitions in several ways, or if
    many unlimited repetitions of any character follow each other.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parsed = _parser.parse(pattern)
    wildcard_repeats = 0
    pending: list[tuple[Any, bool]] = [(parsed, False)]
    while pending:
        sequence, is_repeated = pending.pop()
        for kind, value in sequence:
            name = str(kind)
            if name in {"MAX_REPEAT", "MIN_REPEAT"}:
                least, most, inner = value
                if is_repeated and least != most:
                    return True
                is_open = most > _SAFE_REPEATS
                wildcard_repeats += is_open and _is_wildcard(inner)
                pending.append((inner, is_repeated or is_open))
            elif name == "SUBPATTERN":
                pending.append((value[-1], is_repeated))
            elif name == "BRANCH":
                if is_repeated and not _have_distinct_starts(value[1]):
                    return True
                pending.extend((branch, is_repeated) for branch in value[1])
    return wildcard_repeats > _MAX_WILDCARD_REPEATS


def _is_wildcard(inner: Any) -> bool:  # noqa: ANN401 (the parser's own values)
    """Whether a pattern is a single character of nearly any kind."""
    kinds = [str(kind) for kind, _ in inner]
    if kinds == ["IN"]:
        return any(str(kind) == "NEGATE" for kind, _ in inner[0][1])
    return kinds in (["ANY"], ["NOT_LITERAL"])


def _have_distinct_starts(branches: Any) -> bool:  # noqa: ANN401 (as above)
    """Whether the first character decides which branch matches."""
    firsts = [str(branch[0]) if len(branch) else "" for branch in branches]
    literal = all(first.startswith("(LITERAL") for first in firsts)
    return literal and len(set(firsts)) == len(firsts)


def compile_regex(pattern: str) -> re.Pattern[str]:
    """Return a compiled pattern that ignores case."""
    with warnings.catch_warnings():
        # Syntax that may change its meaning in a later Python is accepted.
        warnings.simplefilter("ignore")
        return re.compile(pattern, re.IGNORECASE)


def _unsupported_reason(match: re.Match[str]) -> str:
    if (match["escape"] or "") in set("123456789"):
        return "it refers back to a group, which takes unlimited time"
    if match["look"]:
        return "it looks ahead or behind, which takes unlimited time"
    if match["special"] or match["possessive"] or match["kept"]:
        return "only what all engines understand can be used"
    counts = (match["least"], match["most"])
    if any(int(count[:9]) > MAX_REPEAT for count in counts if count):
        return f"it repeats something more than {MAX_REPEAT:,} times"
    return ""
