"""Paragraphs, lists, tables and code, as answers usually have them, read at once.

Markdown-it asks each of its rules at every line. Here the first sign of a line tells
what it begins, and whatever is written in an unusual way is left to Markdown-it, whole.
Tests hold both against each other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from msgspec import Struct

__all__ = ["HEADINGS", "SIDES", "blocks"]

HEADINGS = {"h1": "h3", "h2": "h4", "h3": "h5", "h4": "h6", "h5": "h6"}
"""Headings of a message stand below those of the page."""
SIDES = {"text-align:right": "right", "text-align:center": "middle"}
"""The class of a cell by the style that Markdown-it would give it."""

_DEEPEST = 6
"""Lists and quotes within each other that are read here."""
_POINT = re.compile(r"(?:([-*+])|(\d{1,9})([.)])) {1,4}(?! )(?=.)")
_POINT_LIKE = re.compile(r"(?:[-*+]|\d{1,9}[.)])(?: |\Z)")
_HEADING = re.compile(r"(#{1,6})(?: |\Z)")
_FENCE = re.compile(r"(`{3,}|~{3,})(.*)\Z")
_RULE = re.compile(r"([-*_])(?: *\1){2,} *\Z")
_UNDERLINE = re.compile(r"(?:=+|-+) *\Z")
_DELIMITER = re.compile(r"[|:-][-:| ]+\Z")
_COLUMN = re.compile(r"(:?)-+(:?)\Z")
_STARTS = frozenset(" -*+#>`~|=_:0123456789")
"""Signs with which something other than a paragraph may begin, or end one."""
_CLASSES = {
    ("", ""): "",
    (":", ""): "",
    ("", ":"): ' class="right"',
    (":", ":"): ' class="middle"',
}


class _OddError(Exception):
    """Something that is left to Markdown-it."""


class _Block(Struct, frozen=True, gc=False):
    html: str
    is_paragraph: bool = False


def blocks(
    source: str, inline: Callable[[str], str], code: Callable[[str, str], str]
) -> str | None:
    """Return the markup of a text; ``None`` where only Markdown-it knows it.

    ``inline`` makes markup of what stands in a paragraph, ``code`` of code and the
    name of its language.
    """
    if "\t" in source:
        return None
    try:
        found, _ = _Reader(inline, code).read(source.split("\n"), 0)
    except _OddError:
        return None
    return "".join(map(_whole, found))


def _whole(block: _Block) -> str:
    return f"<p>{block.html}</p>\n" if block.is_paragraph else block.html


class _Reader:
    """Reads lines; those of a point or a quote again, without what marks them."""

    def __init__(
        self, inline: Callable[[str], str], code: Callable[[str, str], str]
    ) -> None:
        self._inline = inline
        self._code = code

    def read(self, lines: Sequence[str], depth: int) -> tuple[list[_Block], bool]:
        """Return blocks, and whether an empty line stands between two of them."""
        if depth > _DEEPEST:
            raise _OddError
        found: list[_Block] = []
        is_loose = is_behind_gap = False
        at, end = 0, len(lines)
        while at < end:
            line = lines[at]
            if not line.strip(" "):
                at += 1
                is_behind_gap = True
                continue
            if is_behind_gap and found:
                is_loose = True
            is_behind_gap = False
            block, at = self._block(line, lines, at, depth)
            found.append(block)
        return found, is_loose

    def _block(
        self, line: str, lines: Sequence[str], at: int, depth: int
    ) -> tuple[_Block, int]:
        """Return the block that begins with a line, and the line behind it."""
        first = line[0]
        if "|" in line and at + 1 < len(lines) and _is_delimiter(lines[at + 1]):
            return self._table(lines, at)
        if first in _STARTS:
            if first == " ":
                raise _OddError
            if _POINT_LIKE.match(line) and not _RULE.match(line):
                return self._list(lines, at, depth)
            if first == ">":
                return self._quote(lines, at, depth)
            if mark := _FENCE.match(line):
                return self._fence(lines, at, mark)
            if made := self._line(line):
                return made, at + 1
        return self._paragraph(lines, at)

    def _line(self, line: str) -> _Block | None:
        """Return the block that a line is by itself, if it is one."""
        mark = _HEADING.match(line)
        if mark is None:
            return _Block("<hr />\n") if _RULE.match(line) else None
        content = line[mark.end() :].strip()
        if not content or content.endswith("#"):
            raise _OddError
        name = f"h{len(mark[1])}"
        name = HEADINGS.get(name, name)
        return _Block(f"<{name}>{self._inline(content)}</{name}>\n")

    def _paragraph(self, lines: Sequence[str], at: int) -> tuple[_Block, int]:
        behind = at + 1
        while behind < len(lines):
            line = lines[behind]
            if not line.strip(" "):
                break
            if line[0] in _STARTS and _interrupts(line, lines, behind):
                break
            behind += 1
        content = "\n".join(lines[at:behind]).strip()
        if content.startswith("[") and "]:" in content:
            raise _OddError
        return _Block(self._inline(content), is_paragraph=True), behind

    def _fence(
        self, lines: Sequence[str], at: int, mark: re.Match[str]
    ) -> tuple[_Block, int]:
        sign, told = mark[1], mark[2]
        if "`" in told:
            raise _OddError
        for behind in range(at + 1, len(lines)):
            line = lines[behind]
            if line.startswith(sign) and not line.strip(" ").strip(sign[0]):
                code = "".join(f"{inner}\n" for inner in lines[at + 1 : behind])
                return _Block(self._code(code, told)), behind + 1
            if line[:1] == " " and line.lstrip(" ").startswith(sign):
                break
        raise _OddError

    def _quote(self, lines: Sequence[str], at: int, depth: int) -> tuple[_Block, int]:
        behind = at
        inner = []
        while behind < len(lines) and lines[behind][:1] == ">":
            inner.append(lines[behind][1:].removeprefix(" "))
            behind += 1
        is_going_on = behind < len(lines) and lines[behind].strip(" ")
        found, _ = self.read(inner, depth + 1)
        if not found or (is_going_on and inner[-1].strip(" ")):
            raise _OddError
        told = "".join(map(_whole, found))
        return _Block(f"<blockquote>\n{told}</blockquote>\n"), behind

    def _list(self, lines: Sequence[str], at: int, depth: int) -> tuple[_Block, int]:
        mark = _POINT.match(lines[at])
        number = mark[2] if mark else None
        sign = mark and (mark[1] or mark[3])
        points = []
        is_loose = False
        while mark is not None:
            inner, behind = _point(lines, at, mark.end())
            found, is_parted = self.read(inner, depth + 1)
            is_loose = is_loose or is_parted
            points.append(found)
            at += len(inner)
            mark = _POINT.match(lines[behind]) if behind < len(lines) else None
            if mark is None or (mark[1] or mark[3]) != sign:
                _end_of_list(lines, at, behind)
                break
            if _RULE.match(lines[behind]):
                raise _OddError
            is_loose = is_loose or behind > at
            at = behind
        if not points:
            raise _OddError
        name = "ul" if number is None else "ol"
        start = f' start="{int(number)}"' if number and int(number) != 1 else ""
        told = "".join(_told_point(found, is_loose=is_loose) for found in points)
        return _Block(f"<{name}{start}>\n{told}</{name}>\n"), at

    def _table(self, lines: Sequence[str], at: int) -> tuple[_Block, int]:
        if not lines[at].startswith("|") or not lines[at + 1].startswith("|"):
            raise _OddError
        sides = [_side(column) for column in _cells(lines[at + 1])]
        head = _cells(lines[at])
        if not head or len(head) != len(sides):
            raise _OddError
        behind = at + 2
        rows = []
        while behind < len(lines) and lines[behind][:1] == "|":
            rows.append(self._row("td", _cells(lines[behind]), sides))
            behind += 1
        if behind < len(lines) and lines[behind].strip(" "):
            raise _OddError
        body = f"<tbody>\n{''.join(rows)}</tbody>\n" if rows else ""
        return _Block(
            f'<div class="table"><table><thead>\n{self._row("th", head, sides)}'
            f"</thead>\n{body}</table></div>"
        ), behind

    def _row(self, name: str, cells: Sequence[str], sides: Sequence[str]) -> str:
        missing = len(sides) - len(cells)
        told = "".join(
            f"<{name}{side}>{self._inline(cell)}</{name}>\n"
            for cell, side in zip((*cells, *[""] * missing), sides, strict=False)
        )
        return f"<tr>\n{told}</tr>\n"


def _interrupts(line: str, lines: Sequence[str], at: int) -> bool:
    """Whether a line ends the paragraph above it."""
    first = line[0]
    if first == " ":
        if line.lstrip(" ")[0] in _STARTS:
            raise _OddError
        return False
    if first in "-=" and _UNDERLINE.match(line):
        raise _OddError
    if "|" in lines[at - 1] and _is_delimiter(line):
        raise _OddError
    if first in "-*_" and _RULE.match(line):
        return True
    if _POINT_LIKE.match(line):
        return _begins_list(line)
    if first == "|":
        return at + 1 < len(lines) and _is_delimiter(lines[at + 1])
    return (
        first == ">"
        or (first == "#" and _HEADING.match(line) is not None)
        or (first in "`~" and _FENCE.match(line) is not None)
    )


def _is_delimiter(line: str) -> bool:
    """Whether a line may part the head of a table from its rows."""
    return _DELIMITER.match(line.lstrip(" ")) is not None


def _begins_list(line: str) -> bool:
    """Whether a point ends the paragraph above it: of those with numbers the first."""
    mark = _POINT.match(line)
    if mark is None:
        raise _OddError
    return mark[2] is None or int(mark[2]) == 1


def _point(lines: Sequence[str], at: int, width: int) -> tuple[list[str], int]:
    """Return the lines of a point without their indent, and the next that is not its.

    Empty lines at the end are not among them.
    """
    inner = [lines[at][width:]]
    indent = " " * width
    last = 1
    behind = at + 1
    while behind < len(lines):
        line = lines[behind]
        if line.startswith(indent) and line.strip(" "):
            inner.append(line[width:])
            last = len(inner)
        elif line.strip(" "):
            break
        else:
            inner.append(line[width:])
        behind += 1
    return inner[:last], behind


def _end_of_list(lines: Sequence[str], at: int, behind: int) -> None:
    """Raise where the line behind a list may belong to it all the same."""
    if behind == len(lines):
        return
    line = lines[behind]
    if line[0] == " ":
        raise _OddError
    if behind == at and not (
        _HEADING.match(line)
        or _FENCE.match(line)
        or (_POINT.match(line) and line[0] in "-*+")
    ):
        raise _OddError


def _told_point(found: Sequence[_Block], *, is_loose: bool) -> str:
    told = "<li>"
    is_bare = False
    for number, block in enumerate(found):
        if block.is_paragraph and not is_loose:
            told += block.html
            is_bare = True
            continue
        # Between words without a paragraph of their own and a list, or a quote.
        is_apart = number == 0 or (is_bare and not block.html.startswith(_JOINED))
        told += f"{chr(10) if is_apart else ''}{_whole(block)}"
        is_bare = False
    return f"{told}</li>\n"


_JOINED = ("<pre>", "<div", "<h3>", "<h4>", "<h5>", "<h6>")
"""What Markdown-it puts behind such words without a line end."""


def _cells(line: str) -> list[str]:
    if "\\" in line:
        raise _OddError
    cells = line.strip().split("|")
    if cells and not cells[0]:
        cells.pop(0)
    if cells and not cells[-1]:
        cells.pop()
    return [cell.strip() for cell in cells]


def _side(column: str) -> str:
    mark = _COLUMN.match(column)
    if mark is None:
        raise _OddError
    return _CLASSES[mark[1], mark[2]]
