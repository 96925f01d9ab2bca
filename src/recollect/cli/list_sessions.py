"""``recollect list``: the sessions in the archive, newest first."""

from __future__ import annotations

import sys
from itertools import islice
from typing import TYPE_CHECKING

import click

from recollect.cli.costing import costs
from recollect.cli.excluding import QueryCommand, typed_words
from recollect.cli.options import (
    Asked,
    archive_options,
    colour_option,
    complete_projects,
    iso_option,
    json_option,
)
from recollect.cli.screen import Screen
from recollect.cli.session_table import SessionTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from recollect.model.ids import SessionId
    from recollect.model.listing import Listed
    from recollect.model.usage import Cost

__all__ = ["list_sessions"]

_PAGE = 20


@click.command("list", cls=QueryCommand)
@click.argument("query", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--project",
    metavar="PATH|NAME",
    shell_complete=complete_projects,
    help="Only sessions of this project; a dot for that of this folder.",
)
@click.option("--starred", is_flag=True, help="Only sessions that have a star.")
@click.option("--all", "empty", is_flag=True, help="Also sessions without a message.")
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(min=1),
    help=f"How many; {_PAGE} on a terminal, else all.",
)
@iso_option
@archive_options
@json_option
@colour_option
def list_sessions(  # noqa: PLR0913 (one parameter an option, all by name)
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
    r"""List sessions, newest first.

    QUERY is in the language of searches, such as model:opus after:2w; see "recollect
    help query". MSGS counts prompts, and all messages on the live branch; AGENTS and
    BRANCHES are blank where there is nothing but the session itself. In a pipe
    nothing is cut to a width. A session without a title is called by the first 200
    signs of its prompt, which "recollect prompts --full" has whole.

    \b
    recollect list --project . -n 50
    recollect list model:opus after:2w
    recollect list --json | jq -r 'select(.agents > 3) | .id'
    """
    screen = Screen.of(colour, iso=iso)
    is_page = limit is None and screen.on_terminal and not as_json
    if is_page:
        limit = _PAGE
    with asked.current() as archive:
        path = None
        if project is not None:
            from recollect.cli.naming import project_named  # noqa: PLC0415 (if asked)

            path = project_named(archive, project).path
        found: Iterable[Listed] = archive.sessions(project=path, empty=empty)
        if query:
            from recollect.cli.filtering import filtered  # noqa: PLC0415 (if asked for)

            found = filtered(archive, found, typed_words(query))
        chosen = (one for one in found if one.is_starred or not starred)
        sessions = list(islice(chosen, limit))
        spent = costs(archive, sessions)
    if as_json:
        _print_rows(sessions, spent, asked)
        return
    if sessions:
        screen.show(SessionTable(screen, spent).lines(sessions))
    else:
        sys.stderr.write("no session\n" if query or starred else "no sessions yet\n")
    if is_page and len(sessions) == limit:
        sys.stderr.write(f"the newest {limit}; -n shows more\n")


def _print_rows(
    sessions: Iterable[Listed], spent: Mapping[SessionId, Cost], asked: Asked
) -> None:
    from recollect.cli.rows import BeginRow, SessionRow, print_row  # noqa: PLC0415

    print_row(BeginRow.of("list", asked.folder))
    for one in sessions:
        print_row(SessionRow.of(one, spent.get(one.id)))
