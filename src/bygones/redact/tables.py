"""Find the values of a column in tables: CSV, Markdown, output of databases."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from msgspec import Struct

Span = tuple[int, int]

_BREAK = re.compile(r"\r?\n")
_ESCAPED_BREAK = re.compile(r"(?:\\+r)?\\+n|\r?\n")
"""A line break in text that was encoded as JSON."""
_DELIMITER = re.compile(r"[\"'`*\\]{0,6} {0,80}(\\+t|[,;\t|│])")
_DELIMITER_BEFORE = re.compile(r"(\\+t|[,;\t|│]) {0,80}[\"'`*\\]{0,6}\w{0,40}$")
_MAX_BEFORE = 100
_QUOTED_CELL = re.compile(r'\\*"((?:[^"\\]|"")*)\\*"')
_ALIGNED_CELL = re.compile(r"\S+(?: \S+)*")
_ALIGNED_WORD = re.compile(r"(?<!\S)\S+")
_LINE_NUMBER = re.compile(r"\s*\d+[→\t]")
_TITLE = re.compile(r"\w+(?:[ ._-]\w+){0,3}")
_DASHES = re.compile(r" {0,80}-+(?: +-+)+(?=[ \r\n\\]|$)")
_DASH = re.compile("-+")
_MARKS = " \r\"'`*\\"
_SPACE = re.compile(r"\s")
_WORD = re.compile(r"\w")
_OPENING = re.compile(r'[:\[] ?\\*"')
_ESCAPED_MARKS = re.compile(r"(?:\\*[\"'`*]|[ \r])+")
_NAME = re.compile(
    r"(?=.*[_-])[a-z]+(?:[_-][a-z]+)*[_-]?\d{1,4}|[a-z0-9_-]+\.[a-z]{2,5}"
)
"""Words with a number, as tests and services have, or a file name."""
_MAX_LINE = 4_000
_MAX_TITLES = 20
"""How many columns of one table are read."""


def find_column_values(text: str, titles: Iterable[Span]) -> Iterator[Span]:
    """Yield the values below titles of columns, and nothing below other words."""
    table_end = 0
    # A line between titles may be heavier than one between values.
    text = text.replace("┃", "│")
    rest = deque(titles)
    while rest:
        # A word in a row of a table is not a title.
        is_title = rest[0][0] >= table_end
        line = _find_line(text, rest[0]) if is_title else None
        if line is None:
            rest.popleft()
            continue
        (start, end), line_break = line
        beside = []
        while rest and rest[0][0] < end:
            title = rest.popleft()
            if title[0] >= start:
                beside.append(title)
        for layout, columns in _find_layouts(text, line, beside[:_MAX_TITLES]):
            table_end = max(table_end, end)
            for row, cells in layout.rows(text, line_break):
                table_end = max(table_end, row[1])
                for column in columns:
                    value = layout.value_in(text, row, cells, column)
                    if value and _may_be_secret(text[slice(*value)]):
                        yield value


def _may_be_secret(value: str) -> bool:
    return not _SPACE.search(value) and not _NAME.fullmatch(value)


class _TableLayout(Struct, frozen=True):
    delimiter: str
    """What separates cells; empty if spaces align them."""
    is_numbered: bool
    """Whether lines start with their number, as in files that Claude read."""
    header: Span
    titles: Sequence[Span]
    is_underlined: bool
    """Whether each title has its own line of dashes, which shows where cells start."""

    def rows(
        self, text: str, line_break: re.Pattern[str]
    ) -> Iterator[tuple[Span, Sequence[Span]]]:
        """Yield the lines below the titles, with their cells."""
        # Lists are aligned too: titles of a table are in capitals or underlined.
        is_table = bool(self.delimiter) or text[slice(*self.header)].isupper()
        lines = _split_lines(text, self.header[0], len(text), line_break)
        next(lines)
        for start, end in lines:
            if end - start > _MAX_LINE:
                return
            number = _LINE_NUMBER.match(text, start, end) if self.is_numbered else None
            first = number.end() if number else start
            if not _WORD.search(text, first, end):
                if not text[first:end].strip():
                    return
                is_table = True
                continue
            cells = self.split(text, (start, end))
            if not is_table or (self.delimiter and len(cells) != len(self.titles)):
                return
            yield (start, end), cells

    def value_in(
        self, text: str, line: Span, cells: Sequence[Span], column: int
    ) -> Span | None:
        offset = line[0] - self.header[0]
        if self.is_underlined:
            start = self.titles[column][0] + offset
            following = (at + offset for at, _ in self.titles[column + 1 :])
            stop = next(following, line[1])
            # A value may be longer than its column.
            words = [
                word.span()
                for word in _ALIGNED_WORD.finditer(text, start, line[1])
                if word.start() < stop
            ]
            return (words[0][0], words[-1][1]) if words else None
        if self.delimiter:
            return cells[column]
        start, end = (at + offset for at in self.titles[column])
        below = (cell for cell in cells if cell[0] == start or cell[1] == end)
        return next(below, None)

    def split(self, text: str, line: Span) -> list[Span]:
        return _split_cells(text, line, self.delimiter, is_numbered=self.is_numbered)


def _find_line(text: str, title: Span) -> tuple[Span, re.Pattern[str]] | None:
    """Return the line with a title, and what breaks it; None if it is too long."""
    at = title[1]
    line_end = text.find("\n", at, at + _MAX_LINE)
    stop = line_end if line_end >= 0 else at + _MAX_LINE
    if text.find("\\n", at, stop) >= 0:
        line_break = _ESCAPED_BREAK
    elif line_end >= 0:
        line_break = _BREAK
    else:
        return None
    end = line_break.search(text, at)
    if end is None:
        return None
    start = _line_start(text, title[0], line_break)
    if line_break is _ESCAPED_BREAK:
        # A table may start where a string does.
        for opening in _OPENING.finditer(text, start, end.start()):
            start = opening.end()
    return (start, end.start()), line_break


def _line_start(text: str, at: int, line_break: re.Pattern[str]) -> int:
    first = max(at - _MAX_LINE, 0)
    start = text.rfind("\n", first, at) + 1
    if line_break is _ESCAPED_BREAK:
        escape = text.rfind("\\n", max(start, first), at)
        start = escape + 2 if escape >= 0 else start
    return max(start, first)


def _find_layouts(
    text: str, line: tuple[Span, re.Pattern[str]], titles: Sequence[Span]
) -> Iterator[tuple[_TableLayout, Sequence[int]]]:
    """Yield layouts of the table with these titles, and the numbers of their columns.

    There is more than one layout if what looks like a title is part of another.
    """
    header, line_break = line
    by_delimiter: dict[str, list[int]] = {}
    for start, end in titles:
        match = _DELIMITER.match(text, end, header[1]) or _DELIMITER_BEFORE.search(
            text[max(start - _MAX_BEFORE, header[0]) : start]
        )
        by_delimiter.setdefault(match[1] if match else "", []).append(end)
    for delimiter, ends in by_delimiter.items():
        layout = _find_layout(text, header, line_break, delimiter)
        columns = [
            number
            for number, cell in enumerate(layout.titles if layout else ())
            if cell[1] in ends
        ]
        if layout and columns:
            yield layout, columns


def _find_layout(
    text: str, header: Span, line_break: re.Pattern[str], delimiter: str
) -> _TableLayout | None:
    """Return the layout of the table with these titles; None if they are not titles."""
    is_numbered = _LINE_NUMBER.match(text, *header) is not None
    titles = _split_cells(text, header, delimiter, is_numbered=is_numbered)
    if not delimiter and (stop := line_break.match(text, header[1])):
        underlined = _underlined_titles(text, header, stop.end())
    else:
        underlined = []
    titles = underlined or titles
    names = [text[slice(*cell)] for cell in titles]
    # Prose has a space after a comma, and lists in code end with one.
    is_list = delimiter in {",", ";"} and (
        not names[-1] or f"{delimiter} " in text[slice(*header)]
    )
    if (
        len(titles) <= 1
        or is_list
        or not all(map(_TITLE.fullmatch, filter(None, names)))
    ):
        return None
    layout = _TableLayout(delimiter, is_numbered, header, titles, bool(underlined))
    # There are no rows above a title.
    above_end = header[0] - 1
    above = (_line_start(text, max(above_end, 0), line_break), above_end)
    is_row = delimiter and len(layout.split(text, above)) == len(titles)
    return None if is_row else layout


def _underlined_titles(text: str, header: Span, below: int) -> list[Span]:
    """Return the titles above lines of dashes, such as those of PowerShell."""
    dashes = _DASHES.match(text, below)
    if dashes is None:
        return []
    offset = header[0] - below
    starts = [run.start() + offset for run in _DASH.finditer(text, *dashes.span())]
    return [
        _strip(text, min(start, header[1]), min(end, header[1]))
        for start, end in pairwise([*starts, header[1]])
    ]


def _split_lines(
    text: str, start: int, end: int, line_break: re.Pattern[str]
) -> Iterator[Span]:
    for match in line_break.finditer(text, start, end):
        yield start, match.start()
        start = match.end()
    yield start, end


def _split_cells(
    text: str, line: Span, delimiter: str, *, is_numbered: bool
) -> list[Span]:
    """Return the spans of cells without spaces and quotes around them."""
    start, end = line
    if is_numbered and (number := _LINE_NUMBER.match(text, start, end)):
        start = number.end()
    if not delimiter:
        return [cell.span() for cell in _ALIGNED_CELL.finditer(text, start, end)]
    cells = []
    while start <= end:
        quoted = _QUOTED_CELL.match(text, start, end)
        stop = text.find(delimiter, quoted.end() if quoted else start, end)
        stop = stop if stop >= 0 else end
        cells.append(_strip(text, start, stop))
        start = stop + len(delimiter)
    return cells


def _strip(text: str, start: int, end: int) -> Span:
    cell = text[start:end]
    # The backslash of an escape such as \t belongs to the value.
    before = _ESCAPED_MARKS.match(cell)
    length = before.end() if before else 0
    return start + length, start + max(length, len(cell.rstrip(_MARKS)))
