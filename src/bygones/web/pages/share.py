"""Export sessions from the browser, after a preview of what is redacted."""

from __future__ import annotations

import io
import os
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from functools import partial
from html import escape
from pathlib import Path

import msgspec
from msgspec import Struct, structs
from starlette.responses import Response

from bygones.archive import Archive
from bygones.config import load_redactor
from bygones.errors import BadRequest, NotInArchive
from bygones.export.files import iter_transcript_files, make_file_name
from bygones.export.folder import ExportItem, export_folder
from bygones.export.formats import (
    ExportFormat,
    ExportInput,
    ExportOptions,
    RedactionReport,
    redaction_labels,
    render_session,
)
from bygones.model.base import SessionId
from bygones.model.conversations import BranchSummary
from bygones.model.summary import SessionSummary
from bygones.redact.session import RedactionLog
from bygones.render.html.markup import (
    EMPTY_HTML,
    Html,
    escape_line,
    join_html,
    tag,
)
from bygones.render.numbers import format_bytes, pluralize
from bygones.render.walk import SessionView, select_messages
from bygones.usage.message_costs import make_message_pricer
from bygones.web.context import RequestContext
from bygones.web.icons import icon
from bygones.web.layout import (
    PageMeta,
    build_url,
    empty_message,
    link,
    render_page,
    select_field,
    session_link,
)

_MAX_SESSIONS = 200
_MAX_MESSAGES = 60_000
"""Messages of all sessions that are exported at once."""
_CHECKED_MESSAGES = 500
"""Messages that a preview checks at first: all of 10,000 take about 10 seconds."""
_CHECKED_BYTES = 1_000_000
"""The same for original transcripts."""
_FORMATS = tuple((str(format_), format_.label) for format_ in ExportFormat)


class ShareRequest(Struct, frozen=True, kw_only=True):
    """What is exported, as query parameters."""

    names: tuple[str, ...]
    format: ExportFormat = ExportFormat.HTML
    first: int = 0
    """The first turn, from 1; 0 for all."""
    last: int = 0
    branch: int = 0
    checks_all: bool = False
    """Whether the preview checks everything; by default, only a first part."""

    @classmethod
    def from_request(cls, context: RequestContext) -> ShareRequest:
        names = context.request.query_params.getlist("session")[:_MAX_SESSIONS]
        format_ = context.query_param("format", 20) or ExportFormat.HTML
        if not names or not all(names):
            raise BadRequest("no session is selected")
        if format_ not in set(ExportFormat):
            raise BadRequest(f"format must be one of {', '.join(ExportFormat)}")
        return cls(
            names=tuple(dict.fromkeys(names)),
            format=ExportFormat(format_),
            first=context.query_int("first", 0),
            last=context.query_int("last", 0),
            branch=context.query_int("branch", 0),
            checks_all=context.query_param("check", 10) == "all",
        )

    @property
    def view(self) -> SessionView:
        return SessionView(
            branch=self.branch,
            first_turn=max(self.first - 1, 0),
            last_turn=self.last - 1 if self.last else None,
        )

    @property
    def is_single(self) -> bool:
        return len(self.names) == 1

    def has_turns(self, count: int) -> bool:
        """Whether a session with so many turns has one in the requested range."""
        is_limited = self.is_single and (self.first or self.last)
        return not is_limited or self.first <= min(count, self.last or count)


class _Preview:
    """Checks what is exported, and counts how much of it was checked."""

    def __init__(self, request: ShareRequest, options: ExportOptions) -> None:
        self.request = request
        self._options = options
        self.report = RedactionReport()
        self.messages = 0
        self.total = 0
        """Messages that are exported."""
        self.size = 0
        self.is_complete = True
        self.failed: list[SessionSummary] = []
        """Sessions that cannot be exported."""

    def check(self, source: ExportInput) -> None:
        """Render a session as far as the preview checks it."""
        log = RedactionLog()
        if self._options.format is ExportFormat.JSONL:
            self._check_lines(source, log)
        else:
            self._check_messages(source, log)
        self.report.add(source.id, log)

    def _check_lines(self, source: ExportInput, log: RedactionLog) -> None:
        for chunk in _content(source, self._options, log):
            if self.size >= _CHECKED_BYTES and not self.request.checks_all:
                self.is_complete = False
                return
            self.size += len(chunk)

    def _check_messages(self, source: ExportInput, log: RedactionLog) -> None:
        view = self._options.view
        branch = _find_branch(source, self.request)
        selected = select_messages(source.conversation, branch, view)
        count = selected.stop - selected.start
        self.total += count
        if not self.request.checks_all:
            count = min(count, max(_CHECKED_MESSAGES - self.messages, 0))
        stop = selected.start + count
        if stop < selected.stop:
            self.is_complete = False
            view = structs.replace(
                view, first_message=selected.start, stop_message=stop
            )
        if count or self.is_complete:
            self.messages += count
            options = structs.replace(self._options, view=view)
            self.size += sum(map(len, _content(source, options, log)))


def share_page(context: RequestContext) -> Response:
    """Return the preview: what will be exported, and what is redacted."""
    _check_owner(context)
    request = ShareRequest.from_request(context)
    turn_count = 0
    with context.pool.archive() as archive:
        summaries = _find_sessions(archive, request)
        preview = _Preview(request, _export_options(context, archive, request))
        for summary in summaries:
            try:
                source = _load_input(context, archive, summary.id)
                branch = _find_branch(source, request)
                turn_count = len(source.conversation.turns(branch.number))
                preview.check(source)
            except (OSError, MemoryError):
                raise
            except Exception:
                if request.is_single or request.branch:
                    raise
                preview.failed.append(summary)
    if len(preview.failed) == len(summaries):
        result = _failed_note(preview)
    elif request.has_turns(turn_count):
        result = join_html((_render_preview(preview), _download_button(request)))
    else:
        count = pluralize(turn_count, "turn")
        result = empty_message(f"No turns in this range. The session has {count}.")
    main = (
        tag("h1", escape_line("Export")),
        _session_list(summaries),
        _form(request, turn_count),
        result,
    )
    page = PageMeta(title="Export", nav="/", css_class="plain share")
    return render_page(page, main)


def download(context: RequestContext) -> Response:
    """Return the exported file, or a ZIP archive of several."""
    _check_owner(context)
    request = ShareRequest.from_request(context)
    with context.pool.archive() as archive:
        summaries = _find_sessions(archive, request)
        options = _export_options(context, archive, request)
        if request.is_single:
            source = _load_input(context, archive, summaries[0].id)
            _find_branch(source, request)
            content = b"".join(_content(source, options, RedactionLog()))
            name = f"{make_file_name(source.id)}{request.format.suffix}"
            media_type = request.format.media_type
        else:
            content = _zip_sessions(context, archive, summaries, options)
            name, media_type = "bygones-export.zip", "application/zip"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, media_type=media_type, headers=headers)


def _check_owner(context: RequestContext) -> None:
    if context.pool.folder is None:
        raise NotInArchive("page", "share")


def _find_sessions(archive: Archive, request: ShareRequest) -> list[SessionSummary]:
    summaries = [archive.session_summary(name) for name in request.names]
    if sum(summary.message_count for summary in summaries) > _MAX_MESSAGES:
        raise BadRequest(
            "these sessions are too long to export here; use `bygones export`"
        )
    return summaries


def _load_input(
    context: RequestContext, archive: Archive, id_: SessionId
) -> ExportInput:
    summary = archive.recorded_summary(id_)
    prices = context.app_state.prices
    return ExportInput(
        conversation=archive.conversation(id_),
        summary=summary,
        cost=archive.costs([summary], prices).get(id_) if prices else None,
    )


def _find_branch(source: ExportInput, request: ShareRequest) -> BranchSummary:
    """Return the requested branch."""
    branch = source.conversation.facts.find_branch(request.branch)
    if branch is None:
        raise NotInArchive("branch", str(request.branch + 1))
    return branch


def _export_options(
    context: RequestContext, archive: Archive, request: ShareRequest
) -> ExportOptions:
    prices = context.app_state.prices
    return ExportOptions(
        format=request.format,
        view=request.view,
        redactor=load_redactor(os.environ, Path.home()).with_accounts(
            archive.login_names()
        ),
        message_pricer=make_message_pricer(prices) if prices else None,
        open_source=archive.read_source,
    )


def _content(
    source: ExportInput, options: ExportOptions, log: RedactionLog
) -> Iterator[bytes]:
    if options.format is not ExportFormat.JSONL:
        for part in render_session(source, options, log):
            yield part.encode("utf-8", "backslashreplace")
        return
    files = iter_transcript_files(
        source.conversation,
        options.open_source,
        options.redactor,
        log,
        include_private=False,
    )
    for file in files:
        yield from file.chunks


_FAILED_FILE = "not exported.txt"
_FAILED_TEXT = "These sessions could not be exported; `bygones verify` finds damage in the archive."


def _zip_sessions(
    context: RequestContext,
    archive: Archive,
    summaries: Sequence[SessionSummary],
    options: ExportOptions,
) -> bytes:
    """Return a folder of exported sessions as a ZIP archive."""
    items = (
        ExportItem(
            id=summary.id,
            fingerprint=msgspec.json.encode(summary),
            load=partial(_load_input, context, archive, summary.id),
        )
        for summary in summaries
    )
    out = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "bygones-export")
        result = export_folder(items, root, options)
        # A session that failed may have left some of its files.
        left_out = {root / name for name in result.unredacted_files}
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
            if result.failures:
                text = "\n".join((_FAILED_TEXT, *result.failures, ""))
                file.writestr(
                    f"{root.name}/{_FAILED_FILE}", text.encode("utf-8", "replace")
                )
            for path in sorted({*root.rglob("*")} - left_out):
                if path.is_file() and not path.name.startswith("."):
                    file.write(path, str(path.relative_to(folder)))
    return out.getvalue()


def _share_url(request: ShareRequest, *path: str, check: str = "") -> str:
    query = build_url(
        "share",
        *path,
        format=request.format,
        first=request.first,
        last=request.last,
        branch=request.branch,
        check=check,
    )
    names = "".join(f"&{build_url(session=name)[2:]}" for name in request.names)
    return query + names


def _download_button(request: ShareRequest) -> Html:
    return Html(
        f'<p><a class="button primary" href="{escape(_share_url(request, "download"))}" '
        f"download>{icon('download')}Download</a></p>"
    )


def _session_list(summaries: Sequence[SessionSummary]) -> Html:
    items = (tag("li", session_link(summary)) for summary in summaries)
    return tag("ul", join_html(items), kind="shared-sessions")


def _form(request: ShareRequest, turn_count: int) -> Html:
    """Return format and, for a single session, the range of its turns."""
    hidden = "".join(
        f'<input type="hidden" name="session" value="{escape(name)}">'
        for name in request.names
    )
    if request.branch:
        hidden += f'<input type="hidden" name="branch" value="{request.branch}">'
    turns = EMPTY_HTML
    if request.is_single:
        turns = Html(
            '<label>From turn <input type="number" name="first" min="1" '
            f'max="{turn_count}" placeholder="1" value="{request.first or ""}"></label>'
            f'<label>to <input type="number" name="last" min="1" max="{turn_count}" '
            f'placeholder="{turn_count}" value="{request.last or ""}"></label>'
        )
    return Html(
        '<form class="filters" action="/share" data-live>'
        f"{select_field('format', '', _FORMATS, request.format)}{turns}{hidden}"
        '<button type="submit" class="hidden-with-script">Show</button></form>'
    )


def _render_preview(preview: _Preview) -> Html:
    """Return what was redacted, and how large the export is."""
    report = preview.report
    labels = list(redaction_labels(report.counts))
    if report.private_records:
        labels.append(f"{pluralize(report.private_records, 'private record')} left out")
    items = (tag("li", escape_line(label.replace("-", " "))) for label in labels)
    found = (
        tag("ul", join_html(items))
        if labels
        else tag("p", escape_line("No secrets or personal data were found."))
    )
    size = f"{format_bytes(preview.size)}. " if preview.is_complete else ""
    note = (
        f"{size}Secrets, home folders, user names and email addresses are replaced by "
        "placeholders. Detection is not perfect: read the file before you share it."
    )
    return tag(
        "section",
        join_html(
            (
                tag("h2", escape_line("Redacted")),
                _failed_note(preview) if preview.failed else EMPTY_HTML,
                EMPTY_HTML if preview.is_complete else _partial_note(preview),
                found,
                tag("p", escape_line(note), kind="note"),
            )
        ),
        kind="redactions",
    )


def _failed_note(preview: _Preview) -> Html:
    names = ", ".join(summary.title.text for summary in preview.failed)
    text = f"Cannot be exported and will be left out: {names}"
    return tag("p", escape_line(text), kind="note")


def _partial_note(preview: _Preview) -> Html:
    """Say that only a part was checked, and link to a check of everything."""
    part = (
        f"{preview.messages:,} of {preview.total:,} messages"
        if preview.total
        else format_bytes(preview.size)
    )
    text = f"Counted in the first {part}. The download is redacted completely. "
    url = _share_url(preview.request, check="all")
    return tag(
        "p",
        join_html(
            (
                escape_line(text),
                link(url, escape_line("Count in everything (may take a minute)")),
            )
        ),
        kind="partial",
    )
