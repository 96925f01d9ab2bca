"""Markdown left readable: wrapped where words may move, kept where they may not."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bygones.render.safe import safe
from bygones.render.spans import Span, Style
from bygones.render.widths import width, wrap

__all__ = ["prose", "unwrapped"]

_FENCE = re.compile(r"\s*(```+|~~~+)")
_HANGING = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)]|>+)\s+|\s+")
_HEADING = re.compile(r"#{1,6}\s")
_TAB = 4


def prose(text: str, room: int | None, style: Style = Style.PLAIN) -> Iterator[Span]:
    """Yield the lines of a text, harmless, at most ``room`` wide where they may wrap.

    Code and tables keep their lines. Without room nothing is wrapped.
    """
    fence = ""
    for line in unwrapped(text, is_wide=room is None):
        mark = _FENCE.match(line)
        if fence:
            yield Span(line, Style.CODE)
            if mark and mark[1].startswith(fence) and not line[mark.end() :].strip():
                fence = ""
        elif mark:
            fence = mark[1]
            yield Span(line, Style.CODE)
        else:
            heading = style is Style.PLAIN and _HEADING.match(line)
            own = Style.HEADING if heading else style
            for part in _wrapped(line, room):
                yield Span(part, own)


def unwrapped(text: str, *, is_wide: bool = True) -> Iterator[str]:
    """Yield the lines of a text, harmless; tabs are blanks where widths count."""
    for line in safe(text).split("\n"):
        yield line if is_wide else line.expandtabs(_TAB)


def _wrapped(line: str, room: int | None) -> Iterator[str]:
    if room is None or width(line) <= room or line.lstrip().startswith("|"):
        yield line
        return
    hanging = _HANGING.match(line)
    hang = " " * width(hanging[0]) if hanging else ""
    if hanging and ">" in hanging[0]:
        hang = hanging[0]
    yield from wrap(line, room, hang=hang if len(hang) * 2 < room else "")
