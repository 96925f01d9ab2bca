"""Carrying out a list: which sessions are meant, and how they are shown."""

from __future__ import annotations

import sys
from itertools import islice
from typing import TYPE_CHECKING

from bygones.cli.costing import costs
from bygones.cli.screen import Screen
from bygones.cli.session_table import SessionTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from bygones.cli.asked import Asked
    from bygones.model.ids import SessionId
    from bygones.model.listing import Listed
    from bygones.model.usage import Cost

__all__ = ["list_archive"]

_PAGE = 20
"""Sessions that are shown on a terminal unless somebody wants more."""


def list_archive(  # noqa: PLR0913 (the options, all by name)
    *,
    query: tuple[str, ...],
    project: str | None,
    starred: bool,
    empty: bool,
    limit: int | None,
    iso: bool,
    asked: Asked,
    as_json: bool,
    colour: str,
) -> None:
    """List sessions as ``bygones list`` was asked to."""
    screen = Screen.of(colour, iso=iso)
    is_page = limit is None and screen.on_terminal and not as_json
    if is_page:
        limit = _PAGE
    with asked.current() as archive:
        path = None
        if project is not None:
            from bygones.cli.naming import project_named  # noqa: PLC0415 (if asked)

            path = project_named(archive, project).path
        found: Iterable[Listed] = archive.sessions(project=path, empty=empty)
        if query:
            from bygones.cli.filtering import filtered  # noqa: PLC0415 (if asked for)

            found = filtered(archive, found, query)
        chosen = (one for one in found if one.is_starred or not starred)
        most = limit and min(limit, sys.maxsize - 1)
        sessions = list(islice(chosen, most and most + 1))
        has_more = most is not None and len(sessions) > most
        sessions = sessions[:most]
        spent = costs(archive, sessions)
    if as_json:
        _print_rows(sessions, spent, asked)
        return
    if sessions:
        screen.show(SessionTable(screen, spent).lines(sessions))
    elif not asked.quiet:
        sys.stderr.write("no session\n" if query or starred else "no sessions yet\n")
    if is_page and has_more and not asked.quiet:
        sys.stderr.write(f"the newest {limit}; -n shows more\n")


def _print_rows(
    sessions: Iterable[Listed], spent: Mapping[SessionId, Cost], asked: Asked
) -> None:
    from bygones.cli.rows import BeginRow, SessionRow, print_row  # noqa: PLC0415

    print_row(BeginRow.of("list", asked.folder))
    for one in sessions:
        print_row(SessionRow.of(one, spent.get(one.id)))
