"""The commands: the one place where a name is given to a module."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["COMMANDS", "CommandRow"]


class CommandRow(NamedTuple):
    """A command's name, what it is for, and the module that holds it.

    The command object has the name of its module: ``recollect.cli.inspect`` holds
    ``inspect``. The module is imported when the command is used, not before.
    """

    name: str
    module: str
    summary: str


COMMANDS = (
    CommandRow(
        "inspect",
        "recollect.cli.inspect",
        "Say what transcripts hold: records, versions, problems, drift.",
    ),
    CommandRow(
        "show",
        "recollect.cli.show",
        "Show a session: prompts, answers, calls and how they ended.",
    ),
)
