"""Find the values of a column in tables: CSV, Markdown, output of databases."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from msgspec import Struct

Span = tuple[int, int]

_BREAK = re.compile(r"\r?\n")
_ESCAPED_BREAK = re.compile(r"(?:\\+r)?\\+n|\r?\n")
"""A line break in text that was encoded as JSON."""
_DELIMITER = re.compile(r"[\"'`*\\]{0,6} {0,80}(\\+t|[,;\t|│])")
_DELIMITER_BEFORE = re.compile(r"(\\+t|[,;\t|│]) {0,80}[\"'`*\\]{0,6}$")
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
_MAX_LINE = 4_000
_MAX_TITLES = 20
"""How many columns of one table are read."""


def find_column_values(text: str, titles: Iterable[Span]) -> Iterator[Span]:
    """Yield the values below titles of columns, and nothing below other words."""
    header = (0, 0)
    table_end = count = 0
    # A line between titles may be heavier than one between values.
    text = text.replace("┃", "│")
    for title in titles:
        is_beside = header[0] <= title[0] < header[1]
        count = count + 1 if is_beside else 0
        if count >= _MAX_TITLES or (title[0] < table_end and not is_beside):
            # A word in a row of a table is not a title.
            continue
        line_break = _line_break(text, title[1])
        layout = line_break and _find_layout(text, title, line_break)
        if not line_break or not layout:
            continue
        header = layout.header
        table_end = header[1]
        for line in layout.rows(text, line_break):
            table_end = line[1]
            value = layout.value_in(text, line)
            if value and not _SPACE.search(text, *value):
                yield value


class _TableLayout(Struct, frozen=True):
    delimiter: str
    """What separates cells; empty if spaces align them."""
    is_numbered: bool
    """Whether lines start with their number, as in files that Claude read."""
    header: Span
    titles: Sequence[Span]
    column: int
    is_underlined: bool
    """Whether each title has its own line of dashes, which shows where cells start."""

    def rows(self, text: str, line_break: re.Pattern[str]) -> Iterator[Span]:
        # Lists are aligned too: titles of a table are in capitals or underlined.
        is_table = bool(self.delimiter) or text[slice(*self.header)].isupper()
        lines = _split_lines(text, self.header[0], len(text), line_break)
        next(lines)
        for start, end in lines:
            if end - start > _MAX_LINE:
                return
            if not _WORD.search(text, start, end):
                if not text[start:end].strip():
                    return
                is_table = True
            elif is_table and (not self.delimiter or self.is_row(text, (start, end))):
                yield start, end
            else:
                return

    def is_row(self, text: str, line: Span) -> bool:
        """Whether a line has as many delimiters as the titles."""
        return bool(self.delimiter) and len(self._split(text, line)) == len(self.titles)

    def value_in(self, text: str, line: Span) -> Span | None:
        offset = line[0] - self.header[0]
        if self.is_underlined:
            start = self.titles[self.column][0] + offset
            following = (at + offset for at, _ in self.titles[self.column + 1 :])
            stop = next(following, line[1])
            # A value may be longer than its column.
            words = [
                word.span()
                for word in _ALIGNED_WORD.finditer(text, start, line[1])
                if word.start() < stop
            ]
            return (words[0][0], words[-1][1]) if words else None
        cells = self._split(text, line)
        if self.delimiter:
            return cells[self.column]
        start, end = (at + offset for at in self.titles[self.column])
        below = (cell for cell in cells if cell[0] == start or cell[1] == end)
        return next(below, None)

    def _split(self, text: str, line: Span) -> list[Span]:
        return _split_cells(text, line, self.delimiter, is_numbered=self.is_numbered)


def _line_break(text: str, at: int) -> re.Pattern[str] | None:
    """Return how the line ends; None if it is too long for titles."""
    stop = at + _MAX_LINE
    line_end = text.find("\n", at, stop)
    if text.find("\\n", at, line_end if line_end >= 0 else stop) >= 0:
        return _ESCAPED_BREAK
    return _BREAK if line_end >= 0 else None


def _line_start(text: str, at: int, line_break: re.Pattern[str]) -> int:
    first = max(at - _MAX_LINE, 0)
    start = text.rfind("\n", first, at) + 1
    if line_break is _ESCAPED_BREAK:
        escape = text.rfind("\\n", max(start, first), at)
        start = escape + 2 if escape >= 0 else start
    return max(start, first)


def _find_layout(
    text: str, title: Span, line_break: re.Pattern[str]
) -> _TableLayout | None:
    """Return the layout of the table with this title; None if it is not a title."""
    start, end = title
    stop = line_break.search(text, end)
    if stop is None:
        return None
    header = (_line_start(text, start, line_break), stop.start())
    match = _DELIMITER.match(text, end, header[1]) or _DELIMITER_BEFORE.search(
        text[max(start - _MAX_BEFORE, header[0]) : start]
    )
    delimiter = match[1] if match else ""
    is_numbered = _LINE_NUMBER.match(text, *header) is not None
    titles = _split_cells(text, header, delimiter, is_numbered=is_numbered)
    underlined = [] if delimiter else _underlined_titles(text, header, stop.end())
    titles = underlined or titles
    column = next((n for n, cell in enumerate(titles) if end == cell[1]), None)
    names = [text[slice(*cell)] for cell in titles]
    # Prose has a space after a comma, and lists in code end with one.
    is_list = delimiter in {",", ";"} and (
        not names[-1] or f"{delimiter} " in text[slice(*header)]
    )
    if (
        column is None
        or len(titles) == 1
        or is_list
        or not all(map(_TITLE.fullmatch, filter(None, names)))
    ):
        return None
    layout = _TableLayout(
        delimiter, is_numbered, header, titles, column, bool(underlined)
    )
    # There are no rows above a title.
    above_end = header[0] - 1
    above = (_line_start(text, max(above_end, 0), line_break), above_end)
    return None if layout.is_row(text, above) else layout


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
    start += len(cell) - len(cell.lstrip(_MARKS))
    return start, start + len(cell.strip(_MARKS))
