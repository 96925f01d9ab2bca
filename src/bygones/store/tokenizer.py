"""How text becomes terms, for the index and for queries.

tantivy splits text at every character that isn't a letter or digit, and converts it to
lower case. What it can't do is done before: accents are removed, characters of
languages without spaces become separate words, and words that are too long for tantivy
are split.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from zlib import crc32

PreparedText = tuple[int, str, int]
"""The checksum of a text, the text as passed to tantivy, and its number of terms."""

MAX_TERM_BYTES = 39
"""The longest word in bytes that tantivy indexes."""

_WIDE_CHARS = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3040-\u30ff\u3100-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc"
    "\U0001aff0-\U0001b16f\U00020000-\U0003ffff"
)
"""Characters of languages that don't separate words by spaces."""
_FOLDABLE_CHARS = f"\u00aa-\u036f\u1e00-\u1fff\ufb00-\ufb4f\uff00-\uffef{_WIDE_CHARS}"
"""Characters that need normalization, as ranges like `_WIDE_CHARS`."""
_COMBINING_MARKS = (
    "[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\u3099\u309a\ufe20-\ufe2f]+"
)
_WORD = re.compile(r"[^\W_]+")
_ASCII_LOWER = "".join(chr(c).lower() if chr(c).isalnum() else " " for c in range(128))
"""Translates ASCII to lower case, and what isn't part of a word to a space."""
_ASCII_LINES = f"{_ASCII_LOWER[:10]}\n{_ASCII_LOWER[11:]}"
"""The same, but keeps the ends of lines."""
_CONTEXT_CASED = frozenset("\u0130\u03a3")
"""Letters whose lower case depends on the context or has two characters."""
_LONG_WORD = re.compile(rf"[^\W_]{{{MAX_TERM_BYTES // 4},}}")
_WORD_BYTES = bytes(  # bytes of words become `a`, others a space
    ord("a") if byte > 127 or chr(byte).isalnum() else ord(" ")  # noqa: PLR2004 (ASCII)
    for byte in range(256)
)
_ASCII_WORD_BYTES = _WORD_BYTES[:128] + b" " * 128
"""The same for texts whose other characters are not part of words."""
_TOO_LONG_RUN = b"a" * (MAX_TERM_BYTES + 1)
_SPLIT_LENGTH = 32
_ASCII_BYTES = bytes(range(128))
_COMMON_SYMBOLS = frozenset(
    "\u2013\u2014\u2018\u2019\u201c\u201d\u2026•←→✓✗✔✘✅❌⏺⎿●○│─├└"
)
"""Symbols that many texts have; they are not part of words."""
_MAX_CACHED_CHARS = 100
"""Characters of a text whose terms are cached."""
_SCAN_BYTES = 1 << 20
"""Bytes to check at once, to avoid a copy of long texts."""
_MAX_REPLACED_CHARS = 16
"""Up to so many different characters are replaced one by one, which is faster."""


def prepare_text(text: str) -> str:
    """Return a text that tantivy splits into the right terms."""
    return prepare_with_checksum(text)[1]


def prepare_with_checksum(text: str) -> PreparedText:
    """Return a text as passed to tantivy, with the checksum of the original."""
    raw = text.encode("utf-8", "replace")
    checksum = crc32(raw)
    if len(raw) == len(text):
        has_long_word, count = _scan_words(raw)
        if not has_long_word:
            return checksum, text, count
    unusual = _unusual_chars(raw) if len(raw) != len(text) else set()
    if any(map(_is_foldable, unusual)):
        text = _fold(text, unusual)
        raw = text.encode("utf-8", "replace")
        unusual = _unusual_chars(raw)
    has_letters = any(map(str.isalnum, unusual))
    has_long_word, count = _scan_words(raw, are_letters=has_letters)
    if has_long_word:
        text = _LONG_WORD.sub(_split_long_word, text)
    if has_letters:
        count = sum(1 for _ in _WORD.finditer(text))
    elif has_long_word:
        raw = text.encode("utf-8", "replace")
        _, count = _scan_words(raw, are_letters=False)
    return checksum, text, count


def _unusual_chars(raw: bytes) -> set[str]:
    """Return the characters of a text that are neither ASCII nor common symbols."""
    return {*raw.translate(None, _ASCII_BYTES).decode()} - _COMMON_SYMBOLS


def _fold(text: str, unusual: set[str]) -> str:
    """Separate characters that are words by themselves, and remove accents."""
    if len(unusual) > _MAX_REPLACED_CHARS:
        return text.translate({ord(char): _fold_char(char) for char in unusual})
    for char in sorted(unusual):  # one may become another
        text = text.replace(char, _fold_char(char))
    return text


@lru_cache(maxsize=4096)
def _fold_char(char: str) -> str:
    folded = _pattern(_COMBINING_MARKS).sub("", unicodedata.normalize("NFKD", char))
    return f" {folded} " if _is_in(char, _WIDE_CHARS) else folded


def _scan_words(raw: bytes, *, are_letters: bool = False) -> tuple[bool, int]:
    """Return whether a word may be too long, and the number of words.

    `are_letters` says whether bytes beyond ASCII are parts of words. A list of the words
    would take ten times the memory of a text.
    """
    table = _WORD_BYTES if are_letters else _ASCII_WORD_BYTES
    if len(raw) <= _SCAN_BYTES:
        words = raw.translate(table)
        return _TOO_LONG_RUN in words, words.count(b" a") + words.startswith(b"a")
    has_long_word = False
    count = 0
    for start in range(0, len(raw), _SCAN_BYTES):
        part = raw[start : start + _SCAN_BYTES + MAX_TERM_BYTES].translate(table)
        has_long_word = has_long_word or _TOO_LONG_RUN in part
        count += part.count(b" a", 0, _SCAN_BYTES + 1)
        if not start:
            count += part.startswith(b"a")
    return has_long_word, count


def tokenize(text: str) -> list[str]:
    """Return the terms of a text in order, as they are indexed."""
    if len(text) <= _MAX_CACHED_CHARS:
        return list(_tokenize_short(text))
    return tokenize_prepared(prepare_text(text))


@lru_cache(maxsize=4096)
def _tokenize_short(text: str) -> tuple[str, ...]:
    # A search splits the same words many times.
    return tuple(tokenize_prepared(prepare_text(text)))


def tokenize_prepared(text: str) -> list[str]:
    """Return the terms of a prepared text."""
    if text.isascii():
        return text.translate(_ASCII_LOWER).split()
    if _CONTEXT_CASED.isdisjoint(text):
        return _WORD.findall(text.lower())
    return [found[0].lower() for found in _WORD.finditer(text)]


def split_lines_into_terms(text: str) -> list[str]:
    """Return the terms of each line of an ASCII text, separated by spaces."""
    lines = prepare_text(text).translate(_ASCII_LINES).split("\n")
    return [" ".join(line.split()) for line in lines]


@lru_cache(maxsize=4096)
def _is_foldable(char: str) -> bool:
    return _is_in(char, _FOLDABLE_CHARS)


def _is_in(char: str, ranges: str) -> bool:
    """Whether a character is in one of some ranges."""
    bounds = zip(ranges[::3], ranges[2::3], strict=True)
    return any(low <= char <= high for low, high in bounds)


@cache
def _pattern(pattern: str) -> re.Pattern[str]:
    # Compiled on demand: that takes as long as a short search.
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
"""Length of a word from which two typos are corrected."""
_MAX_EDITS = 2
"""Typos that are corrected at most; also the length of a prefix without typos."""


def correct_term(
    term: str,
    frequencies: Callable[[Iterable[str]], Mapping[str, int]],
    terms_with_prefix: Callable[[str], Sequence[tuple[str, int]]],
) -> str | None:
    """Return the most frequent term that is one typo away, or two if there is none.

    A typo is a missing, added, replaced or swapped letter. The first letter is hardly ever
    wrong: `iphone` is not meant to be `phone`.
    """
    if len(term) < _MIN_TERM_LENGTH or not (term.isascii() and term.isalpha()):
        return None
    candidates = frequencies(set(_one_edit(term)))
    best = max(candidates, key=lambda other: (candidates[other], other))
    if candidates[best]:
        return best
    if len(term) < _TWO_EDITS_MIN_LENGTH:
        return None
    distant = [
        (-distance, count, other)
        for other, count in terms_with_prefix(term[:_MAX_EDITS])
        if abs(len(other) - len(term)) <= _MAX_EDITS and other.isalpha()
        if (distance := _edit_distance(term, other)) <= _MAX_EDITS
    ]
    return max(distant)[2] if distant else None


def _one_edit(term: str) -> Iterator[str]:
    yield term[1] + term[0] + term[2:]
    for at in range(1, len(term) + 1):
        head, tail = term[:at], term[at:]
        if tail:
            yield head + tail[1:]
        if len(tail) > 1:
            yield head + tail[1] + tail[0] + tail[2:]
        for letter in _LETTERS:
            yield head + letter + tail
            if tail:
                yield head + letter + tail[1:]


def _edit_distance(word: str, other: str) -> int:
    """Return the number of typos between two words."""
    row_before: list[int] = []
    previous = list(range(len(other) + 1))
    for row, letter in enumerate(word, 1):
        row_costs = [row]
        for column, other_letter in enumerate(other, 1):
            cost = min(
                previous[column] + 1,
                row_costs[-1] + 1,
                previous[column - 1] + (letter != other_letter),
            )
            is_swap = row > 1 < column and letter == other[column - 2]
            if is_swap and word[row - 2] == other_letter:
                cost = min(cost, row_before[column - 2] + 1)
            row_costs.append(cost)
        row_before, previous = previous, row_costs
    return previous[-1]
