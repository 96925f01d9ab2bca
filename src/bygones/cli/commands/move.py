"""`bygones move`: keep the sessions of a project that was renamed or moved."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bygones.archive import Archive
from bygones.cli.context import (
    CommonOptions,
    archive_options,
    find_homes,
    json_option,
    path_type,
)
from bygones.cli.open_archive import open_current
from bygones.cli.output import display_path, print_objects
from bygones.errors import NothingToUndo, NotInArchive, PathUnusable
from bygones.maintenance.move import (
    forget_move,
    move_project,
    plan_move,
    plan_undo_move,
    remember_move,
    undo_move,
)
from bygones.render.numbers import format_bytes, pluralize
from bygones.render.text.primitives import sanitize_name
from bygones.schema.commands import MoveObject

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bygones.maintenance.move import MovePlan


__all__ = ["move"]

_MAX_LISTED = 10


@click.command("move")
@click.argument("old", required=False, type=path_type())
@click.argument("new", required=False, type=path_type(allow_file=False))
@click.option("-n", "--dry-run", is_flag=True, help="Only show what would be moved.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--undo", is_flag=True, help="Undo the last move.")
@archive_options
@json_option
def move(  # noqa: PLR0913 (the options of the command)
    *,
    old: Path | None,
    new: Path | None,
    dry_run: bool,
    yes: bool,
    undo: bool,
    options: CommonOptions,
    as_json: bool,
) -> None:
    r"""Keep the sessions of a project that was renamed or moved.

    \b
    mv ~/src/shop ~/src/store
    bygones move ~/src/shop ~/src/store
    bygones move --undo

    Claude Code finds sessions by the directory of their project. This moves the
    transcripts of OLD and of all directories below it to where Claude Code looks for
    those of NEW, with agents, memory and long outputs, and replaces the directory in
    transcripts and in the history of prompts. The plan is shown first, unless you use
    --yes. The originals are kept in the home until you delete them, so that --undo can
    restore them. Close Claude Code in OLD first.
    """
    if undo:
        if old is not None or new is not None:
            raise click.UsageError("--undo takes no directories")
        _undo(options, dry_run=dry_run, as_json=as_json)
        return
    if old is None or new is None:
        raise click.UsageError("name the old and the new directory")
    before, after = (os.path.realpath(path.expanduser()) for path in (old, new))
    _check_directories(before, after)
    with open_current(options):  # the archive has everything as it was
        homes = find_homes(options.homes)
    plans = [plan_move(home, before, after) for home in homes]
    plans = [plan for plan in plans if plan.files or plan.history_lines]
    if not plans:
        raise NotInArchive("project", display_path(before))
    # After --yes, nothing that happens to the output may prevent the move.
    if not as_json and (dry_run or not yes):
        _print_plans(plans, as_json=False, is_done=False)
    _check_taken(plans)
    if not dry_run:
        _confirm(yes=yes)
        remember_move(options.folder, before, after)
        for plan in plans:
            kept = move_project(plan)
            click.echo(sanitize_name(f"originals: {display_path(kept)}"), err=True)
    if as_json or not dry_run:
        _print_plans(plans, as_json=as_json, is_done=not dry_run)


def _undo(options: CommonOptions, *, dry_run: bool, as_json: bool) -> None:
    undo = plan_undo_move if dry_run else undo_move
    plans = [plan for home in find_homes(options.homes) if (plan := undo(home))]
    if not plans:
        raise NothingToUndo("move", "last")
    if Archive.exists(options.folder) and not dry_run:
        for plan in plans:
            forget_move(options.folder, plan.old, plan.new)
    _print_plans(plans, as_json=as_json, is_done=not dry_run, is_undo=True)


def _check_directories(old: str, new: str) -> None:
    if not Path(new).is_dir():
        raise click.UsageError(
            f"{display_path(new)} is not a directory; rename the project first"
        )
    if f"{new}{os.sep}".startswith(f"{old.rstrip(os.sep)}{os.sep}"):
        raise click.UsageError("a project cannot be moved into itself")
    if Path(old).exists() and Path(old).samefile(new):
        raise click.UsageError("both are names of the same directory")


def _check_taken(plans: Sequence[MovePlan]) -> None:
    for plan in plans:
        if plan.taken:
            path = display_path(Path(plan.home) / plan.taken[0])
            raise PathUnusable(f"{path} exists with other content")


def _confirm(*, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError("stdin is not a terminal; use --yes to move")
    click.confirm("Move them?", abort=True, err=True)


def _print_plans(
    plans: Sequence[MovePlan], *, as_json: bool, is_done: bool, is_undo: bool = False
) -> None:
    if as_json:
        print_objects([_to_object(plan, is_done=is_done) for plan in plans])
        return
    for plan in plans:
        old, new = display_path(plan.old), display_path(plan.new)
        start, end = (new, old) if is_undo else (old, new)
        size = format_bytes(sum(file.size for file in plan.files))
        parts = [pluralize(plan.session_count, "session")]
        parts.append(f"{pluralize(len(plan.files), 'file')}, {size}")
        if plan.history_lines:
            prompts = pluralize(plan.history_lines, "prompt")
            parts.append(f"{prompts} in the history")
        verb = "moved" if is_done else "would move"
        click.echo(sanitize_name(f"{verb} {start} -> {end}: {'; '.join(parts)}"))
        if not is_done:
            for file in plan.files[:_MAX_LISTED]:
                ends = (
                    (file.target, file.source)
                    if is_undo
                    else (file.source, file.target)
                )
                click.echo(sanitize_name("  {} -> {}".format(*ends)))
            if len(plan.files) > _MAX_LISTED:
                click.echo(f"  and {len(plan.files) - _MAX_LISTED:,} more")


def _to_object(plan: MovePlan, *, is_done: bool) -> MoveObject:
    return MoveObject(
        home=plan.home,
        old=plan.old,
        new=plan.new,
        session_count=plan.session_count,
        file_count=len(plan.files),
        history_count=plan.history_lines,
        is_dry_run=not is_done,
    )
