"""`bygones ingest`: bring the archive up to date with Claude Code's files."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from bygones.archive import Archive
from bygones.cli.context import (
    archive_option,
    find_homes,
    home_option,
    json_option,
    quiet_option,
    resolve_archive_folder,
)
from bygones.cli.output import (
    StagedProgressBar,
    display_path,
    explain_interrupt,
    ingest_interrupted_message,
    ingest_report_lines,
    print_objects,
    print_problems,
)
from bygones.model.base import IngestReport
from bygones.model.reports import ProblemRow
from bygones.render.numbers import pluralize
from bygones.render.text.primitives import sanitize_name
from bygones.schema.commands import IngestReportObject

__all__ = ["ingest"]


@click.command("ingest")
@home_option
@archive_option
@json_option
@quiet_option
def ingest(
    homes: tuple[Path, ...], *, archive: Path | None, as_json: bool, quiet: bool
) -> None:
    r"""Import new transcripts into the archive.

    \b
    bygones ingest
    bygones ingest --home ~/.claude --home /mnt/old/.claude

    Only new data is read. Sessions that Claude Code has deleted stay in the archive. You
    can interrupt the import at any time; the next run continues.
    """
    folder, paths = resolve_archive_folder(archive), find_homes(homes)
    before = Archive.stored_bytes(folder)
    with (
        explain_interrupt(
            lambda: ingest_interrupted_message(Archive.stored_bytes(folder) - before)
        ),
        StagedProgressBar() as bar,
    ):
        report = Archive.ingest(folder, paths, progress=bar, is_thorough=True)
    if as_json:
        print_objects(map(ProblemRow.from_problem, report.problems))
        print_objects([ingest_report_object(report)])
    else:
        print_problems(report.problems)
        if not quiet:
            _print_summary(report, folder)
        if not quiet and not report.files:
            places = sanitize_name(", ".join(map(display_path, paths)))
            sys.stderr.write(f"note: there are no transcripts in {places}\n")
    if report.failure is not None:
        raise report.failure


def ingest_report_object(report: IngestReport) -> IngestReportObject:
    return IngestReportObject(
        file_count=report.files,
        new_count=report.new,
        grown_count=report.grown,
        rewritten_count=report.rewritten,
        moved_count=report.moved,
        gone_count=report.gone,
        returned_count=report.returned,
        unchanged_count=report.unchanged,
        refused_count=report.refused,
        problem_count=len(report.problems),
        stored_bytes=report.bytes,
        record_count=report.records,
        session_count=report.derived_sessions,
    )


def _print_summary(report: IngestReport, folder: Path) -> None:
    for line in ingest_report_lines(report):
        click.echo(line)
    sessions = pluralize(report.session_count, "session")
    if report.empty_count:
        sessions += f" and {pluralize(report.empty_count, 'empty one')}"
    click.echo(f"{sessions} in {sanitize_name(display_path(folder))}")
