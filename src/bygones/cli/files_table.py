"""Changes of files as rows, and as lines that fit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bygones.cli.asked import here as here_now
from bygones.cli.terminal import fit_left, fit_right, short_path
from bygones.render.safe import safe_line
from bygones.rows.archive import ChangedRow
from bygones.rows.changes import gathered

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bygones.cli.screen import Screen
    from bygones.model.finds import FoundEdit
    from bygones.model.ids import SessionId

__all__ = ["file_cell", "fitted", "gathered", "session_cell"]

_LEAST = 20
_SHORTEST = 8


def file_cell(row: ChangedRow, screen: Screen) -> str:
    """Return a file as one would type it, and whether it was made."""
    mark = " (new)" if row.is_new else ""
    return f"{_typed(row.path, screen)}{mark}"


def _typed(path: str, screen: Screen) -> str:
    """Return a path as one would type it: on a terminal here, in a pipe anywhere."""
    here = here_now() if screen.on_terminal else None
    return short_path(path, here=here, home=Path.home())


def session_cell(
    row: ChangedRow,
    titles: Mapping[SessionId, str],
    edits: Sequence[FoundEdit],
    screen: Screen,
) -> str:
    """Return a session by its title, with the file where there are several."""
    several = len({edit.path for edit in edits}) > 1
    where = f"{_typed(row.path, screen)}" if several else ""
    if where and screen.room is not None:
        where = fit_left(where, max(screen.room // 3, _LEAST))
    where += "  " if where else ""
    return f"{row.session[:8]}  {where}{safe_line(titles.get(row.session, ''))}"


def fitted(lines: Sequence[str], screen: Screen, *, by_path: bool) -> list[str]:
    """Return lines that fit: a title loses its end, a path its beginning."""
    if screen.room is None:
        return list(lines)
    cut = _fit_path if by_path else fit_right
    return [cut(line, max(screen.room, _LEAST)) for line in lines]


def _fit_path(line: str, room: int) -> str:
    """Cut the beginning of the path at the end of a line."""
    facts, _, path = line.rpartition("  ")
    return f"{facts}  {fit_left(path, max(room - len(facts) - 2, _SHORTEST))}"
