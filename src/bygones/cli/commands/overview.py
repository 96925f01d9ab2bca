"""`bygones` without a command: the newest sessions, of this directory first."""

from __future__ import annotations

import os
import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from bygones.cli.commands.list import SessionTable, print_sessions_json
from bygones.cli.context import CommonOptions, cwd
from bygones.cli.open_archive import load_session_costs, open_current
from bygones.cli.output import ColorMode, Console
from bygones.errors import NoArchiveAndNoHome
from bygones.render.text.primitives import wrap_line

if TYPE_CHECKING:
    from bygones.archive import Archive
    from bygones.model.summary import SessionSummary


__all__ = ["show_overview"]

_MAX_HERE = 7
_MAX_ELSEWHERE = 7
_NO_HOME_MESSAGE = """\
There is no Claude Code home, and no archive yet.

  bygones demo            creates sample sessions to try Bygones with
  bygones ingest --home   imports sessions from another folder
"""


def show_overview(  # noqa: PLR0913 (the shared options)
    *,
    archive: Path | None = None,
    homes: tuple[Path, ...] = (),
    as_json: bool = False,
    color: str = ColorMode.AUTO,
    iso: bool = False,
    no_ingest: bool = False,
    quiet: bool = False,
    verbose: bool = False,
) -> None:
    """Show the newest sessions, on a terminal those of this directory first."""
    options = CommonOptions(archive, homes, no_ingest, quiet, verbose)
    console = Console.for_stdout(color, iso=iso)
    try:
        opened = open_current(options)
    except NoArchiveAndNoHome:
        if not console.is_terminal:
            raise
        sys.stderr.write(_NO_HOME_MESSAGE)
        return
    with opened:
        if as_json or not console.is_terminal:
            _print_all(opened, console, as_json=as_json)
            return
        here, others = _recent_sessions(opened)
        table = SessionTable(console, load_session_costs(opened, [*here, *others]))
    console.print_lines(_lines(here, others, table))
    if not quiet:
        hint = _hint([*here, *others])
        for line in wrap_line(hint, console.width) if console.width else (hint,):
            sys.stderr.write(console.style.dim(line) + "\n")


def _recent_sessions(
    archive: Archive,
) -> tuple[list[SessionSummary], list[SessionSummary]]:
    """Return the newest sessions of this directory, and of all others."""
    current = cwd()
    place = os.path.realpath(current) if current else None
    here = list(islice(archive.sessions(project=place), _MAX_HERE)) if place else []
    known = {one.id for one in here}
    others = (one for one in archive.sessions() if one.id not in known)
    room = _MAX_ELSEWHERE + _MAX_HERE - len(here)
    return here, list(
        islice((o for o in others if not _is_in_directory(o, place)), room)
    )


def _is_in_directory(session: SessionSummary, directory: str | None) -> bool:
    if session.project is None or directory is None:
        return False
    return (session.project + os.sep).startswith(directory + os.sep)


def _lines(
    here: list[SessionSummary], others: list[SessionSummary], table: SessionTable
) -> list[str]:
    if not here:
        return table.lines(others) if others else ["no sessions yet"]
    console = table.console
    lines = [console.style.heading("In this directory"), *table.lines(here)]
    if others:
        lines += ["", console.style.heading("Elsewhere"), *table.lines(others)]
    return lines


def _hint(sessions: list[SessionSummary]) -> str:
    name = sessions[0].id[:8] if sessions else "ID"
    return f"show {name} · tree {name} · search WORDS · list · doctor · help"


def _print_all(archive: Archive, console: Console, *, as_json: bool) -> None:
    sessions = list(archive.sessions())
    spent = load_session_costs(archive, sessions)
    if not as_json:
        console.print_lines(
            SessionTable(console, spent).lines(sessions) if sessions else ()
        )
        return
    print_sessions_json(sessions, spent)
