"""What a restore says: its plan, and what it did."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TextIO

import click

from bygones.cli.options import shown_path
from bygones.cli.rows import FileRow, RestoredRow
from bygones.cli.terminal import plain, table
from bygones.render.figures import several, size
from bygones.upkeep import Plan, Restored, Standing

__all__ = ["rows", "tell", "tell_plan"]

_TOLD = 10
_WORDS = {
    Standing.NEW: "write",
    Standing.SAME: "is there",
    Standing.DIFFERS: "differs",
    Standing.DAMAGED: "damaged",
    Standing.TAKEN: "taken",
    Standing.OUTSIDE: "outside",
}


def tell_plan(plans: Sequence[Plan], stream: TextIO) -> None:
    """Write every file of a plan, with what would become of it."""
    _tell_none(plans)
    cells = [
        (_WORDS[plan.state], size(plan.size), shown_path(plan.path)) for plan in plans
    ]
    stream.writelines(f"{line}\n" for line in table(cells, right="lrl"))
    counts = {state: sum(1 for p in plans if p.state is state) for state in Standing}
    sys.stderr.write(
        f"would write {several(counts[Standing.NEW], 'file')}; "
        f"{counts[Standing.SAME]:,} are there already, "
        f"{counts[Standing.DIFFERS]:,} differ and need --overwrite\n"
    )
    if counts[Standing.TAKEN]:
        sys.stderr.write(
            f"{counts[Standing.TAKEN]:,} would go where a newer copy goes, "
            "and not be written\n"
        )
    if counts[Standing.OUTSIDE]:
        sys.stderr.write(
            f"{counts[Standing.OUTSIDE]:,} would lead out of their home, "
            "and not be written\n"
        )


def tell(plans: Sequence[Plan], done: Restored) -> None:
    """Say what a restore did, and what it left alone."""
    _tell_none(plans)
    were = "was" if done.same == 1 else "were"
    already = f"; {done.same:,} {were} there already" if done.same else ""
    click.echo(f"restored {several(done.written, 'file')}, {size(done.bytes)}{already}")
    for copy in done.copies[:_TOLD]:
        click.echo(f"kept what was there as {plain(shown_path(copy))}")
    if len(done.copies) > _TOLD:
        click.echo(f"and {len(done.copies) - _TOLD:,} more copies")
    for path in done.damaged[:_TOLD]:
        sys.stderr.write(plain(f"damaged in the archive: {shown_path(path)}") + "\n")
    if len(done.damaged) > _TOLD:
        sys.stderr.write(f"and {len(done.damaged) - _TOLD:,} more\n")
    for path, reason in done.refused[:_TOLD]:
        told = f"not written: {shown_path(path)} ({reason.lower()})"
        sys.stderr.write(f"{plain(told)}\n")
    if len(done.refused) > _TOLD:
        sys.stderr.write(f"and {len(done.refused) - _TOLD:,} more\n")
    if done.skipped:
        _tell_skipped(done.skipped)


def _tell_none(plans: Sequence[Plan]) -> None:
    if not plans:
        sys.stderr.write("no file was rewritten so often: none has such a version\n")


def _tell_skipped(paths: Sequence[str]) -> None:
    differ = "1 file differs" if len(paths) == 1 else f"{len(paths):,} files differ"
    sys.stderr.write(f"{differ} from the archive; left alone:\n")
    for path in paths[:_TOLD]:
        sys.stderr.write(f"  {plain(shown_path(path))}\n")
    if len(paths) > _TOLD:
        sys.stderr.write(f"  and {len(paths) - _TOLD:,} more\n")
    sys.stderr.write("\nhint: --overwrite replaces them and keeps copies\n")


def rows(
    plans: Sequence[Plan], done: Restored | None
) -> Iterator[FileRow | RestoredRow]:
    """Yield a plan, and what was done of it, as rows."""
    for plan in plans:
        yield FileRow(path=plan.path, bytes=plan.size, state=plan.state.value)
    result = done or Restored()
    yield RestoredRow(
        written=result.written,
        same=result.same,
        skipped=len(result.skipped),
        bytes=result.bytes,
        damaged=tuple(result.damaged),
        refused=tuple(path for path, _ in result.refused),
        copies=tuple(result.copies),
        is_dry_run=done is None,
    )
