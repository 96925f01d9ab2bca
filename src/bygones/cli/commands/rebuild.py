"""`bygones rebuild`: create the index again from the archive."""

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
    StagedProgressBar,
    explain_interrupt,
    print_failure,
    print_objects,
    print_problems,
)
from bygones.errors import ArchiveDamaged
from bygones.render.numbers import pluralize

__all__ = ["rebuild"]


@click.command("rebuild")
@archive_option
@json_option
@quiet_option
def rebuild(*, archive: Path | None, as_json: bool, quiet: bool) -> None:
    r"""Rebuild the search index from the archive.

    \b
    bygones rebuild
    bygones rebuild --archive /mnt/disk/bygones

    You need this only if the index is damaged; after an update of Bygones, the next
    command rebuilds it. The archive and the transcripts are not changed, and other commands
    use the old index until the new one is complete. Damaged parts of the archive are
    skipped and reported.
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
    if damages := [one for one in report.problems if one.kind != "lost"]:
        lost = pluralize(len(damages), "stretch", "stretches")
        print_failure(report.failure)
        raise ArchiveDamaged(folder, f"{lost} could not be indexed")
    if report.failure is not None:
        raise report.failure
