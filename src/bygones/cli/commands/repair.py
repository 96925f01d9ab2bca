"""`bygones repair`: recover what is damaged in the archive."""

from __future__ import annotations

import sys
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
    print_objects,
)
from bygones.errors import ExitCode, PathNotFound
from bygones.maintenance.damaged_parts import DamagedPart
from bygones.maintenance.repair import RepairResult, repair_archive
from bygones.render.numbers import format_bytes, pluralize
from bygones.render.text.primitives import sanitize_name
from bygones.schema.commands import DamageObject, RepairObject

__all__ = ["repair"]

_MAX_LISTED = 20


def print_result(result: RepairResult, *, has_others: bool) -> None:
    if result.damaged_copy is not None:
        place = sanitize_name(display_path(result.damaged_copy))
        files = pluralize(result.source_count, "file")
        click.echo(f"recovered: {files} in a new database; the damaged one is {place}")
    if result.recovered:
        parts = pluralize(len(result.recovered), "damaged part")
        click.echo(f"recovered: {parts}, {format_bytes(result.recovered_bytes)}")
    for part in result.lost[:_MAX_LISTED]:
        where = f"bytes {part.start:,} to {part.stop:,}"
        source = display_path(part.source.id)
        click.echo(sanitize_name(f"still damaged: {source}: {where}"))
    if len(result.lost) > _MAX_LISTED:
        click.echo(f"  and {len(result.lost) - _MAX_LISTED:,} more")
    if result.lost:
        _print_hint(has_others=has_others)
    elif result.damaged_copy is None and not result.recovered:
        if result.is_index_rebuilt:
            click.echo("rebuilt: the index, which was missing; the archive is intact")
        else:
            click.echo("nothing to repair: the archive is intact")


def _print_hint(*, has_others: bool) -> None:
    """Say what is left to do, which is never another repair of the same kind."""
    backup = "" if has_others else "; if you have a backup, use --from BACKUP"
    sys.stderr.write(
        "\nhint: files that still exist are imported again by `bygones ingest`;"
        f" all other parts are intact{backup}\n"
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
@archive_option
@json_option
@quiet_option
def repair(
    *, others: tuple[Path, ...], archive: Path | None, as_json: bool, quiet: bool
) -> None:
    r"""Recover damaged parts of the archive.

    \b
    bygones repair
    bygones repair --from /mnt/disk/bygones

    Damaged bytes are recovered from the original files, or from a backup, if these
    still contain them; their hashes must match. If the database is damaged or truncated,
    a new one is written with everything that is intact, and the damaged file is kept.

    The exit code is 0 if the archive is intact afterwards, and 13 otherwise.
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
    if as_json:
        print_objects([*map(_damage_object, result.lost), _result_object(result)])
    elif not quiet or result.lost:
        print_result(result, has_others=bool(places))
    if result.lost:
        raise click.exceptions.Exit(ExitCode.ARCHIVE_DAMAGED)


def _damage_object(part: DamagedPart) -> DamageObject:
    return DamageObject(
        source=part.source.id,
        generation=part.generation,
        start=part.start,
        end=part.stop,
        reason="no copy was found",
        is_gap=not part.hash,
    )


def _result_object(result: RepairResult) -> RepairObject:
    return RepairObject(
        recovered_count=len(result.recovered),
        recovered_bytes=result.recovered_bytes,
        lost_count=len(result.lost),
        lost_bytes=result.lost_bytes,
        source_count=result.source_count,
        is_index_rebuilt=result.is_index_rebuilt,
        damaged_file=str(result.damaged_copy) if result.damaged_copy else None,
    )
