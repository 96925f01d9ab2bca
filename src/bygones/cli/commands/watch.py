"""`bygones watch`: keep the archive current."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
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
from bygones.cli.open_archive import load_session_costs
from bygones.cli.output import ingest_report_lines, print_objects
from bygones.cli.terminal import StagedProgressBar
from bygones.errors import ArchiveInUse, ExitCode
from bygones.ingest.watch import watch as keep_current
from bygones.model.progress import IngestReport
from bygones.model.summary import SessionSummary
from bygones.model.usage import Cost
from bygones.render.numbers import pluralize
from bygones.render.text.primitives import sanitize_line, sanitize_name
from bygones.schema.summaries import SessionChangeObject, SessionObject

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
    folder, paths = resolve_archive_folder(archive), find_homes(homes)
    if not as_json:
        for line in _ingest_once(folder, paths):
            if not quiet:
                click.echo(line)
        if not quiet:
            places = ", ".join(sanitize_name(display_path(path)) for path in paths)
            sys.stderr.write(f"watching {places}; Ctrl-C ends it\n")
    teller = _ChangePrinter(folder, as_json=as_json, quiet=quiet)
    try:
        keep_current(folder, paths, teller.print_changes, polling=poll)
    except KeyboardInterrupt:
        sys.stderr.write("\nstopped; what was told is in the archive\n")
        raise click.exceptions.Exit(ExitCode.INTERRUPTED) from None


def _ingest_once(folder: Path, paths: tuple[Path, ...]) -> list[str]:
    """Take in what there is, and return what to say of it."""
    try:
        with StagedProgressBar() as bar:
            return list(
                ingest_report_lines(
                    Archive.ingest(folder, paths, progress=bar, is_thorough=True)
                )
            )
    except ArchiveInUse as error:
        # Whoever writes may do so for long: the watch begins, and catches up then.
        return [f"{error}; going on when that is done"]


class _ChangePrinter:
    """Tells of sessions that were touched, by what is new about them."""

    def __init__(self, folder: Path, *, as_json: bool, quiet: bool) -> None:
        self._folder = folder
        self._as_json = as_json
        self._quiet = quiet
        self._known: dict[str, SessionSummary] = {}

    def print_changes(self, report: IngestReport) -> None:
        """Print a line for each session of a report that is not as it was."""
        now = datetime.now(UTC)  # noqa: TID251 (an interface reads the clock)
        for one, cost in self._changed_sessions(report):
            if self._as_json:
                session = SessionObject.from_summary(one, cost)
                print_objects([SessionChangeObject(changed_at=now, session=session)])
            elif not self._quiet:
                gained = pluralize(one.message_count, "message")
                title = sanitize_line(one.title.text)
                click.echo(
                    f"{now.astimezone():%H:%M:%S}  {sanitize_line(one.id)[:8]}  "
                    f"{gained}  {title}"
                )
        sys.stdout.flush()

    def _changed_sessions(
        self, report: IngestReport
    ) -> Iterator[tuple[SessionSummary, Cost | None]]:
        with Archive.open(self._folder) as archive:
            for id_ in report.updated_sessions:
                one = archive.session_summary(id_)
                if self._known.get(id_) != one:
                    self._known[id_] = one
                    yield one, load_session_costs(archive, [one]).get(one.id)
