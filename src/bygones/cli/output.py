"""Output that commands share: the console, tables, JSON and ingest reports."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, NamedTuple

from bygones.cli.context import display_path
from bygones.cli.terminal import (
    ColorMode,
    Style,
    format_size,
    is_color_enabled,
    output_width,
    print_paged,
)
from bygones.render.numbers import format_bytes, format_time, pluralize
from bygones.render.text.primitives import (
    SpanStyle,
    StyledLine,
    display_width,
    plain_text,
    sanitize_name,
    truncate_end,
    wrap_line,
)

if TYPE_CHECKING:
    from msgspec import Struct

    from bygones.model.base import Problem
    from bygones.model.progress import IngestReport


INDEX_INTERRUPTED = (
    "the archive is complete, but has no new index; run it again to create it"
)
WRITE_INTERRUPTED = "files that were written are complete; run it again to continue"
_MAX_PROBLEMS = 5

_AGE_UNITS = (
    (timedelta(minutes=1), timedelta(seconds=1), ""),
    (timedelta(hours=1), timedelta(minutes=1), "minute"),
    (timedelta(days=1), timedelta(hours=1), "hour"),
    (timedelta(days=14), timedelta(days=1), "day"),
    (timedelta(days=61), timedelta(days=7), "week"),
    (timedelta(days=730), timedelta(days=30.44), "month"),
)


def ingest_report_lines(report: IngestReport) -> Iterator[str]:
    """Yield what an ingest did; one line if nothing is new."""
    files = pluralize(report.files, "file")
    counts = (
        (report.new, "new"),
        (report.grown, "grown"),
        (report.rewritten, "rewritten"),
        (report.moved, "moved"),
        (report.gone, "gone"),
        (report.returned, "returned"),
        (report.refused, "purged before and refused"),
        (len(report.problems), "with problems"),
    )
    parts = [f"{number:,} {word}" for number, word in counts if number]
    yield f"{files}: {', '.join(parts)}" if parts else f"{files}, nothing new"
    if report.bytes or report.derived_sessions:
        records = pluralize(report.records, "record")
        sessions = pluralize(report.derived_sessions, "session")
        yield f"imported {format_bytes(report.bytes)}, {records}; {sessions} updated"


def print_objects(objects: Iterable[Struct]) -> None:
    """Print JSON objects, one per line."""
    from bygones.schema.encoding import encode_object

    for value in objects:
        sys.stdout.write(f"{encode_object(value)}\n")


def format_age(time: datetime | None, now: datetime) -> str:
    """Return the age of a time in one unit, or its date if that is long ago."""
    if time is None:
        return ""
    ago = now - time
    if ago < timedelta(0):
        return format_time(time, None)[:10]
    for limit, step, unit in _AGE_UNITS:
        if ago < limit:
            number = ago // step
            return f"{pluralize(number, unit)} ago" if unit else "just now"
    return format_time(time, None)[:10]


@contextmanager
def explain_interrupt(message: str | Callable[[], str]) -> Iterator[None]:
    """Add a message about what was done to a KeyboardInterrupt."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            message if isinstance(message, str) else message()
        ) from None


def ingest_interrupted_message(stored_bytes: int) -> str:
    if not stored_bytes:
        return "nothing new was imported yet; run it again"
    return f"{format_size(stored_bytes)} are in the archive; run it again to continue"


def print_problems(problems: Sequence[Problem]) -> None:
    """Print problems on stderr, the first few in full."""
    for problem in problems[:_MAX_PROBLEMS]:
        path = display_path(problem.position.source_id)
        detail = f": {problem.detail}" if problem.detail else ""
        sys.stderr.write(
            sanitize_name(f"problem: {path}: {problem.kind}{detail}") + "\n"
        )
    if len(problems) > _MAX_PROBLEMS:
        sys.stderr.write(f"problem: and {len(problems) - _MAX_PROBLEMS:,} more\n")


class Console(NamedTuple):
    """The terminal, file or pipe that output goes to."""

    now: datetime
    style: Style
    zone: tzinfo | None = None
    """The time zone in which times are shown; none means local time."""
    is_terminal: bool = False
    is_iso: bool = True
    """Whether times are shown as ISO 8601 and not as an age."""
    width: int | None = None
    """Columns; none means that lines are neither cut nor wrapped."""

    @classmethod
    def for_stdout(
        cls,
        color: str = ColorMode.AUTO,
        *,
        iso: bool = False,
        zone: tzinfo | None = None,
    ) -> Console:
        is_terminal = sys.stdout.isatty()
        return cls(
            now=datetime.now(UTC),  # noqa: TID251 (an interface reads the clock)
            style=Style(is_colored=is_color_enabled(ColorMode(color), sys.stdout)),
            zone=zone,
            is_terminal=is_terminal,
            is_iso=iso or not is_terminal,
            width=output_width(sys.stdout, os.environ) if is_terminal else None,
        )

    def format_time(self, time: datetime | None) -> str:
        """Return an age or an ISO 8601 time, as the user prefers."""
        return format_iso_time(time) if self.is_iso else format_age(time, self.now)

    def truncate(self, text: str) -> str:
        return text if self.width is None else truncate_end(text, self.width)

    def wrap(self, text: str, *, indent: str = "") -> Iterable[str]:
        """Wrap a line to the width; `indent` starts all lines but the first."""
        if self.width is None:
            return (text,)
        return wrap_line(text, self.width, subsequent_indent=indent)

    def print_lines(self, lines: Iterable[str]) -> None:
        """Print lines; on a terminal, many lines go through a pager."""
        print_paged(lines, is_terminal=self.is_terminal)


def short_session_id(session_id: str) -> str:
    """Return the start of an id, which is what tables show."""
    return sanitize_name(session_id[:_SHORT_ID_LENGTH])


_SHORT_ID_LENGTH = 8


class TextColumn(NamedTuple):
    """A column of a table."""

    name: str = ""
    is_right_aligned: bool = False
    drop_order: int = 0
    """The column with the highest number is left out first; 0 is never left out."""
    max_width: int | None = None
    truncate: Callable[[str, int], str] = truncate_end


class _FormattedColumn(NamedTuple):
    column: TextColumn
    cells: list[str]
    width: int


class TextTable:
    """Rows of text in aligned columns that fit a width.

    Columns are left out until at least `min_rest_width` columns are free on the right.
    Row 0 is the header.
    """

    def __init__(
        self,
        columns: Sequence[TextColumn],
        rows: Iterable[Sequence[str]],
        *,
        width: int | None = None,
        min_rest_width: int = 0,
    ) -> None:
        texts = [[column.name for column in columns], *rows]
        self._width = width
        self._row_count = len(texts)
        self._columns = [
            self._format(column, [row[number] for row in texts])
            for number, column in enumerate(columns)
        ]
        while self.rest_width < min_rest_width:
            droppable = [one for one in self._columns if one.column.drop_order]
            if not droppable:
                break
            self._columns.remove(max(droppable, key=lambda one: one.column.drop_order))

    def _format(self, column: TextColumn, texts: Sequence[str]) -> _FormattedColumn:
        cells = [sanitize_name(text) for text in texts]
        if self._width is not None and column.max_width is not None:
            cells = [column.truncate(cell, column.max_width) for cell in cells]
        return _FormattedColumn(column, cells, max(map(display_width, cells)))

    @property
    def rest_width(self) -> int:
        """The columns that are free on the right."""
        if self._width is None:
            return sys.maxsize
        return self._width - sum(one.width + _COLUMN_GAP for one in self._columns)

    def padded_cells(self, row: int) -> list[str]:
        return [
            " " * (one.width - display_width(one.cells[row])) + one.cells[row]
            if one.column.is_right_aligned
            else one.cells[row] + " " * (one.width - display_width(one.cells[row]))
            for one in self._columns
        ]

    def lines(
        self,
        rest: Sequence[str] = (),
        truncate: Callable[[str, int], str] = truncate_end,
    ) -> list[str]:
        """Return the lines of the table, without a header if no column has a name.

        `rest` has a text for each line, which gets the free width on the right.
        """
        has_header = any(one.column.name for one in self._columns)
        lines = []
        for row in range(0 if has_header else 1, self._row_count):
            cells = self.padded_cells(row)
            if rest:
                text = sanitize_name(rest[row])
                cells.append(truncate(text, max(self.rest_width, _MIN_REST_WIDTH)))
            lines.append((" " * _COLUMN_GAP).join(cells).rstrip())
        return lines


_COLUMN_GAP = 2
_MIN_REST_WIDTH = 8


def format_iso_time(time: datetime | None) -> str:
    """Return a time as ISO 8601 in local time."""
    return time.astimezone().isoformat(timespec="seconds") if time else ""


_ANSI_CODES = {
    SpanStyle.TITLE: "1",
    SpanStyle.META: "2",
    SpanStyle.PROMPT: "1;36",
    SpanStyle.HEADING: "1",
    SpanStyle.CODE: "33",
    SpanStyle.THINKING: "2;3",
    SpanStyle.TOOL: "1",
    SpanStyle.OUTPUT: "2",
    SpanStyle.WARNING: "31",
    SpanStyle.ADDED: "32",
    SpanStyle.REMOVED: "31",
    SpanStyle.FORK: "35",
    SpanStyle.AGENT: "34",
}


def style_spans(row: StyledLine, *, is_colored: bool) -> str:
    if not is_colored:
        return plain_text(row)
    return "".join(
        f"\x1b[{_ANSI_CODES[span.style]}m{span.text}\x1b[0m"
        if span.style in _ANSI_CODES and span.text
        else span.text
        for span in row
    )
