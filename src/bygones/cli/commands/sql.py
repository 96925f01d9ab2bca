"""`bygones sql`: query sessions, messages, tool calls and usage with SQL."""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from threading import Event, Thread
from typing import TYPE_CHECKING

import click
import msgspec

from bygones.cli.context import CommonOptions, archive_options, json_option
from bygones.cli.open_archive import load_user_prices, open_current
from bygones.cli.output import Console, TextColumn, TextTable
from bygones.data.sql import SqlLimits, unique_names
from bygones.data.views import VIEWS, VIEWS_VERSION, find_view
from bygones.errors import ExitCode, SqlLimitExceeded
from bygones.render.text.primitives import sanitize, sanitize_json, sanitize_line

if TYPE_CHECKING:
    from bygones.data.sql import SqlRow, SqlValue

__all__ = ["sql"]

_DEFAULT_SECONDS = 60.0
_GRACE_SECONDS = 2.0
_MAX_TABLE_ROWS = 10_000
_MIN_COLUMN_WIDTH = 12
_GAP = 2
_encode = msgspec.json.Encoder().encode


@click.command("sql")
@click.argument("query", required=False)
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@json_option
@click.option("--schema", is_flag=True, help="List the views and their columns.")
@click.option(
    "--redact/--no-redact",
    default=True,
    help="Redact secrets, home folders, user names and email addresses.",
)
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(0.1, 86_400),
    default=_DEFAULT_SECONDS,
    show_default=True,
    help="Stop the query after this time.",
)
@archive_options
def sql(  # noqa: PLR0913 (one parameter per option)
    *,
    query: str | None,
    as_csv: bool,
    as_json: bool,
    schema: bool,
    redact: bool,
    timeout: float,
    options: CommonOptions,
) -> None:
    r"""Query your history with SQL.

    \b
    bygones sql "SELECT title, cost_usd FROM sessions"
    bygones sql "SELECT sum(cost_usd) FROM usage"
    bygones sql --csv "SELECT text FROM prompts" > prompts.csv
    bygones sql --schema messages

    QUERY is one SELECT in the dialect of SQLite; `-` reads it from stdin. It can read the
    views that --schema lists, and nothing else. Columns with texts are read from the
    archive when a query uses them. Times are in UTC; date(sent_at, 'localtime') is a
    local day.
    """
    if as_csv and as_json:
        raise click.UsageError("--csv and --json cannot be combined")
    if schema:
        _print_schema(query, as_json=as_json)
        return
    text = sys.stdin.read() if query == "-" else query
    if not text or not text.strip():
        raise click.UsageError("a query is missing; --schema lists the views")
    with open_current(options) as archive:
        service = archive.sql_service(
            redact=redact,
            prices=load_user_prices(),
            limits=SqlLimits(seconds=timeout),
        )
        with _watchdog(timeout), service.stream(text) as (columns, rows):
            names = unique_names(columns)
            if as_json:
                _print_json(names, rows)
            elif as_csv:
                _print_csv(names, rows)
            else:
                _print_table(names, rows)


@contextmanager
def _watchdog(seconds: float) -> Iterator[None]:
    """End the process if one step of a query takes too long.

    SQLite checks the time between steps, and a single function call can take hours.
    """
    done = Event()

    def wait() -> None:
        if not done.wait(seconds + _GRACE_SECONDS):
            error = SqlLimitExceeded(f"{seconds:g} seconds")
            sys.stderr.write(f"error: {error}\n\nhint: {error.hint}\n")
            sys.stderr.flush()
            os._exit(ExitCode.FAILURE)

    Thread(target=wait, daemon=True).start()
    try:
        yield
    finally:
        done.set()


def _print_json(names: Sequence[str], rows: Iterator[SqlRow]) -> None:
    for row in rows:
        values = {
            name: value.hex() if isinstance(value, bytes) else value
            for name, value in zip(names, row, strict=True)
        }
        sys.stdout.write(sanitize_json(_encode(values).decode()) + "\n")


def _print_csv(names: Sequence[str], rows: Iterator[SqlRow]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([_csv_cell(name) for name in names])
    for row in rows:
        writer.writerow([_csv_cell(value) for value in row])


def _csv_cell(value: SqlValue) -> str:
    if not isinstance(value, str):
        return "" if value is None else _format(value)
    # A spreadsheet must not interpret text from a transcript as a formula.
    text = sanitize(value.replace("\0", ""))
    return f"'{text}" if text[:1] in {"=", "+", "-", "@", "\t", "\r"} else text


def _format(value: SqlValue) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value.hex()
    return repr(value) if isinstance(value, float) else str(value)


def _print_table(names: Sequence[str], rows: Iterator[SqlRow]) -> None:
    console = Console.for_stdout()
    shown = list(islice(rows, _MAX_TABLE_ROWS))
    has_more = next(rows, None) is not None
    cells = [[_table_cell(value) for value in row] for row in shown]
    widths = _fit_widths(names, cells, console.width)
    columns = [
        TextColumn(name, is_right_aligned=_is_numeric(shown, at), max_width=widths[at])
        for at, name in enumerate(names)
    ]
    table = TextTable(columns, cells, width=console.width)
    console.print_lines(table.lines())
    if has_more:
        sys.stderr.write(
            f"note: only the first {_MAX_TABLE_ROWS:,} rows are shown;"
            " use --csv or --json for all\n"
        )


def _table_cell(value: SqlValue) -> str:
    if isinstance(value, float):
        return f"{value:.6f}".rstrip("0").rstrip(".")
    return sanitize_line(_format(value)[:2_000])


def _is_numeric(rows: Sequence[SqlRow], at: int) -> bool:
    values = [row[at] for row in rows if row[at] is not None]
    return bool(values) and all(isinstance(value, int | float) for value in values)


def _fit_widths(
    names: Sequence[str], cells: Sequence[Sequence[str]], width: int | None
) -> list[int | None]:
    """Return how wide columns may be; the widest are cut until the table is narrow enough."""
    if width is None:
        return [None] * len(names)
    widths = [
        max(len(name), *(len(row[at]) for row in cells), 1) if cells else len(name)
        for at, name in enumerate(names)
    ]
    room = width - _GAP * len(widths)
    while sum(widths) > room and max(widths) > _MIN_COLUMN_WIDTH:
        widest = widths.index(max(widths))
        others = sorted(widths)[-2] if len(widths) > 1 else 0
        excess = sum(widths) - room
        target = max(others - 1, widths[widest] - excess, _MIN_COLUMN_WIDTH)
        widths[widest] = min(target, widths[widest] - 1)
    return list(widths)


def _print_schema(name: str | None, *, as_json: bool) -> None:
    """Print the views, or the columns of one."""
    view = find_view(name) if name else None
    if name and view is None:
        raise click.UsageError(
            f"there is no view {name!r}; use {', '.join(one.name for one in VIEWS)}"
        )
    if as_json:
        for one in [view] if view else VIEWS:
            columns = [
                {"name": c.name, "type": c.kind, "description": c.description}
                for c in one.columns
            ]
            value = {
                "view": one.name,
                "version": VIEWS_VERSION,
                "description": one.description,
                "columns": columns,
            }
            sys.stdout.write(_encode(value).decode() + "\n")
        return
    console = Console.for_stdout()
    if view is not None:
        described = [(c.name, c.kind, c.description) for c in view.columns]
        table = TextTable(
            [TextColumn("COLUMN"), TextColumn("TYPE"), TextColumn("DESCRIPTION")],
            described,
        )
        console.print_lines(table.lines())
        return
    rows = [(one.name, ", ".join(c.name for c in one.columns)) for one in VIEWS]
    table = TextTable([TextColumn("VIEW")], [(name,) for name, _ in rows], width=None)
    rest = ["COLUMNS", *(columns for _, columns in rows)]
    console.print_lines(table.lines(rest))
