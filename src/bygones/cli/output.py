"""What several commands say: of an ingestion, of times, on a terminal or a pipe."""

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
    "the archive is whole, and has no new index; run it again to make it"
)
"""What is to be said where the making of an index was stopped."""
WRITE_INTERRUPTED = "files that were written are whole; run it again to go on"
"""What is to be said where the writing of files was stopped."""
_MAX_PROBLEMS = 5
"""Problems that are told one by one."""

_AGE_UNITS = (
    (timedelta(minutes=1), timedelta(seconds=1), ""),
    (timedelta(hours=1), timedelta(minutes=1), "minute"),
    (timedelta(days=1), timedelta(hours=1), "hour"),
    (timedelta(days=14), timedelta(days=1), "day"),
    (timedelta(days=61), timedelta(days=7), "week"),
    (timedelta(days=730), timedelta(days=30.44), "month"),
)


def ingest_report_lines(report: IngestReport) -> Iterator[str]:
    """Yield what an ingestion did; the calm case is one line."""
    files = pluralize(report.files, "file")
    counts = (
        (report.new, "new"),
        (report.grown, "grown"),
        (report.rewritten, "begun anew"),
        (report.moved, "moved"),
        (report.gone, "gone"),
        (report.returned, "back"),
        (report.refused, "purged before and refused"),
        (len(report.problems), "with problems"),
    )
    told = [f"{number:,} {word}" for number, word in counts if number]
    yield f"{files}: {', '.join(told)}" if told else f"{files}, nothing new"
    if report.bytes or report.derived_sessions:
        records = pluralize(report.records, "record")
        sessions = pluralize(report.derived_sessions, "session")
        yield f"took in {format_bytes(report.bytes)}, {records}; {sessions} touched"


def print_objects(objects: Iterable[Struct]) -> None:
    """Print JSON objects, one per line."""
    from bygones.schema.encoding import encode_object

    for value in objects:
        sys.stdout.write(f"{encode_object(value)}\n")


def format_age(time: datetime | None, now: datetime) -> str:
    """Return how long ago something was, in one unit; a day if that is long ago."""
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
    """Have whoever stops some work with Ctrl-C be told what was done of it."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            message if isinstance(message, str) else message()
        ) from None


def ingest_interrupted_message(gained: int) -> str:
    """Return what is to be said of an ingestion that was stopped."""
    if not gained:
        return "nothing new was taken in yet; run it again"
    return f"{format_size(gained)} are in the archive; run it again to go on"


def print_problems(problems: Sequence[Problem]) -> None:
    """Say what was odd on stderr, the first few one by one."""
    for problem in problems[:_MAX_PROBLEMS]:
        place = display_path(problem.position.source_id)
        detail = f": {problem.detail}" if problem.detail else ""
        sys.stderr.write(
            sanitize_name(f"problem: {place}: {problem.kind}{detail}") + "\n"
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
    """Return a time of this machine to the second, as programs read it."""
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
    """Return a row as one line of text, with or without its colours."""
    if not is_colored:
        return plain_text(row)
    return "".join(
        f"\x1b[{_ANSI_CODES[span.style]}m{span.text}\x1b[0m"
        if span.style in _ANSI_CODES and span.text
        else span.text
        for span in row
    )
