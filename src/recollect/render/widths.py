"""How wide text is on a terminal, cut and wrapped to fit."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

__all__ = ["fit_left", "fit_right", "width", "wrap"]

_ELLIPSIS = "…"
_WORD = re.compile(r"\s+|\S+")


def width(text: str) -> int:
    """Return how many columns a plain text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(map(_columns_of, text))


def _columns_of(sign: str) -> int:
    if sign < "\u0300":
        return 1
    if unicodedata.combining(sign) or unicodedata.category(sign) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(sign) in {"W", "F"} else 1


def fit_right(text: str, room: int) -> str:
    """Return text that takes at most ``room`` columns, its end cut off if need be."""
    if len(text) * 2 <= room or width(text) <= room:
        return text
    return _beginning(text, room - 1).rstrip() + _ELLIPSIS if room > 0 else ""


def fit_left(text: str, room: int) -> str:
    """Return text that takes at most ``room`` columns, its beginning cut off."""
    if len(text) * 2 <= room or width(text) <= room:
        return text
    return _ELLIPSIS + _beginning(text[::-1], room - 1)[::-1] if room > 0 else ""


def _beginning(text: str, room: int) -> str:
    taken = 0
    for at, sign in enumerate(text):
        taken += _columns_of(sign)
        if taken > room:
            return text[:at]
    return text


def wrap(text: str, room: int, *, hang: str = "") -> Iterator[str]:
    """Yield one line as lines of at most ``room`` columns; later ones begin with hang.

    Lines break between words, and anywhere among signs of double width. A word that
    is too long (an address, say) stays whole: a terminal breaks it, and a copy of it
    works.
    """
    if width(text) <= room:
        yield text
        return
    line, taken = "", 0
    for word in _words(text):
        columns = width(word)
        if taken and taken + columns > room and not word.isspace():
            yield line.rstrip()
            line, taken = hang, width(hang)
        if not (word.isspace() and line == hang and hang):
            line += word
            taken += columns
    if line.strip():
        yield line.rstrip()


def _words(text: str) -> Iterator[str]:
    """Yield words, the spaces between them, and signs of double width alone."""
    for found in _WORD.finditer(text):
        word = found[0]
        if word.isascii() or width(word) == len(word):
            yield word
            continue
        narrow = ""
        for sign in word:
            if _columns_of(sign) == 2:  # noqa: PLR2004 (double width)
                if narrow:
                    yield narrow
                narrow = sign
            elif narrow and _columns_of(narrow[0]) == 2 and _columns_of(sign):  # noqa: PLR2004
                yield narrow
                narrow = sign
            else:
                narrow += sign
        if narrow:
            yield narrow
