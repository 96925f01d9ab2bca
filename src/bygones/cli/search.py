"""``bygones search``: find what was said, and where."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from bygones.cli.excluding import QueryCommand, typed_words
from bygones.cli.options import (
    archive_options,
    colour_option,
    complete_query,
    iso_option,
    json_option,
)
from bygones.cli.paging import page_out
from bygones.cli.terminal import columns

__all__ = ["search"]


def _show_language(context: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked:
        from bygones.query import help_text  # noqa: PLC0415 (not for a help page)

        text = help_text(min(columns(sys.stdout, os.environ), 100))
        page_out(text.splitlines(), on_terminal=sys.stdout.isatty())
        context.exit()


@click.command("search", cls=QueryCommand)
@click.argument(
    "words",
    metavar="QUERY...",
    nargs=-1,
    type=click.UNPROCESSED,
    shell_complete=complete_query,
)
@click.option(
    "-n", "--limit", type=click.IntRange(1, 1000), default=10, show_default=True
)
@click.option("--page", type=click.IntRange(1), default=1, help="Show a later page.")
@click.option(
    "--hits", type=click.IntRange(0, 100), default=2, show_default=True,
    help="How many hits of each session.",
)  # fmt: skip
@click.option(
    "--sort", type=click.Choice(["best", "newest", "oldest"]), default="best",
    show_default=True, help="Which sessions come first.",
)  # fmt: skip
@click.option("--explain", is_flag=True, help="Say what each word gave to a session.")
@iso_option
@click.option(
    "--syntax", is_flag=True, is_eager=True, expose_value=False,
    callback=_show_language, help="Tell what can be typed, and exit.",
)  # fmt: skip
@archive_options
@json_option
@colour_option
def search(*, words: tuple[str, ...], **given: Any) -> None:  # noqa: ANN401 (the options)
    r"""Find sessions by what was said, run, read or answered in them.

    Type words as you remember them: not all need to be there, other forms of them
    count, and slips are mended. "Quoted words" stand together, -word excludes, and
    fields narrow: project: tool: file: is:error after:2w; see --syntax.
    Then `bygones show 2` shows the second session, `show 2.1` at its first hit.

    \b
    bygones search why does the login test fail
    bygones search '"reset by peer" tool:Bash after:2w'
    """
    from bygones.cli.searching import search_archive  # noqa: PLC0415 (not for help)

    search_archive(words=typed_words(words), **given)
