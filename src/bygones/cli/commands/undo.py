"""`bygones undo`: files as they were before a turn."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bygones.cli.commands.blame import style_diff_line
from bygones.cli.context import (
    CommonOptions,
    archive_options,
    color_option,
    complete_branches,
    complete_sessions,
    json_option,
)
from bygones.cli.file_names import choose_turn, open_file, parse_turn_name
from bygones.cli.open_archive import open_current
from bygones.cli.output import Console, display_path, print_objects
from bygones.errors import ExitCode, UnsupportedOnTeamStore
from bygones.files.diff import build_patch, format_patch
from bygones.files.events import decode_bytes
from bygones.files.paths import path_key
from bygones.files.undo import (
    PlannedUndo,
    UndoAction,
    UndoRecord,
    plan_redo,
    plan_undo,
)
from bygones.files.undo_journal import UndoStore, UndoTarget, plan_recovery
from bygones.model.base import SessionId
from bygones.render.numbers import pluralize
from bygones.render.text.primitives import sanitize_name
from bygones.schema.files import UndoFileObject, UndoObject

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bygones.archive import Archive
    from bygones.cli.file_names import ChosenTurn
    from bygones.files.history import FileAt


@click.command("undo")
@click.argument(
    "name", metavar="[SESSION:TURN]", required=False, shell_complete=complete_sessions
)
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option(
    "--branch",
    metavar="NUMBER|LEAF",
    shell_complete=complete_branches,
    show_default="the live branch",
    help="Use this branch of the session.",
)
@click.option("--undo", "is_redo", is_flag=True, help="Undo the last undo.")
@click.option(
    "--force", is_flag=True, help="Also overwrite changes made outside of Claude Code."
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("-n", "--dry-run", is_flag=True, help="Show what would be changed.")
@archive_options
@json_option
@color_option
def undo(  # noqa: PLR0913 (one parameter per option)
    *,
    name: str | None,
    files: tuple[str, ...],
    branch: str | None,
    is_redo: bool,
    force: bool,
    yes: bool,
    dry_run: bool,
    options: CommonOptions,
    as_json: bool,
    color: str,
) -> None:
    r"""Restore files as they were before a turn of a session.

    \b
    bygones undo last:2 --dry-run
    bygones undo 5e551000:3 src/app.py --dry-run
    bygones undo --undo --dry-run

    All changes of the turn and of later turns are undone: files get their former content,
    and files that were created are deleted. Your own changes since then are kept if they
    are in other lines; otherwise the file is skipped, unless you use --force. Of an
    abandoned branch, what is still there is undone, and later changes are always kept.
    The changes are shown first, and you are asked to confirm.

    What is replaced is stored in the archive, and --undo restores it. If an undo is
    interrupted, the next one first restores what it had changed. Only regular files in the
    project of the session, and files that you name, are changed; no link is followed.
    """
    console = Console.for_stdout(color)
    if is_redo == bool(name):
        raise click.UsageError("name SESSION:TURN, or use --undo alone")
    with open_current(options) as archive:
        store = _open_store(archive)
        unfinished = store.unfinished()
        if is_redo:
            session_id, turn, plans = _plan_redo(store, unfinished, force=force)
        else:
            _recover(store, unfinished, dry_run=dry_run)
            session_id, turn, plans = _plan(
                archive, name or "", files, branch, force=force
            )
    changes = [plan for plan in plans if plan.is_change]
    is_shown_first = dry_run or not yes  # a closed pipe must not prevent the work
    if not as_json and is_shown_first:
        console.print_lines(_preview(plans, console))
    done = None
    if changes and not dry_run:
        _confirm(len(changes), yes=yes)
    if is_redo and unfinished:
        _recover(store, unfinished, dry_run=dry_run)
    elif changes and not dry_run:
        target = UndoTarget(session_id, turn, is_redo=is_redo)
        done = store.apply(changes, target, console.now)
    if as_json:
        print_objects(_objects(plans, done, session_id, turn))
    else:
        _print_result(plans, done, None if is_shown_first else console)
    _exit_if_skipped(plans)


def _open_store(archive: Archive) -> UndoStore:
    if not archive.folder.is_dir():
        raise UnsupportedOnTeamStore(archive.folder.name)
    return UndoStore(archive.folder)


def _exit_if_skipped(plans: Sequence[PlannedUndo]) -> None:
    if any(plan.action is UndoAction.SKIP for plan in plans):
        raise click.exceptions.Exit(ExitCode.FAILURE)


def _plan_redo(
    store: UndoStore, unfinished: Sequence[UndoRecord], *, force: bool
) -> tuple[SessionId, int, list[PlannedUndo]]:
    record = unfinished[0] if unfinished else store.load()
    plans = plan_recovery(record) if unfinished else plan_redo(record, force=force)
    return record.session_id, record.turn_number, plans


def _recover(
    store: UndoStore, unfinished: Sequence[UndoRecord], *, dry_run: bool = False
) -> None:
    """Restore files after an undo that was killed in the middle."""
    for record in unfinished:
        when = f"{record.made_at.astimezone():%Y-%m-%d %H:%M}"
        if dry_run:
            count = sum(plan.is_change for plan in plan_recovery(record))
            what = f"the next undo restores {pluralize(count, 'file')} first"
        else:
            count = sum(plan.is_change for plan in store.recover(record))
            what = f"{pluralize(count, 'file')} restored"
        sys.stderr.write(f"an undo was interrupted on {when}; {what}\n")


def _plan(
    archive: Archive,
    name: str,
    files: Sequence[str],
    branch: str | None,
    *,
    force: bool,
) -> tuple[SessionId, int, list[PlannedUndo]]:
    turn_name = parse_turn_name(name)
    if turn_name.turn is None:
        raise click.UsageError(f"name a turn, such as {turn_name.session}:2")
    chosen = choose_turn(archive, turn_name, branch)
    turn = chosen.turn or 0
    project = chosen.session.project
    if project and not (files or force or os.path.lexists(project)):
        shown = sanitize_name(display_path(Path(project)))
        raise click.UsageError(
            f"the project is no longer at {shown};"
            f" if you moved it, run `bygones move {shown} NEW` first"
        )
    library = archive.file_library.with_git()
    targets = library.files_at(
        chosen.session.id, turn, branch=chosen.branch.number, is_before=True
    )
    named = [Path(os.path.normpath(Path(f).expanduser().absolute())) for f in files]
    if named:
        wanted = {path_key(str(path)): path for path in named}
        targets = [file for file in targets if path_key(file.path) in wanted]
        missing = wanted.keys() - {path_key(file.path) for file in targets}
        if missing:
            path = sanitize_name(display_path(wanted[min(missing)]))
            raise click.UsageError(f"the session did not change {path}")
    log = library.log(chosen.session.id, branch=chosen.branch.number, stop_turn=turn)
    changed_later = log.paths_changed_from(turn)
    targets = [
        file
        for file in targets
        if not changed_later.isdisjoint(map(path_key, library.names(file.path)))
    ]
    is_abandoned = chosen.branch.number > 0
    current = (
        _files_at_end(archive, chosen)
        if is_abandoned
        else {
            path_key(file.path): open_file(archive, file.path).history.last
            for file in targets
        }
    )
    trusted = [*named, *([Path(project)] if project else [])]
    return (
        chosen.session.id,
        turn,
        plan_undo(
            targets,
            current,
            trusted=trusted,
            force=force,
            is_abandoned=is_abandoned,
        ),
    )


def _files_at_end(archive: Archive, chosen: ChosenTurn) -> dict[str, FileAt]:
    """Return the files as a branch left them, by key."""
    found = archive.file_library.with_git().files_at(
        chosen.session.id,
        len(chosen.branch.turns) - 1,
        branch=chosen.branch.number,
        is_before=False,
    )
    return {path_key(file.path): file for file in found}


def _preview(plans: Sequence[PlannedUndo], console: Console) -> Iterator[str]:
    for plan in plans:
        path = sanitize_name(plan.path)
        if not plan.is_change:
            if plan.action is UndoAction.SKIP:
                yield console.style.warning(
                    f"skipped: {path}: {sanitize_name(plan.reason)}"
                )
            continue
        remark = f" ({sanitize_name(plan.reason)})" if plan.reason else ""
        yield console.style.heading(f"{plan.action}: {path}{remark}")
        texts = (
            decode_bytes(raw) if raw is not None else None
            for raw in (plan.before, plan.after)
        )
        for line in list(format_patch(build_patch(*texts), "", ""))[2:]:
            yield style_diff_line(line, console)


def _confirm(count: int, *, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(
            "this changes files; confirm with --yes, or use --dry-run to see the changes"
        )
    click.confirm(f"Change {pluralize(count, 'file')}?", abort=True, err=True)


def _print_result(
    plans: Sequence[PlannedUndo], done: UndoRecord | None, console: Console | None
) -> None:
    """Print what was done, with the changes if there is a console."""
    if console is not None:
        console.print_lines(_preview(plans, console))
    if done is not None:
        count = len(done.entries)
        sys.stderr.write(
            f"changed {pluralize(count, 'file')}; `bygones undo --undo` restores"
            f" {'them' if count > 1 else 'it'}\n"
        )
    elif not any(plan.is_change for plan in plans):
        is_skipped = any(plan.action is UndoAction.SKIP for plan in plans)
        sys.stderr.write("nothing was changed\n" if is_skipped else "nothing to undo\n")
    if any(plan.can_force for plan in plans):
        sys.stderr.write("hint: --force overwrites skipped files and keeps copies\n")


def _objects(
    plans: Sequence[PlannedUndo],
    done: UndoRecord | None,
    session_id: SessionId,
    turn: int,
) -> Iterator[UndoFileObject | UndoObject]:
    for plan in plans:
        texts = (
            decode_bytes(raw) if raw is not None else None
            for raw in (plan.before, plan.after)
        )
        hunks = build_patch(*texts) if plan.is_change else []
        marks = [line[:1] for hunk in hunks for line in hunk.lines]
        yield UndoFileObject(
            path=plan.path,
            action=plan.action,
            reason=plan.reason or None,
            added_lines=marks.count("+"),
            removed_lines=marks.count("-"),
        )
    yield UndoObject(
        undo_id=done.id if done else None,
        session_id=session_id,
        turn_number=turn + 1,
        written_count=len(done.entries) if done else 0,
        skipped_count=sum(plan.action is UndoAction.SKIP for plan in plans),
        is_dry_run=done is None,
    )
