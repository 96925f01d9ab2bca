"""``recollect help``: help pages, and the language of searches."""

from __future__ import annotations

import os
import sys

import click

from recollect.cli.paging import page_out
from recollect.cli.terminal import columns

__all__ = ["help_about"]

_WIDEST = 100


@click.command("help")
@click.argument("topic", required=False)
@click.pass_context
def help_about(context: click.Context, topic: str | None) -> None:
    r"""Show the help page of a command, or what a query can be.

    \b
    recollect help list
    recollect help query
    """
    if topic == "query":
        from recollect.query import help_text  # noqa: PLC0415 (only if asked for)

        text = help_text(min(columns(sys.stdout, os.environ), _WIDEST))
    else:
        text = _page(context, topic)
    page_out(text.rstrip("\n").split("\n"), on_terminal=sys.stdout.isatty())


def _page(context: click.Context, topic: str | None) -> str:
    above = context.parent
    if above is None or topic is None:
        return (above or context).get_help()
    group = above.command
    if not isinstance(group, click.Group):
        raise click.UsageError(f"there is no help about {topic}")
    name, command, _ = group.resolve_command(above, [topic])
    if command is None:
        raise click.UsageError(f"there is no help about {topic}")
    return click.Context(command, info_name=name, parent=above).get_help()
