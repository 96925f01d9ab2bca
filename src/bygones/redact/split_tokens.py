"""Find tokens that a line break or Markdown markup has split."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from typing import Any

from bygones.redact.rules import WORD_PART

_BREAK = re.compile(
    # A line break and the marker or line number at the start of the next line.
    r"\\?\r?\n[ \t]*(?:[+>|][ \t]*|\d{1,6}\u2192[ \t]*)?"
    # Strings that code joins: "abc" + "def", on one line or on several.
    r"|[\"'`][ \t]*(?:[+.&\\][ \t]*)?"
    r"(?:\r?\n[ \t]*(?:[+>|][ \t]*|\d{1,6}\u2192[ \t]*)?(?:[+.&][ \t]*)?)?"
    r"[rbfuRBFU]?[\"'`]"
    r"|\\(?=[_-])|\*\*?|~~"  # Markdown
    r"|[\u00ad\u200b-\u200d\u2060\ufeff]"  # invisible characters, also as HTML entities
    r"|&(?:#0*(?:173|820[3-5]|8288|65279)|#[xX]0*(?i:ad|200[bcd]|2060|feff)"
    r"|shy|zwn?j|ZeroWidthSpace|NoBreak);"
)


_MAX_PIECES = 6
_MAX_TOKEN_SPAN = 2_000
_MIN_TOKEN_LENGTH = 16
_MIN_PIECE_LENGTH = 8
_HEX_CONTEXT = 16
"""Characters before a piece that show whether a token is hexadecimal."""
_COMPLETE_TOKEN = re.compile(
    r"gh[pousr]_[A-Za-z0-9]{36}"
    r"|sk-ant-[a-z0-9]+-[\w-]{93}AA"
    r"|sk-[a-zA-Z]+-(?:[A-Za-z0-9]{48}|[\w-]{58}T3BlbkFJ[\w-]{58}"
    r"|[\w-]{74}T3BlbkFJ[\w-]{74})"
    r"|glpat-[\w-]{20}"
    # The usual lengths of signatures.
    r"|eyJ[\w-]+\.[\w-]+\.(?:[\w-]{43}|[\w-]{64}|[\w-]{86}|[\w-]{128}|[\w-]{176}"
    r"|[\w-]{342}|[\w-]{512}|[\w-]{683})"
    r"|xox[a-z]-\d+-\d+-(?:\d+-)?[A-Za-z0-9]{24}"
    r"|[sr]k_(?:live|test|prod)_(?:[A-Za-z0-9]{24}|[A-Za-z0-9]{99})"
)
"""Tokens of a fixed length: text after one is not part of it."""
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_HEX = re.compile(r"[0-9a-f-]+")
_VOWEL = re.compile(r"(?i)[aeiouy]")
_MAX_NUMBER_LENGTH = 4


def find_split_tokens(
    text: str,
    prefix: str,
    pattern: Any,  # noqa: ANN401 (RE2 has no types)
) -> Iterator[tuple[int, int]]:
    """Yield start and end of each split token.

    ``prefix`` is the expression for the start of a token, ``pattern`` the compiled rule
    that the joined pieces must match.
    """
    for first in _first_piece_pattern(prefix).finditer(text):
        if _BREAK.match(text, first.end()) or "\\" in first[0]:
            pieces = _pieces(text, first.start())
            end = _token_end(pieces, pattern)
            if end > pieces[0][0] + len(pieces[0][1]):
                yield first.start(), end


def _token_end(pieces: Sequence[tuple[int, str]], pattern: Any) -> int:  # noqa: ANN401 (RE2 has no types)
    """Return where a token ends; 0 if the pieces do not form one.

    Pieces are added until the pattern matches, and then only while they look like part
    of a token without a fixed length: the next line is usually ordinary text.
    """
    end = 0
    joined = ""
    for start, piece in pieces:
        length_before, joined = len(joined), joined + piece
        match = pattern.match(joined) if len(joined) >= _MIN_TOKEN_LENGTH else None
        if match is None:
            continue
        used = match.end() - length_before
        if used <= 0 or (
            end and not _is_continuation(piece[:used], joined[:length_before])
        ):
            break
        end = start + used
        if used < len(piece) or _COMPLETE_TOKEN.fullmatch(joined):
            break
    return end


def _is_continuation(piece: str, before: str) -> bool:
    """Whether a piece looks like part of a token, not like a word, a date or a hash."""
    if len(piece) < _MIN_PIECE_LENGTH or _DATE.match(piece):
        return False
    if _HEX.fullmatch(piece):
        return _HEX.fullmatch(before[-_HEX_CONTEXT:]) is not None
    return not all(map(_is_word, re.split(r"[_.=-]+", piece)))


def _is_word(part: str) -> bool:
    """Whether text between dashes consists of words and at most one number."""
    word_parts = WORD_PART.findall(part)
    numbers = [word for word in word_parts if word.isdigit()]
    words = [word for word in word_parts if not word.isdigit()]
    return (
        len(numbers) <= 1
        and all(len(number) <= _MAX_NUMBER_LENGTH for number in numbers)
        and all(len(word) > 1 or word == part for word in words)
        and all(word.isupper() or _VOWEL.search(word) for word in words)
    )


def _pieces(text: str, start: int) -> list[tuple[int, str]]:
    """Split the text after ``start`` at breaks; return each piece with its start."""
    pieces = []
    for break_ in islice(
        _BREAK.finditer(text, start, start + _MAX_TOKEN_SPAN), _MAX_PIECES
    ):
        pieces.append((start, text[start : break_.start()]))
        start = break_.end()
    return [*pieces, (start, text[start : start + _MAX_TOKEN_SPAN])]


@cache
def _first_piece_pattern(prefix: str) -> re.Pattern[str]:
    return re.compile(rf"(?:{prefix})[A-Za-z0-9_.=-]*")
