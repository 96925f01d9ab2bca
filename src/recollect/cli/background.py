"""Taking in what is new without anybody waiting for it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["take_in_later"]


def take_in_later(archive: Path | None, homes: Sequence[Path]) -> None:
    """Start a program of its own that brings the archive up to date, and forget it.

    It outlives whoever started it, says nothing, and waits while another writes.
    """
    words = [sys.executable, "-m", "recollect", "hook", "--now"]
    if archive is not None:
        words += ["--archive", str(archive)]
    for home in homes:
        words += ["--home", str(home)]
    nothing = subprocess.DEVNULL
    apart = 0
    if sys.platform == "win32":
        apart = subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP
    subprocess.Popen(  # noqa: S603 (our own command, with paths that the user gave)
        words,
        stdin=nothing,
        stdout=nothing,
        stderr=nothing,
        start_new_session=True,
        creationflags=apart,
        # Whoever deletes the directory that we were started in must not be hindered.
        cwd=os.path.abspath(os.sep),  # noqa: PTH100 (the root of this drive)
    )
