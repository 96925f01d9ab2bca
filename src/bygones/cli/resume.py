"""``bygones resume``: go on with a session in Claude Code."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bygones.cli.naming import LAST, session_line
from bygones.cli.options import (
    Asked,
    archive_options,
    complete_sessions,
    json_option,
    shown_path,
)
from bygones.cli.rows import BeginRow, ResumeRow, print_row
from bygones.cli.terminal import plain
from bygones.errors import ResumeRefused

if TYPE_CHECKING:
    from bygones.archive import Archive
    from bygones.model.listing import Listed

__all__ = ["resume"]

_HOME = "CLAUDE_CONFIG_DIR"


@click.command("resume")
@click.argument("session", default=LAST, shell_complete=complete_sessions)
@click.option("--run", is_flag=True, help="Run it, in the right directory.")
@archive_options
@json_option
def resume(*, session: str, run: bool, asked: Asked, as_json: bool) -> None:
    r"""Say how to go on with a session in Claude Code, or do so.

    If Claude Code has deleted the transcript, it is restored first, byte for byte:
    by --run, or by the command that is printed. SESSION is an id, the beginning of
    one, "last", or a number of the last search.

    \b
    bygones resume last --run
    eval "$(bygones resume 5e551000)"
    """
    with asked.current() as archive:
        one = session_line(archive, session)
        way = _way(archive, one)
        if run:
            _restore(archive, way)
    if as_json:
        print_row(BeginRow.of("resume", asked.folder))
        print_row(way)
    elif not run:
        click.echo(_command(way, asked))
    if run:
        _run(way)


def _way(archive: Archive, one: Listed) -> ResumeRow:
    kept = archive.sources(sessions=[one.id])
    own = [k for k in kept if k.kind.is_transcript and k.agent is None]
    # The newest copy is the one that goes on; Claude Code looks for it by directory.
    own.sort(key=lambda k: (k.session == one.id, k.mtime_ns), reverse=True)
    home = own[0].home if own else ""
    return ResumeRow(
        session=one.id,
        directory=one.project,
        home=home if Path(home) != Path.home() / ".claude" else None,
        is_deleted=bool(own) and not os.path.lexists(own[0].id),
    )


def _restore(archive: Archive, way: ResumeRow) -> None:
    if not way.is_deleted:
        return
    plans = archive.plan_restore(archive.sources(sessions=[way.session]))
    done = archive.restore(plans)
    sys.stderr.write(f"restored {done.written:,} of the session's files\n")


def _command(way: ResumeRow, asked: Asked) -> str:
    steps = []
    if way.is_deleted:
        where = ["--archive", str(asked.archive)] if asked.archive else []
        steps.append(shlex.join(["bygones", "restore", *where, way.session]))
    if way.directory is not None:
        steps.append(shlex.join(["cd", way.directory]))
    home = f"{_HOME}={shlex.quote(way.home)} " if way.home else ""
    steps.append(home + shlex.join(["claude", "--resume", way.session]))
    return plain(" && ".join(steps))


def _run(way: ResumeRow) -> None:
    program = shutil.which("claude")
    if program is None:
        raise ResumeRefused("it is not installed, or not found")
    if way.directory is None or not Path(way.directory).is_dir():
        raise ResumeRefused(f"{way.directory} is not there any more")
    sys.stderr.write(
        plain(
            f"claude --resume {way.session}, in {shown_path(way.directory)}\n".rstrip()
        )
        + "\n"
    )
    surroundings = {**os.environ, **({_HOME: way.home} if way.home else {})}
    words = [program, "--resume", way.session]
    done = subprocess.run(words, cwd=way.directory, env=surroundings, check=False)  # noqa: S603 (as asked)
    raise click.exceptions.Exit(done.returncode)
