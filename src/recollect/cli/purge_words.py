"""What a purge says and asks before it erases."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import click

from recollect.cli.options import shown_path
from recollect.cli.terminal import fit_right
from recollect.model.ids import SessionId
from recollect.model.listing import Listed
from recollect.render.figures import clock, several, size
from recollect.render.safe import safe_line
from recollect.store.chunks import Kept

__all__ = ["confirm", "tell", "tell_kin"]

_TOLD = 10
_TITLE = 60


def tell(chosen: Sequence[Listed], files: int, count: int) -> None:
    """Print what would be erased."""
    for one in chosen[:_TOLD]:
        when = clock(one.ended, None) if one.ended else " " * 16
        title = fit_right(safe_line(one.title.text), _TITLE)
        click.echo(f"{safe_line(one.id)[:8]}  {when}  {title}")
    if len(chosen) > _TOLD:
        click.echo(f"and {len(chosen) - _TOLD:,} more")
    told = f"{several(len(chosen), 'session')}: {several(files, 'file')}, {size(count)}"
    click.echo(told)


def tell_kin(kin: AbstractSet[SessionId], shared: Sequence[Kept]) -> None:
    """Say what holds some of the same and is not erased."""
    if kin:
        names = ", ".join(safe_line(id_)[:8] for id_ in sorted(kin)[:_TOLD])
        sys.stderr.write(f"note: sessions that share records with them stay: {names}\n")
    for kept in shared:
        place = safe_line(shown_path(kept.id))
        sys.stderr.write(f"note: {place} names them and stays; see --mentions\n")


def confirm(*, yes: bool) -> None:
    """Ask whoever is there whether to erase, unless that was said already."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError("nobody can be asked here; give --yes to erase")
    click.confirm("Erase for good?", abort=True, err=True)
