"""Find the literal texts that every match of a pattern contains."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from re import _parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

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
