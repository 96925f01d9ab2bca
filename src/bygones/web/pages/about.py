"""The about page (facts of the archive) and the page of problems and drift."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from starlette.responses import Response

from bygones import __version__
from bygones.archive import Archive
from bygones.maintenance.retention import read_retention_days
from bygones.model.base import (
    PROBLEM_KINDS,
    Problem,
    SessionId,
    SourceKind,
    encode_path,
)
from bygones.model.problem_runs import count_problems
from bygones.model.reports import DriftRow
from bygones.model.summary import SessionSummary
from bygones.render.headers import describe_verification
from bygones.render.html.markup import Html, escape_line, join_html, tag
from bygones.render.numbers import format_age, format_bytes, pluralize
from bygones.web.context import RequestContext
from bygones.web.layout import (
    PageMeta,
    build_url,
    conversation_url,
    link,
    render_commands,
    render_page,
    render_table,
)

_MAX_EXPIRING = 10
"""Sessions shown in the list of those that Claude Code deletes next."""


def about_page(context: RequestContext) -> Response:
    pool = context.pool
    summaries = pool.summaries()
    file_count, gone_count, stored_bytes = pool.cached("files", _source_counts)
    session_count = sum(not summary.is_empty for summary in summaries)
    rows = [
        ("Bygones", escape_line(__version__)),
        *(_archive_rows(context, pool.folder) if pool.folder else ()),
        (
            "Files",
            escape_line(
                f"{pluralize(file_count, 'file')}, {format_bytes(stored_bytes)}"
            ),
        ),
        ("Deleted by Claude Code", escape_line(_describe_deleted(gone_count))),
        ("Sessions", escape_line(_describe_sessions(session_count, len(summaries)))),
    ]
    if pool.folder:
        homes = ", ".join(map(encode_path, context.app_state.homes))
        rows.append(("Watched homes", escape_line(homes or "none")))
    lines = join_html(
        join_html((tag("dt", escape_line(name)), tag("dd", value)))
        for name, value in rows
    )
    main = (
        tag("h1", escape_line("About this archive")),
        tag("dl", lines, kind="facts-list"),
        *_expiring_sections(context),
        _LOCAL_NOTE if pool.folder else _HUB_NOTE,
    )
    return render_page(PageMeta(title="About", nav="/about"), main)


def _describe_sessions(with_messages: int, total: int) -> str:
    if with_messages == total:
        return f"{total:,}"
    return f"{with_messages:,}, plus {total - with_messages:,} without messages"


def _describe_deleted(count: int) -> str:
    if not count:
        return "nothing yet"
    return f"{pluralize(count, 'file')}, which only this archive still has"


_LOCAL_NOTE = Html(
    '<p class="note">Your sessions stay on this machine: this page loads nothing '
    "from other sites, and only a browser that opened a link from "
    "<code>bygones serve</code> can read it.</p>"
)
_HUB_NOTE = Html(
    '<p class="note">This is a hub. It shows the redacted sessions that people '
    "pushed to it, if your token gives you access to them.</p>"
)


def _archive_rows(
    context: RequestContext, folder: Path
) -> tuple[tuple[str, Html], ...]:
    with context.pool.archive() as archive:
        found = archive.last_verification
    when = format_age(found.verified_at, context.now) if found else ""
    return (
        ("Archive", escape_line(encode_path(folder))),
        ("Disk space", escape_line(format_bytes(_disk_usage(folder)))),
        ("Verified", render_commands(describe_verification(found, when))),
    )


def _expiring_sections(context: RequestContext) -> Iterator[Html]:
    """Yield the sessions that Claude Code deletes next from the watched homes."""
    for home in context.app_state.homes:
        days, is_configured = read_retention_days(home)
        period = timedelta(days=days)
        name = home.as_posix()
        rows = context.pool.cached(
            f"oldest {name}", partial(_oldest_sessions, home=name)
        )
        lines = [
            (
                link(conversation_url(summary.id), escape_line(summary.title.text)),
                escape_line(
                    pluralize(max((time + period - context.now).days, 0), "day")
                ),
            )
            for time, summary in rows
        ]
        title = f"Next to be deleted from {encode_path(home)}"
        yield tag("h2", escape_line(title))
        origin = "from its settings" if is_configured else "the default"
        note = (
            f"Claude Code deletes sessions after {days} days ({origin}). "
            "This archive keeps them."
        )
        yield tag("p", escape_line(note), kind="note")
        yield (
            render_table(("Session", "Deleted in"), lines)
            if lines
            else tag("p", escape_line("There are no sessions in it."), kind="note")
        )


def _oldest_sessions(
    archive: Archive, home: str
) -> list[tuple[datetime, SessionSummary]]:
    summaries = {str(summary.id): summary for summary in archive.sessions()}
    sessions = []
    for source in archive.sources():
        summary = summaries.get(str(source.session))
        is_in_home = source.kind is SourceKind.SESSION and source.home == home
        if summary is not None and is_in_home and source.gone_ns is None:
            modified_at = datetime.fromtimestamp(source.mtime_ns / 1e9, UTC)
            sessions.append((modified_at, summary))
    sessions.sort(key=lambda pair: pair[0])
    return sessions[:_MAX_EXPIRING]


def _source_counts(archive: Archive) -> tuple[int, int, int]:
    sources = archive.sources()
    return (
        len(sources),
        sum(source.gone_ns is not None for source in sources),
        sum(source.stored_bytes for source in sources),
    )


def _disk_usage(folder: Path) -> int:
    return sum(_iter_file_sizes(folder))


def _iter_file_sizes(folder: Path) -> Iterator[int]:
    for path in folder.rglob("*"):
        try:
            yield path.stat().st_size if path.is_file() else 0
        except OSError:
            continue


_MAX_PROBLEMS = 500


def load_problems(archive: Archive) -> tuple[tuple[SessionId, Problem], ...]:
    return tuple(archive.problems())


def load_drift(archive: Archive) -> tuple[DriftRow, ...]:
    return archive.drift()


def problems_page(context: RequestContext) -> Response:
    problems = context.pool.cached("problems", load_problems)
    drift = context.pool.cached("drift", load_drift)
    kind = context.query_param("kind", 40)
    parts = [
        tag("h1", escape_line("Problems and drift")),
        tag(
            "p",
            escape_line(
                "Nothing is lost: the archive has every byte, and everything readable is "
                "shown. A problem is unexpected content in a file. Drift is a record "
                "type, field or version that this version of Bygones does not know."
            ),
            kind="note",
        ),
        tag("h2", escape_line("Problems")),
        _problem_kinds_table(problems),
    ]
    if kind:
        parts.append(_problem_table(problems, kind))
    parts += [tag("h2", escape_line("Drift")), _drift_table(drift)]
    page = PageMeta(title="Problems and drift", nav="/problems", css_class="wide")
    return render_page(page, parts)


def _problem_kinds_table(
    session_problems: tuple[tuple[SessionId, Problem], ...],
) -> Html:
    counts: Counter[str] = Counter()
    for _, problem in session_problems:
        counts[problem.kind] += problem.count
    if not counts:
        return tag("p", escape_line("No problems found."), kind="note")
    lines = [
        (
            link(build_url("problems", kind=kind), escape_line(kind), "word"),
            escape_line(PROBLEM_KINDS[kind].meaning),
            escape_line(f"{count:,}"),
        )
        for kind, count in counts.most_common()
    ]
    return render_table(("Kind", "Meaning", "Count"), lines, text_columns=2)


def _problem_table(
    session_problems: tuple[tuple[SessionId, Problem], ...], kind: str
) -> Html:
    selected = [pair for pair in session_problems if pair[1].kind == kind]
    lines = [
        (
            link(conversation_url(session), escape_line(session[:8])),
            escape_line(problem.position.source_id),
            escape_line(problem.detail),
            escape_line(f"{problem.position.offset:,}"),
            escape_line(f"{problem.count:,}"),
        )
        for session, problem in selected[:_MAX_PROBLEMS]
    ]
    header = ("Session", "File", "Detail", "Byte", "Count")
    table = render_table(header, lines, text_columns=3)
    total = count_problems(problem for _, problem in selected)
    return join_html((tag("h2", escape_line(f"{kind}: {total:,}")), table))


def _drift_table(rows: tuple[DriftRow, ...]) -> Html:
    if not rows:
        text = "No drift: all record types and fields are known."
        return tag("p", escape_line(text), kind="note")
    lines = [
        (
            escape_line(row.kind),
            tag("code", escape_line(row.name)),
            escape_line(row.version or ""),
            escape_line(f"{row.records:,}"),
        )
        for row in rows
    ]
    return render_table(
        ("Kind", "Name", "Claude Code", "Records"), lines, text_columns=3
    )
