"""`bygones restore`: write the original files back."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TextIO

import click

from bygones.archive import Archive
from bygones.cli.context import (
    archive_option,
    complete_names,
    json_option,
    open_without_ingest,
    path_type,
)
from bygones.cli.output import (
    WRITE_INTERRUPTED,
    StagedProgressBar,
    TextColumn,
    TextTable,
    display_path,
    explain_interrupt,
    print_objects,
)
from bygones.cli.resolve import ResolvedNames, resolve_names
from bygones.errors import ExitCode
from bygones.maintenance.restore import (
    LineRewriter,
    PlannedFile,
    RestoreResult,
    TargetState,
    cwd_rewriter,
)
from bygones.render.numbers import format_bytes, pluralize
from bygones.render.text.primitives import sanitize_name
from bygones.schema.commands import FileObject, RestoreObject
from bygones.store.archive_db import StoredSource


def resolve_new_directory(
    project: Path, sources: Sequence[StoredSource], to: Path | None
) -> str:
    """Return the real path of a project, if its sessions can be restored for it."""
    transcripts = [kept for kept in sources if kept.kind.is_transcript]
    movable = {kept.session for kept in transcripts if kept.project is not None}
    for kept in transcripts:
        if to is None and kept.project is None and kept.session not in movable:
            raise click.UsageError(
                f"{display_path(kept.id)} is not in a home, so --as has no projects "
                "folder; name a home with --to"
            )
    return os.path.realpath(project.expanduser())


def plan_cwd_rewrite(
    archive: Archive, names: ResolvedNames, directory: str | None
) -> LineRewriter | None:
    """Return the rewriter of the working directory in records."""
    directories = {archive.session_summary(id_).project for id_ in names.sessions}
    directories.update(project.path for project in names.projects)
    directories.discard(None)
    if len(directories) > 1:
        raise click.UsageError(
            "the sessions belong to several projects; name sessions of one project"
        )
    old = next(iter(directories), None)
    return cwd_rewriter(old, directory) if old and directory else None


_MAX_LISTED = 10
_STATE_TEXTS = {
    TargetState.NEW: "write",
    TargetState.SAME: "exists",
    TargetState.DIFFERS: "differs",
    TargetState.DAMAGED: "damaged",
    TargetState.TAKEN: "taken",
    TargetState.OUTSIDE: "outside",
}


def print_plan(plans: Sequence[PlannedFile], stream: TextIO) -> None:
    _warn_if_empty(plans)
    cells = [
        (_STATE_TEXTS[plan.state], format_bytes(plan.size), display_path(plan.path))
        for plan in plans
    ]
    table = TextTable(
        (TextColumn(), TextColumn(is_right_aligned=True), TextColumn()), cells
    )
    stream.writelines(f"{line}\n" for line in table.lines())
    counts = {state: sum(1 for p in plans if p.state is state) for state in TargetState}
    parts = [f"would write {pluralize(counts[TargetState.NEW], 'file')}"]
    if same := counts[TargetState.SAME]:
        parts.append(f"{same:,} already up to date")
    if differing := counts[TargetState.DIFFERS]:
        needs = "differs and needs" if differing == 1 else "differ and need"
        parts.append(f"{differing:,} {needs} --overwrite")
    if taken := counts[TargetState.TAKEN]:
        parts.append(f"{taken:,} not written: a newer copy has the same path")
    if outside := counts[TargetState.OUTSIDE]:
        parts.append(f"{outside:,} not written: the path is outside the home")
    sys.stderr.write(f"{'; '.join(parts)}\n")


def print_result(plans: Sequence[PlannedFile], result: RestoreResult) -> None:
    _warn_if_empty(plans)
    already = f"; {result.same:,} already up to date" if result.same else ""
    files = pluralize(result.written, "file")
    if not result.written and result.same:
        are = "file is" if result.same == 1 else "files are"
        click.echo(f"nothing to restore: {result.same:,} {are} already up to date")
    else:
        click.echo(f"restored {files}, {format_bytes(result.bytes)}{already}")
    for copy in result.copies[:_MAX_LISTED]:
        click.echo(f"kept the existing file as {sanitize_name(display_path(copy))}")
    if len(result.copies) > _MAX_LISTED:
        click.echo(f"and {len(result.copies) - _MAX_LISTED:,} more copies")
    for path in result.damaged[:_MAX_LISTED]:
        sys.stderr.write(
            sanitize_name(f"damaged in the archive: {display_path(path)}") + "\n"
        )
    if len(result.damaged) > _MAX_LISTED:
        sys.stderr.write(f"and {len(result.damaged) - _MAX_LISTED:,} more\n")
    for path, reason in result.refused[:_MAX_LISTED]:
        line = f"not written: {display_path(path)} ({reason.lower()})"
        sys.stderr.write(f"{sanitize_name(line)}\n")
    if len(result.refused) > _MAX_LISTED:
        sys.stderr.write(f"and {len(result.refused) - _MAX_LISTED:,} more\n")
    if result.skipped:
        _print_skipped(result.skipped)


def _warn_if_empty(plans: Sequence[PlannedFile]) -> None:
    if not plans:
        sys.stderr.write("no file has a version this old\n")


def _print_skipped(paths: Sequence[str]) -> None:
    differ = "1 file differs" if len(paths) == 1 else f"{len(paths):,} files differ"
    sys.stderr.write(f"{differ} from the archive and were not changed:\n")
    for path in paths[:_MAX_LISTED]:
        sys.stderr.write(f"  {sanitize_name(display_path(path))}\n")
    if len(paths) > _MAX_LISTED:
        sys.stderr.write(f"  and {len(paths) - _MAX_LISTED:,} more\n")
    sys.stderr.write("\nhint: --overwrite replaces them and keeps copies\n")


def _result_objects(
    plans: Sequence[PlannedFile], done: RestoreResult | None
) -> Iterator[FileObject | RestoreObject]:
    for plan in plans:
        yield FileObject(path=plan.path, size_bytes=plan.size, state=plan.state)
    result = done or RestoreResult()
    yield RestoreObject(
        written_count=result.written,
        same_count=result.same,
        skipped_count=len(result.skipped),
        written_bytes=result.bytes,
        damaged_paths=tuple(result.damaged),
        refused_paths=tuple(path for path, _ in result.refused),
        copy_paths=tuple(result.copies),
        is_dry_run=done is None,
    )


@click.command("restore")
@click.argument(
    "names",
    nargs=-1,
    metavar="[SESSION|PROJECT]...",
    shell_complete=complete_names,
)
@click.option(
    "--all", "select_all", is_flag=True, help="Restore everything in the archive."
)
@click.option(
    "--to",
    type=path_type(allow_file=False),
    metavar="FOLDER",
    show_default="the original home",
    help="Write to this folder instead of the home.",
)
@click.option(
    "--as",
    "project",
    type=path_type(),
    metavar="PATH",
    help="Restore for a project that has moved to this directory.",
)
@click.option(
    "--rewrite-cwd",
    is_flag=True,
    help="With --as: also replace the directory in the records.",
)
@click.option(
    "--older",
    type=click.IntRange(0, 1_000_000),
    default=0,
    metavar="N",
    help="Restore the version before the last N times a file was replaced.",
)
@click.option("-n", "--dry-run", is_flag=True, help="Show what would be written.")
@click.option(
    "--overwrite", is_flag=True, help="Replace files that differ, and keep copies."
)
@archive_option
@json_option
def restore(  # noqa: PLR0913 (one parameter per option)
    names: tuple[str, ...],
    *,
    select_all: bool,
    to: Path | None,
    project: Path | None,
    rewrite_cwd: bool,
    older: int,
    dry_run: bool,
    overwrite: bool,
    archive: Path | None,
    as_json: bool,
) -> None:
    r"""Write original files back, byte for byte.

    \b
    bygones restore old-project --as ~/src/new --rewrite-cwd
    bygones restore --all --to /tmp/home --dry-run

    SESSION is an id or its first characters, "last", or a result number of the last
    search. PROJECT is a directory or a name.

    Transcripts are restored with everything that belongs to them (agents, long outputs,
    backups of edited files, todos and tasks) and with their modification times, so that
    `claude --resume` works. An existing file with other content is not changed, and the
    exit code is 1; --overwrite replaces it and keeps a copy.
    """
    _check_arguments(names, project, select_all=select_all, rewrite_cwd=rewrite_cwd)
    with open_without_ingest(archive) as archived:
        wanted = (
            ResolvedNames()
            if select_all
            else resolve_names(archived, names, allow_unindexed=True)
        )
        sources = archived.sources() if select_all else wanted.sources(archived)
        place = resolve_new_directory(project, sources, to) if project else None
        rewrite = plan_cwd_rewrite(archived, wanted, place) if rewrite_cwd else None
        plans = archived.plan_restore(
            sources,
            target=to.expanduser().absolute() if to else None,
            project=place,
            rewrite=rewrite,
            generations_back=older,
        )
        with explain_interrupt(WRITE_INTERRUPTED), StagedProgressBar() as bar:
            carry_out = partial(archived.restore, overwrite=overwrite, rewrite=rewrite)
            done = None if dry_run else carry_out(plans, progress=bar)
    if as_json:
        print_objects(_result_objects(plans, done))
    elif done is None:
        print_plan(plans, sys.stdout)
    else:
        print_result(plans, done)
    if done is not None and done.damaged:
        raise click.exceptions.Exit(ExitCode.ARCHIVE_DAMAGED)
    if done is not None and (done.skipped or done.refused):
        raise click.exceptions.Exit(ExitCode.FAILURE)


def _check_arguments(
    names: Sequence[str], project: Path | None, *, select_all: bool, rewrite_cwd: bool
) -> None:
    if select_all == bool(names) or (select_all and project is not None):
        raise click.UsageError("name sessions or projects, or use --all alone")
    if rewrite_cwd and project is None:
        raise click.UsageError("--rewrite-cwd needs --as")
