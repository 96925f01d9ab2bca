"""``bygones statusline``: a line about this project, below Claude Code's prompt."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import click

from bygones.cli.quick import quick
from bygones.mcp.glance import Glance

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
        quick()
        return
    from bygones.mcp.status import status_line  # noqa: PLC0415 (nobody waits here)
    from bygones.settings import archive_folder, prices_file  # noqa: PLC0415

    asked = now.encode("utf-8", "surrogateescape")
    moment = datetime.now(UTC)  # noqa: TID251 (a face knows the clock)
    home = Path.home()
    line = status_line(
        archive_folder(None, os.environ, home),
        asked,
        now=moment,
        zone=moment.astimezone().tzinfo or UTC,
        prices=prices_file(os.environ, home),
    )
    Glance(asked, os.environ).keep(line)
