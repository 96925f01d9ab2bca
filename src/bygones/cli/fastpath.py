"""The status line without the command line around it, which takes longer than it."""

from __future__ import annotations

import os
import sys

from bygones.integrations.statusline_cache import (
    StatusLineCache,
    read_stdin,
    spawn_detached,
)

__all__ = ["print_status_line"]


def print_status_line() -> int:
    """Print the line as it was last made; have it made anew if it is old."""
    glance = StatusLineCache(read_stdin(), os.environ)
    line, is_fresh = glance.load()
    sys.stdout.write(f"{line}\n")
    if not is_fresh:
        about = os.fsdecode(glance.context_json)
        words = [sys.executable, "-m", "bygones", "statusline", "--now", about]
        spawn_detached(words)
    return 0
