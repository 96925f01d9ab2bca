"""``bygones help``: help pages, and the language of searches."""

from __future__ import annotations

import os
import sys
from difflib import get_close_matches

import click

from bygones.cli.options import complete_topics, json_option
from bygones.cli.paging import page_out
from bygones.cli.rows import BeginRow, print_row
from bygones.cli.table import COMMANDS, CommandRow
from bygones.cli.terminal import columns
from bygones.rows.made import HelpRow

__all__ = ["help_about"]

_WIDEST = 100


_QUERY = CommandRow("query", "", "What can be typed to search and to list.")


@click.command("help")
@click.argument("topic", required=False, shell_complete=complete_topics)
@json_option
@click.pass_context
def help_about(context: click.Context, topic: str | None, *, as_json: bool) -> None:
    r"""Show the help page of a command, or what a query can be.

    \b
    bygones help list
    bygones help query
    bygones help --json
    """
    known = {row.name: row for row in (*COMMANDS, _QUERY)}
    if topic is not None and topic not in known:
        close = get_close_matches(topic, known, n=2)
        meant = f"; did you mean {' or '.join(close)}?" if close else ""
        raise click.UsageError(f"there is no help about {topic!r}{meant}")
    if as_json:
        print_row(BeginRow.of("help"))
        for row in known.values() if topic is None else (known[topic],):
            page = _page(context, topic) if topic is not None else ""
            print_row(HelpRow(topic=row.name, summary=row.summary, page=page))
        return
    lines = _page(context, topic).rstrip("\n").split("\n")
    page_out(lines, on_terminal=sys.stdout.isatty())


def _page(context: click.Context, topic: str | None) -> str:
    if topic == _QUERY.name:
        from bygones.query import help_text  # noqa: PLC0415 (only if asked for)

        return help_text(min(columns(sys.stdout, os.environ), _WIDEST))
    above = context.parent or context
    group = above.command
    if topic is None or not isinstance(group, click.Group):
        return above.get_help()
    command = group.get_command(above, topic) or group
    return click.Context(command, info_name=topic, parent=above).get_help()
