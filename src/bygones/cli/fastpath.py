"""The status line without click, which would take longer than the line itself."""

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
    """Print the cached line, and refresh it in the background if it is old."""
    cache = StatusLineCache(read_stdin(), os.environ)
    line, is_fresh = cache.load()
    sys.stdout.write(f"{line}\n")
    if not is_fresh:
        context = os.fsdecode(cache.context_json)
        command = [sys.executable, "-m", "bygones", "statusline", "--now", context]
        spawn_detached(command)
    return 0
