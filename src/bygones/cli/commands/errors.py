"""`bygones errors`: which commands and tools fail most, and how that was fixed."""

from __future__ import annotations

import sys
from itertools import islice
from typing import TYPE_CHECKING

import click

from bygones.cli.context import (
    CommonOptions,
    QueryCommand,
    limit_option,
    parse_query_words,
    project_option,
    query_argument,
    table_options,
    unescape_words,
)
from bygones.cli.open_archive import open_current
from bygones.cli.output import (
    Console,
    TextColumn,
    TextTable,
    display_path,
    print_objects,
)
from bygones.cli.resolve import resolve_project_scope
from bygones.render.text.primitives import sanitize_line, sanitize_name, truncate_start
from bygones.schema.commands import FailureObject

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bygones.model.reports import CallPlace, FailureFix, FailureRow

_TERMINAL_LIMIT = 10
_MIN_PROJECT_WIDTH = 16
_ID_LENGTH = 13
"""Characters of an id of a message, which `show` accepts."""
_NOT_LOADED = "(could not be loaded)"
_COLUMNS = (
    TextColumn("FAILED", is_right_aligned=True),
    TextColumn("FIXED", is_right_aligned=True, drop_order=2),
    TextColumn("SESSIONS", is_right_aligned=True, drop_order=3),
    TextColumn("LAST", drop_order=1),
    TextColumn("COMMAND", max_width=32),
)


@click.command("errors", cls=QueryCommand)
@query_argument
@project_option("errors")
@limit_option("commands", _TERMINAL_LIMIT)
@table_options
def errors(  # noqa: PLR0913 (one parameter per option)
    *,
    query: tuple[str, ...],
    project: str | None,
    limit: int | None,
    iso: bool,
    options: CommonOptions,
    as_json: bool,
    color: str,
) -> None:
    r"""List which commands and tools fail most, and how that was fixed.

    \b
    bygones errors
    bygones errors after:30d --project .
    bygones errors tool:Bash -n 3 --json

    Shell commands are grouped by project, program and subcommand, such as `npm test`;
    other tools by name. FIXED is how often the same shell command succeeded later in
    the session; it is not counted for other tools. Below each row are the error of the
    last failure that was fixed, otherwise of the last one, and the call that succeeded,
    with the edit or command before it. Both start with an id: `bygones show ID` opens
    the call. Calls that were denied, refused or interrupted are not counted, and neither
    are errors of the API, which no command can fix; `show` has them in the conversation.

    QUERY selects sessions; see `bygones help query`.
    """
    console = Console.for_stdout(color, iso=iso)
    is_page = limit is None and console.is_terminal and not as_json
    if is_page:
        limit = _TERMINAL_LIMIT
    wanted = parse_query_words(unescape_words(query)) if query else None
    with open_current(options) as archive:
        found = archive.errors(wanted, project=resolve_project_scope(archive, project))
        found = islice(found, limit and min(limit, sys.maxsize))
        if as_json:
            print_objects(map(FailureObject.from_row, found))
            return
        rows = list(found)
    if not rows:
        if not options.quiet:
            sys.stderr.write("no errors\n")
        return
    console.print_lines(_format_rows(rows, console))
    if is_page and len(rows) == limit and not options.quiet:
        sys.stderr.write(f"the {limit} most frequent; -n shows more\n")


def _format_rows(rows: Sequence[FailureRow], console: Console) -> Iterator[str]:
    table = TextTable(
        _COLUMNS,
        [
            (
                f"{row.failure_count:,}",
                f"{row.fixed_count:,}" if row.fixed_count is not None else "-",
                f"{row.session_count:,}",
                console.format_time(row.last_at),
                row.command or row.tool_name,
            )
            for row in rows
        ],
        width=console.width,
        min_rest_width=_MIN_PROJECT_WIDTH,
    )
    projects = [display_path(row.project) if row.project else "?" for row in rows]
    header, *lines = table.lines(["PROJECT", *projects], truncate_start)
    yield header
    for row, line in zip(rows, lines, strict=True):
        yield line
        error = _NOT_LOADED if row.error is None else row.error
        yield _detail(console, row.place, f"error: {error}")
        if row.fix is not None:
            yield _detail(console, row.fix.place, f"fixed: {_describe_fix(row.fix)}")


def _detail(console: Console, place: CallPlace, text: str) -> str:
    where = sanitize_name(place.record_id[:_ID_LENGTH])
    line = console.truncate(f"    {where}  {sanitize_line(text)}")
    return line.replace(where, console.style.location(where), 1)


def _describe_fix(fix: FailureFix) -> str:
    if fix.step_tool is None:
        label = _NOT_LOADED if fix.label is None else fix.label
        return f"{label} (on the next try)"
    step = fix.step_label or fix.step_tool
    if fix.step_tool != "Bash" and fix.step_label:
        step = f"{fix.step_tool} {fix.step_label}"
    return f"after {step}"
