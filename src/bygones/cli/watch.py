"""``bygones watch``: keep the archive current."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import click

from bygones.archive import Archive
from bygones.cli.costing import costs
from bygones.cli.options import (
    archive_option,
    folder_of,
    home_option,
    homes_of,
    json_option,
    quiet_option,
    shown_path,
)
from bygones.cli.rows import BeginRow, SessionRow, TouchedRow, print_row
from bygones.cli.telling import report_lines
from bygones.cli.terminal import StageBar, plain
from bygones.errors import ArchiveInUse, ExitCode
from bygones.ingest import Report
from bygones.model.listing import Listed
from bygones.model.usage import Cost
from bygones.render.figures import several
from bygones.render.safe import safe_line
from bygones.watch import watch as keep_current

__all__ = ["watch"]


@click.command("watch")
@home_option
@click.option("--poll", is_flag=True, help="Look for changes; wait for no notice.")
@archive_option
@json_option
@quiet_option
def watch(
    homes: tuple[Path, ...],
    *,
    poll: bool,
    archive: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Keep the archive current while Claude Code writes, until Ctrl-C.

    Prints a line for every session that grows. What is written is in the archive and
    in the index within two seconds. Where the file system tells of no changes, they
    are looked for; --poll does so from the beginning.
    """
    folder, paths = folder_of(archive), homes_of(homes)
    if as_json:
        print_row(BeginRow.of("watch", folder))
    else:
        for line in _first(folder, paths):
            if not quiet:
                click.echo(line)
        if not quiet:
            places = ", ".join(plain(shown_path(path)) for path in paths)
            sys.stderr.write(f"watching {places}; Ctrl-C ends it\n")
    teller = _Teller(folder, as_json=as_json, quiet=quiet)
    try:
        keep_current(folder, paths, teller.tell, polling=poll)
    except KeyboardInterrupt:
        sys.stderr.write("\nstopped; what was told is in the archive\n")
        raise click.exceptions.Exit(ExitCode.INTERRUPTED) from None


def _first(folder: Path, paths: tuple[Path, ...]) -> list[str]:
    """Take in what there is, and return what to say of it."""
    try:
        with StageBar() as bar:
            return list(
                report_lines(
                    Archive.ingest(folder, paths, progress=bar, is_thorough=True)
                )
            )
    except ArchiveInUse as error:
        # Whoever writes may do so for long: the watch begins, and catches up then.
        return [f"{error}; going on when that is done"]


class _Teller:
    """Tells of sessions that were touched, by what is new about them."""

    def __init__(self, folder: Path, *, as_json: bool, quiet: bool) -> None:
        self._folder = folder
        self._as_json = as_json
        self._quiet = quiet
        self._known: dict[str, Listed] = {}

    def tell(self, report: Report) -> None:
        """Print a line for each session of a report that is not as it was."""
        now = datetime.now(UTC)  # noqa: TID251 (a face knows the clock)
        for one, cost in self._changed(report):
            if self._as_json:
                print_row(TouchedRow(time=now, session=SessionRow.of(one, cost)))
            elif not self._quiet:
                gained = several(one.messages, "message")
                title = safe_line(one.title.text)
                click.echo(
                    f"{now.astimezone():%H:%M:%S}  {safe_line(one.id)[:8]}  "
                    f"{gained}  {title}"
                )
        sys.stdout.flush()

    def _changed(self, report: Report) -> Iterator[tuple[Listed, Cost | None]]:
        with Archive.open(self._folder) as archive:
            for id_ in report.touched:
                one = archive.listed(id_)
                if self._known.get(id_) != one:
                    self._known[id_] = one
                    yield one, costs(archive, [one]).get(one.id)
