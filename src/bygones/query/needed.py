"""What must stand in a text that a pattern finds: letters, and where words end."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from re import _parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

__all__ = ["Either", "Piece", "Stretch", "needed", "pieces_of", "stretches"]

_STRETCH = re.compile(r"[^\W_]+")
_GAPS = {"CATEGORY_SPACE", "CATEGORY_NOT_WORD"}
_EDGES = {"AT_BOUNDARY", "AT_BEGINNING", "AT_BEGINNING_STRING", "AT_END"}
_EDGES |= {"AT_END_STRING"}


class Piece(NamedTuple):
    """Signs that must stand one behind the other."""

    text: str
    is_begun: bool = False
    """Whether no word can go on before it."""
    is_ended: bool = False
    """Whether no word can go on behind it."""


class Either(NamedTuple):
    """Pieces of which those of one way must be there."""

    ways: tuple[tuple[Piece | Either, ...], ...]


class Stretch(NamedTuple):
    """Letters and digits of a piece that are a word, or the end or middle of one."""

    text: str
    is_begun: bool
    is_ended: bool


def stretches(piece: Piece) -> Iterator[Stretch]:
    """Yield the words of a piece, or what is known of them, in order."""
    for found in _STRETCH.finditer(piece.text):
        yield Stretch(
            found[0].lower(),
            found.start() > 0 or piece.is_begun,
            found.end() < len(piece.text) or piece.is_ended,
        )


def pieces_of(value: str, *, is_whole: bool) -> tuple[Piece, ...]:
    """Return the pieces of a value in which a star stands for anything.

    ``is_whole`` says that nothing of a word stands before or behind it.
    """
    parts = value.split("*")
    last = len(parts) - 1
    return tuple(
        Piece(part, is_whole and at == 0, is_whole and at == last)
        for at, part in enumerate(parts)
        if part
    )


def needed(pattern: str) -> tuple[Piece | Either, ...]:
    """Return what every text has in which a regular expression is found."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parsed = _parser.parse(pattern, re.IGNORECASE)
    return tuple(_Reader().read(parsed))


class _Reader:
    """Joins the signs of a sequence to pieces."""

    def __init__(self) -> None:
        self._text = ""
        self._is_begun = False
        self._found: list[Piece | Either] = []

    def read(self, parsed: Any) -> list[Piece | Either]:  # noqa: ANN401 (the parser's own values)
        for kind, value in parsed:
            self._step(str(kind), value)
        self._end()
        return self._found

    def _step(self, kind: str, value: Any) -> None:  # noqa: ANN401 (as above)
        if kind == "LITERAL":
            self._text += chr(value)
        elif (kind == "AT" and str(value) in _EDGES) or _is_gap(kind, value):
            self._end(is_edge=True)
        elif kind == "SUBPATTERN":
            self._end()
            self._found += _Reader().read(value[-1])
        elif kind in {"MAX_REPEAT", "MIN_REPEAT"} and value[0]:
            self._end(is_edge=_are_gaps(value[2]))
            self._found += _Reader().read(value[2])
        elif kind == "BRANCH":
            self._end()
            ways = [tuple(_Reader().read(branch)) for branch in value[1]]
            if all(ways):
                self._found.append(Either(tuple(ways)))
        else:
            self._end()

    def _end(self, *, is_edge: bool = False) -> None:
        if self._text:
            self._found.append(Piece(self._text, self._is_begun, is_edge))
        self._text, self._is_begun = "", is_edge


def _is_gap(kind: str, value: Any) -> bool:  # noqa: ANN401 (as above)
    """Whether it can only be a sign between words."""
    if kind != "IN":
        return False
    return all(
        (str(one) == "CATEGORY" and str(what) in _GAPS)
        or (str(one) == "LITERAL" and not chr(what).isalnum())
        for one, what in value
    )


def _are_gaps(parsed: Sequence[Any]) -> bool:
    return bool(parsed) and all(
        _is_gap(str(kind), value)
        or (str(kind) == "LITERAL" and not chr(value).isalnum())
        for kind, value in parsed
    )
