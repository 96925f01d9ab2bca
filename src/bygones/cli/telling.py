"""What commands about the archive say, in words and as rows."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from bygones.cli.asked import shown_path
from bygones.cli.terminal import plain, readable_size
from bygones.render.figures import clock, several, size

if TYPE_CHECKING:
    from pathlib import Path

    from bygones.cli.rows import ReportRow
    from bygones.ingest import Report
    from bygones.model.problems import Problem

__all__ = [
    "NOT_INDEXED",
    "WRITTEN",
    "if_stopped",
    "kept_bytes",
    "report_lines",
    "report_row",
    "since",
    "taken_in",
    "tell_problems",
]

NOT_INDEXED = "the archive is whole, and has no new index; run it again to make it"
"""What is to be said where the making of an index was stopped."""
WRITTEN = "files that were written are whole; run it again to go on"
"""What is to be said where the writing of files was stopped."""
_TOLD = 5
"""Problems that are told one by one."""

_STEPS = (
    (timedelta(minutes=1), timedelta(seconds=1), ""),
    (timedelta(hours=1), timedelta(minutes=1), "minute"),
    (timedelta(days=1), timedelta(hours=1), "hour"),
    (timedelta(days=14), timedelta(days=1), "day"),
    (timedelta(days=61), timedelta(days=7), "week"),
    (timedelta(days=730), timedelta(days=30.44), "month"),
)


def report_lines(report: Report) -> Iterator[str]:
    """Yield what an ingestion did; the calm case is one line."""
    files = several(report.files, "file")
    counts = (
        (report.new, "new"),
        (report.grown, "grown"),
        (report.anew, "begun anew"),
        (report.moved, "moved"),
        (report.gone, "gone"),
        (report.back, "back"),
        (report.refused, "purged before and refused"),
        (len(report.problems), "with problems"),
    )
    told = [f"{number:,} {word}" for number, word in counts if number]
    yield f"{files}: {', '.join(told)}" if told else f"{files}, nothing new"
    if report.bytes or report.sessions:
        yield (
            f"took in {size(report.bytes)}, {several(report.records, 'record')}; "
            f"{several(report.sessions, 'session')} touched"
        )


def report_row(report: Report) -> ReportRow:
    """Return an ingestion's report as a row."""
    from bygones.cli.rows import ReportRow  # noqa: PLC0415 (only for JSON)

    return ReportRow(
        files=report.files,
        new=report.new,
        grown=report.grown,
        anew=report.anew,
        moved=report.moved,
        gone=report.gone,
        back=report.back,
        unchanged=report.unchanged,
        refused=report.refused,
        problems=len(report.problems),
        bytes=report.bytes,
        records=report.records,
        sessions=report.sessions,
    )


def since(time: datetime | None, now: datetime) -> str:
    """Return how long ago something was, in one unit; a day if that is long ago."""
    if time is None:
        return ""
    ago = now - time
    if ago < timedelta(0):
        return clock(time, None)[:10]
    for limit, step, unit in _STEPS:
        if ago < limit:
            number = ago // step
            return f"{several(number, unit)} ago" if unit else "just now"
    return clock(time, None)[:10]


@contextmanager
def if_stopped(words: str | Callable[[], str]) -> Iterator[None]:
    """Have whoever stops some work with Ctrl-C be told what was done of it."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(words if isinstance(words, str) else words()) from None


def kept_bytes(folder: Path) -> int:
    """Return how many bytes of sources the archive in a folder keeps."""
    from bygones.errors import ArchiveMissing  # noqa: PLC0415
    from bygones.store.vault import Vault  # noqa: PLC0415 (not for a page of text)

    try:
        with Vault(folder) as vault:
            return vault.chunks.total()[1]
    except ArchiveMissing:
        return 0


def taken_in(gained: int) -> str:
    """Return what is to be said of an ingestion that was stopped."""
    if not gained:
        return "nothing new was taken in yet; run it again"
    return f"{readable_size(gained)} are in the archive; run it again to go on"


def tell_problems(problems: Sequence[Problem]) -> None:
    """Say what was odd on stderr, the first few one by one."""
    for problem in problems[:_TOLD]:
        place = shown_path(problem.position.source)
        detail = f": {problem.detail}" if problem.detail else ""
        sys.stderr.write(plain(f"problem: {place}: {problem.kind}{detail}") + "\n")
    if len(problems) > _TOLD:
        sys.stderr.write(f"problem: and {len(problems) - _TOLD:,} more\n")
