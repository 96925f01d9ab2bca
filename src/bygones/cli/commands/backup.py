"""`bygones backup`: copy the archive."""

from __future__ import annotations

from pathlib import Path

import click

from bygones.cli.context import (
    archive_option,
    json_option,
    open_without_ingest,
    path_type,
    quiet_option,
)
from bygones.cli.output import display_path, explain_interrupt, print_objects
from bygones.render.numbers import format_bytes
from bygones.render.text.primitives import sanitize_name
from bygones.schema.commands import BackupObject

__all__ = ["backup"]


@click.command("backup")
@click.argument("folder", metavar="DEST", type=path_type())
@archive_option
@json_option
@quiet_option
def backup(folder: Path, *, archive: Path | None, as_json: bool, quiet: bool) -> None:
    r"""Copy the archive to another folder.

    \b
    bygones backup /mnt/disk/bygones
    bygones verify --archive /mnt/disk/bygones
    bygones rebuild --archive /mnt/disk/bygones

    The copy is consistent, even during an import. DEST may contain an older backup of the
    same archive, which is replaced when the new one is complete; a backup with sessions
    that this archive does not have is never replaced. The index is not copied; `rebuild`
    creates it again.
    """
    place = folder.expanduser().absolute()
    with open_without_ingest(archive) as opened:
        with explain_interrupt("no backup was written; run it again"):
            written = opened.backup(place)
        if as_json:
            print_objects([BackupObject(folder=str(place), written_bytes=written)])
        elif not quiet:
            click.echo(
                f"wrote {format_bytes(written)} to {sanitize_name(display_path(place))}"
            )
