"""`bygones fork`: continue a session from any turn, on any branch."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bygones.cli.commands.resume import (
    check_directory_or_loss,
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
from bygones.cli.picker.choose import choose_session_name, query_option
from bygones.cli.resolve import choose_branch, load_named_session
from bygones.errors import NothingToFork
from bygones.files.checkout import Checkout, check_out_folder, check_out_worktree
from bygones.maintenance.fork_path import ForkPoint
from bygones.model.sessions import Branch, Session
from bygones.render.numbers import pluralize
from bygones.render.text.primitives import sanitize_name
from bygones.schema.commands import ForkObject, ResumeObject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bygones.archive import Archive
    from bygones.maintenance.fork import ForkedSession
    from bygones.model.summary import IndexedRecord


__all__ = ["fork"]

_WORKTREE = "worktree"
_MAX_LISTED = 5


@click.command("fork")
@click.argument(
    "name",
    metavar="[SESSION[:TURN]]",
    required=False,
    shell_complete=complete_sessions,
)
@query_option
@click.option(
    "--branch",
    metavar="BRANCH",
    shell_complete=complete_branches,
    show_default="the live branch",
    help="Branch to continue: its number, or the id of a record on it.",
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
@click.option(
    "--files",
    metavar="worktree|FOLDER",
    help="Also write the files as they were to a new git worktree or folder.",
)
@click.option("--run", is_flag=True, help="Start Claude Code with the new session.")
@archive_options
@json_option
def fork(  # noqa: PLR0913 (the options of the command)
    *,
    name: str | None,
    pick_query: str | None,
    branch: str | None,
    through: bool,
    before_compaction: bool,
    directory: Path | None,
    files: str | None,
    run: bool,
    options: CommonOptions,
    as_json: bool,
) -> None:
    r"""Continue a session from any turn, on any branch.

    \b
    bygones fork last:4 --through --branch 2
    bygones fork last --before-compaction --into ~/src/copy
    bygones fork last:7 --files worktree --run

    Writes a new session that ends before TURN (after it with --through), and prints the
    command that continues it. The original is not changed. The new session has the
    messages, agents, long outputs and backups of files up to that point. SESSION is an id
    or its first characters, "last", the id of a record, or a result number of the last
    search; without it, you pick one, or in a pipe the last one is used. TURN counts from 1
    (default: the end of the branch).

    With --files, it continues in a new place with the files as they were at that point: a
    git worktree of the last commit before it, or a folder with only these files.
    """
    name = choose_session_name(name, pick_query, options, "fork", as_json=as_json)
    session_name, turn, leaf = parse_turn_name(name)
    if through and turn is None:
        raise click.UsageError("--through needs a turn, such as last:2")
    if files is not None and not files.strip():
        raise click.UsageError("--files needs a folder, or the word worktree")
    if files is not None and directory is not None:
        raise click.UsageError("use --files or --into, not both")
    with open_current(options) as archive:
        session, record = load_named_session(archive, session_name)
        archive.check_continuable(session.id)
        number = choose_branch(session, leaf or branch, record.id if record else None)
        chosen = next(one for one in session.branches if one.number == number)
        turn = _choose_turn(chosen, turn, record)
        if files is None or files == _WORKTREE:
            _ensure_directory(archive, directory, session)
        point = ForkPoint.find(
            chosen, turn, through=through, before_compaction=before_compaction
        )
        checkout = _check_out(archive, session, point, files) if files else None
        written = archive.fork(
            session.id,
            turn=turn,
            branch=number,
            through=through,
            before_compaction=before_compaction,
            directory=checkout.directory if checkout else directory,
        )
    _report(written, checkout, run=run, as_json=as_json)


def _report(
    written: ForkedSession, checkout: Checkout | None, *, run: bool, as_json: bool
) -> None:
    """Print what was written, and run Claude Code or print how to."""
    if as_json:
        print_objects([_to_object(written)])
    else:
        _print_written(written, checkout)
    if run:
        run_claude(_plan_resume(written))
    elif not as_json:
        click.echo(shell_command(_plan_resume(written)))


def _ensure_directory(
    archive: Archive, directory: Path | None, session: Session
) -> None:
    """Offer to create the chosen directory; raise an error if the project's is gone."""
    if directory is None:
        check_directory_or_loss(archive, session.project, session.id)
        return
    path = directory.expanduser()
    if path.is_dir():
        return
    where = display_path(path)
    if not sys.stdin.isatty():
        command = shlex.join(["mkdir", "-p", str(directory)])
        raise click.UsageError(f"{where} does not exist; create it with `{command}`")
    click.confirm(
        sanitize_name(f"{where} does not exist. Create it?"), abort=True, err=True
    )
    path.mkdir(parents=True)


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


def _check_out(
    archive: Archive, session: Session, point: ForkPoint, where: str
) -> Checkout:
    if point.end == 0:
        raise NothingToFork(session.id)
    if point.continues_turn:
        raise click.UsageError(
            "the turn of the compaction continues after it; use --files with a turn"
        )
    files = archive.file_library.files_at(
        session.id,
        point.turn,
        branch=point.branch.number,
        is_before=point.is_before,
    )
    project = session.project or ""
    if where != _WORKTREE:
        folder = Path(where).expanduser().absolute()
        return check_out_folder(files, project, folder)
    return check_out_worktree(
        files,
        project,
        name=f"{session.id[:8]}-{point.turn + 1}",
        git_branch=session.git_branches[-1] if session.git_branches else None,
        time=point.time,
    )


def _describe_files(checkout: Checkout | None) -> Iterator[str]:
    if checkout is None:
        return
    count = len(checkout.written) + len(checkout.removed)
    start = f" from commit {checkout.commit[:12]}" if checkout.commit else ""
    files = pluralize(count, "file")
    yield f"restored {files}{start}: {display_path(checkout.directory)}"
    for label, names in (
        ("not certain", checkout.uncertain),
        ("not in the project, left out", checkout.outside),
    ):
        if names:
            shown = ", ".join(names[:_MAX_LISTED])
            more = f" and {len(names) - _MAX_LISTED:,} more" * (
                len(names) > _MAX_LISTED
            )
            yield f"{label}: {shown}{more}"


def _plan_resume(written: ForkedSession) -> ResumeObject:
    return ResumeObject(
        session_id=written.session_id,
        directory=written.directory,
        home=home_variable(written.home),
        is_deleted=False,
    )


def _print_written(written: ForkedSession, checkout: Checkout | None) -> None:
    for line in (*_describe_files(checkout), _describe(written)):
        click.echo(sanitize_name(line), err=True)


def _describe(written: ForkedSession) -> str:
    messages = pluralize(written.message_count, "message")
    files = (
        f" and {pluralize(written.file_count, 'other file')}"
        if written.file_count
        else ""
    )
    return f"wrote {messages}{files}: {display_path(written.path)}"


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
