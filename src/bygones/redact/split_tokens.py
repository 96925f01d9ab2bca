"""Tokens that a line's end or a sign of Markdown has broken in two."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from typing import Any

__all__ = ["SPLITTABLE_PREFIXES", "find_split_tokens"]

SPLITTABLE_PREFIXES = {
    "anthropic-key": r"sk\\*-ant\\*-",
    "aws-key-id": r"(?:AKIA|ASIA|ABIA|ACCA)",
    "github-token": r"gh[pousr]\\*_|github\\*_pat\\*_",
    "gitlab-token": r"gl(?:pat|dt|rt|ptt|soat|ft|imt|agent|cbt|oas|ffct)\\*-",
    "google-key": r"AIza",
    "huggingface-token": r"(?:hf|api\\*_org)\\*_",
    "jwt": r"eyJ[A-Za-z0-9_-]",
    "npm-token": r"npm\\*_",
    "openai-key": r"sk\\*-(?:proj|svcacct|admin|None)\\*-|sk-[A-Za-z0-9]{20}",
    "pypi-token": r"pypi\\*-AgE",
    "slack-token": r"xox[abceoprs]\\*-|xapp\\*-",
    "stripe-key": r"[sr]k\\*_(?:live|test|prod)\\*_|whsec\\*_",
}
"""Families that are looked for in pieces too, and the signs of each in a line.

They begin as nothing else does, so that pieces put together are hardly ever wrong.
"""
_BREAK = re.compile(
    # A line's end, and what the next one begins with: a sign or its number.
    r"\\?\r?\n[ \t]*(?:[+>|][ \t]*|\d{1,6}\u2192[ \t]*)?"
    r"|\\(?=[_-])|\*\*?|~~"  # Markdown
    r"|[\u00ad\u200b-\u200d\u2060\ufeff]"  # what nobody sees, and its names
    r"|&(?:#0*(?:173|820[3-5]|8288|65279)|#[xX]0*(?i:ad|200[bcd]|2060|feff)"
    r"|shy|zwn?j|ZeroWidthSpace|NoBreak);"
)


_MAX_PIECES = 6
"""Pieces of which a token is put together."""
_MAX_TOKEN_SPAN = 2_000
"""Signs from a token's beginning on that are looked at."""
_MIN_TOKEN_LENGTH = 16
"""Signs that every token has."""
_MIN_PIECE_LENGTH = 8
_HEX_CONTEXT = 16
"""Signs before a piece that tell whether a token is written in hexadecimal."""
_COMPLETE_TOKEN = re.compile(
    r"gh[pousr]_[A-Za-z0-9]{36}"
    r"|sk-ant-[a-z0-9]+-[\w-]{93}AA"
    r"|sk-[a-zA-Z]+-(?:[A-Za-z0-9]{48}|[\w-]{58}T3BlbkFJ[\w-]{58}"
    r"|[\w-]{74}T3BlbkFJ[\w-]{74})"
    r"|glpat-[\w-]{20}"
    # The lengths of the usual signatures.
    r"|eyJ[\w-]+\.[\w-]+\.(?:[\w-]{43}|[\w-]{64}|[\w-]{86}|[\w-]{128}|[\w-]{176}"
    r"|[\w-]{342}|[\w-]{512}|[\w-]{683})"
    r"|xox[a-z]-\d+-\d+-(?:\d+-)?[A-Za-z0-9]{24}"
    r"|[sr]k_(?:live|test|prod)_(?:[A-Za-z0-9]{24}|[A-Za-z0-9]{99})"
)
"""Tokens that are complete: what stands behind one is none of it."""
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_HEX = re.compile(r"[0-9a-f-]+")
_WORD_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_VOWEL = re.compile(r"(?i)[aeiouy]")
_MAX_NUMBER_LENGTH = 4


def find_split_tokens(text: str, rule: str, pattern: Any) -> Iterator[tuple[int, int]]:  # noqa: ANN401 (RE2 has no types)
    """Yield where tokens of a rule stand in a text that has them in pieces."""
    for begun in _first_piece_pattern(rule).finditer(text):
        if _BREAK.match(text, begun.end()) or "\\" in begun[0]:
            pieces = _pieces(text, begun.start())
            end = _token_end(pieces, pattern)
            if end > pieces[0][0] + len(pieces[0][1]):
                yield begun.start(), end


def _token_end(pieces: Sequence[tuple[int, str]], pattern: Any) -> int:  # noqa: ANN401 (RE2 has no types)
    """Return where a token ends; 0 if there is none.

    It takes as many pieces as it needs, and more only if it is of a kind without a
    length and they look like part of one: what stands in the next line is mostly text.
    """
    end = 0
    joined = ""
    for place, piece in pieces:
        before, joined = len(joined), joined + piece
        found = pattern.match(joined) if len(joined) >= _MIN_TOKEN_LENGTH else None
        if found is None:
            continue
        taken = found.end() - before
        if taken <= 0 or (end and not _is_continuation(piece[:taken], joined[:before])):
            break
        end = place + taken
        if taken < len(piece) or _COMPLETE_TOKEN.fullmatch(joined):
            break
    return end


def _is_continuation(piece: str, before: str) -> bool:
    """Whether a piece looks like part of a token, and not like a word, date or hash."""
    if len(piece) < _MIN_PIECE_LENGTH or _DATE.match(piece):
        return False
    if _HEX.fullmatch(piece):
        return _HEX.fullmatch(before[-_HEX_CONTEXT:]) is not None
    return not all(map(_is_word, re.split(r"[_.=-]+", piece)))


def _is_word(part: str) -> bool:
    """Whether something between dashes is made of words, maybe with a number."""
    humps = _WORD_PART.findall(part)
    numbers = [hump for hump in humps if hump.isdigit()]
    words = [hump for hump in humps if not hump.isdigit()]
    return (
        len(numbers) <= 1
        and all(len(number) <= _MAX_NUMBER_LENGTH for number in numbers)
        and all(len(word) > 1 or word == part for word in words)
        and all(word.isupper() or _VOWEL.search(word) for word in words)
    )


def _pieces(text: str, start: int) -> list[tuple[int, str]]:
    """Return what stands between breaks from a place on, and where."""
    pieces = []
    for found in islice(
        _BREAK.finditer(text, start, start + _MAX_TOKEN_SPAN), _MAX_PIECES
    ):
        pieces.append((start, text[start : found.start()]))
        start = found.end()
    return [*pieces, (start, text[start : start + _MAX_TOKEN_SPAN])]


@cache
def _first_piece_pattern(rule: str) -> re.Pattern[str]:
    """Return what finds the first piece of a token; the next is behind it."""
    return re.compile(rf"(?:{SPLITTABLE_PREFIXES[rule]})[A-Za-z0-9_.=-]*")
