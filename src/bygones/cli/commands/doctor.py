"""`bygones doctor`: the state of the installation, the archive and the homes."""

from __future__ import annotations

import os
import platform
import shlex
import stat
import sys
from contextlib import contextmanager, nullcontext
from difflib import get_close_matches
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
from msgspec import structs

from bygones import __version__
from bygones.archive import Archive
from bygones.cli.context import (
    CommonOptions,
    archive_options,
    color_option,
    find_homes,
    json_option,
)
from bygones.cli.open_archive import open_current
from bygones.cli.output import Console, display_path, print_objects, print_paged
from bygones.cli.problem_lines import format_problem_row
from bygones.config import (
    PATH_SETTINGS,
    PRICES_ENV,
    SETTINGS,
    SETTINGS_ENV,
    TOKEN_ENV,
    find_settings_file,
    is_store_url,
    load_settings,
)
from bygones.errors import (
    BygonesError,
    ExitCode,
    NoTranscriptsFound,
    PathNotFound,
    UnsupportedOnTeamStore,
)
from bygones.maintenance.retention import (
    find_expiring_sessions,
    find_source_files,
    read_retention_periods,
)
from bygones.render.headers import describe_verification
from bygones.render.numbers import format_bytes, pluralize, version_order
from bygones.render.text.primitives import sanitize_line, sanitize_name, truncate_end
from bygones.schema.commands import DoctorObject, ExpiringSessionObject, RetentionObject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


_VARIABLE_PREFIX = "BYGONES_"
_OTHER_VARIABLES = {
    PRICES_ENV,
    SETTINGS_ENV,
    TOKEN_ENV,
    *(
        f"{_VARIABLE_PREFIX}{name}"
        for name in ("DEBUG", "HUB_RAW", "HUB_STORE", "MCP_TOKEN")
    ),
}


@contextmanager
def ignore_invalid_settings() -> Iterator[list[str]]:
    """Yield what is wrong with the settings, which are ignored meanwhile."""
    saved = dict(os.environ)
    errors = list(_unknown_variables(os.environ))
    try:
        load_settings(os.environ, Path.home())
    except BygonesError as error:
        errors.append(str(error))
        for setting in SETTINGS:
            if setting.name not in PATH_SETTINGS:
                os.environ.pop(setting.env_variable, None)
        os.environ[SETTINGS_ENV] = os.devnull
    try:
        yield errors
    finally:
        os.environ.clear()
        os.environ.update(saved)


def _unknown_variables(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield a message for each unknown variable with our prefix."""
    known = {
        *(one.env_variable for one in SETTINGS if one.env_variable),
        *_OTHER_VARIABLES,
    }
    for name in sorted(environ):
        if name.startswith(_VARIABLE_PREFIX) and name not in known:
            close = get_close_matches(name, known, n=1, cutoff=0.8)
            meant = f"; did you mean {close[0]}?" if close else ""
            yield f"{name} is not a variable of Bygones{meant}"


_LIBRARIES = ("apsw", "tantivy", "zstandard", "msgspec")
_GROUP_AND_OTHERS_BITS = 0o077


def collect_state(
    archive: Archive | None,
    homes: Sequence[Path],
    settings_file: Path,
    settings_errors: Sequence[str],
) -> DoctorObject:
    alone = DoctorObject(
        python=platform.python_version(),
        library_versions={name: version(name) for name in _LIBRARIES},
        settings_path=str(settings_file) if settings_file.is_file() else None,
        settings_errors=tuple(settings_errors),
    )
    return alone if archive is None else _add_archive_state(alone, archive, homes)


def _add_archive_state(
    row: DoctorObject, archive: Archive, homes: Sequence[Path]
) -> DoctorObject:
    if is_store_url(archive.folder.as_posix()):
        raise UnsupportedOnTeamStore(archive.folder.name)
    kept = archive.sources()
    listed = list(archive.sessions(include_empty=True)) if archive.has_index else []
    return structs.replace(
        row,
        has_archive=True,
        archive_bytes=_total_size(archive.folder, "archive.db*"),
        index_bytes=_total_size(archive.folder / "index", "**/*"),
        is_private=_is_private(archive.folder),
        has_index=archive.has_index,
        is_current=not homes or archive.is_current(homes),
        unindexed_count=archive.unindexed_count,
        is_purge_pending=archive.purge_pending,
        last_verification=archive.last_verification,
        session_count=sum(not one.is_empty for one in listed),
        project_count=len(
            {
                one.project_path or one.project_keys[:1]
                for one in listed
                if not one.is_empty
            }
        ),
        file_count=len(kept),
        gone_file_count=sum(k.gone_ns is not None for k in kept),
        prompts_only_count=(
            len(archive.prompts_only_sessions()) if archive.has_index else 0
        ),
        versions=tuple(
            sorted({v for one in listed for v in one.versions}, key=version_order)
        ),
        drift_count=len(archive.drift()) if archive.has_index else 0,
        problem_count=sum(one.problem_count for one in listed),
        problem_session_count=sum(one.problem_count > 0 for one in listed),
    )


def _total_size(folder: Path, pattern: str) -> int:
    return sum(path.stat().st_size for path in folder.glob(pattern) if path.is_file())


def _is_private(folder: Path) -> bool:
    if os.name == "nt":
        return True  # access is not in the mode bits there
    return not any(
        stat.S_IMODE(path.stat().st_mode) & _GROUP_AND_OTHERS_BITS
        for path in (folder, *folder.glob("archive.db*"))
    )


def find_known_homes(
    given: Sequence[Path], settings_errors: list[str]
) -> tuple[Path, ...]:
    """Return the homes of this machine, if there are any.

    A home in the settings that does not exist is added to `settings_errors`.
    """
    try:
        return find_homes(given)
    except NoTranscriptsFound:
        if given:
            raise
    except PathNotFound as error:
        if given:
            raise
        settings_errors.append(f"{error}, but is configured as a home")
    return ()


_SOON_DAYS = 7
_MAX_LISTED = 3
_TITLE_COLUMN = 32
"""The column at which the title of an expiring session starts."""
_HANGING_INDENT = "      "


class Finding(NamedTuple):
    """Something that is not as it should be, and what to do about it."""

    text: str
    action: str
    is_failure: bool = True
    """Whether the exit code reports it; otherwise it is advice."""


def find_issues(
    state: DoctorObject, homes: Sequence[Path], folder: str
) -> Iterator[Finding]:
    """Yield what to do next, the most urgent first."""
    for error in state.settings_errors:
        yield Finding(error, "correct the setting")
    if not state.has_archive:
        start = "bygones ingest"
        if not homes:
            start += " --home PATH, or bygones demo for sample data"
        yield Finding("there is no archive", start)
        return
    verification = state.last_verification
    is_damaged = verification is not None and not verification.is_intact
    unindexed = pluralize(state.unindexed_count, "session")
    problems = pluralize(state.problem_count, "problem")
    sessions = pluralize(state.problem_session_count, "session")
    checks = (
        (is_damaged, "the archive is damaged", "bygones repair"),
        (not state.has_index, "the search index is missing", "bygones rebuild"),
        (state.is_purge_pending, "a purge was interrupted", "run it again"),
        (
            not state.is_private,
            "other users can read the archive",
            f"chmod -R go= {folder}",
        ),
        (
            state.unindexed_count > 0,
            f"{unindexed} not indexed",
            "bygones ingest indexes them, or reports why it cannot",
        ),
        (
            not state.is_current and not state.unindexed_count,
            "there are new transcripts",
            "bygones ingest",
        ),
    )
    advice = (
        (not homes, "no Claude Code home was found", "use --home PATH"),
        (verification is None, "the archive was not verified yet", "bygones verify"),
        (
            state.problem_count > 0,
            f"{problems} in the transcripts of {sessions}",
            "bygones doctor --problems",
        ),
    )
    yield from (Finding(text, action) for applies, text, action in checks if applies)
    for applies, text, action in advice:
        if applies:
            yield Finding(text, action, is_failure=False)


def summary_lines(findings: Sequence[Finding], console: Console) -> Iterator[str]:
    """Yield whether everything is well, and what to do next."""
    failures = [one for one in findings if one.is_failure]
    style = console.style
    if failures:
        count = pluralize(len(failures), "thing needs", "things need")
        yield style.warning(f"{count} your attention")
    else:
        yield style.heading("All is well")
    for one in findings:
        mark = "✗" if one.is_failure else "·"
        line = sanitize_name(f"  {mark} {one.text}: {one.action}")
        wrapped = console.wrap(line, indent=_HANGING_INDENT)
        yield from map(style.warning, wrapped) if one.is_failure else wrapped
    yield ""


def version_lines(state: DoctorObject) -> Iterator[str]:
    engines = " · ".join(
        f"{name} {one}" for name, one in state.library_versions.items()
    )
    yield f"bygones {__version__} · Python {state.python} · {engines}"
    settings = (
        sanitize_name(display_path(state.settings_path))
        if state.settings_path
        else "none"
    )
    yield f"settings: {settings}"


def archive_lines(
    state: DoctorObject, options: CommonOptions, console: Console
) -> Iterator[str]:
    style = console.style
    yield ""
    yield style.heading(f"Archive  {sanitize_name(display_path(options.folder))}")
    if not state.has_archive:
        yield "  none yet"
        return
    index = format_bytes(state.index_bytes) if state.has_index else "missing"
    yield f"  {format_bytes(state.archive_bytes)}, index {index}"
    sessions = pluralize(state.session_count, "session")
    yield f"  {sessions} in {pluralize(state.project_count, 'project')}"
    if state.prompts_only_count:
        others = pluralize(state.prompts_only_count, "more session")
        yield f"  only the prompts of {others}; run `bygones list is:prompts-only`"
    files = pluralize(state.file_count, "file")
    only_here = f", {state.gone_file_count:,} of them deleted by Claude Code since"
    yield f"  {files}{only_here if state.gone_file_count else ''}"
    if state.versions:
        first, last = state.versions[0], state.versions[-1]
        span = first if first == last else f"{first} to {last}"
        yield f"  written by Claude Code {sanitize_line(span)}"
    if state.last_verification is not None:
        when = _verified_time(state, console)
        yield f"  verified {describe_verification(state.last_verification, when)}"
    if state.drift_count:
        kinds = pluralize(
            state.drift_count, "type, field or version", "types, fields and versions"
        )
        yield f"  {kinds} unknown to this version of Bygones; stored unchanged"


def _verified_time(state: DoctorObject, console: Console) -> str:
    return (
        console.format_time(state.last_verification.verified_at)
        if state.last_verification
        else ""
    )


def home_lines(periods: Sequence[RetentionObject], console: Console) -> Iterator[str]:
    yield ""
    yield console.style.heading("Homes")
    for row in periods:
        files = pluralize(row.file_count, "file")
        yield f"  {sanitize_name(display_path(row.home))}: {files}, {format_bytes(row.size_bytes)}"
        why = "cleanupPeriodDays" if row.is_configured else "the default"
        yield f"    Claude Code deletes after {pluralize(row.days, 'day')} ({why})"
    if not periods:
        yield "  none found"


def deletion_lines(
    state: DoctorObject,
    periods: Sequence[RetentionObject],
    expiring: Sequence[ExpiringSessionObject],
    console: Console,
) -> Iterator[str]:
    soon = [row for row in expiring if row.days_left <= _SOON_DAYS]
    if not periods:
        return
    yield ""
    yield console.style.heading("What Claude Code will delete")
    near = pluralize(len(soon), "session")
    yield f"  {near} within {_SOON_DAYS} days, {len(expiring):,} in total"
    for row in expiring[:_MAX_LISTED]:
        when = (
            f"in {pluralize(row.days_left, 'day')}"
            if row.days_left
            else "at its next run"
        )
        name = console.style.location(sanitize_line(row.session_id)[:8])
        title = sanitize_line(row.title)
        if console.width is not None:
            title = truncate_end(title, max(console.width - _TITLE_COLUMN, 1))
        yield f"  {name}  {when:18}  {title}"
    kept = "all are" if state.has_archive else "none is"
    yield f"  {kept} in the archive; to make Claude Code keep them longer, set"
    for home in periods:
        yield f'    "cleanupPeriodDays": 3650  in {sanitize_name(display_path(home.settings_path))}'


@click.command("doctor")
@click.option(
    "--problems",
    "all_problems",
    is_flag=True,
    help="List every problem in archived sessions instead, with file and line.",
)
@archive_options
@json_option
@color_option
def doctor(
    *, all_problems: bool, options: CommonOptions, as_json: bool, color: str
) -> None:
    r"""Check the setup, and show what Claude Code will delete.

    \b
    bygones doctor
    bygones doctor --problems
    bygones doctor --quiet

    What needs your attention comes first, with the command to run next; the exit code is
    then 1. With --quiet only that is printed.

    Claude Code deletes transcripts 30 days after they were last written, or after
    cleanupPeriodDays in its settings.json. Bygones does not change this setting; the
    archive keeps everything. Invalid Bygones settings are reported and ignored.
    """
    settings_file = find_settings_file(os.environ, Path.home())
    with ignore_invalid_settings() as errors:
        console = Console.for_stdout(color)
        homes = find_known_homes(options.homes, errors)
        options = options._replace(no_ingest=options.no_ingest or not homes)
        if all_problems:
            _print_problems(options, as_json=as_json)
            return
        state = partial(
            collect_state,
            homes=homes,
            settings_file=settings_file,
            settings_errors=errors,
        )
        _print_report(options, homes, state, console, as_json=as_json)


def _print_problems(options: CommonOptions, *, as_json: bool) -> None:
    with open_current(options) as archive:
        rows = archive.problem_rows()
        if as_json:
            print_objects(rows)
            return
        lines = [format_problem_row(row) for row in rows]
    print_paged(lines or ["no problems"], is_terminal=sys.stdout.isatty())


def _print_report(
    options: CommonOptions,
    homes: tuple[Path, ...],
    collect: Callable[[Archive | None], DoctorObject],
    console: Console,
    *,
    as_json: bool,
) -> None:
    # doctor does not create an archive.
    with (
        open_current(options)
        if Archive.exists(options.folder)
        else nullcontext() as archive
    ):
        found = collect(archive)
        if archive is None:
            files, titles = find_source_files(homes), None
        else:
            stored = archive.sources()
            files = [kept.source for kept in stored if kept.gone_ns is None]
            listed = archive.sessions() if archive.has_index else ()
            titles = {summary.id: summary.title.text for summary in listed}
        periods = read_retention_periods(files, homes)
        going = find_expiring_sessions(files, periods, titles, console.now)
    folder = shlex.quote(display_path(options.folder))
    findings = list(find_issues(found, homes, folder))
    if as_json:
        print_objects((found, *periods, *going))
        _exit_if_failing(findings)
        return
    lines = [
        *summary_lines(findings, console),
        *version_lines(found),
        *archive_lines(found, options, console),
        *home_lines(periods, console),
        *deletion_lines(found, periods, going, console),
    ]
    if options.quiet:
        failing = [one for one in findings if one.is_failure]
        lines = [*summary_lines(failing, console)][:-1] if failing else []
    # Colored lines are short; wrapping would count their escape codes.
    console.print_lines(
        part
        for line in lines
        for part in (
            (line,) if "\x1b" in line else console.wrap(line, indent=_HANGING_INDENT)
        )
    )
    _exit_if_failing(findings)


def _exit_if_failing(findings: Sequence[Finding]) -> None:
    if any(one.is_failure for one in findings):
        raise click.exceptions.Exit(ExitCode.FAILURE)
