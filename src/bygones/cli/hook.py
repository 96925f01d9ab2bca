"""``bygones hook``: what Claude Code's hooks run; it returns at once."""

from __future__ import annotations

import os
from pathlib import Path

import click

from bygones.cli.background import take_in_later
from bygones.cli.options import archive_option, folder_of, home_option, homes_of

__all__ = ["hook"]

_PATIENCE = 600.0
"""Seconds to wait while another writes; what is not taken in now is the next time."""


@click.command("hook")
@click.option("--now", is_flag=True, help="Take it in here, and return when done.")
@archive_option
@home_option
def hook(*, now: bool, archive: Path | None, homes: tuple[Path, ...]) -> None:
    r"""Take in what is new, in the background; for hooks of Claude Code.

    It returns at once and with success, whatever state the archive is in: a hook must
    never hold up a session. An archive that is not there yet is made.

    \b
    bygones hook
    """
    if not now:
        take_in_later(archive, homes)
        return
    from bygones.archive import Archive  # noqa: PLC0415 (not where somebody waits)

    if hasattr(os, "nice"):
        os.nice(10)
    Archive.ingest(
        folder_of(archive), homes_of(homes), wait=_PATIENCE, is_thorough=True
    )
