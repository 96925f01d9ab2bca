"""`bygones watch`: import transcripts while they are written."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
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
from bygones.cli.open_archive import load_session_costs
from bygones.cli.output import (
    Console,
    StagedProgressBar,
    display_path,
    ingest_report_lines,
    print_failure,
    print_objects,
)
from bygones.errors import ArchiveInUse, ExitCode
from bygones.model.base import IngestReport
from bygones.model.summary import SessionSummary
from bygones.model.usage import Cost
from bygones.render.numbers import pluralize
from bygones.render.text.primitives import sanitize_line, sanitize_name
from bygones.schema.summaries import SessionChangeObject, SessionObject

__all__ = ["watch"]


@click.command("watch")
@home_option
@click.option(
    "--poll",
    is_flag=True,
    help="Poll instead of waiting for notifications.",
)
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
    r"""Import new transcripts while Claude Code writes them.

    \b
    bygones watch
    bygones watch --poll

    Runs until you press Ctrl-C and prints what is new in each session that grows. New
    messages can be searched within two seconds. If the file system does not report
    changes, for example on a network drive, it polls.
    """
    folder, paths = resolve_archive_folder(archive), find_homes(homes)
    if not as_json:
        for line in _ingest_once(folder, paths):
            if not quiet:
                click.echo(line)
        if not quiet:
            places = ", ".join(sanitize_name(display_path(path)) for path in paths)
            sys.stderr.write(f"watching {places}; press Ctrl-C to stop\n")
    printer = _ChangePrinter(folder, as_json=as_json, quiet=quiet)
    try:
        Archive.watch(folder, paths, printer.print_changes, polling=poll)
    except KeyboardInterrupt:
        sys.stderr.write("\nstopped; everything printed is in the archive\n")
        raise click.exceptions.Exit(ExitCode.INTERRUPTED) from None


def _ingest_once(folder: Path, paths: tuple[Path, ...]) -> list[str]:
    """Import everything, and return the lines of the report."""
    try:
        with StagedProgressBar() as bar:
            report = Archive.ingest(folder, paths, progress=bar, is_thorough=True)
    except ArchiveInUse as error:
        # The other process may write for long; the watch catches up afterwards.
        return [f"{error}; continuing when it is done"]
    print_failure(report.failure)
    return list(ingest_report_lines(report))


class _ChangePrinter:
    """Prints the sessions that changed."""

    def __init__(self, folder: Path, *, as_json: bool, quiet: bool) -> None:
        self._folder = folder
        self._as_json = as_json
        self._quiet = quiet
        self._known = _load_summaries(folder)
        self._last_failure = ""

    def print_changes(self, report: IngestReport) -> None:
        self._print_failure(report)
        now = datetime.now(UTC)  # noqa: TID251 (an interface reads the clock)
        for before, one, cost in self._changed_sessions(report):
            if self._as_json:
                session = SessionObject.from_summary(one, cost)
                print_objects([SessionChangeObject(changed_at=now, session=session)])
            elif not self._quiet:
                gained = _describe_change(before, one)
                title = sanitize_line(one.title.text)
                line = (
                    f"{now.astimezone():%H:%M:%S}  {sanitize_line(one.id)[:8]}  "
                    f"{gained}  {title}"
                )
                click.echo(Console.for_stdout().truncate(line))
        sys.stdout.flush()

    def _print_failure(self, report: IngestReport) -> None:
        """Print which sessions could not be indexed, unless it was printed before."""
        failure = str(report.failure or "")
        if failure != self._last_failure:
            print_failure(failure)
        self._last_failure = failure

    def _changed_sessions(
        self, report: IngestReport
    ) -> Iterator[tuple[SessionSummary | None, SessionSummary, Cost | None]]:
        with Archive.open(self._folder) as archive:
            for id_ in report.updated_sessions:
                one = archive.session_summary(id_)
                before = self._known.get(id_)
                if before != one:
                    self._known[id_] = one
                    cost = load_session_costs(archive, [one]).get(one.id)
                    yield before, one, cost


def _load_summaries(folder: Path) -> dict[str, SessionSummary]:
    """Return what is known before the watch, to tell what is new."""
    if not Archive.exists(folder):
        return {}
    with Archive.open(folder) as archive:
        return {str(one.id): one for one in archive.sessions(include_empty=True)}


def _describe_change(before: SessionSummary | None, now: SessionSummary) -> str:
    """Return how many messages and agents a session has gained."""
    old_messages = before.message_count if before else 0
    old_agents = before.agent_count if before else 0
    parts = [
        f"+{pluralize(now.message_count - old_messages, 'message')}"
        if now.message_count > old_messages
        else "",
        f"+{pluralize(now.agent_count - old_agents, 'agent')}"
        if now.agent_count > old_agents
        else "",
    ]
    gained = " ".join(filter(None, parts)) or "updated"
    return f"new  {gained}" if before is None else gained
