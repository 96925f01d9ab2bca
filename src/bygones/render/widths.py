"""How wide text is on a terminal, cut and wrapped to fit."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

from bygones.render.safe import EMOJI

__all__ = ["fit_left", "fit_right", "width", "wrap"]

_ELLIPSIS = "…"
_WORD = re.compile(r"\s+|\S+")
_TONES = "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"
_JOINING = ("\u200d", *_TONES)
_ONE = f"[{EMOJI}]\ufe0f?[{_TONES}]?"
_CLUSTER = f"{_ONE}(?:\u200d{_ONE})+|[{EMOJI}][{_TONES}]|(?s:.)"


def width(text: str) -> int:
    """Return how many columns a plain text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(map(_columns_of, _parts(text)))


def _parts(text: str) -> Sequence[str]:
    """Return signs, and emoji that are made of several as one."""
    is_joined = any(sign in text for sign in _JOINING)
    return re.findall(_CLUSTER, text) if is_joined else text


def _columns_of(sign: str) -> int:
    if len(sign) > 1:
        return 2
    if sign < "\u0300":
        return 1
    if unicodedata.combining(sign) or unicodedata.category(sign) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(sign) in {"W", "F"} else 1


def fit_right(text: str, room: int) -> str:
    """Return text that takes at most ``room`` columns, its end cut off if need be."""
    if len(text) * 2 <= room or width(text) <= room:
        return text
    if room <= 0:
        return ""
    return "".join(_beginning(_parts(text), room - 1)).rstrip() + _ELLIPSIS


def fit_left(text: str, room: int) -> str:
    """Return text that takes at most ``room`` columns, its beginning cut off."""
    if len(text) * 2 <= room or width(text) <= room:
        return text
    if room <= 0:
        return ""
    return _ELLIPSIS + "".join(_beginning(_parts(text)[::-1], room - 1)[::-1])


def _beginning(parts: Sequence[str], room: int) -> Sequence[str]:
    taken = 0
    for at, part in enumerate(parts):
        taken += _columns_of(part)
        if taken > room:
            return parts[:at]
    return parts


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
        pending, is_wide = "", False
        for sign in _parts(word):
            columns = _columns_of(sign)
            if pending and (columns == 2 or (columns and is_wide)):  # noqa: PLR2004 (double width)
                yield pending
                pending = ""
            is_wide = columns == 2 if not pending else is_wide  # noqa: PLR2004
            pending += sign
        if pending:
            yield pending
