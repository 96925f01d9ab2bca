"""``bygones show``: a session as it was, readable in a terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from bygones.cli.choose import check_around, chosen_branch
from bygones.cli.options import (
    Asked,
    archive_options,
    colour_option,
    complete_branches,
    complete_places,
    json_option,
)
from bygones.cli.screen import Screen
from bygones.cli.shown import at_hit, found_session, print_raw
from bygones.cli.styles import painted
from bygones.parse import read_text
from bygones.render.encode import encoded
from bygones.render.json import json_rows
from bygones.render.plain import Page, rows
from bygones.render.walk import View
from bygones.render.window import around as window

if TYPE_CHECKING:
    from bygones.model.sessions import Session

__all__ = ["show"]


@click.command("show")
@click.argument(
    "name", metavar="SESSION|PATH", default="last", shell_complete=complete_places
)
@click.argument("session", required=False)
@click.option(
    "--branch",
    metavar="NUMBER|LEAF",
    shell_complete=complete_branches,
    help="Follow another branch: its number, or the id of a record on it.",
)
@click.option(
    "--around",
    metavar="UUID",
    help="Show only the turn in which this record stands, and those beside it.",
)
@click.option("--agents", is_flag=True, help="Show agent runs whole, where called.")
@click.option(
    "--all", "everything", is_flag=True, help="Show every branch and agent, in place."
)
@click.option("--thinking", is_flag=True, help="Show Claude's reasoning.")
@click.option("--tools", is_flag=True, help="Show calls with all input and output.")
@click.option("--raw", is_flag=True, help="Print the original lines, or that of UUID.")
@archive_options
@json_option
@colour_option
def show(  # noqa: PLR0913 (one parameter an option, all by name)
    *,
    name: str,
    session: str | None,
    branch: str | None,
    around: str | None,
    agents: bool,
    everything: bool,
    thinking: bool,
    tools: bool,
    raw: bool,
    asked: Asked,
    as_json: bool,
    colour: str,
) -> None:
    r"""Show a session: prompts, answers, calls and how they ended.

    SESSION is the id of a session in the archive, the beginning of one, or "last"; 2 is
    the second of the last search, 2.1 its first hit with what stands around it. The
    uuid of a record shows the branch that it is on. PATH is a transcript, a folder
    of transcripts or a Claude Code home, which is read without any archive; where it
    holds several sessions, the second word is one of them, else the newest is shown.

    \b
    bygones show last
    bygones show 5e551000 --tools
    bygones show ~/.claude 5e55
    bygones show transcript.jsonl --json
    """
    screen = Screen.of(colour)
    with found_session(name, session, asked) as shown:
        found, record, _ = shown
        if raw:
            print_raw(shown, around, on_terminal=screen.on_terminal)
            return
        # What an agent said is on no branch of the session itself.
        known = record.id if record and record.branch is not None else None
        view = View(
            branch=chosen_branch(found, branch, around or known),
            branches=everything,
            agents=agents or everything,
            thinking=thinking,
            tools=tools,
        )
        if around:
            check_around(found, view.branch, around)
        part = window(found, view.branch, around) if around else found
        view = view if around else at_hit(shown, view)
        if as_json:
            for row in json_rows(part, view, read_text):
                sys.stdout.write(f"{encoded(row)}\n")
            return
        _show(part, view, screen)


def _show(session: Session, view: View, screen: Screen) -> None:
    page = Page(width=screen.room, zone=None, teller=read_text)
    coloured = screen.paint.coloured
    screen.show(painted(row, coloured=coloured) for row in rows(session, view, page))
