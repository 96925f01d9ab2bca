"""The list of all commands."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["COMMANDS", "CommandSpec"]


class CommandSpec(NamedTuple):
    """The name of a command, its module and its summary.

    The module is imported when the command is used.
    """

    name: str
    module: str
    summary: str


COMMANDS = (
    CommandSpec(
        "ingest",
        "bygones.cli.commands.ingest",
        "Import new transcripts into the archive and index them.",
    ),
    CommandSpec(
        "watch",
        "bygones.cli.commands.watch",
        "Keep the archive up to date while Claude Code writes.",
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
        "Show a session: prompts, answers, tool calls and their results.",
    ),
    CommandSpec(
        "open",
        "bygones.cli.commands.open",
        "Open a session in the browser.",
    ),
    CommandSpec(
        "usage",
        "bygones.cli.commands.usage",
        "Show tokens and costs.",
    ),
    CommandSpec(
        "export",
        "bygones.cli.commands.export",
        "Write sessions as pages and files to share.",
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
        "Add a note to a session.",
    ),
    CommandSpec(
        "star",
        "bygones.cli.commands.annotate",
        "Star sessions to come back to.",
    ),
    CommandSpec(
        "resume",
        "bygones.cli.commands.resume",
        "Continue a session in Claude Code.",
    ),
    CommandSpec(
        "doctor",
        "bygones.cli.commands.doctor",
        "Check the archive, and show what Claude Code will delete.",
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
        "Create the index again from the archive.",
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
        "Erase sessions from the archive permanently.",
    ),
    CommandSpec(
        "migrate",
        "bygones.cli.commands.migrate",
        "Move a team's archive to another database.",
    ),
    CommandSpec(
        "push",
        "bygones.cli.commands.push",
        "Send redacted sessions of selected projects to a hub.",
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
        "Add the tools, hooks and commands to Claude Code, or remove them.",
    ),
    CommandSpec(
        "statusline",
        "bygones.cli.commands.statusline",
        "Print a line about this project, for Claude Code's status line.",
    ),
    CommandSpec(
        "hook",
        "bygones.cli.commands.hook",
        "Import new transcripts in the background; for hooks of Claude Code.",
    ),
    CommandSpec(
        "inspect",
        "bygones.cli.commands.inspect",
        "Show what transcripts contain: records, versions, problems, drift.",
    ),
    CommandSpec(
        "schema",
        "bygones.cli.commands.schema",
        "Print the JSON Schemas of what --json prints.",
    ),
    CommandSpec(
        "demo",
        "bygones.cli.commands.demo",
        "Create a home with invented sessions to try everything.",
    ),
    CommandSpec(
        "help",
        "bygones.cli.commands.help",
        "Show the help page of a command, or the query language.",
    ),
    CommandSpec(
        "completion",
        "bygones.cli.commands.completion",
        "Print the completion script of a shell.",
    ),
)
