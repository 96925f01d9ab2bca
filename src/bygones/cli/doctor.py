"""``bygones doctor``: what is where, how it is, and what will be lost when."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import click

from bygones.archive import Archive
from bygones.cli.checkup import state
from bygones.cli.complaints import set_aside
from bygones.cli.doctor_page import (
    archive_lines,
    deletion_lines,
    home_lines,
    version_lines,
    wrapped,
)
from bygones.cli.options import Asked, archive_options, colour_option, json_option
from bygones.cli.retention import expiring, known_homes, present, retention
from bygones.cli.rows import BeginRow, print_row
from bygones.cli.screen import Screen

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["doctor"]


@click.command("doctor")
@archive_options
@json_option
@colour_option
def doctor(*, asked: Asked, as_json: bool, colour: str) -> None:
    """Say what is where, how it is, and what Claude Code will delete when.

    Claude Code deletes a transcript some days after it was last written: 30, unless
    cleanupPeriodDays in its settings.json says otherwise. That setting is looked at
    and never changed; what is in the archive stays, whatever it is. Settings of
    Bygones that are wrong are told of, and do not count here.
    """
    with set_aside() as wrong:
        screen = Screen.of(colour)
        homes = known_homes(asked.homes, wrong)
        asked = asked._replace(as_is=asked.as_is or not homes)
        _tell(asked, homes, wrong, screen, as_json=as_json)


def _tell(
    asked: Asked,
    homes: tuple[Path, ...],
    wrong: Sequence[str],
    screen: Screen,
    *,
    as_json: bool,
) -> None:
    # Where there is no archive none is made: that is for who asks to keep something.
    with asked.current() if Archive.exists(asked.folder) else nullcontext() as archive:
        found = state(archive, homes, wrong)
        files = present(archive, homes)
        periods = retention(files, homes)
        going = expiring(archive, files, periods, screen.now)
    if as_json:
        print_row(BeginRow.of("doctor", asked.folder))
        for row in (found, *periods, *going):
            print_row(row)
        return
    lines = [
        *version_lines(found, screen),
        *archive_lines(found, asked, screen),
        *home_lines(periods, screen),
        *deletion_lines(found, periods, going, screen),
    ]
    screen.show(lines if screen.room is None else wrapped(lines, screen.room))
