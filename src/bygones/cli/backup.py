"""``bygones backup``: a second copy of the archive."""

from __future__ import annotations

from pathlib import Path

import click

from bygones.cli.options import (
    archive_option,
    json_option,
    opened,
    quiet_option,
    shown_path,
)
from bygones.cli.paths import path_type
from bygones.cli.rows import BackupRow, BeginRow, print_row
from bygones.cli.telling import if_stopped
from bygones.cli.terminal import plain
from bygones.render.figures import size

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
    bygones backup /mnt/disk/bygones
    bygones verify --archive /mnt/disk/bygones
    bygones rebuild --archive /mnt/disk/bygones
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
