"""The commands: the one place where a name is given to a module."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["COMMANDS", "CommandRow"]


class CommandRow(NamedTuple):
    """A command's name, what it is for, and the module that holds it.

    The command object has the name of its module: ``bygones.cli.inspect`` holds
    ``inspect``. The module is imported when the command is used, not before.
    """

    name: str
    module: str
    summary: str


COMMANDS = (
    CommandRow(
        "ingest",
        "bygones.cli.ingest",
        "Copy what Claude Code wrote into the archive, and index it.",
    ),
    CommandRow(
        "watch",
        "bygones.cli.watch",
        "Keep the archive current while Claude Code writes.",
    ),
    CommandRow(
        "search",
        "bygones.cli.search",
        "Find sessions by what was said, run, read or answered in them.",
    ),
    CommandRow(
        "list",
        "bygones.cli.list_sessions",
        "List sessions, newest first.",
    ),
    CommandRow(
        "projects",
        "bygones.cli.projects",
        "List projects, the one last worked on first.",
    ),
    CommandRow(
        "show",
        "bygones.cli.show",
        "Show a session: prompts, answers, calls and how they ended.",
    ),
    CommandRow(
        "open",
        "bygones.cli.open_page",
        "Open a session in the browser.",
    ),
    CommandRow(
        "usage",
        "bygones.cli.usage",
        "Say where the tokens and the money went.",
    ),
    CommandRow(
        "export",
        "bygones.cli.export",
        "Write sessions as pages and files that can be given away.",
    ),
    CommandRow(
        "tree",
        "bygones.cli.tree",
        "Draw a session: its turns, branches, agents and compactions.",
    ),
    CommandRow(
        "files",
        "bygones.cli.files",
        "List what a session changed, or which sessions changed a file.",
    ),
    CommandRow(
        "prompts",
        "bygones.cli.prompts",
        "List what you typed, in all sessions.",
    ),
    CommandRow(
        "tag",
        "bygones.cli.tag",
        "Tag a session, or list tags.",
    ),
    CommandRow(
        "note",
        "bygones.cli.note",
        "Write a note beside a session.",
    ),
    CommandRow(
        "star",
        "bygones.cli.star",
        "Star sessions to come back to.",
    ),
    CommandRow(
        "resume",
        "bygones.cli.resume",
        "Go on with a session in Claude Code.",
    ),
    CommandRow(
        "doctor",
        "bygones.cli.doctor",
        "Say what is where, and what Claude Code will delete when.",
    ),
    CommandRow(
        "serve",
        "bygones.cli.serve",
        "Show the archive in a browser: read, find and watch.",
    ),
    CommandRow(
        "verify",
        "bygones.cli.verify",
        "Check that every byte in the archive is what was stored.",
    ),
    CommandRow(
        "rebuild",
        "bygones.cli.rebuild",
        "Make the index anew from the archive alone.",
    ),
    CommandRow(
        "backup",
        "bygones.cli.backup",
        "Write a copy of the archive into a folder.",
    ),
    CommandRow(
        "restore",
        "bygones.cli.restore",
        "Write the original files back, byte for byte.",
    ),
    CommandRow(
        "purge",
        "bygones.cli.purge",
        "Erase sessions from the archive, for good.",
    ),
    CommandRow(
        "migrate",
        "bygones.cli.migrate",
        "Move a team's archive to another engine, and compare their answers.",
    ),
    CommandRow(
        "push",
        "bygones.cli.push",
        "Send sessions of named projects to a hub, masked.",
    ),
    CommandRow(
        "hub",
        "bygones.cli.hub",
        "Run a hub: one archive for many people.",
    ),
    CommandRow(
        "mcp",
        "bygones.cli.mcp",
        "Serve the archive to agents, over the Model Context Protocol.",
    ),
    CommandRow(
        "integrate",
        "bygones.cli.integrate",
        "Add the tools, hooks and commands to Claude Code, or take them away.",
    ),
    CommandRow(
        "statusline",
        "bygones.cli.statusline",
        "Print a line about this project, for Claude Code's status line.",
    ),
    CommandRow(
        "hook",
        "bygones.cli.hook",
        "Take in what is new, in the background; for hooks of Claude Code.",
    ),
    CommandRow(
        "inspect",
        "bygones.cli.inspect",
        "Say what transcripts hold: records, versions, problems, drift.",
    ),
    CommandRow(
        "demo",
        "bygones.cli.demo",
        "Make a small invented home to try everything with.",
    ),
    CommandRow(
        "help",
        "bygones.cli.help_about",
        "Show the help page of a command, or what a query can be.",
    ),
    CommandRow(
        "completion",
        "bygones.cli.completion",
        "Teach a shell to complete commands, sessions and projects.",
    ),
)
