"""How text becomes terms, for the index and for whoever asks it.

The engine cuts text at every sign that is no letter and no digit, and writes it
small. What it cannot do is done before: accents are taken off, signs of languages
without spaces stand alone, and words that it would leave out for their length are cut.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from zlib import crc32

__all__ = [
    "LONGEST",
    "Words",
    "prepared",
    "terms_in",
    "terms_of",
    "without_accents",
    "words_of",
]

Words = tuple[int, str]
"""The checksum of a text, and the text as the engine shall have it."""

LONGEST = 39
"""Bytes of a word that the engine takes whole."""

_WIDE = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3040-\u30ff\u3100-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc"
    "\U0001aff0-\U0001b16f\U00020000-\U0003ffff"
)
"""Signs that are words, or parts of words between which nobody puts a space."""
_FOLDED = f"\u00aa-\u036f\u1e00-\u1fff\ufb00-\ufb4f\uff00-\uffef{_WIDE}"
"""Signs for whose sake a text is taken apart, as ranges like those of wide signs."""
_MARKS = (
    "[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\u3099\u309a\ufe20-\ufe2f]+"
)
_WORD = re.compile(r"[^\W_]+")
_SMALL = "".join(chr(c).lower() if chr(c).isalnum() else " " for c in range(128))
"""Each sign of ASCII as terms have it; a space where it is part of none."""
_FITFUL = frozenset("\u0130\u03a3")
"""Letters that are written small by what stands around them, or as two signs."""
_LONG_WORD = re.compile(rf"[^\W_]{{{LONGEST // 4},}}")
_KINDS = bytes(
    ord("a") if byte > 127 or chr(byte).isalnum() else ord(" ")  # noqa: PLR2004 (ASCII)
    for byte in range(256)
)
_RUN = b"a" * (LONGEST + 1)
_PIECE = 32
_SHORT = 1_000
_OFTEN = "\u2013\u2014\u2018\u2019\u201c\u201d\u2026•←→✓✗✔✘✅❌⏺⎿●○│─├└"
_SIMPLE = frozenset((*map(chr, range(128)), *_OFTEN))
"""Signs as they stand in most short texts; none beyond ASCII is part of a word."""
_STRETCH = 1 << 20
"""Bytes that are looked at at once: a copy of all may be too much."""


def prepared(text: str, raw: bytes | None = None) -> str:
    """Return text that the engine cuts into the right terms.

    ``raw`` is the text in UTF-8, where somebody has it already.
    """
    if not _is_simple(text) and _has(text, _FOLDED):
        if _has(text, _WIDE):
            text = " ".join(_pattern(f"([{_WIDE}])").split(text))
        text = without_accents(text)
        raw = None
    if raw is None:
        raw = text.encode("utf-8", "replace")
    if len(raw) <= LONGEST:
        return text
    for start in range(0, len(raw), _STRETCH):
        stretch = raw[start : start + _STRETCH + LONGEST]
        if _RUN in stretch.translate(_KINDS):
            return _LONG_WORD.sub(_pieces, text)
    return text


def words_of(text: str) -> Words:
    """Return a text as the engine shall have it, with the checksum of what it was."""
    raw = text.encode("utf-8", "replace")
    return crc32(raw), prepared(text, raw)


def terms_of(text: str) -> list[str]:
    """Return the terms of a text in its order, as the engine has them."""
    return terms_in(prepared(text))


def terms_in(text: str) -> list[str]:
    """Return the terms of a text that was prepared for the engine."""
    if text.isascii():
        return text.translate(_SMALL).split()
    if _FITFUL.isdisjoint(text):
        return _WORD.findall(text.lower())
    return [found[0].lower() for found in _WORD.finditer(text)]


def without_accents(text: str) -> str:
    """Return letters without what is above or below them."""
    if _is_simple(text):
        return text
    return _pattern(_MARKS).sub("", unicodedata.normalize("NFKD", text))


def _is_simple(text: str) -> bool:
    return text.isascii() or (len(text) < _SHORT and _SIMPLE.issuperset(text))


def _has(text: str, ranges: str) -> bool:
    """Whether a text has a sign of some ranges."""
    if len(text) >= _SHORT:
        return _pattern(f"[{ranges}]").search(text) is not None
    # To make the pattern takes longer than to look at a short text without it.
    bounds = list(zip(ranges[::3], ranges[2::3], strict=True))
    strange = {*text} - _SIMPLE
    return any(low <= sign <= high for sign in strange for low, high in bounds)


@cache
def _pattern(written: str) -> re.Pattern[str]:
    # Made when the first text needs it: that takes as long as a whole short answer.
    return re.compile(written)


def _pieces(found: re.Match[str]) -> str:
    word = found[0]
    if len(word.encode("utf-8", "replace")) <= LONGEST:
        return word
    size = _PIECE if word.isascii() else LONGEST // 4
    return " ".join(word[at : at + size] for at in range(0, len(word), size))
