"""The commands: the one place where a name is given to a module."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["COMMANDS", "CommandSpec"]


class CommandSpec(NamedTuple):
    """A command's name, what it is for, and the module that holds it.

    The module holds a click command of this name; it is imported when the command is
    used, not before.
    """

    name: str
    module: str
    summary: str


COMMANDS = (
    CommandSpec(
        "ingest",
        "bygones.cli.commands.ingest",
        "Copy what Claude Code wrote into the archive, and index it.",
    ),
    CommandSpec(
        "watch",
        "bygones.cli.commands.watch",
        "Keep the archive current while Claude Code writes.",
    ),
    CommandSpec(
        "search",
        "bygones.cli.commands.search",
        "Find sessions by what was said, run, read or answered in them.",
    ),
    CommandSpec(
        "list",
        "bygones.cli.commands.list",
        "List sessions, newest first.",
    ),
    CommandSpec(
        "projects",
        "bygones.cli.commands.projects",
        "List projects, the one last worked on first.",
    ),
    CommandSpec(
        "show",
        "bygones.cli.commands.show",
        "Show a session: prompts, answers, calls and how they ended.",
    ),
    CommandSpec(
        "open",
        "bygones.cli.commands.open",
        "Open a session in the browser.",
    ),
    CommandSpec(
        "usage",
        "bygones.cli.commands.usage",
        "Say where the tokens and the money went.",
    ),
    CommandSpec(
        "export",
        "bygones.cli.commands.export",
        "Write sessions as pages and files that can be given away.",
    ),
    CommandSpec(
        "tree",
        "bygones.cli.commands.tree",
        "Draw a session: its turns, branches, agents and compactions.",
    ),
    CommandSpec(
        "files",
        "bygones.cli.commands.files",
        "List what a session changed, or which sessions changed a file.",
    ),
    CommandSpec(
        "prompts",
        "bygones.cli.commands.prompts",
        "List what you typed, in all sessions.",
    ),
    CommandSpec(
        "tag",
        "bygones.cli.commands.annotate",
        "Tag a session, or list tags.",
    ),
    CommandSpec(
        "note",
        "bygones.cli.commands.annotate",
        "Write a note beside a session.",
    ),
    CommandSpec(
        "star",
        "bygones.cli.commands.annotate",
        "Star sessions to come back to.",
    ),
    CommandSpec(
        "resume",
        "bygones.cli.commands.resume",
        "Go on with a session in Claude Code.",
    ),
    CommandSpec(
        "doctor",
        "bygones.cli.commands.doctor",
        "Say what is where, and what Claude Code will delete when.",
    ),
    CommandSpec(
        "serve",
        "bygones.cli.commands.serve",
        "Show the archive in a browser: read, find and watch.",
    ),
    CommandSpec(
        "verify",
        "bygones.cli.commands.verify",
        "Check that every byte in the archive is what was stored.",
    ),
    CommandSpec(
        "rebuild",
        "bygones.cli.commands.rebuild",
        "Make the index anew from the archive alone.",
    ),
    CommandSpec(
        "backup",
        "bygones.cli.commands.backup",
        "Write a copy of the archive into a folder.",
    ),
    CommandSpec(
        "restore",
        "bygones.cli.commands.restore",
        "Write the original files back, byte for byte.",
    ),
    CommandSpec(
        "purge",
        "bygones.cli.commands.purge",
        "Erase sessions from the archive, for good.",
    ),
    CommandSpec(
        "migrate",
        "bygones.cli.commands.migrate",
        "Move a team's archive to another engine, and compare their answers.",
    ),
    CommandSpec(
        "push",
        "bygones.cli.commands.push",
        "Send sessions of named projects to a hub, masked.",
    ),
    CommandSpec(
        "hub",
        "bygones.cli.commands.hub",
        "Run a hub: one archive for many people.",
    ),
    CommandSpec(
        "mcp",
        "bygones.cli.commands.mcp",
        "Serve the archive to agents, over the Model Context Protocol.",
    ),
    CommandSpec(
        "integrate",
        "bygones.cli.commands.integrate",
        "Add the tools, hooks and commands to Claude Code, or take them away.",
    ),
    CommandSpec(
        "statusline",
        "bygones.cli.commands.statusline",
        "Print a line about this project, for Claude Code's status line.",
    ),
    CommandSpec(
        "hook",
        "bygones.cli.commands.hook",
        "Take in what is new, in the background; for hooks of Claude Code.",
    ),
    CommandSpec(
        "inspect",
        "bygones.cli.commands.inspect",
        "Say what transcripts hold: records, versions, problems, drift.",
    ),
    CommandSpec(
        "schema",
        "bygones.cli.commands.schema",
        "Print the JSON Schemas of what --json prints.",
    ),
    CommandSpec(
        "demo",
        "bygones.cli.commands.demo",
        "Make a small invented home to try everything with.",
    ),
    CommandSpec(
        "help",
        "bygones.cli.commands.help",
        "Show the help page of a command, or what a query can be.",
    ),
    CommandSpec(
        "completion",
        "bygones.cli.commands.completion",
        "Teach a shell to complete commands, sessions and projects.",
    ),
)
