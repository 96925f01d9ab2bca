"""``recollect prompts``: everything that was ever typed."""

from __future__ import annotations

import sys
from itertools import islice
from typing import TYPE_CHECKING

import click

from recollect.cli.excluding import QueryCommand, typed_words
from recollect.cli.filtering import read_query
from recollect.cli.options import (
    Asked,
    archive_options,
    colour_option,
    iso_option,
    json_option,
)
from recollect.cli.rows import BeginRow, TypedRow, print_row
from recollect.cli.screen import Screen
from recollect.cli.terminal import fit_right
from recollect.model.parts import Role
from recollect.model.query import Part, Query
from recollect.query import Subject, matches
from recollect.render.safe import safe, safe_line
from recollect.render.widths import wrap

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from recollect.archive import Archive
    from recollect.model.finds import FoundPrompt
    from recollect.model.ids import SessionId
    from recollect.model.listing import Listed

__all__ = ["prompts"]

_PAGE = 20


@click.command("prompts", cls=QueryCommand)
@click.argument("query", nargs=-1, type=click.UNPROCESSED)
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
    full: bool,
    limit: int | None,
    iso: bool,
    asked: Asked,
    as_json: bool,
    colour: str,
) -> None:
    r"""List what you typed, in all sessions, newest first.

    QUERY is in the language of searches: words, "phrases", project:, after: and the
    like; see "recollect help query". What was rewound is there too.

    \b
    recollect prompts refactor project:web after:2w
    recollect prompts --full --json branch:live
    """
    screen = Screen.of(colour, iso=iso)
    is_page = limit is None and screen.on_terminal and not as_json
    if is_page:
        limit = _PAGE
    wanted = read_query(typed_words(query))
    with asked.current() as archive:
        lines = {one.id: one for one in archive.sessions(empty=True)}
        found = islice(_found(archive, lines, wanted), limit)
        if as_json:
            print_row(BeginRow.of("prompts", asked.folder))
            for prompt in found:
                print_row(_row(prompt, lines.get(prompt.session)))
            return
        shown = list(found)
    if not shown:
        sys.stderr.write("no prompts\n")
    screen.show(line for prompt in shown for line in _lines(prompt, screen, full=full))
    if is_page and len(shown) == limit:
        sys.stderr.write(f"the newest {limit}; -n shows more\n")


def _found(
    archive: Archive, lines: Mapping[SessionId, Listed], wanted: Query
) -> Iterator[FoundPrompt]:
    if wanted.root is None:
        yield from archive.prompts()
        return
    from recollect.store.search import stem_of  # noqa: PLC0415 (brings the engine)
    from recollect.store.words import terms_of  # noqa: PLC0415

    for prompt in archive.prompts():
        subject = _subject(prompt, lines.get(prompt.session))
        if matches(wanted, subject, terms_of, stem_of):
            yield prompt


def _subject(prompt: FoundPrompt, line: Listed | None) -> Subject:
    return Subject(
        session=prompt.session,
        project=line.project if line else None,
        title=line.title.text if line else "",
        models=line.models if line else (),
        git_branches=line.git_branches if line else (),
        entrypoints=line.entrypoints if line else (),
        tags=line.tags if line else (),
        started=line.started if line else None,
        role=Role.USER,
        part=Part.PROMPT,
        is_rewound=prompt.branch != 0,
        time=prompt.time,
        text=prompt.text,
    )


def _row(prompt: FoundPrompt, line: Listed | None) -> TypedRow:
    return TypedRow(
        id=prompt.id,
        session=prompt.session,
        project=line.project if line else None,
        time=prompt.time,
        branch=prompt.branch,
        text=prompt.text,
    )


def _lines(prompt: FoundPrompt, screen: Screen, *, full: bool) -> Iterator[str]:
    name = safe_line(prompt.session)[:8]
    left = "  (rewound)" if prompt.branch else ""
    head = f"{screen.paint.place(name)}  {screen.when(prompt.time)}{left}"
    if full:
        yield screen.paint.faint(head) if not screen.paint.coloured else head
        for line in safe(prompt.text).splitlines():
            room = screen.room - 2 if screen.room else None
            yield from (f"  {part}" for part in (wrap(line, room) if room else [line]))
        yield ""
        return
    text = safe_line(prompt.text)
    if screen.room is not None:
        plain_head = f"{name}  {screen.when(prompt.time)}{left}  "
        text = fit_right(text, max(screen.room - len(plain_head), 20))
    yield f"{head}  {text}"
