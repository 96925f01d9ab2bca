"""Options that commands share, and what they stand for."""

from __future__ import annotations

import os
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from recollect.cli.terminal import Colour, short_path
from recollect.settings import archive_folder, source_homes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from click.shell_completion import CompletionItem

    from recollect.archive import Archive

__all__ = [
    "Asked",
    "archive_option",
    "archive_options",
    "as_is_option",
    "colour_option",
    "complete_projects",
    "complete_sessions",
    "folder_of",
    "home_option",
    "homes_of",
    "iso_option",
    "json_option",
    "opened",
    "quiet_option",
    "shown_path",
    "verbose_option",
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
verbose_option = click.option(
    "-v", "--verbose", is_flag=True, help="Say what was taken in, and what was odd."
)
iso_option = click.option(
    "--iso", is_flag=True, help="Print times as such, not how long ago."
)
as_is_option = click.option(
    "--no-ingest",
    "as_is",
    is_flag=True,
    help="Show what the archive has; do not look for what is new.",
)
colour_option = click.option(
    "--color",
    "colour",
    type=click.Choice([choice.value for choice in Colour]),
    default=Colour.AUTO.value,
    show_default=True,
    help="When to use colour; NO_COLOR is honoured.",
)


def complete_sessions(
    context: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Tell a shell which sessions there are."""
    from recollect.cli.completing import sessions_like  # noqa: PLC0415 (for a shell)

    return sessions_like(context, param, incomplete)


def complete_projects(
    context: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Tell a shell which projects there are."""
    from recollect.cli.completing import projects_like  # noqa: PLC0415 (for a shell)

    return projects_like(context, param, incomplete)


class Asked(NamedTuple):
    """Which archive a command is about, and how fresh it has to be."""

    archive: Path | None = None
    homes: tuple[Path, ...] = ()
    as_is: bool = False
    quiet: bool = False
    verbose: bool = False

    @property
    def is_fixed(self) -> bool:
        """Whether to show the archive as it is: when told so, or when it is named.

        A named archive may be a backup, or that of somebody else; it is brought up to
        date with the homes that are named beside it, and with no others.
        """
        return self.as_is or (self.archive is not None and not self.homes)

    @property
    def folder(self) -> Path:
        """The folder of the archive."""
        return folder_of(self.archive)

    def current(self) -> Archive:
        """Return the archive, open for reading, with what is new taken in.

        Where there is none yet, one is made if somebody watches, with a progress bar.
        """
        from recollect.cli.freshness import fresh  # noqa: PLC0415 (with it the archive)

        return fresh(self)


def archive_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of one that shows what the archive has.

    It gets them as ``asked``.
    """

    @wraps(command)
    def asking(**given: Any) -> None:  # noqa: ANN401 (click's business)
        asked = Asked(**{name: given.pop(name) for name in Asked._fields})
        command(asked=asked, **given)

    optioned = quiet_option(verbose_option(asking))
    return archive_option(home_option(as_is_option(optioned)))


def folder_of(archive: Path | None) -> Path:
    """Return the folder of the archive that is meant."""
    return archive_folder(archive, os.environ, Path.home())


def homes_of(homes: Sequence[Path]) -> tuple[Path, ...]:
    """Return the homes that are meant."""
    return source_homes(homes, os.environ, Path.home())


def opened(archive: Path | None) -> Archive:
    """Return the archive that is meant, open for reading."""
    from recollect.archive import Archive  # noqa: PLC0415 (not for a help page)

    return Archive.open(folder_of(archive))


def shown_path(path: str | Path) -> str:
    """Return a path as one would type it anywhere."""
    home = Path.home()
    return "~" if str(path) == str(home) else short_path(str(path), home=home)
