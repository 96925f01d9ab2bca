"""``bygones tree``: a drawing of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from bygones.cli.costing import known_prices
from bygones.cli.naming import session_named
from bygones.cli.options import (
    Asked,
    archive_options,
    colour_option,
    complete_sessions,
    json_option,
)
from bygones.cli.rows import BeginRow, MarkRow, print_row
from bygones.cli.screen import Screen
from bygones.cli.styles import painted
from bygones.render.drawing import Pricer, drawn, marks
from bygones.render.heads import heading

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bygones.model.sessions import Session
    from bygones.render.spans import Row

__all__ = ["tree"]


@click.command("tree")
@click.argument("session", default="last", shell_complete=complete_sessions)
@archive_options
@json_option
@colour_option
def tree(*, session: str, asked: Asked, as_json: bool, colour: str) -> None:
    r"""Draw a session: its turns, branches, agents and compactions.

    SESSION is an id, the beginning of one, "last", a number of the last search, or the
    uuid of any record. Each line has its calls, how long it took, its tokens and what
    they cost; the line of a branch has what was spent behind its fork.

    \b
    bygones tree last
    bygones tree 5e551000 --json
    """
    screen = Screen.of(colour)
    with asked.current() as archive:
        found, _ = session_named(archive, session)
        prices = known_prices()
        pricer = prices.cost_of if prices else None
        if as_json:
            print_row(BeginRow.of("tree", asked.folder))
            for mark in marks(found, pricer):
                print_row(MarkRow.of(mark))
            return
        rows = _rows(found, screen, pricer)
        coloured = screen.paint.coloured
        screen.show(painted(spans, coloured=coloured) for spans in rows)


def _rows(session: Session, screen: Screen, pricer: Pricer | None) -> Iterator[Row]:
    cost = pricer(session.spends) if pricer else None
    yield from heading(session, session.live, None, screen.room, cost=cost)
    yield ()
    for mark in marks(session, pricer):
        yield drawn(mark, screen.room, None)
