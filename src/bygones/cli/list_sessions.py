"""``bygones list``: the sessions in the archive, newest first."""

from __future__ import annotations

from typing import Any

import click

from bygones.cli.excluding import QueryCommand, typed_words
from bygones.cli.options import (
    archive_options,
    colour_option,
    complete_projects,
    complete_query,
    iso_option,
    json_option,
)

__all__ = ["list_sessions"]

_PAGE = 20


@click.command("list", cls=QueryCommand)
@click.argument(
    "query", nargs=-1, type=click.UNPROCESSED, shell_complete=complete_query
)
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
def list_sessions(*, query: tuple[str, ...], **given: Any) -> None:  # noqa: ANN401 (the options)
    r"""List sessions, newest first.

    QUERY is in the language of searches, such as model:opus after:2w; see "bygones
    help query". MSGS counts prompts, and all messages on the live branch; AGENTS and
    BRANCHES are blank where there is nothing but the session itself. In a pipe
    nothing is cut to a width. A session without a title is called by the first 200
    signs of its prompt, which "bygones prompts --full" has whole.

    \b
    bygones list --project . -n 50
    bygones list model:opus after:2w
    bygones list --json | jq -r 'select(.agents > 3) | .id'
    """
    from bygones.cli.listing import list_archive  # noqa: PLC0415 (not for help)

    list_archive(query=typed_words(query), **given)
