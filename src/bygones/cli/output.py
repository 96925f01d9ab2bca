"""Output on the terminal: width, color, tables, progress bars and the pager."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from itertools import chain, islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple, Self, TextIO

from bygones.config import strip_password
from bygones.render.numbers import (
    format_age,
    format_bytes,
    format_duration,
    pluralize,
)
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
    from collections.abc import Iterator

_MIN_WIDTH = 40
_MIN_BAR_WIDTH = 10
_MAX_BAR_WIDTH = 30
_DEFAULT_WIDTH = 80
_PIPE_WIDTH = 100
"""The width of text in a file or a pipe."""


class ColorMode(StrEnum):
    """When to use color."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


def output_width(stream: TextIO, environ: Mapping[str, str]) -> int:
    if not stream.isatty() and "COLUMNS" not in environ:
        return _PIPE_WIDTH
    return max(
        _MIN_WIDTH,
        _width_from_environment(environ) or _measure_width(stream) or _DEFAULT_WIDTH,
    )


def _width_from_environment(environ: Mapping[str, str]) -> int:
    columns = environ.get("COLUMNS", "")
    return int(columns) if columns.isdecimal() else 0


def _measure_width(stream: TextIO) -> int:
    # Not shutil.get_terminal_size(): stderr may be a terminal though stdout is a pipe.
    try:
        return os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        return 0


def is_color_enabled(
    mode: ColorMode, stream: TextIO, environ: Mapping[str, str] = os.environ
) -> bool:
    if mode is not ColorMode.AUTO:
        return mode is ColorMode.ALWAYS
    if environ.get("NO_COLOR") or environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


class Style:
    """Colors text by its role, or returns it unchanged."""

    def __init__(self, *, is_colored: bool) -> None:
        self.is_colored = is_colored

    def _wrap(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.is_colored and text else text

    def heading(self, text: str) -> str:
        return self._wrap("1", text)

    def dim(self, text: str) -> str:
        return self._wrap("2", text)

    def warning(self, text: str) -> str:
        return self._wrap("33", text)

    def highlight(self, text: str) -> str:
        """Mark a match; without colors, by quotation marks."""
        if not self.is_colored:
            return f"«{text}»"
        return self._wrap("1;33", text)

    def location(self, text: str) -> str:
        return self._wrap("36", text)


def display_path(path: str | Path) -> str:
    """Return a path with `~` for the home directory and without a password."""
    home, path = Path.home(), strip_password(str(path))
    return "~" if str(path) == str(home) else shorten_path(str(path), home=home)


def shorten_path(path: str, *, cwd: Path | None = None, home: Path) -> str:
    """Return a path relative to `cwd`, or with `~` for the home directory."""
    for folder, prefix in ((cwd, ""), (home, "~/")):
        if folder is None:
            continue
        parent = folder.as_posix().rstrip("/") + "/"
        if path.startswith(parent):
            return prefix + path[len(parent) :]
    return path


def format_size(size: int) -> str:
    """Return a number of bytes in powers of a thousand."""
    amount = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 999.5:  # noqa: PLR2004 (would round to 1000)
            digits = 0 if unit == "B" or amount >= 99.95 else 1  # noqa: PLR2004
            return f"{amount:.{digits}f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"


class ProgressBar:
    """A progress bar on one line, which is removed at the end.

    It is shown on a terminal only, once the work has taken a second.
    """

    def __init__(
        self,
        total: int,
        stream: TextIO | None = None,
        *,
        label: str = "",
        started_at: float | None = None,
    ) -> None:
        self.stream = stream or sys.stderr
        self.total = total
        self.done = 0
        self.label = label
        self.is_enabled = self.stream.isatty()
        self.started_at = time.monotonic()
        self.next_update = (self.started_at if started_at is None else started_at) + 1
        self.is_visible = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def advance(self, size: int) -> None:
        """Add to the amount that is done; redraws at most ten times a second."""
        self.done += size
        if self.is_enabled and time.monotonic() >= self.next_update:
            self.stream.write("\r" + self._line() + "\x1b[K")
            self.stream.flush()
            self.next_update = time.monotonic() + 0.1
            self.is_visible = True

    def clear(self) -> None:
        """Remove the line, before other output and at the end."""
        if self.is_visible:
            self.stream.write("\r\x1b[K")
            self.stream.flush()
            self.is_visible = False

    def format_amount(self, number: int) -> str:
        return format_size(number)

    def _line(self) -> str:
        share = min(1.0, self.done / self.total) if self.total else 1.0
        amount = f" {share:4.0%}  {self.format_amount(self.done)}"
        if self.total:
            amount += f" of {self.format_amount(self.total)}"
        rate = self._rate_text()
        label = f"{self.label}  " if self.label else ""
        width = output_width(self.stream, os.environ) - 2
        if len(label + amount + rate) + _MIN_BAR_WIDTH <= width:
            amount += rate
        bar_width = max(0, min(_MAX_BAR_WIDTH, width - len(label + amount)))
        filled = int(bar_width * share)
        return label + "█" * filled + "░" * (bar_width - filled) + amount

    def _rate_text(self) -> str:
        """Return the rate and the remaining time."""
        elapsed = time.monotonic() - self.started_at
        if not self.done or elapsed < 1:
            return ""
        rate = self.done / elapsed
        left = timedelta(seconds=max(0.0, self.total - self.done) / rate)
        text = f"  {self.format_amount(int(rate))}/s"
        return (
            f"{text}  {format_duration(left)} left" if self.done < self.total else text
        )


class CountProgressBar(ProgressBar):
    """A progress bar for items instead of bytes."""

    def format_amount(self, number: int) -> str:
        return f"{number:,}"


class StagedProgressBar:
    """Progress of work in stages, with one bar at a time."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream
        self.started_at = time.monotonic()
        self.bar: ProgressBar | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def begin(self, stage: str, total: int) -> None:
        """Start a stage; its size is in bytes, or in sessions or rows."""
        self.end()
        kind = CountProgressBar if stage in {"sessions", "rows"} else ProgressBar
        self.bar = kind(total, self.stream, label=stage, started_at=self.started_at)

    def advance(self, amount: int) -> None:
        if self.bar is not None:
            self.bar.advance(amount)

    def end(self) -> None:
        if self.bar is not None:
            self.bar.clear()
            self.bar = None


_NO_PAGER_VALUES = {"", "cat"}
_SHELL_CHARACTERS = frozenset("|&;<>()$`\\\"'*?[#~=%\n")
_MIN_HEIGHT = 4
_DEFAULT_HEIGHT = 22


class PagerMode(NamedTuple):
    """How the pager shows lines."""

    first_line: int = 1
    """The line at the top, from 1; only `less` starts elsewhere."""
    is_always_used: bool = False
    """Whether the pager also shows what fits on the terminal."""


def print_paged(
    lines: Iterable[str], *, is_terminal: bool, mode: PagerMode | None = None
) -> None:
    """Print lines, through a pager if they do not fit on the terminal.

    Quitting the pager ends the command.
    """
    mode = mode or PagerMode()
    command = find_pager() if is_terminal else []
    remaining = iter(lines)
    if not command:
        _write_lines(remaining)
        return
    first_page = list(islice(remaining, _page_height()))
    following = next(remaining, None)
    if following is None and not mode.is_always_used:
        _write_lines(iter(first_page))
        return
    rest = () if following is None else chain((following,), remaining)
    if mode.first_line > 1 and is_less(command):
        command = [*command, f"+{mode.first_line}g"]
    options = "R" if mode.is_always_used else "FRX"
    _pipe_through(command, chain(first_page, rest), options)


def find_pager() -> list[str]:
    """Return the command of the user's pager; empty if there is none."""
    return pager_command(os.environ, _configured_pager())


def is_less(command: Sequence[str]) -> bool:
    """Whether a pager is `less`, which can start at any line."""
    return bool(command) and Path(command[0]).stem == "less"


def _configured_pager() -> str | None:
    from pathlib import Path

    from bygones.config import load_settings

    return load_settings(os.environ, Path.home()).pager


def pager_command(
    environ: Mapping[str, str], configured: str | None = None
) -> list[str]:
    """Return the command of the pager; empty if there is none."""
    import shlex
    import shutil

    pager = configured if configured is not None else environ.get("PAGER")
    if pager is not None:
        if pager.strip() in _NO_PAGER_VALUES:
            return []
        # As in git, a shell runs what is more than a program and its options.
        needs_shell = any(char in _SHELL_CHARACTERS for char in pager)
        return ["sh", "-c", pager] if needs_shell else shlex.split(pager)
    less = shutil.which("less")
    return [less] if less and environ.get("TERM") != "dumb" else []


def _page_height() -> int:
    try:
        lines = os.get_terminal_size(sys.stdout.fileno()).lines
    except (OSError, ValueError):
        lines = 0
    return lines - 2 if lines > _MIN_HEIGHT else _DEFAULT_HEIGHT


def _write_lines(lines: Iterator[str]) -> None:
    for line in lines:
        sys.stdout.write(f"{line}\n")


def _pipe_through(command: list[str], lines: Iterator[str], less: str) -> None:
    import subprocess

    # FRX: quit if one screen is enough, pass colors through, keep the text on screen.
    environ = {"LESS": less, "LV": "-c", **os.environ}
    try:
        pager = subprocess.Popen(  # noqa: S603 (configured by the user)
            command,
            stdin=subprocess.PIPE,
            env=environ,
            encoding="utf-8",
            errors="backslashreplace",
        )
    except OSError:
        _write_lines(lines)
        return
    try:
        with pager:
            if pager.stdin is not None:
                for line in lines:
                    pager.stdin.write(f"{line}\n")
    except BrokenPipeError:
        pass
    except KeyboardInterrupt:
        # The pager owns the terminal and decides when to exit.
        pager.wait()


if TYPE_CHECKING:
    from msgspec import Struct

    from bygones.model.base import IngestReport, Problem
    from bygones.model.summary import SessionSummary


INDEX_INTERRUPTED = (
    "the archive is complete, but the index is not; run the same command again"
)
WRITE_INTERRUPTED = (
    "every file written so far is complete; run the same command again to continue"
)
_MAX_PROBLEMS = 5


def ingest_report_lines(report: IngestReport) -> Iterator[str]:
    """Yield what an import did; one line if nothing is new."""
    files = pluralize(report.files, "file")
    counts = (
        (report.new, "new"),
        (report.grown, "grown"),
        (report.rewritten, "rewritten"),
        (report.moved, "moved"),
        (report.gone, "gone"),
        (report.returned, "returned"),
        (report.refused, "skipped (purged earlier)"),
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
        return "nothing was imported yet; run the same command again"
    return (
        f"imported {format_size(stored_bytes)}; run the same command again to continue"
    )


def print_failure(failure: object) -> None:
    """Print why an import failed, if it did; `--quiet` does not hide that."""
    if failure:
        sys.stderr.write(sanitize_name(f"note: {failure}") + "\n")


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

    def print_lines(self, lines: Iterable[str], mode: PagerMode | None = None) -> None:
        """Print lines; on a terminal, many lines go through a pager."""
        print_paged(lines, is_terminal=self.is_terminal, mode=mode)


def short_session_id(session_id: str) -> str:
    """Return the start of an id, which is what tables show."""
    return sanitize_name(session_id[:_SHORT_ID_LENGTH])


_SHORT_ID_LENGTH = 8


def project_name(session: SessionSummary) -> str:
    """Return the name of the project's directory, or its key if that is unknown."""
    path = (session.project or "").replace("\\", "/")
    return PurePosixPath(path).name or path or next(iter(session.project_keys), "")


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


ANSI_CODES = {
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
    SpanStyle.MATCH: "30;43",
    SpanStyle.STRONG: "1",
    SpanStyle.EMPHASIS: "3",
    SpanStyle.STRUCK: "2;9",
    SpanStyle.KEYWORD: "35",
    SpanStyle.STRING: "32",
    SpanStyle.NUMBER: "36",
    SpanStyle.NAME: "34",
    SpanStyle.COMMENT: "2;3",
}


def style_spans(row: StyledLine, *, is_colored: bool) -> str:
    if not is_colored:
        return plain_text(row)
    return "".join(
        f"\x1b[{ANSI_CODES[span.style]}m{span.text}\x1b[0m"
        if span.style in ANSI_CODES and span.text
        else span.text
        for span in row
    )
