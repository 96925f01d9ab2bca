"""Options that commands share, and what they stand for."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import click

from recollect.archive import Archive
from recollect.cli.terminal import Colour, short_path
from recollect.settings import archive_folder, source_homes

__all__ = [
    "archive_option",
    "colour_option",
    "folder_of",
    "home_option",
    "homes_of",
    "json_option",
    "opened",
    "quiet_option",
    "shown_path",
]

archive_option = click.option(
    "--archive",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Where the archive is; else RECOLLECT_ARCHIVE, else the user's own place.",
)
home_option = click.option(
    "--home",
    "homes",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="A home to take in, repeatable; else RECOLLECT_HOME, else those found.",
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object a line."
)
quiet_option = click.option(
    "-q", "--quiet", is_flag=True, help="Say nothing unless something is wrong."
)
colour_option = click.option(
    "--color",
    "colour",
    type=click.Choice([choice.value for choice in Colour]),
    default=Colour.AUTO.value,
    show_default=True,
    help="When to use colour; NO_COLOR is honoured.",
)


def folder_of(archive: Path | None) -> Path:
    """Return the folder of the archive that is meant."""
    return archive_folder(archive, os.environ, Path.home())


def homes_of(homes: Sequence[Path]) -> tuple[Path, ...]:
    """Return the homes that are meant."""
    return source_homes(homes, os.environ, Path.home())


def opened(archive: Path | None) -> Archive:
    """Return the archive that is meant, open for reading."""
    return Archive.open(folder_of(archive))


def shown_path(path: str | Path) -> str:
    """Return a path as one would type it anywhere."""
    home = Path.home()
    return "~" if str(path) == str(home) else short_path(str(path), home=home)
