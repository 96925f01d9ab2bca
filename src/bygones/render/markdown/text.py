"""Text as Markdown: what was written as such stays, what is dangerous in it does not.

Viewers differ in what they let through: raw HTML is spelled out, pictures are linked
instead of loaded, and links lead to the web or to a mail address.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape

from bygones.render.safe import safe, safe_line

__all__ = ["code", "fenced", "neutral", "plain", "quoted", "summary"]

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_CODE = re.compile(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)")
_SIGNS = re.compile(r"([\\`*_\[\]{}#|~])")
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_WEB = re.compile(r"<(https?://[^\s<>]+|mailto:[^\s<>]+)>")
_TARGET = re.compile(
    r"(\]\(\s*<?|^ {0,3}\[[^\]]*\]:\s*<?)"
    r"(?![hH][tT]{2}[pP][sS]?:|[mM]ailto:|#)(?=[^\s)])"
)
"""Where a link leads that does not lead to the web."""
_HEADING = re.compile(r" {0,3}(#{1,6})(?=\s|$)")
_RUN = re.compile(r"`+")
_SHIFT = 2
"""Levels by which headings go down: those of the page stand above them."""
_DEEPEST = 6


def plain(text: str) -> str:
    r"""Return a text on one line that Markdown shows as it is.

    >>> plain("a *b* <c>")
    'a \\*b\\* &lt;c>'
    """
    return _SIGNS.sub(r"\\\1", safe_line(text).replace("&", "&amp;")).replace(
        "<", "&lt;"
    )


def summary(text: str) -> str:
    """Return a text on one line for an element in which Markdown is not read."""
    return escape(safe_line(text), quote=False)


def code(text: str) -> str:
    """Return a text on one line as code."""
    line = safe_line(text)
    mark = "`" * (_longest(line) + 1)
    gap = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{mark}{gap}{line}{gap}{mark}" if line else ""


def fenced(text: str, language: str = "") -> str:
    """Return a text as a block of code, in a fence that nothing in it can end."""
    body = safe(text).strip("\n")
    mark = "`" * max(3, _longest(body) + 1)
    return f"{mark}{language}\n{body}\n{mark}\n"


def _longest(text: str) -> int:
    return max((len(run) for run in _RUN.findall(text)), default=0)


def neutral(text: str) -> str:
    """Return Markdown that shows the same and does nothing."""
    return "\n".join(_lines(safe(text).strip("\n")))


def quoted(text: str) -> str:
    """Return Markdown as a quotation in which every line stays one."""
    lines = neutral(text).split("\n")
    return "\n".join(f"> {line}  " if line else ">" for line in lines)


def _lines(text: str) -> Iterator[str]:
    fence = ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if fence:
            yield line
            if mark and mark[1].startswith(fence) and not line[mark.end() :].strip():
                fence = ""
        elif mark and not ("`" in mark[1] and "`" in line[mark.end() :]):
            fence = mark[1]
            yield _TAG.sub("&lt;", line)
        else:
            yield _tame(line)
    if fence:
        # Nobody closed it; what follows is not part of it.
        yield fence


def _tame(line: str) -> str:
    """Return a line of Markdown without what is dangerous outside of code."""
    heading = _HEADING.match(line)
    if heading:
        level = min(len(heading[1]) + _SHIFT, _DEEPEST)
        line = "#" * level + line[heading.end() :]
    parts: list[str] = []
    at = 0
    for found in _CODE.finditer(line):
        parts += (_words(line[at : found.start()]), found[0])
        at = found.end()
    parts.append(_words(line[at:]))
    return "".join(parts)


def _words(text: str) -> str:
    text = _WEB.sub(r"[\1](\1)", text)
    text = _TAG.sub("&lt;", text).replace("![", "[picture: ")
    return _TARGET.sub(r"\1#not-followed:", text)
