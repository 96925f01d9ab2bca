"""`bygones tree`: the turns, branches and agents of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from bygones.cli.context import (
    CommonOptions,
    archive_options,
    color_option,
    complete_sessions,
    json_option,
)
from bygones.cli.open_archive import load_user_prices_or_warn, open_current
from bygones.cli.output import Console, print_objects, style_spans
from bygones.cli.resolve import load_named_session
from bygones.model.conversations import build_conversation_header
from bygones.render.headers import render_header
from bygones.render.session_tree import UsagePricer, iter_tree_lines, render_tree_line
from bygones.schema.sessions import TreeLineObject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bygones.model.sessions import Session
    from bygones.render.text.primitives import StyledLine


__all__ = ["tree"]


@click.command("tree")
@click.argument("session", default="last", shell_complete=complete_sessions)
@archive_options
@json_option
@color_option
def tree(*, session: str, options: CommonOptions, as_json: bool, color: str) -> None:
    r"""Show the outline of a session: turns, branches and agents.

    \b
    bygones tree last
    bygones tree 5e551000 --json

    SESSION is an id or its first characters, "last", the id of a record, or a result
    number of the last search (default: last). Each turn has its number, tool calls,
    duration, tokens and cost; each branch has the totals after its fork. Each agent run has
    its id: `bygones show SESSION/AGENT` shows it. `bygones fork SESSION:TURN` continues
    from a turn.
    """
    console = Console.for_stdout(color)
    with open_current(options) as archive:
        found, _ = load_named_session(archive, session)
        prices = load_user_prices_or_warn()
        pricer = prices.compute_cost if prices else None
        if as_json:
            print_objects(
                TreeLineObject.from_line(found.id, line)
                for line in iter_tree_lines(found, pricer)
            )
            return
        rows = _tree_rows(found, console, pricer)
        colored = console.style.is_colored
        console.print_lines(style_spans(spans, is_colored=colored) for spans in rows)


def _tree_rows(
    session: Session, console: Console, pricer: UsagePricer | None
) -> Iterator[StyledLine]:
    cost = pricer(session.message_usages) if pricer else None
    header = build_conversation_header(session)
    live = next(branch for branch in header.branches if branch.is_live)
    yield from render_header(header, live, None, console.width, cost=cost)
    yield ()
    for mark in iter_tree_lines(session, pricer):
        yield render_tree_line(mark, console.width, None)
