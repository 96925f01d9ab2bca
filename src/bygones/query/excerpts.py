"""The best few words of a text, with those marked that were looked for."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import islice

from msgspec import Struct

from bygones.model.hits import Excerpt
from bygones.query.terms import Run

__all__ = ["Marking", "excerpt", "marking"]

WIDTH = 180
"""Signs of an excerpt, before it is cut back to whole words."""
_BEFORE = 40
"""Signs that stand before the first mark, if there are so many."""
_SLACK = 30
"""How far a cut is moved to keep a word whole."""
_MOST_MARKS = 400
_FAR = 400_000
"""Signs of a text that are looked through."""
_ESCAPE = re.compile(r"\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?")
_WIDE = "\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc"
_FIRST_WIDE = "\u2e80"
_JOINERS = {"\u200d", "\ufe0e", "\ufe0f"}


class Marking(Struct, frozen=True):
    """What is to be marked in a text."""

    words: re.Pattern[str] | None = None
    """Of small letters without accents, begun at the beginning of a word."""
    others: re.Pattern[str] | None = None

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return where marks begin and end, in order; none lies within another."""
        found: list[tuple[int, int]] = []
        if self.words is not None:
            plain = _plain(text)
            for match in islice(self.words.finditer(plain), _MOST_MARKS):
                start = match.start()
                if start == 0 or not _continues(plain, start):
                    found.append(match.span())
        if self.others is not None:
            matches = islice(self.others.finditer(text), _MOST_MARKS)
            found = _merged([*found, *(m.span() for m in matches if m[0])])
        return found


def marking(
    runs: Iterable[Run], beginnings: Iterable[Run] = (), patterns: Iterable[str] = ()
) -> Marking:
    """Return what marks terms in a row, beginnings of words, and patterns."""
    ways = [_written(run) for run in runs]
    ways += [_written(run, is_begun=True) for run in beginnings]
    # The longest way first: a part of it may be another way.
    ways = sorted(dict.fromkeys(ways), key=len, reverse=True)
    others = [f"(?:{pattern})" for pattern in patterns]
    return Marking(
        re.compile("|".join(ways)) if ways else None,
        re.compile("|".join(others), re.IGNORECASE) if others else None,
    )


@cache
def _wide_sign() -> re.Pattern[str]:
    # Made when the first text needs it: that takes as long as ten excerpts.
    return re.compile(f"[{_WIDE}]")


def _is_wide(sign: str) -> bool:
    return (
        sign >= _FIRST_WIDE and sign.isalnum() and _wide_sign().match(sign) is not None
    )


def _written(run: Run, *, is_begun: bool = False) -> str:
    """Return a pattern for terms in a row; signs without spaces may touch."""
    written = re.escape(run[0])
    for term in run[1:]:
        written += (r"[\W_]*" if _is_wide(term[:1]) else r"[\W_]+") + re.escape(term)
    if not _is_wide(run[-1][:1]):
        written += r"[^\W_]*" if is_begun else r"(?![^\W_])"
    return written


def _continues(text: str, at: int) -> bool:
    """Whether a place is within a word."""
    return text[at - 1].isalnum() and not (
        _is_wide(text[at : at + 1]) or _is_wide(text[at - 1])
    )


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        else:
            merged.append((start, stop))
    return merged


def excerpt(text: str, marks: Marking) -> Excerpt:
    """Return the stretch of a text that has the most of what is looked for.

    It is on one line, begins and ends with whole words where there are any, and
    leaves out what steers a terminal.
    """
    text = text[:_FAR]
    if "\x1b" in text:
        text = _ESCAPE.sub("", text)
    text = " ".join(text.split())
    found = marks.spans(text)
    start = _best(text, found)
    start, stop = _whole_words(text, start)
    inside = tuple(
        (max(begin, start) - start, min(end, stop) - start)
        for begin, end in found
        if begin < stop and end > start
    )
    return Excerpt(text[start:stop], inside, start > 0, stop < len(text))


def _best(text: str, found: Sequence[tuple[int, int]]) -> int:
    """Return where to begin so that most different words, then most words, are in."""
    best = (0, 0, 0)
    for at, (start, _) in enumerate(found):
        inside = []
        for begin, end in found[at:]:
            if end > start + WIDTH - _BEFORE:
                break
            inside.append(text[begin:end].lower())
        best = max(best, (len(set(inside)), len(inside), -start))
    return max(0, -best[2] - _BEFORE) if found else 0


def _whole_words(text: str, start: int) -> tuple[int, int]:
    stop = min(len(text), start + WIDTH)
    if start:
        space = text.find(" ", start - 1, start + _SLACK)
        start = space + 1 if space >= 0 else _between(text, start)
    if stop < len(text):
        space = text.rfind(" ", stop - _SLACK, stop + 1)
        stop = space if space > start else _between(text, stop)
    return start, stop


def _between(text: str, at: int) -> int:
    """Return a place near one that is between two signs as people see them."""
    while 0 < at < len(text) and (
        unicodedata.combining(text[at])
        or text[at] in _JOINERS
        or text[at - 1] == "\u200d"
    ):
        at -= 1
    return at


def _plain(text: str) -> str:
    """Return a text of the same length in small letters without accents."""
    return text.lower() if text.isascii() else text.translate(_SMALL)


class _Small(dict[int, str]):
    """Signs in small letters without accents, found when they are met."""

    def __missing__(self, sign: int) -> str:
        if len(self) >= _SIGNS:
            self.clear()
        small = unicodedata.normalize("NFKD", chr(sign))[0].lower()[:1]
        self[sign] = small
        return small


_SIGNS = 4096
_SMALL = _Small()
