"""What is said of parts that are added to Claude Code, or taken away."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from bygones.cli.asked import shown_path
from bygones.cli.terminal import columns, plain, width
from bygones.mcp.claude import Change, State

__all__ = ["show_changes", "tell_change"]

_WORDS = {
    (False, State.MISSING): "would add",
    (False, State.THERE): "is there",
    (False, State.TAKEN): "stays: something else is in its place",
    (True, State.MISSING): "is not there",
    (True, State.THERE): "would remove",
    (True, State.TAKEN): "stays: it is not ours, or was changed",
}


def show_changes(changes: Sequence[Change], *, removing: bool) -> None:
    """Say what would be done with each part, and how to have it done."""
    for change in changes:
        tell_change(_WORDS[removing, change.state], change)
    if any(change.is_needed for change in changes):
        how = "--remove --yes" if removing else "--add"
        sys.stderr.write(f"nothing was written; {how} does it\n")


def tell_change(words: str, change: Change) -> None:
    """Print a part, on a narrow terminal with its file on a line of its own."""
    told, path = f"{words}  {change.what}", plain(shown_path(change.path))
    room = columns(sys.stdout, os.environ) if sys.stdout.isatty() else sys.maxsize
    click.echo(
        f"{told}\n    {path}" if width(told + path) + 2 > room else f"{told}  {path}"
    )
