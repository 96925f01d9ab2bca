"""``recollect verify``: whether every byte is what was stored."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

import click
from msgspec import structs

from recollect.archive import Archive
from recollect.cli.options import (
    archive_option,
    folder_of,
    json_option,
    quiet_option,
    shown_path,
)
from recollect.cli.rows import BeginRow, DamageRow, VerdictRow, print_row
from recollect.cli.telling import if_stopped
from recollect.cli.terminal import StageBar, plain
from recollect.errors import ExitCode
from recollect.render.figures import several, size
from recollect.upkeep import Verdict

__all__ = ["verify"]

_TOLD = 20
"""Damages that are told one by one."""


@click.command("verify")
@click.option("--deep", is_flag=True, help="Also compare the index with a rebuild.")
@archive_option
@json_option
@quiet_option
def verify(*, deep: bool, archive: Path | None, as_json: bool, quiet: bool) -> None:
    """Check that every byte in the archive is what was stored.

    Damage does not end it: what is still whole is told from what is not. Ends with
    code 0 if all is sound, with 13 if not. When that was, and what it found, is told by
    `recollect doctor` and on the page about the archive.
    """
    folder = folder_of(archive)
    now = datetime.now(UTC)  # noqa: TID251 (a face knows the clock)
    with if_stopped("nothing was changed"), StageBar() as bar:
        verdict = Archive.verify(folder, deep=deep, progress=bar, now=now)
    if as_json:
        _print_rows(verdict, folder)
    elif not quiet or not verdict.is_sound:
        _tell(verdict, folder, deep=deep)
    if not verdict.is_noted and not quiet:
        sys.stderr.write("note: it cannot be written down there that it was verified\n")
    if not verdict.is_sound:
        raise click.exceptions.Exit(ExitCode.ARCHIVE_DAMAGED)


def _tell(verdict: Verdict, folder: Path, *, deep: bool) -> None:
    place = plain(shown_path(folder))
    checked = f"{several(verdict.sources, 'file')}, {size(verdict.bytes)}"
    if verdict.is_sound:
        is_equal = deep and verdict.is_level
        index = " and the index equals a rebuild" if is_equal else ""
        click.echo(f"sound: {checked} in {place}{index}")
        if not verdict.has_index:
            sys.stderr.write(
                "note: there is no sound index; `recollect rebuild` makes one\n"
            )
        elif not verdict.is_level:
            sys.stderr.write(
                "note: the index lags; `recollect ingest` goes on with it\n"
            )
        return
    click.echo(f"damaged: {place}")
    if verdict.database != "ok":
        click.echo(f"  the database: {plain(verdict.database)}")
    bad = [*verdict.damages, *verdict.gaps]
    for damage in bad[:_TOLD]:
        where = f"bytes {damage.start:,} to {damage.stop:,}"
        older = f", generation {damage.generation}" if damage.generation else ""
        source = shown_path(damage.source)
        click.echo(plain(f"  {source}: {where}{older}: {damage.reason}"))
    if len(bad) > _TOLD:
        click.echo(f"  and {len(bad) - _TOLD:,} more")
    for table in verdict.differences:
        click.echo(plain(f"  the index: {table} is not what a rebuild gives"))
    click.echo(
        f"whole: {verdict.whole_sources:,} of {several(verdict.sources, 'file')}"
    )
    sys.stderr.write(f"\nhint: {_advice(verdict)}\n")


def _advice(verdict: Verdict) -> str:
    if verdict.damages or verdict.gaps or verdict.database != "ok":
        return (
            "files that Claude Code still has can be taken in again into a new archive;"
            " for the rest use a backup"
        )
    return "run `recollect rebuild`; no byte of the archive is damaged"


def _print_rows(verdict: Verdict, folder: Path) -> None:
    print_row(BeginRow.of("verify", folder))
    for damage in (*verdict.damages, *verdict.gaps):
        print_row(DamageRow(**structs.asdict(damage)))
    print_row(
        VerdictRow(
            is_sound=verdict.is_sound,
            sources=verdict.sources,
            whole_sources=verdict.whole_sources,
            chunks=verdict.chunks,
            bytes=verdict.bytes,
            damages=len(verdict.damages) + len(verdict.gaps),
            database=verdict.database,
            differences=tuple(verdict.differences),
        )
    )
