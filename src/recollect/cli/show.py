"""``recollect show``: a session as it was, readable in a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from recollect.cli.choose import chosen_branch, chosen_session
from recollect.cli.naming import session_named
from recollect.cli.options import Asked, archive_options, colour_option, json_option
from recollect.cli.styles import painted
from recollect.cli.terminal import Colour, columns, has_colour
from recollect.errors import ArchiveMissing, PathMissing
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
@json_option
@colour_option
@archive_options
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
    asked: Asked,
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
    with _found(path, session, asked) as (found, record):
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
    path: Path, session: str | None, asked: Asked
) -> Iterator[tuple[Session, str | None]]:
    """Give the session that is meant, and the record by which it was found."""
    if session is not None or os.path.lexists(path) or path.name != str(path):
        yield chosen_session(read(path), session), None
        return
    try:
        archive = asked.current()
    except ArchiveMissing as error:
        if asked.archive is not None:
            raise
        raise PathMissing(path) from error
    with archive:
        yield session_named(archive, str(path))
