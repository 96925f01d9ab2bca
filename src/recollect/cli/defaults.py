"""What may stand before any command, and what the user has set once and for all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["defaults_for", "given_to_all", "global_options"]

_MILD = {"colour", "quiet", "verbose"}
"""What does not matter to a command that has no use for it."""
_SETTABLE = {"colour", "iso", "as_is"}


def global_options() -> list[click.Option]:
    """Return the options that may stand before a command as well as behind it."""
    path = click.Path(path_type=Path)
    colours = click.Choice(["auto", "always", "never"])
    return [
        click.Option(["--archive"], type=path, metavar="FOLDER", help="The archive."),
        click.Option(
            ["--home", "homes"],
            type=path,
            multiple=True,
            metavar="PATH",
            help="A home to take in; repeatable.",
        ),
        click.Option(["--json", "as_json"], is_flag=True, help="One object a line."),
        click.Option(["--color", "colour"], type=colours, help="When to use colour."),
        click.Option(["-q", "--quiet"], is_flag=True, help="Say only what is wrong."),
        click.Option(["-v", "--verbose"], is_flag=True, help="Say what is done."),
    ]


def given_to_all(params: Mapping[str, object]) -> dict[str, Any]:
    """Return what was said before the command."""
    return {name: value for name, value in params.items() if value}


def defaults_for(
    command: click.Command, params: Mapping[str, object]
) -> dict[str, Any]:
    """Return what a command takes for granted: what was said before it, what is set."""
    taken = {param.name for param in command.params}
    given = given_to_all(params)
    for name in given.keys() - taken - _MILD:
        flag = {"as_json": "--json", "homes": "--home"}.get(name, f"--{name}")
        raise click.UsageError(f"{command.name} takes no {flag}")
    # Broken settings stop nobody who has no use for them, a hook least of all.
    told = _set_by_user() if taken & _SETTABLE else {}
    return {k: v for k, v in {**told, **given}.items() if k in taken}


def _set_by_user() -> dict[str, Any]:
    from recollect.settings import read_settings  # noqa: PLC0415 (not for help pages)

    told = read_settings(os.environ, Path.home())
    found = {"colour": told.color, "iso": told.iso}
    if told.ingest is not None:
        found["as_is"] = not told.ingest
    return {name: value for name, value in found.items() if value is not None}
