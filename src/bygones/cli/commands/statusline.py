"""`bygones statusline`: a line about this project, below Claude Code's prompt."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import click

from bygones.cli.fastpath import print_status_line
from bygones.integrations.statusline_cache import StatusLineCache

__all__ = ["statusline"]


@click.command("statusline")
@click.option("--now", metavar="JSON", help="Make the line about this directory anew.")
def statusline(*, now: str | None) -> None:
    r"""Print a line about this project, for Claude Code's status line.

    How many sessions it has, what today cost, and the session most like this one. The
    line is what was worked out up to half a minute ago: it costs next to nothing.

    \b
    bygones statusline
    """
    if now is None:
        print_status_line()
        return
    from bygones.config import find_prices_file, resolve_archive_location
    from bygones.integrations.statusline import build_status_line

    asked = now.encode("utf-8", "surrogateescape")
    moment = datetime.now(UTC)  # noqa: TID251 (an interface reads the clock)
    home = Path.home()
    line = build_status_line(
        resolve_archive_location(None, os.environ, home),
        asked,
        now=moment,
        zone=moment.astimezone().tzinfo or UTC,
        prices_path=find_prices_file(os.environ, home),
    )
    StatusLineCache(asked, os.environ).save(line)
