"""`bygones verify`: check the archive against its checksums."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import click

from bygones.archive import Archive
from bygones.cli.context import (
    archive_option,
    json_option,
    quiet_option,
    resolve_archive_folder,
)
from bygones.cli.output import (
    StagedProgressBar,
    display_path,
    explain_interrupt,
    print_objects,
)
from bygones.errors import ArchiveInUse, ExitCode, IndexNotFound, IndexOutdated
from bygones.maintenance.verify import VerificationResult
from bygones.render.numbers import format_bytes, pluralize
from bygones.render.text.primitives import sanitize_name
from bygones.schema.commands import DamageObject, VerificationObject

_MAX_LISTED = 20


def print_report(result: VerificationResult, folder: Path) -> None:
    place = sanitize_name(display_path(folder))
    checked = f"{pluralize(result.sources, 'file')}, {format_bytes(result.bytes)}"
    if result.is_intact:
        index = "; the index matches a rebuild" if result.is_index_compared else ""
        of = f"{result.intact_sources:,} of " if result.accepted else ""
        click.echo(f"intact: {of}{checked} in {place}{index}")
        _print_accepted(result)
        if note := _index_note(result):
            sys.stderr.write(f"note: {note}\n")
        return
    click.echo(f"damaged: {place}")
    if result.database != "ok":
        click.echo(f"  the database: {sanitize_name(result.database)}")
    bad = [*result.damages, *result.gaps]
    for damage in bad[:_MAX_LISTED]:
        where = f"bytes {damage.start:,} to {damage.stop:,}"
        older = f", generation {damage.generation}" if damage.generation else ""
        source = display_path(damage.source)
        click.echo(sanitize_name(f"  {source}: {where}{older}: {damage.reason}"))
    if len(bad) > _MAX_LISTED:
        click.echo(f"  and {len(bad) - _MAX_LISTED:,} more")
    ending = "" if result.index_damages else " differs from a rebuild"
    for part in result.differences:
        click.echo(sanitize_name(f"  the index: {part}{ending}"))
    click.echo(
        f"intact: {result.intact_sources:,} of {pluralize(result.sources, 'file')}"
    )
    _print_accepted(result)
    sys.stderr.write(f"\nhint: {_repair_hint(result)}\n")


def _print_accepted(result: VerificationResult) -> None:
    days = sorted(
        {one.accepted_at.date() for one in result.accepted if one.accepted_at}
    )
    if days:
        size = sum(one.stop - one.start for one in result.accepted)
        ranges = f"{pluralize(len(result.accepted), 'range')}, {format_bytes(size)}"
        when = " to ".join(map(str, dict.fromkeys((days[0], days[-1]))))
        click.echo(f"accepted as lost: {ranges}, on {when}")


def _index_note(result: VerificationResult) -> str:
    if result.is_busy:
        return "the index was not checked: another process is writing to it"
    if result.index_damages:
        return (
            f"the index is damaged: {sanitize_name(result.index_damages[0])};"
            " `bygones rebuild` creates a new one"
        )
    if not result.has_index:
        return "there is no valid index; `bygones rebuild` creates one"
    if not result.is_index_current:
        return (
            "the index is not up to date; `bygones ingest` updates it, or reports what"
            " cannot be indexed"
        )
    return ""


def _repair_hint(result: VerificationResult) -> str:
    """Return what to do next; `repair` is not suggested twice."""
    if result.database != "ok":
        return (
            "run `bygones repair`, which writes a new database with all that is intact"
        )
    if count := result.recoverable_count:
        parts = pluralize(count, "damaged part")
        return f"run `bygones repair`: files still contain {parts}"
    if count := result.correctable_count:
        files = pluralize(count, "file")
        return f"run `bygones repair`, which corrects recorded offsets of {files}"
    if result.damages or result.gaps:
        return (
            "everything else is intact. If you have a backup, run"
            " `bygones repair --from BACKUP`; if there is no copy,"
            " `bygones repair --accept-loss`"
        )
    return "run `bygones rebuild`; only the index is damaged"


@click.command("verify")
@click.option("--deep", is_flag=True, help="Also compare the index with a rebuilt one.")
@archive_option
@json_option
@quiet_option
def verify(*, deep: bool, archive: Path | None, as_json: bool, quiet: bool) -> None:
    r"""Check that the archive is intact.

    \b
    bygones verify
    bygones verify --deep
    bygones verify --archive /mnt/disk/bygones

    Every stored byte is compared with its checksum. If something is damaged, the check
    continues and reports which files are intact. `bygones doctor` shows the last result.

    The exit code is 0 if the archive is intact, except for losses that were accepted with
    `bygones repair --accept-loss`, and 13 if it is damaged. With --deep, it
    is 1 if there is no index to compare with, or one that is not up to date, and 12 if
    another process keeps writing.
    """
    folder = resolve_archive_folder(archive)
    now = datetime.now(UTC)  # noqa: TID251 (an interface reads the clock)
    with explain_interrupt("nothing was changed"), StagedProgressBar() as bar:
        result = Archive.verify(folder, deep=deep, progress=bar, now=now)
    if as_json:
        print_objects([*_damage_objects(result), _result_object(result)])
    elif not quiet or not result.is_intact:
        print_report(result, folder)
    if not result.is_saved and not quiet:
        sys.stderr.write("note: the result cannot be saved in the archive\n")
    if not result.is_intact:
        raise click.exceptions.Exit(ExitCode.ARCHIVE_DAMAGED)
    if deep and result.is_busy:
        raise ArchiveInUse(folder)
    if deep and not result.has_index:
        raise IndexNotFound(folder)
    if result.failure is not None:
        raise result.failure
    if deep and not result.is_index_compared:
        raise IndexOutdated(folder)


def _damage_objects(result: VerificationResult) -> Iterator[DamageObject]:
    for damages, is_gap in (
        (result.damages, False),
        (result.gaps, True),
        (result.accepted, False),
    ):
        for damage in damages:
            yield DamageObject(
                source=damage.source,
                generation=damage.generation,
                start=damage.start,
                end=damage.stop,
                reason=damage.reason,
                is_gap=is_gap,
                accepted_at=damage.accepted_at,
            )


def _result_object(result: VerificationResult) -> VerificationObject:
    return VerificationObject(
        is_intact=result.is_intact,
        source_count=result.sources,
        intact_source_count=result.intact_sources,
        chunk_count=result.chunks,
        verified_bytes=result.bytes,
        damage_count=len(result.damages) + len(result.gaps),
        database=result.database,
        has_index=result.has_index,
        is_index_current=result.is_index_current,
        is_index_compared=result.is_index_compared,
        differences=tuple(result.differences),
        recoverable_count=result.recoverable_count,
        accepted_count=len(result.accepted),
        accepted_bytes=sum(one.stop - one.start for one in result.accepted),
    )
