"""`bygones show`: a session of the archive, or of transcript files."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
from msgspec.structs import replace

from bygones.cli.context import (
    EMPTY_PATH_MESSAGE,
    CommonOptions,
    archive_options,
    color_option,
    complete_branches,
    complete_names_or_paths,
    json_option,
)
from bygones.cli.output import Console, print_objects, style_spans
from bygones.cli.resolve import (
    check_record_on_branch,
    choose_branch,
    choose_session,
    find_search_result,
    load_named_session,
)
from bygones.errors import (
    ArchiveNotFound,
    NotATranscript,
    NotInArchive,
    PathNotFound,
)
from bygones.model.base import Position
from bygones.model.nodes import parse_user_text
from bygones.model.query import Part
from bygones.model.sessions import agent_run_as_session
from bygones.reader import read_sessions
from bygones.render.text.primitives import sanitize_json
from bygones.render.text.session import TextOptions, render_lines
from bygones.render.walk import SessionView, find_message_before, find_message_index
from bygones.render.walk import trim_around_record as window
from bygones.schema.sessions import session_objects

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bygones.model.sessions import Session
    from bygones.model.summary import IndexedRecord, SessionSummary
    from bygones.model.usage import Cost


_MESSAGES_BEFORE = 2
_MESSAGES_AFTER = 10
"""Messages that are shown before a hit and after it."""


class ShownSession(NamedTuple):
    """A session, and how it was named."""

    session: Session
    record: IndexedRecord | None = None
    hit_part: Part | None = None
    """What the record is, if it was named as a hit of the last search."""
    summary: SessionSummary | None = None
    """What the archive lists about the session."""
    cost: Cost | None = None


def view_around_hit(shown: ShownSession, view: SessionView) -> SessionView:
    """Return a view of the messages around a hit, in which the hit is visible."""
    record, hit = shown.record, shown.hit_part
    if record is None or hit is None:
        return view
    names = {str(record.id), *([str(record.agent_id)] if record.agent_id else [])}
    at = find_message_index(shown.session, view.branch, names)
    if at is None:
        at = find_message_before(shown.session, view.branch, record.position)
    if at is None:
        return view
    return replace(
        view,
        first_message=max(at - _MESSAGES_BEFORE, 0),
        stop_message=at + _MESSAGES_AFTER,
        include_agents=view.include_agents or bool(record.agent_id),
        include_thinking=view.include_thinking or hit is Part.THINKING,
        include_tools=view.include_tools or hit in {Part.TOOL, Part.RESULT},
    )


def end_at_summary(
    session: Session, view: SessionView, name: str
) -> tuple[Session, SessionView]:
    """Let the view end at a record with a summary, if that is what was named."""
    named = tuple(one for one in session.summaries if one.leaf_id.startswith(name))
    if len(named) != 1:
        return session, view
    at = find_message_index(session, view.branch, {named[0].leaf_id})
    if at is None:
        return session, view
    return replace(session, summaries=named), replace(view, stop_message=at + 1)


def enter_hidden_run(shown: ShownSession) -> ShownSession:
    """Return the agent run of a record as the session, if the session hides it."""
    record = shown.record
    for run in shown.session.all_agents if record else ():
        if record and run.id == record.agent_id and not run.kind.is_shown:
            return shown._replace(session=agent_run_as_session(shown.session, run))
    return shown


@contextmanager
def open_named_session(
    name: str, session: str | None, options: CommonOptions, *, priced: bool = False
) -> Iterator[ShownSession]:
    """Open the named session, and the record by which it was named.

    It can be read until the context ends. With `priced` its cost is computed.
    """
    if not name.strip():
        raise click.UsageError(EMPTY_PATH_MESSAGE)
    path = Path(name)
    if session is not None or os.path.lexists(path) or path.name != name:
        path = path.expanduser()
        chosen = choose_session(read_sessions(path), session)
        if path.is_file() and not any(_record_positions(chosen)):
            raise NotATranscript(path)
        yield ShownSession(chosen, cost=_compute_cost(chosen) if priced else None)
        return
    from bygones.cli.open_archive import load_session_costs, open_current

    try:
        archive = open_current(options)
    except ArchiveNotFound as error:
        if options.archive is not None or not path.suffix:
            raise
        raise PathNotFound(path) from error
    with archive:
        result = find_search_result(name, archive)
        loaded, record = load_named_session(archive, name)
        summary = archive.session_summary(loaded.id)
        cost = load_session_costs(archive, [summary]).get(loaded.id) if priced else None
        hit_part = result.part if result else None
        yield enter_hidden_run(ShownSession(loaded, record, hit_part, summary, cost))


def _compute_cost(session: Session) -> Cost | None:
    from bygones.cli.open_archive import load_user_prices_or_warn

    prices = load_user_prices_or_warn()
    return prices.compute_cost(session.message_usages) if prices else None


def print_raw(shown: ShownSession, around: str | None, *, is_terminal: bool) -> None:
    """Print the original lines; for a terminal, control characters are escaped."""
    record = shown.record if around is None else None
    lines = [record.raw] if record else _raw_lines(shown.session, around)
    for line in lines:
        if is_terminal or not hasattr(sys.stdout, "buffer"):
            sys.stdout.write(sanitize_json(line.decode("utf-8", "replace")) + "\n")
        else:
            sys.stdout.buffer.write(line + b"\n")


def _raw_lines(session: Session, record: str | None) -> Iterator[bytes]:
    """Yield the original lines of a session, or that of one record."""
    places = _record_positions(session)
    if record is not None:
        places = {place: id_ for place, id_ in places.items() if id_ == record}
        if not places:
            raise NotInArchive("record", record)
    for place in sorted(places):
        yield session.loader.read_raw(place)


def _record_positions(session: Session) -> dict[Position, str | None]:
    """Return the positions of all records of a session with their ids."""
    places: dict[Position, str | None] = {}
    for hidden in session.hidden_records:
        places[hidden.position] = hidden.record_id
    branches = (*session.branches, *(b for a in session.all_agents for b in a.branches))
    for branch in branches:
        for turn in branch.own_turns:
            for message in turn.messages:
                pieces = (*message.record_refs, *message.attached_refs)
                for piece in pieces:
                    places[piece.position] = piece.record_id
                for call in message.tool_calls:
                    if call.result_position is not None:
                        places[call.result_position] = call.result_record_id
    return places


@click.command("show")
@click.argument(
    "name",
    metavar="[SESSION|PATH]",
    default="last",
    shell_complete=complete_names_or_paths,
)
@click.argument("session", required=False)
@click.option(
    "--branch",
    metavar="NUMBER|LEAF",
    shell_complete=complete_branches,
    show_default="the live branch",
    help="Show this branch: its number, the id of a record on it, or the record that a "
    "summary ends with.",
)
@click.option(
    "--around",
    metavar="UUID",
    help="Show only the turn of this record and its neighbors.",
)
@click.option(
    "--agents", is_flag=True, help="Show complete agent runs, where they were called."
)
@click.option(
    "--all", "everything", is_flag=True, help="Show all branches and agent runs."
)
@click.option("--thinking", is_flag=True, help="Show thinking.")
@click.option(
    "--tools", is_flag=True, help="Show tool calls with complete input and output."
)
@click.option(
    "--raw", is_flag=True, help="Print the original lines; with --around, only one."
)
@archive_options
@json_option
@color_option
def show(  # noqa: PLR0913 (one parameter per option)
    *,
    name: str,
    session: str | None,
    branch: str | None,
    around: str | None,
    agents: bool,
    everything: bool,
    thinking: bool,
    tools: bool,
    raw: bool,
    options: CommonOptions,
    as_json: bool,
    color: str,
) -> None:
    r"""Show a session: prompts, replies, tool calls and results.

    \b
    bygones show last
    bygones show 5e551000 --tools
    bygones show ~/.claude 5e55
    bygones show transcript.jsonl --json

    SESSION is an id or its first characters, "last", or a result number of the last
    search: 2 is the second session, 2.1 its first hit with the turns around it. With the
    id of a record, the branch that contains it is shown.

    PATH is a transcript, a folder of transcripts or a Claude Code home. It is read
    directly, without the archive. If it contains several sessions, name one with the
    second argument (default: the newest).
    """
    console = Console.for_stdout(color)
    with open_named_session(name, session, options, priced=as_json) as shown:
        found, record = shown.session, shown.record
        if raw:
            print_raw(shown, around, is_terminal=console.is_terminal)
            return
        # Messages of agents are on no branch of the session itself.
        known = record.id if record and found.find_branch(record.id) else None
        view = SessionView(
            branch=choose_branch(found, branch, around or known),
            include_branches=everything,
            include_agents=agents or everything,
            include_thinking=thinking,
            include_tools=tools,
        )
        if branch:
            found, view = end_at_summary(found, view, branch)
        if around:
            check_record_on_branch(found, view.branch, around)
        part = window(found, view.branch, around) if around else found
        view = view if around else view_around_hit(shown, view)
        if as_json:
            _print_json(part, view, shown)
        else:
            _print_session(part, view, console)


def _print_json(session: Session, view: SessionView, shown: ShownSession) -> None:
    print_objects(
        session_objects(
            session, view, parse_user_text, summary=shown.summary, cost=shown.cost
        )
    )


def _print_session(session: Session, view: SessionView, console: Console) -> None:
    page = TextOptions(width=console.width, zone=None, text_parser=parse_user_text)
    colored = console.style.is_colored
    console.print_lines(
        style_spans(row, is_colored=colored)
        for row in render_lines(session, view, page)
    )
