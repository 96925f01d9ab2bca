"""``recollect show``: a session as it was, readable in a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from recollect.cli.choose import chosen_branch, chosen_session
from recollect.cli.styles import painted
from recollect.cli.terminal import Colour, columns, has_colour
from recollect.model.sessions import Session
from recollect.parse import read_text
from recollect.reading import read
from recollect.render.json import encoded, json_rows
from recollect.render.plain import Page, rows
from recollect.render.walk import View

__all__ = ["show"]


@click.command("show")
@click.argument("path", metavar="PATH|SESSION", type=click.Path(path_type=Path))
@click.argument("session", required=False)
@click.option(
    "--branch",
    metavar="NUMBER|LEAF",
    help="Follow another branch: its number, or the id of a record on it.",
)
@click.option("--agents", is_flag=True, help="Show agent runs whole, where called.")
@click.option(
    "--all", "everything", is_flag=True, help="Show every branch and agent, in place."
)
@click.option("--thinking", is_flag=True, help="Show Claude's reasoning.")
@click.option("--tools", is_flag=True, help="Show calls with all input and output.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@click.option(
    "--color",
    "colour",
    type=click.Choice([choice.value for choice in Colour]),
    default=Colour.AUTO.value,
    show_default=True,
    help="When to use colour; NO_COLOR is honoured.",
)
@click.option(
    "--archive",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Where the archive is; else RECOLLECT_ARCHIVE, else the user's own place.",
)
def show(  # noqa: PLR0913 (one parameter an option, all by name)
    *,
    path: Path,
    session: str | None,
    branch: str | None,
    agents: bool,
    everything: bool,
    thinking: bool,
    tools: bool,
    as_json: bool,
    colour: str,
    archive: Path | None,
) -> None:
    r"""Show a session: prompts, answers, calls and how they ended.

    SESSION alone is the id of a session in the archive or the beginning of its id; the
    uuid of a record shows the branch that it is on. PATH is a transcript, a folder of
    transcripts or a Claude Code home, which is read without any archive. Where it
    holds several sessions, SESSION is one of them; without it, the newest is shown.

    \b
    recollect show 5e551000
    recollect show ~/.claude
    recollect show ~/.claude 5e55 --tools
    recollect show transcript.jsonl --json
    """
    with _found(path, session, archive) as (found, record):
        view = View(
            branch=chosen_branch(found, branch or record),
            branches=everything,
            agents=agents or everything,
            thinking=thinking,
            tools=tools,
        )
        if as_json:
            for line in json_rows(found, view, read_text):
                sys.stdout.write(f"{encoded(line)}\n")
            return
        page = Page(
            width=columns(sys.stdout, os.environ) if sys.stdout.isatty() else None,
            zone=None,
            teller=read_text,
        )
        coloured = has_colour(Colour(colour), sys.stdout, os.environ)
        for row in rows(found, view, page):
            sys.stdout.write(f"{painted(row, coloured=coloured)}\n")


@contextmanager
def _found(
    path: Path, session: str | None, archive: Path | None
) -> Iterator[tuple[Session, str | None]]:
    """Give the session that is meant, and the record by which it was found."""
    if session is not None or os.path.lexists(path) or path.name != str(path):
        yield chosen_session(read(path), session), None
        return
    # Whoever names a file need not wait for the archive's engines.
    from recollect.cli.naming import archived_session  # noqa: PLC0415

    with archived_session(str(path), archive) as found:
        yield found
