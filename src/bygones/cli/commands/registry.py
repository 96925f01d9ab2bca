"""The list of all commands."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["COMMANDS", "CommandSpec"]

_PACKAGE = "bygones.cli.commands"
_READ = "Read and find"
_FILES = "Files"
_CONTINUE = "Continue"
_ARCHIVE = "Archive"
_SHARE = "Share"
_TEAM = "Team"
_INTEGRATIONS = "Integrations"


class CommandSpec(NamedTuple):
    """The name of a command, its module, and what the overview says about it.

    The module is imported when the command is used.
    """

    name: str
    module: str
    summary: str
    group: str = ""
    """The heading under which it is listed; without one it is not listed."""
    aliases: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The name and the aliases."""
        return ", ".join((self.name, *self.aliases))


COMMANDS = (
    CommandSpec(
        "search",
        f"{_PACKAGE}.search",
        "Find sessions by what was said and done in them.",
        _READ,
    ),
    CommandSpec(
        "list",
        f"{_PACKAGE}.list",
        "List sessions, newest first.",
        _READ,
        aliases=("ls",),
    ),
    CommandSpec(
        "show",
        f"{_PACKAGE}.show",
        "Show prompts, replies, tool calls and results.",
        _READ,
    ),
    CommandSpec(
        "tree",
        f"{_PACKAGE}.tree",
        "Outline a session: turns, branches and agents.",
        _READ,
    ),
    CommandSpec(
        "context",
        f"{_PACKAGE}.context",
        "Show what Claude was sent at a turn.",
        _READ,
    ),
    CommandSpec(
        "prompts",
        f"{_PACKAGE}.prompts",
        "List the prompts you typed, newest first.",
        _READ,
    ),
    CommandSpec(
        "projects",
        f"{_PACKAGE}.projects",
        "List projects, most recently used first.",
        _READ,
    ),
    CommandSpec(
        "usage",
        f"{_PACKAGE}.usage",
        "Show tokens and costs.",
        _READ,
    ),
    CommandSpec(
        "errors",
        f"{_PACKAGE}.errors",
        "List what fails most, and how it was fixed.",
        _READ,
    ),
    CommandSpec(
        "sql",
        f"{_PACKAGE}.sql",
        "Query your history with SQL.",
        _READ,
    ),
    CommandSpec(
        "open",
        f"{_PACKAGE}.open",
        "Open a session in the browser.",
        _READ,
    ),
    CommandSpec(
        "serve",
        f"{_PACKAGE}.serve",
        "Browse and search the archive in the browser.",
        _READ,
    ),
    CommandSpec(
        "tag",
        f"{_PACKAGE}.annotate",
        "Tag a session, or list tags.",
        _READ,
    ),
    CommandSpec(
        "note",
        f"{_PACKAGE}.annotate",
        "Add a note to a session.",
        _READ,
    ),
    CommandSpec(
        "star",
        f"{_PACKAGE}.annotate",
        "Star sessions to find them again.",
        _READ,
    ),
    CommandSpec(
        "files",
        f"{_PACKAGE}.files",
        "List files by session, or sessions by file.",
        _FILES,
    ),
    CommandSpec(
        "blame",
        f"{_PACKAGE}.blame",
        "Show which turn wrote each line of a file.",
        _FILES,
    ),
    CommandSpec(
        "cat",
        f"{_PACKAGE}.cat",
        "Print a file as it was at a turn.",
        _FILES,
    ),
    CommandSpec(
        "diff",
        f"{_PACKAGE}.diff",
        "Compare files at two turns, or with the disk.",
        _FILES,
    ),
    CommandSpec(
        "undo",
        f"{_PACKAGE}.undo",
        "Restore files as they were before a turn.",
        _FILES,
    ),
    CommandSpec(
        "commits",
        f"{_PACKAGE}.commits",
        "List commits of a session, or sessions of a commit.",
        _FILES,
    ),
    CommandSpec(
        "resume",
        f"{_PACKAGE}.resume",
        "Continue a session in Claude Code.",
        _CONTINUE,
    ),
    CommandSpec(
        "fork",
        f"{_PACKAGE}.fork",
        "Continue a session from any turn, on any branch.",
        _CONTINUE,
    ),
    CommandSpec(
        "move",
        f"{_PACKAGE}.move",
        "Move sessions along with a renamed project.",
        _CONTINUE,
    ),
    CommandSpec(
        "sync",
        f"{_PACKAGE}.sync",
        "Exchange sessions with your other machines.",
        _CONTINUE,
    ),
    CommandSpec(
        "ingest",
        f"{_PACKAGE}.ingest",
        "Import new transcripts into the archive.",
        _ARCHIVE,
    ),
    CommandSpec(
        "watch",
        f"{_PACKAGE}.watch",
        "Import transcripts while Claude Code writes them.",
        _ARCHIVE,
    ),
    CommandSpec(
        "doctor",
        f"{_PACKAGE}.doctor",
        "Check the setup and what Claude Code will delete.",
        _ARCHIVE,
    ),
    CommandSpec(
        "verify",
        f"{_PACKAGE}.verify",
        "Check that the archive is intact.",
        _ARCHIVE,
    ),
    CommandSpec(
        "repair",
        f"{_PACKAGE}.repair",
        "Recover damaged parts of the archive.",
        _ARCHIVE,
    ),
    CommandSpec(
        "rebuild",
        f"{_PACKAGE}.rebuild",
        "Rebuild the search index from the archive.",
        _ARCHIVE,
    ),
    CommandSpec(
        "backup",
        f"{_PACKAGE}.backup",
        "Copy the archive to another folder.",
        _ARCHIVE,
    ),
    CommandSpec(
        "restore",
        f"{_PACKAGE}.restore",
        "Write original files back, byte for byte.",
        _ARCHIVE,
    ),
    CommandSpec(
        "purge",
        f"{_PACKAGE}.purge",
        "Erase sessions from the archive permanently.",
        _ARCHIVE,
    ),
    CommandSpec(
        "inspect",
        f"{_PACKAGE}.inspect",
        "Show what transcripts contain.",
        _ARCHIVE,
    ),
    CommandSpec(
        "demo",
        f"{_PACKAGE}.demo",
        "Create sample sessions to try Bygones with.",
        _ARCHIVE,
    ),
    CommandSpec(
        "export",
        f"{_PACKAGE}.export",
        "Export sessions as HTML, Markdown, text or JSON.",
        _SHARE,
    ),
    CommandSpec(
        "push",
        f"{_PACKAGE}.push",
        "Send redacted sessions to a hub.",
        _TEAM,
    ),
    CommandSpec(
        "hub",
        f"{_PACKAGE}.hub",
        "Run a hub, the shared archive of a team.",
        _TEAM,
    ),
    CommandSpec(
        "migrate",
        f"{_PACKAGE}.migrate",
        "Copy a hub to another database.",
        _TEAM,
    ),
    CommandSpec(
        "integrate",
        f"{_PACKAGE}.integrate",
        "Add Bygones to Claude Code, or remove it.",
        _INTEGRATIONS,
    ),
    CommandSpec(
        "mcp",
        f"{_PACKAGE}.mcp",
        "Serve the archive to agents over MCP.",
        _INTEGRATIONS,
    ),
    CommandSpec(
        "statusline",
        f"{_PACKAGE}.statusline",
        "Print a line for Claude Code's status line.",
        _INTEGRATIONS,
    ),
    CommandSpec(
        "hook",
        f"{_PACKAGE}.hook",
        "Import transcripts in the background, for hooks.",
        _INTEGRATIONS,
    ),
    CommandSpec(
        "schema",
        f"{_PACKAGE}.schema",
        "Print the JSON Schema of --json output.",
        _INTEGRATIONS,
    ),
    CommandSpec(
        "completion",
        f"{_PACKAGE}.completion",
        "Print a completion script for your shell.",
        _INTEGRATIONS,
    ),
    CommandSpec(
        "help",
        f"{_PACKAGE}.help",
        "Show the help page of a command, or the query language.",
    ),
)
"""In the order of the overview; the commands of a group are adjacent."""
