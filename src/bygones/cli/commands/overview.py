"""``bygones`` alone: the newest sessions, of this directory first."""

from __future__ import annotations

import os
import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from bygones.cli.commands.list import SessionTable, print_sessions_json
from bygones.cli.context import CommonOptions
from bygones.cli.context import cwd as here_now
from bygones.cli.open_archive import load_session_costs, open_current
from bygones.cli.output import Console
from bygones.cli.terminal import ColorMode
from bygones.errors import NoArchiveAndNoHome
from bygones.render.text.primitives import wrap_line

if TYPE_CHECKING:
    from bygones.archive import Archive
    from bygones.model.summary import SessionSummary


__all__ = ["show_overview"]

_MAX_HERE = 7
_MAX_ELSEWHERE = 7
_NO_HOME_MESSAGE = """\
There is no Claude Code home here, and no archive yet.

  bygones demo            makes an invented home to try everything with
  bygones ingest --home   takes in a home that lies elsewhere
"""


def show_overview(  # noqa: PLR0913 (what may be said before a command, and set)
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
    """Show the newest sessions; on a terminal those of this directory first.

    Where nothing is archived yet, say what is there and take it in first.
    """
    options = CommonOptions(archive, homes, no_ingest, quiet, verbose)
    screen = Console.for_stdout(color, iso=iso)
    try:
        opened = open_current(options)
    except NoArchiveAndNoHome:
        if not screen.is_terminal:
            raise
        sys.stderr.write(_NO_HOME_MESSAGE)
        return
    with opened:
        if as_json or not screen.is_terminal:
            _print_all(opened, screen, as_json=as_json)
            return
        here, others = _recent_sessions(opened)
        table = SessionTable(screen, load_session_costs(opened, [*here, *others]))
    screen.print_lines(_lines(here, others, table))
    if not quiet:
        hint = _hint([*here, *others])
        for line in wrap_line(hint, screen.width) if screen.width else (hint,):
            sys.stderr.write(screen.style.dim(line) + "\n")


def _recent_sessions(
    archive: Archive,
) -> tuple[list[SessionSummary], list[SessionSummary]]:
    """Return the newest sessions of this directory, and of all others."""
    found = here_now()
    place = os.path.realpath(found) if found else None
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
    screen = table.console
    lines = [screen.style.heading("In this directory"), *table.lines(here)]
    if others:
        lines += ["", screen.style.heading("Elsewhere"), *table.lines(others)]
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
