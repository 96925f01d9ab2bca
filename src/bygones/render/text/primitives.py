"""Sanitize, style, measure and wrap text.

A transcript may contain anything: terminal escape sequences, marks that change the
writing direction, invisible characters. Text has to be sanitized before it is shown.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from functools import cache
from typing import Literal, NamedTuple

_INVISIBLE_CHARS = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters except tab and newline
    "\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160"
    "\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ud800-\udfff\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Control and format characters, fillers, tags, lone surrogates.

The two variation selectors that choose between emoji and text are not included: they
follow half of all emoji and hide nothing.
"""
EMOJI_RANGES = "\u2194\u2195\u2600-\u27bf\u2b1b\U0001f000-\U0001faff"
"""Characters that can be joined to one emoji."""
_JOINER = f"(?<=[{EMOJI_RANGES}\ufe0f])\u200d(?=[{EMOJI_RANGES}])"
"""A joiner between two emoji; elsewhere it is invisible."""
_SELECTORS = frozenset("\ufe0e\ufe0f")
_STRAY_SELECTOR = "[\ufe0e\ufe0f](?<![^\\s\ufe0e\ufe0f].)"
"""A variation selector without a base, such as in text hidden in a row of them."""
_SAFE_ASCII = bytes((*b"\t\n", *range(0x20, 0x7F)))
_COLOR_SEQUENCE = re.compile(r"\x1b\[[0-9;:]*m")
_WHITESPACE = re.compile(r"\s+")


@cache
def _invisible_pattern() -> re.Pattern[str]:
    # Compiling takes a while, and most texts contain none of these characters.
    return re.compile(f"(?!{_JOINER})[{_INVISIBLE_CHARS}]")


@cache
def _rare_pattern() -> re.Pattern[str]:
    return re.compile(f"[{_INVISIBLE_CHARS}\ufe0e\ufe0f]")


@cache
def _joiner_pattern() -> re.Pattern[str]:
    return re.compile(_JOINER)


def sanitize(text: str, newlines: Literal["keep", "space", "escape"] = "keep") -> str:
    r"""Return a text without invisible characters.

    Color sequences are removed; other control characters become visible, such as
    ``\x1b``. With ``newlines="space"``, all whitespace collapses to single spaces.
    With ``newlines="escape"``, nothing is removed: tabs, newlines and color sequences
    are escaped too, so that a name stays recognizable on one line.

    >>> sanitize("a\x1b[31mb\x1b[0m \x1b]0;title\x07\u202e")
    'ab \\x1b]0;title\\x07\\u202e'
    """
    if newlines == "space":
        return _sanitize_line(text)
    if newlines == "escape":
        return _escape_unprintable(text)
    if text.isprintable() and text.isascii():
        return text
    rest = text.encode("utf-8", "surrogatepass").translate(None, _SAFE_ASCII)
    if not rest:
        return text
    # Finding these characters is fast, replacing any of hundreds is not.
    rare = set(_rare_pattern().findall(rest.decode("utf-8", "surrogatepass")))
    if not rare:
        return text
    text = _COLOR_SEQUENCE.sub("", text.replace("\r\n", "\n"))
    if "\u200d" in rare:
        text = _invisible_pattern().sub(_escape, text)
    else:
        for char in rare - _SELECTORS:
            text = text.replace(char, char.encode("unicode_escape").decode("ascii"))
    return (
        text if rare.isdisjoint(_SELECTORS) else re.sub(_STRAY_SELECTOR, _escape, text)
    )


def _sanitize_line(text: str) -> str:
    if text.isprintable() and text.isascii():
        return " ".join(text.split()) if "  " in text else text.strip()
    return sanitize(_WHITESPACE.sub(" ", _COLOR_SEQUENCE.sub("", text)).strip())


def truncate_line(text: str, max_chars: int) -> str:
    """Return text sanitized on one line of at most `max_chars`, with an ellipsis."""
    line = sanitize_line(text[: max_chars * 4])
    return line if len(line) <= max_chars else line[: max_chars - 1].rstrip() + "…"


def _escape_unprintable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(
        char
        if char.isprintable() or _joiner_pattern().match(text, at)
        else char.encode("unicode_escape").decode("ascii")
        for at, char in enumerate(text)
    )


def sanitize_name(text: str) -> str:
    """Sanitize a file name or an id: ``sanitize(text, newlines="escape")``."""
    return sanitize(text, newlines="escape")


def sanitize_line(text: str) -> str:
    """Sanitize a text on one line: ``sanitize(text, newlines="space")``."""
    return sanitize(text, newlines="space")


def sanitize_json(text: str) -> str:
    r"""Escape invisible characters in JSON without changing its meaning.

    They can only appear in strings, where JSON has escapes such as ``\u001b``.
    """
    return _invisible_pattern().sub(_escape_json, text)


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


def _escape_json(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(
        f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2)
    )


class SpanStyle(StrEnum):
    """What a text is; the output decides how that looks."""

    PLAIN = "plain"
    TITLE = "title"
    META = "fact"
    """Times, counts, hints."""
    PROMPT = "prompt"
    HEADING = "heading"
    CODE = "code"
    THINKING = "thinking"
    TOOL = "tool"
    OUTPUT = "output"
    """Output of a tool or a command."""
    WARNING = "alert"
    ADDED = "added"
    REMOVED = "removed"
    FORK = "fork"
    AGENT = "agent"
    MATCH = "match"
    """A word that was searched for."""
    STRONG = "strong"
    EMPHASIS = "emphasis"
    STRUCK = "struck"
    KEYWORD = "keyword"
    STRING = "string"
    NUMBER = "number"
    NAME = "name"
    COMMENT = "comment"


class StyledSpan(NamedTuple):
    """Sanitized text of one style."""

    text: str
    style: SpanStyle = SpanStyle.PLAIN


StyledLine = tuple[StyledSpan, ...]
"""One line without its line end."""


def styled_line(*spans: StyledSpan | str) -> StyledLine:
    """Return a line; strings become plain spans."""
    return tuple(StyledSpan(span) if isinstance(span, str) else span for span in spans)


def plain_text(spans: Iterable[StyledSpan]) -> str:
    return "".join(span.text for span in spans).rstrip()


_ELLIPSIS = "…"
_WORD = re.compile(r"\s+|\S+")
_SKIN_TONES = "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"
_JOINERS = ("\u200d", *_SKIN_TONES)
_EMOJI = f"[{EMOJI_RANGES}]\ufe0f?[{_SKIN_TONES}]?"
_CLUSTER = f"{_EMOJI}(?:\u200d{_EMOJI})+|[{EMOJI_RANGES}][{_SKIN_TONES}]|(?s:.)"


def display_width(text: str) -> int:
    """Return the number of columns that a text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(map(_cluster_width, _clusters(text)))


def _clusters(text: str) -> Sequence[str]:
    """Split a text into characters; an emoji of several characters is one item."""
    is_joined = any(joiner in text for joiner in _JOINERS)
    return re.findall(_CLUSTER, text) if is_joined else text


def _cluster_width(cluster: str) -> int:
    if len(cluster) > 1:
        return 2
    if cluster < "\u0300":
        return 1
    if unicodedata.combining(cluster) or unicodedata.category(cluster) in {
        "Mn",
        "Me",
        "Cf",
    }:
        return 0
    return 2 if unicodedata.east_asian_width(cluster) in {"W", "F"} else 1


def truncate_end(text: str, max_width: int) -> str:
    """Cut off the end of a text that is wider than ``max_width`` columns."""
    if len(text) * 2 <= max_width or display_width(text) <= max_width:
        return text
    if max_width <= 0:
        return ""
    return "".join(_take_width(_clusters(text), max_width - 1)).rstrip() + _ELLIPSIS


def truncate_start(text: str, max_width: int) -> str:
    """Cut off the start of a text that is wider than ``max_width`` columns."""
    if len(text) * 2 <= max_width or display_width(text) <= max_width:
        return text
    if max_width <= 0:
        return ""
    return _ELLIPSIS + "".join(_take_width(_clusters(text)[::-1], max_width - 1)[::-1])


def _take_width(parts: Sequence[str], max_width: int) -> Sequence[str]:
    width = 0
    for at, part in enumerate(parts):
        width += _cluster_width(part)
        if width > max_width:
            return parts[:at]
    return parts


def wrap_line(
    text: str, max_width: int, *, subsequent_indent: str = ""
) -> Iterator[str]:
    """Wrap a line at ``max_width`` columns.

    Lines break between words, and anywhere between characters of double width. A word
    that is too long, such as a URL, is not broken: the terminal does that, and the word
    can be copied.
    """
    if display_width(text) <= max_width:
        yield text
        return
    line, width = "", 0
    for word in _split_words(text):
        word_width = display_width(word)
        if width and width + word_width > max_width and not word.isspace():
            yield line.rstrip()
            line, width = subsequent_indent, display_width(subsequent_indent)
        if not (word.isspace() and line == subsequent_indent and subsequent_indent):
            line += word
            width += word_width
    if line.strip():
        yield line.rstrip()


def wrap_spans(spans: Sequence[StyledSpan], width: int) -> Iterator[StyledLine]:
    """Wrap spans to lines between words, and keep their styles."""
    text = "".join(span.text for span in spans)
    styles = [span.style for span in spans for _ in span.text]
    at = 0
    for line in wrap_line(text, width):
        start = text.find(line, at)
        start = at if start < 0 else start
        at = start + len(line)
        yield _merge_spans(line, styles[start:at])


def _merge_spans(text: str, styles: Sequence[SpanStyle]) -> StyledLine:
    spans: list[StyledSpan] = []
    for char, style in zip(text, styles, strict=False):
        if spans and spans[-1].style is style:
            spans[-1] = StyledSpan(spans[-1].text + char, style)
        else:
            spans.append(StyledSpan(char, style))
    return tuple(spans)


def _split_words(text: str) -> Iterator[str]:
    """Yield words, the spaces between them, and single characters of double width."""
    for match in _WORD.finditer(text):
        word = match[0]
        if word.isascii() or display_width(word) == len(word):
            yield word
            continue
        pending, is_wide = "", False
        for char in _clusters(word):
            width = _cluster_width(char)
            if pending and (width == _DOUBLE_WIDTH or (width and is_wide)):
                yield pending
                pending = ""
            is_wide = width == _DOUBLE_WIDTH if not pending else is_wide
            pending += char
        if pending:
            yield pending


_FENCE = re.compile(r"\s*(```+|~~~+)")
_HANGING_INDENT = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)]|>+)\s+|\s+")
_HEADING = re.compile(r"#{1,6}\s")
_TAB_WIDTH = 4
_DOUBLE_WIDTH = 2


def wrap_markdown(
    text: str, max_width: int | None, style: SpanStyle = SpanStyle.PLAIN
) -> Iterator[StyledSpan]:
    """Yield the sanitized lines of a text, wrapped at ``max_width`` columns.

    Code and tables are not wrapped; nothing is if there is no width.
    """
    fence = ""
    for line in sanitized_lines(text, keep_tabs=max_width is None):
        match = _FENCE.match(line)
        if fence:
            yield StyledSpan(line, SpanStyle.CODE)
            if match and match[1].startswith(fence) and not line[match.end() :].strip():
                fence = ""
        elif match:
            fence = match[1]
            yield StyledSpan(line, SpanStyle.CODE)
        else:
            is_heading = style is SpanStyle.PLAIN and _HEADING.match(line)
            line_style = SpanStyle.HEADING if is_heading else style
            for part in wrap_indented(line, max_width):
                yield StyledSpan(part, line_style)


def sanitized_lines(text: str, *, keep_tabs: bool = True) -> Iterator[str]:
    """Yield the sanitized lines of a text, with tabs or spaces instead of them."""
    for line in sanitize(text).split("\n"):
        yield line if keep_tabs else line.expandtabs(_TAB_WIDTH)


def wrap_indented(line: str, max_width: int | None) -> Iterator[str]:
    """Wrap a line; what follows is indented like its start. Tables are not wrapped."""
    if (
        max_width is None
        or display_width(line) <= max_width
        or line.lstrip().startswith("|")
    ):
        yield line
        return
    match = _HANGING_INDENT.match(line)
    indent = " " * display_width(match[0]) if match else ""
    if match and ">" in match[0]:
        indent = match[0]
    if len(indent) * 2 >= max_width:
        indent = ""
    yield from wrap_line(line, max_width, subsequent_indent=indent)
