"""`bygones repair`: recover what is damaged in the archive."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import click

from bygones.cli.context import (
    archive_option,
    json_option,
    path_type,
    quiet_option,
    resolve_archive_folder,
)
from bygones.cli.output import (
    StagedProgressBar,
    display_path,
    explain_interrupt,
    print_failure,
    print_objects,
)
from bygones.errors import ExitCode, PathNotFound
from bygones.maintenance.damaged_parts import DamagedPart
from bygones.maintenance.repair import (
    RepairResult,
    accept_losses,
    count_bytes,
    repair_archive,
)
from bygones.render.numbers import format_bytes, pluralize
from bygones.render.text.primitives import sanitize_name
from bygones.schema.commands import DamageObject, RepairObject

__all__ = ["repair"]

_MAX_LISTED = 20


def print_result(
    result: RepairResult, *, has_others: bool, accept_loss: bool = False
) -> None:
    if result.damaged_copy is not None:
        place = sanitize_name(display_path(result.damaged_copy))
        files = pluralize(result.source_count, "file")
        click.echo(f"recovered: {files} in a new database; the damaged one is {place}")
    if result.corrected_count:
        files = pluralize(result.corrected_count, "file")
        click.echo(f"corrected: recorded offsets of {files}")
    if result.recovered:
        parts = pluralize(len(result.recovered), "damaged part")
        click.echo(f"recovered: {parts}, {format_bytes(result.recovered_bytes)}")
    # What is about to be accepted is shown completely.
    listed = result.lost if accept_loss else result.lost[:_MAX_LISTED]
    for part in listed:
        where = f"bytes {part.start:,} to {part.stop:,}"
        is_older = part.generation < part.source.generation
        older = f", generation {part.generation}" if is_older else ""
        source = display_path(part.source.id)
        click.echo(sanitize_name(f"still damaged: {source}: {where}{older}"))
    if len(result.lost) > len(listed):
        click.echo(f"  and {len(result.lost) - len(listed):,} more")
    if result.lost:
        if not accept_loss:
            _print_hint(has_others=has_others)
    elif not (result.damaged_copy or result.recovered or result.corrected_count):
        if result.is_index_rebuilt:
            click.echo("rebuilt: the index, which was missing; the archive is intact")
        else:
            what = "everything else" if result.accepted else "the archive"
            click.echo(f"nothing to repair: {what} is intact")
    _print_accepted(result.accepted)


def _print_accepted(parts: Sequence[DamagedPart]) -> None:
    if parts:
        ranges = pluralize(len(parts), "range")
        click.echo(f"accepted as lost: {ranges}, {format_bytes(count_bytes(parts))}")


def _confirm_loss(parts: Sequence[DamagedPart], *, yes: bool) -> None:
    """Ask for confirmation, unless --yes was given."""
    sessions = {part.source.session for part in parts} - {None}
    size = format_bytes(count_bytes(parts))
    lost = f"{pluralize(len(parts), 'range')}, {size}"
    if sessions:
        lost += f", of {pluralize(len(sessions), 'session')}"
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError("stdin is not a terminal; use --yes to accept the loss")
    click.confirm(f"Accept {lost}, as lost?", abort=True, err=True)


def _print_hint(*, has_others: bool) -> None:
    """Say what is left to do, which is never another repair of the same kind."""
    backup = "" if has_others else "; if you have a backup, use --from BACKUP"
    sys.stderr.write(
        "\nhint: files that still exist are imported again by `bygones ingest`;"
        f" all other parts are intact{backup}; if there is no copy,"
        " `bygones repair --accept-loss` accepts the loss\n"
    )


@click.command("repair")
@click.option(
    "--from",
    "others",
    multiple=True,
    metavar="PATH",
    type=path_type(),
    help="A backup, or a folder with copies of the files; repeatable.",
)
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Accept that what cannot be recovered is lost.",
)
@click.option("--yes", is_flag=True, help="Do not ask before accepting a loss.")
@archive_option
@json_option
@quiet_option
def repair(  # noqa: PLR0913 (one per option)
    *,
    others: tuple[Path, ...],
    accept_loss: bool,
    yes: bool,
    archive: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    r"""Recover damaged parts of the archive.

    \b
    bygones repair
    bygones repair --from /mnt/disk/bygones
    bygones repair --accept-loss

    Damaged bytes are recovered from the original files, or from a backup, if these
    still contain them; their hashes must match. If the database is damaged or truncated,
    a new one is written with everything that is intact, and the damaged file is kept.

    With --accept-loss, what is damaged then is listed, and recorded as lost after you
    confirm it: `bygones verify` no longer fails because of it, but still mentions it.
    Nothing is deleted, and a later repair recovers the bytes if it finds a copy.

    The exit code is 0 if the archive is intact afterwards or the loss was accepted, and 13
    otherwise.
    """
    folder = resolve_archive_folder(archive)
    places = tuple(path.expanduser().absolute() for path in others)
    for place in places:
        if not place.exists():
            raise PathNotFound(place)
    with (
        explain_interrupt("the archive was not changed, or is repaired already"),
        StagedProgressBar() as bar,
    ):
        result = repair_archive(folder, others=places, progress=bar)
    if not as_json and (result.lost or not quiet):
        print_result(result, has_others=bool(places), accept_loss=accept_loss)
    if accept_loss and result.lost:
        _accept_loss(folder, result, yes=yes, quiet=as_json)
    if as_json:
        parts = (*result.lost, *result.accepted)
        print_objects([*map(_damage_object, parts), _result_object(result)])
    print_failure(result.failure)
    if result.lost:
        raise click.exceptions.Exit(ExitCode.ARCHIVE_DAMAGED)


def _accept_loss(folder: Path, result: RepairResult, *, yes: bool, quiet: bool) -> None:
    """Accept what is lost, once the user has confirmed it."""
    _confirm_loss(result.lost, yes=yes)
    with (
        explain_interrupt("the loss was not accepted, or is accepted already"),
        StagedProgressBar() as bar,
    ):
        done = accept_losses(folder, result.lost, progress=bar)
    accepted, result.failure = done.accepted, done.failure
    if not quiet:
        _print_accepted(accepted)
    result.accepted.extend(accepted)
    places = {part.place for part in accepted}
    result.lost[:] = [part for part in result.lost if part.place not in places]


def _damage_object(part: DamagedPart) -> DamageObject:
    accepted_at = datetime.fromtimestamp(part.lost_ns // 10**9, UTC)
    return DamageObject(
        source=part.source.id,
        generation=part.generation,
        start=part.start,
        end=part.stop,
        reason="accepted as lost" if part.lost_ns else "no copy was found",
        is_gap=not part.hash,
        session_id=part.source.session,
        accepted_at=accepted_at if part.lost_ns else None,
    )


def _result_object(result: RepairResult) -> RepairObject:
    return RepairObject(
        recovered_count=len(result.recovered),
        recovered_bytes=result.recovered_bytes,
        lost_count=len(result.lost),
        lost_bytes=result.lost_bytes,
        accepted_count=len(result.accepted),
        accepted_bytes=count_bytes(result.accepted),
        source_count=result.source_count,
        is_index_rebuilt=result.is_index_rebuilt,
        damaged_file=str(result.damaged_copy) if result.damaged_copy else None,
    )
