"""`bygones integrate`: add the integration to Claude Code, or remove it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

import bygones
from bygones.cli.commands.hook import ingest_in_background
from bygones.cli.context import json_option, resolve_archive_folder
from bygones.cli.output import display_path, output_width, print_objects
from bygones.integrations import recall_index
from bygones.integrations.claude_code import (
    IntegrationChange,
    PartState,
    apply_changes,
    claude_paths,
    plan_changes,
    plan_project_changes,
)
from bygones.model.base import encode_path
from bygones.render.text.primitives import display_width, sanitize_name
from bygones.schema.commands import IntegrationObject
from bygones.team.connection import parse_hub_url

_STATE_TEXTS = {
    (False, PartState.MISSING): "would add",
    (False, PartState.INSTALLED): "installed",
    (False, PartState.OUTDATED): "outdated, would update",
    (False, PartState.CONFLICT): "skipped: not added by Bygones, or edited since",
    (True, PartState.MISSING): "not installed",
    (True, PartState.INSTALLED): "would remove",
    (True, PartState.OUTDATED): "would remove",
    (True, PartState.CONFLICT): "kept: not added by Bygones, or edited since",
}


def print_planned_changes(
    changes: Sequence[IntegrationChange], *, removing: bool
) -> None:
    for change in changes:
        print_change(_STATE_TEXTS[removing, change.state], change)
    if any(change.is_needed for change in changes):
        how = "--remove --yes" if removing else "--add"
        sys.stderr.write(f"nothing was changed; use {how} to apply these changes\n")


def print_change(action: str, change: IntegrationChange) -> None:
    """Print a part and its file, on two lines if the terminal is narrow."""
    line = f"{action}  {change.description}"
    path = sanitize_name(display_path(change.path))
    room = output_width(sys.stdout, os.environ) if sys.stdout.isatty() else sys.maxsize
    click.echo(
        f"{line}\n    {path}"
        if display_width(line + path) + 2 > room
        else f"{line}  {path}"
    )


@click.command("integrate")
@click.argument("program", type=click.Choice(["claude"]))
@click.option("--add", is_flag=True, help="Apply the changes instead of listing them.")
@click.option(
    "--remove", is_flag=True, help="List what would be removed; with --yes, remove it."
)
@click.option("--statusline", is_flag=True, help="Also add the status line.")
@click.option(
    "--checkpoints",
    is_flag=True,
    help="Also add hooks that store the files that shell commands change.",
)
@click.option(
    "--recall",
    is_flag=True,
    help="Also add hooks that quote earlier work if the match is certain.",
)
@click.option(
    "--scope",
    type=click.Choice(["user", "project"]),
    default="user",
    show_default=True,
    help="Change your own files, or .mcp.json of the repository here.",
)
@click.option(
    "--hub", metavar="URL", help="With --scope project: the hub to read from."
)
@click.option("--yes", is_flag=True, help="With --remove: apply the changes.")
@json_option
def integrate(  # noqa: PLR0913 (one parameter per option)
    *,
    program: str,
    add: bool,
    remove: bool,
    statusline: bool,
    checkpoints: bool,
    recall: bool,
    scope: str,
    hub: str | None,
    yes: bool,
    as_json: bool,
) -> None:
    r"""Add Bygones to Claude Code, or remove it.

    \b
    bygones integrate claude
    bygones integrate claude --add --statusline
    bygones integrate claude --remove --yes
    bygones integrate claude --scope project --hub URL --add

    Without --add, the changes are only listed. --add also updates outdated parts. --remove
    restores your files byte for byte. If one of them is invalid, none is changed.

    Checkpoints are for `blame`, `cat`, `diff` and `undo`: around each shell command, the
    new contents of files that git reports as changed or Claude edited are stored, up to 1 MiB
    each. A repository that contains your home folder is left out.

    Recall quotes earlier work: a few lines when a session starts, and at most one cited line
    for a prompt or an error that has occurred before. Uncertain matches are not quoted.

    With --scope project, .mcp.json in the current directory lets everyone read from a hub;
    Claude Code takes the token from BYGONES_HUB_TOKEN.
    """
    if (program, add, remove) == ("claude", True, True):
        raise click.UsageError("--add and --remove cannot be combined")
    archive = resolve_archive_folder(None)
    if (scope == "project") != bool(hub) and not (scope == "project" and remove):
        raise click.UsageError("use --scope project and --hub together")
    changes = (
        _plan_for_project(hub or "", removing=remove)
        if scope == "project"
        else plan_changes(
            claude_paths(os.environ, Path.home(), _plugin_folder()),
            _launch_command(),
            removing=remove,
            statusline=statusline,
            checkpoints=checkpoints,
            recall_folder=recall_index.folder_of(archive) if recall else None,
        )
    )
    does = add or (remove and yes)
    if recall and add:
        _start_recall(archive)
    if as_json:
        _print_json(changes, apply_changes(changes) if does else ())
    elif does:
        _apply_and_print(changes, removing=remove)
    else:
        print_planned_changes(changes, removing=remove)


def _mention_checkpoints() -> None:
    """Say where copies of files are left: some may not be in the archive yet."""
    paths = claude_paths(os.environ, Path.home(), _plugin_folder())
    folder = paths.checkpoints
    if folder.is_dir():
        sys.stderr.write(
            f"note: {sanitize_name(display_path(folder))} has the contents that"
            " checkpoints stored; you can delete it after `bygones ingest`\n"
        )


def _start_recall(archive: Path) -> None:
    recall_index.enable(archive)
    ingest_in_background(None, ())


def _plan_for_project(hub: str, *, removing: bool) -> list[IntegrationChange]:
    if hub or not removing:
        parse_hub_url(hub)
    return plan_project_changes(Path.cwd(), hub, removing=removing)


def _apply_and_print(changes: Sequence[IntegrationChange], *, removing: bool) -> None:
    for change in apply_changes(changes):
        is_update = change.state is PartState.OUTDATED
        added = "updated" if is_update else "added"
        print_change("removed" if removing else added, change)
    if not any(change.is_needed for change in changes):
        print_planned_changes(
            [c for c in changes if c.state is not PartState.CONFLICT], removing=removing
        )
    if any(change.state is PartState.CONFLICT for change in changes):
        print_planned_changes(
            [c for c in changes if c.state is PartState.CONFLICT], removing=removing
        )
    if removing and any("checkpoint" in change.description for change in changes):
        _mention_checkpoints()


def _print_json(
    changes: Sequence[IntegrationChange], applied: Iterable[IntegrationChange]
) -> None:
    done = list(applied)
    print_objects(
        IntegrationObject(
            description=change.description,
            path=encode_path(change.path),
            state=change.state,
            is_needed=change.is_needed,
            is_done=change in done,
        )
        for change in changes
    )


def _plugin_folder() -> Path:
    """Return the plugin's folder, in the installed package or the checkout."""
    package = Path(bygones.__file__).parent
    installed = package / "plugin"
    return installed if installed.is_dir() else package.parents[1] / "plugin"


def _launch_command() -> list[str]:
    """Return the command that starts Bygones."""
    return ["bygones"] if shutil.which("bygones") else [sys.executable, "-m", "bygones"]
