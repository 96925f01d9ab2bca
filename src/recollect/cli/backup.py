"""``recollect backup``: a second copy of the archive."""

from __future__ import annotations

from pathlib import Path

import click

from recollect.cli.options import (
    archive_option,
    json_option,
    opened,
    quiet_option,
    shown_path,
)
from recollect.cli.paths import path_type
from recollect.cli.rows import BackupRow, BeginRow, print_row
from recollect.cli.telling import if_stopped
from recollect.cli.terminal import plain
from recollect.render.figures import size

__all__ = ["backup"]


@click.command("backup")
@click.argument("folder", metavar="DEST", type=path_type())
@archive_option
@json_option
@quiet_option
def backup(folder: Path, *, archive: Path | None, as_json: bool, quiet: bool) -> None:
    r"""Write a copy of the archive into the folder DEST.

    The copy is consistent, also while something is being ingested. DEST may hold an
    older backup of the same archive, which is replaced when the new one is whole; a
    copy that has something this archive has not is refused, and left as it is.
    The index is not copied: it can be made anew.

    \b
    recollect backup /mnt/disk/recollect
    recollect verify --archive /mnt/disk/recollect
    recollect rebuild --archive /mnt/disk/recollect
    """
    place = folder.expanduser().absolute()
    with opened(archive) as archived:
        with if_stopped("no copy was made; run it again"):
            written = archived.backup(place)
        if as_json:
            print_row(BeginRow.of("backup", archived.folder))
            print_row(BackupRow(folder=str(place), bytes=written))
        elif not quiet:
            click.echo(f"{size(written)} in {plain(shown_path(place))}")
