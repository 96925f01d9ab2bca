"""``bygones list``: sessions, newest first, in columns that fit the terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

import click

from bygones.cli.context import (
    CommonOptions,
    QueryCommand,
    archive_options,
    color_option,
    complete_projects,
    complete_query,
    iso_option,
    json_option,
    parse_query_words,
    print_selection_notes,
    unescape_words,
)
from bygones.cli.open_archive import load_session_costs, open_current
from bygones.cli.output import Console, print_objects
from bygones.render.numbers import format_cost, format_tokens
from bygones.render.text.primitives import (
    display_width,
    sanitize_line,
    sanitize_name,
    truncate_end,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bygones.archive import Archive
    from bygones.model.base import SessionId
    from bygones.model.summary import SessionSummary
    from bygones.model.usage import Cost


_MIN_TITLE_WIDTH = 32
"""The least room for a title before columns are left out."""
_MAX_COLUMN_WIDTH = 20
_ID_LENGTH = 8
_DATE_SUFFIX = r"-\d{8}$"


class _SessionColumn(NamedTuple):
    name: str
    format: Callable[[SessionSummary], str]
    drop_order: int
    """Columns of a high rank are left out first."""
    is_right_aligned: bool = False


class SessionTable(NamedTuple):
    """How to set a list: for a terminal of some width, or whole."""

    console: Console
    costs: Mapping[SessionId, Cost] = {}

    def lines(self, sessions: Sequence[SessionSummary]) -> list[str]:
        """Return a heading and a line for each session."""
        columns = [
            (column, self._cells(column, sessions)) for column in self._columns()
        ]
        columns = [(c, cells) for c, cells in columns if any(cells[1:])]
        titles = ["TITLE", *(_title_cell(one) for one in sessions)]
        # By its id a session is named: where there is room for little, that stays.
        while columns and self._remaining_width(columns) < (
            _MIN_TITLE_WIDTH if len(columns) > 1 else 1
        ):
            columns.remove(max(columns, key=lambda pair: pair[0].drop_order))
        if self.console.width is not None:
            left = max(self._remaining_width(columns), 1)
            titles = [truncate_end(title, left) for title in titles]
        return [
            self._line(number, columns, titles) for number in range(len(sessions) + 1)
        ]

    def _columns(self) -> tuple[_SessionColumn, ...]:
        return (
            _SessionColumn("SESSION", lambda one: _short_id(one.id), 0),
            _SessionColumn(
                "WHEN", lambda one: self.console.format_time(one.ended_at), 1
            ),
            _SessionColumn("PROJECT", lambda one: _project_name(one.project), 2),
            _SessionColumn("MSGS", _messages_cell, 4, is_right_aligned=True),
            _SessionColumn(
                "AGENTS",
                lambda one: _count_cell(one.agent_count),
                5,
                is_right_aligned=True,
            ),
            _SessionColumn(
                "BRANCHES",
                lambda one: _count_cell(one.branch_count, 1),
                6,
                is_right_aligned=True,
            ),
            _SessionColumn("MODEL", _models_cell, 7),
            _SessionColumn("TOKENS", _tokens_cell, 8, is_right_aligned=True),
            _SessionColumn("COST", self._cost, 3, is_right_aligned=True),
        )

    def _cost(self, session: SessionSummary) -> str:
        return format_cost(self.costs.get(session.id)) if session.usage.total else ""

    def _cells(
        self, column: _SessionColumn, sessions: Sequence[SessionSummary]
    ) -> list[str]:
        cells = [column.name, *(sanitize_line(column.format(one)) for one in sessions)]
        if self.console.width is None or column.name not in {"PROJECT", "MODEL"}:
            return cells
        return [truncate_end(cell, _MAX_COLUMN_WIDTH) for cell in cells]

    def _remaining_width(
        self, columns: Sequence[tuple[_SessionColumn, list[str]]]
    ) -> int:
        if self.console.width is None:
            return _MIN_TITLE_WIDTH
        return self.console.width - sum(
            max(map(display_width, cells)) + 2 for _, cells in columns
        )

    def _line(
        self,
        number: int,
        columns: Sequence[tuple[_SessionColumn, list[str]]],
        titles: Sequence[str],
    ) -> str:
        parts = []
        for column, cells in columns:
            blank = " " * (
                max(map(display_width, cells)) - display_width(cells[number])
            )
            cell = cells[number]
            parts.append(blank + cell if column.is_right_aligned else cell + blank)
        line = "  ".join((*parts, titles[number]))
        if number == 0:
            return self.console.style.dim(line)
        parts[:1] = map(self.console.style.location, parts[:1])
        return "  ".join((*parts, self.console.style.heading(titles[number])))


def _title_cell(session: SessionSummary) -> str:
    star = "★ " if session.is_starred else ""
    tags = "".join(f" #{tag}" for tag in session.tags)
    return sanitize_line(f"{star}{session.title.text}{tags}")


def _short_id(id_: str) -> str:
    return sanitize_name(id_[:_ID_LENGTH])


def _project_name(path: str | None) -> str:
    return PurePosixPath(path.replace("\\", "/")).name or path if path else ""


def _count_cell(number: int, hidden_up_to: int = 0) -> str:
    return f"{number:,}" if number > hidden_up_to else ""


def _messages_cell(session: SessionSummary) -> str:
    return f"{session.prompt_count}/{session.message_count}"


def _tokens_cell(session: SessionSummary) -> str:
    return format_tokens(session.usage.total) if session.usage.total else ""


def _models_cell(session: SessionSummary) -> str:
    names = [short_model_name(model) for model in session.models]
    return f"{names[0]} +{len(names) - 1}" if len(names) > 1 else "".join(names)


def short_model_name(model: str) -> str:
    """Return a model's name without what all of them have."""
    return re.sub(_DATE_SUFFIX, "", model.removeprefix("claude-"))


_TERMINAL_LIMIT = 20
"""Sessions that are shown on a terminal unless somebody wants more."""


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
@click.option(
    "--all", "include_empty", is_flag=True, help="Also sessions without a message."
)
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(min=1),
    help=f"How many; {_TERMINAL_LIMIT} on a terminal, else all.",
)
@iso_option
@archive_options
@json_option
@color_option
def list_sessions(  # noqa: PLR0913 (one parameter an option, all by name)
    *,
    query: tuple[str, ...],
    project: str | None,
    starred: bool,
    include_empty: bool,
    limit: int | None,
    iso: bool,
    options: CommonOptions,
    as_json: bool,
    color: str,
) -> None:
    r"""List sessions, newest first.

    QUERY is in the language of searches, such as model:opus after:2w; see "bygones
    help query". MSGS counts prompts, and all messages on the live branch; AGENTS and
    BRANCHES are blank where there is nothing but the session itself. In a pipe
    nothing is cut to a width. A session without a title is called by the first 200
    signs of its prompt, which "bygones prompts --full" has whole.

    \b
    bygones list --project . -n 50
    bygones list model:opus after:2w
    bygones list --json | jq -r 'select(.agent_count > 3) | .session_id'
    """
    screen = Console.for_stdout(color, iso=iso)
    is_page = limit is None and screen.is_terminal and not as_json
    if is_page:
        limit = _TERMINAL_LIMIT
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
        spent = load_session_costs(archive, sessions)
    if as_json:
        print_sessions_json(sessions, spent)
        return
    if sessions:
        screen.print_lines(SessionTable(screen, spent).lines(sessions))
    elif not options.quiet:
        sys.stderr.write("no session\n" if query or starred else "no sessions yet\n")
    if is_page and has_more and not options.quiet:
        sys.stderr.write(f"the newest {limit}; -n shows more\n")


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
