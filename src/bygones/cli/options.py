"""Options that commands share, and what they stand for."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from bygones.cli.asked import Asked, folder_of, homes_of, opened, shown_path
from bygones.cli.paths import path_type
from bygones.cli.terminal import Colour

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.shell_completion import CompletionItem

__all__ = [
    "Asked",
    "archive_option",
    "archive_options",
    "as_is_option",
    "colour_option",
    "complete_branches",
    "complete_named",
    "complete_places",
    "complete_projects",
    "complete_query",
    "complete_sessions",
    "complete_topics",
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
    help="Where the archive is; else BYGONES_ARCHIVE, else the user's own place.",
)
home_option = click.option(
    "--home",
    "homes",
    multiple=True,
    type=path_type(),
    metavar="PATH",
    help="A home to read, repeatable; else BYGONES_HOME, else those found.",
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


def _completing(name: str) -> Callable[..., list[CompletionItem]]:
    """Return what tells a shell how a word could go on."""

    def ask(
        context: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from bygones.cli import completing  # noqa: PLC0415 (only for a shell)

        found: list[CompletionItem] = getattr(completing, name)(
            context, param, incomplete
        )
        return found

    return ask


complete_branches = _completing("branches_like")
complete_named = _completing("named_like")
complete_places = _completing("places_like")
complete_projects = _completing("projects_like")
complete_query = _completing("query_like")
complete_sessions = _completing("sessions_like")
complete_topics = _completing("topics_like")


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
