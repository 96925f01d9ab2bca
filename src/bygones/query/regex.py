"""Regular expressions of queries, and the literal text that every match contains."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from re import _parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

from msgspec import Struct

_WORD = re.compile(r"[^\W_]+")
_SEPARATOR_CATEGORIES = {"CATEGORY_SPACE", "CATEGORY_NOT_WORD"}
_WORD_EDGES = {
    "AT_BOUNDARY",
    "AT_BEGINNING",
    "AT_BEGINNING_STRING",
    "AT_END",
    "AT_END_STRING",
}


class RequiredLiteral(NamedTuple):
    """Characters that a text has to contain in a row."""

    text: str
    is_word_start: bool = False
    """Whether no word can continue before it."""
    is_word_end: bool = False
    """Whether no word can continue after it."""


class LiteralChoice(NamedTuple):
    """Alternatives: a text has to contain all literals of one of them."""

    alternatives: tuple[tuple[RequiredLiteral | LiteralChoice, ...], ...]


def split_words(literal: RequiredLiteral) -> Iterator[RequiredLiteral]:
    """Yield the words in a literal, in lower case; some may be parts of words."""
    for found in _WORD.finditer(literal.text):
        yield RequiredLiteral(
            found[0].lower(),
            found.start() > 0 or literal.is_word_start,
            found.end() < len(literal.text) or literal.is_word_end,
        )


def extract_glob_literals(value: str, *, is_whole: bool) -> tuple[RequiredLiteral, ...]:
    """Return the literals of a value in which ``*`` matches anything.

    ``is_whole`` says that no word continues before or after the value.
    """
    parts = value.split("*")
    last = len(parts) - 1
    return tuple(
        RequiredLiteral(part, is_whole and index == 0, is_whole and index == last)
        for index, part in enumerate(parts)
        if part
    )


def extract_literals(pattern: str) -> tuple[RequiredLiteral | LiteralChoice, ...]:
    """Return the literals that every match of a regular expression contains."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parsed = _parser.parse(pattern, re.IGNORECASE)
    return tuple(_LiteralExtractor().extract(parsed))


class _LiteralExtractor:
    """Joins consecutive literal characters of a parsed pattern."""

    def __init__(self) -> None:
        self._text = ""
        self._is_word_start = False
        self._literals: list[RequiredLiteral | LiteralChoice] = []

    def extract(self, parsed: Any) -> list[RequiredLiteral | LiteralChoice]:  # noqa: ANN401 (the parser's own values)
        for kind, value in parsed:
            self._visit(str(kind), value)
        self._flush()
        return self._literals

    def _visit(self, kind: str, value: Any) -> None:  # noqa: ANN401 (as above)
        if kind == "LITERAL":
            self._text += chr(value)
        elif (kind == "AT" and str(value) in _WORD_EDGES) or _is_separator(kind, value):
            self._flush(is_edge=True)
        elif kind == "SUBPATTERN":
            self._flush()
            self._literals += _LiteralExtractor().extract(value[-1])
        elif kind in {"MAX_REPEAT", "MIN_REPEAT"} and value[0]:
            self._flush(is_edge=_are_separators(value[2]))
            self._literals += _LiteralExtractor().extract(value[2])
        elif kind == "BRANCH":
            self._flush()
            branches = [tuple(_LiteralExtractor().extract(b)) for b in value[1]]
            if all(branches):
                self._literals.append(LiteralChoice(tuple(branches)))
        else:
            self._flush()

    def _flush(self, *, is_edge: bool = False) -> None:
        if self._text:
            self._literals.append(
                RequiredLiteral(self._text, self._is_word_start, is_edge)
            )
        self._text, self._is_word_start = "", is_edge


def _is_separator(kind: str, value: Any) -> bool:  # noqa: ANN401 (as above)
    """Whether a character class contains only characters that separate words."""
    if kind != "IN":
        return False
    return all(
        (str(item) == "CATEGORY" and str(argument) in _SEPARATOR_CATEGORIES)
        or (str(item) == "LITERAL" and not chr(argument).isalnum())
        for item, argument in value
    )


def _are_separators(parsed: Sequence[Any]) -> bool:
    return bool(parsed) and all(
        _is_separator(str(kind), value)
        or (str(kind) == "LITERAL" and not chr(value).isalnum())
        for kind, value in parsed
    )


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
        detail = "nested repetition could take unlimited time"
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
        return "back-references are not supported"
    if match["look"]:
        return "look-around is not supported"
    if match["special"] or match["possessive"] or match["kept"]:
        return "this syntax is not supported"
    counts = (match["least"], match["most"])
    if any(int(count[:9]) > MAX_REPEAT for count in counts if count):
        return f"it repeats something more than {MAX_REPEAT:,} times"
    return ""
