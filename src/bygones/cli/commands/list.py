"""`bygones list`: the sessions, newest first."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

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
    print_selection_notes,
    print_tag_notes,
    project_option,
    query_argument,
    unescape_words,
)
from bygones.cli.open_archive import load_session_costs, open_current
from bygones.cli.output import (
    Console,
    TextColumn,
    TextTable,
    print_objects,
    project_name,
    short_session_id,
)
from bygones.render.numbers import (
    format_age,
    format_cost,
    format_tokens,
    short_model_name,
)
from bygones.render.text.primitives import sanitize_line, truncate_end

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bygones.archive import Archive
    from bygones.model.base import SessionId
    from bygones.model.summary import SessionSummary
    from bygones.model.usage import Cost


TERMINAL_LIMIT = 20
"""Sessions or prompts that are shown on a terminal by default."""
_MIN_TITLE_WIDTH = 32
"""The width that titles need before columns are left out."""
_MIN_WIDTH_FOR_AGE = 44
"""A terminal of this width has room for ages, even if titles are short then."""
_MAX_COLUMN_WIDTH = 20


class SessionTable(NamedTuple):
    """The table of sessions that `list` and `bygones` without a command print."""

    console: Console
    costs: Mapping[SessionId, Cost] = {}

    def lines(self, sessions: Sequence[SessionSummary]) -> list[str]:
        formatted = [
            (column, [sanitize_line(format_cell(summary)) for summary in sessions])
            for column, format_cell in self._columns()
        ]
        shown = [(column, cells) for column, cells in formatted if any(cells)]
        table = TextTable(
            [column for column, _ in shown],
            list(zip(*(cells for _, cells in shown), strict=True)),
            width=self.console.width,
            min_rest_width=_MIN_TITLE_WIDTH,
        )
        titles = ["TITLE", *map(_title_cell, sessions)]
        if self.console.width is not None:
            room = max(table.rest_width, 1)
            titles = [truncate_end(title, room) for title in titles]
        style = self.console.style
        lines = [style.dim("  ".join((*table.padded_cells(0), titles[0])))]
        for row, title in enumerate(titles[1:], 1):
            id_, *cells = table.padded_cells(row)
            lines.append("  ".join((style.location(id_), *cells, style.heading(title))))
        return lines

    def _columns(self) -> Iterable[tuple[TextColumn, Callable[[SessionSummary], str]]]:
        width = self.console.width
        has_room = not self.console.is_iso and (
            not width or width >= _MIN_WIDTH_FOR_AGE
        )
        yield TextColumn("SESSION"), lambda summary: short_session_id(summary.id)
        yield (
            TextColumn("WHEN", drop_order=0 if has_room else 1),
            lambda summary: self.console.format_time(summary.ended_at),
        )
        yield (
            TextColumn("PROJECT", drop_order=2, max_width=_MAX_COLUMN_WIDTH),
            project_name,
        )
        yield TextColumn("PERSON", drop_order=3), lambda summary: summary.person
        yield (
            TextColumn("PROMPTS/MSGS", is_right_aligned=True, drop_order=4),
            _messages_cell,
        )
        yield (
            TextColumn("AGENTS", is_right_aligned=True, drop_order=5),
            lambda summary: _count_cell(summary.agent_count),
        )
        yield (
            TextColumn("BRANCHES", is_right_aligned=True, drop_order=6),
            lambda summary: _count_cell(summary.branch_count, hidden_up_to=1),
        )
        yield (
            TextColumn("MODEL", drop_order=7, max_width=_MAX_COLUMN_WIDTH),
            _models_cell,
        )
        yield TextColumn("TOKENS", is_right_aligned=True, drop_order=8), _tokens_cell
        yield TextColumn("COST", is_right_aligned=True, drop_order=3), self._cost_cell

    def _cost_cell(self, session: SessionSummary) -> str:
        return format_cost(self.costs.get(session.id)) if session.usage.total else ""


def _title_cell(session: SessionSummary) -> str:
    star = "★ " if session.is_starred else ""
    tags = "".join(f" #{tag}" for tag in session.tags)
    reason = f" ({session.empty_reason})" if session.empty_reason else ""
    return sanitize_line(f"{star}{session.title.text}{reason}{tags}")


def _count_cell(number: int, hidden_up_to: int = 0) -> str:
    return f"{number:,}" if number > hidden_up_to else ""


def _messages_cell(session: SessionSummary) -> str:
    return f"{session.prompt_count}/{session.message_count}"


def _tokens_cell(session: SessionSummary) -> str:
    return format_tokens(session.usage.total) if session.usage.total else ""


def _models_cell(session: SessionSummary) -> str:
    names = [short_model_name(model) for model in session.models]
    return f"{names[0]} +{len(names) - 1}" if len(names) > 1 else "".join(names)


@click.command("list", cls=QueryCommand)
@query_argument
@project_option("sessions")
@click.option("--starred", is_flag=True, help="Only starred sessions.")
@click.option(
    "--all", "include_empty", is_flag=True, help="Include sessions without messages."
)
@click.option(
    "--fzf",
    "as_tabs",
    is_flag=True,
    help="Print id, time, project and title, separated by tabs, for fzf.",
)
@limit_option("sessions", TERMINAL_LIMIT)
@iso_option
@archive_options
@json_option
@color_option
def list_sessions(  # noqa: PLR0913 (one parameter per option)
    *,
    query: tuple[str, ...],
    project: str | None,
    starred: bool,
    include_empty: bool,
    as_tabs: bool,
    limit: int | None,
    iso: bool,
    options: CommonOptions,
    as_json: bool,
    color: str,
) -> None:
    r"""List sessions, newest first.

    \b
    bygones list --project . -n 50
    bygones list model:opus after:2w
    bygones list --json | jq -r .session_id
    bygones list --fzf | fzf --with-nth 2..

    QUERY filters sessions, for example model:opus after:2w; see `bygones help query`.

    PROMPTS/MSGS are the numbers of prompts and of all messages on the live branch. A session
    without a title is listed by the start of its first prompt. Text is shortened to the
    width of the terminal, but not in a pipe.
    """
    console = Console.for_stdout(color, iso=iso)
    if as_tabs and as_json:
        raise click.UsageError("use --fzf or --json, not both")
    is_page = limit is None and console.is_terminal and not (as_json or as_tabs)
    if is_page:
        limit = TERMINAL_LIMIT
    with open_current(options) as archive:
        found = _select(
            archive,
            unescape_words(query),
            project=project,
            starred=starred,
            include_empty=include_empty,
        )
        most = limit and min(limit, sys.maxsize - 1)
        sessions = list(islice(found, most and most + 1))
        has_more = most is not None and len(sessions) > most
        sessions = sessions[:most]
        if as_tabs:
            sys.stdout.writelines(_tabbed_line(one, console) for one in sessions)
            return
        spent = load_session_costs(archive, sessions)
    if as_json:
        print_sessions_json(sessions, spent)
        return
    if sessions:
        console.print_lines(SessionTable(console, spent).lines(sessions))
    elif not options.quiet:
        sys.stderr.write(
            "no sessions found\n" if query or starred else "no sessions yet\n"
        )
    if is_page and has_more and not options.quiet:
        sys.stderr.write(f"the newest {limit}; -n shows more\n")


def _tabbed_line(session: SessionSummary, console: Console) -> str:
    cells = (
        str(session.id),
        format_age(session.ended_at, console.now),
        project_name(session),
        _title_cell(session),
    )
    return "\t".join(map(sanitize_line, cells)) + "\n"


def _select(
    archive: Archive,
    words: Sequence[str],
    *,
    project: str | None,
    starred: bool,
    include_empty: bool,
) -> Iterable[SessionSummary]:
    if project is not None:
        from bygones.cli.resolve import resolve_project_scope

        project = resolve_project_scope(archive, project)
    if not words and not starred:
        # Only as many summaries are decoded as are shown.
        return archive.sessions(project=project, include_empty=include_empty)
    from bygones.model.query import FieldValue, Flag, Query
    from bygones.query.parser import and_terms

    query = parse_query_words(words)
    print_tag_notes(archive, query)
    terms = [query.root] if query.root else []
    if starred:
        terms.append(FieldValue("is", Flag.STARRED))
    selection = archive.select(
        Query(and_terms(terms)), project=project, include_empty=include_empty
    )
    print_selection_notes(selection)
    return selection.sessions


def print_sessions_json(
    sessions: Iterable[SessionSummary], costs: Mapping[SessionId, Cost]
) -> None:
    from bygones.schema.summaries import SessionObject

    print_objects(
        SessionObject.from_summary(summary, costs.get(summary.id))
        for summary in sessions
    )
