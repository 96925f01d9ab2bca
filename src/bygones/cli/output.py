"""What several commands say: of an ingestion, of times, on a terminal or a pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
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
from bygones.render.text.primitives import SpanStyle, StyledLine, plain_text
from bygones.render.text.primitives import sanitize_name as plain

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

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


def count_stored_bytes(folder: Path) -> int:
    """Return how many bytes of sources the archive in a folder keeps."""
    from bygones.errors import ArchiveNotFound
    from bygones.store.archive_dir import ArchiveDir

    try:
        with ArchiveDir(folder) as vault:
            return vault.byte_store.count_generations()[1]
    except ArchiveNotFound:
        return 0


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
        sys.stderr.write(plain(f"problem: {place}: {problem.kind}{detail}") + "\n")
    if len(problems) > _MAX_PROBLEMS:
        sys.stderr.write(f"problem: and {len(problems) - _MAX_PROBLEMS:,} more\n")


class Console(NamedTuple):
    """What is known of the place where text goes."""

    now: datetime
    style: Style
    is_terminal: bool = False
    is_iso: bool = True
    width: int | None = None
    """Columns; ``None``: nothing is cut or left out."""

    @classmethod
    def for_stdout(cls, color: str = ColorMode.AUTO, *, iso: bool = False) -> Console:
        """Return what stdout is."""
        on_terminal = sys.stdout.isatty()
        return cls(
            now=datetime.now(UTC),  # noqa: TID251 (a face knows the clock)
            style=Style(is_colored=is_color_enabled(ColorMode(color), sys.stdout)),
            is_terminal=on_terminal,
            is_iso=iso or not on_terminal,
            width=output_width(sys.stdout, os.environ) if on_terminal else None,
        )

    def format_time(self, time: datetime | None) -> str:
        """Return a time as this reader wants it: how long ago, or exactly."""
        return format_iso_time(time) if self.is_iso else format_age(time, self.now)

    def print_lines(self, lines: Iterable[str]) -> None:
        """Print lines, many of them on a terminal through a pager."""
        print_paged(lines, is_terminal=self.is_terminal)


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
