"""``bygones rebuild``: make the index anew from the archive."""

from __future__ import annotations

from pathlib import Path

import click

from bygones.archive import Archive
from bygones.cli.options import archive_option, folder_of, json_option, quiet_option
from bygones.cli.rows import BeginRow, print_row
from bygones.cli.telling import (
    NOT_INDEXED,
    if_stopped,
    report_row,
    tell_problems,
)
from bygones.cli.terminal import StageBar
from bygones.errors import ArchiveDamaged
from bygones.render.figures import several

__all__ = ["rebuild"]


@click.command("rebuild")
@archive_option
@json_option
@quiet_option
def rebuild(*, archive: Path | None, as_json: bool, quiet: bool) -> None:
    """Make the index anew from the archive alone.

    Needed only where an index is damaged: a new version of Bygones does it by
    itself with the next ingest. No transcript is read, and no byte of the archive is
    touched; whoever reads goes on with the old index until the new one is done. What
    is damaged in the archive is left out, and said.
    """
    folder = folder_of(archive)
    with if_stopped(NOT_INDEXED), StageBar() as bar:
        report = Archive.rebuild(folder, progress=bar)
    if as_json:
        print_row(BeginRow.of("rebuild", folder))
        print_row(report_row(report))
    elif not quiet:
        records = several(report.records, "record")
        click.echo(f"rebuilt: {several(report.sessions, 'session')}, {records}")
    tell_problems(report.problems)
    if report.problems:
        lost = several(len(report.problems), "stretch", "stretches")
        raise ArchiveDamaged(folder, f"{lost} could not be indexed")
