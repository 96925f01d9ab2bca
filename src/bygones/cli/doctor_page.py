"""What ``bygones doctor`` says of what it looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bygones import __version__
from bygones.cli.options import Asked, shown_path
from bygones.cli.terminal import fit_right, plain
from bygones.render.figures import several, size
from bygones.render.safe import safe_line
from bygones.render.verdicts import verified_words
from bygones.render.widths import wrap

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bygones.cli.rows import DoctorRow, ExpiringRow, RetentionRow
    from bygones.cli.screen import Screen

__all__ = [
    "archive_lines",
    "deletion_lines",
    "home_lines",
    "version_lines",
    "wrapped",
]

_SOON = 7
_TOLD = 5
_BEFORE = 32
"""Columns in front of the title of a session that will be deleted."""
_HANG = "      "


def wrapped(lines: Iterable[str], room: int) -> Iterator[str]:
    """Yield lines on as many as they need: a path that is cut is of no use."""
    for line in lines:
        # Nothing that is coloured is too long.
        yield from (line,) if "\x1b" in line else wrap(line, room, hang=_HANG)


def version_lines(found: DoctorRow, screen: Screen) -> Iterator[str]:
    """Yield what this program is, and what is wrong with what was set."""
    engines = " · ".join(f"{name} {one}" for name, one in found.engines.items())
    yield f"bygones {__version__} · Python {found.python} · {engines}"
    yield f"settings: {plain(shown_path(found.settings)) if found.settings else 'none'}"
    for one in map(plain, found.wrong):
        told = wrap(one, screen.room, hang=_HANG) if screen.room else (one,)
        yield from map(screen.paint.alert, told)


def archive_lines(found: DoctorRow, asked: Asked, screen: Screen) -> Iterator[str]:
    """Yield how the archive is."""
    paint = screen.paint
    yield ""
    yield paint.heading(f"Archive  {plain(shown_path(asked.folder))}")
    if not found.has_archive:
        yield "  none yet: bygones ingest makes one"
        return
    index = size(found.index_bytes) if found.has_index else "none: bygones rebuild"
    yield f"  {size(found.archive_bytes)}, index {index}"
    sessions = several(found.sessions, "session")
    yield f"  {sessions} in {several(found.projects, 'project')}"
    yield f"  {several(found.files, 'file')}, {found.gone:,} of them deleted since"
    if found.claude_versions:
        first, last = found.claude_versions[0], found.claude_versions[-1]
        told = first if first == last else f"{first} to {last}"
        yield f"  written by Claude Code {safe_line(told)}"
    told = f"  verified {verified_words(found.verified, _verified(found, screen))}"
    is_bad = found.verified is not None and not found.verified.is_sound
    yield paint.alert(told) if is_bad else told
    if not found.is_private:
        yield paint.alert("  others on this machine can read it: chmod -R go= it")
    if found.is_erasing:
        yield paint.alert("  a purge was stopped halfway: ask for it again")
    if not found.is_current:
        yield paint.alert("  the homes have something new: bygones ingest")
    if found.problems:
        odd = several(found.odd_sessions, "session")
        yield f"  {several(found.problems, 'problem')} in {odd}: bygones inspect"
    if found.drift:
        kinds = several(found.drift, "type or field", "types and fields")
        yield f"  {kinds} that this version does not know, kept as they are"


def _verified(found: DoctorRow, screen: Screen) -> str:
    return screen.when(found.verified.time) if found.verified else ""


def home_lines(periods: Sequence[RetentionRow], screen: Screen) -> Iterator[str]:
    """Yield what is in the homes, and for how long."""
    yield ""
    yield screen.paint.heading("Homes")
    for row in periods:
        files = several(row.files, "file")
        yield f"  {plain(shown_path(row.home))}: {files}, {size(row.bytes)}"
        told = "as set" if row.is_set else "unless told otherwise"
        yield f"    Claude Code deletes after {several(row.days, 'day')}, {told}"
    if not periods:
        yield "  none found; --home names one"


def deletion_lines(
    found: DoctorRow,
    periods: Sequence[RetentionRow],
    going: Sequence[ExpiringRow],
    screen: Screen,
) -> Iterator[str]:
    """Yield what will be deleted next, and how to prevent it."""
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
        title = safe_line(row.title)
        if screen.room is not None:
            title = fit_right(title, max(screen.room - _BEFORE, 1))
        yield f"  {name}  {when:18}  {title}"
    kept = "all of them are" if found.has_archive else "none of them is"
    yield f"  {kept} in the archive; to have Claude Code keep them as well, set"
    for home in periods:
        yield f'    "cleanupPeriodDays": 3650  in {plain(shown_path(home.settings))}'
