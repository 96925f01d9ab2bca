"""Options that commands share: the archive, the homes, and queries."""

from __future__ import annotations

import os
import re
import sys
from datetime import UTC, datetime, tzinfo
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.core import ParameterSource

from bygones.cli.output import ColorMode, print_paged
from bygones.config import (
    DEFAULT_ARCHIVE_LABEL,
    load_settings,
    resolve_archive_location,
    resolve_homes,
)
from bygones.errors import BygonesError
from bygones.render.text.primitives import sanitize_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from os import PathLike

    from click.shell_completion import CompletionItem

    from bygones.archive import Archive
    from bygones.model.query import Query, TimeRange
    from bygones.model.summary import SessionSelection

    Decorator = Callable[[Callable[..., None]], Callable[..., None]]


COMPLETE_VARIABLE = "_BYGONES_COMPLETE"
"""The variable by which a shell requests completions; see bygones.cli.main."""
FROM_PICKER = "bygones.picker"
"""Set in the context of a command after which the picker is shown again."""


class CommonOptions(NamedTuple):
    """The archive that a command uses, and how it is brought up to date."""

    archive: Path | None = None
    homes: tuple[Path, ...] = ()
    no_ingest: bool = False
    quiet: bool = False
    verbose: bool = False

    @property
    def is_ingest_disabled(self) -> bool:
        """Whether the archive is not brought up to date first.

        An archive that is named with `--archive` may be a backup or belong to another
        user: only homes that are named as well are imported into it.
        """
        return self.no_ingest or (self.archive is not None and not self.homes)

    @property
    def folder(self) -> Path:
        return resolve_archive_folder(self.archive)


def configured_defaults() -> dict[str, Any]:
    """Return the defaults of options from the user's settings."""
    settings = load_settings(os.environ, Path.home())
    defaults = {"color": settings.color, "iso": settings.iso}
    if settings.ingest is not None:
        defaults["no_ingest"] = not settings.ingest
    return {name: value for name, value in defaults.items() if value is not None}


def cwd() -> Path | None:
    """Return the current directory, or none if it was removed."""
    try:
        return Path.cwd()
    except OSError:
        return None


def resolve_archive_folder(archive: Path | None) -> Path:
    return resolve_archive_location(archive, os.environ, Path.home())


def find_homes(homes: Sequence[Path]) -> tuple[Path, ...]:
    return resolve_homes(homes, os.environ, Path.home())


def open_without_ingest(archive: Path | None) -> Archive:
    from bygones.archive import Archive

    return Archive.open(resolve_archive_folder(archive))


EMPTY_PATH_MESSAGE = "a path must not be empty; use . for this folder"


class _NonEmptyPath(click.Path):
    """A path that is not empty, which would silently mean the current folder."""

    def convert(
        self,
        value: str | PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:  # noqa: ANN401 (as in click)
        if isinstance(value, str) and not value.strip():
            self.fail(EMPTY_PATH_MESSAGE, param, ctx)
        return super().convert(value, param, ctx)


def path_type(*, allow_file: bool = True, allow_folder: bool = True) -> click.Path:
    return _NonEmptyPath(path_type=Path, file_okay=allow_file, dir_okay=allow_folder)


class _SharedOption(NamedTuple):
    """An option that is accepted before every command, and after those that use it."""

    names: tuple[str, ...]
    settings: dict[str, Any]
    default: Any = None
    """The default after a command; before one, no value means that none was given."""

    def decorate(self, command: Callable[..., Any]) -> Callable[..., Any]:
        settings = self.settings
        if self.default is not None:
            settings = {**settings, "default": self.default, "show_default": True}
        return click.option(*self.names, **settings)(command)

    def build(self) -> click.Option:
        return click.Option(list(self.names), **self.settings)


_ARCHIVE = _SharedOption(
    ("--archive",),
    {
        "type": path_type(),
        "metavar": "FOLDER",
        "help": f"Archive to use (default: {DEFAULT_ARCHIVE_LABEL}).",
    },
)
_HOME = _SharedOption(
    ("--home", "homes"),
    {
        "multiple": True,
        "type": path_type(),
        "metavar": "PATH",
        "help": "Claude Code home to import; repeatable (default: ~/.claude).",
    },
)
_JSON = _SharedOption(
    ("--json", "as_json"), {"is_flag": True, "help": "Print one JSON object per line."}
)
_COLOR = _SharedOption(
    ("--color",),
    {
        "type": click.Choice([mode.value for mode in ColorMode]),
        "metavar": "WHEN",
        "help": "Use color: auto, always or never.",
    },
    default=ColorMode.AUTO.value,
)
_QUIET = _SharedOption(
    ("-q", "--quiet"), {"is_flag": True, "help": "Print only results and errors."}
)
_VERBOSE = _SharedOption(
    ("-v", "--verbose"),
    {"is_flag": True, "help": "Also print import details and problems."},
)
_NO_INGEST = _SharedOption(
    ("--no-ingest",),
    {"is_flag": True, "help": "Do not import new transcripts first."},
)
_SHARED_OPTIONS = (_ARCHIVE, _HOME, _JSON, _COLOR, _QUIET, _VERBOSE, _NO_INGEST)

archive_option = _ARCHIVE.decorate
home_option = _HOME.decorate
json_option = _JSON.decorate
color_option = _COLOR.decorate
quiet_option = _QUIET.decorate
verbose_option = _VERBOSE.decorate
no_ingest_option = _NO_INGEST.decorate
iso_option = click.option(
    "--iso", is_flag=True, help="Print times as ISO 8601 instead of ages."
)


def _lazy_completer(name: str) -> Callable[..., list[CompletionItem]]:
    """Return a completer that is imported when a shell asks for it."""

    def complete(
        context: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        # Imported by name: completion imports this module.
        completion = import_module("bygones.cli.commands.completion")
        found: list[CompletionItem] = getattr(completion, name)(
            context, param, incomplete
        )
        return found

    return complete


complete_branches = _lazy_completer("suggest_branches")
complete_names = _lazy_completer("suggest_names")
complete_names_or_paths = _lazy_completer("suggest_names_or_paths")
complete_projects = _lazy_completer("suggest_projects")
complete_query = _lazy_completer("suggest_query")
complete_sessions = _lazy_completer("suggest_sessions")
complete_topics = _lazy_completer("suggest_topics")

query_argument = click.argument(
    "query", nargs=-1, type=click.UNPROCESSED, shell_complete=complete_query
)


def project_option(noun: str) -> Decorator:
    """Return the option that limits what is listed to a project."""
    return click.option(
        "--project",
        metavar="PATH|NAME",
        shell_complete=complete_projects,
        help=f"Only {noun} of this project; . is the current directory.",
    )


def limit_option(noun: str, terminal_limit: int) -> Decorator:
    """Return the option for how much is listed: a page on a terminal, otherwise all."""
    return click.option(
        "-n",
        "--limit",
        type=click.IntRange(min=1),
        show_default=f"{terminal_limit} on a terminal, otherwise all",
        help=f"Number of {noun}.",
    )


def table_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of commands that print rows with times from the archive."""
    return iso_option(archive_options(json_option(color_option(command))))


def archive_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of commands that read the archive, passed as `options`."""

    @wraps(command)
    def with_options(**given: Any) -> None:  # noqa: ANN401 (as in click)
        options = CommonOptions(
            **{name: given.pop(name) for name in CommonOptions._fields}
        )
        command(options=options, **given)

    decorated = quiet_option(verbose_option(with_options))
    return archive_option(home_option(no_ingest_option(decorated)))


LAST = "last"
"""The name of the newest session."""
HELP_OPTION_NAMES = ["-h", "--help"]
_ALWAYS_ACCEPTED = {"archive", "homes", "color", "quiet", "verbose"}
"""Options that every command accepts, even if it ignores them."""
_LOCATION_OPTIONS = {"archive", "homes"}
_FLAG_NAMES = {
    "as_json": "--json",
    "no_ingest": "--no-ingest",
    "pick_query": "--query",
}
_CONFIGURABLE = {"color", "iso", "no_ingest"}
_TOLERATES_BAD_SETTINGS = {"doctor", "mcp"}
"""Commands that report invalid settings themselves and continue."""

_NO_JSON_REASONS = {
    "statusline": "it prints the line that Claude Code shows",
    "completion": "it prints a script for a shell",
    "hook": "it prints nothing",
    "mcp": "it speaks JSON-RPC",
    "serve": "it prints a link; `open --json` does so as an object",
    "migrate": "it prints its progress",
    "hub": "`hub token list` and `hub erase` take it",
    "schema": "its output is JSON",
}
"""Why a command has no JSON output."""


def global_options() -> list[click.Option]:
    """Return the options that may come before a command as well as after it."""
    return [option.build() for option in _SHARED_OPTIONS]


def add_global_options(command: click.Command) -> click.Command:
    """Let a command accept the shared options that it does not use.

    Its help page goes through a pager; the same holds for its subcommands.
    """
    known = {name for param in command.params for name in param.opts}
    for option in global_options():
        if option.name in _ALWAYS_ACCEPTED and known.isdisjoint(option.opts):
            option.hidden, option.expose_value = True, False
            option.callback = _warn_unused if option.name in _LOCATION_OPTIONS else None
            command.params.append(option)
    help_option = command.get_help_option(
        click.Context(command, help_option_names=HELP_OPTION_NAMES)
    )
    if help_option is not None:
        help_option.callback = print_help_paged
    if isinstance(command, click.Group):
        for subcommand in command.commands.values():
            add_global_options(subcommand)
    return command


def print_help_paged(
    context: click.Context, _: click.Parameter, is_requested: bool
) -> None:
    if is_requested and not context.resilient_parsing:
        from bygones.cli.help_page import help_page

        print_paged(help_page(context).split("\n"), is_terminal=sys.stdout.isatty())
        context.exit()


def _warn_unused(
    context: click.Context, option: click.Parameter, value: object
) -> object:
    """Warn about an option after a command that does not use it."""
    source = context.get_parameter_source(option.name or "")
    if value and source is ParameterSource.COMMANDLINE:
        name = context.command_path.partition(" ")[2]
        sys.stderr.write(f"note: {name} does not use {option.opts[0]}\n")
    return value


def global_option_values(params: Mapping[str, object]) -> dict[str, Any]:
    """Return the options that were given before the command."""
    return {name: value for name, value in params.items() if value}


def defaults_for(
    command: click.Command, params: Mapping[str, object]
) -> dict[str, Any]:
    """Return the defaults of a command: options before it, then settings."""
    accepted = {param.name for param in command.params if param.expose_value}
    given = global_option_values(params)
    for name in sorted(given.keys() - accepted - _ALWAYS_ACCEPTED):
        raise click.UsageError(
            unsupported_option_message(command.name or "", _FLAG_NAMES[name])
        )
    # Invalid settings must not stop commands that do not use them, such as hooks.
    configured: dict[str, Any] = {}
    try:
        configured = configured_defaults() if accepted & _CONFIGURABLE else {}
    except BygonesError:
        if command.name not in _TOLERATES_BAD_SETTINGS:
            raise
    return {k: v for k, v in {**configured, **given}.items() if k in accepted}


def unsupported_option_message(command: str, flag: str) -> str:
    """Return why a command does not have an option that others have."""
    reason = "it imports nothing before it prints" if flag == "--no-ingest" else ""
    if flag == "--json":
        reason = _NO_JSON_REASONS.get(command, "")
    return f"{command} takes no {flag}{f': {reason}' if reason else ''}"


_EXCLUDED_WORD = re.compile(r"-(?!n[0-9]+$)[^-]{2,}")
_COMBINED_SHORT_OPTIONS = re.compile(r"-(?:[qv]{2,}|[qv]*n=.*|[qv]+n[0-9]*)")
"""Combined short options, or one with `=`, which are not words of a query."""
_ESCAPE = "\0"


class QueryCommand(click.Command):
    """A command in which `-word` excludes a word and is not an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Hide excluded words from click's parser.

        Short options are replaced by their long names, because click would otherwise
        search for similar names first.
        """
        _reject_combined_options(ctx, args)
        options = [param for param in self.params if isinstance(param, click.Option)]
        with_value = {
            name for option in options if not option.is_flag for name in option.opts
        }
        long_names = {
            name: option.opts[-1] for option in options for name in option.opts
        }
        escaped = [
            word
            if previous in with_value
            else _ESCAPE + word
            if _EXCLUDED_WORD.match(word)
            else long_names.get(word, word)
            for previous, word in zip(["", *args], args, strict=False)
        ]
        return super().parse_args(ctx, escaped)


def _reject_combined_options(context: click.Context, args: list[str]) -> None:
    for word in args[: args.index("--")] if "--" in args else args:
        if _COMBINED_SHORT_OPTIONS.fullmatch(word):
            hint = "write -n with a space before its number, and -q and -v separately"
            raise click.UsageError(f"{word} does not exclude a word: {hint}", context)


def unescape_words(words: Iterable[str]) -> tuple[str, ...]:
    """Return the words of a query without the escapes of QueryCommand."""
    return tuple(word.removeprefix(_ESCAPE) for word in words)


_FIELD_PATTERN = r"(-?\w+:)(.*\s.*)"


def join_query_words(words: Sequence[str]) -> str:
    """Join the words of a command line to a query.

    A single word is a whole query. Among several, values of fields that contain spaces
    get back the quotation marks that the shell removed.
    """
    if len(words) == 1:
        return words[0]
    return " ".join(_restore_quotes(word) for word in words)


def _restore_quotes(word: str) -> str:
    found = re.fullmatch(_FIELD_PATTERN, word, re.DOTALL)
    if found is None or '"' in word or "(" in word:
        return word
    return f'{found[1]}"{found[2]}"'


def parse_query_words(words: Sequence[str]) -> Query:
    """Parse a query; print on stderr what may be read differently than meant."""
    from bygones.query.parser import parse_query

    now = datetime.now(UTC)  # noqa: TID251 (an interface reads the clock)
    query = parse_query(
        join_query_words(words), now=now, zone=now.astimezone().tzinfo or UTC
    )
    for note in query.notes:
        is_included = note.suggestion in note.message
        suggestion = "" if is_included else f"; {note.suggestion}"
        sys.stderr.write(sanitize_name(f"note: {note.message}{suggestion}") + "\n")
    return query


def parse_time_option(
    option: str, text: str, *, now: datetime, zone: tzinfo | None = None
) -> TimeRange:
    """Parse the value of `--since`, `--before`, `--until` or `--at` as a query does.

    The last two include all of the day, or of the minute, that they name.
    """
    from bygones.model.query import TimeRange
    from bygones.query.times import ReferenceTime, parse_period

    field = {"--since": "after", "--before": "before"}.get(option, "on")
    reference = ReferenceTime(now, zone or now.astimezone().tzinfo or UTC)
    period = parse_period(field, text, reference)
    if period is None:
        raise click.BadParameter(
            f"{text!r} is not a time; use 2026-01-31, 2w, or yesterday",
            param_hint=option,
        )
    return TimeRange(end=period.end) if field == "on" else period


def print_selection_notes(selection: SessionSelection) -> None:
    """Print on stderr how the words of a query were changed to find something."""
    is_changed = selection.corrections or selection.is_phrase_relaxed
    if not is_changed and not selection.is_partial:
        return
    from bygones.model.summary import SearchResults
    from bygones.render.headers import search_notes

    results = SearchResults(
        corrections=selection.corrections,
        is_phrase_relaxed=selection.is_phrase_relaxed,
        is_partial=selection.is_partial,
    )
    for note in search_notes(results):
        sys.stderr.write(sanitize_name(f"note: {note}") + "\n")


def print_tag_notes(archive: Archive, query: Query) -> None:
    """Print on stderr how to search for a tag of several words, if one may be meant."""
    if "tag" not in {field for field, _ in _field_values(query)}:
        return
    tags = {tag for one in archive.annotations().values() for tag in one.tags}
    for field, value in _field_values(query):
        start = f"{value} ".casefold()
        longer = sorted(tag for tag in tags if tag.casefold().startswith(start))
        if field == "tag" and value not in tags and longer:
            note = f'the tag "{longer[0]}" has a space: write \'tag:"{longer[0]}"\''
            sys.stderr.write(sanitize_name(f"note: {note}") + "\n")


def _field_values(query: Query) -> list[tuple[str, str]]:
    """Return the fields of a query that have a value, with it."""
    from bygones.model.query import FieldValue
    from bygones.query.fields import iter_leaves

    leaves = iter_leaves(query.root) if query.root is not None else ()
    return [(one.field, one.value) for one in leaves if isinstance(one, FieldValue)]
