"""``bygones`` alone: the newest sessions, of this directory first."""

from __future__ import annotations

import os
import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from bygones.cli.asked import here as here_now
from bygones.cli.costing import costs
from bygones.cli.options import Asked
from bygones.cli.screen import Screen
from bygones.cli.session_table import SessionTable
from bygones.cli.terminal import Colour
from bygones.errors import NothingToShow
from bygones.render.widths import wrap

if TYPE_CHECKING:
    from bygones.archive import Archive
    from bygones.model.listing import Listed

__all__ = ["welcome"]

_HERE = 7
_ELSEWHERE = 7
_NO_HOME = """\
There is no Claude Code home here, and no archive yet.

  bygones demo            makes an invented home to try everything with
  bygones ingest --home   takes in a home that lies elsewhere
"""


def welcome(  # noqa: PLR0913 (what may be said before a command, and set)
    *,
    archive: Path | None = None,
    homes: tuple[Path, ...] = (),
    as_json: bool = False,
    colour: str = Colour.AUTO,
    iso: bool = False,
    as_is: bool = False,
    quiet: bool = False,
    verbose: bool = False,
) -> None:
    """Show the newest sessions; on a terminal those of this directory first.

    Where nothing is archived yet, say what is there and take it in first.
    """
    asked = Asked(archive, homes, as_is, quiet, verbose)
    screen = Screen.of(colour, iso=iso)
    try:
        opened = asked.current()
    except NothingToShow:
        if not screen.on_terminal:
            raise
        sys.stderr.write(_NO_HOME)
        return
    with opened:
        if as_json or not screen.on_terminal:
            _print_all(opened, screen, as_json=as_json)
            return
        here, others = _parted(opened)
        table = SessionTable(screen, costs(opened, [*here, *others]))
    screen.show(_lines(here, others, table))
    if not quiet:
        hint = _hint([*here, *others])
        for line in wrap(hint, screen.room) if screen.room else (hint,):
            sys.stderr.write(screen.paint.faint(line) + "\n")


def _parted(archive: Archive) -> tuple[list[Listed], list[Listed]]:
    """Return the newest sessions of this directory, and of all others."""
    found = here_now()
    place = os.path.realpath(found) if found else None
    here = list(islice(archive.sessions(project=place), _HERE)) if place else []
    known = {one.id for one in here}
    others = (one for one in archive.sessions() if one.id not in known)
    room = _ELSEWHERE + _HERE - len(here)
    return here, list(islice((o for o in others if not _is_here(o, place)), room))


def _is_here(one: Listed, place: str | None) -> bool:
    if one.project is None or place is None:
        return False
    return (one.project + os.sep).startswith(place + os.sep)


def _lines(here: list[Listed], others: list[Listed], table: SessionTable) -> list[str]:
    if not here:
        return table.lines(others) if others else ["no sessions yet"]
    screen = table.screen
    lines = [screen.paint.heading("In this directory"), *table.lines(here)]
    if others:
        lines += ["", screen.paint.heading("Elsewhere"), *table.lines(others)]
    return lines


def _hint(sessions: list[Listed]) -> str:
    name = sessions[0].id[:8] if sessions else "ID"
    return f"show {name} · tree {name} · search WORDS · list · doctor · help"


def _print_all(archive: Archive, screen: Screen, *, as_json: bool) -> None:
    sessions = list(archive.sessions())
    spent = costs(archive, sessions)
    if not as_json:
        screen.show(SessionTable(screen, spent).lines(sessions) if sessions else ())
        return
    from bygones.cli.rows import BeginRow, SessionRow, print_row  # noqa: PLC0415

    print_row(BeginRow.of("list", archive.folder))
    for one in sessions:
        print_row(SessionRow.of(one, spent.get(one.id)))
