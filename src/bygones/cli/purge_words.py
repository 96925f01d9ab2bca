"""What a purge says and asks before it erases."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import click

from bygones.archive import Archive
from bygones.cli.options import shown_path
from bygones.cli.terminal import columns, fit_right
from bygones.model.ids import SessionId
from bygones.model.listing import Listed
from bygones.render.figures import clock, several, size
from bygones.render.safe import safe_line
from bygones.store.chunks import Kept

__all__ = ["confirm", "tell", "tell_interruption", "tell_kin", "tell_unfinished"]

_TOLD = 10
_TITLE = 60
_BEFORE = 28
"""Columns in front of a title."""


def tell(
    chosen: Sequence[Listed], gone: Sequence[SessionId], files: int, count: int
) -> None:
    """Print what would be erased, and which of it is erased already."""
    for one in chosen[:_TOLD]:
        when = clock(one.ended, None) if one.ended else " " * 16
        title = fit_right(safe_line(one.title.text), _room())
        click.echo(f"{safe_line(one.id)[:8]}  {when}  {title}")
    if len(chosen) > _TOLD:
        click.echo(f"and {len(chosen) - _TOLD:,} more")
    for id_ in gone:
        click.echo(f"{safe_line(id_)[:8]}  erased before")
    if chosen or files or not gone:
        sessions = several(len(chosen), "session")
        click.echo(f"{sessions}: {several(files, 'file')}, {size(count)}")


def _room() -> int:
    return max(min(columns(sys.stdout, os.environ) - _BEFORE, _TITLE), 1)


def tell_kin(kin: AbstractSet[SessionId], shared: Sequence[Kept]) -> None:
    """Say what holds some of the same and is not erased."""
    if kin:
        names = ", ".join(safe_line(id_)[:8] for id_ in sorted(kin)[:_TOLD])
        sys.stderr.write(f"note: sessions that share records with them stay: {names}\n")
    for kept in shared:
        place = safe_line(shown_path(kept.id))
        sys.stderr.write(f"note: {place} names them and stays; see --mentions\n")


def tell_unfinished(archive: Archive, *, dry_run: bool) -> bool:
    """Say whether a purge was stopped before no byte was left, and return it."""
    is_left = archive.is_erasing
    if is_left:
        told = "asking for it again finishes it" if dry_run else "this finishes it"
        sys.stderr.write(f"note: a purge was stopped halfway; {told}\n")
    return is_left


def tell_interruption(archive: Archive, sources: Sequence[Kept]) -> None:
    """Say how far a purge came that was stopped, and what to do."""
    left = {kept.number for kept in archive.sources()}
    if archive.is_erasing:
        told = (
            "it is erased and nothing shows it, but its bytes may still be in the"
            " file; run it again to finish"
        )
    elif any(kept.number in left for kept in sources):
        told = "nothing is erased; run it again"
    else:
        told = "all of it is erased"
    sys.stderr.write(f"\ninterrupted: {told}\n")
    if not archive.has_index:
        sys.stderr.write("the index is made anew by that, or by bygones rebuild\n")


def confirm(*, yes: bool) -> None:
    """Ask whoever is there whether to erase, unless that was said already."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError("nobody can be asked here; give --yes to erase")
    click.confirm("Erase for good?", abort=True, err=True)
