"""`bygones resume`: continue a session in Claude Code."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bygones.cli.context import (
    CommonOptions,
    archive_options,
    complete_sessions,
    json_option,
)
from bygones.cli.open_archive import open_current
from bygones.cli.output import display_path, print_objects
from bygones.cli.picker.choose import choose_session_name, query_option
from bygones.cli.resolve import resolve_summary
from bygones.errors import ClaudeNotFound, ProjectDirectoryGone
from bygones.maintenance.restore import default_home
from bygones.model.machines import is_on_this_machine
from bygones.render.text.primitives import sanitize_name
from bygones.schema.commands import ResumeObject

if TYPE_CHECKING:
    from bygones.archive import Archive
    from bygones.model.base import SessionId
from bygones.model.summary import SessionSummary

__all__ = ["resume"]

_HOME_VARIABLE = "CLAUDE_CONFIG_DIR"


@click.command("resume")
@click.argument("session", required=False, shell_complete=complete_sessions)
@query_option
@click.option(
    "--run", is_flag=True, help="Start Claude Code in the directory of the session."
)
@archive_options
@json_option
def resume(
    *,
    session: str | None,
    pick_query: str | None,
    run: bool,
    options: CommonOptions,
    as_json: bool,
) -> None:
    r"""Continue a session in Claude Code.

    \b
    bygones resume --run
    bygones resume last --run
    eval "$(bygones resume 5e551000)"

    Without --run, the command that continues the session is printed. SESSION is an id or
    its first characters, "last", or a result number of the last search. Without it you
    pick one; in a pipe, the last one is used.
    If Claude Code has deleted the transcript, it is restored first, byte for byte.
    `bygones fork` continues it elsewhere, or from an earlier turn.
    """
    name = choose_session_name(session, pick_query, options, "resume", as_json=as_json)
    with open_current(options) as archive:
        one = resolve_summary(archive, name)
        plan = _plan_resume(archive, one)
        if plan.is_deleted:
            archive.check_transcript(one.id)  # it is restored first
        if not as_json:
            check_directory_or_loss(archive, plan.directory, one.id)
        if run:
            _restore_files(archive, plan)
    if as_json:
        print_objects([plan])
    elif not run:
        click.echo(shell_command(plan, options))
    if run:
        run_claude(plan)


def _plan_resume(archive: Archive, session: SessionSummary) -> ResumeObject:
    archive.check_continuable(session.id)
    kept = archive.sources(sessions=[session.id])
    own = [k for k in kept if k.kind.is_transcript and k.agent is None]
    # The newest copy is continued; Claude Code finds it by directory.
    own.sort(
        key=lambda k: (k.session == session.id, os.path.lexists(k.id), k.mtime_ns),
        reverse=True,
    )
    home = own[0].home if own else ""
    if own and not is_on_this_machine(own[0].home):
        home = str(default_home())
    return ResumeObject(
        session_id=session.id,
        directory=session.project,
        home=home_variable(home),
        is_deleted=bool(own) and not os.path.lexists(own[0].id),
    )


def home_variable(home: str) -> str | None:
    """Return the value of `CLAUDE_CONFIG_DIR` for a home, if it needs one."""
    return home if Path(home) != Path.home() / ".claude" else None


def check_directory(directory: str | None, session_id: str) -> str:
    """Return the directory of a session, or raise `ProjectDirectoryGone`."""
    if directory is None or not Path(directory).expanduser().is_dir():
        raise ProjectDirectoryGone(directory or "its directory", session_id)
    return directory


def check_directory_or_loss(
    archive: Archive, directory: str | None, session_id: SessionId
) -> None:
    """Raise an error if the directory of a session is gone.

    If the transcript is damaged, that is the error: it may be why no directory is known,
    and then the session can't be continued elsewhere either.
    """
    try:
        check_directory(directory, session_id)
    except ProjectDirectoryGone:
        archive.check_transcript(session_id)
        raise


def _restore_files(archive: Archive, plan: ResumeObject) -> None:
    if not plan.is_deleted:
        return
    plans = archive.plan_restore(archive.sources(sessions=[plan.session_id]))
    done = archive.restore(plans)
    sys.stderr.write(f"restored {done.written:,} of the session's files\n")


def shell_command(plan: ResumeObject, options: CommonOptions | None = None) -> str:
    """Return the command line that continues a session."""
    steps = []
    if plan.is_deleted:
        archive = options.archive if options else None
        where = ["--archive", str(archive)] if archive else []
        steps.append(shlex.join(["bygones", "restore", *where, plan.session_id]))
    if plan.directory is not None:
        steps.append(shlex.join(["cd", plan.directory]))
    steps.append(
        _variable_prefix(plan) + shlex.join(["claude", "--resume", plan.session_id])
    )
    return sanitize_name(" && ".join(steps))


def _variable_prefix(plan: ResumeObject) -> str:
    if plan.home:
        return f"{_HOME_VARIABLE}={shlex.quote(plan.home)} "
    return f"env -u {_HOME_VARIABLE} " if _HOME_VARIABLE in os.environ else ""


def run_claude(plan: ResumeObject) -> None:
    """Run Claude Code in the directory of a session, and exit as it does."""
    program = shutil.which("claude")
    if program is None:
        raise ClaudeNotFound
    directory = check_directory(plan.directory, plan.session_id)
    environ = {name: os.environ[name] for name in os.environ if name != _HOME_VARIABLE}
    if plan.home:
        environ[_HOME_VARIABLE] = plan.home
    if environ.get(_HOME_VARIABLE) != os.environ.get(_HOME_VARIABLE):
        sys.stderr.writelines(
            f"{sanitize_name(line)}\n" for line in _explain_home(plan)
        )
    where = display_path(directory)
    started = f"claude --resume {plan.session_id}, in {where}"
    sys.stderr.write(f"{sanitize_name(started)}\n")
    command = [program, "--resume", plan.session_id]
    done = subprocess.run(command, cwd=directory, env=environ, check=False)  # noqa: S603 (as asked)
    raise click.exceptions.Exit(done.returncode)


def _explain_home(plan: ResumeObject) -> tuple[str, ...]:
    """Return what differs because Claude Code runs with another home."""
    if plan.home is None:
        return (f"the session is in ~/.claude, so {_HOME_VARIABLE} is not set for it",)
    home = display_path(plan.home)
    return (
        f"the session is in another home: {_HOME_VARIABLE} is set to {home}",
        "Claude Code uses the sign-in, settings, plugins and history of that home",
        "and writes there; it may ask you to sign in and to trust the directory",
        f"with your own settings: bygones restore {plan.session_id} --to ~/.claude",
    )
