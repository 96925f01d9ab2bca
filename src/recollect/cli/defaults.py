"""What may stand before any command, and what the user has set once and for all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from recollect.cli.paths import path_type
from recollect.errors import RecollectError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["defaults_for", "given_to_all", "global_options", "not_taken"]

_MILD = {"colour", "quiet", "verbose"}
"""What does not matter to a command that has no use for it."""
_SETTABLE = {"colour", "iso", "as_is"}
_GOING_ON = {"doctor", "mcp"}
"""Commands that tell by themselves what is wrong with the settings, and go on."""

_NO_ROWS = {
    "statusline": "it prints the line that Claude Code shows",
    "completion": "it prints a script for a shell",
    "hook": "it prints nothing",
    "mcp": "it speaks JSON-RPC as it is",
    "serve": "it prints a link, and goes on; `open` gives one as a row",
    "migrate": "it prints what it compares as it goes on",
    "hub": "`hub token list` and `hub erase` take it",
}
"""Why a command has nothing to tell in rows."""


def global_options() -> list[click.Option]:
    """Return the options that may stand before a command as well as behind it."""
    path = path_type()
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
        raise click.UsageError(not_taken(command.name or "", flag))
    # Broken settings stop nobody who has no use for them, a hook least of all.
    told: dict[str, Any] = {}
    try:
        told = _preset() if taken & _SETTABLE else {}
    except RecollectError:
        if command.name not in _GOING_ON:
            raise
    return {k: v for k, v in {**told, **given}.items() if k in taken}


def not_taken(command: str, flag: str) -> str:
    """Return that a command has no use for an option that others have, and why."""
    why = _NO_ROWS.get(command, "") if flag == "--json" else ""
    return f"{command} takes no {flag}{f': {why}' if why else ''}"


def _preset() -> dict[str, Any]:
    from recollect.cli.asked import preset  # noqa: PLC0415 (not for help pages)

    return preset()
