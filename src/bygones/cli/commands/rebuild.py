"""`bygones rebuild`: make the index anew from the archive."""

from __future__ import annotations

from pathlib import Path

import click

from bygones.archive import Archive
from bygones.cli.commands.ingest import ingest_report_object
from bygones.cli.context import (
    archive_option,
    json_option,
    quiet_option,
    resolve_archive_folder,
)
from bygones.cli.output import (
    INDEX_INTERRUPTED,
    explain_interrupt,
    print_objects,
    print_problems,
)
from bygones.cli.terminal import StagedProgressBar
from bygones.errors import ArchiveDamaged
from bygones.render.numbers import pluralize

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
    folder = resolve_archive_folder(archive)
    with explain_interrupt(INDEX_INTERRUPTED), StagedProgressBar() as bar:
        report = Archive.rebuild(folder, progress=bar)
    if as_json:
        print_objects([ingest_report_object(report)])
    elif not quiet:
        records = pluralize(report.records, "record")
        click.echo(
            f"rebuilt: {pluralize(report.derived_sessions, 'session')}, {records}"
        )
    print_problems(report.problems)
    if report.problems:
        lost = pluralize(len(report.problems), "stretch", "stretches")
        raise ArchiveDamaged(folder, f"{lost} could not be indexed")
