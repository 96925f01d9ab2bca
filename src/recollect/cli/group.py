"""The group: finds a command, runs it, and says what went wrong."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Iterable, Sequence

import click

from recollect import __version__
from recollect.cli.defaults import (
    defaults_for,
    given_to_all,
    global_options,
    not_taken,
)
from recollect.cli.table import COMMANDS, CommandRow
from recollect.errors import (
    ExitCode,
    NameUnreadable,
    QueryError,
    RecollectError,
    SystemRefused,
)

__all__ = ["CommandGroup", "run"]

_DEBUG = "RECOLLECT_DEBUG"
_COMMAND = "`recollect (ingest|list|projects|rebuild|verify)"
"""How a hint names a command that is about an archive."""


class CommandGroup(click.Group):
    """Commands named in a table and imported when they are used."""

    def __init__(self, rows: Iterable[CommandRow]) -> None:
        super().__init__(
            "recollect",
            help="Keep, find and show what you and Claude Code have said.",
            epilog="Every command has its own page: recollect COMMAND --help.",
            params=[_version_option(), *global_options()],
            context_settings={"help_option_names": ["-h", "--help"]},
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
        _load_values()
        command = getattr(importlib.import_module(row.module), name)
        # What was loaded stays to the end: nobody need look through it for litter.
        gc.freeze()
        gc.enable()
        if not isinstance(command, click.Command):
            raise TypeError(f"{row.module}.{name} is not a command")
        # Docstrings with a backslash are raw, so click's mark is two characters there.
        command.help = (command.help or "").replace("\\b", "\b")
        return command

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
        with group.make_context("recollect", list(words)) as context:
            group.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.Abort as error:
        raise KeyboardInterrupt from error
    except BrokenPipeError:
        raise
    except RecollectError as error:
        code = _report(str(error), _hint(error.hint, words), error.exit_code)
        if isinstance(error, QueryError):
            pointed = error.pointed.replace("\n", "\n    ")
            sys.stderr.write(f"\n    {pointed}\n")
        return code
    except click.ClickException as error:
        return _report(_sentence(error), _page(error), error.exit_code)
    except Exception as error:  # noqa: BLE001 - nobody is shown a traceback unasked
        known = _translated(error)
        if known is not None and not os.environ.get(_DEBUG):
            return _report(str(known), _hint(known.hint, words), known.exit_code)
        return _report_unexpected(error)
    return ExitCode.DONE


def _welcome(**given: object) -> None:
    if click.get_current_context().invoked_subcommand is None:
        from recollect.cli.welcome import welcome  # noqa: PLC0415 (for nobody else)

        welcome(**given_to_all(given))


def _load_values() -> None:
    """Load what values are made of, without what it loads for older Pythons.

    If there is a typing_extensions, msgspec takes a function from it that this Python
    has itself; reading it takes as long as reading all of a list's sessions.
    """
    if "msgspec" in sys.modules or "typing_extensions" in sys.modules:
        return
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]
    try:
        importlib.import_module("msgspec")
    finally:
        del sys.modules["typing_extensions"]


def _no_command(name: str, rows: Iterable[str]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 (only for a slip)

    close = get_close_matches(name, list(rows), n=2)
    meant = f"; did you mean {' or '.join(close)}?" if close else ""
    return f"no such command {name!r}{meant}"


def _version_option() -> click.Option:
    def show(context: click.Context, _option: click.Parameter, asked: bool) -> None:
        if asked:
            click.echo(f"recollect {__version__}")
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
        if error.option_name in shared and not error.possibilities:
            return not_taken(command.name or "", error.option_name)
    words = " ".join(error.format_message().split()).removesuffix(".")
    words = words.replace(". Did you mean", "; did you mean")
    return words[:1].lower() + words[1:]


def _hint(hint: str, words: Sequence[str]) -> str:
    """Return a hint in which commands are about the archive that was named."""
    import re  # noqa: PLC0415 (only for an error)
    from shlex import quote  # noqa: PLC0415

    flags = [at for at, word in enumerate(words) if word.startswith("--archive")]
    if not flags:
        return hint
    _, sign, folder = words[flags[0]].partition("=")
    named = quote(folder if sign else (*words, "")[flags[0] + 1])
    return re.sub(_COMMAND, lambda found: f"{found[0]} --archive {named}", hint)


def _page(error: click.ClickException) -> str:
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f"see {context.command_path if context else 'recollect'} --help"


def _translated(error: Exception) -> RecollectError | None:
    """Return what a system's or an engine's error means to a person."""
    if isinstance(error, OSError):
        reason = error.strerror or str(error)
        name = f"{error.filename}: " if error.filename is not None else ""
        return SystemRefused(f"{name}{reason.lower()}")
    if isinstance(error, UnicodeEncodeError):
        return NameUnreadable(error.object)
    if type(error).__module__ != "apsw":
        return None
    # Whoever has such an error has loaded the engine already.
    from recollect.store.connect import translated  # noqa: PLC0415

    return translated(error)


def _report_unexpected(error: Exception) -> int:
    if os.environ.get(_DEBUG):
        import traceback  # noqa: PLC0415 (only for whoever asks)

        traceback.print_exception(error)
    sentence = f"this should not have happened: {type(error).__name__}: {error}"
    return _report(
        sentence, f"re-run with {_DEBUG}=1 for the traceback", ExitCode.FAILED
    )


def _report(sentence: str, hint: str, code: int) -> int:
    sys.stderr.write(f"error: {_printable(sentence)}\n\nhint: {_printable(hint)}\n")
    return code


def _printable(text: str) -> str:
    # A name taken from a transcript or a folder must not steer the terminal.
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii")
        for sign in text
    )
