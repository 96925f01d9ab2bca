"""``recollect purge``: erase for good."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import click

from recollect.archive import Archive
from recollect.cli.freshness import indexed
from recollect.cli.naming import LAST, newest, project_named
from recollect.cli.options import archive_option, complete_sessions, json_option
from recollect.cli.purge_words import confirm, tell, tell_kin
from recollect.cli.rows import BeginRow, FileRow, PurgedRow, print_row
from recollect.cli.terminal import StageBar
from recollect.mcp.glance import forget_lines
from recollect.model.listing import Listed

__all__ = ["purge"]


@click.command("purge")
@click.argument(
    "names", nargs=-1, metavar="[SESSION]...", shell_complete=complete_sessions
)
@click.option("--project", metavar="PATH|NAME", help="All sessions of this project.")
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

    A SESSION is an id, the beginning of one, or "last". No byte of it is left behind in
    the archive, and it is refused when it is met again. Claude Code's own files are not
    touched. With both --project and --before, only what is meant by both is erased.

    \b
    recollect purge 5e551000
    recollect purge --project . --before 2026-01-01 --yes
    """
    with indexed(archive) as archived:
        chosen = _chosen(archived, names, project, before)
        ids = [one.id for one in chosen]
        sources, shared = archived.sources(sessions=ids), archived.mentions(ids)
        if mentions:
            sources, shared = [*sources, *shared], []
        count = sum(kept.size for kept in sources)
        if as_json:
            print_row(BeginRow.of("purge", archived.folder))
            for kept in sources:
                print_row(FileRow(path=kept.id, bytes=kept.size))
        else:
            tell(chosen, len(sources), count)
            tell_kin(archived.kin(ids), shared)
        if chosen and not dry_run:
            confirm(yes=yes)
            with StageBar() as bar:
                done = archived.purge(sources, progress=bar)
            forget_lines(os.environ)
            if not done.is_packed:
                sys.stderr.write("note: old pages go when the last reader is done\n")
        if as_json:
            print_row(
                PurgedRow(
                    sessions=len(chosen),
                    files=len(sources),
                    bytes=count,
                    is_dry_run=dry_run,
                )
            )
        elif chosen and not dry_run:
            click.echo("erased; what Claude Code still has of it is not taken in again")


def _chosen(
    archive: Archive,
    names: Sequence[str],
    project: str | None,
    before: datetime | None,
) -> list[Listed]:
    if bool(names) == (project is not None or before is not None):
        raise click.UsageError("name sessions, or a --project, or a day with --before")
    if names:
        # No number of a search here: what is erased is named.
        found = (newest(archive) if n == LAST else archive.listed(n) for n in names)
        return list({one.id: one for one in found}.values())
    until = before.astimezone() if before is not None else None
    ids = set(project_named(archive, project).sessions) if project is not None else None
    return [
        one
        for one in archive.sessions(empty=True)
        if (ids is None or one.id in ids)
        and (until is None or (one.ended is not None and one.ended < until))
    ]
