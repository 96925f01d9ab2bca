"""``bygones ingest``: bring the archive up to date with Claude Code's files."""

from __future__ import annotations

from pathlib import Path

import click

from bygones.archive import Archive
from bygones.cli.context import (
    archive_option,
    display_path,
    find_homes,
    home_option,
    json_option,
    quiet_option,
    resolve_archive_folder,
)
from bygones.cli.output import (
    count_stored_bytes,
    explain_interrupt,
    ingest_interrupted_message,
    ingest_report_lines,
    ingest_report_row,
    print_problems,
)
from bygones.cli.terminal import StagedProgressBar
from bygones.json_rows import HeaderRow, IngestProblemRow, print_row
from bygones.model.progress import IngestReport
from bygones.render.numbers import pluralize
from bygones.render.text.primitives import sanitize_name as plain

__all__ = ["ingest"]


@click.command("ingest")
@home_option
@archive_option
@json_option
@quiet_option
def ingest(
    homes: tuple[Path, ...], *, archive: Path | None, as_json: bool, quiet: bool
) -> None:
    r"""Copy what Claude Code wrote into the archive, and index it.

    Only what is new is read; what Claude Code has deleted since stays in the archive.
    It can be stopped at any moment, and goes on from there the next time.

    \b
    bygones ingest
    bygones ingest --home ~/.claude --home /mnt/old/.claude
    """
    folder, paths = resolve_archive_folder(archive), find_homes(homes)
    if as_json:
        print_row(HeaderRow.of("ingest", folder))
    before = count_stored_bytes(folder)
    with (
        explain_interrupt(
            lambda: ingest_interrupted_message(count_stored_bytes(folder) - before)
        ),
        StagedProgressBar() as bar,
    ):
        report = Archive.ingest(folder, paths, progress=bar, is_thorough=True)
    if as_json:
        for problem in report.problems:
            print_row(IngestProblemRow.of(problem))
        print_row(ingest_report_row(report))
        return
    print_problems(report.problems)
    if not quiet:
        _print_summary(report, folder)


def _print_summary(report: IngestReport, folder: Path) -> None:
    for line in ingest_report_lines(report):
        click.echo(line)
    told = pluralize(report.session_count, "session")
    if report.empty_count:
        told += f" and {pluralize(report.empty_count, 'empty one')}"
    click.echo(f"{told} in {plain(display_path(folder))}")
