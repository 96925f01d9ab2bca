"""`bygones show`: a session of the archive, or of transcript files."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct
from msgspec.structs import replace

from bygones.cli.context import (
    FROM_PICKER,
    LAST,
    CommonOptions,
    archive_options,
    color_option,
    complete_branches,
    complete_names_or_paths,
    json_option,
    parse_query_words,
)
from bygones.cli.landing import (
    FocusedLines,
    can_land,
    find_landing_line,
    highlight,
    view_around_record,
    without_focus,
)
from bygones.cli.named_session import (
    ShownSession,
    open_named_session,
    record_positions,
)
from bygones.cli.output import (
    Console,
    PagerMode,
    output_width,
    print_objects,
    style_spans,
)
from bygones.cli.picker.choose import pick_session, query_option, wants_picker
from bygones.cli.resolve import check_record_on_branch, choose_branch
from bygones.errors import NotInArchive
from bygones.model.assembled import AssembledConversation, find_branch_of
from bygones.model.nodes import parse_user_text
from bygones.render.locate import (
    find_message_index,
    view_turns_around,
)
from bygones.render.text.primitives import sanitize_json
from bygones.render.text.session import (
    MarkdownRenderer,
    TextOptions,
    render_focused_lines,
)
from bygones.render.walk import SessionView
from bygones.schema.sessions import session_objects

if TYPE_CHECKING:
    from bygones.model.conversations import Conversation
    from bygones.model.query import Query
    from bygones.model.sessions import Session


class ShowRequest(Struct, frozen=True, kw_only=True):
    """The options of `show`."""

    name: str | None
    session: str | None
    pick_query: str | None
    find: str | None
    branch: str | None
    around: str | None
    agents: bool
    everything: bool
    thinking: bool
    tools: bool
    raw: bool
    last_reply: bool
    code: int | None
    diff: bool
    as_json: bool


def end_at_summary(
    conversation: Conversation, view: SessionView, name: str
) -> tuple[Conversation, SessionView]:
    """Let the view end at a record with a summary, if that is what was named."""
    summaries = conversation.facts.summaries
    named = tuple(one for one in summaries if one.leaf_id.startswith(name))
    if len(named) != 1:
        return conversation, view
    at = find_message_index(conversation, view.branch, {named[0].leaf_id})
    if at is None:
        return conversation, view
    session = replace(conversation.load_session(), summaries=named)
    return AssembledConversation(session), replace(view, stop_message=at + 1)


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
    places = record_positions(session)
    if record is not None:
        places = {place: id_ for place, id_ in places.items() if id_ == record}
        if not places:
            raise NotInArchive("record", record)
    for place in sorted(places):
        yield session.loader.read_raw(place)


@click.command("show")
@click.argument(
    "name",
    metavar="[SESSION|PATH]",
    required=False,
    shell_complete=complete_names_or_paths,
)
@click.argument("session", required=False)
@query_option
@click.option(
    "--find", metavar="QUERY", help="Start at the best match, and highlight matches."
)
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
@click.option(
    "--last-reply",
    is_flag=True,
    help="Print only Claude's last reply, in its original Markdown.",
)
@click.option("--last-answer", "last_reply", is_flag=True, hidden=True)
@click.option(
    "--code",
    type=int,
    metavar="N",
    help="Print only code block N of the last reply, or of the named record.",
)
@click.option(
    "--diff", is_flag=True, help="Print only what the branch changed, as a diff."
)
@archive_options
@json_option
@color_option
def show(
    *,
    options: CommonOptions,
    as_json: bool,
    color: str,
    **fields: Any,  # noqa: ANN401 (the fields of ShowRequest)
) -> None:
    r"""Show a session: prompts, replies, tool calls and results.

    \b
    bygones show last
    bygones show 2.1
    bygones show last --last-reply
    bygones show 5e551000 --tools
    bygones show ~/.claude 5e55
    bygones show transcript.jsonl --json

    SESSION is an id or its first characters, "last", or a result number of the last
    search: 2 is the second session, 2.1 its first hit, at which the pager starts.
    SESSION/AGENT is an agent run, with the id that `bygones tree` prints. With the id of
    a record, the branch or the agent run that contains it is shown. Without a name you
    pick a session; in a pipe, the last one is used.

    PATH is a transcript, a folder of transcripts or a Claude Code home. It is read
    directly, without the archive. If it contains several sessions, name one with the
    second argument (default: the newest).
    """
    request = ShowRequest(as_json=as_json, **fields)
    if request.session is None and wants_picker(
        request.name, request.pick_query, as_json=as_json or request.raw
    ):
        text = request.pick_query or ""
        picked = pick_session(options, "show", text=text, color=color)
        find = request.find or picked.query
        request = replace(request, name=picked.session_id, find=find)
    name = LAST if request.name is None else request.name
    console = Console.for_stdout(color)
    with open_named_session(name, request.session, options, priced=as_json) as shown:
        if request.raw:
            print_raw(shown, request.around, is_terminal=console.is_terminal)
        elif request.find:
            _show(_find_best_hit(shown, request.find), request, console)
        else:
            _show(shown, request, console)


def _show(shown: ShownSession, request: ShowRequest, console: Console) -> None:
    found, record = shown.conversation, shown.record
    # Messages of agents are on no branch of the session itself.
    known = record.id if record and find_branch_of(found, record.id) else None
    view = SessionView(
        branch=choose_branch(found, request.branch, request.around or known),
        include_branches=request.everything,
        include_agents=request.agents or request.everything,
        include_thinking=request.thinking,
        include_tools=request.tools,
    )
    if request.last_reply or request.code is not None or request.diff:
        _print_part(shown, request, view.branch, console)
        return
    if request.branch:
        found, view = end_at_summary(found, view, request.branch)
    if request.around:
        check_record_on_branch(found, view.branch, request.around)
        view = view_turns_around(found, view, request.around)
    elif _lands_on_record(shown, console):
        is_paged = console.is_terminal and can_land() and not request.as_json
        view = view_around_record(shown, view, is_paged=is_paged)
    if request.as_json:
        _print_json(found, view, shown)
    else:
        _print_session(found, view, console, shown)


def _print_part(
    shown: ShownSession, request: ShowRequest, number: int, console: Console
) -> None:
    """Print an answer, a code block or a diff, and nothing else."""
    from bygones.cli.copying import code_block, print_text, reply_text

    branch = next(one for one in shown.session.branches if one.number == number)
    if request.diff:
        from bygones.cli.commands.diff import diff_session, print_diffs

        if shown.archive is None or shown.run_id is not None:
            raise click.UsageError("--diff needs a session of the archive")
        print_diffs(diff_session(shown.archive, shown.session, branch), console)
        return
    record = str(shown.record.id) if shown.record else None
    text = reply_text(branch, None if request.last_reply else record)
    if request.code is not None:
        text = code_block(text, request.code)
    print_text(text, is_terminal=console.is_terminal)


def _lands_on_record(shown: ShownSession, console: Console) -> bool:
    """Whether only what is around the record is shown, or the pager starts there.

    In a pipe the id of a record means all of its branch, except in an agent run.
    """
    if shown.record is None:
        return False
    is_part = shown.hit_part is not None or shown.run_id == shown.record.agent_id
    return is_part or (console.is_terminal and can_land())


def _find_best_hit(shown: ShownSession, find: str) -> ShownSession:
    """Return the session with the record that matches best, unless one was named."""
    archive = shown.archive
    if archive is None:
        raise click.UsageError("--find needs a session of the archive")
    shown = shown._replace(query=find)
    if shown.record is not None:
        return shown
    query = limit_to_session(parse_query_words([find]), shown.conversation.facts.id)
    matches = archive.search(query, limit=1, hits_per_session=1).sessions
    hits = [hit for match in matches for hit in match.hits if hit.record_id]
    if not hits:
        sys.stderr.write("note: nothing was found in this session\n")
        return shown
    record = archive.record(hits[0].record_id)
    return shown._replace(record=record, hit_part=hits[0].part)


def limit_to_session(query: Query, session_id: str) -> Query:
    """Return a query that only finds one session."""
    from bygones.model.query import FieldValue
    from bygones.query.parser import and_terms

    terms = [] if query.root is None else [query.root]
    terms.append(FieldValue("session", session_id))
    return replace(query, root=and_terms(terms))


def _print_json(
    conversation: Conversation, view: SessionView, shown: ShownSession
) -> None:
    print_objects(
        session_objects(
            conversation, view, parse_user_text, summary=shown.summary, cost=shown.cost
        )
    )


def _markdown_renderer() -> MarkdownRenderer:
    # Only needed on a terminal, and slow to import.
    from bygones.render.text.markdown_text import render_markdown_lines

    return render_markdown_lines


def _print_session(
    conversation: Conversation,
    view: SessionView,
    console: Console,
    shown: ShownSession,
) -> None:
    colored = console.style.is_colored
    # With --color always the pipe leads to a terminal, such as a preview of fzf.
    width = output_width(sys.stdout, os.environ) if colored else console.width
    page = TextOptions(
        width=width,
        zone=None,
        text_parser=parse_user_text,
        markdown=_markdown_renderer() if colored else None,
        cost=shown.cost,
    )
    lines: FocusedLines = render_focused_lines(conversation, view, page)
    if shown.archive is not None and shown.query and colored:
        positions = shown.archive.match_positions(
            parse_query_words([shown.query]), shown.conversation.facts.id
        )
        lines = highlight(lines, shown.archive, positions)
    first_line, rows = 1, iter(without_focus(lines))
    if view.focus and console.is_terminal and can_land():
        first_line, rows = find_landing_line(lines)
    is_from_picker = bool(click.get_current_context().meta.get(FROM_PICKER))
    console.print_lines(
        (style_spans(row, is_colored=colored) for row in rows),
        PagerMode(first_line, is_from_picker),
    )
