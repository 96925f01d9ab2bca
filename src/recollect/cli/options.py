"""Options that commands share, and what they stand for."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from recollect.cli.asked import Asked, folder_of, homes_of, opened, shown_path
from recollect.cli.paths import path_type
from recollect.cli.terminal import Colour

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.shell_completion import CompletionItem

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
    type=path_type(),
    metavar="FOLDER",
    help="Where the archive is; else RECOLLECT_ARCHIVE, else the user's own place.",
)
home_option = click.option(
    "--home",
    "homes",
    multiple=True,
    type=path_type(),
    metavar="PATH",
    help="A home to read, repeatable; else RECOLLECT_HOME, else those found.",
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
