"""Which sessions a purge is of, and erasing them."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

import click

from bygones.archive import Archive
from bygones.cli import lately
from bygones.cli.naming import LAST, newest, project_named
from bygones.cli.purge_words import tell_interruption
from bygones.cli.terminal import StageBar
from bygones.errors import ExitCode, NotArchived
from bygones.mcp.glance import forget_lines
from bygones.model.ids import SessionId
from bygones.model.listing import Listed
from bygones.store.chunks import Kept

__all__ = ["chosen_of", "erase"]

_LEAST = 4
"""Signs of an id that must be given; numbers of a search have fewer."""


def erase(archive: Archive, sources: Sequence[Kept], ids: Sequence[SessionId]) -> None:
    """Erase files, and say how far that came if it is stopped."""
    try:
        with StageBar() as bar:
            done = archive.purge(sources, sessions=ids, progress=bar)
    except KeyboardInterrupt:
        with Archive.open(archive.folder) as found:
            tell_interruption(found, sources)
        raise click.exceptions.Exit(ExitCode.INTERRUPTED) from None
    forget_lines(os.environ)
    lately.forget()
    if not done.is_packed:
        sys.stderr.write(
            "note: somebody reads the archive, and old pages stay for them; "
            "run it again when they are done\n"
        )


def chosen_of(
    archive: Archive,
    names: Sequence[str],
    project: str | None,
    before: datetime | None,
) -> tuple[list[Listed], list[SessionId]]:
    """Return the sessions that are meant, and those of them that are erased already."""
    if bool(names) == (project is not None or before is not None):
        raise click.UsageError("name sessions, or a --project, or a day with --before")
    if names:
        found = dict(_named(archive, name) for name in names)
        known = [one for one in found.values() if one is not None]
        return known, [id_ for id_, one in found.items() if one is None]
    until = _moment(before) if before is not None else None
    ids = _ids(archive, project) if project is not None else None
    return [
        one
        for one in archive.sessions(empty=True)
        if (ids is None or one.id in ids)
        and (until is None or _ended(archive, one) < until)
    ], []


def _ended(archive: Archive, one: Listed) -> datetime:
    """Return when a session ended; what tells no time is as old as its files."""
    if one.ended is not None:
        return one.ended
    files = archive.sources(sessions=[one.id])
    return datetime.fromtimestamp(
        max((kept.mtime_ns for kept in files), default=0) / 1e9, UTC
    )


def _moment(before: datetime) -> datetime:
    try:
        return before.astimezone()
    except (OverflowError, ValueError):
        raise click.UsageError(
            f"no clock goes back to {before.date()}; name another day"
        ) from None


def _named(archive: Archive, name: str) -> tuple[SessionId, Listed | None]:
    # No number of a search here, nor what looks like one: what is erased is named.
    if len(name) < _LEAST:
        raise click.UsageError(
            f"purge takes an id, at least {_LEAST} signs of one, or last, not {name!r}:"
            " numbers of a search name nothing here"
        )
    try:
        one = newest(archive) if name == LAST else archive.listed(name)
    except NotArchived:
        gone = archive.erased(name)
        if gone is None:
            raise
        return gone, None
    return one.id, one


def _ids(archive: Archive, project: str) -> Sequence[SessionId]:
    try:
        return project_named(archive, project).sessions
    except NotArchived:
        if archive.is_erasing:  # it may have been the last of the project
            return ()
        raise
