"""`bygones verify`: check that every byte is what was stored."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import click

from bygones.archive import Archive
from bygones.cli.context import (
    archive_option,
    display_path,
    json_option,
    quiet_option,
    resolve_archive_folder,
)
from bygones.cli.output import explain_interrupt, print_objects
from bygones.cli.terminal import StagedProgressBar
from bygones.errors import ArchiveInUse, ExitCode, IndexNotFound
from bygones.maintenance.verify import VerificationResult
from bygones.render.numbers import format_bytes, pluralize
from bygones.render.text.primitives import sanitize_name
from bygones.schema.commands import DamageObject, VerificationObject

_MAX_LISTED = 20
"""Damages that are told one by one."""


def print_report(verdict: VerificationResult, folder: Path) -> None:
    """Say what was found, and what to do about it."""
    place = sanitize_name(display_path(folder))
    checked = f"{pluralize(verdict.sources, 'file')}, {format_bytes(verdict.bytes)}"
    if verdict.is_sound:
        index = " and the index equals a rebuild" if verdict.is_index_compared else ""
        click.echo(f"sound: {checked} in {place}{index}")
        if note := _index_note(verdict):
            sys.stderr.write(f"note: {note}\n")
        return
    click.echo(f"damaged: {place}")
    if verdict.database != "ok":
        click.echo(f"  the database: {sanitize_name(verdict.database)}")
    bad = [*verdict.damages, *verdict.gaps]
    for damage in bad[:_MAX_LISTED]:
        where = f"bytes {damage.start:,} to {damage.stop:,}"
        older = f", generation {damage.generation}" if damage.generation else ""
        source = display_path(damage.source)
        click.echo(sanitize_name(f"  {source}: {where}{older}: {damage.reason}"))
    if len(bad) > _MAX_LISTED:
        click.echo(f"  and {len(bad) - _MAX_LISTED:,} more")
    for table in verdict.differences:
        click.echo(sanitize_name(f"  the index: {table} is not what a rebuild gives"))
    click.echo(
        f"whole: {verdict.intact_sources:,} of {pluralize(verdict.sources, 'file')}"
    )
    sys.stderr.write(f"\nhint: {_repair_hint(verdict)}\n")


def _index_note(verdict: VerificationResult) -> str:
    if verdict.is_busy:
        return "the index was not looked at: somebody is writing to it"
    if not verdict.has_index:
        return "there is no sound index; `bygones rebuild` makes one"
    if not verdict.is_index_current:
        return "the index lags; `bygones ingest` goes on with it"
    return ""


def _repair_hint(verdict: VerificationResult) -> str:
    if verdict.damages or verdict.gaps or verdict.database != "ok":
        return (
            "files that Claude Code still has can be taken in again into a new archive;"
            " for the rest use a backup"
        )
    return "run `bygones rebuild`; no byte of the archive is damaged"


@click.command("verify")
@click.option("--deep", is_flag=True, help="Also compare the index with a rebuild.")
@archive_option
@json_option
@quiet_option
def verify(*, deep: bool, archive: Path | None, as_json: bool, quiet: bool) -> None:
    """Check that every byte in the archive is what was stored.

    Damage does not end it: what is still whole is told from what is not. Ends with
    code 0 if all is sound, with 13 if not. With --deep it ends with 1 where there is no
    index to compare, and with 12 where somebody writes all the time. When it was, and
    what it found, is told by `bygones doctor` and on the page about the archive.
    """
    folder = resolve_archive_folder(archive)
    now = datetime.now(UTC)  # noqa: TID251 (an interface reads the clock)
    with explain_interrupt("nothing was changed"), StagedProgressBar() as bar:
        verdict = Archive.verify(folder, deep=deep, progress=bar, now=now)
    if as_json:
        print_objects([*_damage_objects(verdict), _result_object(verdict)])
    elif not quiet or not verdict.is_sound:
        print_report(verdict, folder)
    if not verdict.is_saved and not quiet:
        sys.stderr.write("note: it cannot be written down there that it was verified\n")
    if not verdict.is_sound:
        raise click.exceptions.Exit(ExitCode.ARCHIVE_DAMAGED)
    if deep and verdict.is_busy:
        raise ArchiveInUse(folder)
    if deep and not verdict.has_index:
        raise IndexNotFound(folder)


def _damage_objects(result: VerificationResult) -> Iterator[DamageObject]:
    for damages, is_gap in ((result.damages, False), (result.gaps, True)):
        for damage in damages:
            yield DamageObject(
                source=damage.source,
                generation=damage.generation,
                start=damage.start,
                end=damage.stop,
                reason=damage.reason,
                is_gap=is_gap,
            )


def _result_object(result: VerificationResult) -> VerificationObject:
    return VerificationObject(
        is_sound=result.is_sound,
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
    )
