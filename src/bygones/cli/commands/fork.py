"""`bygones fork`: continue a session from any turn, on any branch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bygones.cli.commands.resume import (
    check_directory,
    home_variable,
    run_claude,
    shell_command,
)
from bygones.cli.context import (
    CommonOptions,
    archive_options,
    complete_branches,
    complete_sessions,
    json_option,
    path_type,
)
from bygones.cli.file_names import parse_turn_name
from bygones.cli.open_archive import open_current
from bygones.cli.output import display_path, print_objects
from bygones.cli.resolve import choose_branch, load_named_session
from bygones.render.numbers import pluralize
from bygones.render.text.primitives import sanitize_name
from bygones.schema.commands import ForkObject, ResumeObject

if TYPE_CHECKING:
    from bygones.maintenance.fork import ForkedSession
    from bygones.model.sessions import Branch
    from bygones.model.summary import IndexedRecord


__all__ = ["fork"]


@click.command("fork")
@click.argument(
    "name", metavar="SESSION[:TURN]", default="last", shell_complete=complete_sessions
)
@click.option(
    "--branch",
    metavar="BRANCH",
    shell_complete=complete_branches,
    show_default="the live branch",
    help="Number or leaf of a branch, also of an abandoned one.",
)
@click.option("--through", is_flag=True, help="Include the turn.")
@click.option(
    "--before-compaction", is_flag=True, help="End before the last compaction."
)
@click.option(
    "--into",
    "directory",
    type=path_type(allow_file=False),
    metavar="DIR",
    show_default="that of the session",
    help="Continue in this directory.",
)
@click.option("--run", is_flag=True, help="Start Claude Code with the new session.")
@archive_options
@json_option
def fork(  # noqa: PLR0913 (the options of the command)
    *,
    name: str,
    branch: str | None,
    through: bool,
    before_compaction: bool,
    directory: Path | None,
    run: bool,
    options: CommonOptions,
    as_json: bool,
) -> None:
    r"""Continue a session from any turn, on any branch.

    \b
    bygones fork 5e551000:12 --run
    bygones fork last:4 --through --branch 2
    bygones fork last --before-compaction --into ~/src/copy

    Writes a new session that ends before TURN, or with --through after it, and prints the
    command that continues it in Claude Code. The original is not changed and may be
    deleted. The new session has the messages, agents and long outputs up to that point,
    and the backups of files that `/rewind` restores. SESSION is an id or its first
    characters, "last", the id of a record, or a result number of the last search; TURN is
    a number as in `tree --json` (default: the end of the branch).
    """
    session_name, turn = parse_turn_name(name)
    if through and turn is None:
        raise click.UsageError("--through needs a turn, such as last:2")
    with open_current(options) as archive:
        session, record = load_named_session(archive, session_name)
        number = choose_branch(session, branch, record.id if record else None)
        chosen = next(one for one in session.branches if one.number == number)
        turn = _choose_turn(chosen, turn, record)
        check_directory(str(directory) if directory else session.project)
        written = archive.fork(
            session.id,
            turn=turn,
            branch=number,
            through=through,
            before_compaction=before_compaction,
            directory=directory,
        )
    plan = _plan_resume(written)
    if as_json:
        print_objects([_to_object(written)])
    else:
        click.echo(_describe(written), err=True)
    if run:
        run_claude(plan)
    elif not as_json:
        click.echo(shell_command(plan))


def _choose_turn(
    branch: Branch, number: int | None, record: IndexedRecord | None
) -> int | None:
    count = len(branch.turns)
    if number is not None and number > count:
        turns = pluralize(count, "turn")
        raise click.UsageError(f"there is no turn {number}: the branch has {turns}")
    if number is None and record is not None:
        for place, turn in enumerate(branch.turns, 1):
            if any(record.id in message.record_ids for message in turn.messages):
                return place
    return number


def _plan_resume(written: ForkedSession) -> ResumeObject:
    return ResumeObject(
        session_id=written.session_id,
        directory=written.directory,
        home=home_variable(written.home),
        is_deleted=False,
    )


def _describe(written: ForkedSession) -> str:
    messages = pluralize(written.message_count, "message")
    files = (
        f" and {pluralize(written.file_count, 'other file')}"
        if written.file_count
        else ""
    )
    path = display_path(written.path)
    return sanitize_name(f"wrote {messages}{files}: {path}")


def _to_object(written: ForkedSession) -> ForkObject:
    return ForkObject(
        session_id=written.session_id,
        forked_from=written.forked_from,
        title=written.title,
        path=written.path,
        directory=written.directory,
        home=home_variable(written.home),
        message_count=written.message_count,
        file_count=written.file_count,
    )
