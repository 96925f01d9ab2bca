"""``recollect search``: find what was said, and where."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime

import click

from recollect.cli.excluding import QueryCommand, typed_words
from recollect.cli.options import (
    Asked,
    archive_options,
    colour_option,
    iso_option,
    json_option,
)
from recollect.cli.terminal import Colour, Paint, columns, has_colour, plain

__all__ = ["search"]


def _show_language(context: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked:
        from recollect.query import help_text  # noqa: PLC0415 (not for a help page)

        width = columns(sys.stdout, os.environ)
        click.echo(help_text(min(width, 100)), nl=False)
        context.exit()


@click.command("search", cls=QueryCommand)
@click.argument("words", metavar="QUERY...", nargs=-1, type=click.UNPROCESSED)
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
def search(  # noqa: PLR0913 (one parameter an option, all by name)
    *,
    words: tuple[str, ...],
    limit: int,
    page: int,
    hits: int,
    sort: str,
    explain: bool,
    iso: bool,
    asked: Asked,
    as_json: bool,
    colour: str,
) -> None:
    r"""Find sessions by what was said, run, read or answered in them.

    Type words as you remember them: not all need to be there, other forms of them
    count, and slips are mended. "Quoted words" stand together, -word excludes, and
    fields narrow: project: tool: file: is:error after:2w; see --syntax.
    Then `recollect show 2` shows the second session, `show 2.1` at its first hit.

    \b
    recollect search why does the login test fail
    recollect search '"reset by peer" tool:Bash after:2w'
    """
    # Nobody who asks for help need wait for the engines.
    from recollect.cli.filtering import query_text  # noqa: PLC0415
    from recollect.cli.lately import remember  # noqa: PLC0415
    from recollect.cli.search_page import SearchPage  # noqa: PLC0415
    from recollect.cli.search_remarks import answer_remarks  # noqa: PLC0415
    from recollect.query.parse import parse  # noqa: PLC0415

    now = datetime.now(UTC)  # noqa: TID251 (a face knows the clock)
    text = query_text(typed_words(words))
    query = parse(text, now=now, zone=now.astimezone().tzinfo or UTC)
    offset = (page - 1) * limit
    with asked.current() as archived:
        found = archived.search(query, limit=limit, offset=offset, hits=hits, sort=sort)
        folder = archived.folder
    remember(folder, found, offset)
    if as_json:
        from recollect.cli.search_rows import print_found  # noqa: PLC0415

        print_found(text, found, folder, offset)
        return
    on_screen = sys.stdout.isatty()
    setting = SearchPage(
        now=now,
        is_iso=iso or not on_screen,
        room=columns(sys.stdout, os.environ) if on_screen else None,
        paint=Paint(coloured=has_colour(Colour(colour), sys.stdout)),
        first=offset + 1,
        explains=explain,
    )
    for line in setting.lines(found):
        click.echo(line, color=True)
    for line in answer_remarks(found, offset):
        sys.stderr.write(f"{plain(line)}\n")
