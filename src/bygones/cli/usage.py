"""``bygones usage``: where the tokens and the money went."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime

import click

from bygones.cli.excluding import QueryCommand, typed_words
from bygones.cli.naming import session_id
from bygones.cli.options import (
    Asked,
    archive_options,
    colour_option,
    complete_query,
    complete_sessions,
    json_option,
)
from bygones.cli.paging import page_out
from bygones.cli.terminal import Colour, Paint, columns, has_colour
from bygones.cli.usage_asked import query_of
from bygones.cli.usage_table import UsageTable, cut_rows
from bygones.cli.zones import zone_named
from bygones.model.reports import ContextReport, Grouping, UsageReport

__all__ = ["usage"]

_PAGE = 30


@click.command("usage", cls=QueryCommand)
@click.argument(
    "query", nargs=-1, type=click.UNPROCESSED, shell_complete=complete_query
)
@click.option(
    "--by",
    type=click.Choice([grouping.value for grouping in Grouping]),
    default=Grouping.DAY.value,
    show_default=True,
    metavar="WHAT",
    help=f"What to sum by: {', '.join(Grouping)}; a block is five hours, and tool is"
    " what filled contexts.",
)
@click.option("--since", metavar="TIME", help="From this day or moment on.")
@click.option("--until", metavar="TIME", help="Up to the end of this day.")
@click.option("--zone", metavar="NAME", help="Where days begin; else local time.")
@click.option(
    "--context", metavar="SESSION", shell_complete=complete_sessions,
    help="What was in context, by turn.",
)  # fmt: skip
@click.option(
    "-n", "--limit", type=click.IntRange(min=1),
    help=f"How many rows; {_PAGE} on a terminal, else all.",
)  # fmt: skip
@click.option("--csv", "as_csv", is_flag=True, help="Print a table for spreadsheets.")
@json_option
@archive_options
@colour_option
def usage(  # noqa: PLR0913 (one parameter an option, all by name)
    *,
    query: tuple[str, ...],
    by: str,
    since: str | None,
    until: str | None,
    zone: str | None,
    context: str | None,
    limit: int | None,
    as_csv: bool,
    as_json: bool,
    asked: Asked,
    colour: str,
) -> None:
    r"""Say where the tokens and the money went.

    QUERY limits it: project:, session:, title:, tag:, git:, model:, entrypoint:,
    agent:, branch:, is:agent, is:rewound, before:, after:, on:. Every answer counts
    once, whatever files repeat it; a cost is that of the API at the prices of a table.

    \b
    bygones usage --since 7d
    bygones usage --by model project:bygones
    bygones usage --by branch branch:rewound
    bygones usage --context last
    """
    if as_csv and as_json:
        raise click.UsageError("--csv and --json exclude each other")
    if context is not None and (query or since or until or by != Grouping.DAY):
        raise click.UsageError("--context is about all of one session, by turn")
    place, now = zone_named(zone), datetime.now(UTC)  # noqa: TID251 (a face knows it)
    wanted = query_of(typed_words(query), since=since, until=until, now=now, zone=place)
    with asked.current() as archive:
        report: UsageReport | ContextReport
        if context is not None:
            report = archive.context(session_id(archive, context))
        else:
            from bygones.cli.costing import own_prices  # noqa: PLC0415 (not for help)

            prices = own_prices()
            report = archive.usage(by, query=wanted, zone=place, now=now, prices=prices)
        folder = archive.folder
    if as_json or as_csv:
        from bygones.cli.usage_out import print_csv, print_json  # noqa: PLC0415

        rows = cut_rows(report, limit)
        print_json(report, rows, folder) if as_json else print_csv(rows)
        return
    on_screen = sys.stdout.isatty()
    table = UsageTable(
        now=now,
        zone=place,
        room=columns(sys.stdout, os.environ) if on_screen else None,
        paint=Paint(coloured=has_colour(Colour(colour), sys.stdout)),
    )
    lines = table.lines(report, limit or (_PAGE if on_screen else None))
    page_out(lines, on_terminal=on_screen)
    if not report.rows:
        sys.stderr.write("nothing was spent\n")
