"""How text becomes terms, for the index and for whoever asks it.

The engine cuts text at every sign that is no letter and no digit, and writes it
small. What it cannot do is done before: accents are taken off, signs of languages
without spaces stand alone, and words that it would leave out for their length are cut.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from zlib import crc32

PreparedText = tuple[int, str]
"""The checksum of a text, and the text as the engine shall have it."""

MAX_TERM_BYTES = 39
"""Bytes of a word that the engine takes whole."""

_WIDE_CHARS = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3040-\u30ff\u3100-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc"
    "\U0001aff0-\U0001b16f\U00020000-\U0003ffff"
)
"""Signs that are words, or parts of words between which nobody puts a space."""
_FOLDABLE_CHARS = f"\u00aa-\u036f\u1e00-\u1fff\ufb00-\ufb4f\uff00-\uffef{_WIDE_CHARS}"
"""Signs for whose sake a text is taken apart, as ranges like those of wide signs."""
_COMBINING_MARKS = (
    "[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\u3099\u309a\ufe20-\ufe2f]+"
)
_WORD = re.compile(r"[^\W_]+")
_ASCII_LOWER = "".join(chr(c).lower() if chr(c).isalnum() else " " for c in range(128))
"""Each sign of ASCII as terms have it; a space where it is part of none."""
_CONTEXT_CASED = frozenset("\u0130\u03a3")
"""Letters that are written small by what stands around them, or as two signs."""
_LONG_WORD = re.compile(rf"[^\W_]{{{MAX_TERM_BYTES // 4},}}")
_WORD_BYTES = bytes(
    ord("a") if byte > 127 or chr(byte).isalnum() else ord(" ")  # noqa: PLR2004 (ASCII)
    for byte in range(256)
)
_TOO_LONG_RUN = b"a" * (MAX_TERM_BYTES + 1)
_SPLIT_LENGTH = 32
_SHORT_TEXT = 1_000
_COMMON_SYMBOLS = "\u2013\u2014\u2018\u2019\u201c\u201d\u2026•←→✓✗✔✘✅❌⏺⎿●○│─├└"
_SIMPLE_CHARS = frozenset((*map(chr, range(128)), *_COMMON_SYMBOLS))
"""Signs as they stand in most short texts; none beyond ASCII is part of a word."""
_SCAN_BYTES = 1 << 20
"""Bytes that are looked at at once: a copy of all may be too much."""


def prepare_text(text: str, raw: bytes | None = None) -> str:
    """Return text that the engine cuts into the right terms.

    ``raw`` is the text in UTF-8, where somebody has it already.
    """
    if not _is_simple(text) and _has_char_in(text, _FOLDABLE_CHARS):
        if _has_char_in(text, _WIDE_CHARS):
            text = " ".join(_pattern(f"([{_WIDE_CHARS}])").split(text))
        text = strip_accents(text)
        raw = None
    if raw is None:
        raw = text.encode("utf-8", "replace")
    if len(raw) <= MAX_TERM_BYTES:
        return text
    for start in range(0, len(raw), _SCAN_BYTES):
        stretch = raw[start : start + _SCAN_BYTES + MAX_TERM_BYTES]
        if _TOO_LONG_RUN in stretch.translate(_WORD_BYTES):
            return _LONG_WORD.sub(_split_long_word, text)
    return text


def prepare_with_checksum(text: str) -> PreparedText:
    """Return a text as the engine shall have it, with the checksum of what it was."""
    raw = text.encode("utf-8", "replace")
    return crc32(raw), prepare_text(text, raw)


def tokenize(text: str) -> list[str]:
    """Return the terms of a text in its order, as the engine has them."""
    return tokenize_prepared(prepare_text(text))


def tokenize_prepared(text: str) -> list[str]:
    """Return the terms of a text that was prepared for the engine."""
    if text.isascii():
        return text.translate(_ASCII_LOWER).split()
    if _CONTEXT_CASED.isdisjoint(text):
        return _WORD.findall(text.lower())
    return [found[0].lower() for found in _WORD.finditer(text)]


def strip_accents(text: str) -> str:
    """Return letters without what is above or below them."""
    if _is_simple(text):
        return text
    return _pattern(_COMBINING_MARKS).sub("", unicodedata.normalize("NFKD", text))


def _is_simple(text: str) -> bool:
    return text.isascii() or (
        len(text) < _SHORT_TEXT and _SIMPLE_CHARS.issuperset(text)
    )


def _has_char_in(text: str, ranges: str) -> bool:
    """Whether a text has a sign of some ranges."""
    if len(text) >= _SHORT_TEXT:
        return _pattern(f"[{ranges}]").search(text) is not None
    # To make the pattern takes longer than to look at a short text without it.
    bounds = list(zip(ranges[::3], ranges[2::3], strict=True))
    strange = {*text} - _SIMPLE_CHARS
    return any(low <= sign <= high for sign in strange for low, high in bounds)


@cache
def _pattern(pattern: str) -> re.Pattern[str]:
    # Made when the first text needs it: that takes as long as a whole short answer.
    return re.compile(pattern)


def _split_long_word(found: re.Match[str]) -> str:
    word = found[0]
    if len(word.encode("utf-8", "replace")) <= MAX_TERM_BYTES:
        return word
    size = _SPLIT_LENGTH if word.isascii() else MAX_TERM_BYTES // 4
    return " ".join(word[at : at + size] for at in range(0, len(word), size))


_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_MIN_TERM_LENGTH = 4
_TWO_EDITS_MIN_LENGTH = 6
"""Letters that a word must have before two slips are looked for in it."""
_MAX_EDITS = 2
"""Letters at the beginning in which no second slip is looked for."""


def correct_term(
    term: str,
    frequencies: Callable[[Iterable[str]], Mapping[str, int]],
    terms_with_prefix: Callable[[str], Sequence[tuple[str, int]]],
) -> str | None:
    """Return the most frequent term that is one slip away, else two.

    A slip is a letter left out, added, taken for another, or two that changed places.
    """
    if len(term) < _MIN_TERM_LENGTH or not (term.isascii() and term.isalpha()):
        return None
    one = frequencies(set(_one_edit(term)))
    best = max(one, key=lambda other: (one[other], other))
    if one[best]:
        return best
    if len(term) < _TWO_EDITS_MIN_LENGTH:
        return None
    near = [
        (-slips, count, other)
        for other, count in terms_with_prefix(term[:_MAX_EDITS])
        if abs(len(other) - len(term)) <= _MAX_EDITS and other.isalpha()
        if (slips := _edit_distance(term, other)) <= _MAX_EDITS
    ]
    return max(near)[2] if near else None


def _one_edit(term: str) -> Iterator[str]:
    for at in range(len(term) + 1):
        head, tail = term[:at], term[at:]
        if tail:
            yield head + tail[1:]
        if len(tail) > 1:
            yield head + tail[1] + tail[0] + tail[2:]
        for letter in _LETTERS:
            yield head + letter + tail
            if tail:
                yield head + letter + tail[1:]


def _edit_distance(one: str, other: str) -> int:
    """Return how many slips make one word the other."""
    before: list[int] = []
    above = list(range(len(other) + 1))
    for row, sign in enumerate(one, 1):
        line = [row]
        for column, there in enumerate(other, 1):
            cost = min(
                above[column] + 1,
                line[-1] + 1,
                above[column - 1] + (sign != there),
            )
            is_swap = row > 1 < column and sign == other[column - 2]
            if is_swap and one[row - 2] == there:
                cost = min(cost, before[column - 2] + 1)
            line.append(cost)
        before, above = above, line
    return above[-1]
