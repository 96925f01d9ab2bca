"""``bygones projects``: what was worked on."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from bygones.cli.files_table import fitted
from bygones.cli.options import (
    Asked,
    archive_options,
    iso_option,
    json_option,
    shown_path,
)
from bygones.cli.rows import BeginRow, ProjectLine, print_row
from bygones.cli.screen import Screen
from bygones.cli.terminal import table
from bygones.render.figures import size, tokens

if TYPE_CHECKING:
    from bygones.archive import Archive

__all__ = ["projects"]

_LONGEST_AGO = datetime.min.replace(tzinfo=UTC)


@click.command("projects")
@click.option("--all", "empty", is_flag=True, help="Also those without a message.")
@iso_option
@archive_options
@json_option
def projects(*, empty: bool, iso: bool, asked: Asked, as_json: bool) -> None:
    """List projects, the one last worked on first.

    A project is the directory in which sessions were begun, as their records say.
    """
    with asked.current() as archived:
        rows = _rows(archived, empty=empty)
        folder = archived.folder
    if as_json:
        print_row(BeginRow.of("projects", folder))
        for row in rows:
            print_row(row)
        return
    screen = Screen.of(iso=iso)
    cells = [
        (
            screen.when(row.last),
            f"{row.sessions:,}",
            tokens(row.tokens),
            size(row.bytes),
            shown_path(row.path) if row.path else f"? {' '.join(row.keys)}",
        )
        for row in rows
    ]
    head = ("LAST", "SESSIONS", "TOKENS", "SIZE", "PROJECT")
    lines = table([head, *cells], right="lrrrl")
    screen.show(fitted(lines, screen, by_path=True))


def _rows(archive: Archive, *, empty: bool) -> list[ProjectLine]:
    last: dict[str, datetime | None] = {}
    spent: dict[str, int] = {}
    for one in archive.sessions(empty=empty):
        last[one.id] = one.ended
        spent[one.id] = one.usage.total
    rows = [
        ProjectLine.of(
            project,
            max(filter(None, (last.get(s) for s in project.sessions)), default=None),
            sum(spent.get(s, 0) for s in project.sessions),
        )
        for project in archive.projects(empty=empty)
    ]
    return sorted(rows, key=lambda row: row.last or _LONGEST_AGO, reverse=True)
