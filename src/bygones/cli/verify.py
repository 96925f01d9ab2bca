"""``bygones verify``: whether every byte is what was stored."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

import click
from msgspec import structs

from bygones.archive import Archive
from bygones.cli.options import (
    archive_option,
    folder_of,
    json_option,
    quiet_option,
)
from bygones.cli.rows import BeginRow, DamageRow, VerdictRow, print_row
from bygones.cli.telling import if_stopped
from bygones.cli.terminal import StageBar
from bygones.cli.verify_words import tell_verdict
from bygones.errors import ArchiveInUse, ExitCode, IndexMissing
from bygones.upkeep import Verdict

__all__ = ["verify"]


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
    folder = folder_of(archive)
    now = datetime.now(UTC)  # noqa: TID251 (a face knows the clock)
    with if_stopped("nothing was changed"), StageBar() as bar:
        verdict = Archive.verify(folder, deep=deep, progress=bar, now=now)
    if as_json:
        _print_rows(verdict, folder)
    elif not quiet or not verdict.is_sound:
        tell_verdict(verdict, folder)
    if not verdict.is_noted and not quiet:
        sys.stderr.write("note: it cannot be written down there that it was verified\n")
    if not verdict.is_sound:
        raise click.exceptions.Exit(ExitCode.ARCHIVE_DAMAGED)
    if deep and verdict.is_busy:
        raise ArchiveInUse(folder)
    if deep and not verdict.has_index:
        raise IndexMissing(folder)


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
            is_compared=verdict.is_compared,
            differences=tuple(verdict.differences),
        )
    )
