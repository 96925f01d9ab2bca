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
from recollect.cli.purge_words import (
    confirm,
    tell,
    tell_interruption,
    tell_kin,
    tell_unfinished,
)
from recollect.cli.rows import BeginRow, FileRow, PurgedRow, print_row
from recollect.cli.terminal import StageBar
from recollect.errors import ExitCode, NotArchived
from recollect.mcp.glance import forget_lines
from recollect.model.ids import SessionId
from recollect.model.listing import Listed
from recollect.store.chunks import Kept

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
        chosen, gone = _chosen(archived, names, project, before)
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
            _erase(archived, sources, ids)
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


def _erase(archive: Archive, sources: Sequence[Kept], ids: Sequence[SessionId]) -> None:
    try:
        with StageBar() as bar:
            done = archive.purge(sources, sessions=ids, progress=bar)
    except KeyboardInterrupt:
        with Archive.open(archive.folder) as found:
            tell_interruption(found, sources)
        raise click.exceptions.Exit(ExitCode.INTERRUPTED) from None
    forget_lines(os.environ)
    if not done.is_packed:
        sys.stderr.write(
            "note: somebody reads the archive, and old pages stay for them; "
            "run it again when they are done\n"
        )


def _chosen(
    archive: Archive,
    names: Sequence[str],
    project: str | None,
    before: datetime | None,
) -> tuple[list[Listed], list[SessionId]]:
    """Return the sessions that are meant, and those of them that are erased already."""
    if bool(names) == (project is not None or before is not None):
        raise click.UsageError("name sessions, or a --project, or a day with --before")
    if names:
        found = dict(_named(archive, name) for name in names)
        known = [one for one in found.values() if one is not None]
        return known, [id_ for id_, one in found.items() if one is None]
    until = before.astimezone() if before is not None else None
    ids = _ids(archive, project) if project is not None else None
    return [
        one
        for one in archive.sessions(empty=True)
        if (ids is None or one.id in ids)
        and (until is None or (one.ended is not None and one.ended < until))
    ], []


def _named(archive: Archive, name: str) -> tuple[SessionId, Listed | None]:
    # No number of a search here: what is erased is named.
    try:
        one = newest(archive) if name == LAST else archive.listed(name)
    except NotArchived:
        gone = archive.erased(name)
        if gone is None:
            raise
        return gone, None
    return one.id, one


def _ids(archive: Archive, project: str) -> Sequence[SessionId]:
    try:
        return project_named(archive, project).sessions
    except NotArchived:
        if archive.is_erasing:  # it may have been the last of the project
            return ()
        raise
