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
from msgspec import Struct
from starlette.responses import Response

from bygones.archive import Archive
from bygones.config import load_redactor
from bygones.errors import BadRequest, NotInArchive
from bygones.export.files import iter_transcript_files, make_file_name
from bygones.export.folder import ExportItem, export_folder
from bygones.export.formats import (
    ExportFormat,
    ExportOptions,
    RedactionReport,
    redaction_labels,
    render_session,
)
from bygones.model.sessions import Branch, Session
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
from bygones.render.walk import SessionView
from bygones.usage.message_costs import make_message_pricer
from bygones.web.context import RequestContext
from bygones.web.icons import icon
from bygones.web.layout import (
    PageMeta,
    build_url,
    empty_message,
    render_page,
    select_field,
    session_link,
)

_MAX_SESSIONS = 200
_MAX_MESSAGES = 60_000
"""Messages of all sessions that are exported at once."""
_FORMATS = tuple((str(format_), format_.label) for format_ in ExportFormat)


class ShareRequest(Struct, frozen=True, kw_only=True):
    """What is exported, as query parameters."""

    names: tuple[str, ...]
    format: ExportFormat = ExportFormat.HTML
    first: int = 0
    """The first turn, from 1; 0 for all."""
    last: int = 0
    branch: int = 0

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


def share_page(context: RequestContext) -> Response:
    """Return the preview: what will be exported, and what is redacted."""
    _check_owner(context)
    request = ShareRequest.from_request(context)
    with context.pool.archive() as archive:
        summaries = _find_sessions(archive, request)
        options = _export_options(context, archive, request)
        report = RedactionReport()
        size = turn_count = 0
        for summary in summaries:
            log = RedactionLog()
            session = archive.session(summary.id)
            turn_count = len(_check_view(session, request).turns)
            size += sum(map(len, _content(session, options, log)))
            report.add(summary.id, log)
    if request.has_turns(turn_count):
        result = join_html((_preview(report, size), _download_button(request)))
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
            session = archive.session(summaries[0].id)
            _check_view(session, request)
            content = b"".join(_content(session, options, RedactionLog()))
            name = f"{make_file_name(session.id)}{request.format.suffix}"
            media_type = request.format.media_type
        else:
            content = _zip_sessions(archive, summaries, options)
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


def _check_view(session: Session, request: ShareRequest) -> Branch:
    """Return the requested branch."""
    for branch in session.branches:
        if branch.number == request.branch:
            return branch
    raise NotInArchive("branch", str(request.branch + 1))


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
        usage_pricer=prices.compute_cost if prices else None,
        open_source=archive.read_source,
    )


def _content(
    session: Session, options: ExportOptions, log: RedactionLog
) -> Iterator[bytes]:
    if options.format is not ExportFormat.JSONL:
        for part in render_session(session, options, log):
            yield part.encode("utf-8", "backslashreplace")
        return
    files = iter_transcript_files(
        session, options.open_source, options.redactor, log, include_private=False
    )
    for file in files:
        yield from file.chunks


def _zip_sessions(
    archive: Archive, summaries: Sequence[SessionSummary], options: ExportOptions
) -> bytes:
    """Return a folder of exported sessions as a ZIP archive."""
    items = (
        ExportItem(
            id=summary.id,
            fingerprint=msgspec.json.encode(summary),
            load=partial(archive.session, summary.id),
        )
        for summary in summaries
    )
    out = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "bygones-export")
        export_folder(items, root, options)
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
            for path in sorted(root.rglob("*")):
                if path.is_file() and not path.name.startswith("."):
                    file.write(path, str(path.relative_to(folder)))
    return out.getvalue()


def _download_url(request: ShareRequest) -> str:
    query = build_url(
        "share",
        "download",
        format=request.format,
        first=request.first,
        last=request.last,
        branch=request.branch,
    )
    names = "".join(f"&{build_url(session=name)[2:]}" for name in request.names)
    return query + names


def _download_button(request: ShareRequest) -> Html:
    return Html(
        f'<p><a class="button primary" href="{escape(_download_url(request))}" '
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


def _preview(report: RedactionReport, size: int) -> Html:
    """Return what was redacted, and how large the export is."""
    labels = list(redaction_labels(report.counts))
    if report.private_records:
        labels.append(f"{pluralize(report.private_records, 'private record')} left out")
    items = (tag("li", escape_line(label.replace("-", " "))) for label in labels)
    found = (
        tag("ul", join_html(items))
        if labels
        else tag("p", escape_line("No secrets or personal data were found."))
    )
    note = (
        f"{format_bytes(size)}. Secrets, home folders, user names and email addresses "
        "are replaced by placeholders. Detection is not perfect: read the file before "
        "you share it."
    )
    return tag(
        "section",
        join_html(
            (
                tag("h2", escape_line("Redacted")),
                found,
                tag("p", escape_line(note), kind="note"),
            )
        ),
        kind="redactions",
    )
