"""The page about the archive itself: where it is, what it holds, how it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from starlette.responses import Response

from bygones import __version__
from bygones.archive import Archive
from bygones.config import DEFAULT_CLEANUP_DAYS, read_cleanup_days
from bygones.model.base import PROBLEM_KINDS, Problem, SessionId, SourceKind
from bygones.model.path_text import encode_path
from bygones.model.reports import DriftRow
from bygones.model.summary import SessionSummary
from bygones.render.headers import describe_verification
from bygones.render.html.markup import Html, escape_line, escape_text, join_html, tag
from bygones.render.numbers import format_bytes, pluralize
from bygones.web.context import RequestContext
from bygones.web.layout import (
    PageMeta,
    build_url,
    empty_message,
    format_age,
    link,
    render_page,
    render_table,
)
from bygones.web.pages.home import load_summaries

_MAX_EXPIRING = 10
"""Sessions that are told of, those that go next."""


def about_page(context: RequestContext) -> Response:
    """Answer with what there is to know of the archive."""
    readers = context.pool
    sessions = readers.cached("sessions", load_summaries)
    files, gone, kept = readers.cached("files", _source_counts)
    shown = sum(not one.is_empty for one in sessions)
    rows = [
        ("Bygones", __version__),
        *(_archive_rows(context, readers.folder) if readers.folder else ()),
        ("Keeps", f"{pluralize(files, 'file')}, {format_bytes(kept)} as they were"),
        ("Deleted since", pluralize(gone, "file") + " that only the archive has"),
        ("Sessions", f"{shown:,}, and {len(sessions) - shown:,} without a message"),
    ]
    if readers.folder:
        homes = ", ".join(map(encode_path, context.app_state.homes))
        rows.append(("Watches", homes or "nothing"))
    lines = join_html(
        join_html((tag("dt", escape_line(name)), tag("dd", escape_text(told))))
        for name, told in rows
    )
    main = (
        tag("h1", escape_line("About this archive")),
        tag("dl", lines, kind="facts-list"),
        *_expiring_sections(context),
        _LOCAL_NOTE if readers.folder else _HUB_NOTE,
    )
    return render_page(PageMeta(title="About", nav="/about"), main)


_LOCAL_NOTE = Html(
    '<p class="note">Nothing here leaves this machine: the page loads nothing '
    "from elsewhere, and only whoever has opened the link that "
    "<code>bygones serve</code> printed can read it.</p>"
)
_HUB_NOTE = Html(
    '<p class="note">This is a hub: it shows what people have pushed to it, masked, '
    "as far as your token lets you see it.</p>"
)


def _archive_rows(context: RequestContext, folder: Path) -> tuple[tuple[str, str], ...]:
    with context.pool.archive() as archive:
        found = archive.last_verification
    when = format_age(found.verified_at, context.now) if found else ""
    return (
        ("Archive", encode_path(folder)),
        ("On disk", format_bytes(_disk_usage(folder))),
        ("Verified", describe_verification(found, when)),
    )


def _expiring_sections(context: RequestContext) -> Iterator[Html]:
    """Yield what Claude Code will delete next from the homes that are watched."""
    for home in context.app_state.homes:
        days = read_cleanup_days(home)
        period = timedelta(days=DEFAULT_CLEANUP_DAYS if days is None else days)
        name = home.as_posix()
        rows = context.pool.cached(
            f"oldest {name}", partial(_oldest_sessions, home=name)
        )
        lines = [
            (
                link(build_url("session", one.id), escape_line(one.title.text)),
                escape_line(
                    pluralize(max((time + period - context.now).days, 0), "day")
                ),
            )
            for time, one in rows
        ]
        told = f"What Claude Code deletes next from {encode_path(home)}"
        yield tag("h2", escape_line(told))
        note = f"It deletes after {period.days} days"
        end = ", unless it is told otherwise." if days is None else ", as it was told."
        yield tag("p", escape_line(note + end), kind="note")
        yield render_table(("Session", "Days left"), lines)


def _oldest_sessions(
    archive: Archive, home: str
) -> list[tuple[datetime, SessionSummary]]:
    known = {str(one.id): one for one in archive.sessions()}
    found = []
    for kept in archive.sources():
        one = known.get(str(kept.session))
        is_own = kept.kind is SourceKind.SESSION and kept.home == home
        if one is not None and is_own and kept.gone_ns is None:
            found.append((datetime.fromtimestamp(kept.mtime_ns / 1e9, UTC), one))
    found.sort(key=lambda pair: pair[0])
    return found[:_MAX_EXPIRING]


def _source_counts(archive: Archive) -> tuple[int, int, int]:
    kept = archive.sources()
    return (
        len(kept),
        sum(one.gone_ns is not None for one in kept),
        sum(one.stored_bytes for one in kept),
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
    """Return what is odd about sessions."""
    return tuple(archive.problems())


def load_drift(archive: Archive) -> tuple[DriftRow, ...]:
    """Return what this version knows nothing of."""
    return archive.drift()


def problems_page(context: RequestContext) -> Response:
    """Answer with what is odd, by kind and one by one."""
    told = context.pool.cached("problems", load_problems)
    drift = context.pool.cached("drift", load_drift)
    kind = context.query_param("kind", 40)
    parts = [
        tag("h1", escape_line("Problems and drift")),
        tag(
            "p",
            escape_line(
                "Nothing here is lost: every byte is kept, and what could be read is "
                "shown. Problems are what is odd about the files; drift is what this "
                "version of Bygones has not met before."
            ),
            kind="note",
        ),
        tag("h2", escape_line("Problems")),
        _problem_kinds_table(told),
    ]
    if kind:
        parts.append(_problem_table(told, kind))
    parts += [tag("h2", escape_line("Drift")), _drift_table(drift)]
    frame = PageMeta(title="Problems and drift", nav="/problems", css_class="wide")
    return render_page(frame, parts)


def _problem_kinds_table(
    session_problems: tuple[tuple[SessionId, Problem], ...],
) -> Html:
    counts = Counter(problem.kind for _, problem in session_problems)
    if not counts:
        return empty_message("There are none.")
    lines = [
        (
            link(build_url("problems", kind=kind), escape_line(kind), "word"),
            escape_line(PROBLEM_KINDS[kind].meaning),
            escape_line(f"{count:,}"),
        )
        for kind, count in counts.most_common()
    ]
    return render_table(("Kind", "Means", "How often"), lines, text_columns=2)


def _problem_table(
    session_problems: tuple[tuple[SessionId, Problem], ...], kind: str
) -> Html:
    fitting = [one for one in session_problems if one[1].kind == kind]
    lines = [
        (
            link(build_url("session", session), escape_line(session[:8])),
            escape_line(problem.position.source_id),
            escape_line(problem.detail),
            escape_line(f"{problem.position.offset:,}"),
        )
        for session, problem in fitting[:_MAX_PROBLEMS]
    ]
    shown = render_table(("Session", "File", "Detail", "Byte"), lines, text_columns=3)
    return join_html((tag("h2", escape_line(f"{kind}: {len(fitting):,}")), shown))


def _drift_table(rows: tuple[DriftRow, ...]) -> Html:
    if not rows:
        return empty_message("There is none: every type and field is known.")
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
        ("What", "Name", "Claude Code", "Records"), lines, text_columns=3
    )
