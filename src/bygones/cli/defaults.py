"""What may stand before any command, and what the user has set once and for all."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from bygones.cli.paging import page_out
from bygones.cli.paths import path_type
from bygones.errors import BygonesError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "HELP",
    "completed",
    "defaults_for",
    "given_to_all",
    "global_options",
    "not_taken",
    "page_help",
]

HELP = ["-h", "--help"]
"""What shows a help page."""
_MILD = {"archive", "homes", "colour", "quiet", "verbose"}
"""What does not matter to a command that has no use for it."""
_PLACES = {"archive", "homes"}
_FLAGS = {"as_json": "--json", "as_is": "--no-ingest"}
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
        click.Option(
            ["--no-ingest", "as_is"], is_flag=True, help="Look for nothing new."
        ),
    ]


def completed(command: click.Command) -> click.Command:
    """Return a command that takes behind it what it has no use for, as before it.

    Its help page goes through a pager, if it is long; and so for those below it.
    """
    taken = {name for param in command.params for name in param.opts}
    for option in global_options():
        if option.name in _MILD and taken.isdisjoint(option.opts):
            option.hidden, option.expose_value = True, False
            option.callback = _note_unused if option.name in _PLACES else None
            command.params.append(option)
    shown = command.get_help_option(click.Context(command, help_option_names=HELP))
    if shown is not None:
        shown.callback = page_help
    for below in command.commands.values() if isinstance(command, click.Group) else ():
        completed(below)
    return command


def page_help(context: click.Context, _: click.Parameter, asked: bool) -> None:
    """Show a help page, a long one on a terminal through a pager."""
    if asked and not context.resilient_parsing:
        page_out(context.get_help().split("\n"), on_terminal=sys.stdout.isatty())
        context.exit()


def _note_unused(
    context: click.Context, option: click.Parameter, given: object
) -> object:
    """Tell whoever names a place that it does not matter; not if it is for all."""
    source = context.get_parameter_source(option.name or "")
    if given and source is ParameterSource.COMMANDLINE:
        name = context.command_path.partition(" ")[2]
        sys.stderr.write(f"note: {name} has no use for {option.opts[0]}\n")
    return given


def given_to_all(params: Mapping[str, object]) -> dict[str, Any]:
    """Return what was said before the command."""
    return {name: value for name, value in params.items() if value}


def defaults_for(
    command: click.Command, params: Mapping[str, object]
) -> dict[str, Any]:
    """Return what a command takes for granted: what was said before it, what is set."""
    taken = {param.name for param in command.params if param.expose_value}
    given = given_to_all(params)
    for name in sorted(given.keys() - taken - _MILD):
        raise click.UsageError(not_taken(command.name or "", _FLAGS[name]))
    # Broken settings stop nobody who has no use for them, a hook least of all.
    told: dict[str, Any] = {}
    try:
        told = _preset() if taken & _SETTABLE else {}
    except BygonesError:
        if command.name not in _GOING_ON:
            raise
    return {k: v for k, v in {**told, **given}.items() if k in taken}


def not_taken(command: str, flag: str) -> str:
    """Return that a command has no use for an option that others have, and why."""
    why = "it takes nothing in before it shows something"
    if flag == "--json":
        why = _NO_ROWS.get(command, "")
    return f"{command} takes no {flag}{f': {why}' if why else ''}"


def _preset() -> dict[str, Any]:
    from bygones.cli.asked import preset  # noqa: PLC0415 (not for help pages)

    return preset()
