"""`bygones help`: the help pages, and the query language."""

from __future__ import annotations

import os
import sys
from difflib import get_close_matches

import click

from bygones.cli.commands.registry import COMMANDS, CommandSpec
from bygones.cli.context import complete_topics, json_option
from bygones.cli.help_page import help_page
from bygones.cli.output import output_width, print_objects, print_paged
from bygones.schema.commands import HelpObject

__all__ = ["show_help"]

_MAX_WIDTH = 100


_QUERY_TOPIC = CommandSpec("query", "", "The query language of search and list.")


@click.command("help")
@click.argument("topic", required=False, shell_complete=complete_topics)
@json_option
@click.pass_context
def show_help(context: click.Context, topic: str | None, *, as_json: bool) -> None:
    r"""Show the help page of a command, or the query language.

    \b
    bygones help list
    bygones help query
    bygones help --json
    """
    known = {
        name: row
        for row in (*COMMANDS, _QUERY_TOPIC)
        for name in (row.name, *row.aliases)
    }
    if topic is not None and topic not in known:
        close = get_close_matches(topic, known, n=2)
        meant = f"; did you mean {' or '.join(close)}?" if close else ""
        raise click.UsageError(f"there is no help page for {topic!r}{meant}")
    if as_json:
        page = _help_page(context, topic) if topic is not None else ""
        print_objects(
            HelpObject(topic=spec.name, summary=spec.summary, page=page)
            for spec in (
                (*COMMANDS, _QUERY_TOPIC) if topic is None else (known[topic],)
            )
        )
        return
    lines = _help_page(context, topic).rstrip("\n").split("\n")
    print_paged(lines, is_terminal=sys.stdout.isatty())


def _help_page(context: click.Context, topic: str | None) -> str:
    if topic == _QUERY_TOPIC.name:
        from bygones.query.fields import format_query_help

        return format_query_help(min(output_width(sys.stdout, os.environ), _MAX_WIDTH))
    above = context.parent or context
    group = above.command
    if topic is None or not isinstance(group, click.Group):
        return above.get_help()
    command = group.get_command(above, topic) or group
    return help_page(click.Context(command, info_name=command.name, parent=above))
