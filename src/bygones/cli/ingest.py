"""``bygones ingest``: bring the archive up to date with Claude Code's files."""

from __future__ import annotations

from pathlib import Path

import click

from bygones.archive import Archive
from bygones.cli.options import (
    archive_option,
    folder_of,
    home_option,
    homes_of,
    json_option,
    quiet_option,
    shown_path,
)
from bygones.cli.rows import BeginRow, OddRow, print_row
from bygones.cli.telling import (
    if_stopped,
    kept_bytes,
    report_lines,
    report_row,
    taken_in,
    tell_problems,
)
from bygones.cli.terminal import StageBar, plain
from bygones.ingest import Report
from bygones.render.figures import several

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
    folder, paths = folder_of(archive), homes_of(homes)
    if as_json:
        print_row(BeginRow.of("ingest", folder))
    before = kept_bytes(folder)
    with if_stopped(lambda: taken_in(kept_bytes(folder) - before)), StageBar() as bar:
        report = Archive.ingest(folder, paths, progress=bar, is_thorough=True)
    if as_json:
        for problem in report.problems:
            print_row(OddRow.of(problem))
        print_row(report_row(report))
        return
    tell_problems(report.problems)
    if not quiet:
        _tell(report, folder)


def _tell(report: Report, folder: Path) -> None:
    for line in report_lines(report):
        click.echo(line)
    told = several(report.shown, "session")
    if report.empty:
        told += f" and {several(report.empty, 'empty one')}"
    click.echo(f"{told} in {plain(shown_path(folder))}")
