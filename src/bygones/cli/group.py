"""The commands as one program: which one is run, and what its errors become."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from itertools import pairwise

import click

from bygones import __version__
from bygones.cli.commands.registry import COMMANDS, CommandSpec
from bygones.cli.context import (
    COMPLETE_VARIABLE,
    HELP_OPTION_NAMES,
    add_global_options,
    configured_defaults,
    cwd,
    defaults_for,
    find_homes,
    global_option_values,
    global_options,
    print_help_paged,
    unsupported_option_message,
)
from bygones.errors import (
    ArchiveNotFound,
    BygonesError,
    ExitCode,
    HomeNotFound,
    InvalidSelector,
    NoArchiveAndNoHome,
    QueryError,
    SystemFailure,
)

_DEBUG_VARIABLE = "BYGONES_DEBUG"
_CWD_GONE = "the directory that you are in is not there any more"
_COMMAND_PATTERN = "`bygones (ingest|list|projects|rebuild|verify)"
"""How a hint names a command that is about an archive."""
_OUT_OF_MEMORY_TEXTS = (
    "failed to map segment",
    "annot allocate memory",
    "start new thread",
)
"""What is said where memory is wanted for something, and there is none."""


def report_exception(error: Exception, args: Sequence[str]) -> int:
    """Say what went wrong with a command, and return its exit code.

    A closed pipe passes through; nobody is shown a traceback unasked.
    """
    if isinstance(error, BrokenPipeError):
        raise error
    known = error if isinstance(error, BygonesError) else _translate(error)
    if isinstance(error, FileNotFoundError) and _is_cwd_gone():
        return print_error(_CWD_GONE, "go to one that is there", ExitCode.USAGE_ERROR)
    if type(known) is ArchiveNotFound:
        known = _explain_missing_archive(known, args)
    is_ours = known is error or not os.environ.get(_DEBUG_VARIABLE)
    if known is None or not is_ours:
        return _report_unexpected(error)
    code = print_error(str(known), _expand_hint(known.hint, args), known.exit_code)
    if isinstance(known, QueryError):
        pointed = known.marked_excerpt.replace("\n", "\n    ")
        sys.stderr.write(f"\n    {pointed}\n")
    return code


def _is_cwd_gone() -> bool:
    """Whether somebody has removed the directory one is in."""
    return cwd() is None


def _explain_missing_archive(
    error: ArchiveNotFound, args: Sequence[str]
) -> ArchiveNotFound:
    """Return what is the case where there is no archive: maybe there is no home."""
    if _option_values("--home", args):
        return error
    try:
        find_homes(())
    except HomeNotFound:
        return NoArchiveAndNoHome(error.path)
    except BygonesError:
        pass  # whoever ingests is told
    return error


def print_error(message: str, hint: str, exit_code: int) -> int:
    """Say a sentence and a hint, and return the exit code."""
    sys.stderr.write(f"error: {_printable(message)}\n\nhint: {_printable(hint)}\n")
    return exit_code


def _expand_hint(hint: str, args: Sequence[str]) -> str:
    """Return a hint in which commands are about what was named: archive, homes."""
    import re
    from shlex import quote

    archives, homes = (
        _option_values("--archive", args)[:1],
        _option_values("--home", args),
    )

    def completed(found: re.Match[str]) -> str:
        told = [f"--archive {quote(one)}" for one in archives]
        if found[1] == "ingest":
            told += [f"--home {quote(one)}" for one in homes]
        return " ".join((found[0], *told))

    return re.sub(_COMMAND_PATTERN, completed, hint)


def _option_values(option: str, args: Sequence[str]) -> list[str]:
    """Return what was given with an option, as it was typed."""
    given = []
    for word, following in pairwise((*args, "")):
        name, sign, value = word.partition("=")
        if name == option:
            given.append(value if sign else following)
    return given


def _translate(error: Exception) -> BygonesError | None:
    """Return what a system's or an engine's error means to a person."""
    if isinstance(error, OSError):
        reason = error.strerror or str(error)
        name = f"{error.filename}: " if error.filename is not None else ""
        return SystemFailure(f"{name}{reason.lower()}")
    if isinstance(error, UnicodeEncodeError):
        return InvalidSelector(error.object)
    if _is_out_of_memory(error):
        return SystemFailure("there is not enough memory")
    if type(error).__module__ != "apsw":
        return None
    # Only a command that has loaded the archive can raise such an error.
    from bygones.archive import translate_database_error

    return translate_database_error(error)


def _is_out_of_memory(error: Exception) -> bool:
    """Whether the system gave no memory, for values, a thread or a library."""
    return isinstance(error, MemoryError) or (
        isinstance(error, ImportError | RuntimeError)
        and any(sign in str(error) for sign in _OUT_OF_MEMORY_TEXTS)
    )


def _report_unexpected(error: Exception) -> int:
    if os.environ.get(_DEBUG_VARIABLE):
        import traceback

        traceback.print_exception(error)
    sentence = f"this should not have happened: {type(error).__name__}: {error}"
    return print_error(
        sentence, f"re-run with {_DEBUG_VARIABLE}=1 for the traceback", ExitCode.FAILURE
    )


def _printable(text: str) -> str:
    # A name taken from a transcript or a folder must not steer the terminal.
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii")
        for sign in text
    )


class CommandGroup(click.Group):
    """Commands named in a table and imported when they are used."""

    def __init__(self, specs: Iterable[CommandSpec]) -> None:
        super().__init__(
            "bygones",
            help="Keep, find and show what you and Claude Code have said.",
            epilog="Every command has its own page: bygones COMMAND --help.",
            params=[_version_option(), *global_options()],
            context_settings={"help_option_names": HELP_OPTION_NAMES},
            invoke_without_command=True,
            callback=_run_without_command,
        )
        self.specs = {row.name: row for row in specs}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names in the table's order."""
        return list(self.specs)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002
        cmd_name: str,
    ) -> click.Command | None:
        """Return the command of this name, imported now, or None."""
        spec = self.specs.get(cmd_name)
        if spec is None:
            return None
        command = _import_command(spec)
        # Docstrings with a backslash are raw, so click's mark is two characters there.
        command.help = (command.help or "").replace("\\b", "\b")
        return add_global_options(command)

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """Return the option that shows the commands, through a pager."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.callback = print_help_paged
        return option

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is meant, and give it what was said before it."""
        if args and args[0] not in self.specs and args[0][:1] != "-":
            raise click.UsageError(_unknown_command_message(args[0], self.specs), ctx)
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
            formatter.write_dl([(row.name, row.summary) for row in self.specs.values()])


def run(args: Sequence[str], specs: Iterable[CommandSpec] = COMMANDS) -> int:
    """Run the command that ``args`` ask for and return its exit code.

    Every error ends here as a sentence; a closed pipe and Ctrl-C pass through.
    """
    group = CommandGroup(specs)
    try:
        with group.make_context("bygones", list(args)) as context:
            group.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.Abort as error:
        raise KeyboardInterrupt from error
    except click.ClickException as error:
        return print_error(
            _usage_error_message(error), _help_hint(error, args), error.exit_code
        )
    except Exception as error:  # noqa: BLE001 - nobody is shown a traceback unasked
        return report_exception(error, args)
    return ExitCode.SUCCESS


def run_completion(instruction: str) -> int:
    """Answer a shell, and return the exit code; it is told of no errors."""
    from click.shell_completion import shell_complete

    group = CommandGroup(COMMANDS)
    try:
        return shell_complete(group, {}, "bygones", COMPLETE_VARIABLE, instruction)
    except Exception:  # noqa: BLE001 (it would stand in the line that is being typed)
        return 0


def _import_command(spec: CommandSpec) -> click.Command:
    """Import a command's module and return the command in it that has this name."""
    found = vars(import_module(spec.module)).values()
    # What was imported stays to the end, so the collector need not look through it.
    # It was off until now: see entry_point.
    gc.freeze()
    gc.enable()
    for value in found:
        if isinstance(value, click.Command) and value.name == spec.name:
            return value
    raise TypeError(f"{spec.module} has no command {spec.name}")


def _run_without_command(**given: object) -> None:
    if click.get_current_context().invoked_subcommand is None:
        from bygones.cli.commands.overview import show_overview

        show_overview(**{**configured_defaults(), **global_option_values(given)})


def _unknown_command_message(name: str, names: Iterable[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, list(names), n=2)
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


def _usage_error_message(error: click.ClickException) -> str:
    command = (
        error.ctx.command if isinstance(error, click.UsageError) and error.ctx else None
    )
    if isinstance(error, click.NoSuchOption) and command is not None:
        shared = {name for one in global_options() for name in one.opts}
        if error.option_name in shared:
            return unsupported_option_message(command.name or "", error.option_name)
    words = " ".join(error.format_message().split()).removesuffix(".")
    words = words.replace(". Did you mean", "; did you mean")
    words = words.replace("is not a valid integer range", "is not a whole number")
    if isinstance(error, click.BadOptionUsage):
        # Where words may be excluded, options of one letter get their long names.
        words = words.replace("'--limit'", "'-n'")
    return words[:1].lower() + words[1:]


def _help_hint(error: click.ClickException, args: Sequence[str]) -> str:
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is not None:
        return f"see {context.command_path} --help"
    # Its parser does not say which command an option without its value is of.
    names = {row.name for row in COMMANDS}
    name = next((word for word in args if word in names), "")
    return f"see bygones {name} --help" if name else "see bygones --help"
