"""The click group of all commands, and how errors are reported."""

from __future__ import annotations

import errno
import gc
import os
import re
import shlex
import sys
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from importlib import import_module
from itertools import pairwise

import click

from bygones import __version__
from bygones.cli.commands.registry import COMMANDS, CommandSpec
from bygones.cli.context import (
    COMPLETE_VARIABLE,
    HELP_OPTION_NAMES,
    QueryCommand,
    add_global_options,
    configured_defaults,
    cwd,
    defaults_for,
    find_homes,
    global_option_values,
    global_options,
    unsupported_option_message,
)
from bygones.cli.output import print_paged
from bygones.errors import (
    ArchiveNotFound,
    BygonesError,
    ExitCode,
    HomeNotFound,
    InvalidSelector,
    NoArchiveAndNoHome,
    PathUnusable,
    QueryError,
    SystemFailure,
)

_OVERVIEW = """\
Keep, search and share your Claude Code sessions.

\b
bygones                          Pick a session to read
bygones search flaky login test  Find sessions
bygones show 1                   Read the first one found
"""
_MAX_HELP_WIDTH = 100
_EXTRA_ARGUMENT = re.compile(r"Got unexpected extra argument \((.*)\)")
_PLAIN_MESSAGES = (
    (r"is not a valid integer range", "is not a whole number"),
    (r"is not in the range (\d+)<=x<=(\d+)", r"is not between \1 and \2"),
    (r"is not in the range x>=(\d+)", r"is less than \1"),
    (r"^Invalid value for '\{.*?\}': ", ""),
    (r"^Got unexpected extra arguments? \((.*)\)$", r"too many arguments: \1"),
)
"""Patterns in messages of click, and what is printed instead."""
_DEBUG_VARIABLE = "BYGONES_DEBUG"
_CWD_GONE = "the current directory no longer exists"
_COMMAND_PATTERN = "`bygones (ingest|list|projects|rebuild|repair|verify)"
"""Commands in hints to which the named archive is added."""
_PATH_ERRORS = {
    *(errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST),
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP),
}
_OUT_OF_MEMORY_TEXTS = (
    "failed to map segment",
    "annot allocate memory",
    "start new thread",
)
"""Parts of messages of errors that mean that there is not enough memory."""


def report_exception(error: Exception, args: Sequence[str]) -> int:
    """Print an error with its hint, and return the exit code.

    A closed pipe is raised again. Tracebacks are printed with BYGONES_DEBUG only.
    """
    if isinstance(error, BrokenPipeError):
        raise error
    known = error if isinstance(error, BygonesError) else _translate(error)
    if isinstance(error, FileNotFoundError) and _is_cwd_gone():
        return print_error(
            _CWD_GONE, "change to another directory", ExitCode.USAGE_ERROR
        )
    if type(known) is ArchiveNotFound:
        known = _explain_missing_archive(known, args)
    is_expected = known is error or not os.environ.get(_DEBUG_VARIABLE)
    if known is None or not is_expected:
        return _report_unexpected(error)
    hint = _expand_hint(known.hint, args)
    code = print_error("\n".join(map(_printable, known.lines)), hint, known.exit_code)
    if isinstance(known, QueryError):
        excerpt = known.marked_excerpt.replace("\n", "\n    ")
        sys.stderr.write(f"\n    {excerpt}\n")
    return code


def _is_cwd_gone() -> bool:
    return cwd() is None


def _explain_missing_archive(
    error: ArchiveNotFound, args: Sequence[str]
) -> ArchiveNotFound:
    """Return a better error if there is no home either."""
    if _option_values("--home", args):
        return error
    try:
        find_homes(())
    except HomeNotFound:
        return NoArchiveAndNoHome(error.path)
    except BygonesError:
        pass  # ingest reports it
    return error


def print_error(message: str, hint: str, exit_code: int) -> int:
    """Print a message, of which every line is printable, and a hint."""
    sys.stderr.write(f"error: {message}\n\nhint: {_printable(hint)}\n")
    return exit_code


def _expand_hint(hint: str, args: Sequence[str]) -> str:
    """Add the named archive and homes to the commands in a hint."""
    from shlex import quote

    archives, homes = (
        _option_values("--archive", args)[:1],
        _option_values("--home", args),
    )

    def add_options(match: re.Match[str]) -> str:
        options = [f"--archive {quote(path)}" for path in archives]
        if match[1] == "ingest":
            options += [f"--home {quote(path)}" for path in homes]
        return " ".join((match[0], *options))

    return re.sub(_COMMAND_PATTERN, add_options, hint)


def _option_values(option: str, args: Sequence[str]) -> list[str]:
    """Return the values of an option as they were typed."""
    values = []
    for word, following in pairwise((*args, "")):
        name, equals, value = word.partition("=")
        if name == option:
            values.append(value if equals else following)
    return values


def _translate(error: Exception) -> BygonesError | None:
    """Return the error of Bygones for one of the system or the database."""
    if isinstance(error, OSError):
        reason = error.strerror or str(error)
        name = f"{error.filename}: " if error.filename is not None else ""
        is_path = error.errno in _PATH_ERRORS and error.filename is not None
        kind = PathUnusable if is_path else SystemFailure
        return kind(f"{name}{reason.lower()}")
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
    return isinstance(error, MemoryError) or (
        isinstance(error, ImportError | RuntimeError)
        and any(text in str(error) for text in _OUT_OF_MEMORY_TEXTS)
    )


def _report_unexpected(error: Exception) -> int:
    if os.environ.get(_DEBUG_VARIABLE):
        import traceback

        traceback.print_exception(error)
    message = _printable(f"unexpected {type(error).__name__}: {error}")
    return print_error(
        message, f"re-run with {_DEBUG_VARIABLE}=1 for the traceback", ExitCode.FAILURE
    )


def _printable(text: str) -> str:
    # Names from transcripts and folders must not control the terminal.
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


class CommandGroup(click.Group):
    """The commands of the registry, imported when they are used."""

    def __init__(self, specs: Iterable[CommandSpec]) -> None:
        super().__init__(
            "bygones",
            help=_OVERVIEW,
            params=[_version_option(), _query_option(), *global_options()],
            context_settings={
                "help_option_names": HELP_OPTION_NAMES,
                "max_content_width": _MAX_HELP_WIDTH,
                "show_default": True,
            },
            invoke_without_command=True,
            callback=_run_without_command,
        )
        self.specs = {row.name: row for row in specs}
        self._by_name = self.specs | {
            alias: row for row in self.specs.values() for alias in row.aliases
        }

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self.specs)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002
        cmd_name: str,
    ) -> click.Command | None:
        spec = self._by_name.get(cmd_name)
        return add_global_options(_import_command(spec)) if spec is not None else None

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        option = super().get_help_option(ctx)
        if option is not None:
            option.callback = _print_overview
        return option

    def get_help(self, ctx: click.Context) -> str:
        """Return the list of commands without importing them."""
        from bygones.cli.help_page import overview_page

        return overview_page(ctx, self.specs.values())

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, and pass on the options that came before it."""
        if args and args[0] not in self._by_name and args[0][:1] != "-":
            raise click.UsageError(
                _unknown_command_message(args[0], self._by_name), ctx
            )
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None:
            ctx.default_map = {name or "": defaults_for(command, ctx.params)}
        return name, command, rest


def _print_overview(
    context: click.Context, _: click.Parameter, is_requested: bool
) -> None:
    if is_requested and not context.resilient_parsing:
        print_paged(context.get_help().split("\n"), is_terminal=sys.stdout.isatty())
        context.exit()


def run(args: Sequence[str], specs: Iterable[CommandSpec] = COMMANDS) -> int:
    """Run a command and return its exit code.

    Errors are printed here; a closed pipe and Ctrl-C are raised.
    """
    group = CommandGroup(specs)
    try:
        with group.make_context("bygones", list(args)) as context:
            group.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.Abort as error:
        raise KeyboardInterrupt from error
    except click.exceptions.NoArgsIsHelpError as error:
        from bygones.cli.help_page import help_page

        click.echo(help_page(error.ctx), err=True)
        return error.exit_code
    except click.ClickException as error:
        message = _printable(_usage_error_message(error))
        return print_error(message, _help_hint(error, args), error.exit_code)
    except Exception as error:  # noqa: BLE001 (reported without a traceback)
        return report_exception(error, args)
    return ExitCode.SUCCESS


def run_completion(instruction: str) -> int:
    """Print completions for a shell; errors are ignored."""
    from click.shell_completion import shell_complete

    group = CommandGroup(COMMANDS)
    try:
        return shell_complete(group, {}, "bygones", COMPLETE_VARIABLE, instruction)
    except Exception:  # noqa: BLE001 (it would appear in the line being typed)
        return 0


def _import_command(spec: CommandSpec) -> click.Command:
    """Import the module of a command and return the command."""
    values = vars(import_module(spec.module)).values()
    # Imported objects live until the end, so the garbage collector can skip them. It
    # was disabled until now: see entry_point.
    gc.freeze()
    gc.enable()
    for value in values:
        if isinstance(value, click.Command) and value.name == spec.name:
            return value
    raise TypeError(f"{spec.module} has no command {spec.name}")


def _run_without_command(**given: object) -> None:
    if click.get_current_context().invoked_subcommand is None:
        from bygones.cli.commands.overview import show_overview

        show_overview(**{**configured_defaults(), **global_option_values(given)})


def _unknown_command_message(name: str, names: Iterable[str]) -> str:
    close = get_close_matches(name, list(names), n=2)
    meant = f"; did you mean {' or '.join(close)}?" if close else ""
    return f"no such command {name!r}{meant}"


def _version_option() -> click.Option:
    def show(
        context: click.Context, _option: click.Parameter, is_requested: bool
    ) -> None:
        if is_requested:
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


def _query_option() -> click.Option:
    return click.Option(
        ["--query", "pick_query"],
        metavar="TEXT",
        help="Pick a session, starting with this search.",
    )


def _usage_error_message(error: click.ClickException) -> str:
    command = (
        error.ctx.command if isinstance(error, click.UsageError) and error.ctx else None
    )
    if isinstance(error, click.NoSuchOption) and command is not None:
        shared = {name for option in global_options() for name in option.opts}
        if error.option_name in shared:
            return unsupported_option_message(command.name or "", error.option_name)
        return _unknown_option_message(error, command)
    words = " ".join(error.format_message().split()).removesuffix(".")
    for pattern, replacement in _PLAIN_MESSAGES:
        words = re.sub(pattern, replacement, words)
    if isinstance(error, click.BadOptionUsage):
        # QueryCommand replaces short options by their long names.
        words = words.replace("'--limit'", "'-n'")
    return words[:1].lower() + words[1:]


def _unknown_option_message(error: click.NoSuchOption, command: click.Command) -> str:
    """Suggest a similar option or, for a command that takes a query, a field."""
    message = f"no such option {error.option_name}"
    possible = error.possibilities or ()
    close = get_close_matches(error.option_name, possible, n=2, cutoff=0.7)
    if close:
        return f"{message}; did you mean {' or '.join(close)}?"
    if isinstance(command, QueryCommand):
        from bygones.query.fields import FIELDS_BY_NAME
        from bygones.query.tokens import suggest_field

        field = suggest_field(error.option_name.lstrip("-"))
        if field is not None:
            return f"{message}; in the query, write {FIELDS_BY_NAME[field].example}"
    return message


def _help_hint(error: click.ClickException, args: Sequence[str]) -> str:
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is not None:
        extra = _EXTRA_ARGUMENT.fullmatch(error.format_message())
        is_dir = extra and os.path.isdir(extra[1])  # noqa: PTH112 (long names)
        if extra and is_dir and "homes" in context.params:
            path = _printable(shlex.quote(extra[1]))
            return f"to read transcripts in this folder, use --home {path}"
        return f"see {context.command_path} --help"
    # click does not report the command of an option without its value.
    names = {row.name for row in COMMANDS}
    name = next((word for word in args if word in names), "")
    return f"see bygones {name} --help" if name else "see bygones --help"
