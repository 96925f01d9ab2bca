"""``bygones purge``: erase for good."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click

from bygones.cli.freshness import indexed
from bygones.cli.options import (
    archive_option,
    complete_projects,
    complete_sessions,
    json_option,
)
from bygones.cli.purge_words import (
    confirm,
    tell,
    tell_kin,
    tell_unfinished,
)
from bygones.cli.purging import chosen_of, erase
from bygones.cli.rows import BeginRow, FileRow, PurgedRow, print_row

__all__ = ["purge"]


@click.command("purge")
@click.argument(
    "names", nargs=-1, metavar="[SESSION]...", shell_complete=complete_sessions
)
@click.option(
    "--project",
    metavar="PATH|NAME",
    shell_complete=complete_projects,
    help="All sessions of this project.",
)
@click.option(
    "--before",
    type=click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"]),
    metavar="DATE",
    help="All sessions that ended before this day.",
)
@click.option(
    "--mentions", is_flag=True, help="Also shared files that name them: the history."
)
@click.option("-y", "--yes", is_flag=True, help="Ask nothing.")
@click.option("-n", "--dry-run", is_flag=True, help="Say what would be erased.")
@archive_option
@json_option
def purge(  # noqa: PLR0913 (one parameter an option, all by name)
    names: tuple[str, ...],
    *,
    project: str | None,
    before: datetime | None,
    mentions: bool,
    yes: bool,
    dry_run: bool,
    archive: Path | None,
    as_json: bool,
) -> None:
    r"""Erase sessions from the archive, with all that belongs to them.

    A SESSION is an id, at least 4 signs of the beginning of one, or "last"; never a
    number of a search. No byte of it is left behind in the archive, and it is refused
    when it is met again. Claude Code's own files are not touched. With both
    --project and --before, only what is meant by both is erased.

    \b
    bygones purge 5e551000
    bygones purge --project . --before 2026-01-01 --yes
    """
    with indexed(archive) as archived:
        chosen, gone = chosen_of(archived, names, project, before)
        ids = [*(one.id for one in chosen), *gone]
        sources, shared = archived.sources(sessions=ids), archived.mentions(ids)
        if mentions:
            sources, shared = [*sources, *shared], []
        count = sum(kept.size for kept in sources)
        if as_json:
            print_row(BeginRow.of("purge", archived.folder))
            for kept in sources:
                print_row(FileRow(path=kept.id, bytes=kept.size))
        else:
            tell(chosen, gone, len(sources), count)
            tell_kin(archived.kin(ids), shared)
        is_left = tell_unfinished(archived, dry_run=dry_run)
        if (ids or is_left) and not dry_run:
            if sources:
                confirm(yes=yes)
            erase(archived, sources, ids)
        if as_json:
            print_row(
                PurgedRow(
                    sessions=len(chosen),
                    files=len(sources),
                    bytes=count,
                    is_dry_run=dry_run,
                )
            )
        elif (ids or is_left) and not dry_run:
            click.echo("erased; what Claude Code still has of it is not taken in again")
