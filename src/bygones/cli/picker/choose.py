"""Let the user pick a session where a command has no name for one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bygones.cli.context import LAST, CommonOptions, cwd
from bygones.cli.output import ColorMode, is_color_enabled
from bygones.cli.picker.frame import FirstFrame, PickerOptions
from bygones.cli.picker.listing import FoundSessions, PickerQuery, list_sessions
from bygones.config import load_settings
from bygones.errors import ExitCode

if TYPE_CHECKING:
    from bygones.cli.open_archive import OpenedArchive
    from bygones.cli.picker.screen import PickedSession, Picker

_MIN_COLUMNS = 30
_MIN_LINES = 6

query_option = click.option(
    "--query",
    "pick_query",
    metavar="TEXT",
    help="Pick a session, starting with this search.",
)


def can_pick() -> bool:
    """Whether there is a terminal on which to pick a session, with room for a list."""
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if not is_terminal or os.environ.get("TERM", "dumb") == "dumb":
        return False
    try:
        columns, lines = os.get_terminal_size(sys.stdout.fileno())
    except (OSError, ValueError):
        return False
    return columns >= _MIN_COLUMNS and lines >= _MIN_LINES


@contextmanager
def open_picker(
    opened: OpenedArchive,
    *,
    action: str = "show",
    text: str = "",
    color: str = ColorMode.AUTO,
    allows_actions: bool = False,
) -> Iterator[Picker]:
    """Show the newest sessions at once, and yield the picker that lists them."""
    current = cwd()
    options = PickerOptions(
        action=action,
        text=text,
        directory=os.path.realpath(current) if current else None,
        is_vi=load_settings(os.environ, Path.home()).keys == "vi",
        is_colored=is_color_enabled(ColorMode(color), sys.stdout),
        allows_actions=allows_actions,
    )
    query = PickerQuery(text=text)
    found = FoundSessions(query=query, is_pending=True)
    if not text:
        found = list_sessions(opened.archive, query)
    now = datetime.now(UTC)  # noqa: TID251 (an interface reads the clock)
    with FirstFrame(found, options, now) as frame:
        # It takes longer to import than all that was needed until now.
        from bygones.cli.picker.screen import Picker

        yield Picker(opened, options, found, frame)


def pick_session(
    options: CommonOptions, action: str, *, text: str = "", color: str = ColorMode.AUTO
) -> PickedSession:
    """Return the session that the user picks; quitting ends the command."""
    from bygones.cli.open_archive import open_before_import

    opened = open_before_import(options)
    with (
        opened.archive,
        open_picker(opened, action=action, text=text, color=color) as picker,
    ):
        picked = picker.run()
    if picked is None:
        raise click.exceptions.Exit(ExitCode.INTERRUPTED)
    return picked


def choose_session_name(
    name: str | None,
    pick_query: str | None,
    options: CommonOptions,
    action: str,
    *,
    as_json: bool = False,
) -> str:
    """Return the name that was given, or the id of the session that the user picks.

    In a pipe, and as JSON, it is the newest session.
    """
    if not wants_picker(name, pick_query, as_json=as_json):
        return name if name is not None else LAST
    return pick_session(options, action, text=pick_query or "").session_id


def wants_picker(
    name: str | None, pick_query: str | None, *, as_json: bool = False
) -> bool:
    """Whether a session is to be picked; `--query` cannot do without a terminal."""
    if pick_query is None:
        return name is None and not as_json and can_pick()
    if name is not None:
        raise click.UsageError("give a session or --query, not both")
    if as_json or not can_pick():
        raise click.UsageError("--query needs a terminal; use `bygones search` instead")
    return True
