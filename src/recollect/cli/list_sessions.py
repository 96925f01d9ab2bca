"""``recollect list``: the sessions in the archive, newest first."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from itertools import islice

import click

from recollect.cli.naming import project_named
from recollect.cli.options import (
    Asked,
    archive_options,
    colour_option,
    iso_option,
    json_option,
)
from recollect.cli.session_table import SessionTable
from recollect.cli.terminal import Colour, Paint, columns, has_colour

__all__ = ["list_sessions"]

_PAGE = 20


@click.command("list")
@click.option(
    "--project",
    metavar="PATH|NAME",
    help="Only sessions of this project; a dot for that of this folder.",
)
@click.option("--all", "empty", is_flag=True, help="Also sessions without a message.")
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(min=1),
    help=f"How many; {_PAGE} on a terminal, else all.",
)
@iso_option
@archive_options
@json_option
@colour_option
def list_sessions(  # noqa: PLR0913 (one parameter an option, all by name)
    *,
    project: str | None,
    empty: bool,
    limit: int | None,
    iso: bool,
    asked: Asked,
    as_json: bool,
    colour: str,
) -> None:
    r"""List sessions, newest first.

    MSGS counts prompts, and all messages on the live branch; AGENTS and BRANCHES are
    blank where there is nothing but the session itself. In a pipe nothing is cut.

    \b
    recollect list --project . -n 50
    recollect list --json | jq -r 'select(.agents > 3) | .id'
    """
    on_screen = sys.stdout.isatty()
    is_page = limit is None and on_screen and not as_json
    if is_page:
        limit = _PAGE
    with asked.current() as archived:
        path = project_named(archived, project).path if project is not None else None
        found = islice(archived.sessions(project=path, empty=empty), limit)
        if as_json:
            from recollect.cli.rows import (  # noqa: PLC0415 (only for JSON)
                BeginRow,
                SessionRow,
                print_row,
            )

            print_row(BeginRow.of("list", archived.folder))
            for one in found:
                print_row(SessionRow.of(one))
            return
        sessions = list(found)
    table = SessionTable(
        now=datetime.now(UTC),  # noqa: TID251 (a face knows the clock)
        is_iso=iso or not on_screen,
        room=columns(sys.stdout, os.environ) if on_screen else None,
        paint=Paint(coloured=has_colour(Colour(colour), sys.stdout)),
    )
    for line in table.lines(sessions) if sessions else ():
        click.echo(line, color=True)
    if not sessions:
        sys.stderr.write("no sessions yet\n")
    elif is_page and len(sessions) == limit:
        sys.stderr.write(f"the newest {limit}; -n shows more\n")
