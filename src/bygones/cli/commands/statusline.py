"""`bygones statusline`: the status line of Claude Code."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import click

from bygones.integrations.statusline_cache import StatusLineCache, print_status_line

__all__ = ["statusline"]


@click.command("statusline")
@click.option(
    "--now", metavar="JSON", help="Compute and cache the line for this input."
)
def statusline(*, now: str | None) -> None:
    r"""Print a line for Claude Code's status line.

    \b
    bygones statusline

    The line shows the number of sessions of this project, today's cost and the most
    similar session. It is cached for 30 seconds.
    """
    if now is None:
        print_status_line()
        return
    from bygones.config import find_prices_file, resolve_archive_location
    from bygones.integrations.statusline import build_status_line

    context = now.encode("utf-8", "surrogateescape")
    moment = datetime.now(UTC)  # noqa: TID251 (an interface reads the clock)
    home = Path.home()
    line = build_status_line(
        resolve_archive_location(None, os.environ, home),
        context,
        now=moment,
        zone=moment.astimezone().tzinfo or UTC,
        prices_path=find_prices_file(os.environ, home),
    )
    StatusLineCache(context, os.environ).save(line)
