"""`bygones inspect`: statistics and problems of transcripts."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

import click

from bygones.cli.context import (
    color_option,
    find_homes,
    home_option,
    json_option,
    path_type,
)
from bygones.cli.output import (
    ColorMode,
    ProgressBar,
    Style,
    TextColumn,
    TextTable,
    format_size,
    is_color_enabled,
    output_width,
    print_objects,
    print_paged,
)
from bygones.cli.problem_lines import (
    format_problem_location,
    format_problem_row,
    format_repeats,
    shorten_source,
)
from bygones.errors import NoTranscriptsFound, PathNotFound
from bygones.inspection import inspect_transcripts, total_transcript_size
from bygones.model.base import encode_path
from bygones.model.reports import (
    DriftRow,
    ProblemKindRow,
    ProblemRow,
    RecordTypeRow,
    Survey,
    SurveyObject,
    SurveyTotalRow,
    VersionRow,
)
from bygones.render.text.primitives import (
    display_width,
    sanitize_name,
    truncate_end,
    truncate_start,
)

_BAR_WIDTH = 20
_NO_NAME = "(none)"


class SurveyPage:
    """The layout of a survey."""

    def __init__(
        self,
        *,
        style: Style,
        width: int,
        shorten: Callable[[str], str] = str,
        is_truncated: bool = False,
    ) -> None:
        self.style = style
        self.width = width
        self.shorten = shorten
        self.is_truncated = is_truncated

    def lines(
        self, survey: Survey, paths: Sequence[str], *, with_locations: bool = True
    ) -> Iterator[str]:
        """Yield the lines of the page.

        ``paths`` are the files and folders that were looked at.
        """
        for place in paths:
            where = sanitize_name(self.shorten(place))
            where = truncate_start(where, self.width) if self.is_truncated else where
            yield self.style.heading(where)
        yield from self._head(survey.total)
        yield from self._files(survey)
        yield from self._records(survey.records)
        yield from self._content(survey)
        yield from self._versions(survey.versions)
        yield from self._drift(survey.drift)
        yield from self._problems(survey, with_locations=with_locations)
        if survey.total.overflow:
            yield ""
            yield self.style.warning(
                f"{_pluralize(survey.total.overflow, 'record')} not listed above: too "
                "many different names"
            )

    def _head(self, total: SurveyTotalRow) -> Iterator[str]:
        facts = [
            _pluralize(total.files, "file"),
            format_size(total.bytes),
            _pluralize(total.records, "record"),
            _pluralize(total.sessions, "session"),
            _pluralize(total.agents, "agent"),
        ]
        if total.first_at and total.last_at:
            facts.append(f"{total.first_at:%Y-%m-%d} to {total.last_at:%Y-%m-%d}")
        yield from _wrap_parts(facts, self.width)

    def _section(
        self, title: str, rows: Sequence[Sequence[str]], align: str
    ) -> Iterator[str]:
        if not rows:
            return
        yield ""
        yield self.style.heading(title)
        room = max(12, self.width - 28)
        fitted = [
            (truncate_end(sanitize_name(first), room), *rest) for first, *rest in rows
        ]
        columns = [TextColumn(is_right_aligned=letter == "r") for letter in align]
        for line in TextTable(columns, fitted).lines():
            yield f"  {line}"

    def _files(self, survey: Survey) -> Iterator[str]:
        rows = [
            (row.kind, f"{row.files:,}", format_size(row.bytes)) for row in survey.files
        ]
        yield from self._section("Files", rows, "lrr")
        if survey.unread_files:
            kept = (_pluralize(row.files, row.kind) for row in survey.unread_files)
            for line in _wrap_parts(["not read:", *kept], self.width - 2, " "):
                yield self.style.dim(f"  {line}")

    def _records(self, records: Sequence[RecordTypeRow]) -> Iterator[str]:
        rows = []
        for kind, group in groupby(records, key=lambda row: row.record_type):
            found = list(group)
            rows.append((kind or _NO_NAME, *_total_cells(found)))
            if found[0].subtype or len(found) > 1:
                rows.extend(
                    (f"  {row.subtype or _NO_NAME}", *_total_cells([row]))
                    for row in found
                )
        yield from self._section("Records", rows, "lrr")

    def _content(self, survey: Survey) -> Iterator[str]:
        total = survey.total.bytes or 1
        rows = [
            (
                row.kind,
                format_size(row.bytes),
                f"{row.bytes / total:.0%}" if row.bytes * 200 >= total else "",
                "█" * round(_BAR_WIDTH * row.bytes / total),
            )
            for row in sorted(survey.content, key=lambda row: -row.bytes)
            if row.bytes
        ]
        yield from self._section("Content", rows, "lrrl")

    def _versions(self, versions: Sequence[VersionRow]) -> Iterator[str]:
        rows = []
        for _, group in groupby(versions, key=lambda row: _minor_version(row.version)):
            found = list(group)
            first, last = found[0].version, found[-1].version
            rows.append(
                (
                    first if first == last else f"{first} to {last}",
                    _pluralize(len(found), "version"),
                    _pluralize(sum(row.records for row in found), "record"),
                )
            )
        yield from self._section("Claude Code", rows, "lrr")

    def _drift(self, drift: Sequence[DriftRow]) -> Iterator[str]:
        rows = []
        for (kind, name), group in groupby(drift, key=lambda row: (row.kind, row.name)):
            found = list(group)
            versions = [row.version for row in found if row.version]
            span = " to ".join(
                dict.fromkeys((versions[0], versions[-1])) if versions else ()
            )
            records = sum(row.records for row in found)
            rows.append(
                (
                    f"{kind} {name or _NO_NAME}",
                    f"{records:,}",
                    truncate_end(sanitize_name(span), 20),
                )
            )
        yield from self._section("Drift: unknown to this version", rows, "lrl")

    def _problems(self, survey: Survey, *, with_locations: bool) -> Iterator[str]:
        yield ""
        if survey.problems:
            yield self.style.heading("Problems in files and lines")
        else:
            yield self.style.heading("No problems in files and lines")
        for row in survey.problems:
            yield from self._problem(row, with_locations=with_locations)
        more = "`bygones doctor --problems` also checks links between records"
        yield f"  {self.style.dim(truncate_end(more, self.width - 2))}"

    def _problem(self, row: ProblemKindRow, *, with_locations: bool) -> Iterator[str]:
        head = f"{row.problems:,} {row.kind}"
        is_long = display_width(head) + display_width(row.meaning) + 4 > self.width
        yield f"  {self.style.warning(head)}" + ("" if is_long else f"  {row.meaning}")
        if is_long:
            yield f"    {row.meaning}"
        if not with_locations:
            return
        previous = ""
        for problem in row.examples:
            detail = sanitize_name(f"{problem.detail}{format_repeats(problem)}".strip())
            yield from self._location(problem, "" if detail == previous else detail)
            previous = detail
        more_problems = row.problems - sum(problem.count for problem in row.examples)
        if more_problems:
            more = f"and {more_problems:,} more; --problems lists all"
            yield f"    {self.style.dim(more)}"

    def _location(self, problem: ProblemRow, detail: str) -> Iterator[str]:
        room = self.width - 4
        where = sanitize_name(format_problem_location(problem, self.shorten))
        where = truncate_start(where, room) if self.is_truncated else where
        is_short = display_width(where) + 2 + display_width(detail) <= room
        same_line = f"  {self.style.dim(detail)}" if detail and is_short else ""
        yield f"    {self.style.location(where)}{same_line}"
        if detail and not is_short:
            yield f"      {self.style.dim(truncate_end(detail, room - 2))}"


def _total_cells(rows: Sequence[RecordTypeRow]) -> tuple[str, str]:
    size = sum(row.bytes for row in rows)
    return f"{sum(row.records for row in rows):,}", format_size(size)


def _pluralize(number: int, name: str) -> str:
    return f"{number:,} {name}" if number == 1 else f"{number:,} {name}s"


def _minor_version(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _wrap_parts(parts: Sequence[str], columns: int, gap: str = " · ") -> Iterator[str]:
    line = ""
    for part in parts:
        longer = f"{line}{gap}{part}" if line else part
        if display_width(longer) > columns and line:
            yield line
            longer = part
        line = longer
    yield line


def resolve_inspected_paths(
    paths: Sequence[Path], homes: Sequence[Path] = ()
) -> Sequence[Path]:
    for path in paths:
        if _is_missing(path):
            raise PathNotFound(path)
    return paths if paths and not homes else (*paths, *find_homes(homes))


def _is_missing(path: Path) -> bool:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return True
    except OSError:
        return False  # it exists but cannot be read, which the survey reports
    return False


@click.command("inspect")
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=path_type())
@click.option("--problems", "all_problems", is_flag=True, help="List every problem.")
@home_option
@json_option
@color_option
def inspect(
    paths: tuple[Path, ...],
    *,
    all_problems: bool,
    homes: tuple[Path, ...],
    as_json: bool,
    color: str,
) -> None:
    r"""Show what transcripts contain, without importing them.

    \b
    bygones inspect
    bygones inspect transcript.jsonl --problems

    PATH is a transcript, a folder of transcripts or a Claude Code home (default: the
    homes that other commands import). Shows record types, versions, problems, and fields
    that this version does not know. Nothing is written. Problems in transcripts do not
    change the exit code.
    """
    places = resolve_inspected_paths(paths, homes)
    on_terminal = sys.stdout.isatty()
    waiting: list[str] = []
    with ProgressBar(
        total_transcript_size(places) if sys.stderr.isatty() else 0
    ) as bar:

        def notice(problem: ProblemRow) -> None:
            if on_terminal and not as_json:
                # Everything goes through one pager at the end.
                waiting.append(format_problem_row(problem))
                return
            bar.clear()
            if as_json:
                print_objects([problem])
            else:
                click.echo(format_problem_row(problem))

        found = inspect_transcripts(
            places,
            on_problem=notice if all_problems else None,
            on_bytes_read=bar.advance,
        )
    if as_json:
        print_objects(_survey_objects(found))
    elif found.total.files or found.total.problems:
        if all_problems and found.problems:
            waiting.append("")
        page = _page_lines(
            found, places, ColorMode(color), with_locations=not all_problems
        )
        print_paged([*waiting, *page], is_terminal=on_terminal)
    if not found.total.files:
        raise NoTranscriptsFound(*places)


def _survey_objects(survey: Survey) -> Iterator[SurveyObject]:
    yield from survey.files
    yield from survey.unread_files
    yield from survey.records
    yield from survey.versions
    yield from survey.content
    yield from survey.drift
    yield from survey.problems
    yield survey.total


def _page_lines(
    found: Survey, paths: Sequence[Path], color: ColorMode, *, with_locations: bool
) -> Iterator[str]:
    page = SurveyPage(
        style=Style(is_colored=is_color_enabled(color, sys.stdout, os.environ)),
        width=output_width(sys.stdout, os.environ),
        shorten=shorten_source,
        is_truncated=sys.stdout.isatty(),
    )
    names = [encode_path(path) for path in paths]
    yield from page.lines(found, names, with_locations=with_locations)
