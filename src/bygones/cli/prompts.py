"""``bygones prompts``: everything that was ever typed."""

from __future__ import annotations

import sys
from itertools import islice

import click

from bygones.cli.excluding import QueryCommand, typed_words
from bygones.cli.filtering import read_query
from bygones.cli.naming import project_named
from bygones.cli.options import (
    Asked,
    archive_options,
    colour_option,
    complete_projects,
    complete_query,
    iso_option,
    json_option,
)
from bygones.cli.prompt_lines import found_prompts, prompt_lines, typed_row
from bygones.cli.rows import BeginRow, print_row
from bygones.cli.screen import Screen

__all__ = ["prompts"]

_PAGE = 20


@click.command("prompts", cls=QueryCommand)
@click.argument(
    "query", nargs=-1, type=click.UNPROCESSED, shell_complete=complete_query
)
@click.option(
    "--project",
    metavar="PATH|NAME",
    shell_complete=complete_projects,
    help="Only prompts of this project; a dot for that of this folder.",
)
@click.option("--full", is_flag=True, help="Print prompts whole, not a line of each.")
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
def prompts(  # noqa: PLR0913 (one parameter an option, all by name)
    *,
    query: tuple[str, ...],
    project: str | None,
    full: bool,
    limit: int | None,
    iso: bool,
    asked: Asked,
    as_json: bool,
    colour: str,
) -> None:
    r"""List what you typed, in all sessions, newest first.

    QUERY is in the language of searches: words, "phrases", project:, after: and the
    like; see "bygones help query". What was rewound is there too.

    \b
    bygones prompts refactor project:web after:2w
    bygones prompts --project . -n 50
    bygones prompts --full --json branch:live
    """
    screen = Screen.of(colour, iso=iso)
    is_page = limit is None and screen.on_terminal and not as_json
    if is_page:
        limit = _PAGE
    wanted = read_query(typed_words(query))
    with asked.current() as archive:
        path = project_named(archive, project).path if project is not None else None
        lines = {one.id: one for one in archive.sessions(project=path, empty=True)}
        found = found_prompts(archive, lines, wanted)
        found = islice(found, limit and min(limit, sys.maxsize))
        if as_json:
            print_row(BeginRow.of("prompts", asked.folder))
            for prompt in found:
                print_row(typed_row(prompt, lines[prompt.session]))
            return
        shown = list(found)
    if not shown and not asked.quiet:
        sys.stderr.write("no prompts\n")
    times = max((len(screen.when(prompt.time)) for prompt in shown), default=0)
    screen.show(
        line
        for prompt in shown
        for line in prompt_lines(prompt, screen, full=full, times=times)
    )
    if is_page and len(shown) == limit and not asked.quiet:
        sys.stderr.write(f"the newest {limit}; -n shows more\n")
