"""The group: finds a command, runs it, and says what went wrong."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import click

from bygones import __version__
from bygones.cli.defaults import (
    HELP,
    completed,
    defaults_for,
    given_to_all,
    global_options,
    not_taken,
    page_help,
)
from bygones.cli.loading import loaded
from bygones.cli.reporting import report, reported
from bygones.cli.table import COMMANDS, CommandRow
from bygones.errors import ExitCode

__all__ = ["CommandGroup", "run"]


class CommandGroup(click.Group):
    """Commands named in a table and imported when they are used."""

    def __init__(self, rows: Iterable[CommandRow]) -> None:
        super().__init__(
            "bygones",
            help="Keep, find and show what you and Claude Code have said.",
            epilog="Every command has its own page: bygones COMMAND --help.",
            params=[_version_option(), *global_options()],
            context_settings={"help_option_names": HELP},
            invoke_without_command=True,
            callback=_welcome,
        )
        self.rows = {row.name: row for row in rows}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names in the table's order."""
        return list(self.rows)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002
        cmd_name: str,
    ) -> click.Command | None:
        """Return the command of this name, imported now, or None."""
        row = self.rows.get(cmd_name)
        if row is None:
            return None
        name = row.module.rpartition(".")[2]
        command = loaded(row.module, name)
        if not isinstance(command, click.Command):
            raise TypeError(f"{row.module}.{name} is not a command")
        # Docstrings with a backslash are raw, so click's mark is two characters there.
        command.help = (command.help or "").replace("\\b", "\b")
        return completed(command)

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """Return the option that shows the commands, through a pager."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.callback = page_help
        return option

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is meant, and give it what was said before it."""
        if args and args[0] not in self.rows and args[0][:1] != "-":
            raise click.UsageError(_no_command(args[0], self.rows), ctx)
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None:
            ctx.default_map = {name or "": defaults_for(command, ctx.params)}
        return name, command, rest

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002
        formatter: click.HelpFormatter,
    ) -> None:
        """Write the table into the help page, importing no command."""
        with formatter.section("Commands"):
            formatter.write_dl([(row.name, row.summary) for row in self.rows.values()])


def run(words: Sequence[str], rows: Iterable[CommandRow] = COMMANDS) -> int:
    """Run the command that ``words`` ask for and return its exit code.

    Every error ends here as a sentence; a closed pipe and Ctrl-C pass through.
    """
    group = CommandGroup(rows)
    try:
        with group.make_context("bygones", list(words)) as context:
            group.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.Abort as error:
        raise KeyboardInterrupt from error
    except click.ClickException as error:
        return report(_sentence(error), _page(error, words), error.exit_code)
    except Exception as error:  # noqa: BLE001 - nobody is shown a traceback unasked
        return reported(error, words)
    return ExitCode.DONE


def _welcome(**given: object) -> None:
    if click.get_current_context().invoked_subcommand is None:
        from bygones.cli.asked import preset  # noqa: PLC0415 (not for help pages)
        from bygones.cli.welcome import welcome  # noqa: PLC0415 (for nobody else)

        welcome(**{**preset(), **given_to_all(given)})


def _no_command(name: str, rows: Iterable[str]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 (only for a slip)

    close = get_close_matches(name, list(rows), n=2)
    meant = f"; did you mean {' or '.join(close)}?" if close else ""
    return f"no such command {name!r}{meant}"


def _version_option() -> click.Option:
    def show(context: click.Context, _option: click.Parameter, asked: bool) -> None:
        if asked:
            click.echo(f"bygones {__version__}")
            context.exit()

    return click.Option(
        ["--version"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=show,
        help="Show the version and exit.",
    )


def _sentence(error: click.ClickException) -> str:
    command = (
        error.ctx.command if isinstance(error, click.UsageError) and error.ctx else None
    )
    if isinstance(error, click.NoSuchOption) and command is not None:
        shared = {name for one in global_options() for name in one.opts}
        if error.option_name in shared:
            return not_taken(command.name or "", error.option_name)
    words = " ".join(error.format_message().split()).removesuffix(".")
    words = words.replace(". Did you mean", "; did you mean")
    words = words.replace("is not a valid integer range", "is not a whole number")
    if isinstance(error, click.BadOptionUsage):
        # Where words may be excluded, options of one letter get their long names.
        words = words.replace("'--limit'", "'-n'")
    return words[:1].lower() + words[1:]


def _page(error: click.ClickException, words: Sequence[str]) -> str:
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is not None:
        return f"see {context.command_path} --help"
    # Its parser does not say which command an option without its value is of.
    names = {row.name for row in COMMANDS}
    name = next((word for word in words if word in names), "")
    return f"see bygones {name} --help" if name else "see bygones --help"
