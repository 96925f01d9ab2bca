"""`bygones projects`: the directories in which sessions were started."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from bygones.cli.context import (
    CommonOptions,
    archive_options,
    iso_option,
    json_option,
)
from bygones.cli.open_archive import open_current
from bygones.cli.output import (
    Console,
    TextColumn,
    TextTable,
    display_path,
    print_objects,
)
from bygones.render.numbers import format_bytes, format_tokens, pluralize
from bygones.render.text.primitives import truncate_start
from bygones.schema.summaries import ProjectObject

if TYPE_CHECKING:
    from bygones.archive import Archive


__all__ = ["projects"]

_OLDEST = datetime.min.replace(tzinfo=UTC)
_COLUMNS = (
    TextColumn("LAST"),
    TextColumn("SESSIONS", is_right_aligned=True),
    TextColumn("TOKENS", is_right_aligned=True),
    TextColumn("SIZE", is_right_aligned=True),
)


@click.command("projects")
@click.option("--all", "empty", is_flag=True, help="Include projects without messages.")
@iso_option
@archive_options
@json_option
def projects(*, empty: bool, iso: bool, options: CommonOptions, as_json: bool) -> None:
    r"""List projects, most recently used first.

    \b
    bygones projects
    bygones projects --json

    A project is the directory in which sessions were started. Clones and worktrees of a
    git repository are one project, and so are the names of a directory that was moved
    with `bygones move`.
    """
    with open_current(options) as archive:
        rows = _project_objects(archive, empty=empty)
    if as_json:
        print_objects(rows)
        return
    if not rows:
        if not options.quiet:
            sys.stderr.write("no projects yet\n")
        return
    console = Console.for_stdout(iso=iso)
    table = TextTable(
        _COLUMNS,
        [
            (
                console.format_time(row.last_active_at),
                f"{row.session_count:,}",
                format_tokens(row.tokens.total),
                format_bytes(row.source_bytes),
            )
            for row in rows
        ],
        width=console.width,
    )
    paths = list(map(_describe_path, rows))
    console.print_lines(table.lines(["PROJECT", *paths], truncate_start))


def _describe_path(row: ProjectObject) -> str:
    if row.path is None:
        return f"? {' '.join(row.project_keys)}"
    count = len(row.other_paths)
    others = f" and {pluralize(count, 'other directory', 'other directories')}"
    return display_path(row.path) + others * bool(count)


def _project_objects(archive: Archive, *, empty: bool) -> list[ProjectObject]:
    found = map(ProjectObject.from_project, archive.projects(include_empty=empty))
    return sorted(found, key=lambda row: row.last_active_at or _OLDEST, reverse=True)
