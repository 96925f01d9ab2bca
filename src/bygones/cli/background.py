"""Taking in what is new without anybody waiting for it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from bygones.mcp.glance import start_apart

__all__ = ["take_in_later"]


def take_in_later(archive: Path | None, homes: Sequence[Path]) -> None:
    """Start a program of its own that brings the archive up to date, and forget it.

    It outlives whoever started it, says nothing, and waits while another writes.
    """
    words = [sys.executable, "-m", "bygones", "hook", "--now"]
    if archive is not None:
        words += ["--archive", str(archive)]
    for home in homes:
        words += ["--home", str(home)]
    start_apart(words)
