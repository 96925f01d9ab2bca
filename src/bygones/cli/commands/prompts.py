"""`bygones prompts`: the prompts of all sessions."""

from __future__ import annotations

import sys
from itertools import islice
from typing import TYPE_CHECKING

import click

from bygones.cli.context import (
    CommonOptions,
    QueryCommand,
    archive_options,
    color_option,
    iso_option,
    json_option,
    limit_option,
    parse_query_words,
    project_option,
    query_argument,
    unescape_words,
)
from bygones.cli.open_archive import open_current
from bygones.cli.output import Console, print_objects
from bygones.cli.resolve import resolve_project_scope
from bygones.render.numbers import pluralize
from bygones.render.text.primitives import (
    sanitize,
    sanitize_line,
    truncate_end,
    wrap_line,
)
from bygones.schema.summaries import PromptObject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bygones.model.summary import IndexedPrompt


def format_prompt(
    prompt: IndexedPrompt, console: Console, *, full: bool, time_width: int = 0
) -> Iterator[str]:
    """Yield the lines of a whole prompt, or one line with its start."""
    name = sanitize_line(prompt.other_session_id or prompt.session_id)[:8]
    suffix = "  (abandoned)" if prompt.is_abandoned else ""
    when = console.format_time(prompt.sent_at).ljust(0 if full else time_width)
    head = f"{console.style.location(name)}  {when}{suffix}"
    if full:
        yield console.style.dim(head) if not console.style.is_colored else head
        for line in sanitize(prompt.text).splitlines():
            width = console.width - 2 if console.width else None
            yield from (
                f"  {part}" for part in (wrap_line(line, width) if width else [line])
            )
        if prompt.is_text_cut:
            yield console.style.dim("  (the rest could not be loaded)")
        yield ""
        return
    text = sanitize_line(prompt.text)
    if console.width is not None:
        plain_head = f"{name}  {when}{suffix}  "
        text = truncate_end(text, console.width - len(plain_head))
    yield f"{head}  {text}"


def _count_cut(prompts: Iterator[IndexedPrompt]) -> Iterator[IndexedPrompt]:
    """Yield prompts, and at the end print how many of them are not whole."""
    count = 0
    for prompt in prompts:
        count += prompt.is_text_cut
        yield prompt
    if count:
        sys.stderr.write(
            f"note: only the start of {pluralize(count, 'prompt')} could be loaded;"
            " `bygones verify` checks the archive for damage\n"
        )


_TERMINAL_LIMIT = 20


@click.command("prompts", cls=QueryCommand)
@query_argument
@project_option("prompts")
@click.option(
    "--full", is_flag=True, help="Print whole prompts instead of one line each."
)
@limit_option("prompts", _TERMINAL_LIMIT)
@iso_option
@archive_options
@json_option
@color_option
def prompts(  # noqa: PLR0913 (one parameter per option)
    *,
    query: tuple[str, ...],
    project: str | None,
    full: bool,
    limit: int | None,
    iso: bool,
    options: CommonOptions,
    as_json: bool,
    color: str,
) -> None:
    r"""List the prompts you typed, newest first.

    \b
    bygones prompts refactor project:web after:2w
    bygones prompts --project . -n 50
    bygones prompts --full --json branch:live

    QUERY filters prompts with words, "phrases" and fields; see `bygones help query`.
    Prompts on abandoned branches are included.
    """
    console = Console.for_stdout(color, iso=iso)
    is_page = limit is None and console.is_terminal and not as_json
    if is_page:
        limit = _TERMINAL_LIMIT
    wanted = parse_query_words(unescape_words(query))
    with open_current(options) as archive:
        found = archive.prompts(wanted, project=resolve_project_scope(archive, project))
        found = _count_cut(islice(found, limit and min(limit, sys.maxsize)))
        if as_json:
            projects = {
                summary.id: summary.project
                for summary in archive.sessions(include_empty=True)
            }
            print_objects(
                PromptObject.from_prompt(prompt, projects[prompt.session_id])
                for prompt in found
            )
            return
        shown = list(found)
    if not shown and not options.quiet:
        sys.stderr.write("no prompts\n")
    times = max(
        (len(console.format_time(prompt.sent_at)) for prompt in shown), default=0
    )
    console.print_lines(
        line
        for prompt in shown
        for line in format_prompt(prompt, console, full=full, time_width=times)
    )
    if is_page and len(shown) == limit and not options.quiet:
        sys.stderr.write(f"the newest {limit}; -n shows more\n")
