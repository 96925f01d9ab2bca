"""`bygones hook`: take in what is new without anybody waiting for it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from bygones.cli.context import (
    archive_option,
    find_homes,
    home_option,
    resolve_archive_folder,
)
from bygones.integrations.statusline_cache import spawn_detached


def ingest_in_background(archive: Path | None, homes: Sequence[Path]) -> None:
    """Start a program of its own that brings the archive up to date, and forget it.

    It outlives whoever started it, says nothing, and waits while another writes.
    """
    words = [sys.executable, "-m", "bygones", "hook", "--now"]
    if archive is not None:
        words += ["--archive", str(archive)]
    for home in homes:
        words += ["--home", str(home)]
    spawn_detached(words)


_LOCK_TIMEOUT = 600.0
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
        ingest_in_background(archive, homes)
        return
    from bygones.archive import Archive

    if hasattr(os, "nice"):
        os.nice(10)
    Archive.ingest(
        resolve_archive_folder(archive),
        find_homes(homes),
        lock_timeout=_LOCK_TIMEOUT,
        is_thorough=True,
    )
