"""What must stand in a text that a pattern finds: letters, and where words end."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from re import _parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

__all__ = [
    "LiteralChoice",
    "RequiredLiteral",
    "WordFragment",
    "extract_glob_literals",
    "extract_literals",
    "split_fragments",
]

_WORD = re.compile(r"[^\W_]+")
_SEPARATOR_CATEGORIES = {"CATEGORY_SPACE", "CATEGORY_NOT_WORD"}
_WORD_EDGES = {"AT_BOUNDARY", "AT_BEGINNING", "AT_BEGINNING_STRING", "AT_END"}
_WORD_EDGES |= {"AT_END_STRING"}


class RequiredLiteral(NamedTuple):
    """Signs that must stand one behind the other."""

    text: str
    is_word_start: bool = False
    """Whether no word can go on before it."""
    is_word_end: bool = False
    """Whether no word can go on behind it."""


class LiteralChoice(NamedTuple):
    """Pieces of which those of one way must be there."""

    alternatives: tuple[tuple[RequiredLiteral | LiteralChoice, ...], ...]


class WordFragment(NamedTuple):
    """Letters and digits of a piece that are a word, or the end or middle of one."""

    text: str
    is_word_start: bool
    is_word_end: bool


def split_fragments(literal: RequiredLiteral) -> Iterator[WordFragment]:
    """Yield the words of a piece, or what is known of them, in order."""
    for found in _WORD.finditer(literal.text):
        yield WordFragment(
            found[0].lower(),
            found.start() > 0 or literal.is_word_start,
            found.end() < len(literal.text) or literal.is_word_end,
        )


def extract_glob_literals(value: str, *, is_whole: bool) -> tuple[RequiredLiteral, ...]:
    """Return the pieces of a value in which a star stands for anything.

    ``is_whole`` says that nothing of a word stands before or behind it.
    """
    parts = value.split("*")
    last = len(parts) - 1
    return tuple(
        RequiredLiteral(part, is_whole and at == 0, is_whole and at == last)
        for at, part in enumerate(parts)
        if part
    )


def extract_literals(pattern: str) -> tuple[RequiredLiteral | LiteralChoice, ...]:
    """Return what every text has in which a regular expression is found."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parsed = _parser.parse(pattern, re.IGNORECASE)
    return tuple(_LiteralExtractor().extract(parsed))


class _LiteralExtractor:
    """Joins the signs of a sequence to pieces."""

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
            ways = [tuple(_LiteralExtractor().extract(branch)) for branch in value[1]]
            if all(ways):
                self._literals.append(LiteralChoice(tuple(ways)))
        else:
            self._flush()

    def _flush(self, *, is_edge: bool = False) -> None:
        if self._text:
            self._literals.append(
                RequiredLiteral(self._text, self._is_word_start, is_edge)
            )
        self._text, self._is_word_start = "", is_edge


def _is_separator(kind: str, value: Any) -> bool:  # noqa: ANN401 (as above)
    """Whether it can only be a sign between words."""
    if kind != "IN":
        return False
    return all(
        (str(one) == "CATEGORY" and str(what) in _SEPARATOR_CATEGORIES)
        or (str(one) == "LITERAL" and not chr(what).isalnum())
        for one, what in value
    )


def _are_separators(parsed: Sequence[Any]) -> bool:
    return bool(parsed) and all(
        _is_separator(str(kind), value)
        or (str(kind) == "LITERAL" and not chr(value).isalnum())
        for kind, value in parsed
    )
