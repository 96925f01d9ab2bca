"""`bygones purge`: erase sessions from the archive permanently."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import click

from bygones.archive import Archive
from bygones.cli import resolve
from bygones.cli.context import (
    LAST,
    archive_option,
    complete_projects,
    complete_sessions,
    json_option,
    parse_time_option,
)
from bygones.cli.open_archive import open_indexed
from bygones.cli.output import (
    StagedProgressBar,
    display_path,
    output_width,
    print_failure,
    print_objects,
)
from bygones.cli.resolve import (
    newest_session,
    print_unindexed,
    resolve_project_scope,
)
from bygones.errors import ExitCode, NotInArchive
from bygones.integrations.statusline_cache import clear_statusline_cache
from bygones.model.base import SessionId
from bygones.model.summary import SessionSummary
from bygones.render.numbers import format_bytes, format_time, pluralize
from bygones.render.text.primitives import sanitize_line, truncate_end
from bygones.schema.commands import FileObject, PurgeObject
from bygones.store.archive_db import StoredSource

_MAX_LISTED = 10
_MAX_TITLE_WIDTH = 60
_TITLE_COLUMN = 28
"""The column at which titles start."""


class Selection(NamedTuple):
    """The sessions to erase."""

    summaries: Sequence[SessionSummary] = ()
    unindexed: Sequence[SessionId] = ()
    """Sessions that could not be indexed."""
    already_erased: Sequence[SessionId] = ()

    @property
    def ids(self) -> list[SessionId]:
        known = (one.id for one in self.summaries)
        return [*known, *self.unindexed, *self.already_erased]

    @property
    def session_count(self) -> int:
        return len(self.summaries) + len(self.unindexed)


def print_plan(selection: Selection, file_count: int, byte_count: int) -> None:
    summaries = selection.summaries
    for one in summaries[:_MAX_LISTED]:
        when = format_time(one.ended_at, None) if one.ended_at else " " * 16
        title = truncate_end(sanitize_line(one.title.text), _title_width())
        click.echo(f"{sanitize_line(one.id)[:8]}  {when}  {title}")
    if len(summaries) > _MAX_LISTED:
        click.echo(f"and {len(summaries) - _MAX_LISTED:,} more")
    for id_ in selection.unindexed:
        click.echo(f"{sanitize_line(id_)}  not indexed")
    for id_ in selection.already_erased:
        click.echo(f"{sanitize_line(id_)[:8]}  already erased")
    if selection.session_count or file_count or not selection.already_erased:
        sessions = pluralize(selection.session_count, "session")
        click.echo(
            f"{sessions}: {pluralize(file_count, 'file')}, {format_bytes(byte_count)}"
        )


def _title_width() -> int:
    return max(
        min(output_width(sys.stdout, os.environ) - _TITLE_COLUMN, _MAX_TITLE_WIDTH), 1
    )


def print_related(
    related: AbstractSet[SessionId], shared: Sequence[StoredSource]
) -> None:
    """Print which related sessions and files are not erased."""
    if related:
        names = ", ".join(
            sanitize_line(id_)[:8] for id_ in sorted(related)[:_MAX_LISTED]
        )
        sys.stderr.write(
            f"note: sessions that share records with these are kept: {names}\n"
        )
    for source in shared:
        path = sanitize_line(display_path(source.id))
        sys.stderr.write(
            f"note: {path} mentions them and is kept; --mentions erases it too\n"
        )


def warn_unfinished(archive: Archive, *, dry_run: bool) -> bool:
    """Return whether an earlier purge was interrupted, with a note on stderr."""
    is_pending = archive.purge_pending
    if is_pending:
        hint = (
            "run it without --dry-run to finish it" if dry_run else "finishing it now"
        )
        sys.stderr.write(f"note: a purge was interrupted; {hint}\n")
    return is_pending


def print_interruption(archive: Archive, sources: Sequence[StoredSource]) -> None:
    """Print how far an interrupted purge came, and what to do."""
    remaining = {source.number for source in archive.sources()}
    if archive.purge_pending:
        state = (
            "the sessions are erased, but some of their bytes may still be in the file;"
            " run the same command again to finish"
        )
    elif any(source.number in remaining for source in sources):
        state = "nothing was erased; run the same command again"
    else:
        state = "everything was erased"
    sys.stderr.write(f"\ninterrupted: {state}\n")
    if not archive.has_index:
        sys.stderr.write(
            "that also rebuilds the index; `bygones rebuild` does only that\n"
        )


def confirm_erasure(*, yes: bool) -> None:
    """Ask for confirmation, unless --yes was given."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError("stdin is not a terminal; use --yes to erase")
    click.confirm("Erase permanently?", abort=True, err=True)


_MIN_PREFIX_LENGTH = 4
"""Characters of an id that must be given; result numbers have fewer."""


def erase_sources(
    archive: Archive, sources: Sequence[StoredSource], ids: Sequence[SessionId]
) -> None:
    """Erase sources; if interrupted, print how far it came."""
    try:
        with StagedProgressBar() as bar:
            done = archive.purge(sources, sessions=ids, progress=bar)
    except KeyboardInterrupt:
        with Archive.open(archive.folder) as found:
            print_interruption(found, sources)
        raise click.exceptions.Exit(ExitCode.INTERRUPTED) from None
    clear_statusline_cache(os.environ)
    resolve.forget_results()
    print_failure(done.failure)
    if not done.is_vacuumed:
        sys.stderr.write(
            "note: another process is reading the archive, so the erased bytes are still "
            "in the file; run the same command again later\n"
        )


def select_sessions(
    archive: Archive,
    names: Sequence[str],
    project: str | None,
    before: str | None,
) -> Selection:
    """Return the selected sessions."""
    if bool(names) == (project is not None or before is not None):
        raise click.UsageError("name sessions, or use --project or --before")
    if names:
        return _resolve_sessions(archive, names)
    now = datetime.now(UTC)  # noqa: TID251 (an interface reads the clock)
    until = parse_time_option("--before", before, now=now).end if before else None
    try:
        scope = resolve_project_scope(archive, project)
    except NotInArchive:
        if archive.purge_pending:  # it may have been the last of the project
            return Selection()
        raise
    print_unindexed(archive)
    return Selection(
        [
            one
            for one in archive.sessions(project=scope, include_empty=True)
            if until is None or archive.last_active_at(one) < until
        ]
    )


def _file_object(kept: StoredSource) -> FileObject:
    return FileObject(path=kept.id, size_bytes=kept.size, state=None)


def _erased_message(session_count: int, file_count: int) -> str:
    if session_count:
        which = "it" if session_count == 1 else "they"
        sessions = pluralize(session_count, "session")
        return f"erased {sessions}; {which} will not be imported again"
    if file_count:
        return f"erased {pluralize(file_count, 'file')}"
    return "everything is erased already"


def _resolve_sessions(archive: Archive, names: Sequence[str]) -> Selection:
    summaries: dict[SessionId, SessionSummary] = {}
    unindexed: dict[SessionId, None] = {}
    already_erased: dict[SessionId, None] = {}
    for name in names:
        # Result numbers are not accepted: what is erased must be named explicitly.
        if len(name) < _MIN_PREFIX_LENGTH:
            raise click.UsageError(
                f"{name!r} is too short: use at least {_MIN_PREFIX_LENGTH} characters of"
                " an id, or last; result numbers are not accepted"
            )
        try:
            if name == LAST:
                one = newest_session(archive)
            else:
                one = archive.session_summary(name)
                archive.check_is_only(one.id, name)
            summaries[one.id] = one
        except NotInArchive:
            if (stored := archive.find_unindexed(name)) is not None:
                unindexed[stored] = None
            elif (gone := archive.find_purged(name)) is not None:
                already_erased[gone] = None
            else:
                raise
    return Selection([*summaries.values()], [*unindexed], [*already_erased])


@click.command("purge")
@click.argument(
    "names", nargs=-1, metavar="[SESSION]...", shell_complete=complete_sessions
)
@click.option(
    "--project",
    metavar="PATH|NAME",
    shell_complete=complete_projects,
    help="Sessions of this project and of folders below it.",
)
@click.option(
    "--before",
    metavar="TIME",
    help="Sessions that ended before this time, such as 2026-01-31 or 400d.",
)
@click.option(
    "--mentions",
    is_flag=True,
    help="Also erase shared files that mention them, such as the history.",
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("-n", "--dry-run", is_flag=True, help="Show what would be erased.")
@archive_option
@json_option
def purge(  # noqa: PLR0913 (one parameter per option)
    names: tuple[str, ...],
    *,
    project: str | None,
    before: str | None,
    mentions: bool,
    yes: bool,
    dry_run: bool,
    archive: Path | None,
    as_json: bool,
) -> None:
    r"""Erase sessions from the archive permanently.

    \b
    bygones purge 5e551000
    bygones purge --project . --before 2026-01-01 --yes

    SESSION is an id, at least its first 4 characters, or "last"; result numbers of a
    search are not accepted. With both --project and --before, sessions that match both
    are erased.

    No byte of a purged session remains in the archive, and it is not imported again.
    Claude Code's own files are not changed.
    """
    with open_indexed(archive) as archived:
        selection = select_sessions(archived, names, project, before)
        ids = selection.ids
        sources, shared = (
            archived.sources(sessions=ids),
            archived.sources_mentioning(ids),
        )
        if mentions:
            sources, shared = [*sources, *shared], []
        count = sum(kept.size for kept in sources)
        related = archived.related_sessions(ids)
        is_left = warn_unfinished(archived, dry_run=dry_run)
        is_needed = bool(ids or is_left) and not dry_run
        if is_needed and yes:
            # First, because a closed pipe ends the output and the command.
            erase_sources(archived, sources, ids)
        if as_json:
            print_objects(map(_file_object, sources))
        else:
            print_plan(selection, len(sources), count)
            print_related(related, shared)
        if is_needed and not yes:
            if sources:
                confirm_erasure(yes=False)
            erase_sources(archived, sources, ids)
        if as_json:
            result = PurgeObject(
                session_count=selection.session_count,
                file_count=len(sources),
                erased_bytes=count,
                is_dry_run=dry_run,
            )
            print_objects([result])
        elif is_needed:
            click.echo(_erased_message(selection.session_count, len(sources)))
