"""Cut excerpts out of texts and highlight what was searched for."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import islice

from msgspec import Struct

from bygones.model.summary import Excerpt
from bygones.query.terms import TermRun

EXCERPT_WIDTH = 180
"""Characters of an excerpt, before it is cut back to whole words."""
_CONTEXT_BEFORE = 40
"""Characters before the first highlight, if there are as many."""
_WORD_SLACK = 30
"""How many characters a cut may move to keep a word whole."""
_MAX_HIGHLIGHTS = 400
_MAX_SCANNED_CHARS = 400_000
"""Characters of a text that are scanned."""
_TERMINAL_ESCAPE = re.compile(
    r"\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"
)
_CJK_RANGES = "\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc"
_FIRST_CJK = "\u2e80"
_JOINERS = {"\u200d", "\ufe0e", "\ufe0f"}


class Highlighter(Struct, frozen=True):
    """Finds what to highlight in a text."""

    word_pattern: re.Pattern[str] | None = None
    """Matches lower-case text without accents; a match has to start a word."""
    regex_pattern: re.Pattern[str] | None = None

    def find_spans(self, text: str) -> list[tuple[int, int]]:
        """Return the start and end of each highlight, in order, none inside another."""
        spans: list[tuple[int, int]] = []
        if self.word_pattern is not None:
            folded = _fold_text(text)
            for match in islice(self.word_pattern.finditer(folded), _MAX_HIGHLIGHTS):
                start = match.start()
                if start == 0 or not _is_inside_word(folded, start):
                    spans.append(match.span())
        if self.regex_pattern is not None:
            matches = islice(self.regex_pattern.finditer(text), _MAX_HIGHLIGHTS)
            spans = _merge_spans([*spans, *(m.span() for m in matches if m[0])])
        return spans


def make_highlighter(
    runs: Iterable[TermRun],
    prefixes: Iterable[TermRun] = (),
    patterns: Iterable[str] = (),
) -> Highlighter:
    """Return a highlighter for runs of terms, prefixes and regular expressions."""
    words = [_run_pattern(run) for run in runs]
    words += [_run_pattern(run, is_prefix=True) for run in prefixes]
    # The longest first: it may start with another one.
    words = sorted(dict.fromkeys(words), key=len, reverse=True)
    regexes = [f"(?:{pattern})" for pattern in patterns]
    return Highlighter(
        re.compile("|".join(words)) if words else None,
        re.compile("|".join(regexes), re.IGNORECASE) if regexes else None,
    )


@cache
def _cjk_pattern() -> re.Pattern[str]:
    # Compiled for the first text that needs it: that takes as long as ten excerpts.
    return re.compile(f"[{_CJK_RANGES}]")


def _is_cjk(character: str) -> bool:
    return (
        character >= _FIRST_CJK
        and character.isalnum()
        and _cjk_pattern().match(character) is not None
    )


def _run_pattern(run: TermRun, *, is_prefix: bool = False) -> str:
    """Return a pattern for consecutive terms; CJK characters may touch."""
    pattern = re.escape(run[0])
    for term in run[1:]:
        pattern += (r"[\W_]*" if _is_cjk(term[:1]) else r"[\W_]+") + re.escape(term)
    if not _is_cjk(run[-1][:1]):
        pattern += r"[^\W_]*" if is_prefix else r"(?![^\W_])"
    return pattern


def _is_inside_word(text: str, at: int) -> bool:
    return text[at - 1].isalnum() and not (
        _is_cjk(text[at : at + 1]) or _is_cjk(text[at - 1])
    )


def _merge_spans(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        else:
            merged.append((start, stop))
    return merged


def cut_excerpt(text: str, highlighter: Highlighter) -> Excerpt:
    """Return the part of a text that contains the most of what is highlighted.

    It is on one line, consists of whole words where possible, and contains no terminal
    escape sequences.
    """
    text = text[:_MAX_SCANNED_CHARS]
    if "\x1b" in text:
        text = _TERMINAL_ESCAPE.sub("", text)
    text = " ".join(text.split())
    spans = highlighter.find_spans(text)
    start = _best_start(text, spans)
    start, stop = _snap_to_words(text, start)
    inside = tuple(
        (max(begin, start) - start, min(end, stop) - start)
        for begin, end in spans
        if begin < stop and end > start
    )
    return Excerpt(text[start:stop], inside, start > 0, stop < len(text))


def _best_start(text: str, spans: Sequence[tuple[int, int]]) -> int:
    """Return the start that includes most different words, then most words."""
    best = (0, 0, 0)
    for at, (start, _) in enumerate(spans):
        inside = []
        for begin, end in spans[at:]:
            if end > start + EXCERPT_WIDTH - _CONTEXT_BEFORE:
                break
            inside.append(text[begin:end].lower())
        best = max(best, (len(set(inside)), len(inside), -start))
    return max(0, -best[2] - _CONTEXT_BEFORE) if spans else 0


def _snap_to_words(text: str, start: int) -> tuple[int, int]:
    stop = min(len(text), start + EXCERPT_WIDTH)
    if start:
        space = text.find(" ", start - 1, start + _WORD_SLACK)
        start = space + 1 if space >= 0 else _snap_to_character(text, start)
    if stop < len(text):
        space = text.rfind(" ", stop - _WORD_SLACK, stop + 1)
        stop = space if space > start else _snap_to_character(text, stop)
    return start, stop


def _snap_to_character(text: str, at: int) -> int:
    """Return the nearest offset before that is not inside a visible character."""
    while 0 < at < len(text) and (
        unicodedata.combining(text[at])
        or text[at] in _JOINERS
        or text[at - 1] == "\u200d"
    ):
        at -= 1
    return at


def _fold_text(text: str) -> str:
    """Return a text of the same length in lower case, without accents."""
    return text.lower() if text.isascii() else text.translate(_FOLD_TABLE)


class _FoldTable(dict[int, str]):
    """Maps characters to lower case without accents, each when it is first met."""

    def __missing__(self, character: int) -> str:
        if len(self) >= _FOLD_CACHE_SIZE:
            self.clear()
        folded = unicodedata.normalize("NFKD", chr(character))[0].lower()[:1]
        self[character] = folded
        return folded


_FOLD_CACHE_SIZE = 4096
_FOLD_TABLE = _FoldTable()
