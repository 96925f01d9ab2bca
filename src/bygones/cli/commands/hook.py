"""`bygones hook`: import new transcripts in the background."""

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
from bygones.config import load_redactor
from bygones.integrations.statusline_cache import spawn_detached


def ingest_in_background(archive: Path | None, homes: Sequence[Path]) -> None:
    """Start a detached process that brings the archive up to date.

    It prints nothing, and waits while another process is writing.
    """
    command = [sys.executable, "-m", "bygones", "hook", "--now"]
    if archive is not None:
        command += ["--archive", str(archive)]
    for home in homes:
        command += ["--home", str(home)]
    spawn_detached(command)


_LOCK_TIMEOUT = 600.0
"""Seconds to wait for another writer; the next hook imports the rest."""


@click.command("hook")
@click.option("--now", is_flag=True, help="Import in the foreground.")
@archive_option
@home_option
def hook(*, now: bool, archive: Path | None, homes: tuple[Path, ...]) -> None:
    r"""Import new transcripts in the background, for hooks.

    \b
    bygones hook

    Always returns at once with exit code 0, because a hook must not delay a session. The
    archive is created if it does not exist.
    """
    if not now:
        ingest_in_background(archive, homes)
        return
    from bygones.archive import Archive
    from bygones.cli.output import print_failure
    from bygones.integrations import recall_index

    if hasattr(os, "nice"):
        os.nice(10)
    folder = resolve_archive_folder(archive)
    report = Archive.ingest(
        folder,
        find_homes(homes),
        lock_timeout=_LOCK_TIMEOUT,
        is_thorough=True,
    )
    if recall_index.is_enabled(folder):
        redactor = load_redactor(os.environ, Path.home()).for_this_machine()
        recall_index.update_recall(folder, redactor.redact_text)
    print_failure(report.failure)
