"""`bygones` without a command: pick a session; in a pipe, list all of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bygones.cli.context import FROM_PICKER, CommonOptions
from bygones.cli.open_archive import (
    OpenedArchive,
    load_session_costs,
    open_before_import,
    open_current,
)
from bygones.cli.output import ColorMode, Console, find_pager
from bygones.cli.picker.choose import open_picker, wants_picker
from bygones.errors import NoArchiveAndNoHome

if TYPE_CHECKING:
    from bygones.archive import Archive
    from bygones.cli.picker.screen import PickedSession


__all__ = ["show_overview"]

_NO_HOME_MESSAGE = """\
There is no Claude Code home, and no archive yet.

  bygones demo                 creates sample sessions to try Bygones with
  bygones ingest --home PATH   imports sessions from another home
"""


def show_overview(  # noqa: PLR0913 (the shared options)
    *,
    archive: Path | None = None,
    homes: tuple[Path, ...] = (),
    pick_query: str | None = None,
    as_json: bool = False,
    color: str = ColorMode.AUTO,
    iso: bool = False,
    no_ingest: bool = False,
    quiet: bool = False,
    verbose: bool = False,
) -> None:
    """Let the user pick sessions; in a pipe, list all of them."""
    options = CommonOptions(archive, homes, no_ingest, quiet, verbose)
    console = Console.for_stdout(color, iso=iso)
    is_picker = wants_picker(None, pick_query, as_json=as_json)
    try:
        opened = (
            open_before_import(options)
            if is_picker
            else OpenedArchive(open_current(options))
        )
    except NoArchiveAndNoHome:
        if not console.is_terminal:
            raise
        sys.stderr.write(_NO_HOME_MESSAGE)
        return
    with opened.archive as current:
        if not is_picker:
            _print_all(current, console, as_json=as_json)
        elif next(current.sessions(), None) is None:
            sys.stderr.write("no sessions yet; `bygones demo` creates sample ones\n")
        else:
            _pick(opened, options, pick_query or "", color)


def _pick(opened: OpenedArchive, options: CommonOptions, text: str, color: str) -> None:
    """Run the picker until the user quits, or does more than reading a session."""
    with open_picker(opened, text=text, color=color, allows_actions=True) as picker:
        while (picked := picker.run()) is not None:
            # The pager covers the terminal, and the picker is shown again after it.
            is_shown = picked.action == "show" and bool(find_pager())
            _run_command(_action_words(picked, options, color), is_from_picker=is_shown)
            if not is_shown:
                return


def _run_command(words: list[str], *, is_from_picker: bool) -> None:
    group = click.get_current_context().command
    with group.make_context("bygones", words) as context:
        context.meta[FROM_PICKER] = is_from_picker
        group.invoke(context)


def _action_words(
    picked: PickedSession, options: CommonOptions, color: str
) -> list[str]:
    """Return the command line of what was chosen in the picker."""
    words = [picked.action, picked.session_id, *_option_words(options)]
    if picked.action == "show":
        words += ["--color", ColorMode(color).value]
        words += ["--find", picked.query] if picked.query.strip() else []
    elif picked.action in {"resume", "fork"}:
        words.append("--run")
    return words


def _option_words(options: CommonOptions) -> Iterator[str]:
    if options.archive is not None:
        yield from ("--archive", str(options.archive))
    for home in options.homes:
        yield from ("--home", str(home))
    flags = (
        ("--no-ingest", options.no_ingest),
        ("--quiet", options.quiet),
        ("--verbose", options.verbose),
    )
    yield from (name for name, is_set in flags if is_set)


def _print_all(archive: Archive, console: Console, *, as_json: bool) -> None:
    from bygones.cli.commands.list import SessionTable, print_sessions_json

    sessions = list(archive.sessions())
    spent = load_session_costs(archive, sessions)
    if not as_json:
        console.print_lines(
            SessionTable(console, spent).lines(sessions) if sessions else ()
        )
        return
    print_sessions_json(sessions, spent)
