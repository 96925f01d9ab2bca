"""``bygones integrate``: add the tools, hooks and commands to Claude Code."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

import bygones
from bygones.cli.integrate_words import show_changes, tell_change
from bygones.cli.options import json_option
from bygones.cli.rows import BeginRow, print_row
from bygones.mcp.claude import Change, State, carry_out, places_of, plan
from bygones.rows.made import PartRow
from bygones.sources.names import path_text

__all__ = ["integrate"]


@click.command("integrate")
@click.argument("program", type=click.Choice(["claude"]))
@click.option("--add", is_flag=True, help="Do it; without, it is only shown.")
@click.option("--remove", is_flag=True, help="Show what would be taken away again.")
@click.option("--statusline", is_flag=True, help="Also add the line below the prompt.")
@click.option("--yes", is_flag=True, help="With --remove: do it.")
@json_option
def integrate(  # noqa: PLR0913 (one parameter an option, all by name)
    *,
    program: str,
    add: bool,
    remove: bool,
    statusline: bool,
    yes: bool,
    as_json: bool,
) -> None:
    r"""Add the tools, hooks and commands to Claude Code, or take them away.

    Without --add nothing is written: every part is shown with the file it goes into.
    Files keep their order and spaces; what was added can be taken away to the byte. If
    one of them cannot be read, none is touched.

    \b
    bygones integrate claude
    bygones integrate claude --add --statusline
    bygones integrate claude --remove --yes
    """
    del program  # there is one
    if add and remove:
        raise click.UsageError("--add and --remove exclude each other")
    places = places_of(os.environ, Path.home(), _plugin())
    changes = plan(places, _command(), removing=remove, statusline=statusline)
    does = add or (remove and yes)
    if as_json:
        _print_rows(changes, carry_out(changes) if does else ())
        return
    if not does:
        show_changes(changes, removing=remove)
        return
    for change in carry_out(changes):
        tell_change("removed" if remove else "added", change)
    if any(change.state is State.TAKEN for change in changes):
        show_changes([c for c in changes if c.state is State.TAKEN], removing=remove)


def _print_rows(changes: Sequence[Change], done: Iterable[Change]) -> None:
    carried_out = list(done)
    print_row(BeginRow.of("integrate"))
    for change in changes:
        row = PartRow(
            what=change.what,
            path=path_text(change.path),
            state=change.state,
            is_needed=change.is_needed,
            is_done=change in carried_out,
        )
        print_row(row)


def _plugin() -> Path:
    """Return the plugin's folder: installed with the package, or beside the sources."""
    package = Path(bygones.__file__).parent
    installed = package / "plugin"
    return installed if installed.is_dir() else package.parents[1] / "plugin"


def _command() -> list[str]:
    """Return the words that start us from anywhere."""
    return ["bygones"] if shutil.which("bygones") else [sys.executable, "-m", "bygones"]
