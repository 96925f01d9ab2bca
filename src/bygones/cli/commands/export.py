"""`bygones export`: sessions as pages and files that can be given away."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click
import msgspec
from msgspec import Struct, structs

from bygones.cli.context import (
    CommonOptions,
    archive_options,
    complete_branches,
    complete_names,
    display_path,
    json_option,
    parse_time_option,
    path_type,
)
from bygones.cli.open_archive import open_current
from bygones.cli.output import WRITE_INTERRUPTED, explain_interrupt, print_objects
from bygones.cli.resolve import choose_branch, project_scope, resolve_names
from bygones.cli.terminal import StagedProgressBar
from bygones.config import find_prices_file, load_redact_settings
from bygones.errors import SecretsDetected
from bygones.export.files import (
    SourceOpener,
    iter_transcript_files,
    make_file_name,
    write_atomic,
)
from bygones.export.folder import ExportItem, export_folder
from bygones.export.formats import (
    ExportFormat,
    ExportOptions,
    export_session,
    render_session,
)
from bygones.export.report import RedactionReport
from bygones.export.scanner import scan_sessions
from bygones.model.base import SessionId
from bygones.model.path_text import encode_path
from bygones.model.query import TimeRange
from bygones.model.sessions import Session
from bygones.query.matcher import overlaps
from bygones.reader import read_sessions, read_source_file
from bygones.redact.engine import Redactor
from bygones.redact.session import RedactionLog
from bygones.render.numbers import format_bytes, pluralize
from bygones.schema.commands import ExportObject
from bygones.usage.message_costs import make_message_pricer
from bygones.usage.prices import load_prices

if TYPE_CHECKING:
    from bygones.archive import Archive


def load_user_redactor() -> Redactor:
    """Return what hides this user's secrets: the known ones, and those of settings."""
    home = Path.home()
    own = load_redact_settings(os.environ, home)
    try:
        login = getpass.getuser()
    except (OSError, KeyError, ImportError):
        login = home.name
    return Redactor(names=(login, home.name, *own.names), patterns=own.patterns.items())


_DEFAULT_FOLDER = "bygones-export"
_STDOUT = Path("-")


class ExportRequest(Struct, frozen=True, kw_only=True):
    """What somebody wants to have exported."""

    names: tuple[str, ...] = ()
    select_all: bool = False
    source: Path | None = None
    format: str = "html"
    to: Path | None = None
    branch: str | None = None
    turns: str | None = None
    search: str | None = None
    since: str | None = None
    redact: bool = True
    private: bool = False
    second_opinion: bool = False
    report: Path | None = None
    as_json: bool = False


class _ExportResult(Struct, frozen=True, kw_only=True):
    """What an export wrote."""

    path: Path
    """What to open."""
    files: tuple[Path, ...] = ()
    sessions: int = 1
    unchanged: int = 0
    empty: int = 0
    bytes: int
    tally: RedactionReport


class _Skipped(Struct):
    """What was meant, and is not written."""

    empty: int = 0


def run_export(
    request: ExportRequest, options: CommonOptions, out: TextIO, err: TextIO
) -> None:
    """Export what is wished for; say where it is, and what was hidden."""
    prices = load_prices(find_prices_file(os.environ, Path.home()))
    left = _Skipped()
    with _select_sessions(request, options, left) as (chosen, bytes_of):
        making = ExportOptions(
            format=ExportFormat(request.format),
            redactor=load_user_redactor() if request.redact else None,
            message_pricer=make_message_pricer(prices),
            usage_pricer=prices.compute_cost,
            include_private=request.private,
            open_source=bytes_of,
        )
        wanted = (
            _scan_for_secrets(chosen, making, err) if request.second_opinion else chosen
        )
        first = list(islice(wanted, 2))
        if _is_single(request, len(first)):
            done = _export_one(first[0].load(), request, making, out)
        else:
            done = _export_many(chain(first, wanted), request, making)
        done = structs.replace(done, empty=left.empty)
    if request.report is not None:
        write_atomic(request.report, [done.tally.to_jsonl()], private=True)
    if request.as_json:
        print_objects([_result_object(request, done)])
        return
    if request.to != _STDOUT:
        out.writelines(f"{path}\n" for path in done.files or (done.path,))
    if not options.quiet:
        err.write("".join(f"{told}\n" for told in _summary_lines(request, done)))


def validate_request(request: ExportRequest) -> None:
    """Refuse what cannot be wished for together."""
    if request.select_all and request.names:
        raise click.UsageError("name sessions or a project, or ask for --all alone")
    if not (request.select_all or request.names or request.source or request.search):
        raise click.UsageError("name sessions or a project, or ask for --all")
    if request.search and (request.names or request.source):
        raise click.UsageError("--search looks through the whole archive")
    if request.private and (request.redact or request.format != ExportFormat.JSONL):
        raise click.UsageError("--private goes with --no-redact --format jsonl alone")
    if request.as_json and request.to == _STDOUT:
        raise click.UsageError("-o - and --json both print; give -o a file")
    if request.second_opinion and not request.redact:
        raise click.UsageError("a second opinion is on what --redact leaves")


def _result_object(request: ExportRequest, result: _ExportResult) -> ExportObject:
    return ExportObject(
        path=encode_path(result.path),
        format=request.format,
        files=tuple(map(encode_path, result.files)),
        session_count=result.sessions,
        unchanged_count=result.unchanged,
        empty_count=result.empty,
        written_bytes=result.bytes,
        is_redacted=request.redact,
        redactions=dict(result.tally.counts),
        private_record_count=result.tally.private_records,
        report_path=encode_path(request.report) if request.report else None,
    )


def _summary_lines(request: ExportRequest, result: _ExportResult) -> Iterator[str]:
    """Yield what was written, what is said of what was hidden, and of what was not."""
    if not result.files and request.to != _STDOUT:
        sessions = pluralize(result.sessions, "session")
        same = f"; {result.unchanged:,} had not changed" if result.unchanged else ""
        where = display_path(request.to or Path(_DEFAULT_FOLDER))
        yield f"{sessions} written, {format_bytes(result.bytes)}{same}, in {where}"
    if result.empty:
        left = pluralize(result.empty, "session")
        yield f"{left} left out, in which nothing was said: --format jsonl has them"
    if _is_raw_export(request) and not result.files and request.to != _STDOUT:
        yield _OTHER_FILES_NOTE
    if request.redact:
        yield from filter(None, (result.tally.summary(),))
        return
    yield _NOT_REDACTED_NOTE
    if result.tally.private_records:
        left = pluralize(result.tally.private_records, "private record")
        yield f"{left} left out: --private writes those too"


def _scan_for_secrets(
    sessions: Iterable[ExportItem], making: ExportOptions, err: TextIO
) -> Iterator[ExportItem]:
    """Have another program look at everything before anything is written."""
    every = list(sessions)
    found = scan_sessions((one.load() for one in every), making)
    err.writelines(
        f"{one.rule}: session {one.session}, record {one.record}\n" for one in found
    )
    if found:
        raise SecretsDetected(len(found), sorted({one.rule for one in found}))
    return iter(every)


_OTHER_FILES_NOTE = (
    "journals of workflows, notes on agents and outputs in files of their own are no "
    "transcripts, and not here: bygones restore writes every file"
)
_NOT_REDACTED_NOTE = "nothing was hidden: look before you give it away"


@contextmanager
def _select_sessions(
    request: ExportRequest, options: CommonOptions, skipped: _Skipped
) -> Iterator[tuple[Iterator[ExportItem], SourceOpener]]:
    """Give the sessions that are meant; they can be opened while the context lasts."""
    since = request.since
    now = datetime.now(UTC)  # noqa: TID251 (an interface reads the clock)
    start = parse_time_option("--since", since, now=now).start if since else None
    if request.source is not None:
        yield (
            _select_from_files(request.source, request, start, skipped),
            read_source_file,
        )
        return
    with open_current(options) as archive:
        yield (
            _select_from_archive(archive, request, start, skipped),
            archive.read_source,
        )


def _select_from_files(
    path: Path, request: ExportRequest, start: datetime | None, skipped: _Skipped
) -> Iterator[ExportItem]:
    names = request.names
    missing = set(names)
    for session in read_sessions(path):
        fitting = {name for name in names if session.id.startswith(name)}
        for name in fitting - missing:
            raise click.UsageError(f"several sessions begin with {name!r}")
        missing -= fitting
        if names and not fitting:
            continue
        if start is not None and not overlaps(TimeRange(start), session):
            continue
        if session.is_empty and not names and not _is_raw_export(request):
            skipped.empty += 1
        else:
            files = [(one.id, one.size, one.mtime_ns) for one in session.sources]
            stamp = msgspec.json.encode(files)
            yield ExportItem(
                id=session.id, fingerprint=stamp, load=partial(_return_session, session)
            )
    if missing:
        raise click.UsageError(f"no session begins with {min(missing)!r}")


def _is_raw_export(request: ExportRequest) -> bool:
    """Whether all that is there is wanted, and not only what can be read."""
    return request.format == ExportFormat.JSONL


def _return_session(session: Session) -> Session:
    return session


def _select_from_archive(
    archive: Archive, request: ExportRequest, start: datetime | None, skipped: _Skipped
) -> Iterator[ExportItem]:
    wanted = None
    if request.search is None and not request.select_all:
        wanted = _resolve_session_ids(archive, request.names)
    for listed in archive.sessions(request.search, include_empty=True):
        if wanted is not None and listed.id not in wanted:
            continue
        if start is not None and not overlaps(TimeRange(start), listed):
            continue
        if listed.is_empty and request.select_all and not _is_raw_export(request):
            skipped.empty += 1
        else:
            yield ExportItem(
                id=listed.id,
                fingerprint=msgspec.json.encode(listed),
                load=partial(archive.session, listed.id),
            )


def _resolve_session_ids(archive: Archive, names: Sequence[str]) -> set[SessionId]:
    """Return the named sessions, and those of the named projects."""
    found = resolve_names(archive, names)
    in_projects = (
        {one.id for one in archive.sessions(project=scope, include_empty=True)}
        for scope in map(project_scope, found.projects)
    )
    return {*found.sessions}.union(*in_projects)


def _is_single(request: ExportRequest, count: int) -> bool:
    """Whether one session goes into one file; ``count`` is right up to two."""
    if not count:
        raise click.UsageError(
            f"{_nothing_selected_reason(request)}: nothing is written"
        )
    to = request.to
    is_alone = count == 1 and len(request.names) <= 1 and not request.select_all
    is_alone = is_alone and request.search is None
    if is_alone and not (to is not None and to != _STDOUT and to.is_dir()):
        return True
    if request.branch or request.turns or to == _STDOUT:
        raise click.UsageError("--branch, --turns and -o - go with one session alone")
    if (
        to is not None
        and to.suffix == ExportFormat(request.format).suffix
        and not to.is_dir()
    ):
        raise click.UsageError(f"several sessions go into a folder, not into {to}")
    return False


def _nothing_selected_reason(request: ExportRequest) -> str:
    """Return why no session is left to write."""
    if request.search is not None:
        return f"the search {request.search!r} finds no session"
    if request.since is not None:
        return f"nothing went on since {request.since}"
    return "no session was meant, or none in which anything was said"


def _export_one(
    session: Session, request: ExportRequest, making: ExportOptions, out: TextIO
) -> _ExportResult:
    branch = choose_branch(session, request.branch)
    turns = _parse_turn_range(request.turns)
    _check_turns(session, branch, turns.get("first_turn") or 0)
    view = structs.replace(making.view, branch=branch, **turns)
    making = structs.replace(making, view=view)
    finds = RedactionLog()
    path = request.to or Path(f"{make_file_name(session.id)}{making.format.suffix}")
    files: list[Path] = []
    if request.to == _STDOUT:
        out.writelines(_text_parts(session, making, finds))
    else:
        files = export_session(session, path, making, finds)
    tally = RedactionReport()
    tally.add(session.id, finds, keep_details=request.report is not None)
    weight = sum(one.stat().st_size for one in files)
    return _ExportResult(path=path, files=tuple(files), bytes=weight, tally=tally)


def _text_parts(
    session: Session, making: ExportOptions, finds: RedactionLog
) -> Iterator[str]:
    if making.format is not ExportFormat.JSONL:
        yield from render_session(session, making, finds)
        return
    for one in iter_transcript_files(
        session,
        making.open_source,
        making.redactor,
        finds,
        include_private=making.include_private,
    ):
        for raw in one.chunks:
            yield raw.decode("utf-8", "surrogateescape")


def _parse_turn_range(text: str | None) -> dict[str, int | None]:
    """Return the first and the last turn, counted from 0 as the walk counts them."""
    if text is None:
        return {}
    first, dash, last = text.partition("-")
    if not first.isdecimal() or not (last.isdecimal() or not last):
        raise click.UsageError(f"{text!r} are no turns; 2-4, 2- and 2 are")
    start = int(first) - 1
    end = (int(last) - 1 if last else None) if dash else start
    if start < 0 or (end is not None and end < start):
        raise click.UsageError(f"{text!r} are no turns; the first one is 1")
    return {"first_turn": start, "last_turn": end}


def _check_turns(session: Session, number: int, first: int) -> None:
    """Refuse turns of which the branch has none."""
    turns = next((one.turns for one in session.branches if one.number == number), ())
    if first > max((turn.number for turn in turns), default=0):
        has = pluralize(len(turns), "turn")
        raise click.UsageError(f"there is no turn {first + 1}: the branch has {has}")


def _export_many(
    sessions: Iterable[ExportItem], request: ExportRequest, making: ExportOptions
) -> _ExportResult:
    folder = request.to or Path(_DEFAULT_FOLDER)
    keep = request.report is not None
    with explain_interrupt(WRITE_INTERRUPTED), StagedProgressBar() as bar:
        if request.source is None:
            # The archive knows how many there are; of files one is read at a time.
            sessions = list(sessions)
            bar.begin("sessions", len(sessions))
        done = export_folder(
            _count_progress(sessions, bar), folder, making, keep_details=keep
        )
    return _ExportResult(
        path=folder / "index.html" if making.format is ExportFormat.HTML else folder,
        sessions=done.written_sessions,
        unchanged=done.unchanged_sessions,
        bytes=done.bytes_written,
        tally=done.report,
    )


def _count_progress(
    sessions: Iterable[ExportItem], bar: StagedProgressBar
) -> Iterator[ExportItem]:
    for one in sessions:
        yield one
        bar.advance(1)


FORMATS = tuple(form.value for form in ExportFormat)


@click.command("export")
@click.argument(
    "names", nargs=-1, metavar="[SESSION|PROJECT]...", shell_complete=complete_names
)
@click.option("--all", "select_all", is_flag=True, help="All that the archive has.")
@click.option(
    "--from",
    "source",
    type=path_type(),
    metavar="PATH",
    help="Read a transcript, a folder of them or a home, without any archive.",
)
@click.option(
    "--format",
    "format",
    type=click.Choice(FORMATS),
    default="html",
    show_default=True,
    help="What to write; jsonl is the original lines.",
)
@click.option(
    "-o",
    "--to",
    type=path_type(),
    metavar="PATH",
    help="The file of a session, or the folder of several; - for stdout.",
)
@click.option(
    "--branch",
    metavar="NUMBER|LEAF",
    shell_complete=complete_branches,
    help="Follow another branch.",
)
@click.option("--turns", metavar="FIRST-LAST", help="Only these turns, from 1 on.")
@click.option("--search", metavar="QUERY", help="Only sessions that answer a query.")
@click.option("--since", metavar="WHEN", help="Only what went on since, as in a query.")
@click.option(
    "--redact/--no-redact",
    default=True,
    show_default=True,
    help="Hide secrets, home folders, names and addresses.",
)
@click.option(
    "--private",
    is_flag=True,
    help="With --no-redact --format jsonl: private records too, every byte.",
)
@click.option(
    "--second-opinion",
    is_flag=True,
    help="Have gitleaks or kingfisher look first; what they see stops the export.",
)
@click.option(
    "--report",
    type=path_type(allow_folder=False),
    metavar="FILE",
    help="Write the place of everything that was hidden.",
)
@archive_options
@json_option
def export(names: tuple[str, ...], *, options: CommonOptions, **fields: Any) -> None:  # noqa: ANN401 (the fields of ExportRequest)
    r"""Write sessions as pages and files that can be given away.

    A SESSION is an id, the beginning of one, "last", or a number of the last search;
    a PROJECT is its directory or its name. One session becomes one file that needs
    nothing else. Several become a folder: as html with lists and a search; written
    again, only what changed is.
    Secrets, home folders, user names and mail addresses are hidden unless
    --no-redact is given, and private records left out unless --private is.

    \b
    bygones export 5e551000
    bygones export 5e551000 --format markdown --turns 2-4
    bygones export . --to site
    bygones export --search "login test" --to site
    bygones export --all --since 30d --report hidden.jsonl
    """
    request = ExportRequest(names=names, **fields)
    validate_request(request)
    run_export(request, options, sys.stdout, sys.stderr)
