"""Text from transcripts made harmless for whatever shows it.

A transcript may hold anything: sequences that steer a terminal, marks that turn the
direction of writing, signs that nobody sees. None of it reaches a reader as it is.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from functools import cache
from typing import NamedTuple

_INVISIBLE_CHARS = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls, but for the tab and the newline
    "\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160"
    "\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ud800-\udfff\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Signs that are not simply seen: controls, formats, fillers, tags, half pairs.

The two selectors that choose between an emoji and a letter stay: they stand behind
half of all emoji, and hide nothing.
"""
EMOJI_RANGES = "\u2194\u2195\u2600-\u27bf\u2b1b\U0001f000-\U0001faff"
"""Signs of which several can be joined to one."""
_JOINER = f"(?<=[{EMOJI_RANGES}\ufe0f])\u200d(?=[{EMOJI_RANGES}])"
"""What makes one emoji of two, of a woman and a laptop; elsewhere nobody sees it."""
_SELECTORS = frozenset("\ufe0e\ufe0f")
_STRAY_SELECTOR = "[\ufe0e\ufe0f](?<![^\\s\ufe0e\ufe0f].)"
"""A selector that selects nothing, as in a text hidden in a row of them."""
_SAFE_ASCII = bytes((*b"\t\n", *range(0x20, 0x7F)))
_COLOR_SEQUENCE = re.compile(r"\x1b\[[0-9;:]*m")
_WHITESPACE = re.compile(r"\s+")


@cache
def _invisible_pattern() -> re.Pattern[str]:
    # So many signs take a while to compile, and most texts have none of them.
    return re.compile(f"(?!{_JOINER})[{_INVISIBLE_CHARS}]")


@cache
def _rare_pattern() -> re.Pattern[str]:
    return re.compile(f"[{_INVISIBLE_CHARS}\ufe0e\ufe0f]")


@cache
def _joiner_pattern() -> re.Pattern[str]:
    return re.compile(_JOINER)


def sanitize(text: str) -> str:
    r"""Return text of which every sign is seen; tabs and newlines stay.

    Colours are taken out; any other control becomes visible as ``\x1b`` and the like.

    >>> safe("a\x1b[31mb\x1b[0m \x1b]0;title\x07\u202e")
    'ab \\x1b]0;title\\x07\\u202e'
    """
    if text.isprintable() and text.isascii():
        return text
    rest = text.encode("utf-8", "surrogatepass").translate(None, _SAFE_ASCII)
    if not rest:
        return text
    # Looking for a sign is fast where replacing one of hundreds is not.
    rare = set(_rare_pattern().findall(rest.decode("utf-8", "surrogatepass")))
    if not rare:
        return text
    text = _COLOR_SEQUENCE.sub("", text.replace("\r\n", "\n"))
    if "\u200d" in rare:
        text = _invisible_pattern().sub(_escape, text)
    else:
        for sign in rare - _SELECTORS:
            text = text.replace(sign, sign.encode("unicode_escape").decode("ascii"))
    return (
        text if rare.isdisjoint(_SELECTORS) else re.sub(_STRAY_SELECTOR, _escape, text)
    )


def sanitize_line(text: str) -> str:
    """Return text on one line of which every sign is seen; space is one blank."""
    if text.isprintable() and text.isascii():
        return " ".join(text.split()) if "  " in text else text.strip()
    return sanitize(_WHITESPACE.sub(" ", _COLOR_SEQUENCE.sub("", text)).strip())


def truncate_line(text: str, max_chars: int) -> str:
    """Return text sanitized on one line of at most `max_chars`, with an ellipsis."""
    line = sanitize_line(text[: max_chars * 4])
    return line if len(line) <= max_chars else line[: max_chars - 1].rstrip() + "…"


def sanitize_name(text: str) -> str:
    r"""Return a name with everything escaped that is not a printable sign.

    A line end becomes ``\n``: a name stays the same name, on one line.
    """
    if text.isprintable():
        return text
    return "".join(
        sign
        if sign.isprintable() or _joiner_pattern().match(text, at)
        else sign.encode("unicode_escape").decode("ascii")
        for at, sign in enumerate(text)
    )


def sanitize_json(text: str) -> str:
    r"""Return JSON in which unseen signs are escaped; its meaning stays the same.

    They can stand in strings only, where JSON knows ``\u001b`` for them.
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
    """What a text is, for whoever chooses how that looks."""

    PLAIN = "plain"
    TITLE = "title"
    META = "fact"
    """What stands around the rest: times, counts, hints."""
    PROMPT = "prompt"
    HEADING = "heading"
    CODE = "code"
    THINKING = "thinking"
    TOOL = "tool"
    """The name of a tool."""
    OUTPUT = "output"
    """What a tool or a command printed."""
    WARNING = "alert"
    ADDED = "added"
    REMOVED = "removed"
    FORK = "fork"
    AGENT = "agent"


class StyledSpan(NamedTuple):
    """Some text of one style, harmless already."""

    text: str
    style: SpanStyle = SpanStyle.PLAIN


StyledLine = tuple[StyledSpan, ...]
"""One line of text, without its end."""


def styled_line(*spans: StyledSpan | str) -> StyledLine:
    """Return the spans as a row; a bare text is plain."""
    return tuple(StyledSpan(span) if isinstance(span, str) else span for span in spans)


def plain_text(spans: Iterable[StyledSpan]) -> str:
    """Return what the spans say, without their styles."""
    return "".join(span.text for span in spans).rstrip()


_ELLIPSIS = "…"
_WORD = re.compile(r"\s+|\S+")
_SKIN_TONES = "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"
_JOINERS = ("\u200d", *_SKIN_TONES)
_EMOJI = f"[{EMOJI_RANGES}]\ufe0f?[{_SKIN_TONES}]?"
_CLUSTER = f"{_EMOJI}(?:\u200d{_EMOJI})+|[{EMOJI_RANGES}][{_SKIN_TONES}]|(?s:.)"


def display_width(text: str) -> int:
    """Return how many columns a plain text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(map(_cluster_width, _clusters(text)))


def _clusters(text: str) -> Sequence[str]:
    """Return signs, and emoji that are made of several as one."""
    is_joined = any(sign in text for sign in _JOINERS)
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
    """Return text that takes at most ``room`` columns, its end cut off if need be."""
    if len(text) * 2 <= max_width or display_width(text) <= max_width:
        return text
    if max_width <= 0:
        return ""
    return "".join(_take_width(_clusters(text), max_width - 1)).rstrip() + _ELLIPSIS


def truncate_start(text: str, max_width: int) -> str:
    """Return text that takes at most ``room`` columns, its beginning cut off."""
    if len(text) * 2 <= max_width or display_width(text) <= max_width:
        return text
    if max_width <= 0:
        return ""
    return _ELLIPSIS + "".join(_take_width(_clusters(text)[::-1], max_width - 1)[::-1])


def _take_width(parts: Sequence[str], max_width: int) -> Sequence[str]:
    taken = 0
    for at, part in enumerate(parts):
        taken += _cluster_width(part)
        if taken > max_width:
            return parts[:at]
    return parts


def wrap_line(
    text: str, max_width: int, *, subsequent_indent: str = ""
) -> Iterator[str]:
    """Yield one line as lines of at most ``room`` columns; later ones begin with hang.

    Lines break between words, and anywhere among signs of double width. A word that
    is too long (an address, say) stays whole: a terminal breaks it, and a copy of it
    works.
    """
    if display_width(text) <= max_width:
        yield text
        return
    line, taken = "", 0
    for word in _split_words(text):
        columns = display_width(word)
        if taken and taken + columns > max_width and not word.isspace():
            yield line.rstrip()
            line, taken = subsequent_indent, display_width(subsequent_indent)
        if not (word.isspace() and line == subsequent_indent and subsequent_indent):
            line += word
            taken += columns
    if line.strip():
        yield line.rstrip()


def _split_words(text: str) -> Iterator[str]:
    """Yield words, the spaces between them, and signs of double width alone."""
    for found in _WORD.finditer(text):
        word = found[0]
        if word.isascii() or display_width(word) == len(word):
            yield word
            continue
        pending, is_wide = "", False
        for sign in _clusters(word):
            columns = _cluster_width(sign)
            if pending and (columns == 2 or (columns and is_wide)):  # noqa: PLR2004 (double width)
                yield pending
                pending = ""
            is_wide = columns == 2 if not pending else is_wide  # noqa: PLR2004
            pending += sign
        if pending:
            yield pending


_FENCE = re.compile(r"\s*(```+|~~~+)")
_HANGING_INDENT = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)]|>+)\s+|\s+")
_HEADING = re.compile(r"#{1,6}\s")
_TAB_WIDTH = 4


def wrap_markdown(
    text: str, max_width: int | None, style: SpanStyle = SpanStyle.PLAIN
) -> Iterator[StyledSpan]:
    """Yield the lines of a text, harmless, at most ``room`` wide where they may wrap.

    Code and tables keep their lines. Without room nothing is wrapped.
    """
    fence = ""
    for line in sanitized_lines(text, keep_tabs=max_width is None):
        mark = _FENCE.match(line)
        if fence:
            yield StyledSpan(line, SpanStyle.CODE)
            if mark and mark[1].startswith(fence) and not line[mark.end() :].strip():
                fence = ""
        elif mark:
            fence = mark[1]
            yield StyledSpan(line, SpanStyle.CODE)
        else:
            heading = style is SpanStyle.PLAIN and _HEADING.match(line)
            own = SpanStyle.HEADING if heading else style
            for part in _wrap_line(line, max_width):
                yield StyledSpan(part, own)


def sanitized_lines(text: str, *, keep_tabs: bool = True) -> Iterator[str]:
    """Yield the lines of a text, harmless; tabs are blanks where widths count."""
    for line in sanitize(text).split("\n"):
        yield line if keep_tabs else line.expandtabs(_TAB_WIDTH)


def _wrap_line(line: str, max_width: int | None) -> Iterator[str]:
    if (
        max_width is None
        or display_width(line) <= max_width
        or line.lstrip().startswith("|")
    ):
        yield line
        return
    hanging = _HANGING_INDENT.match(line)
    hang = " " * display_width(hanging[0]) if hanging else ""
    if hanging and ">" in hanging[0]:
        hang = hanging[0]
    yield from wrap_line(
        line, max_width, subsequent_indent=hang if len(hang) * 2 < max_width else ""
    )
