"""``bygones projects``: what was worked on."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from bygones.cli.commands.files import fit_lines
from bygones.cli.context import (
    CommonOptions,
    archive_options,
    display_path,
    iso_option,
    json_option,
)
from bygones.cli.open_archive import open_current
from bygones.cli.output import Console
from bygones.cli.terminal import format_table
from bygones.json_rows import HeaderRow, ProjectRow, print_row
from bygones.render.numbers import format_bytes, format_tokens

if TYPE_CHECKING:
    from bygones.archive import Archive


__all__ = ["projects"]

_OLDEST = datetime.min.replace(tzinfo=UTC)


@click.command("projects")
@click.option("--all", "empty", is_flag=True, help="Also those without a message.")
@iso_option
@archive_options
@json_option
def projects(*, empty: bool, iso: bool, options: CommonOptions, as_json: bool) -> None:
    """List projects, the one last worked on first.

    A project is the directory in which sessions were begun, as their records say.
    """
    with open_current(options) as archived:
        rows = _project_rows(archived, empty=empty)
        folder = archived.folder
    if as_json:
        print_row(HeaderRow.of("projects", folder))
        for row in rows:
            print_row(row)
        return
    screen = Console.for_stdout(iso=iso)
    cells = [
        (
            screen.format_time(row.last),
            f"{row.sessions:,}",
            format_tokens(row.tokens),
            format_bytes(row.bytes),
            display_path(row.path) if row.path else f"? {' '.join(row.keys)}",
        )
        for row in rows
    ]
    head = ("LAST", "SESSIONS", "TOKENS", "SIZE", "PROJECT")
    lines = format_table([head, *cells], align="lrrrl")
    screen.print_lines(fit_lines(lines, screen, by_path=True))


def _project_rows(archive: Archive, *, empty: bool) -> list[ProjectRow]:
    last: dict[str, datetime | None] = {}
    spent: dict[str, int] = {}
    for one in archive.sessions(include_empty=empty):
        last[one.id] = one.ended_at
        spent[one.id] = one.usage.total
    rows = [
        ProjectRow.of(
            project,
            max(filter(None, (last.get(s) for s in project.session_ids)), default=None),
            sum(spent.get(s, 0) for s in project.session_ids),
        )
        for project in archive.projects(include_empty=empty)
    ]
    return sorted(rows, key=lambda row: row.last or _OLDEST, reverse=True)
