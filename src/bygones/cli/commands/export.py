"""`bygones export`: write sessions as files to share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

import click
import msgspec
from msgspec import Struct, structs

from bygones.cli.context import (
    EMPTY_PATH_MESSAGE,
    CommonOptions,
    archive_options,
    complete_branches,
    complete_names,
    json_option,
    parse_time_option,
    path_type,
)
from bygones.cli.open_archive import open_current
from bygones.cli.output import (
    WRITE_INTERRUPTED,
    StagedProgressBar,
    display_path,
    explain_interrupt,
    print_objects,
)
from bygones.cli.picker.choose import pick_session, query_option, wants_picker
from bygones.cli.resolve import choose_branch, project_scope, resolve_names
from bygones.config import find_prices_file, load_redactor
from bygones.errors import ExportIncomplete, SecretsDetected, TextsMissing
from bygones.export.files import (
    SourceOpener,
    iter_transcript_files,
    make_file_name,
    write_atomic,
)
from bygones.export.folder import ExportItem, export_folder, find_unredacted_files
from bygones.export.formats import (
    ExportFormat,
    ExportInput,
    ExportOptions,
    RedactionReport,
    as_input,
    export_session,
    render_session,
)
from bygones.export.scanner import scan_sessions
from bygones.model.base import SessionId, encode_path
from bygones.model.query import TimeRange
from bygones.model.sessions import Session
from bygones.query.matcher import overlaps
from bygones.reader import read_sessions, read_source_file
from bygones.redact.session import RedactionLog
from bygones.render.numbers import format_bytes, pluralize
from bygones.schema.commands import ExportObject
from bygones.usage.message_costs import make_message_pricer
from bygones.usage.prices import load_prices

if TYPE_CHECKING:
    from bygones.archive import Archive
    from bygones.model.conversations import Conversation
    from bygones.usage.prices import Prices


_DEFAULT_FOLDER = "bygones-export"
_STDOUT = Path("-")
PARQUET = "parquet"
"""The format that writes tables instead of sessions."""


class ExportRequest(Struct, frozen=True, kw_only=True):
    """The options of an export."""

    names: tuple[str, ...] = ()
    select_all: bool = False
    source: Path | None = None
    format: str = "html"
    to: Path | None = None
    wants_folder: bool = False
    """Whether the target was written with a slash at its end."""
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
    path: Path
    """The file or folder to open."""
    files: tuple[Path, ...] = ()
    sessions: int = 1
    unchanged: int = 0
    empty: int = 0
    bytes: int
    report: RedactionReport
    failures: dict[SessionId, Exception] = {}
    incomplete: dict[SessionId, Exception] = {}
    """Sessions that were written without some texts."""
    unredacted_files: Sequence[Path] = ()


class _Selected(Struct):
    """What is known about the selection once its first session was found."""

    empty: int = 0
    """Selected sessions without messages, which are not written."""
    has_project: bool = False
    """Whether a project was named."""


class _Selection(NamedTuple):
    """The sessions to export."""

    items: Iterator[ExportItem]
    open_source: SourceOpener
    login_names: Callable[[], frozenset[str]]
    """Returns the names that are redacted in all sessions."""


def run_export(
    request: ExportRequest, options: CommonOptions, out: TextIO, err: TextIO
) -> None:
    prices = load_prices(find_prices_file(os.environ, Path.home()))
    counts = _Selected()
    with _select_sessions(request, options, counts, prices) as selection:
        selected, open_source, login_names = selection
        redactor = load_redactor(os.environ, Path.home()) if request.redact else None
        export_options = ExportOptions(
            format=ExportFormat(request.format),
            redactor=redactor and redactor.with_accounts(login_names()),
            message_pricer=make_message_pricer(prices),
            usage_pricer=prices.compute_cost,
            include_private=request.private,
            open_source=open_source,
        )
        wanted = (
            _scan_for_secrets(selected, export_options, err)
            if request.second_opinion
            else selected
        )
        wanted = _without_copies(wanted)
        first = list(islice(wanted, 2))
        if _is_single(request, len(first), has_project=counts.has_project):
            done = _export_one(
                as_input(first[0].load(), export_options), request, export_options, out
            )
        else:
            done = _export_many(chain(first, wanted), request, export_options)
        done = structs.replace(done, empty=counts.empty)
    if request.report is not None:
        write_atomic(request.report, [done.report.to_jsonl()], private=True)
    if request.as_json:
        print_objects([_result_object(request, done)])
    else:
        if request.to != _STDOUT:
            out.writelines(f"{path}\n" for path in done.files or (done.path,))
        if not options.quiet:
            err.writelines(f"{line}\n" for line in _summary_lines(request, done))
    for session, error in done.failures.items():
        raise ExportIncomplete(len(done.failures), session, error)
    for session, error in done.incomplete.items():
        raise TextsMissing(len(done.incomplete), session, error)


def validate_request(request: ExportRequest) -> None:
    """Raise a usage error if options contradict each other."""
    if request.select_all and request.names:
        raise click.UsageError("name sessions or a project, or use --all alone")
    if not (request.select_all or request.names or request.source or request.search):
        raise click.UsageError("name sessions or a project, or use --all")
    if request.search and (request.names or request.source):
        raise click.UsageError("--search cannot be combined with names or --from")
    if request.private and (request.redact or request.format != ExportFormat.JSONL):
        raise click.UsageError("--private needs --no-redact and --format jsonl")
    if request.as_json and request.to == _STDOUT:
        raise click.UsageError("-o - and --json both write to stdout; give -o a file")
    if request.second_opinion and not request.redact:
        raise click.UsageError("--second-opinion needs --redact")


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
        redactions=dict(result.report.counts),
        private_record_count=result.report.private_records,
        failed_sessions=(*result.failures, *result.incomplete),
        unredacted_files=tuple(map(encode_path, result.unredacted_files)),
        report_path=encode_path(request.report) if request.report else None,
    )


def _summary_lines(request: ExportRequest, result: _ExportResult) -> Iterator[str]:
    """Yield what was written and what was redacted."""
    if not result.files and request.to != _STDOUT:
        sessions = pluralize(result.sessions, "session")
        same = f"; {result.unchanged:,} unchanged" if result.unchanged else ""
        where = display_path(request.to or Path(_DEFAULT_FOLDER))
        yield f"wrote {sessions} ({format_bytes(result.bytes)}) to {where}{same}"
    if result.empty:
        left = pluralize(result.empty, "session")
        yield f"{left} without messages skipped; --format jsonl includes them"
    if _is_raw_export(request) and not result.files and request.to != _STDOUT:
        yield _OTHER_FILES_NOTE
    if request.redact:
        yield from filter(None, (result.report.summary(),))
        yield from _unredacted_notes(result.unredacted_files)
        return
    yield _NOT_REDACTED_NOTE
    if result.report.private_records:
        left = pluralize(result.report.private_records, "private record")
        yield f"{left} left out; --private includes them"


def _unredacted_notes(files: Sequence[Path]) -> Iterator[str]:
    """Yield a note if files in the folder may not be redacted."""
    if not files:
        return
    first = display_path(files[0])
    them, where = (
        ("it", first) if len(files) == 1 else ("them", f"the first is {first}")
    )
    yield (
        f"note: {pluralize(len(files), 'file')} in the folder may not be redacted; check"
        f" or delete {them} before you share the folder: {where}"
    )


def _scan_for_secrets(
    sessions: Iterable[ExportItem], options: ExportOptions, err: TextIO
) -> Iterator[ExportItem]:
    """Scan all sessions with another program before anything is written."""
    items = list(sessions)
    found = scan_sessions((item.load() for item in items), options)
    err.writelines(
        f"{one.rule}: session {one.session}, record {one.record}\n" for one in found
    )
    if found:
        raise SecretsDetected(len(found), sorted({one.rule for one in found}))
    return iter(items)


_OTHER_FILES_NOTE = (
    "files that are not transcripts, such as workflow journals and long outputs, are not "
    "exported: bygones restore writes every file"
)
_NOT_REDACTED_NOTE = "nothing was redacted; check the output before you share it"


@contextmanager
def _select_sessions(
    request: ExportRequest,
    options: CommonOptions,
    selected: _Selected,
    prices: Prices,
) -> Iterator[_Selection]:
    """Yield the selected sessions, which can be loaded until the context ends."""
    since = request.since
    now = datetime.now(UTC)  # noqa: TID251 (an interface reads the clock)
    start = parse_time_option("--since", since, now=now).start if since else None
    if request.source is not None:
        yield _Selection(
            _select_from_files(request.source, request, start, selected),
            read_source_file,
            frozenset,
        )
        return
    with open_current(options) as archive:
        yield _Selection(
            _select_from_archive(archive, request, start, selected, prices=prices),
            archive.read_source,
            archive.login_names,
        )


def _select_from_files(
    path: Path, request: ExportRequest, start: datetime | None, selected: _Selected
) -> Iterator[ExportItem]:
    names = request.names
    missing = set(names)
    for session in read_sessions(path):
        fitting = {name for name in names if session.id.startswith(name)}
        for name in fitting - missing:
            raise click.UsageError(
                f"several sessions start with {name!r}; use more characters"
            )
        missing -= fitting
        if names and not fitting:
            continue
        if start is not None and not overlaps(TimeRange(start), session):
            continue
        if session.is_empty and not names and not _is_raw_export(request):
            selected.empty += 1
        else:
            files = [(one.id, one.size, one.mtime_ns) for one in session.sources]
            stamp = msgspec.json.encode(files)
            yield ExportItem(
                id=session.id, fingerprint=stamp, load=partial(_return_session, session)
            )
    if missing:
        raise click.UsageError(f"no session starts with {min(missing)!r}")


def _without_copies(items: Iterable[ExportItem]) -> Iterator[ExportItem]:
    """Yield each session once: two people may have pushed it to a hub."""
    known: set[SessionId] = set()
    for item in items:
        if item.id not in known:
            known.add(item.id)
            yield item


def _is_raw_export(request: ExportRequest) -> bool:
    """Whether the original lines are exported, also of empty sessions."""
    return request.format == ExportFormat.JSONL


def _return_session(session: Session) -> Session:
    return session


def _select_from_archive(
    archive: Archive,
    request: ExportRequest,
    start: datetime | None,
    selected: _Selected,
    *,
    prices: Prices,
) -> Iterator[ExportItem]:
    wanted = None
    if request.search is None and not request.select_all:
        wanted, selected.has_project = _resolve_session_ids(archive, request.names)
    for listed in archive.sessions(request.search, include_empty=True):
        if wanted is not None and listed.id not in wanted:
            continue
        if start is not None and not overlaps(TimeRange(start), listed):
            continue
        if listed.is_empty and request.select_all and not _is_raw_export(request):
            selected.empty += 1
        else:
            yield ExportItem(
                id=listed.id,
                fingerprint=msgspec.json.encode(listed),
                load=partial(
                    _load_archived,
                    archive,
                    prices,
                    listed.id,
                    is_raw=_is_raw_export(request),
                ),
            )


def _load_archived(
    archive: Archive, prices: Prices, id_: SessionId, *, is_raw: bool
) -> ExportInput:
    summary = archive.recorded_summary(id_)
    conversation = archive.conversation(id_)
    return ExportInput(
        conversation=conversation,
        summary=summary,
        cost=archive.costs([summary], prices).get(id_),
        # The export of original lines fails if it finds damage.
        damage=None if is_raw else archive.find_damage(conversation),
    )


def _resolve_session_ids(
    archive: Archive, names: Sequence[str]
) -> tuple[set[SessionId], bool]:
    """Return the named sessions and those of named projects, and whether there are any."""
    found = resolve_names(archive, names)
    in_projects = (
        {one.id for one in archive.sessions(project=scope, include_empty=True)}
        for scope in map(project_scope, found.projects)
    )
    return {*found.sessions}.union(*in_projects), bool(found.projects)


def _is_single(request: ExportRequest, count: int, *, has_project: bool) -> bool:
    """Whether the export is one file; `count` is exact up to two."""
    if not count:
        raise click.UsageError(
            f"{_nothing_selected_reason(request)}; nothing was exported"
        )
    to = request.to
    is_alone = count == 1 and len(request.names) <= 1 and not request.select_all
    is_alone = is_alone and request.search is None and not has_project
    is_folder = to is not None and to != _STDOUT and to.is_dir()
    if is_alone and not is_folder and not request.wants_folder:
        return True
    if request.branch or request.turns or to == _STDOUT:
        raise click.UsageError("--branch, --turns and -o - need a single session")
    if (
        to is not None
        and to.suffix == ExportFormat(request.format).suffix
        and not to.is_dir()
    ):
        raise click.UsageError(f"{to} is a file; several sessions need a folder")
    return False


def _nothing_selected_reason(request: ExportRequest) -> str:
    if request.search is not None:
        return f"no sessions match {request.search!r}"
    if request.since is not None:
        return f"no session ended since {request.since}"
    return "the selected sessions have no messages"


def _export_one(
    source: ExportInput, request: ExportRequest, options: ExportOptions, out: TextIO
) -> _ExportResult:
    branch = choose_branch(source.conversation, request.branch)
    turns = _parse_turn_range(request.turns)
    _check_turns(source.conversation, branch, turns.get("first_turn") or 0)
    view = structs.replace(options.view, branch=branch, **turns)
    options = structs.replace(options, view=view)
    log = RedactionLog()
    path = request.to or Path(f"{make_file_name(source.id)}{options.format.suffix}")
    files: list[Path] = []
    if request.to == _STDOUT:
        out.writelines(_text_parts(source, options, log))
    else:
        files = export_session(source, path, options, log)
    report = RedactionReport()
    report.add(source.id, log, keep_details=request.report is not None)
    size = sum(one.stat().st_size for one in files)
    return _ExportResult(
        path=path,
        files=tuple(files),
        bytes=size,
        report=report,
        incomplete={source.id: source.damage} if source.damage is not None else {},
    )


def _text_parts(
    source: ExportInput, options: ExportOptions, log: RedactionLog
) -> Iterator[str]:
    if options.format is not ExportFormat.JSONL:
        yield from render_session(source, options, log)
        return
    for one in iter_transcript_files(
        source.conversation,
        options.open_source,
        options.redactor,
        log,
        include_private=options.include_private,
    ):
        for raw in one.chunks:
            yield raw.decode("utf-8", "surrogateescape")


def _parse_turn_range(text: str | None) -> dict[str, int | None]:
    """Parse turns that count from 1 to the numbers of a view, from 0."""
    if text is None:
        return {}
    first, dash, last = text.partition("-")
    if not first.isdecimal() or not (last.isdecimal() or not last):
        raise click.UsageError(f"{text!r} is not a range of turns; use 2-4, 2- or 2")
    start = int(first) - 1
    end = (int(last) - 1 if last else None) if dash else start
    if start < 0 or (end is not None and end < start):
        raise click.UsageError(
            f"{text!r} is not a range of turns; use 2-4, 2- or 2, counting from 1"
        )
    return {"first_turn": start, "last_turn": end}


def _check_turns(conversation: Conversation, number: int, first: int) -> None:
    if not first:
        return
    turns = conversation.turns(number)
    if first > max((turn.number for turn in turns), default=0):
        has = pluralize(len(turns), "turn")
        raise click.UsageError(f"there is no turn {first + 1}: the branch has {has}")


def _export_many(
    sessions: Iterable[ExportItem], request: ExportRequest, options: ExportOptions
) -> _ExportResult:
    folder = request.to or Path(_DEFAULT_FOLDER)
    keep = request.report is not None
    with explain_interrupt(WRITE_INTERRUPTED), StagedProgressBar() as bar:
        if request.source is None:
            # The archive knows their number; files are read one at a time.
            sessions = list(sessions)
            bar.begin("sessions", len(sessions))
        done = export_folder(
            _count_progress(sessions, bar), folder, options, keep_details=keep
        )
    return _ExportResult(
        path=folder / "index.html" if options.format is ExportFormat.HTML else folder,
        sessions=done.written_sessions,
        unchanged=done.unchanged_sessions,
        bytes=done.bytes_written,
        report=done.report,
        failures=done.failures,
        incomplete=done.incomplete,
        unredacted_files=[folder / name for name in done.unredacted_files],
    )


def _count_progress(
    sessions: Iterable[ExportItem], bar: StagedProgressBar
) -> Iterator[ExportItem]:
    for one in sessions:
        yield one
        bar.advance(1)


FORMATS = tuple(form.value for form in ExportFormat)
_FORMAT_ALIASES = {"md": ExportFormat.MARKDOWN.value, "txt": ExportFormat.TEXT.value}


class _FormatChoice(click.Choice[str]):
    """The name of a format; `md` and `txt` are accepted as well."""

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        return super().convert(_FORMAT_ALIASES.get(value, value), param, ctx)

    def get_invalid_choice_message(self, value: str, ctx: click.Context | None) -> str:
        del ctx
        names = ", ".join(self.choices).replace("markdown", "markdown (or md)")
        return f"{value!r} is not a format; use {names}"


@click.command("export")
@click.argument(
    "names", nargs=-1, metavar="[SESSION|PROJECT]...", shell_complete=complete_names
)
@query_option
@click.option("--all", "select_all", is_flag=True, help="Export all sessions.")
@click.option(
    "--from",
    "source",
    type=path_type(),
    metavar="PATH",
    help="Read transcripts or a home directly, without an archive.",
)
@click.option(
    "--format",
    "format",
    type=_FormatChoice((*FORMATS, PARQUET)),
    default="html",
    metavar="FORMAT",
    help="html, markdown (or md), text, json or jsonl; jsonl is the original lines."
    " parquet writes tables of the whole archive.",
)
@click.option(
    "-o",
    "--to",
    type=click.Path(),
    metavar="PATH",
    help="File for one session; folder for several, or if it ends in /; - is stdout.",
)
@click.option(
    "--branch",
    metavar="NUMBER|LEAF",
    shell_complete=complete_branches,
    show_default="the live branch",
    help="Export this branch: its number, or the id of a record on it.",
)
@click.option("--turns", metavar="FIRST-LAST", help="Only these turns, such as 2-4.")
@click.option("--search", metavar="QUERY", help="Only sessions that match a query.")
@click.option(
    "--since", metavar="WHEN", help="Only sessions that ended since then, such as 30d."
)
@click.option(
    "--redact/--no-redact",
    default=True,
    help="Redact secrets, home folders, user names and email addresses.",
)
@click.option(
    "--private",
    is_flag=True,
    help="With --no-redact --format jsonl: include private records.",
)
@click.option(
    "--second-opinion",
    is_flag=True,
    help="Also scan with gitleaks or kingfisher; stop if they find secrets.",
)
@click.option(
    "--report",
    type=path_type(allow_folder=False),
    metavar="FILE",
    help="Write the position of each redaction to a file.",
)
@archive_options
@json_option
def export(
    names: tuple[str, ...],
    *,
    pick_query: str | None,
    options: CommonOptions,
    **fields: Any,  # noqa: ANN401 (the fields of ExportRequest)
) -> None:
    r"""Export sessions as HTML, Markdown, text or JSON.

    \b
    bygones export 5e551000
    bygones export 5e551000 --format md --turns 2-4
    bygones export . --to site
    bygones export --search retry --to site
    bygones export --all --since 30d --report hidden.jsonl
    bygones export --format parquet --to data

    SESSION is an id or its first characters, "last", or a result number of the last
    search. PROJECT is a directory or a name. Without a name you pick a session.

    One session becomes one self-contained file. Several become a folder, in HTML with
    lists and a search; exporting to it again writes only what changed. Secrets, home
    folders, user names and email addresses are redacted, and private records are left
    out.
    """
    to: str | None = fields.pop("to")
    if to is not None and not to.strip():
        raise click.UsageError(EMPTY_PATH_MESSAGE)
    is_selected = any(fields[name] for name in ("select_all", "source", "search"))
    if pick_query is not None or not (names or is_selected or fields["as_json"]):
        name = names[0] if names else None
        if wants_picker(name, pick_query):
            text = pick_query or ""
            names = (pick_session(options, "export", text=text).session_id,)
    request = ExportRequest(
        names=names,
        to=None if to is None else Path(to),
        wants_folder=to is not None and to.endswith(("/", os.sep)),
        **fields,
    )
    if request.format == PARQUET:
        _export_parquet(request, options)
        return
    validate_request(request)
    run_export(request, options, sys.stdout, sys.stderr)


def _export_parquet(request: ExportRequest, options: CommonOptions) -> None:
    """Write the views of the whole archive as Parquet files."""
    chosen = (
        *(request.names, request.source, request.branch, request.turns),
        *(request.search, request.since, request.private, request.second_opinion),
        request.report,
    )
    if any(chosen):
        raise click.UsageError(
            "--format parquet writes the whole archive; only --to, --redact and --json"
            " can be combined with it"
        )
    if request.to is None or request.to == _STDOUT:
        raise click.UsageError("--format parquet needs --to FOLDER")
    with open_current(options) as archive, StagedProgressBar() as bar:
        prices = load_prices(find_prices_file(os.environ, Path.home()))
        written = archive.export_parquet(
            request.to,
            redact=request.redact,
            prices=prices,
            progress=bar,
        )
    folder = request.to.expanduser()
    left = find_unredacted_files(folder, written.files) if request.redact else []
    unredacted_files = [folder / name for name in left]
    if request.as_json:
        done = _ExportResult(
            path=request.to,
            unredacted_files=unredacted_files,
            files=written.files,
            sessions=written.row_counts["sessions"],
            bytes=written.size,
            report=RedactionReport(),
            incomplete=written.failures,
        )
        print_objects([_result_object(request, done)])
    else:
        sys.stdout.writelines(f"{path}\n" for path in written.files)
    if not (request.as_json or options.quiet):
        rows = sum(written.row_counts.values())
        where = display_path(request.to)
        size = format_bytes(written.size)
        sys.stderr.write(f"wrote {rows:,} rows ({size}) to {where}\n")
        notes = _unredacted_notes(unredacted_files)
        if not request.redact:
            notes = iter((_NOT_REDACTED_NOTE,))
        sys.stderr.writelines(f"{note}\n" for note in notes)
    for session, error in written.failures.items():
        raise TextsMissing(len(written.failures), session, error)
