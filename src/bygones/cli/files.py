"""``bygones files``: what a session changed, and which sessions changed a file."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bygones.cli.files_table import file_cell, fitted, gathered, session_cell
from bygones.cli.naming import recalled, session_id
from bygones.cli.options import (
    Asked,
    archive_options,
    colour_option,
    complete_places,
    iso_option,
    json_option,
)
from bygones.cli.paths import NO_PATH
from bygones.cli.rows import BeginRow, print_row
from bygones.cli.screen import Screen
from bygones.cli.terminal import plain, table
from bygones.errors import NotArchived

if TYPE_CHECKING:
    from bygones.archive import Archive
    from bygones.model.finds import FoundEdit

__all__ = ["files"]


@click.command("files")
@click.argument("name", metavar="SESSION|PATH", shell_complete=complete_places)
@iso_option
@archive_options
@json_option
@colour_option
def files(*, name: str, iso: bool, asked: Asked, as_json: bool, colour: str) -> None:
    r"""List the files that a session changed, or the sessions that changed a file.

    A SESSION is an id, the beginning of one, "last", or a number of the last search. A
    PATH is that of a file or a folder, or how its path ends. Changes on all branches
    and by all agents count.

    \b
    bygones files last
    bygones files src/app.py
    bygones files .
    """
    screen = Screen.of(colour, iso=iso)
    with asked.current() as archive:
        edits, is_session = _edits(archive, name)
        titles = {} if is_session else {s.id: s.title.text for s in archive.sessions()}
    rows = gathered(edits)
    if as_json:
        print_row(BeginRow.of("files", asked.folder))
        for row in rows:
            print_row(row)
        return
    if not rows:
        nobody = f"no session changed {plain(name)}"
        sys.stderr.write("no file was changed\n" if is_session else f"{nobody}\n")
        return
    head = ("WHEN", "+", "-", "FILE") if is_session else ("WHEN", "+", "-", "SESSION")
    cells = [
        (
            screen.when(row.last),
            f"+{row.added}",
            f"-{row.removed}",
            file_cell(row, screen)
            if is_session
            else session_cell(row, titles, edits, screen),
        )
        for row in rows
    ]
    screen.show(fitted(table([head, *cells], right="lrrl"), screen, by_path=is_session))


def _edits(archive: Archive, name: str) -> tuple[list[FoundEdit], bool]:
    """Return the changes of the session that is meant, else those of the path."""
    if not name.strip():
        raise click.UsageError(NO_PATH)
    looks_so = os.sep in name or "/" in name or name in {".", "..", "~"} or "." in name
    if not looks_so or recalled(name, archive) is not None:
        try:
            return archive.edits(session=session_id(archive, name)), True
        except NotArchived as error:
            if not os.path.lexists(name):
                found = archive.edits(path=name)
                if not found:
                    what = "session or changed file"
                    raise NotArchived(what, name, error.close) from None
                return found, False
    whole = os.path.normpath(Path(name).expanduser().absolute())
    return archive.edits(path=whole) or archive.edits(path=name), False
