"""``recollect doctor``: what is where, how it is, and what will be lost when."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from recollect import __version__
from recollect.cli.checkup import expiring, known_homes, retention, state
from recollect.cli.options import (
    Asked,
    archive_options,
    colour_option,
    json_option,
    shown_path,
)
from recollect.cli.rows import BeginRow, print_row
from recollect.cli.screen import Screen
from recollect.cli.terminal import fit_right, plain
from recollect.render.figures import several, size
from recollect.render.safe import safe_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from recollect.cli.rows import DoctorRow, ExpiringRow, RetentionRow

__all__ = ["doctor"]

_SOON = 7
_TOLD = 5


@click.command("doctor")
@archive_options
@json_option
@colour_option
def doctor(*, asked: Asked, as_json: bool, colour: str) -> None:
    """Say what is where, how it is, and what Claude Code will delete when.

    Claude Code deletes a transcript some days after it was last written: 30, unless
    cleanupPeriodDays in its settings.json says otherwise. That setting is looked at
    and never changed; what is in the archive stays, whatever it is.
    """
    screen = Screen.of(colour)
    with asked.current() as archive:
        homes = known_homes(asked.homes)
        found = state(archive, homes)
        periods = retention(archive, homes)
        going = expiring(archive, periods, screen.now)
    if as_json:
        print_row(BeginRow.of("doctor", asked.folder))
        for row in (found, *periods, *going):
            print_row(row)
        return
    lines = [
        *_versions(found),
        *_archive(found, asked, screen),
        *_homes(periods, screen),
        *_deletions(periods, going, screen),
    ]
    room = screen.room
    screen.show(line if room is None else fit_right(line, room) for line in lines)


def _versions(found: DoctorRow) -> Iterator[str]:
    engines = " · ".join(f"{name} {one}" for name, one in found.engines.items())
    yield f"recollect {__version__} · Python {found.python} · {engines}"
    yield f"settings: {plain(shown_path(found.settings)) if found.settings else 'none'}"


def _archive(found: DoctorRow, asked: Asked, screen: Screen) -> Iterator[str]:
    paint = screen.paint
    yield ""
    yield paint.heading(f"Archive  {plain(shown_path(asked.folder))}")
    index = size(found.index_bytes) if found.has_index else "none: recollect rebuild"
    yield f"  {size(found.archive_bytes)}, index {index}"
    sessions = several(found.sessions, "session")
    yield f"  {sessions} in {several(found.projects, 'project')}"
    yield f"  {several(found.files, 'file')}, {found.gone:,} of them deleted since"
    if found.claude_versions:
        first, last = found.claude_versions[0], found.claude_versions[-1]
        yield f"  written by Claude Code {safe_line(first)} to {safe_line(last)}"
    if not found.is_private:
        yield paint.alert("  others on this machine can read it: chmod -R go= it")
    if not found.is_current:
        yield paint.alert("  the homes have something new: recollect ingest")
    if found.problems:
        odd = several(found.odd_sessions, "session")
        yield f"  {several(found.problems, 'problem')} in {odd}: recollect inspect"
    if found.drift:
        kinds = several(found.drift, "type or field", "types and fields")
        yield f"  {kinds} that this version does not know, kept as they are"


def _homes(periods: Sequence[RetentionRow], screen: Screen) -> Iterator[str]:
    yield ""
    yield screen.paint.heading("Homes")
    for row in periods:
        files = several(row.files, "file")
        yield f"  {plain(shown_path(row.home))}: {files}, {size(row.bytes)}"
        told = "as set" if row.is_set else "unless told otherwise"
        yield f"    Claude Code deletes after {several(row.days, 'day')}, {told}"
    if not periods:
        yield "  none found; --home names one"


def _deletions(
    periods: Sequence[RetentionRow], going: Sequence[ExpiringRow], screen: Screen
) -> Iterator[str]:
    soon = [row for row in going if row.days <= _SOON]
    if not periods:
        return
    yield ""
    yield screen.paint.heading("What Claude Code will delete")
    near = several(len(soon), "session")
    yield f"  {near} within {_SOON} days, {len(going):,} in all"
    for row in going[:_TOLD]:
        when = f"in {several(row.days, 'day')}" if row.days else "at its next run"
        name = screen.paint.place(safe_line(row.session)[:8])
        yield f"  {name}  {when:18}  {safe_line(row.title)}"
    yield "  all of them are in the archive; to have Claude Code keep them as well, set"
    for home in periods:
        yield f'    "cleanupPeriodDays": 3650  in {plain(shown_path(home.settings))}'
